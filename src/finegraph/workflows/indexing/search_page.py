"""The hits of a search as one self-contained HTML file with small pictures.

A photo whose file cannot be read any more is shown without a picture. Cost: decoding each photo once; about 15 kB each.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

from finegraph.data.photo_decoding import read_picture
from finegraph.errors import PhotoFileError
from finegraph.graph.formats.text_file import write_text
from finegraph.search import Hit, StoredPhoto
from finegraph.workflows.search import PhotoHits, SearchResult

SIDE = 300
"""Pixels of the longer side of a small picture."""
_MAX_KINDS = 4
_PAGE = Path(__file__).parents[2] / "search" / "page"


def write_search_page(result: SearchResult, path: str | os.PathLike[str]) -> None:
    """Write the page.

    Args:
        result: what was found.
        path: the file; an existing one is replaced, in one step.

    Raises:
        GraphFileError: the file cannot be written.
    """
    write_text(os.fspath(path), search_page(result).encode("utf-8", "backslashreplace").decode("utf-8"))


def search_page(result: SearchResult) -> str:
    """The page as text."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string((_PAGE / "search.html").read_text(encoding="utf-8"))
    return template.render(
        css=(_PAGE / "search.css").read_text(encoding="utf-8"),
        about=_about(result),
        queries=[_query(query) for query in result.queries],
    )


def _about(result: SearchResult) -> str:
    """The query in words."""
    parts = [f"{result.photos:,} photos in {result.index}, {result.method} search"]
    parts += [f"the same {kind}" for kind in result.same]
    parts += [f"another {kind}" for kind in result.other]
    parts += [f"{kind} is {' or '.join(labels)}" for kind, labels in result.where.items()]
    parts += [f"{kind} is not {' or '.join(labels)}" for kind, labels in result.where_not.items()]
    parts += [f"given that {kind} is {' or '.join(labels)}" for kind, labels in result.given.items()]
    return " · ".join(parts)


def _query(query: PhotoHits) -> dict[str, Any]:
    count = len(query.hits)
    return {
        "title": os.path.basename(query.photo) if query.photo is not None else f"Like {query.label}",
        "picture": None if query.photo is None else _picture(query.photo),
        "found": "; ".join(
            [
                f"{count} photo{'' if count == 1 else 's'} found",
                *(f"{name} {limit}" for name, limit in query.limits.items()),
                *map(in_index_words, query.in_index),
            ]
        ),
        "hits": [_hit(hit) for hit in query.hits],
    }


def in_index_words(photo: StoredPhoto) -> str:
    """A sentence that the photo of a query is in the index."""
    return "this photo is in the index" + ("" if photo.label is None else f" as {photo.label}")


def _hit(hit: Hit) -> dict[str, Any]:
    kinds = _kinds(hit)
    return {
        "name": hit.label or (f"perhaps {hit.guess}" if hit.guess else "no label"),
        "kinds": [
            *kinds[:_MAX_KINDS],
            *([f"and {len(kinds) - _MAX_KINDS} more"] if len(kinds) > _MAX_KINDS else []),
        ],
        "meter": f"{min(max(hit.similarity, 0.0), 1.0):.3f}",
        "score": f"{hit.similarity:.2f}",
        "fits": None if hit.probability is None else f"fits with {hit.probability:.1%}",
        "path": hit.path,
        "file": "/".join(Path(hit.path).parts[-2:]),
        "picture": _picture(hit.path),
    }


def _kinds(hit: Hit) -> list[str]:
    """The labels of a photo in words; `ingredient: tofu` and `ingredient: pork` share a line, and a "no" has none."""
    words: list[str] = []
    groups: dict[str, list[str]] = {}
    for kind, labels in hit.kinds.items():
        group, mark, part = kind.partition(": ")
        if labels == ("yes",) and mark:
            groups.setdefault(group, []).append(part)
        elif labels != ("no",):
            words.append(kind if labels == ("yes",) else f"{kind}: {' or '.join(labels)}")
    values = [f"{name}: {value:.6g}" for name, value in hit.values.items()]
    return [*values, *words, *(f"{group}: {', '.join(parts)}" for group, parts in groups.items())]


def _picture(path: str) -> str | None:
    """A small picture as part of the page; None if the photo cannot be read."""
    try:
        picture = read_picture(path, at_least=(SIDE, SIDE))
    except PhotoFileError:
        return None
    picture.thumbnail((SIDE, SIDE))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode("ascii")
