"""Makes the models of the zoo: one file per family of architectures.

A family has `build(name, seed) -> Network`, with random weights and not yet calibrated. Families
import torch; `catalogue` and `images` do not, so that a start with nothing to do is quick.
"""


class ModelError(Exception):
    """A model is not what it should be; the text says in what."""
