"""Random numbers that depend on names alone: the same names give the same numbers, in any order of calls."""

from __future__ import annotations

import hashlib

import numpy as np


def chance(*names: object) -> np.random.Generator:
    """A source of random numbers that goes with some names."""
    text = "/".join(map(str, names)).encode()
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(text).digest()[:16], "little")))
