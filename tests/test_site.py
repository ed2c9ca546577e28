"""The pages of the site that the code writes: every command, option, setting, route, name and error is on them."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import pytest

import finegraph
from finegraph import errors
from finegraph.labelling.store import sql_tables
from finegraph.model.folder import model_reader
from finegraph.search import index_state
from finegraph.training.records import run_folder
from finegraph.training.settings import TrainSettings

DOCS = Path(__file__).parents[1] / "docs"
SOURCES = sorted((DOCS.parent / "src/finegraph").rglob("*.py"))


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(DOCS))
    try:
        import reference_pages
    finally:
        sys.path.remove(str(DOCS))
    return reference_pages


def test_every_command_and_option_is_there(pages):
    text = pages.commands_page()
    found = dict(pages.all_commands())
    assert {"train", "graph check", "label export", "index make", "suggest-photos"} <= set(found)
    for name, command in found.items():
        section = text.split(f"## finegraph {name}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            for flag in parameter.opts if parameter.param_type_name == "option" and not parameter.hidden else ():
                assert flag == "--help" or flag == "-h" or f"`{flag}`" in section, (name, flag)


def test_every_setting_is_there(pages):
    text = pages.settings_page()
    for one in dataclasses.fields(TrainSettings):
        assert f"| `{one.name}` |" in text


def test_every_route_is_there(pages):
    text = pages.http_page()
    for path, methods in pages.openapi()["paths"].items():
        for method in methods:
            assert f"## {method.upper()} {path}\n" in text
    assert "## POST /v1/lessons\n" in text
    routes = {
        f"{method.upper()} {path}" for path, methods in pages.label_openapi()["paths"].items() for method in methods
    }
    assert routes == set(pages.LABEL_ROUTES)
    assert all(f"| `{route}` |" in text for route in routes)


def test_every_public_name_is_there(pages):
    text = pages.python_page()
    for name in finegraph.__all__:
        assert name == "__version__" or f"## {name}\n" in text
    assert "log_prob_of" in text


def test_every_error_is_there_with_what_to_do(pages):
    text = pages.errors_page()
    found = dict(pages.all_errors())
    assert set(found) == {
        name
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, errors.FinegraphError) and name == one.__name__
    }
    assert set(found) == set(pages.WHAT_TO_DO)
    for name in found:
        assert f"| `{name}` |" in text


def test_every_environment_variable_is_there(pages):
    used = {
        name
        for path in SOURCES
        for name in re.findall(r"FINEGRAPH_[A-Z]+(?:_[A-Z]+)*", path.read_text(encoding="utf-8"))
    }
    assert used == set(pages.VARIABLES)


def test_every_file_format_is_there():
    text = (DOCS / "reference/formats.md").read_text(encoding="utf-8")
    named = {
        name
        for path in SOURCES
        for name in re.findall(r"\"(finegraph\.[a-z.]+)\"", path.read_text(encoding="utf-8"))
        if re.search(rf"(FORMAT|format)[^\n]*\"{re.escape(name)}\"", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 8
    assert {name for name in named if f"`{name}`" not in text} == set()
    files = {*model_reader.FILES, *model_reader.OPTIONAL_FILES, *model_reader.ENTRIES, *sql_tables.metadata.tables}
    files |= set(re.findall(r"^ +(?:\S+/NAME/)?([\w.]+\.\w+|\w+/) ", run_folder.__doc__, flags=re.MULTILINE))
    files |= set(re.findall(r"([\w*-]+\.\w+) ", index_state.__doc__.split("\n\n")[1]))
    assert {"votes", "metrics.csv", "checkpoints/", "segment-*.safetensors", "lessons.jsonl"} <= files
    assert {name for name in files if f"`{name}`" not in text} == set()


def test_drawings_are_those_that_the_script_draws(pages):
    sys.path.insert(0, str(DOCS))
    try:
        import drawings
    finally:
        sys.path.remove(str(DOCS))
    for name, draw in drawings.DRAWINGS.items():
        assert (DOCS / f"_static/{name}.svg").read_text(encoding="utf-8") == draw().svg(), "run docs/drawings.py"


def test_tables_of_results_are_those_of_the_result_files():
    sys.path.insert(0, str(DOCS))
    try:
        import result_tables
    finally:
        sys.path.remove(str(DOCS))
    shown = []
    for path in result_tables.pages():
        text = path.read_text(encoding="utf-8")
        assert text == result_tables.rendered(text), f"{path.name}: run docs/result_tables.py"
        shown += result_tables.names_in(text)
    assert sorted(shown) == sorted(path.stem for path in result_tables.RESULTS.iterdir())
    for name in shown:
        assert result_tables.result(name)["command"].startswith(("finegraph ", "python benchmarks/")), name


def test_cells_of_tables_show_chance():
    sys.path.insert(0, str(DOCS))
    try:
        from result_tables import table
    finally:
        sys.path.remove(str(DOCS))
    rows = [
        ["a", {"difference": 1.25, "low": 0.1, "high": 2.4}],
        ["b", {"difference": -0.5, "clear": False}],
        ["c", None],
    ]
    text = table({"columns": ["head", "top-1"], "rows": rows})
    assert text.splitlines()[2:] == ["| a | **+1.2** (0.1 to 2.4) |", "| b | -0.5 |", "| c |  |"]


def test_pictures_load_quickly():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "_static").iterdir() if path.suffix != ".css"}
    assert len(sizes) > 3
    assert {name: size for name, size in sizes.items() if size > 150_000} == {}
    assert sum(sizes.values()) < 1_500_000


def test_pages_are_written_once(pages, tmp_path):
    pages.write_pages(tmp_path)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(times) == {f"{name}.md" for name in pages.PAGES}
    pages.write_pages(tmp_path)
    assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_every_page_can_be_reached():
    """A page that no list of pages names is found by nobody."""
    listed = " ".join(path.read_text(encoding="utf-8") for path in (DOCS / "index.md", *DOCS.rglob("index.md")))
    for path in DOCS.rglob("*.md"):
        if path.stem != "index" and path.parent.name != "decisions":
            assert path.stem in listed, path
