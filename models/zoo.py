#!/usr/bin/env python3
"""Generates the model zoo: the architectures of the field, with random weights, for Triton.

No weights are downloaded. They are seeded, and calibrated so that activations look like those of
trained networks (generators/calibration.py). Each model is then checked with ONNX Runtime: it
must compute what the torch module does, and 16 inputs must give at least 4 different answers.

Usage: zoo.py [NAME... | --small | --ten | --all] [--qdq] [--out DIR] [--force] [--lagoon FILE] [--list]
"""

import argparse
import hashlib
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

from corpus import CorpusError
from generators import ModelError
from generators.catalogue import CATALOGUE, DEFAULT, REALTIME, SMALL, TEN
from generators.images import make_images  # noqa: F401 (for the tests)

HERE = pathlib.Path(__file__).resolve().parent
STAMP = "zoo.json"  # in the model's folder: the key of make_key(), and the hashes of the model's files
QDQ = ".qdq"  # behind the name of a model: its int8 version (ONNX's QuantizeLinear, DequantizeLinear)
QUANTISER_INPUTS = 8
CHECK_SEED = 1000  # added to the seed of the weights, for other inputs than the calibration's
PACKAGES = ("torch", "torchvision", "numpy", "transformers")


def source_files(module, seen=None):
    """The file of a module of `generators` and those it imports from there, sorted."""
    seen = set() if seen is None else seen
    path = HERE / "generators" / f"{module}.py"
    if path not in seen:
        seen.add(path)
        for imported in re.findall(r"^from generators\.(\w+) import", path.read_text(), re.M):
            source_files(imported, seen)
    return sorted(seen)


def make_key(name):
    """Identifies how a model is made: by the sources of its generator, its entry, and the packages' versions."""
    import importlib.metadata as metadata
    entry = CATALOGUE[name]
    digest = hashlib.sha256()
    for path in source_files(entry.family, set(source_files("exporting"))):
        digest.update(path.read_bytes())
    made_from = (name, entry.seed, entry.calibration, name in REALTIME)
    versions = [metadata.version(package) for package in PACKAGES]
    digest.update(repr((made_from, versions)).encode())
    return digest.hexdigest()


