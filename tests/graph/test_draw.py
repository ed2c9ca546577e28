import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest

from finegraph.errors import InputError, UnknownNameError
from finegraph.graph import Kind, LabelGraph
from finegraph.graph.drawing.svg_drawing import PALETTE, draw_svg
from finegraph.graph.drawing.text_width import shorten_to_width, text_width

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a & b",
    "]]>",
    "<!--",
    "&lt;",
    "&#0;",
    "\ufffe odd",
    "\u202eturned",
    "麻婆豆腐",
    "🍜",
    "x" * 300,
]


@pytest.fixture
def menu():
    return LabelGraph.from_table(
        {
            "a @ 1": {"dish": "a", "served": {"bowl": 1.0, "plate": 3.0}, "spicy": True, "with": ["tofu", "pork"]},
            "b @ 1": {"dish": "b", "served": None, "spicy": None, "with": []},
            "a @ 2": {"dish": "a", "served": "plate", "spicy": False, "with": ["tofu"]},
            "c @ 1": {"dish": "c", "served": "bowl", "spicy": True, "with": None},
        }
    )


def wide_graph(fine, kinds, labels=5, seed=0):
    random = np.random.default_rng(seed)
    parents = {f"kind {number}": random.integers(0, labels, fine) for number in range(kinds)}
    names = {name: [f"{name} label {c}" for c in range(labels)] for name in parents}
    return LabelGraph.from_parents([f"fine {number}" for number in range(fine)], parents, names)


def picture(graph, *arguments, **settings):
    return ElementTree.fromstring(draw_svg(graph, *arguments, **settings))


def words(root):
    """All text that can be read in the picture, without titles."""
    return ["".join(part.itertext()) for part in (_without_title(text) for text in root.iter(f"{SVG}text"))]


def _without_title(text):
    copy = ElementTree.fromstring(ElementTree.tostring(text))
    for title in copy.findall(f"{SVG}title"):
        title.text = ""
    return copy


def links(root):
    return [path.find(f"{SVG}title").text for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]


def test_every_link_is_drawn_once(menu):
    assert sorted(links(picture(menu))) == sorted(
        [
            *("a @ 1 – a, weight 1", "a @ 2 – a, weight 1", "b @ 1 – b, weight 1", "c @ 1 – c, weight 1"),
            *("a @ 1 – bowl, weight 0.25", "a @ 1 – plate, weight 0.75", "a @ 2 – plate, weight 1"),
            *("b @ 1 – unknown, unknown", "c @ 1 – bowl, weight 1"),
            *("a @ 1 – yes, weight 1", "a @ 2 – no, weight 1", "b @ 1 – unknown, unknown", "c @ 1 – yes, weight 1"),
            *("a @ 1 – tofu, weight 1", "a @ 1 – pork, weight 1", "a @ 2 – tofu, weight 1", "c @ 1 – unknown, unknown"),
        ]
    )


def test_every_name_can_be_read(menu):
    read = words(picture(menu, title="my menu"))
    for name in ("my menu", *menu.fine, "a", "b", "c", "bowl", "plate", "tofu", "pork", "yes", "no", "unknown"):
        assert name in read
    for heading in ("dishone of 3", "servedone of 2", "withany of 2"):
        assert heading in read


def test_width_is_weight_and_unknown_is_dashed(menu):
    widths = {}
    for path in picture(menu, ["served"]).iter(f"{SVG}path"):
        if (title := path.find(f"{SVG}title")) is not None:
            widths[title.text] = (float(path.get("stroke-width")), path.get("stroke-dasharray"))
    assert widths["a @ 1 – bowl, weight 0.25"][0] < widths["a @ 1 – plate, weight 0.75"][0]
    assert widths["a @ 1 – plate, weight 0.75"][0] < widths["a @ 2 – plate, weight 1"][0]
    assert [title for title, (_, dashes) in widths.items() if dashes] == ["b @ 1 – unknown, unknown"]


def test_unknown_box_is_hollow(menu):
    hollow = [
        group.find(f"{SVG}text").text
        for group in picture(menu).iter(f"{SVG}g")
        if (box := group.find(f"{SVG}rect")) is not None and box.get("stroke-dasharray")
    ]
    assert hollow == ["unknown", "unknown", "unknown"]


def test_group_unknown_in_one_of_its_kinds_only(menu):
    tofu = Kind.from_parents("with: tofu", ("no", "yes"), [1, -1, 1, -1])
    drawn = links(picture(menu.with_kind(tofu), ["with"]))
    assert "b @ 1 – tofu, unknown" in drawn
    assert "c @ 1 – unknown, unknown" in drawn
    assert "c @ 1 – tofu, unknown" not in drawn


def test_fine_labels_are_ordered_by_the_first_kind(menu):
    read = words(picture(menu, ["dish"]))
    assert [word for word in read if "@" in word] == ["a @ 1", "a @ 2", "b @ 1", "c @ 1"]


def test_no_crossings_where_none_are_needed():
    fine = [f"fine {number}" for number in range(12)]
    graph = LabelGraph.from_parents(
        fine, {"first": [3, 1, 2, 0] * 3, "second": [0, 2, 1, 2] * 3}, {"second": ["x", "z", "y"]}
    )
    for column in ("first", "second"):
        ends = []
        for path in picture(graph.only(["first", "second"])).iter(f"{SVG}path"):
            title = path.find(f"{SVG}title")
            label = title.text.split(" – ")[1].split(",")[0] if title is not None else None
            if label in graph.labels(column):
                numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]
                ends.append((numbers[1], numbers[-1]))
        ends.sort()
        assert len(ends) == 12
        assert [end for _, end in ends] == sorted(end for _, end in ends)


