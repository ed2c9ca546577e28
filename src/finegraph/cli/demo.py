"""`finegraph demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.terminal import console, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.inference import Answer
    from finegraph.workflows.demo import Demo


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for the drawing of the menu.")] = Path("runs/demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Take a short tour on a small menu.

    Trains a softmax and a bipartite head on made-up photos and asks the posterior what it can answer.
    """
    import torch

    from finegraph.workflows.demo import run_demo

    torch.set_num_threads(1)  # for tensors as small as these, two threads only wait for each other
    result = run_demo(out)
    if as_json:
        print_json(_document(result))
    else:
        _print(result)


def _document(demo: Demo) -> dict[str, object]:
    """The tour as JSON."""
    return {
        "fine": len(demo.graph),
        "kinds": len(demo.graph.kinds),
        "photos": demo.photos,
        "draws": demo.draws,
        "scores": [vars(score) for score in demo.scores],
        "truth": demo.truth,
        "top": [answer._asdict() for answer in demo.top],
        "dishes": [answer._asdict() for answer in demo.dishes],
        "sure": None if demo.sure is None else demo.sure._asdict(),
        "given": demo.known,
        "top_given": [answer._asdict() for answer in demo.top_given],
        "log_odds": demo.explanation.log_odds,
        "parts": [part._asdict() for part in demo.explanation.parts],
        "new_item": demo.new_item,
        "new_item_first": demo.new_item_first,
        "new_item_third": demo.new_item_third,
        "drawing": demo.drawing,
    }


def _print(demo: Demo) -> None:
    """The tour for people."""
    to = console()
    graph = demo.graph
    _heading(to, "A menu as a label graph")
    to.print(
        f"{len(graph)} fine labels such as {graph.fine[0]!r}, linked to {len(graph.kinds)} kinds of coarse labels:"
    )
    to.print("dish, restaurant, each ingredient, how it is served, and whether it is spicy.")
    to.print(f"drawn in {demo.drawing}")
    _heading(to, f"Two heads, {demo.photos} made-up photos per fine label")
    rows = [
        (score.head, *(f"{value:.1%}" for value in (score.fine, score.dish, score.restaurant))) for score in demo.scores
    ]
    print_table(to, ("head", "fine label", "dish", "restaurant"), rows, right=(1, 2, 3))
    to.print(
        f"Accuracy on new photos, mean of {demo.draws} draws. The photos are numbers in which every label leaves a"
    )
    to.print("trace, so this shows how it works, not how much it helps on real photos.")
    _heading(to, f"One photo of {demo.truth}")
    _answers(to, "most probable", demo.top)
    _answers(to, "as a dish", demo.dishes)
    to.print(f"  {'sure (risk 5 %)':16} {demo.sure if demo.sure is not None else 'nothing'}")
    known = ", ".join(f"{kind} is {label}" for kind, label in demo.known.items())
    _answers(to, f"given that the {known}", demo.top_given)
    _heading(to, "Why")
    for line in str(demo.explanation).splitlines()[:7]:
        to.print(printable(line))
    _heading(to, "A new menu item")
    to.print(f"A head that never saw {demo.new_item} is given its row of the table, and no photo.")
    to.print(f"It then is the first answer to {demo.new_item_first:.0%} of the photos of it, and among the first three")
    to.print(
        f"of {len(graph)} for {demo.new_item_third:.0%}: what is known of the dish and its ingredients is a start."
    )
    _heading(to, "Next")
    to.print("  finegraph graph check menu.csv    look for faults in a label table of your own")
    to.print("  finegraph graph show menu.csv     see its kinds and labels, or draw them with --svg")
    to.print("  README.md                         put a BipartiteHead on a network of your own")


def _heading(to: Console, text: str) -> None:
    from rich.text import Text

    to.print()
    to.print(Text(printable(text), style="bold"))


def _answers(to: Console, what: str, answers: list[Answer]) -> None:
    """A line of labels with probabilities."""
    line = ", ".join(f"{printable(answer.label)} {answer.probability:.0%}" for answer in answers)
    if len(what) > 16:
        to.print(f"  {what}:")
        what = ""
    to.print(f"  {what:16} {line}")
