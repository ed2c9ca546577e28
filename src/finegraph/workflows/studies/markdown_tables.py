"""The tables of a study as a page of Markdown, like those of the paper.

Accuracies are in percent with their 95 % interval in brackets. Rows are heads with their set of kinds; columns are
amounts of photos, or splits with one and ten views, with and without box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from finegraph.evaluation.study_metrics import BACKWARD, FORWARD, KIND, TIME, value_tables, written
from finegraph.workflows.studies.grid import amount_text, largest
from finegraph.workflows.studies.spec import HEADS, Study
from finegraph.workflows.studies.study_summary import BASELINE, Summary, band_text

TRAIN = "train"
"""Takes the place of the split in rows of times."""
_TIME_TITLES = {
    TIME: "Seconds of the last fit",
    FORWARD: "Milliseconds of the last layer and the loss, forward, 128 photos",
    BACKWARD: "Milliseconds of the same, backward",
}
MAX_COLUMNS = 8
"""How many kinds, or metrics of values, a table shows; the files have them all."""
MAX_BAD = 5
"""How many photos that could not be read are named; results.json has them all."""
Row = dict[str, Any]


def tables_text(study: Study, about: dict[str, Any], summary: Summary, frequency: Sequence[Row] = ()) -> str:
    """All tables of a study.

    Args:
        study: what was compared.
        about: on what.
        summary: what it came to.
        frequency: the same by how many training photos classes have.
    """
    parts = [_opening(study, about, summary)]
    places = [(split, views, box) for split in study.splits for views in study.views for box in study.box]
    first = [(split, study.views[0], study.box[0]) for split in study.splits]
    for place in first:
        at_place = _at(summary.rows, place)
        parts.append(
            _section(f"Top-1 accuracy on {place_text(*place)}, by photos to train on", at_place, "top1", study)
        )
        parts.append(_differences(f"Difference to softmax on {place_text(*place)}, in points", at_place, "top1", study))
    if len(places) > len(first):
        parts.append(_protocols(summary.rows, places, study))
    for place in first:
        parts.append(_section(f"Top-5 accuracy on {place_text(*place)}", _at(summary.rows, place), "top5", study))
        parts.append(
            _section(f"Negative log-likelihood on {place_text(*place)}", _at(summary.rows, place), "nll", study)
        )
    parts += [_coarse(_at(summary.rows, place), place, largest(study.amounts), about) for place in places]
    units = about["data"]["numbers"]
    for place in places:
        parts += _values(_at(summary.rows, place), place, largest(study.amounts), units)
    parts += [_frequency(_at(frequency, place), place, largest(study.amounts)) for place in first]
    parts += [_rivals(summary.rivals, place, study) for place in first]
    timed = [row for row in summary.rows if row["split"] == TRAIN and row["box"] == study.box[0]]
    for metric, title in _TIME_TITLES.items():
        parts.append(_section(title, timed, metric, study))
    return "\n\n".join(part for part in parts if part) + "\n"


def place_text(split: str, views: int, box: bool) -> str:
    """The split and views of a measurement, as people read them."""
    return f"{split}, {views} view{'' if views == 1 else 's'}" + (", with box" if box else "")


def method(row: Row) -> str:
    """The head of a row, with its set of kinds."""
    return f"{row['head']} ({row['kinds']})" if row["kinds"] else str(row["head"])


def mean_text(row: Row | None, *, interval: bool = True) -> str:
    """A mean with its interval."""
    if row is None:
        return ""
    factor, digits = written(row["metric"], row["mean"])
    text = f"{factor * row['mean']:.{digits}f}"
    if interval and row["low"] is not None:
        text += f" ({factor * row['low']:.{digits}f} to {factor * row['high']:.{digits}f})"
    return text


def difference_text(row: Row | None, *, interval: bool = True) -> str:
    """A difference with its interval and what it means."""
    if row is None or row["difference"] is None:
        return ""
    factor, digits = written(row["metric"], row.get("mean", row["difference"]))  # rivals have no mean
    text = _signed(factor * row["difference"], digits)
    if interval and row["difference_low"] is not None:
        low, high = (_signed(factor * row[end], digits) for end in ("difference_low", "difference_high"))
        text += f" ({low} to {high})"
    if row["verdict"]:
        sure = row["verdict"] in ("better", "worse")
        text += f" **{row['verdict']}**" if interval and sure else f" {row['verdict']}"
    return text


def _judged_text(row: Row | None, *, interval: bool = False) -> str:
    """A mean, and whether it is better or worse than softmax."""
    judged = row is not None and row["verdict"] in ("better", "worse")
    return mean_text(row, interval=interval) + (f" **{row['verdict']}**" if judged and row is not None else "")


def by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by head and set of kinds, in their order."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(method(row), []).append(row)
    return by_name


def _signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to 0 has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0.0 else text


def _at(rows: Sequence[Row], place: tuple[str, int, bool]) -> list[Row]:
    return [row for row in rows if (row["split"], row["views"], row["box"]) == place]


def _section(title: str, rows: Sequence[Row], metric: str, study: Study) -> str:
    return _by_amount(title, rows, metric, study, mean_text)


def _differences(title: str, rows: Sequence[Row], metric: str, study: Study) -> str:
    kept = [row for row in rows if row["difference"] is not None]
    return _by_amount(title, kept, metric, study, difference_text)


def _by_amount(title: str, rows: Sequence[Row], metric: str, study: Study, text: Callable[[Row | None], str]) -> str:
    """A table with a column per amount."""
    lines = []
    for name, method_rows in by_method(row for row in rows if row["metric"] == metric).items():
        cells = {row["amount"]: row for row in method_rows}
        lines.append([name, *(text(cells.get(amount)) for amount in study.amounts)])
    return _table(title, ["head (kinds)", *(amount_text(amount) for amount in study.amounts)], lines)


def _protocols(rows: Sequence[Row], places: Sequence[tuple[str, int, bool]], study: Study) -> str:
    """The paper's form: one and ten views, without and with box, of every split, at the largest amount."""
    amount = largest(study.amounts)
    wanted = [row for row in rows if row["metric"] == "top1" and row["amount"] == amount and row["split"] != "train"]
    lines = []
    for name, method_rows in by_method(wanted).items():
        cells = {(row["split"], row["views"], row["box"]): row for row in method_rows}
        lines.append([name, *(_judged_text(cells.get(place)) for place in places)])
    return _table(f"Top-1 accuracy, {amount_text(amount)}", ["head (kinds)", *(place_text(*p) for p in places)], lines)


