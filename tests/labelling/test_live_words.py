"""What the graph check says to those who label: of classes, with all names as they are."""

import pytest

from finegraph.graph import LabelGraph
from finegraph.labelling import LabelStore
from finegraph.labelling.questions.live_findings import in_classes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unknown for 85% of the fine labels", "unknown for 85% of the classes"),
        ("every known fine label has 'a'", "every known class has 'a'"),
        ("every known fine label has 'fine label'", "every known class has 'fine label'"),
        ('no fine label has "the cook\'s fine labels"', 'no class has "the cook\'s fine labels"'),
        ("refine labels", "refine labels"),
    ],
)
def test_fine_labels_are_classes_but_in_names(text, expected):
    assert in_classes(text) == expected


def test_no_finding_of_a_store_speaks_of_fine_labels(tmp_path):
    table = {f"c{number}": {"a": "x", "b": None, "c": f"own {number}", "d": "y"} for number in range(4)}
    graph = LabelGraph.from_table(table | {"last": {"a": "x", "b": "z", "c": "own", "d": "y"}})
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(graph, person="import", edit_id="first")
        said = [f"{one.message} {one.hint}" for one in store.findings()]
    assert any("classes" in text for text in said)
    assert not [text for text in said if "fine label" in text]
