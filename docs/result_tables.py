"""The tables of results, made from the result files in `docs/results`.

    python docs/result_tables.py        rewrite the tables in the pages

A result file is JSON: the `command` that measured it, `columns` and `rows`. A cell is a text,
a number, `null` for what was not measured, or a difference with what is known of its chance: `{"difference": 1.3,
"clear": true}`, or `{"difference": 2.5, "low": 1.9, "high": 3.0}`. Files of single measurements (`"measurements"`)
are summed up first. In a page the table stands between two comments, `table: NAME` and `end of table`; a test keeps
pages and files the same.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS / "results"
_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def result(name: str) -> dict[str, Any]:
    """A result file."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def table(found: dict[str, Any]) -> str:
    """A result file as a table of Markdown."""
    if "measurements" in found:
        found = {**found, "rows": _means(found)}
    decimals = found.get("decimals", [None] * len(found["columns"]))
    lines = [" | ".join(found["columns"]), "---|" * (len(found["columns"]) - 1) + "---"]
    for row in found["rows"]:
        lines.append(" | ".join(_cell(cell, places) for cell, places in zip(row, decimals, strict=True)))
    return "".join(f"| {line} |\n" if place != 1 else f"|{line}|\n" for place, line in enumerate(lines))


def _cell(cell: Any, places: int | None) -> str:
    """One cell as text; a difference that is clear of chance is bold."""
    if cell is None:
        return ""
    if isinstance(cell, dict):
        text = "0.0" if cell["difference"] == 0 else f"{cell['difference']:+.1f}"
        low, high = cell.get("low"), cell.get("high")
        clear = cell.get("clear", low is not None and (low > 0 or high < 0))
        text = f"**{text}**" if clear else text
        return text if low is None else f"{text} ({low:.1f} to {high:.1f})"
    if isinstance(cell, float) and places is not None:
        return f"{cell:.{places}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _means(found: dict[str, Any]) -> list[list[Any]]:
    """Means over draws: a row for each method, metrics of each amount of photos side by side."""
    rows = []
    for method in dict.fromkeys(one["method"] for one in found["measurements"]):
        row: list[Any] = [method]
        for photos, metric in found["cells"]:
            values = [
                one[metric]
                for one in found["measurements"]
                if one["method"] == method and one["photos"] == photos and metric in one
            ]
            row.append(fmean(values) if values else None)
        rows.append(row)
    return rows


def rendered(text: str) -> str:
    """A page with its tables as the result files have them."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{table(result(place[2]))}\n{place[3]}", text)


def names_in(text: str) -> list[str]:
    """The result files that a page shows."""
    return [name for _, name, _ in _PLACE.findall(text)]


def pages() -> list[Path]:
    """The pages with such tables."""
    return [path for path in sorted(DOCS.glob("*.md")) if names_in(path.read_text(encoding="utf-8"))]


def main() -> None:
    """Write the tables of all pages."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        path.write_text(rendered(text), encoding="utf-8")
        print(f"docs/{path.name}: {', '.join(names_in(text))}")


if __name__ == "__main__":
    main()
