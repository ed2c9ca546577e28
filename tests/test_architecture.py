"""docs/architecture.md against the code: what it names exists; no imports go in circles; one meaning per file name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "finegraph"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py|\.js)?)`", TEXT))))
def test_places_exist(place):
    path = PACKAGE / place
    assert path.is_dir() if place.endswith("/") else path.is_file(), place


def test_places_that_contributors_are_sent_to_exist():
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:src|tests|docs|benchmarks|studies|web)/[a-z_/]*(?:\w+\.(?:py|js|md))?)`", table)
    assert len(places) > 20
    for place in places:
        assert (ROOT / place).exists() or (PACKAGE / place).exists(), place
    for row in table.splitlines():  # files that are named alone lie in a folder that the row names
        folders = [ROOT / place for place in re.findall(r"`(src/[a-z_/]+/)`", row)]
        folders += [(ROOT / place).parent for place in re.findall(r"`(src/[a-z_/]+\.py)`", row)]
        for name in re.findall(r"`([a-z_]+\.py)`", row):
            assert any(list(folder.rglob(name)) for folder in folders), f"{name}: {row}"


def test_every_package_is_named():
    layers = TEXT[TEXT.index("```") : TEXT.rindex("```")]
    for path in PACKAGE.iterdir():
        if (path / "__init__.py").is_file():
            assert re.search(rf"^(.* )?{path.name}\b", layers, re.MULTILINE), path.name


def test_every_room_is_named():
    for path in PACKAGE.glob("*/*/__init__.py"):
        room = path.parent.relative_to(PACKAGE).as_posix()
        assert f"`{room}/`" in TEXT, room


@pytest.mark.parametrize(
    ("place", "names"), re.findall(r"^\d+\. `([^`]+\.py)` ((?:`\w+`(?:, )?)+)", TEXT, re.MULTILINE)
)
def test_functions_of_the_walks_are_there(place, names):
    source = (PACKAGE / place).read_text(encoding="utf-8")
    for name in re.findall(r"\w+", names):
        assert re.search(rf"^ *def {name}\(", source, re.MULTILINE), f"{place}: {name}"


# ---- imports and names --------------------------------------------------------------------------------------------

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
NAMED_TWICE = {
    "a command: how it is asked for, and what it does": (
        ("cli", "workflows"),
        "data demo doctor evaluate export graph index label predict report search study suggest_photos teach train",
    ),
    "a data set: its photos, and its label graph": (
        ("data/layouts", "graph/builders"),
        "cars cub folders grocery manifest",
    ),
}
"""Why two modules may have one name, where they are, and their names."""
DEFINED_TWICE = {
    "a command and what it does, or commands of several groups": ("check main search serve show suggest_photos"),
    "the body of a request, and the record of the store that it becomes": (
        "Change Edit Numbers PairNumbers PhotoLabel"
    ),
    "a public error, and the record of the store that it holds": "Conflict",
    "of training, and of the labelling log, whose clients have this name": "Batch",
    "the words for a prediction, and for a label graph": "describe",
    "a share in words: on the serve page to the last digit, in reports rounded": "percent",
}
"""Why two public classes or functions may have one name, and their names."""


def imports_of(name):
    """The modules of the package that a module imports: at its top, in functions, or for type checkers alone."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner if inner <= set(MODULES) else {node.module, *inner}
    return found & set(MODULES) - {name}


def cycle_in(edges):
    """Modules that import each other in a circle; empty where there are none."""
    order, state = [], {}

    def visit(name):
        state[name] = "open"
        order.append(name)
        for other in sorted(edges[name]):
            if state.get(other) == "open":
                return [*order[order.index(other) :], other]
            if other not in state and (found := visit(other)):
                return found
        state[name] = "done"
        order.pop()
        return []

    for name in edges:
        if name not in state and (found := visit(name)):
            return found
    return []


def test_no_cycle_is_hidden_in_functions_or_from_the_interpreter():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    edges = {name: imports_of(name) for name in MODULES}
    assert "finegraph.graph.kind" in edges["finegraph.graph.label_graph"]
    assert cycle_in(edges) == []


def test_errors_import_nothing_of_the_package():
    assert imports_of("finegraph.errors") == set()


def test_one_meaning_per_file_name_of_pages():
    places = {}
    for suffix in (".js", ".css", ".html"):
        for path in PACKAGE.rglob(f"*{suffix}"):
            places.setdefault(path.name, set()).add(path.parent.relative_to(PACKAGE).as_posix())
    assert {"serve.html", "label.html", "report.html", "search.html", "elements.js"} <= set(places)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_one_meaning_per_file_name():
    places = {}
    for path in PACKAGE.rglob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            places.setdefault(path.stem, set()).add(path.parent.relative_to(PACKAGE).as_posix())
    allowed = {name: set(where) for where, names in NAMED_TWICE.values() for name in names.split()}
    assert {name: where for name, where in places.items() if len(where) > 1} == allowed


def named_files(path, text):
    """The files that a docstring names and that are neither beside the module nor below a folder above it."""
    folders = [one for one in path.parents if one.is_relative_to(PACKAGE)]
    names = re.findall(r"(?<![\w./-])(?:[a-z_]+/)*[a-z_]+\.py\b", text)
    return {name for name in names if not any((folder / name).is_file() for folder in folders)}


def test_files_that_docstrings_name_are_there():
    loss = PACKAGE / "inference" / "loss" / "joint_loss.py"
    assert named_files(loss, "`formulas.py`, `sums/targets.py`, (model/classifier.py), `targets.py`") == {"targets.py"}
    found = {}
    for name, path in MODULES.items():
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if missing := named_files(path, text):
            found[name] = missing
    assert found == {}


def test_one_meaning_per_public_name():
    places = {}
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                places.setdefault(node.name, set()).add(name)
    allowed = {name for names in DEFINED_TWICE.values() for name in names.split()}
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in allowed} == {}
    assert {name for name in allowed if len(places.get(name, ())) < 2} == set()
