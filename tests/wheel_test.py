"""The wheel of `./run wheel`: installed alone it serves, brings its libraries, and its commands start."""

import json
import pathlib
import subprocess
import sys
import zipfile

import pytest
from conftest import DIGITS, ROOT

SERVE = """
import json, sys, numpy, lagoon
server = lagoon.LagoonProcess("serve", "--models", sys.argv[1], "--workers", 1).wait_ready()
image = numpy.load(sys.argv[2]).astype(numpy.float32)
scores = lagoon.Client(f"http://127.0.0.1:{server.ports['http']}").infer("digits", {"image": image})["scores"]
print(json.dumps({"digit": int(scores.argmax()), "program": server.words[0]}))
server.stop()
server.kill()
"""


@pytest.fixture(scope="module")
def wheel(lagoon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = pathlib.Path(lagoon.binary).parent.parent
    subprocess.run([ROOT / "tools" / "package" / "make-wheel", build, folder / "made", sys.executable], check=True)
    (made,) = (folder / "made" / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The Python of an environment with this wheel; numpy and Ray are those of the machine."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    return folder / "bin"


def clean(installed, *words, **more):
    return subprocess.run([*words], cwd=installed, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
                          timeout=120, check=False, **more)


def test_the_wheel_names_its_version_and_platform(wheel, lagoon):
    version = lagoon.run("version").stdout.split()[1]
    assert wheel.name == f"lagoon_server-{version}-py3-none-manylinux_2_36_x86_64.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("lagoon/native/licenses/") for name in names)
    assert "lagoon/native/bin/lagoon-bench" in names


def test_the_installed_package_serves(installed):
    folder = installed.parent / "models"
    folder.mkdir()
    (folder / "digits").symlink_to(DIGITS)
    image = ROOT / "models" / "digits" / "samples" / "digit-3.npy"
    done = clean(installed, installed / "python", "-c", SERVE, folder, image)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["digit"] == 3
    assert pathlib.Path(answer["program"]).is_relative_to(installed.parent)


def test_the_command_is_the_program(installed, lagoon):
    done = clean(installed, installed / "lagoon", "version")
    assert done.stdout == lagoon.run("version").stdout
    assert clean(installed, installed / "lagoon", "nothing").returncode != 0


def test_the_installed_package_simulates(installed):
    done = clean(installed, installed / "python", "-c", "from lagoon import sim\n"
                 "print(sim.disb('mi50', 'A', ['reef'], requests=10, windows=1, clients='queue').value('throughput_normalized', 'reef'))")
    assert done.returncode == 0, done.stderr
    assert 0.5 < float(done.stdout) < 3


def test_the_command_without_ray_says_what_to_install(installed):
    blocked = "import sys; sys.modules['ray'] = None; sys.argv = ['lagoon', 'fleet', 'up']; import lagoon.cli; lagoon.cli.main()"
    done = clean(installed, installed / "python", "-c", blocked)
    assert done.returncode == 1
    assert "pip install 'lagoon-server[fleet]'" in done.stderr
