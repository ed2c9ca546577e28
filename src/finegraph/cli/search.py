"""`finegraph search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.shared_options import Json, MovedModel
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.search import Hit
    from finegraph.workflows.search import PhotoHits, SearchResult


def search(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder; see finegraph index.")],
    photos: Annotated[
        list[Path] | None, typer.Argument(metavar="PHOTO", help="Photos to search by, or folders of photos.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Search by a fine label, that is the mean of its photos.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL",
            help="Only photos with this label, or with KIND!=LABEL another; the same kind again: one of these. Limits: "
            "price>=12, heat>=medium, heat>this (than the photo).",
        ),
    ] = None,
    same: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Prefer photos that probably have the same label, as dish.")
    ] = None,
    other: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Prefer photos that probably have another label.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL", help="What is known of the photo: only photos that agree, or for --same and --other."
        ),
    ] = None,
    per_label: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most N photos of each fine label.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many photos to find.")] = 10,
    guessed: Annotated[
        bool, typer.Option("--guessed", help="Filter photos without a label by their predicted label.")
    ] = False,
    sort: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Sort what is found by a number or ordered kind; -NAME: falling."),
    ] = None,
    others_only: Annotated[bool, typer.Option("--others-only", help="Leave out copies of the photo itself.")] = False,
    model: MovedModel = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with small pictures to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find photos similar to a photo or a label."""
    from finegraph.workflows.search import search_index

    result = search_index(
        index,
        photos or (),
        labels=label or (),
        model=model,
        count=number,
        where=where or (),
        same=same or (),
        other=other or (),
        given=given or (),
        per_label=per_label,
        guessed=guessed,
        others_only=others_only,
        sort=sort,
    )
    if not result.complete:
        console(stderr=True).print(
            f"making {printable(result.index)} was interrupted, so photos are missing; give the same command again"
        )
    if html is not None:
        from finegraph.workflows.indexing.search_page import write_search_page

        write_search_page(result, html)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(console(), result)
        if html is not None:
            console().print(f"\nwritten to {printable(str(html))}")


def _print(out: Console, result: SearchResult) -> None:
    """The photos found, query after query."""
    from finegraph.workflows.indexing.search_page import in_index_words

    for place, query in enumerate(result.queries):
        if place:
            out.print()
        out.print(printable(_title(query, result)))
        for stored in query.in_index:
            out.print(printable(f"{in_index_words(stored)}: {stored.path}"))
        if not query.hits:
            out.print("no photo passes")
            continue
        ranked = query.hits[0].probability is not None
        numbers = tuple(dict.fromkeys(name for hit in query.hits for name in hit.values))
        named = [f"{name}, {result.units[name]}" if name in result.units else name for name in numbers]
        headings = ("", "similarity", *(("probability",) if ranked else ()), "label", *named, *result.ordered, "photo")
        rows = [_row(number, hit, numbers, result.ordered) for number, hit in enumerate(query.hits, 1)]
        print_table(out, headings, rows, right=(0, 1, 2) if ranked else (0, 1))


def _title(query: PhotoHits, result: SearchResult) -> str:
    """The query in words."""
    name = query.photo if query.photo is not None else f"photos like {query.label}"
    limits = "".join(f", {name} {limit}" for name, limit in query.limits.items())
    found = f"{count(len(query.hits), 'hit')} among {count(result.photos, 'photo')}"
    return f"{name}: {found} ({result.method} search{limits})"


def _row(number: int, hit: Hit, numbers: tuple[str, ...], ordered: tuple[str, ...]) -> tuple[str, ...]:
    label = hit.label or (f"{hit.guess}?" if hit.guess else "-")
    probability = () if hit.probability is None else (f"{hit.probability:.1%}",)
    values = (f"{hit.values[name]:.6g}" if name in hit.values else "-" for name in numbers)
    steps = (" or ".join(hit.ordered.get(kind, ())) or "-" for kind in ordered)
    return (str(number), f"{hit.similarity:.3f}", *probability, label, *values, *steps, hit.path)
