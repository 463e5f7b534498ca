"""The list of the corpus: tests/corpus.json as Python objects.

An entry of the list:
- `source`: where the file comes from. One of
  {"package", "version", "path"}: a file inside a PyPI package;
  {"family", "arguments"}: made by `corpus.FAMILY.build(**arguments)`;
  {"quantised", "how"}: made from the model with that id, by ONNX Runtime's tools.
- `inputs`: for each input, in order, its `dims` and how to fill it (see `inputs.FILLERS`). A word in
  `dims` is an open dimension; "past+sequence" is the sum of two.
- `outputs`: for each output the names of its leading open dims; null is a fixed one.
- `cases`: the sizes of the open dimensions, and other values that an input takes.
- `tolerance`: the largest difference from ONNX Runtime that is not a wrong answer (see `compare`).
A quantised model takes what it does not say from the model that it was made from.
"""

import dataclasses
import json
import pathlib

from corpus import CorpusError

LIST = pathlib.Path(__file__).resolve().parents[2] / "tests" / "corpus.json"


@dataclasses.dataclass(frozen=True)
class Model:
    id: str
    source: dict
    opset: int
    inputs: dict
    outputs: dict
    cases: tuple
    tolerance: dict
    sha256: str = ""
    small: bool = False  # one of the few models that the tests run
    note: str = ""  # what a reader of the table should know

    @property
    def file(self):
        return f"{self.id}.onnx"

    @property
    def base(self):
        """The id of the model that this one is a quantised version of; "" for others."""
        return self.source.get("quantised", "")

    @property
    def kind(self):
        """The sort of the source: "trained", "quantised" or "architecture"."""
        if "package" in self.source:
            return "trained"
        return "quantised" if self.base else "architecture"


def read(path=LIST):
    """{id: Model} in the order of the list."""
    text = json.loads(path.read_text())
    models = {}
    for entry in text["models"]:
        base = entry["source"].get("quantised")
        if base and base not in models:
            raise CorpusError(f"{path}: '{entry['id']}' is made from '{base}', "
                              "which must stand before it in the list")
        inherited = dataclasses.asdict(models[base]) if base else {}
        for own in ("small", "note", "sha256"):
            inherited.pop(own, None)
        entry = {**inherited, **entry}
        entry["cases"] = tuple(entry["cases"])
        entry["tolerance"] = {**text["tolerance"], **entry.get("tolerance", {})}
        entry.setdefault("outputs", {})
        if entry["id"] in models:
            raise CorpusError(f"{path}: '{entry['id']}' stands there twice")
        models[entry["id"]] = Model(**entry)
    return models
