"""Similar photos: an index of the features of a model, and searches in it.

    Index                an index that is open; `search` is all one needs for features
    condition_factors    "the same dish, another restaurant", for `search`
    embed_photos         the features and posteriors of photos

Making and changing an index is in `index_writer.py`, whole tasks from names to results in `finegraph.workflows`.
"""

from finegraph.search.conditions import condition_factors
from finegraph.search.embeddings import embed_photos
from finegraph.search.hits import Hit, StoredPhoto
from finegraph.search.photo_index import Index

__all__ = ["Hit", "Index", "StoredPhoto", "condition_factors", "embed_photos"]
