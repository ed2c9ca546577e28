"""Silence for torch's exporters, which warn of their own insides whatever is exported."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch's exporters have to say about themselves."""
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript", "torch.export")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
