"""A small menu that ships with finegraph, to try things with and for examples in the documentation.

24 dishes of three restaurants. Every form that a cell of a graph file can take occurs in it: one label, one
of several labels with and without weights, all of several labels, yes and no, and unknown. Reading it takes
milliseconds.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from finegraph.graph.label_graph import LabelGraph

SAMPLE_MENU = "sample_menu.csv"


def sample_menu() -> LabelGraph:
    """The menu: dishes, restaurants, how a dish is served, whether it is spicy, and a group of ingredients.

    Example:
        >>> menu = sample_menu()
        >>> len(menu), menu.labels("restaurant")
        (24, ('Chef Yu', 'Lei Garden', 'Shanghai Dumpling'))
    """
    with as_file(files("finegraph.graph") / SAMPLE_MENU) as path:
        return LabelGraph.read(path)