def _coarse(rows: Sequence[Row], place: tuple[str, int, bool], amount: str, about: dict[str, Any]) -> str:
    """Accuracies of kinds and of groups of kinds."""
    groups = about["data"]["groups"]
    single = [kind for kind in about["data"]["kinds"] if not any(kind.startswith(f"{name}: ") for name in groups)]
    sets = about["data"]["sets"].values()
    single.sort(
        key=lambda kind: min(len(method_rows) for method_rows in sets if kind in method_rows)
    )  # those that the study is about first
    shown = [*single, *groups][:MAX_COLUMNS]
    lines = []
    for name, method_rows in by_method(row for row in rows if row["amount"] == amount).items():
        cells = {row["metric"]: row for row in method_rows}
        lines.append([name, *(mean_text(cells.get(KIND + kind)) for kind in shown)])
    left = len(single) + len(groups) - len(shown)
    note = f"\n\n{left} more kinds are in summary.csv." if left > 0 else ""
    headings = [f"{kind} (mean of {groups[kind]})" if kind in groups else kind for kind in shown]
    title = f"Coarse accuracy on {place_text(*place)}, {amount_text(amount)}"
    return _table(title, ["head (kinds)", *headings], lines) + note if shown else ""


def _values(rows: Sequence[Row], place: tuple[str, int, bool], amount: str, units: Mapping[str, str]) -> list[str]:
    """How well each number and the ordered kinds are predicted."""
    at_amount = [row for row in rows if row["amount"] == amount]
    tables = []
    for about, headings in value_tables((row["metric"] for row in at_amount), units).items():
        shown = dict(list(headings.items())[:MAX_COLUMNS])
        lines = []
        for name, method_rows in by_method(row for row in at_amount if row["metric"] in shown).items():
            cells = {row["metric"]: row for row in method_rows}
            lines.append([name, *(_judged_text(cells.get(metric), interval=True) for metric in shown)])
        left = len(headings) - len(shown)
        note = f"\n\n{left} more are in summary.csv." if left else ""
        title = f"{about}, on {place_text(*place)}, {amount_text(amount)}"
        tables.append(_table(title, ["head (kinds)", *shown.values()], lines) + note)
    return tables


