"""Label graphs: fine labels, kinds and the links between them. Pure numpy; needs no torch."""

from finegraph.errors import Fault
from finegraph.graph.kind import Kind
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Number

__all__ = ["Fault", "Kind", "LabelGraph", "Number"]
