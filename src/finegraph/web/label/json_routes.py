"""What the routes of the labelling page share: answers that are written as they are, and edits for one store only.

What the store returns is plain JSON already. FastAPI would check it against the return type of the route, in another
thread, and write a copy, which costs as much as the rest of a short question. `JsonRouter` writes an answer in the
thread that found it.

A page may outlive its server, and the next server at the same address may have another store. So the page is given the
identity of its store, keeps unsent edits under it, and sends it with every edit; an edit for another store is refused.
A copy of a store at another place is another store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import signature
from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.responses import JSONResponse, Response

from finegraph.labelling import LabelStore
from finegraph.web.problems import ProblemError


class JsonRouter(APIRouter):
    """A router of functions that return plain JSON, or a response."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route; see FastAPI."""
        super().add_api_route(path, _written(endpoint), **{**options, "response_model": None})


def _written(endpoint: Callable[..., Any]) -> Callable[..., Response]:
    @wraps(endpoint)
    def answer(*given: Any, **named: Any) -> Response:
        found = endpoint(*given, **named)
        return found if isinstance(found, Response) else JSONResponse(found)

    # Types, not their names: the names are known in the file of the function, not in this one.
    answer.__signature__ = signature(endpoint, eval_str=True)  # type: ignore[attr-defined]
    return answer


_LENGTH = 16


def store_identity(store: LabelStore) -> str:
    """The identity of a store: a digest of its place and of the time of its first action."""
    first = store.batches(before=2, limit=1)
    began = first[0].at if first else ""
    return hashlib.sha256(f"{store.place}\0{began}".encode("utf-8", "surrogateescape")).hexdigest()[:_LENGTH]


def only_for(store: LabelStore) -> Callable[[str | None], Awaitable[None]]:
    """A check that a request is for this store; one that names none is for any."""
    own = store_identity(store)

    async def check(finegraph_store: Annotated[str | None, Header()] = None) -> None:
        if finegraph_store is not None and finegraph_store != own:
            raise ProblemError(
                "conflict",
                "another store is served here now than when the page was loaded; load the page again",
                what_to_do="Load the page again.",
                store=own,
            )

    return check
