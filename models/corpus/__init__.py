"""Makes the corpus: models of many architectures, as a user would bring them to a server.

`tests/corpus.json` lists them. A model comes from a PyPI package that carries it, or from a family
of architectures (one file beside this one each) with random weights, or is a quantised version of
one of these. A family has `build(**arguments) -> torch.nn.Module`.
"""


class CorpusError(Exception):
    """A model cannot be made as tests/corpus.json says; the text says why."""
