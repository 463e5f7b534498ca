#!/usr/bin/env python3
"""Makes the models of tests/corpus.json that are missing or out of date.

Usage: make.py [--only PATTERN] [--out DIR] [--force]
"""

import argparse
import fnmatch
import hashlib
import json
import os
import pathlib
import sys
import time

MODELS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(MODELS))

from corpus import CorpusError, packages  # pylint: disable=wrong-import-position
from corpus.catalogue import read  # pylint: disable=wrong-import-position
from generators import ModelError  # pylint: disable=wrong-import-position
from generators.quantise import run  # pylint: disable=wrong-import-position

FILES = MODELS / "corpus" / "files"
COMMON = ("exporting.py", "inputs.py", "catalogue.py")  # what each made file depends on


def choose(models, pattern):
    """The ids that match `pattern`: words with * and ?, separated by commas."""
    wanted = [name for name in models
              if any(fnmatch.fnmatch(name, word) for word in (pattern or "*").split(","))]
    if not wanted:
        raise CorpusError(f"no model matches '{pattern}'; ./run corpus --list names them")
    return wanted


def sources(model):
    """The files whose text decides how a model is made."""
    here = pathlib.Path(__file__).parent
    if model.kind == "trained":
        return []
    if model.kind == "quantised":
        return [here / "quantising.py", MODELS / "generators" / "quantise.py"]
    extra = ["once.py"] if model.source["family"] in ("decoders", "translators") else []
    return [here / name for name in (*COMMON, f"{model.source['family']}.py", *extra)]


def key_of(model, models):
    """Identifies how a model is made; another key means that it has to be made again."""
    digest = hashlib.sha256()
    for path in sources(model):
        digest.update(path.read_bytes())
    made_from = (model.source, model.opset, model.inputs, model.outputs, model.cases[0])
    digest.update(json.dumps(made_from).encode())
    if model.base:
        digest.update(key_of(models[model.base], models).encode())
    return digest.hexdigest()


def quantise(model, path, out):
    source = out / f"{model.base}.onnx"
    try:
        run("corpus.quantising", [model.id, source.absolute(), path.absolute()],
            packages.quantiser(out / "packages"))
    except ModelError as error:
        raise CorpusError(f"'{model.id}': {error}") from None


def make(model, path, out):
    if model.kind == "trained":
        packages.extract(model.source, path, out / "packages")
    elif model.kind == "quantised":
        quantise(model, path, out)
    else:
        from corpus.exporting import export  # torch takes seconds to import
        export(model, path)


def check_hash(model, path):
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if model.sha256 and found != model.sha256:
        raise CorpusError(f"'{model.id}': {path} has sha256 {found}, the list says {model.sha256}")


def ensure(name, models, out, force=False):
    """Makes a model and what it is made from, unless they are there. True if it was made now."""
    model = models[name]
    if model.base:
        ensure(model.base, models, out)
    path, stamp = out / model.file, out / f"{model.id}.key"
    key = key_of(model, models)
    if not force and path.exists() and stamp.exists() and stamp.read_text() == key:
        return False
    stamp.unlink(missing_ok=True)
    partial = out / f"{model.id}.{os.getpid()}.partial"  # two commands may make it at once
    try:
        make(model, partial, out)
        check_hash(model, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    stamp.write_text(key)
    return True


def make_all(names, models, out, force=False):
    """Makes all of them, even if one fails. Returns {id: message} of the failures."""
    out.mkdir(parents=True, exist_ok=True)
    failed = {}
    for index, name in enumerate(names, 1):
        label, start = f"[{index}/{len(names)}] {name}", time.monotonic()
        try:
            if ensure(name, models, out, force):
                megabytes = (out / models[name].file).stat().st_size / 1e6
                print(f"{label}: {megabytes:.1f} MB in {time.monotonic() - start:.0f} s",
                      flush=True)
        except Exception as error:  # torch, its exporter and pip have no common base class
            lines = str(error).strip().splitlines() or [type(error).__name__]
            failed[name] = f"{type(error).__name__}: {lines[0]}"
            print(f"{label}: FAILED: {failed[name]}", file=sys.stderr, flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PATTERN", help="such as 'bert*,gpt2'")
    parser.add_argument("--out", type=pathlib.Path, default=FILES, metavar="DIR")
    parser.add_argument("--force", action="store_true", help="make them even if they are there")
    words = parser.parse_args()
    models = read()
    failed = make_all(choose(models, words.only), models, words.out, words.force)
    if failed:
        sys.exit(f"{len(failed)} models failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
