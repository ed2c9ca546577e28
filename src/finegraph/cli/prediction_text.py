"""A prediction in words, tables and bars.

The answers come first, then the kinds, a line each; yes-or-no kinds of one group (the ingredients) share a line. The
sure answer and the explanation are sentences. An explanation is shown as factors: the odds of the first answer against
the second are their product, which reads more easily than a sum of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from finegraph.cli.terminal import aligned, percent, printable
from finegraph.graph.group_names import CONFUSED, short_name
from finegraph.model.answering.predictions import chance_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from finegraph.inference import Answer, Explanation, Part, Question
    from finegraph.model import Prediction

BAR = 24
"""Columns of a bar for a probability of 1."""
MAX_PARTS = 4
"""How many parts of an explanation are shown on their own."""
_SHOWN = 0.01
"""A label of a kind with a probability below this is left out, unless it is the best."""
_PERHAPS = 0.1
"""A yes-or-no label of a group with a probability below this is left out."""
_WEAK = 0.05
"""A part of an explanation with log odds below this is not a reason."""
_MAX_IN_LINE = 4


def print_prediction(
    out: Console,
    prediction: Prediction,
    given: Mapping[str, Sequence[str]],
    groups: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> None:
    """Print the prediction of one photo.

    Args:
        out: where it is printed.
        prediction: the prediction.
        given: what was known beside the photo.
        groups: the fine labels of groups that photos gave, by kind and label; of these the sure answer names some.
    """
    from rich.text import Text

    out.print(Text(printable(prediction.photo), style="bold"))
    if prediction.unknown is not None and prediction.unknown.is_unknown:
        out.print(
            Text.assemble(
                ("  ! ", "bold yellow"),
                "This may be none of the known labels "
                f"(score {prediction.unknown.score:.3g}, above {prediction.unknown.threshold:.3g}).",
            )
        )
    answers = [(answer.label, percent(answer.probability), _bar(out, answer)) for answer in prediction.top]
    _print_rows(out, answers, right=1)
    kinds = [*kind_lines(prediction.kinds), *((name, str(answer)) for name, answer in prediction.numbers.items())]
    if kinds:
        out.print()
        _print_rows(out, kinds, name_style="dim")
    out.print()
    _print_paragraph(out, _sure_words(prediction, given, groups or {}))
    if prediction.evidence_probability is not None:
        start = "But the photo" if prediction.contradicts_photo else "The photo"
        _print_paragraph(out, f"{start} alone gave what is given {chance_words(prediction.evidence_probability)}.")
    if prediction.questions:
        _print_paragraph(out, "Ask next:")
        _print_rows(out, [(question.text, _effect_words(question)) for question in prediction.questions], indent=4)
    if prediction.explanation is None:
        _print_paragraph(out, "No other label is possible, so there is nothing to compare it with.")
    else:
        _print_explanation(out, prediction.explanation)


def kind_lines(kinds: Mapping[str, Sequence[Answer]]) -> list[tuple[str, str]]:
    """A line for each kind, and one for each group of yes-or-no kinds: its name and its answer."""
    groups: dict[str, dict[str, float]] = {}
    lines: dict[str, str] = {}
    for name, answers in kinds.items():
        yes = _yes(answers)
        group, mark, part = name.partition(": ")
        if yes is not None and mark:
            groups.setdefault(group, {})[part] = yes
            lines[group] = ""  # keeps the place of the group's first kind
        elif yes is not None:
            lines[name] = f"{'yes' if yes >= 0.5 else 'no'} {percent(max(yes, 1 - yes))}"
        else:
            shown = [answer for number, answer in enumerate(answers) if not number or answer.probability >= _SHOWN]
            lines[name] = _listed([(answer.label, answer.probability) for answer in shown[:_MAX_IN_LINE]])
    return [(name, _group_words(groups[name]) if name in groups else words) for name, words in lines.items()]


def _yes(answers: Sequence[Answer]) -> float | None:
    """The probability of yes in a yes-or-no kind; None for other kinds."""
    labels = {answer.label: answer.probability for answer in answers}
    if not labels or not set(labels) <= {"no", "yes"}:
        return None
    return labels["yes"] if "yes" in labels else 1.0 - labels["no"]


def _group_words(parts: Mapping[str, float]) -> str:
    """The answer of a group: labels that probably hold, and labels that may."""
    ordered = sorted(parts.items(), key=lambda pair: -pair[1])
    there = [pair for pair in ordered if pair[1] >= 0.5]
    perhaps = [pair for pair in ordered if _PERHAPS <= pair[1] < 0.5]
    words = _listed(there) if there else "none"
    return f"{words}; perhaps {_listed(perhaps)}" if perhaps else words


def _sure_words(
    prediction: Prediction,
    given: Mapping[str, Sequence[str]],
    groups: Mapping[tuple[str, str], Sequence[str]],
) -> str:
    """The sure answer as a sentence."""
    sure, risk = prediction.sure, f"{100 * prediction.risk:.3g}%"
    if sure is None:
        return f"Nothing is sure at a risk of {risk}."
    kind = "fine" if sure.kind is None else sure.kind
    if list(given.get(kind, ())) == [sure.label]:
        return f"Nothing more exact than what is given is sure at a risk of {risk}."
    if prediction.contradicts_photo:
        best = prediction.top[0]
        return f"If {_given_words(given)}, then it is {best.label} ({percent(best.probability)})."
    if sure.kind is None:
        what = f"it is {sure.label}"
    elif (sure.kind, sure.label) in groups:
        what = _group_answer(sure.kind, sure.label, groups[sure.kind, sure.label])
    elif sure.label in ("yes", "no"):
        what = f"{_kind_words(sure.kind)}: {sure.label}"
    else:
        what = f"the {sure.kind} is {sure.label}"
    return f"Sure at a risk of {risk}: {what} ({percent(sure.probability)})."


def _group_answer(kind: str, label: str, members: Sequence[str]) -> str:
    """What a group that photos gave says: which fine labels it may be."""
    shown = members[: _MAX_IN_LINE if len(members) > _MAX_IN_LINE + 1 else None]
    more = len(members) - len(shown)
    if len(members) == 1:
        return f"it is {members[0]}"
    why = "are often confused" if kind.startswith(CONFUSED) else "look alike"
    name = "" if any(short_name(one) in label for one in members) else f" ({label})"
    return f"it is one of {len(members)} that {why}{name}: {', '.join(shown)}{f' and {more:,} more' if more else ''}"


def _effect_words(question: Question) -> str:
    """The expected effect of the answer to a question."""
    if question.settles >= _SHOWN:
        return f"settles it in {question.settles:.0%} of cases"
    return f"the best label then has {percent(question.after)} rather than {percent(question.before)}, on average"


def _given_words(given: Mapping[str, Sequence[str]]) -> str:
    """The evidence, as a condition."""
    return " and ".join(
        f"{_kind_words(kind)}: {' or '.join(labels)}"
        if set(labels) <= {"yes", "no"}
        else f"the {kind} is {' or '.join(labels)}"
        for kind, labels in given.items()
    )


def _print_explanation(out: Console, explanation: Explanation) -> None:
    """Why the first answer rather than the second, as factors."""
    shown = [part for part in explanation.parts if abs(part.value) >= _WEAK][:MAX_PARTS]
    rest = explanation.log_odds - sum(part.value for part in shown)
    odds = f"{explanation.first} is {_times(explanation.log_odds)} as probable as {explanation.second}"
    _print_paragraph(out, odds + (":" if shown else ", for no single reason."))
    rows = [(_factor(part.value), _part_words(part)) for part in shown]
    if shown and abs(rest) >= _WEAK:
        rows.append((_factor(rest), "all else together"))
    _print_rows(out, rows, indent=4, right=0)


def _part_words(part: Part) -> str:
    """What a part of an explanation is about."""
    if part.source == "fine":
        return "the label itself"
    known = part.source.startswith("evidence: ")
    kind = _kind_words(part.source.removeprefix("evidence: "))
    if part.first and part.second and kind != "fine":
        kind += f": {part.first}" + (f" rather than {part.second}" if part.first != part.second else "")
    elif part.several:
        kind += ", one of several or unknown"
    return f"what is given on {kind}" if known else kind


def _kind_words(kind: str) -> str:
    """The name of a kind, so that a colon may follow: `ingredient: tofu` is a part of a group."""
    return kind.replace(": ", " ", 1)


def _print_rows(
    out: Console, rows: Sequence[Sequence[str]], *, indent: int = 2, right: int = -1, name_style: str = ""
) -> None:
    """Rows whose cells stand below each other, without headings.

    Args:
        out: where they are printed; only a terminal breaks long cells into lines.
        rows: the cells, as many in each row.
        indent: how far from the left they stand.
        right: the number of the column that is aligned to the right.
        name_style: the style of the first column on a terminal.
    """
    if not rows:
        return
    cells = [[printable(cell) for cell in row] for row in rows]
    if not out.is_terminal:
        for line in aligned(cells, (right,)):
            out.print(" " * indent + line)
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for number in range(len(cells[0])):
        grid.add_column(overflow="fold", justify="right" if number == right else "left")
    for row in cells:
        grid.add_row(Text(row[0], style=name_style), *(Text(cell) for cell in row[1:]))
    out.print(Padding(grid, (0, 0, 0, indent)))


def _print_paragraph(out: Console, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    words: Text = Text(printable(text))
    out.print(Padding(words, (0, 0, 0, 2)) if out.is_terminal else Text("  ") + words)


def _bar(out: Console, answer: Answer) -> str:
    """A bar as long as a label is probable; none if there is no terminal."""
    if not out.is_terminal:
        return ""
    mark = "#" if out.options.ascii_only else "█"
    return mark * round(BAR * answer.probability)


def _listed(pairs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{label} {percent(probability)}" for label, probability in pairs)


def _times(log_odds: float) -> str:
    """How many times as probable."""
    if log_odds < math.log(1.05):
        return "about"
    if log_odds > math.log(10_000):
        return "over 10,000 times"
    odds = math.exp(log_odds)
    return f"{odds:,.0f} times" if odds >= 10 else f"{odds:.1f} times"


def _factor(value: float) -> str:
    """A factor of the odds."""
    if abs(value) > math.log(10_000):
        return "x >10,000" if value > 0 else "x <0.0001"
    factor = math.exp(value)
    return f"x {factor:,.0f}" if factor >= 100 else f"x {factor:.2g}"
