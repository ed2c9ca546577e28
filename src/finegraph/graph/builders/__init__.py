"""Label graphs from data sets, folders of photos and manifests.

Each builder reads names and links only, never a photo, and gives a `LabelGraph`. Everything wrong with a source comes
in one error, with file and line if there is one.
"""

from finegraph.graph.builders.cars import graph_from_cars
from finegraph.graph.builders.cub import graph_from_cub
from finegraph.graph.builders.folders import graph_from_folders
from finegraph.graph.builders.grocery import graph_from_grocery
from finegraph.graph.builders.manifest import graph_from_manifest

__all__ = ["graph_from_cars", "graph_from_cub", "graph_from_folders", "graph_from_grocery", "graph_from_manifest"]
