"""finegraph: image classifiers whose labels form a graph.

The public names are listed here and loaded when first used, so that importing finegraph is quick and silent.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from finegraph._version import __version__

if TYPE_CHECKING:
    from finegraph.graph import Kind, LabelGraph

_HOME = {
    "Kind": "finegraph.graph",
    "LabelGraph": "finegraph.graph",
}

__all__ = ["Kind", "LabelGraph", "__version__"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'finegraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
