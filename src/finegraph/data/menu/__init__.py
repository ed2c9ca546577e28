"""The synthetic menu: drawn photos of invented dishes, with the structure of the paper's Food-975.

    ingredients, looks_*, shapes, strands, surface    what each ingredient looks like, piece by piece
    atlas, pools, vessels, tables, clutter            pictures that are made once and pasted often
    restaurants, sauces, methods, recipes, sizes      what is on the menu
    plating, scene, camera                            one photo
    menu                                              all of it: the graph, the list of photos, and drawing one

numpy and Pillow are all it needs. Photos can be drawn in memory or written to files (`finegraph.workflows.menu`).
"""

from finegraph.data.menu.drawn_menu import SPLITS, Menu, Photo
from finegraph.data.menu.sizes import SIZES

__all__ = ["SIZES", "SPLITS", "Menu", "Photo"]
