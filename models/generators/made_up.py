"""The weights of `lagoon make-weights`, computed with numpy: the same bits (src/graph/import/random_weights.h)."""

import numpy as np

GOLDEN, FIRST, SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
SUM_MEAN, SUM_DEVIATION = 131070, 37837.227230  # for a sum of four integers below 2^16
ELEMENTS = 40  # number of bits for the number of an element


def splitmix64(numbers):
    """The outputs of splitmix64, from state 0, with these `numbers`: the first output has number 1."""
    with np.errstate(over="ignore"):
        state = numbers * GOLDEN
        state = (state ^ (state >> np.uint64(30))) * FIRST
        state = (state ^ (state >> np.uint64(27))) * SECOND
        return state ^ (state >> np.uint64(31))


def made_up(index, mean, deviation, shape):
    """Weight number `index` of a model's file (doc_string "normal `mean` `deviation`"), float32 of `shape`."""
    count = int(np.prod(shape))
    bits = splitmix64((np.uint64(index) << np.uint64(ELEMENTS)) + np.arange(1, count + 1, dtype=np.uint64))
    total = sum(((bits >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48))
    step = np.float64(np.float32(np.float64(np.float32(deviation)) / SUM_DEVIATION))
    return (np.float64(np.float32(mean)) + step * (total - SUM_MEAN)).astype(np.float32).reshape(shape)
