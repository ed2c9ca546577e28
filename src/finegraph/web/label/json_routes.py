"""What the routes of the labelling page share: fast JSON answers, and the check that an edit is for this store.

The store returns plain JSON. FastAPI would check it against the return type of the route, in another thread, and make a
copy, which costs as much as the rest of a short request. `JsonRouter` serialises an answer in the thread that made it.

A page may outlive its server, and the next server at the same address may have another store. So the page knows the
identity of its store, keeps unsent edits under it, and sends it with every edit; an edit for another store is refused.
A copy of a store in another place has another identity.
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
        content = endpoint(*given, **named)
        return content if isinstance(content, Response) else JSONResponse(content)

    # Types, not their names: FastAPI would look the names up in this module, where they are not defined.
    answer.__signature__ = signature(endpoint, eval_str=True)  # type: ignore[attr-defined]
    return answer


_IDENTITY_LENGTH = 16


def store_identity(store: LabelStore) -> str:
    """The identity of a store: a digest of its path or URL and of the time of its first action."""
    first = store.batches(before=2, limit=1)
    began = first[0].at if first else ""
    return hashlib.sha256(f"{store.place}\0{began}".encode("utf-8", "surrogateescape")).hexdigest()[:_IDENTITY_LENGTH]


def only_for(store: LabelStore) -> Callable[[str | None], Awaitable[None]]:
    """A check that a request is for this store; a request that names no store passes."""
    identity = store_identity(store)

    async def check(finegraph_store: Annotated[str | None, Header()] = None) -> None:
        if finegraph_store is not None and finegraph_store != identity:
            raise ProblemError(
                "conflict",
                "another store is served here now than when the page was loaded; load the page again",
                what_to_do="Load the page again.",
                store=identity,
            )

    return check