def _frequency(rows: Sequence[Row], place: tuple[str, int, bool], amount: str) -> str:
    """Top-1 by how many training photos a class has."""
    at_amount = [row for row in rows if row["amount"] == amount]
    bands = {row["photos_from"]: row for row in at_amount}
    lines = []
    for name, listed in by_method(at_amount).items():
        cells = {row["photos_from"]: row for row in listed}
        lines.append([name, *(f"{100 * cells[low]['top1']:.1f}" for low in bands)])
    headings = [f"{band_text(row)}: {row['photos']:,} of {row['classes']:,}" for row in bands.values()]
    title = f"Top-1 accuracy on {place_text(*place)}, {amount_text(amount)}, by training photos of the class"
    table = _table(title, ["head (kinds)", *headings], lines)
    return f"{table}\n\nColumns: training photos of a class: photos of how many such classes." if table else ""


def _rivals(rivals: Sequence[Row], place: tuple[str, int, bool], study: Study) -> str:
    """Differences to the rivals that matter, in points of top-1."""
    lines = []
    at_place = [row for row in _at(rivals, place) if row["metric"] == "top1"]
    for name, rows in by_method(at_place).items():
        cells = {row["amount"]: row for row in rows}
        lines.append([name, rows[0]["against"], *(difference_text(cells.get(amount)) for amount in study.amounts)])
    headings = ["head (kinds)", "against", *(amount_text(amount) for amount in study.amounts)]
    return _table(f"Against fair rivals on {place_text(*place)}: top-1, in points", headings, lines)


def _opening(study: Study, about: dict[str, Any], summary: Summary) -> str:
    """The comparison in words, and how sure it is."""
    data, machine, bad = about["data"], about["machine"], about.get("bad_photos", [])
    sizes = {**data["splits"]}
    groups = data["groups"]
    kinds = [f"{kind} {n:,}" for kind, n in data["kinds"].items() if not any(kind.startswith(f"{g}: ") for g in groups)]
    kinds += [f"{name} {n:,} yes/no" for name, n in groups.items()]
    numbers = ", ".join(f"{name} ({unit})" if unit else name for name, unit in data["numbers"].items())
    methods = sorted({row["interval"] for row in summary.rows if row["interval"]})
    lines = [
        f"# {study.title or study.data}",
        "",
        f"- photos: `{study.data}`, {data['train']:,} to draw from, {data['val']:,} to choose settings on; measured on "
        + ", ".join(f"{name} {count:,}" for name, count in sizes.items()),
        f"- labels: {data['fine']:,} fine; " + (", ".join(kinds[:MAX_COLUMNS]) or "no kinds")
        + (f"; numbers: {numbers}" if numbers else ""),
        f"- network: {study.network}" + (f", second: {study.second_network}" if study.two_networks else "")
        + (f", {study.size} pixels" if study.size else "") + f"; tune = {study.tune}",
        f"- draws: {len(study.seeds)} of each amount"
        + (", one of all photos" if "all" in study.amounts and study.tune == "head" else ""),
        f"- {about['budget']}",
        *([f"- {bad_photos_text({photo['path']: photo['reason'] for photo in bad})}"] if bad else []),
        f"- intervals: 95 %, {' and '.join(methods) or 'none'}; **better** and **worse** where that of the paired "
        f"difference to {BASELINE} leaves 0 out, cannot tell where it holds 0",
        f"- finegraph {machine['finegraph']}, torch {machine['torch']}, {machine['threads']} threads, "
        f"{machine['processor']}",
        "",
        *(f"- `{head}`: {HEADS[head]}" for head in study.heads),
    ]  # fmt: skip
    return "\n".join(lines)


def bad_photos_text(bad: Mapping[str, str]) -> str:
    """Which photos could not be read, in a sentence; of many the first few."""
    few = "; ".join(f"{path}: {reason}" for path, reason in sorted(bad.items())[:MAX_BAD])
    more = f"; and {len(bad) - MAX_BAD:,} more" if len(bad) > MAX_BAD else ""
    what = "1 photo could not be read and was" if len(bad) == 1 else f"{len(bad):,} photos could not be read and were"
    return f"{what} left out: {few}{more}"


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; nothing if it has no rows."""
    if not lines:
        return ""
    rule = "|".join(["---", *("---:" for _ in headings[1:])])
    return "\n".join([
        f"## {title}",
        "",
        "| " + " | ".join(_safe(heading) for heading in headings) + " |",
        f"|{rule}|",
        *("| " + " | ".join(_safe(cell) for cell in line) + " |" for line in lines),
    ])  # fmt: skip


def _safe(text: str) -> str:
    """Text in which nothing ends a cell of the table."""
    return text.replace("|", "\\|").replace("\n", " ")
