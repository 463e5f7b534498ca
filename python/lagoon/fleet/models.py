"""The model repository of a fleet: what it holds, and how nodes get it.

Layout as `lagoon serve` reads it: MODEL/VERSION/model.onnx and MODEL/config.pbtxt. A repository is a path that every
node sees, or its models travel as archives through Ray's object store.
"""

import contextlib
import hashlib
import io
import os
import pathlib
import shutil
import tarfile
import tempfile

from lagoon.fleet.plan import Model

RUNTIME_FACTOR = 2  # memory of a loaded model for each byte of its files: weights in the kernels' layout, and buffers


def scan(repository, slo_ms):
    """The models of a repository, by name. FileNotFoundError: there is no such folder, or no model in it."""
    root = pathlib.Path(repository)
    models = []
    for folder in sorted(root.iterdir()):
        if any(folder.glob("[0-9]*/*")):
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            models.append(Model(folder.name, RUNTIME_FACTOR * size, slo_ms))
    if not models:
        raise FileNotFoundError(f"there is no model in {root}: a model is a folder NAME/1/model.onnx")
    return models


def pack(repository, model):
    """A model's folder as an archive. Links are followed, so that the archive is whole."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as archive:
        archive.add(str(pathlib.Path(repository) / model), arcname=model)
    return out.getvalue()


class ModelStore:
    """The models that a node has: those of a shared path, or archives that were unpacked into a folder of its own."""

    def __init__(self, shared=None):
        self._shared = pathlib.Path(shared) if shared else None
        self._cache = None if shared else tempfile.TemporaryDirectory(prefix="lagoon-models-")
        self._unpacked = {}  # model: hash of its archive

    def add(self, model, archive):
        """Unpacks an archive of pack(), unless this one is there."""
        digest = hashlib.sha256(archive).hexdigest()
        if self._unpacked.get(model) == digest:
            return
        folder = pathlib.Path(self._cache.name) / digest[:16]
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            # The oldest Pythons of 3.9 to 3.11 have no filters; the archives are the fleet's own.
            tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        self._unpacked[model] = digest

    def missing(self, models):
        """Those of `models` that are not here."""
        return [model for model in models if not self._folder(model).is_dir()]

    def _folder(self, model):
        if self._shared is not None:
            return self._shared / model
        return pathlib.Path(self._cache.name) / self._unpacked.get(model, "missing")[:16] / model

    @contextlib.contextmanager
    def _new_view(self):
        folder = tempfile.mkdtemp(prefix="lagoon-view-")
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def view(self, models):
        """A repository with links to these models only; the caller removes it. FileNotFoundError names a model that is
        not here."""
        absent = self.missing(models)
        if absent:
            where = self._shared or "the archives of this node"
            raise FileNotFoundError(f"models {', '.join(absent)} are not in {where}")
        with self._new_view() as folder:
            for model in models:
                os.symlink(self._folder(model).resolve(), pathlib.Path(folder) / model)
            return folder

    def close(self):
        if self._cache is not None:
            self._cache.cleanup()
