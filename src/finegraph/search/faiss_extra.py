"""FAISS, which finds near vectors, and which not everybody installs."""

from __future__ import annotations

from typing import Any

from finegraph.errors import MissingExtraError


def load_faiss() -> Any:
    """The module `faiss`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(
            'searching needs faiss, which is not installed; install it with `pip install "finegraph[search]"`'
        ) from error
    return faiss
