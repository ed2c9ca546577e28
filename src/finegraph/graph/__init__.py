"""What labels are and how they relate. Pure numpy; needs no torch."""

from finegraph.errors import Fault
from finegraph.graph.kind import Kind
from finegraph.graph.label_graph import LabelGraph

__all__ = ["Fault", "Kind", "LabelGraph"]
