"""Photos of the index as JSON, and which of the photos of a request are among them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from finegraph.search import StoredPhoto
from finegraph.web.problems import ProblemError
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import OpenIndex
from finegraph.web.serve.server_state import ServerState
from finegraph.web.serve.uploads import Photo


def stored_contents(state: ServerState, opened: OpenIndex, photos: Sequence[StoredPhoto]) -> list[dict[str, Any]]:
    """Photos of the index as JSON: the name of the file alone and a key, never a path of this machine."""
    contents = []
    for photo in photos:
        content = photo.to_dict()
        path = content.pop("path")
        # Names of files may be any bytes, and JSON holds text only.
        content["name"] = os.path.basename(path).encode("utf-8", "backslashreplace").decode("utf-8")
        content["thumbnail"] = f"/v1/photos/{state.thumbnails.key(opened.place(photo))}"
        contents.append(content)
    return contents


def copies_of(state: ServerState, model: ServedModel, photos: Sequence[Photo]) -> list[list[dict[str, Any]] | None]:
    """For each photo its copies in the index as JSON; None if there is no index, or none that can be opened now."""
    if state.index is None:
        return [None] * len(photos)
    try:
        opened = state.index.current(state.index.model)
    except ProblemError:  # an answer needs no index
        return [None] * len(photos)
    return [stored_contents(state, opened, found) for found in opened.copies([photo.content for photo in photos])]
