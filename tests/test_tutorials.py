"""Tutorials run as they are printed, and each notebook is the page."""

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NAMES = sorted(path.stem for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def tutorials():
    """The script that runs tutorials."""
    sys.path.insert(0, str(DOCS))
    try:
        import tutorial_runs
    finally:
        sys.path.remove(str(DOCS))
    return tutorial_runs


@pytest.mark.parametrize("name", NAMES)
def test_a_page_comes_back_from_its_parts(tutorials, name):
    parts = tutorials.read(name)
    assert tutorials.page(parts) == (DOCS / f"tutorials/{name}.md").read_text(encoding="utf-8")
    assert sum(isinstance(part, tutorials.Cell) for part in parts) > 5


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_page(tutorials, name):
    text = (DOCS / f"tutorials/{name}.ipynb").read_text(encoding="utf-8")
    assert text == tutorials.notebook(tutorials.read(name)), "run docs/tutorial_runs.py"
    cells = json.loads(text)["cells"]
    assert {cell["cell_type"] for cell in cells} == {"markdown", "code"}
    assert any(cell["source"][0].startswith("!finegraph ") for cell in cells) or name == "own-network"


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_prints_what_its_page_says(tutorials, name, tmp_path, monkeypatch):
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path))
    written = tutorials.read(name)
    for before, after in zip(written, tutorials.run(written), strict=True):
        if isinstance(before, tutorials.Cell) and not before.varies:
            assert tutorials.words_of(after.output) == tutorials.words_of(before.output), before.code


def test_a_command_that_fails_ends_the_run(tutorials):
    with pytest.raises(RuntimeError, match="exit code 3"):
        tutorials.run([tutorials.Cell("console", "$ finegraph graph check nowhere.csv\n", "")])
