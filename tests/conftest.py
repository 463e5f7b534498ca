"""Shared by the Python tests: paths, the `lagoon` binary, models and images."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models"))  # zoo.make_images
# Profiles of these runs go to a folder of their own, which lasts as long as the test session.
CACHE = tempfile.TemporaryDirectory(prefix="lagoon-tests-")
os.environ["XDG_CACHE_HOME"] = CACHE.name

DIGITS = ROOT / "models" / "repository" / "digits"
TOLERANCE = 1e-4


def relative_error(actual, expected):
    """max|a - b| / max|b|: relative to the whole tensor, as single elements may be near 0."""
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert np.isfinite(actual).all()
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    difference = float(np.abs(actual - expected).max(initial=0))
    scale = float(np.abs(expected).max(initial=0))
    return difference if scale == 0 else difference / scale


def run_onnxruntime(path, inputs):
    """{output name: array} from ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


class Lagoon:
    """The command under test."""

    def __init__(self, binary):
        self.binary = binary

    def run(self, *words, timeout=120, folder=None):
        return subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True,
                              timeout=timeout, check=False, cwd=folder)

    def infer(self, model, inputs, folder):
        """{output name: array}; `folder` takes the tensors' files. Without an engine: these are
        tests of Lagoon's own kernels."""
        words = ["infer", model, "--engine", "none", "--output-dir", folder / "out"]
        for index, (name, array) in enumerate(inputs.items()):
            file = folder / f"in{index}.npy"
            np.save(file, array)
            words += ["--input", f"{name}={file}"]
        result = self.run(*words)
        assert result.returncode == 0, result.stderr
        return {file.stem: np.load(file) for file in (folder / "out").glob("*.npy")}


@pytest.fixture(scope="session")
def lagoon():
    binary = os.environ.get("LAGOON_BINARY", "")
    if not os.access(binary, os.X_OK):
        pytest.fail(f"LAGOON_BINARY must name the lagoon command; it is {binary!r}", pytrace=False)
    return Lagoon(binary)


@pytest.fixture(scope="session")
def zoo():
    """name -> ONNX file. A model that is missing or not up to date is generated."""
    def get(name):
        subprocess.run([sys.executable, "-W", "ignore", ROOT / "models" / "zoo.py", name],
                       check=True)
        return ROOT / "models" / "zoo" / name / "1" / "model.onnx"
    return get


@pytest.fixture(scope="session")
def test_split():
    """(images float32 [360, 1, 8, 8] in 0..1, labels [360]), not used in the training."""
    split = np.load(ROOT / "models" / "digits" / "test_split.npz")
    return (split["images"].astype(np.float32) / 16)[:, None], split["labels"]


@pytest.fixture(scope="session")
def digit_scores(test_split):
    """ONNX Runtime's scores for the test split: float32 [360, 10]."""
    session = onnxruntime.InferenceSession(str(DIGITS / "1" / "model.onnx"),
                                           providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"image": image[None]})[0] for image in test_split[0]])


def copy_model(source, folder, name, more_config=""):
    """Copies a model's folder as `name` into the repository `folder`, with more config lines."""
    target = folder / name
    shutil.copytree(source, target)
    config = (target / "config.pbtxt").read_text()
    config = re.sub(r'^name: ".*"', f'name: "{name}"', config, flags=re.M)
    (target / "config.pbtxt").write_text(config + more_config)
    return target


@pytest.fixture(scope="session")
def repository(zoo, tmp_path_factory):
    """A repository with real-time and best-effort models."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "digits").symlink_to(DIGITS)
    for name in ("resnet18", "mobilenet_v2"):
        (folder / name).symlink_to(zoo(name).parent.parent)
    return folder
