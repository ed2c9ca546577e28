"""Tutorials: a Markdown page is the source; this file runs it, keeps what it prints, and makes the notebook.

    python docs/tutorial_runs.py [NAME ...]     run tutorials and write their outputs and notebooks

In a page, a block of `python` is a cell, and so is a block of `console` with lines that begin with `$ finegraph`. A
block of `text` right below a cell is what the cell printed; a run replaces it. A block with the word `varies` prints
something else on another machine, such as times. All other blocks are shown and not run. The cells of a page run one
after the other in one process, in a new folder, and share their names as in a notebook. Nothing but the package is
needed: a notebook is a JSON file.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "tutorials"
_BLOCK = re.compile(r"^```(python|console)( varies)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Prose:
    """What is read and not run."""

    text: str


@dataclass(frozen=True)
class Cell:
    """Code that is run.

    Attributes:
        language: `python` or `console`.
        code: the lines of the block.
        output: what it printed, as the page has it.
        varies: whether it prints something else on another machine.
    """

    language: str
    code: str
    output: str
    varies: bool = False

    @property
    def block(self) -> str:
        """The cell as it stands in a page."""
        word = f"{self.language}{' varies' if self.varies else ''}"
        output = f"\n```text\n{self.output}```\n" if self.output else ""
        return f"```{word}\n{self.code}```\n{output}"


def names() -> list[str]:
    """The names of all tutorials."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")


def read(name: str) -> list[Prose | Cell]:
    """The parts of a tutorial in order."""
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    parts: list[Prose | Cell] = []
    end = 0
    for found in _BLOCK.finditer(text):
        parts.append(Prose(text[end : found.start()]))
        parts.append(Cell(found[1], found[3], found[4] or "", bool(found[2])))
        end = found.end()
    return [*parts, Prose(text[end:])]


def page(parts: list[Prose | Cell]) -> str:
    """The text of a page with these parts."""
    return "".join(part.text if isinstance(part, Prose) else part.block for part in parts)


# ---- running --------------------------------------------------------------------------------------------------------


def run(parts: list[Prose | Cell]) -> list[Prose | Cell]:
    """The parts with what their cells print now."""
    space: dict[str, Any] = {"__name__": "__main__"}
    with _new_folder(), warnings.catch_warnings():
        warnings.simplefilter("default")  # readers see warnings; they end no tutorial
        return [part if isinstance(part, Prose) else replace(part, output=_run(part, space)) for part in parts]


@contextlib.contextmanager
def _new_folder() -> Iterator[None]:
    """A new folder to work in; scripts of the tutorials can be imported."""
    before, path = os.getcwd(), list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, str(FOLDER))
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path


def _run(cell: Cell, space: dict[str, Any]) -> str:
    """What a cell prints."""
    return _commands(cell.code) if cell.language == "console" else _python(cell.code, space)


def _python(code: str, space: dict[str, Any]) -> str:
    """What Python prints, with the value of a last expression as in a notebook."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<tutorial>", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), space)  # noqa: S307 - our own page
            if value is not None:
                print(repr(value))
    return _tidy(printed.getvalue())


def _commands(code: str) -> str:
    """What commands print, run one after the other in this process."""
    from finegraph.cli.main import run as run_command

    printed = []
    for line in code.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not line.startswith("$ ") or words[0] != "finegraph":
            raise ValueError(f"expected a line that begins with '$ finegraph', got {line!r}")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code_of_exit = run_command(words[1:])
        if code_of_exit != 0:
            raise RuntimeError(f"{line}: exit code {code_of_exit}\n{out.getvalue()}{err.getvalue()}")
        printed.append(out.getvalue().replace(f"{sys.executable} -m finegraph", "finegraph"))
    return _tidy("\n".join(printed))


def _tidy(text: str) -> str:
    """A text without white space at the ends of its lines, and with one line break at its end."""
    text = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return f"{text}\n" if text else ""


def words_of(output: str) -> list[str]:
    """The words of an output, without numbers and marks: what must be the same on every machine."""
    return re.findall(r"[^\W\d_]+", output)


# ---- notebooks ------------------------------------------------------------------------------------------------------


def notebook(parts: list[Prose | Cell]) -> str:
    """The notebook of a tutorial, in the format of Jupyter, version 4.5."""
    cells: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Prose):
            if text := part.text.strip("\n"):
                cells.append(_notebook_cell("markdown", text, len(cells)))
            continue
        code = part.code.rstrip("\n")
        if part.language == "console":
            code = re.sub(r"^\$ ", "!", code, flags=re.MULTILINE)
        cell = _notebook_cell("code", code, len(cells))
        output = {"name": "stdout", "output_type": "stream", "text": part.output.splitlines(keepends=True)}
        cells.append({**cell, "execution_count": None, "outputs": [output] if part.output else []})
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _notebook_cell(kind: str, text: str, number: int) -> dict[str, Any]:
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}


def main() -> None:
    """Run the tutorials that are named, or all, and write their pages and notebooks."""
    for name in sys.argv[1:] or names():
        parts = run(read(name))
        (FOLDER / f"{name}.md").write_text(page(parts), encoding="utf-8")
        (FOLDER / f"{name}.ipynb").write_text(notebook(parts), encoding="utf-8")
        print(f"docs/tutorials/{name}.md and .ipynb: {sum(isinstance(part, Cell) for part in parts)} cells")


if __name__ == "__main__":
    main()
