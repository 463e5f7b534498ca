"""Where the program `lagoon` is."""

import os
import pathlib
import subprocess

PACKAGED = pathlib.Path(__file__).resolve().parent / "native" / "bin" / "lagoon"


def find():
    """The path of the program: that of LAGOON_BINARY if it is set, else the wheel's own."""
    path = os.environ.get("LAGOON_BINARY") or str(PACKAGED)
    if os.access(path, os.X_OK):
        return path
    if "LAGOON_BINARY" in os.environ:
        raise FileNotFoundError(f"LAGOON_BINARY is {path!r}, which is no program")
    raise FileNotFoundError(f"{path} is missing: install a wheel that `./run wheel` made, or set LAGOON_BINARY")


def version(path=None):
    """Version and commit of the program, such as "0.1.0 (commit 4031279)"."""
    words = subprocess.run([path or find(), "version"], capture_output=True, text=True, check=True, timeout=30).stdout
    number, _, rest = words.removeprefix("lagoon ").partition(" ")
    commit = rest.strip("()\n").partition(",")[0]
    return f"{number} ({commit})"
