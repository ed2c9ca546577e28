import pytest

from finegraph.errors import GraphFileError, InputError
from finegraph.workflows.graph import check_graph, show_graph


@pytest.fixture
def menu_file(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text("fine,dish,spicy\nx,a,yes\ny,a,no\nz,b,\n", encoding="utf-8")
    return path


def test_check(menu_file):
    result = check_graph(menu_file)
    assert (result.file, result.fine, result.kinds, result.errors) == (str(menu_file), 3, 2, 0)
    assert result.warnings == len(result.findings)


def test_check_returns_faults(menu_file):
    menu_file.write_text("fine,dish\nx,a\nx,b\n", encoding="utf-8")
    result = check_graph(menu_file)
    assert (result.fine, result.kinds, result.errors, result.warnings) == (None, None, 1, 0)
    assert result.findings[0].line == 3


def test_check_without_a_file(tmp_path):
    with pytest.raises(GraphFileError, match="there is no such file") as caught:
        check_graph(tmp_path / "none.csv")
    assert [fault.rule for fault in caught.value.faults] == ["missing-file"]


def test_show(menu_file):
    view = show_graph(str(menu_file), ["spicy"])
    assert (view.file, view.picture) == (str(menu_file), None)
    assert [column.name for column in view.summary.columns] == ["spicy"]


def test_show_draws_the_chosen_kinds(menu_file, tmp_path):
    target = tmp_path / "menu.svg"
    view = show_graph(menu_file, ["spicy"], target)
    assert view.picture == str(target)
    text = target.read_text(encoding="utf-8")
    assert "1 of 2 kinds and groups" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menu.csv", "menu.svg"]


def test_picture_is_replaced_but_never_the_graph(menu_file, tmp_path):
    target = tmp_path / "menu.svg"
    target.write_text("old", encoding="utf-8")
    show_graph(menu_file, picture=target)
    assert target.read_text(encoding="utf-8").startswith("<svg")
    link = tmp_path / "link.svg"
    link.symlink_to(menu_file)
    with pytest.raises(InputError, match="would replace the graph file itself"):
        show_graph(menu_file, picture=link)
    assert menu_file.read_text(encoding="utf-8").startswith("fine,")
