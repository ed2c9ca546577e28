"""Routes whose answers are written as they are.

What the store says is plain JSON already. FastAPI would check it against the return type of the route, in another
thread, and write a copy, which costs as much as the rest of a short question. Here an answer is written in the thread
that found it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response


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

    # The types by themselves, not by names: those are known where the function was written, and not in this file.
    answer.__signature__ = signature(endpoint, eval_str=True)  # type: ignore[attr-defined]
    return answer
