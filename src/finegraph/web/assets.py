"""The files of the pages, as they lie in the package: plain HTML, CSS and JavaScript modules, nothing built."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGE = Path(__file__).parent / "page"
"""Where the files of the page of `serve` are, and those that other pages share."""


class _Revalidated(StaticFiles):
    """Files that a browser may cache but must revalidate, so that pages and scripts always match."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def mount_assets(app: FastAPI, folder: Path = PAGE, path: str = "/assets") -> None:
    """Serve the files in a folder of the package, and nothing outside it."""
    app.mount(path, _Revalidated(directory=folder), name=path.strip("/").replace("/", "-"))


def page_response(name: str, folder: Path = PAGE) -> Response:
    """The response with a page, by the name of its file."""
    return FileResponse(folder / name, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})
