"""`finegraph graph suggest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.next_commands import print_next
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.evaluation.intervals import MeanInterval
    from finegraph.workflows.structure.kind_effects import KindEffect
    from finegraph.workflows.suggest_graph import GraphSuggestions, KindSuggestion


def suggest(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run folder; of a graph file or a folder of photos, names alone are used."
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph", "-g", metavar="GRAPH", help="Suggest kinds for this graph rather than the model's own."
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Accept a suggestion by number or name, or all; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The graph file to write with what is accepted."),
    ] = None,
    risk: Annotated[float, typer.Option(help="How often a sure answer may be wrong.")] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resampling that measures stability.")] = 0,
    shown: Annotated[int, typer.Option("--max", min=1, help="How many labels of each suggestion to print.")] = 5,
    as_json: Json = False,
) -> None:
    """Suggest kinds from names, looks and confusions; say which help.

    Each suggestion comes with what it would change on photos that took no part: the likelihood, top-1, and how many
    photos have a sure answer. Of the kinds that the graph has, those that add nothing are named. No file changes:
    --accept writes a new graph, to be edited in a spreadsheet or opened with finegraph label.
    """
    from finegraph.workflows.suggest_graph import suggest_graph

    with progress("done") as update:

        def stage(name: str) -> Callable[[int, int], None]:
            return update

        found = suggest_graph(
            model, graph=graph, accept=accept or (), output=output, risk=risk, seed=seed, progress=stage
        )
    if as_json:
        print_json(found.to_dict())
        return
    to = console()
    _print_suggestions(to, found, shown)
    _print_present(to, found)
    for note in found.notes:
        to.print(printable(note))
    _print_next(to, found, model)


def _print_suggestions(to: Console, found: GraphSuggestions, shown: int) -> None:
    """What the graph might have."""
    if not found.suggestions:
        to.print("Nothing to suggest: names share nothing, and no fine labels look alike beyond the kinds there are.")
        return
    rows = [
        (
            str(one.number),
            one.name,
            one.source,
            _labels(one),
            _percent(one.stability),
            "" if one.effect is None else one.effect.words,
            *_changes(one.effect),
        )
        for one in found.suggestions
    ]
    headings = ("", "kind", "from", "labels", "stable", "it", "log likelihood", "top-1", "sure answers", "labels left")
    width = len(headings) if found.judged else 5
    print_table(to, headings[:width], [row[:width] for row in rows], right=(0, 4))
    if found.judged is not None and found.now is not None:
        now = found.now
        to.print(
            f"Changes are those of {found.judged}, with 95 % intervals; labels left: after the sure answer. Now: top-1 "
            f"{_percent(now['top1'])}, {_sure_now(now)}."
        )
    for one in found.suggestions:
        to.print()
        to.print(printable(f"{one.number}. {one.name}: {one.reason}"))
        for label in one.labels[:shown]:
            named = ", ".join(label.fine[:4]) + (f" and {len(label.fine) - 4:,} more" if len(label.fine) > 4 else "")
            stable = "" if label.stability is None else f" (stable {_percent(label.stability)})"
            to.print(printable(f"   {label.label}{stable}: {named}"))
        if one.shared > shown:
            to.print(f"   ... and {one.shared - shown:,} more; --json lists them, with photos")


def _print_present(to: Console, found: GraphSuggestions) -> None:
    """What the kinds that the graph has are good for."""
    if not found.present:
        return
    to.print()
    rows = [(one.name, one.effect.words, *_changes(one.effect)) for one in found.present]
    headings = ("kind of the graph", "", "log likelihood", "top-1", "sure answers", "labels left")
    print_table(to, headings, rows)


def _changes(effect: KindEffect | None) -> tuple[str, ...]:
    if effect is None:
        return ("", "", "", "")
    return (
        _interval(effect.log_likelihood, 1.0, 3),
        _interval(effect.top1, 100.0, 1),
        _interval(effect.sure, 100.0, 1),
        _interval(effect.named, 1.0, 1),
    )


def _interval(one: MeanInterval, scale: float, digits: int) -> str:
    mean, low, high = (f"{scale * value:+.{digits}f}" for value in (one.mean, one.low, one.high))
    return f"{mean} ({low} to {high})"


def _labels(one: KindSuggestion) -> str:
    return f"{one.shared:,}" + (f" + {one.single:,} single" if one.single else "")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _sure_now(now: Mapping[str, float | None]) -> str:
    """What sure answers there are without any change."""
    if not now["sure"] or now["sure_labels"] is None:
        return "no sure answer to any of them"
    wrong = f"{_percent(now['sure_wrong'])} of these wrong"
    return f"a sure answer to {_percent(now['sure'])} of them, {wrong}, leaving {now['sure_labels']:.1f} fine labels"


def _print_next(to: Console, found: GraphSuggestions, model: Path) -> None:
    """What to do with it."""
    if found.output is not None:
        to.print(printable(f"{count(len(found.accepted), 'suggestion')} accepted: {found.output}"))
        data = "" if found.data is None else f" --data {quote(found.data)}"
        commands = [(f"finegraph label {quote(found.output)}{data}", "look at the new kinds, name and correct them")]
        if found.data is not None:
            train = f"finegraph train {quote(found.data)} --graph {quote(found.output)}"
            commands.append((train, "train with them"))
        print_next(to, commands)
    elif stable := [one for one in found.suggestions if one.stable]:
        accepting = f"finegraph graph suggest {quote(str(model))} --accept {quote(stable[0].name)} -o FILE"
        print_next(to, [(accepting, "write a graph with the suggestions that you want, to edit or to train with")])
