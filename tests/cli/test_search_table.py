"""What `finegraph search` prints of numbers and ordered kinds."""

from finegraph.cli.search import _print
from finegraph.cli.terminal import console
from finegraph.search.hits import Hit
from finegraph.workflows.search import PhotoHits, SearchResult


def test_numbers_have_their_units_and_ordered_kinds_a_column(capsys):
    hits = [
        Hit(
            path=f"{n}.jpg",
            label=label,
            guess=None,
            kinds=ordered,
            ordered=ordered,
            values=values,
            similarity=0.9,
            score=0.9,
        )
        for n, label, ordered, values in (
            (1, "a", {"heat": ("hot",)}, {"price": 12.5}),
            (2, "b", {"heat": ("mild", "hot")}, {}),
            (3, "c", {}, {"price": 7.0}),
        )
    ]
    result = SearchResult(
        index="index",
        photos=3,
        complete=True,
        method="exact",
        same=(),
        other=(),
        where={},
        where_not={},
        given={},
        queries=(PhotoHits(label="a", hits=tuple(hits)),),
        units={"price": "EUR"},
        ordered=("heat",),
    )
    _print(console(), result)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["similarity", "label", "price,", "EUR", "heat", "photo"]
    assert lines[2][2:] == ["a", "12.5", "hot", "1.jpg"]
    assert lines[3][2:] == ["b", "-", "mild", "or", "hot", "2.jpg"]
    assert lines[4][2:] == ["c", "7", "-", "3.jpg"]
