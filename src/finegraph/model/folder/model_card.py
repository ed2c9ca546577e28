"""The model card: one page for people who receive a model folder.

It says what the model recognises, how to use it, how it was trained, how good it is and what it cannot do. Names come
from label tables, so whatever Markdown or HTML would read as an instruction is escaped. Long lists are cut; the files
beside the card hold everything.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from finegraph.data.transforms import ViewSettings
from finegraph.files.durable import write_over
from finegraph.graph import LabelGraph
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.teaching.lesson import Lesson, TaughtSummary, lesson_summary
from finegraph.nn.network import Network, NetworkDesign

METRICS = ("metrics", "figures")
"""The entries of the facts with metrics; `figures` is the former name."""
SETTINGS = "settings"
"""The entry of the facts with the settings of the training, which stand at the end of the card."""
STRENGTHS, CALIBRATED_ON = "strengths", "calibrated_on"
"""The entry of the facts with what the head was fitted with, and the one in it that says what the fit itself calibrated
probabilities on."""
_TAUGHT = "## What it was taught"
_MAX_FINE = 40
_MAX_LABELS = 8
_MAX_KINDS = 60
_MAX_ROWS = 60
_MARKS = re.compile(r"([\\`*{}\[\]<>|~#&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")  # between letters, _ is a letter

_LIMITS = """\
- It answers with one of the labels above, whatever is on the photo. {unknown}
- It was trained on photos of a certain make. Other light, plates, cameras or seasons may be too much for it; measure it
  on photos of your own before you rely on it.
- Probabilities are estimates. "Sure at a risk of 5%" means that such answers are meant to be wrong in about 5 of 100
  cases, on photos like those it was trained on.