def hash_file(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def up_to_date(folder, key):
    """Compares the sizes of files, not hashes: hashing gigabytes at every start would take long."""
    try:
        stamp = json.loads((folder / STAMP).read_text())
        return stamp["key"] == key and all(
            (folder / file).stat().st_size == entry["bytes"]
            for file, entry in stamp["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def generate(name, out, key):
    """Writes one model. The stamp comes last, so that an interrupted model is made again."""
    from generators.exporting import build, check, export, make_config
    entry = CATALOGUE[name]
    folder = out / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    path = folder / "1" / "model.onnx"
    partial = folder / "1" / "model.onnx.partial"
    try:
        network = build(name, entry)
        export(network, partial)
        answers, error = check(network, partial, entry.seed + CHECK_SEED)
        (folder / "config.pbtxt").write_text(make_config(name, partial, name in REALTIME))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return write_stamp(folder, {"key": key, "set": entry.set, "answers": answers, "error": error})


def write_stamp(folder, stamp):
    stamp["files"] = {file: {"bytes": (folder / file).stat().st_size, "sha256": hash_file(folder / file)}
                      for file in ("1/model.onnx", "config.pbtxt")}
    (folder / STAMP).write_text(json.dumps(stamp, indent=2) + "\n")
    return stamp


def count_answers(network, path, seed):
    """The number of different answers of a file. They may differ from the module's."""
    from generators.exporting import CHECKED_INPUTS, MIN_ANSWERS, open_session
    session = open_session(path)
    inputs = network.sample(CHECKED_INPUTS, seed)
    rows = ({name: array[index:index + 1] for name, array in inputs.items()} for index in range(CHECKED_INPUTS))
    answers = {network.answer(session.run(list(network.outputs), row)) for row in rows}
    if len(answers) < MIN_ANSWERS:
        raise ModelError(f"{CHECKED_INPUTS} inputs give {len(answers)} different answers, "
                         f"at least {MIN_ANSWERS} are needed")
    return len(answers)


def quantise(name, out, key):
    """Writes the QDQ version of a model that is there."""
    import numpy as np
    from corpus import packages
    from generators.quantise import run
    entry = CATALOGUE[name]
    network = importlib.import_module(f"generators.{entry.family}").build(name, entry.seed)
    source, folder = out / name, out / f"{name}{QDQ}"
    path = folder / "1" / "model.onnx"
    partial = folder / "1" / "model.onnx.partial"
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    try:
        with tempfile.TemporaryDirectory() as place:
            inputs = pathlib.Path(place) / "inputs.npz"
            np.savez(inputs, **network.sample(QUANTISER_INPUTS, entry.seed))
            run("generators.quantise", [(source / "1" / "model.onnx").absolute(), partial.absolute(), inputs],
                packages.quantiser(HERE / "corpus" / "files" / "packages"))
        answers = count_answers(network, partial, entry.seed + CHECK_SEED)
        config = (source / "config.pbtxt").read_text()
        (folder / "config.pbtxt").write_text(config.replace(f'name: "{name}"', f'name: "{name}{QDQ}"', 1))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return write_stamp(folder, {"key": key, "set": entry.set, "answers": answers})


def make(name, arguments, label):
    """Generates a model unless it is up to date. Raises on any failure."""
    key = make_key(name)
    make_one(name, key, generate, arguments, label)
    if arguments.qdq:
        source = HERE / "generators" / "quantise.py"
        qdq_key = hashlib.sha256(key.encode() + source.read_bytes()).hexdigest()
        make_one(f"{name}{QDQ}", qdq_key, quantise, arguments, f"{label}{QDQ}")


def make_one(folder, key, write, arguments, label):
    if not arguments.force and up_to_date(arguments.out / folder, key):
        print(f"{label}: up to date", flush=True)
        return
    print(f"{label}: generating ...", flush=True)
    start = time.monotonic()
    stamp = write(folder.removesuffix(QDQ), arguments.out, key)
    model = stamp["files"]["1/model.onnx"]
    error = f", error {stamp['error']:.1e}" if "error" in stamp else ""
    print(f"{label}: {model['bytes'] / 1e6:.1f} MB in {time.monotonic() - start:.0f} s, "
          f"{stamp['answers']} answers to 16 inputs{error}, "
          f"sha256 {model['sha256'][:16]}", flush=True)


def compile_with(binary, folder):
    """Compiles the model with `lagoon inspect`. Raises with the last line of its output on failure."""
    result = subprocess.run([binary, "inspect", folder], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ModelError(f"{binary} does not compile it: {said[-1]}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run models", description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("names", nargs="*", metavar="NAME", default=[],
                       help=f"models to make (default: {', '.join(DEFAULT)}, those of the published "
                       "measurements; --list names them all)")
    which.add_argument("--small", action="store_true",
                       help=f"the models that the tests need: {', '.join(SMALL)}")
    which.add_argument("--ten", action="store_true",
                       help=f"models that nobody tuned, to compare engines: {', '.join(TEN)}")
    which.add_argument("--all", action="store_true",
                       help=f"all {len(CATALOGUE)} models, {megabytes(CATALOGUE) / 1000:.1f} GB")
    parser.add_argument("--qdq", action="store_true",
                        help=f"also make each model in int8, NAME{QDQ}: quantised by ONNX Runtime's tool, with "
                        f"{QUANTISER_INPUTS} inputs as calibration")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "zoo", metavar="DIR",
                        help="folder for the repository (default: models/zoo)")
    parser.add_argument("--force", action="store_true", help="also make models that are up to date")
    parser.add_argument("--lagoon", type=pathlib.Path, metavar="FILE",
                        help="a lagoon command, which must be able to compile each model (./run models "
                        "gives the one of build/release if it is built)")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(CATALOGUE))
    if unknown:
        parser.error(f"no model {', '.join(unknown)} in the zoo: there are {', '.join(CATALOGUE)}")
    return arguments


def choose(arguments):
    if arguments.all:
        return list(CATALOGUE)
    if arguments.ten:
        return list(TEN)
    return list(SMALL) if arguments.small else arguments.names or list(DEFAULT)


def megabytes(names):
    return sum(CATALOGUE[name].megabytes for name in names)


def print_list():
    for name, entry in CATALOGUE.items():
        print(f"{name:20} {entry.megabytes:4} MB  {entry.description}")
    print(f"{'in all':20} {megabytes(CATALOGUE):4} MB")


def main():
    """Makes all models, even if one fails. Then the command fails."""
    arguments = parse_arguments()
    if arguments.list:
        print_list()
        return
    names, failed = choose(arguments), []
    for index, name in enumerate(names, 1):
        label = f"[{index}/{len(names)}] {name}"
        try:
            make(name, arguments, label)
            if arguments.lagoon:
                compile_with(arguments.lagoon, arguments.out / name)
        except (ModelError, CorpusError) as error:
            print(f"{label}: FAILED: {error}", file=sys.stderr, flush=True)
            failed.append(name)
        except Exception:  # torch, its exporter and ONNX Runtime have no common base class
            print(f"{label}: FAILED:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        sys.exit(f"{len(failed)} of {len(names)} models failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
