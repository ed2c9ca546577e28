"""What the documents say holds: their sessions run as printed, and what they name is there."""

import ast
import dataclasses
import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import finegraph

ROOT = Path(__file__).parents[1]
MADE = {"commands", "settings", "python", "http", "errors"}
"""Pages of the reference that a build of the site writes; `test_site.py` looks at them."""
DOCUMENTS = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "decisions"),
]
DOCUMENTS = [path for path in DOCUMENTS if path.parent.name != "reference" or path.stem not in MADE]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(finegraph.__path__, "finegraph.")
    if not module.name.startswith(("finegraph.cli", "finegraph.__main__"))
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_sessions_run_as_printed(document):
    results = doctest.testfile(str(document), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_the_readme_has_a_session():
    sessions = doctest.DocTestParser().get_examples((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(sessions) > 10


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(module, extraglobs={"torch": importlib.import_module("torch")}):
        if test.examples:  # to begin one takes a millisecond and more, and most docstrings have none
            runner.run(test)
    assert runner.summarize().failed == 0


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def rows_of_the_idea():
    """The rows of the table of letters: letter, names, shape, file."""
    text = (ROOT / "docs/idea.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| `(.+?)` \|$", text, flags=re.MULTILINE)
    assert len(rows) > 10
    return rows


@pytest.mark.parametrize("row", rows_of_the_idea(), ids=lambda row: row[1])
def test_the_names_of_the_idea_stand_where_it_says(row):
    _, names, shape, path = row
    source = (ROOT / path).read_text(encoding="utf-8")
    for name in re.findall(r"`(\w+)`", names):
        assert re.search(rf"(def|class) {name}\b|\b{name}:|self\.{name} =|\b{name}=", source), (name, path)
    assert set(re.findall(r"\w+", shape)) <= axis_words()


def axis_words():
    """The axis words that docs/idea.md lists."""
    text = (ROOT / "docs/idea.md").read_text(encoding="utf-8")
    listed = re.search(r"^Axis words of shapes[^:]*: (.+?)\n\n", text, flags=re.MULTILINE | re.DOTALL)[1]
    return set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", listed, flags=re.DOTALL)))


def test_shapes_use_the_axis_words_of_the_idea():
    used = set()
    for path in (ROOT / "src/finegraph/inference").rglob("*.py"):
        for shape in re.findall(r"\b(?:Float|Int|Bool|Shaped)\[Tensor, \"(.*?)\"\]", path.read_text(encoding="utf-8")):
            used |= {word.lstrip("*#") for word in shape.split() if word not in ("_", "...") and not word.isdigit()}
    assert len(used) > 10
    assert used <= axis_words()


def test_the_loss_carries_out_every_formula_of_the_idea_in_order():
    idea = (ROOT / "docs/idea.md").read_text(encoding="utf-8")
    code = (ROOT / "src/finegraph/inference/loss/formulas.py").read_text(encoding="utf-8")
    numbers = re.findall(r"^    \((\d)\)  ", idea, flags=re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 8)]
    assert re.findall(r"# \((\d)\)$", code, flags=re.MULTILINE) == numbers[1:]


LINKING = [
    *DOCUMENTS,
    *(path for path in ROOT.glob("*.md") if path not in DOCUMENTS),
    *ROOT.glob("docs/decisions/*.md"),
]


@pytest.mark.parametrize("document", LINKING, ids=lambda path: path.name)
def test_links_and_files_that_are_named_exist(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]*)\)", text):
        path, _, part = target.partition("#")
        page = document.parent / path if path else document
        made = page.parent.name == "reference" and page.stem in MADE
        assert made or page.exists(), target
        assert made or not part or part in anchors(page), target
    for target in re.findall(r"`((?:src|tests|benchmarks|docs)/[\w/.-]+)`", text):
        assert "NAME" in target or (ROOT / target).exists(), target


