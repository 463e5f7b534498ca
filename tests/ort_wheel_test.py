"""The wheel lagoon-ort: installed alone it finds its libraries, and makes a program of ONNX Runtime real-time."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

LIBRARY = os.environ.get("LAGOON_ORT_LIBRARY", "")
pytestmark = pytest.mark.skipif(not LIBRARY, reason="LAGOON_ORT_LIBRARY names no plug-in: it is built without sanitizers")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ort_wheel")
    build = pathlib.Path(LIBRARY).parents[2]
    subprocess.run([ROOT / "tools" / "package" / "make-ort-wheel", build, folder / "made", sys.executable], check=True)
    (made,) = (folder / "made" / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment with this wheel; numpy and onnxruntime are those of the machine."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    # A virtual environment in one sees the outer one's packages only by a file.
    site = next((folder / "lib").iterdir()) / "site-packages"
    (site / "outer.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    return folder / "bin" / "python"


def run(python, *words):
    done = subprocess.run([python, *words], capture_output=True, text=True, timeout=120, check=False,
                          env={"PATH": "/usr/bin:/bin"}, cwd=python.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_the_libraries_and_their_licences(wheel):
    assert wheel.name.startswith("lagoon_ort-") and wheel.name.endswith("-py3-none-manylinux_2_36_x86_64.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("liblagoon_ort.so", "liblagoon_ort_core.so"):
        assert f"lagoon_ort/native/{name}" in names
    assert any(name.startswith("lagoon_ort/native/licenses/") for name in names)
    assert not any("libstdc++" in name or "libc.so" in name for name in names)


def test_two_lines_make_a_program_real_time(python):
    script = ROOT / "examples" / "in_process" / "two_lines.py"
    assert run(python, script).startswith("CPUExecutionProvider: a step took")
    assert run(python, script, "--lagoon").startswith("LagoonExecutionProvider: a step took")


def test_its_libraries_come_from_the_wheel(python):
    code = ("import onnxruntime, lagoon_ort; lagoon_ort.register(); "
            "print(lagoon_ort.library_path(), *{line.split()[-1] for line in open('/proc/self/maps') "
            "if 'protobuf.so' in line or 'onnx_proto' in line or 'lagoon' in line})")
    for path in run(python, "-c", code).split():
        assert "site-packages/lagoon_ort/native/" in path, path
