"""Small photos for tests, and whether files changed."""

import hashlib

import numpy as np
from PIL import Image


def photo(seed=0, width=64, height=48):
    """A picture with structure: a few smooth waves of colour, another one for each seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(rng.uniform(2, 9) * x + rng.uniform(2, 9) * y + rng.uniform(0, 6)) for _ in range(3)]
    return Image.fromarray((127 + 120 * np.stack(waves, axis=2)).astype(np.uint8))


def save(path, seed=0, width=64, height=48, **options):
    """Write a photo, in the format that its name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    photo(seed, width, height).save(path, **options)
    return path


def state_of(folder):
    """What could change in a folder: names, times and contents."""
    return {
        path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
