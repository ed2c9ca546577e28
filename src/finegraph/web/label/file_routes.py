"""Import and export of files. An import is previewed as a list of changes, then applied as one action.

An import names its preview: if it would now change anything else, the answer is 409 with a new preview.
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
        """The current state as a file; with `compared`, comparisons fill in values that the graph does not have."""
        return Response(store.export_text(form, compared=compared), media_type=MEDIA_TYPES[form])

    @router.post("/import/preview")
    def preview(body: ImportFile) -> Json:
        content = read_content(body.name, body.text, store)
        if isinstance(content, Comparisons):
            return import_preview(store.preview_comparisons(content).to_dict())
        planned = store.preview_photos(content) if isinstance(content, list) else store.preview_import(content)
        return import_preview(planned.to_dict())

    @router.post("/import")
    def import_file(body: Import) -> Json:
        content = read_content(body.name, body.text, store)
        if isinstance(content, Comparisons):
            result = store.import_comparisons(content, person=body.person, edit_id=body.edit, digest=body.digest)
        elif isinstance(content, list):
            result = store.import_photos(content, person=body.person, edit_id=body.edit, digest=body.digest)
        elif isinstance(content, Content):
            result = store.import_content(content, person=body.person, edit_id=body.edit, digest=body.digest)
        else:
            result = store.import_graph(content, person=body.person, edit_id=body.edit, digest=body.digest)
        return {**result.to_dict(), "names": True}

    return router


def import_preview(preview: Json) -> Json:
    """A preview of an import as it is sent: the number of changes, and the first of them."""
    return {**preview, "total": len(preview["changes"]), "changes": preview["changes"][:MAX_LISTED]}


class Comparisons(tuple[Comparison, ...]):
    """The comparisons of a file."""


def read_content(name: str, text: str, store: LabelStore) -> LabelGraph | Content | list[PhotoLabel] | Comparisons:
    """The content of a file, by the ending of its name and its first words.

    A JSON file with a list comes from Label Studio; a CSV file whose first column is `path` has photo labels, and one
    that begins with `kind,more,less` has comparisons.

    Raises:
        GraphFileError: with all faults of the file.
        InputError: the ending is another, or the file is not of that format.
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
    """Whether a JSON text holds a list; faults are reported by the full reader."""
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False
