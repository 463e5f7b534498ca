"""The examples of examples/in_process over an installed package: with CMake, with pkg-config, from Python, and as a node of ROS 2
that is compiled against stubs of ROS 2's headers (tests/ros2_stubs)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import DIGITS, ROOT

LIBRARY = os.environ.get("LAGOON_LIBRARY", "")
EXAMPLES = ROOT / "examples" / "in_process"
POLICY = DIGITS / "1" / "model.onnx"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-std=c++17"]
pytestmark = pytest.mark.skipif(not LIBRARY, reason="LAGOON_LIBRARY names no liblagoon.so: it is built without sanitizers")


def run(*words, expected=0, **environment):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240, check=False,
                          env={**os.environ, **{name: str(value) for name, value in environment.items()}})
    assert done.returncode == expected, f"{done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(name="package", scope="module")
def fixture_package(tmp_path_factory):
    """The component `library`, as users have it."""
    folder = tmp_path_factory.mktemp("package")
    build = pathlib.Path(LIBRARY).parents[2]
    run("cmake", "--install", build, "--component", "library", "--prefix", folder, "--strip")
    return folder


def check_control_loop(done):
    """Every step was in time or has a reason, and the neighbours were not starved."""
    steps, in_time = map(int, re.search(r"^(\d+) steps, (\d+) in time: [\d.]+ ms at the median", done.stdout, re.M).groups())
    missed = sum(int(count) for count in re.findall(r"^(\d+) missed: \w", done.stdout, re.M))
    assert 240 <= steps <= 260 and in_time > 0 and in_time + missed == steps, done.stdout
    detector, encoder = map(int, re.search(r"(\d+) runs of the detector and (\d+) of the encoder", done.stdout).groups())
    assert detector > 0 and encoder > 0


def test_the_control_loop_builds_with_cmake(package, zoo, tmp_path):
    run("cmake", "-S", EXAMPLES, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={package}", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}")
    run("cmake", "--build", tmp_path)
    program = tmp_path / "control_loop"
    check_control_loop(run(program, POLICY, zoo("mobilenet_v2"), zoo("bert_tiny"), "0.5"))
    assert "usage:" in run(program, expected=2).stderr
    failed = run(program, "absent.onnx", POLICY, POLICY, expected=1)
    assert "absent.onnx" in failed.stderr


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="there is no pkg-config")
def test_the_control_loop_builds_with_pkg_config(package, tmp_path):
    found = run("pkg-config", "--cflags", "--libs", "lagoon", PKG_CONFIG_PATH=package / "lib" / "pkgconfig").stdout.split()
    program = tmp_path / "control_loop"
    run(os.environ.get("CXX", "c++"), *WARNINGS, EXAMPLES / "control_loop.cc", "-o", program, *found, "-pthread")
    check_control_loop(run(program, POLICY, POLICY, POLICY, "0.5"))


def test_the_control_loop_in_python(zoo):
    check_control_loop(run(sys.executable, EXAMPLES / "control_loop.py", POLICY, zoo("mobilenet_v2"), zoo("bert_tiny"), "0.5",
                           PYTHONPATH=ROOT / "python"))


@pytest.fixture(name="node", scope="module")
def fixture_node(package, tmp_path_factory):
    program = tmp_path_factory.mktemp("node") / "control_node"
    run(os.environ.get("CXX", "c++"), *WARNINGS, EXAMPLES / "ros2" / "src" / "control_node.cc", "-o", program, f"-I{EXAMPLES}",
        f"-I{package}/include", f"-isystem{ROOT}/tests/ros2_stubs", f"-L{package}/lib", f"-Wl,-rpath,{package}/lib", "-llagoon",
        "-pthread")
    return program


def test_the_node_of_ros_2_commands_and_detects(node, zoo):
    done = run(node, "--ros-args", "-p", f"policy:={POLICY}", "-p", f"detector:={zoo('mobilenet_v2')}")
    # The stub's executor has 50 ticks. No command goes out before the first answer.
    commands = int(re.search(r"commands: (\d+) messages of 10 values", done.stdout)[1])
    assert 0 < commands <= 50
    assert "detections: 1 messages of 1000 values" in done.stdout


def test_the_node_of_ros_2_says_what_is_wrong(node):
    done = run(node, "-p", f"policy:={POLICY}", "-p", f"detector:={POLICY}")
    assert "an image of 224 x 224 (rgb8) is not what the detector takes" in done.stderr
    assert "detections: 0 messages" in done.stdout
    done = run(node, "-p", f"policy:={POLICY}", "-p", f"detector:={POLICY}", "-p", "rate:=0", expected=-6)
    assert "'rate' must be above 0" in done.stderr