def anchors(page):
    """The names of the headings of a page, as links call them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_public_names_are_what_all_says():
    tree = ast.parse((ROOT / "src/finegraph/__init__.py").read_text(encoding="utf-8"))
    for_type_checkers = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        for alias in node.names
    }
    loaded = {(module, name) for module, names in finegraph._HOME.items() for name in names}
    assert for_type_checkers == loaded
    assert sorted(finegraph.__all__) == sorted(["__version__", *(name for _, name in loaded)])
    for module, name in loaded:
        assert getattr(finegraph, name) is getattr(importlib.import_module(module), name)
    assert set(finegraph.__all__) <= set(dir(finegraph))
    with pytest.raises(AttributeError, match="no attribute 'LabelGraf'"):
        _ = finegraph.LabelGraf


def functions_with_arguments():
    """The functions whose docstrings list arguments: where they are, what is listed, and what the signature has."""
    for path in sorted((ROOT / "src/finegraph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            listed = re.search(r"^Args:\n((?:    .*\n?|\n)+)", ast.get_docstring(node) or "", flags=re.MULTILINE)
            if listed:
                names = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", listed[1], flags=re.MULTILINE)
                given = node.args
                signature = [one.arg for one in [*given.posonlyargs, *given.args]]
                signature += [f"*{given.vararg.arg}"] if given.vararg else []
                signature += [one.arg for one in given.kwonlyargs]
                signature += [f"**{given.kwarg.arg}"] if given.kwarg else []
                yield (
                    f"{path.relative_to(ROOT)}:{node.lineno} {node.name}",
                    [name for several in names for name in several.split(", ")],
                    [name for name in signature if name not in ("self", "cls", "ctx")],
                )


def test_docstrings_list_the_arguments_of_the_signature():
    found = list(functions_with_arguments())
    assert len(found) > 100
    assert [(where, listed, given) for where, listed, given in found if listed != given] == []


def test_names_in_the_documents_exist():
    for document in (*DOCUMENTS, ROOT / "CHANGELOG.md"):
        text = document.read_text(encoding="utf-8")
        assert "@@" not in text, document.name
        for name in re.findall(r"\bfg\.(\w+)", text):
            assert hasattr(finegraph, name), name


def test_importing_is_silent_and_needs_no_torch():
    code = "import sys, finegraph, finegraph.graph; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_the_tables_of_settings_are_complete():
    from finegraph.training.settings import TrainSettings

    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    described = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", text, flags=re.MULTILINE))
    settings = {one.name: one.metadata["about"] for one in dataclasses.fields(TrainSettings)}
    assert {name: described.get(name) for name in settings} == settings


def test_every_command_is_in_the_documents():
    from finegraph.cli.main import app

    text = "".join(path.read_text(encoding="utf-8") for path in (*DOCUMENTS, ROOT / "CHANGELOG.md"))
    for command in [*app.registered_commands, *app.registered_groups]:
        name = command.name or command.callback.__name__.replace("_", "-")
        assert re.search(rf"finegraph {name}\b", text), name


def commands_in(text):
    """The command lines in blocks of code, without what is said beside them, and those between backquotes."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^(?:\$ )?(finegraph .+?)(?:  .*)?$", block, re.MULTILINE)
    yield from re.findall(r"`(finegraph [^`]+)`", text)


def command_of(words):
    """The command that a line names, and the words that follow its name."""
    from finegraph.cli.main import whole_command

    command = whole_command()
    while words and hasattr(command, "commands"):
        name = words[0]
        if hasattr(command, "default") and name not in command.commands:
            return command.commands[command.default], words  # whose name may be left out
        command, words = command.commands[name], words[1:]
    return command, words


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_commands_in_the_documents_can_be_typed(document):
    for line in commands_in(document.read_text(encoding="utf-8")):
        command, words = command_of(shlex.split(line, comments=True)[1:])
        options = {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
        for word in words:
            assert not re.match(r"--?[a-z]", word) or word.partition("=")[0] in options, f"{word}: {line}"


def test_the_documents_hold_commands():
    lines = [line for path in DOCUMENTS for line in commands_in(path.read_text(encoding="utf-8"))]
    assert len(lines) > 60
    assert "finegraph predict runs/photos dinner.jpg --given restaurant=B" in lines
