"""Makes the models of the zoo: one file per family of architectures.

A family has `build(name, seed) -> Network`, with random weights and not yet calibrated. Families
import torch. `catalogue` and `images` do not, so that a start with nothing to do is quick.
"""


class ModelError(Exception):
    """A model is not as it should be; the text says why."""