def test_large_graph_says_what_is_left_out():
    root = picture(wide_graph(fine=200, kinds=28))
    part = "60 of 200 fine labels, in proportion from every kind 0, and the first 6 of 28 kinds and groups"
    assert f"Only a part is drawn: {part}." in words(root)
    assert len({word for word in words(root) if word.startswith("fine ") and word != "fine label"}) == 60
    assert len(links(root)) == 60 * 6


def test_whole_graph_leaves_nothing_out(menu):
    assert not [word for word in words(picture(menu)) if "part" in word]
    assert "4 fine labels, 5 kinds" in words(picture(menu))


def test_chosen_kinds_are_said_to_be_a_part(menu):
    assert "Only a part is drawn: 2 of 4 kinds and groups." in words(picture(menu, ["with", "dish"]))


def test_rare_labels_share_a_box():
    graph = LabelGraph.from_parents([f"f{i}" for i in range(7)], {"dish": [0, 0, 1, 1, 2, 3, 4]})
    root = picture(graph, max_labels=2)
    assert "3 other labels" in words(root)
    assert [link for link in links(root) if "other" in link] == [f"f{i} – 3 other labels, weight 1" for i in (4, 5, 6)]


def test_labels_without_a_link_are_counted():
    graph = LabelGraph.from_parents(["x"], {"dish": [1]}, {"dish": ["a", "b", "c", "d"]})
    assert "3 more not drawn" in words(picture(graph))


def test_group_in_which_nothing_holds():
    graph = LabelGraph.from_table(
        {**{name: {"with": []} for name in "uvx"}, "y": {"with": ["tofu"]}, "z": {"with": ["pork"]}}
    )
    assert "2 more not drawn" in words(picture(graph, max_fine=1))


def test_everything_is_inside_the_picture():
    for graph in (wide_graph(40, 6, labels=30), wide_graph(1, 1, labels=1), LabelGraph(["x"])):
        root = picture(graph)
        moved = root.find(f"{SVG}g").get("transform")
        dx, dy = (float(number) for number in re.findall(r"[\d.]+", moved))
        for box in root.iter(f"{SVG}rect"):
            if box.get("x") is not None:
                x, y, width, height = (float(box.get(name)) for name in ("x", "y", "width", "height"))
                assert x >= -0.1
                assert y >= 0
                assert dx + x + width <= float(root.get("width"))
                assert dy + y + height <= float(root.get("height"))


def test_boxes_do_not_overlap():
    root = picture(wide_graph(40, 6, labels=30))
    columns = {}
    for box in root.iter(f"{SVG}rect"):
        if box.get("x") is not None:
            columns.setdefault(box.get("x"), []).append((float(box.get("y")), float(box.get("height"))))
    for boxes in columns.values():
        boxes.sort()
        assert all(y + height < next_y for (y, height), (next_y, _) in pairwise(boxes))


def test_names_cannot_break_out():
    table = {name: {"dish": HOSTILE[-1 - number], "with": [name]} for number, name in enumerate(HOSTILE)}
    text = draw_svg(LabelGraph.from_table(table), title=HOSTILE[0])
    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "rect", "text", "tspan", "g", "path", "circle")
    }
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name or name == "style"]
    assert "\ufffe" not in text
    assert "\u202e" not in text
    assert any(title.text == HOSTILE[0] for title in root.iter(f"{SVG}title"))


def test_no_reference_to_anything_outside(menu):
    text = draw_svg(menu)
    assert text.count("http") == 1  # the name space
    assert "url(" not in text


def test_long_names_are_shortened_and_whole_in_the_title():
    name = "a very long name of a dish that nobody could ever order without a deep breath"
    root = picture(LabelGraph([name]))
    assert [title.text for title in root.iter(f"{SVG}title")].count(name) == 1
    short = next(word for word in words(root) if "…" in word)
    head, tail = short.split("…")
    assert name.startswith(head)
    assert name.endswith(tail)


def test_same_graph_same_bytes(menu):
    assert draw_svg(menu) == draw_svg(menu.only(menu.kinds))


def test_each_kind_has_its_own_colour(menu):
    text = draw_svg(menu)
    assert [colour for colour, _ in PALETTE if colour in text] == [colour for colour, _ in PALETTE[:4]]


@pytest.mark.parametrize("setting", ["max_fine", "max_kinds", "max_labels"])
def test_limits_are_checked(menu, setting):
    with pytest.raises(InputError, match=f"{setting} must be 1 or more, got 0"):
        draw_svg(menu, **{setting: 0})


def test_unknown_kind(menu):
    with pytest.raises(UnknownNameError, match="did you mean 'dish'"):
        draw_svg(menu, ["dihs"])


def test_shortening():
    assert shorten_to_width("short", 100, 10) == "short"
    assert shorten_to_width("x" * 50, 0, 10) == "…"
    for width in range(5, 400, 7):
        assert (
            text_width(shorten_to_width("mapo tofu @ Shanghai Dumpling 麻婆豆腐", width, 10), 10)
            <= max(width, 6.2) + 0.1
        )


def test_wide_characters_take_more_room():
    assert text_width("豆腐", 10) > 1.5 * text_width("ab", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)
