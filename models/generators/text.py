"""Seeded sequences of tokens with the statistics of text."""

import numpy as np


def make_tokens(count, length, vocabulary, seed):
    """int64 [count, length]: frequencies fall as in Zipf's law, and a text repeats its own words.

    Independent uniform tokens would not do: averaged over a sequence, all texts look the same.
    """
    random = np.random.default_rng(seed)
    ranks = np.arange(1, vocabulary + 1)
    order = np.random.default_rng(0).permutation(vocabulary)  # which token has which rank
    common = random.choice(vocabulary, (count, length), p=(1 / ranks) / (1 / ranks).sum())
    topic = random.integers(0, vocabulary, (count, 8))
    own = np.take_along_axis(topic, random.integers(0, 8, (count, length)), axis=1)
    return order[np.where(random.random((count, length)) < 0.3, own, common)].astype(np.int64)
