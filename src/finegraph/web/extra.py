"""Checks that the packages of the web servers are installed, without importing them."""

from __future__ import annotations

from importlib.util import find_spec

from finegraph.errors import MissingExtraError

NEEDED = ("fastapi", "uvicorn", "python_multipart", "prometheus_client", "segno")


def check_extra(needed: tuple[str, ...] = NEEDED, extra: str = "serve") -> None:
    """Raise if something that the server needs is not installed.

    Raises:
        MissingExtraError: it names what to install.
    """
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the server needs {', '.join(missing)}, which is not installed; install it with "
            f'`pip install "finegraph[{extra}]"`'
        )
