"""One self-contained HTML page: template, style, scripts and data in a single text.

The page asks nothing of any network. Its content policy allows the one style sheet and the one script in it, by their
hashes, and pictures inside of the page; so even a name that looked like a script could not run. Names are escaped by
the template. The same values give the same bytes. Cost: linear in the size of the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from finegraph._version import __version__

SCRIPTS = ("data.js", "light.js", "wrong.js", "photos.js", "pairs.js", "matrix.js", "classes.js", "start.js")


def render_page(values: Mapping[str, Any], data: str) -> str:
    """The page as text.

    Args:
        values: what the template fills in.
        data: the JSON for the scripts, safe to stand in a script element.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    style, script = _file("report.css"), _script()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("report.html")).render(
        **values,
        version=__version__,
        style=Markup(style),  # a file of this package
        script=script,
        data=data,
        policy=content_policy(style, script),
    )


def content_policy(style: str, script: str) -> str:
    """What the page may do: apply this style, run this script, show pictures that are inside of it."""
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _script() -> str:
    """All scripts as one, in a function of their own."""
    parts = "\n".join(_file(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _file(name: str) -> str:
    return files("finegraph.reports").joinpath("page", name).read_text("utf-8")
