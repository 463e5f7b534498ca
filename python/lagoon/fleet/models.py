"""The model repository of a fleet: a path that every node sees, or archives that travel through Ray's object store.

Layout as `lagoon serve` reads it: MODEL/VERSION/model.onnx and MODEL/config.pbtxt.
"""

import io
import pathlib
import tarfile
import tempfile


def names(repository):
    """The models of a repository. FileNotFoundError: there is no such folder, or no model in it."""
    root = pathlib.Path(repository)
    found = [folder.name for folder in sorted(root.iterdir()) if any(folder.glob("[0-9]*/*"))]
    if not found:
        raise FileNotFoundError(f"there is no model in {root}: a model is a folder NAME/1/model.onnx")
    return found


def pack(repository, model):
    """A model's folder as an archive. Links are followed, so that the archive is whole."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as archive:
        archive.add(str(pathlib.Path(repository) / model), arcname=model)
    return out.getvalue()


class ModelStore:
    """The repository of a node: a shared path, or a folder of its own that archives are unpacked into."""

    def __init__(self, shared=None):
        self._cache = None if shared else tempfile.TemporaryDirectory(prefix="lagoon-models-")
        self.folder = pathlib.Path(shared) if shared else pathlib.Path(self._cache.name)

    def add(self, archive):
        """Unpacks an archive of pack()."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            # The oldest Pythons of 3.9 to 3.11 have no filters; the archives are the fleet's own.
            tar.extractall(self.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))

    def close(self):
        if self._cache is not None:
            self._cache.cleanup()
