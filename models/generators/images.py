"""Seeded images that have the spectrum of photographs."""

import numpy as np


def make_images(count, seed, size=224):
    """float32 [count, 3, size, size], about mean 0 and deviation 1, as after normalisation.

    Amplitude falls with 1/frequency as in photographs; colours are correlated, and brightness and
    contrast differ from image to image. White noise would not do: after two poolings it is the
    same grey everywhere.
    """
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :])
    falloff = 1 / np.maximum(frequency, 1 / size) ** random.uniform(0.8, 1.4, (count, 1, 1, 1))
    spectrum = np.fft.rfft2(random.standard_normal((count, 4, size, size))) * falloff
    planes = np.fft.irfft2(spectrum, s=(size, size))
    planes /= planes.std(axis=(2, 3), keepdims=True)
    images = 0.8 * planes[:, :1] + 0.6 * planes[:, 1:]  # a shared luminance and three colours
    contrast = random.uniform(0.5, 1.3, (count, 1, 1, 1))
    cast = random.normal(0, 0.5, (count, 3, 1, 1))
    return (images * contrast + cast).astype(np.float32)