- What a photo does not show, it can only guess from what usually goes together. Do not use it to decide what is safe to
  eat for someone with an allergy, nor for anything else where a wrong answer does harm."""

_NO_RULE = "No rule was chosen that tells when a photo shows none of the labels."
_RULE = "It marks photos that seem to show none of them, but does not find them all."


def model_card(
    network: Network,
    views: ViewSettings,
    temperature: float,
    unknown: UnknownRule | None,
    about: Mapping[str, Any],
    *,
    lessons: Sequence[Lesson] = (),
) -> str:
    """The text of the card, in Markdown."""
    graph = network.graph
    kinds = f" and {_count(len(graph.kinds), 'kind')}" if graph.kinds else ""
    parts = [
        "---\nlibrary_name: finegraph\npipeline_tag: image-classification\n---",
        f"# A photo classifier of {_count(len(graph), 'label')}{kinds}",
        "Show it a photo: it says which label fits best and how probable that is, how probable the labels of each kind "
        "are, and the most exact statement that is sure enough.",
        f"## What it recognises\n\n{_recognises(graph)}",
        f"## How to use it\n\n{_usage(graph)}",
        f"## How it was trained\n\n{_training(network.design, views, about)}",
        f"## Metrics\n\n{_metrics(about)}",
        f"## How sure it is\n\n{_sureness(temperature, unknown, about)}",
        "## Limits\n\n" + _LIMITS.format(unknown=_NO_RULE if unknown is None else _RULE),
    ]
    if about.get(SETTINGS):
        settings = about[SETTINGS]
        parts.append(f"## Settings\n\n{_table(settings if isinstance(settings, Mapping) else {SETTINGS: settings})}")
    return with_lessons("\n\n".join(parts) + "\n", lessons)


def with_lessons(card: str, lessons: Sequence[Lesson]) -> str:
    """A card that says what the model was taught; all else in it, also what people added, stays."""
    sections = re.split(r"(?m)^(?=## )", card)
    kept = [section for section in sections if section.splitlines()[:1] != [_TAUGHT]]
    summary = lesson_summary(lessons)
    if summary.lessons:
        place = next((place for place, section in enumerate(kept) if section.startswith("## Metrics")), len(kept))
        kept.insert(place, f"{_TAUGHT}\n\n{_taught(summary)}\n\n")
    return "".join(kept).rstrip("\n") + "\n"


def update_card(path: Path, lessons: Sequence[Lesson]) -> None:
    """Let the card of a model folder say what the model was taught.

    Lessons do not depend on it: a card that is missing, or cannot be read or written, is left alone.
    """
    with contextlib.suppress(OSError, UnicodeDecodeError):
        card = path.read_text(encoding="utf-8")
        if (text := with_lessons(card, lessons)) != card:
            write_over(path, text.encode())


def escape(text: str) -> str:
    """Text on one line in which nothing is an instruction to Markdown or HTML."""
    return _MARKS.sub(r"\\\1", " ".join(text.split())).replace(r"\<", "&lt;").replace(r"\>", "&gt;")


def _recognises(graph: LabelGraph) -> str:
    text = f"{_count(len(graph), 'fine label')}: {_names(graph.fine, _MAX_FINE)}."
    if not graph.kinds:
        return text
    rows = ["| kind | labels |", "|---|---|"]
    for name in graph.kinds[:_MAX_KINDS]:
        kind = graph.kind(name)
        rows.append(f"| {escape(name)} | {'yes or no' if kind.binary else _names(kind.labels, _MAX_LABELS)} |")
    left = len(graph.kinds) - _MAX_KINDS
    more = f"\n\n{_count(left, 'more kind')} in `graph.json`." if left > 0 else ""
    return f"{text}\n\n" + "\n".join(rows) + more + "\n\nAll labels, and how they go together, are in `graph.json`."


def _usage(graph: LabelGraph) -> str:
    known = _example(graph)
    given = "" if known is None else f", given={{{known[0]!r}: {known[1]!r}}}"
    flag = "" if known is None else f" --given {shlex.quote('='.join(known))}"
    note = (
        "" if known is None else " What you know already may be given, as here; the answer then takes it into account."
    )
    return (
        f"`FOLDER` is this folder.{note}\n\n"
        f"```\nfinegraph predict FOLDER photo.jpg{flag}\n```\n\n"
        "```python\nimport finegraph as fg\n\n"
        f'model = fg.load("FOLDER")\nprediction = model.predict("photo.jpg"{given})\n'
        "prediction.top        # the best labels with their probabilities\n"
        "prediction.kinds      # the same for every kind\n"
        "prediction.sure       # the most exact statement that is sure enough, or None\n```"
    )


def _example(graph: LabelGraph) -> tuple[str, str] | None:
    """A kind with a label that can be known beforehand, if there is one worth showing."""
    for name in graph.kinds:
        kind = graph.kind(name)
        if not kind.binary and len(kind.labels) > 1 and len(kind.coarse):
            return name, kind.labels[int(kind.coarse[0])]
    return None


def _training(design: NetworkDesign, views: ViewSettings, about: Mapping[str, Any]) -> str:
    heads = {"bipartite": "bipartite: fine and coarse labels are scored together", "softmax": "softmax"}
    shape = "the shape is kept" if views.keep_shape else "squeezed to a square"
    facts = {
        "network": design.network,
        **({"network of the kinds": design.coarse_network} if design.coarse_network else {}),
        "head": heads.get(design.head, design.head),
        "photos": f"{views.resize} pixels, {shape}; the network sees {views.size} x {views.size}"
        + ("; cut to the box first" if views.box else ""),
        **{name: value for name, value in about.items() if name not in (*METRICS, SETTINGS)},
    }
    return _table(facts)


def _taught(summary: TaughtSummary) -> str:
    lines = [
        f"Since it was fitted, {_count(summary.lessons, 'lesson')} with {_count(summary.photos, 'photo')} of "
        f"{_count(len(summary.labels), 'label')}, the last one at {summary.last}: {_names(summary.labels, _MAX_FINE)}.",
        *([f"New among them: {_names(summary.new_labels, _MAX_FINE)}."] if summary.new_labels else []),
        "All lessons are in `lessons.jsonl`; `finegraph teach FOLDER --list` shows them. The metrics below are from "
        "before.",
    ]
    return "\n\n".join(lines)


def _metrics(about: Mapping[str, Any]) -> str:
    metrics = {name: about[name] for name in METRICS if about.get(name)}
    if not metrics:
        return (
            "None were saved with this model. Measure it on photos that it was not trained on: "
            "`finegraph evaluate FOLDER --data PHOTOS`."
        )
    parts = [value if isinstance(value, Mapping) else {name: value} for name, value in metrics.items()]
    return _table({name: value for part in parts for name, value in part.items()})


def _sureness(temperature: float, unknown: UnknownRule | None, about: Mapping[str, Any]) -> str:
    strengths = about.get(STRENGTHS)
    fitted = strengths.get(CALIBRATED_ON) if isinstance(strengths, Mapping) else None
    if temperature != 1.0:
        calibrated = f"Probabilities were calibrated on photos kept apart: all scores are divided by {temperature:.3g}."
    elif fitted is not None:
        calibrated = f"Probabilities were calibrated on {escape(str(fitted))}."
    else:
        calibrated = "Probabilities are those of the training, not calibrated afterwards."
    return f"{calibrated} {_on_unknown(unknown)}"


def _on_unknown(unknown: UnknownRule | None) -> str:
    if unknown is None:
        return _NO_RULE
    return (
        f"A photo is marked as perhaps none of the labels if its score `{unknown.score}` is above "
        f"{unknown.threshold:.3g}, which was chosen to leave {unknown.kept:.0%} of the photos of known labels unmarked."
    )


def _table(facts: Mapping[str, Any]) -> str:
    """Facts as rows; those inside others are named by the way to them."""
    rows = list(_flat(facts))
    lines = ["| | |", "|---|---|", *(f"| {escape(name)} | {escape(text)} |" for name, text in rows[:_MAX_ROWS])]
    left = len(rows) - _MAX_ROWS
    return "\n".join(lines) + (f"\n\n{left} more are in `config.json`." if left > 0 else "")


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        way = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{way}: ")
        else:
            yield way, _text(value)


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value[:_MAX_LABELS]) + (", ..." if len(value) > _MAX_LABELS else "")
    return str(value)


def _names(names: Sequence[str], max_names: int) -> str:
    shown = ", ".join(escape(name) for name in names[:max_names])
    return shown + (f", and {len(names) - max_names:,} more" if len(names) > max_names else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
