"""Seeded inputs of a model for given sizes of its open dimensions."""

import numpy as np

from PIL import Image, ImageDraw

from generators.images import make_images
from generators.text import make_tokens


def size_of(dim, sizes):
    """A dim as a number: 3, "batch", or the sum "past+sequence"."""
    if isinstance(dim, int):
        return dim
    return sum(int(part) if part.isdigit() else sizes[part] for part in dim.split("+"))


def shape_of(spec, sizes):
    return tuple(size_of(dim, sizes) for dim in spec["dims"])


def tokens(spec, shape, random, _):
    rows = int(np.prod(shape[:-1]))
    return make_tokens(rows, shape[-1], spec["below"], int(random.integers(1 << 30))).reshape(shape)


def mask(_, shape, random, __):
    """Ones; behind the first quarter or more of a row, the rest of the row may be 0."""
    lengths = random.integers(shape[-1] // 4 + 1, shape[-1] + 1, (*shape[:-1], 1))
    lengths[0] = shape[-1]
    return np.arange(shape[-1]) < lengths


def image(spec, shape, random, _):
    """Images with the spectrum of photographs, of any height and width. `spec["range"]`: "unit" is
    0 to 1, otherwise the mean is about 0 and the deviation 1."""
    *rows, channels, height, width = shape
    count = int(np.prod(rows))
    square = make_images(count, int(random.integers(1 << 30)), max(height, width))
    array = square[:, :channels, :height, :width].reshape(shape)
    return np.clip(array / 4 + 0.5, 0, 1) if spec.get("range") == "unit" else array


def page(_, shape, random, __):
    """Black words on white paper, -1 to 1; each word has a letter's height of about 24 pixels."""
    *rows, channels, height, width = shape
    pages = []
    for _ in range(int(np.prod(rows))):
        small = Image.new("L", ((width + 1) // 2, (height + 1) // 2), 255)
        draw = ImageDraw.Draw(small)
        for line in range(6, max(small.height - 11, 7), 18):
            letters = "".join(random.choice(list("ABCDEFGHKLMNORSTUV 0123456789"), 80))
            draw.text((4, line), letters[:max((small.width - 8) // 6, 1)], fill=0)
        pages.append(np.asarray(small.resize((2 * small.width, 2 * small.height)))[:height, :width])
    one = np.stack(pages).astype(np.float32) / 127.5 - 1
    return np.repeat(one[:, None], channels, axis=1).reshape(shape)


def audio(_, shape, random, __):
    """A hum with overtones that comes and goes, with noise: -1 to 1."""
    time = np.arange(shape[-1]) / 16000
    pitch = random.uniform(90, 250, (*shape[:-1], 1))
    tones = sum(np.sin(2 * np.pi * pitch * n * time) / n for n in range(1, 8))
    loudness = 0.5 + 0.5 * np.sin(2 * np.pi * 3 * time)
    return 0.2 * tones * loudness + 0.02 * random.standard_normal(shape)


def normal(spec, shape, random, _):
    return random.standard_normal(shape) * spec.get("scale", 1)


def zeros(_, shape, __, ___):
    return np.zeros(shape)


def ones(_, shape, __, ___):
    return np.ones(shape)


def text_bytes(spec, shape, random, _):
    """Bytes of a text file; from `spec["from"]` on there are only padding tokens."""
    array = random.choice(np.frombuffer(b"the quick brown fox {}();=\n", np.uint8), shape)
    array = array.astype(np.int64)
    array[..., spec["from"]:] = spec["padding"]
    return array


def positions(spec, shape, _, sizes):
    start = size_of(spec.get("from", 0), sizes)
    return np.broadcast_to(np.arange(start, start + shape[-1]), shape)


def value(spec, shape, _, sizes):
    return np.full(shape, size_of(spec["value"], sizes))


FILLERS = {"tokens": tokens, "mask": mask, "image": image, "page": page, "audio": audio, "normal": normal,
           "zeros": zeros, "ones": ones, "bytes": text_bytes, "positions": positions,
           "value": value}
DEFAULT_TYPES = {"tokens": "int64", "mask": "int64", "positions": "int64", "value": "int64"}


def make_inputs(specs, sizes, seed=0):
    """{input: array} for the `inputs` of a model and one of its cases."""
    arrays = {}
    for index, (name, spec) in enumerate(specs.items()):
        random = np.random.default_rng((seed, index))
        array = FILLERS[spec["fill"]](spec, shape_of(spec, sizes), random, sizes)
        kind = spec.get("type", DEFAULT_TYPES.get(spec["fill"], "float32"))
        arrays[name] = np.ascontiguousarray(array, kind).reshape(np.shape(array))
    return arrays
