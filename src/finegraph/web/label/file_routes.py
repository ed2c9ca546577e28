"""Import and export of files. An import is previewed as a list of changes, then applied as one action.

An import is bound to its preview: if it would now change something else, the answer is 409 with a new preview.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import Comparison, is_comparisons
from finegraph.graph.graph_files import graph_from_csv, graph_from_json
from finegraph.labelling import LabelStore
from finegraph.labelling.exchange.label_studio import Content, parse_tasks
from finegraph.labelling.store.records import PhotoLabel
from finegraph.web.label.json_routes import JsonRouter, only_for
from finegraph.web.label.request_bodies import Import, ImportFile
from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
MAX_LISTED = 500
"""How many changes a preview lists; its counts are of all."""
MEDIA_TYPES = {
    "csv": "text/csv",
    "photos": "text/csv",
    "comparisons": "text/csv",
    "json": "application/json",
    "label-studio": "application/json",
}


def file_routes(session: LabelSession) -> APIRouter:
    """The routes of a session for files."""
    router = JsonRouter(prefix="/api", dependencies=[Depends(only_for(session.store))])
    store = session.store

    @router.get("/export/{form}")
    def export(
        form: Literal["csv", "json", "label-studio", "photos", "comparisons"],
        compared: Literal["classes", "photos"] | None = None,
    ) -> Response:
        """A state as a file; with `compared`, comparisons give values where a graph has none."""
        return Response(store.export_text(form, compared=compared), media_type=MEDIA_TYPES[form])

    @router.post("/import/preview")
    def preview(body: ImportFile) -> Json:
        found = read_content(body.name, body.text, store)
        if isinstance(found, Comparisons):
            return listed(store.preview_comparisons(found).to_dict())
        made = store.preview_photos(found) if isinstance(found, list) else store.preview_import(found)
        return listed(made.to_dict())

    @router.post("/import")
    def take_over(body: Import) -> Json:
        found = read_content(body.name, body.text, store)
        if isinstance(found, Comparisons):
            done = store.import_comparisons(found, person=body.person, edit_id=body.edit, digest=body.digest)
        elif isinstance(found, list):
            done = store.import_photos(found, person=body.person, edit_id=body.edit, digest=body.digest)
        elif isinstance(found, Content):
            done = store.import_content(found, person=body.person, edit_id=body.edit, digest=body.digest)
        else:
            done = store.import_graph(found, person=body.person, edit_id=body.edit, digest=body.digest)
        return {**done.to_dict(), "names": True}

    return router


def listed(preview: Json) -> Json:
    """A preview of an import as it is sent: how many changes there are, and the first of them."""
    return {**preview, "total": len(preview["changes"]), "changes": preview["changes"][:MAX_LISTED]}


class Comparisons(tuple[Comparison, ...]):
    """The comparisons of a file."""


def read_content(name: str, text: str, store: LabelStore) -> LabelGraph | Content | list[PhotoLabel] | Comparisons:
    """What a file holds, by the ending of its name and its first words.

    A JSON file with a list is one of Label Studio; a CSV file whose first column is `path` has photo labels, one that
    begins with `kind,more,less` comparisons.

    Raises:
        GraphFileError: with all faults of the file.
        InputError: the ending is another, or the file is no such file.
    """
    shown = PurePosixPath(name.replace("\\", "/")).name
    if shown.lower().endswith(".csv"):
        content = text.removeprefix("\ufeff")
        if is_comparisons(content):
            return Comparisons(store.parse_comparisons(content, shown))
        return store.parse_photos(content, shown) if content.startswith("path,") else graph_from_csv(content, shown)[0]
    if not shown.lower().endswith(".json"):
        raise InputError(f"{shown!r}: expected a file that ends in .csv or .json; rename it")
    return parse_tasks(text, shown) if _is_list(text) else graph_from_json(text, shown)


def _is_list(text: str) -> bool:
    """Whether a JSON text holds a list; faults are left to the full reader."""
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False
