"""Every block of code in the documents is run, read or typed, by its language; a block without one is refused.

Sessions (`>>>`) run in `test_docs.py`, the cells of tutorials in `test_tutorials.py`. Here are the others: scripts run
on small models, files are read by the code that reads them for users, and each line of shell must be valid.
"""

import functools
import itertools
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

import taught_classifier
import tiny_classifier as tiny
from finegraph.data.layouts.manifest import read_manifest
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import Comparable, parse_comparisons
from finegraph.labelling import LabelStore
from finegraph.model.export import export_names
from finegraph.workflows.index import make_index
from finegraph.workflows.studies.spec import study_of

ROOT = Path(__file__).parents[1]
MADE = {"commands", "settings", "python", "http", "errors"}
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if path.parent.name != "tutorials" and not (path.parent.name == "reference" and path.stem in MADE)
    ),
]
pytestmark = pytest.mark.usefixtures("unchecked")


class Block(NamedTuple):
    """A block of code: where it stands, its language and its text."""

    where: str
    language: str
    text: str


def blocks(*languages):
    """The blocks of all documents in some languages, or all."""
    for path in DOCUMENTS:
        opened, lines = None, []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if opened is None and line.lstrip().startswith("```"):
                opened, lines = (number, line.strip().strip("`")), []
            elif opened is not None and line.strip() == "```":
                if not languages or opened[1] in languages:
                    yield Block(f"{path.relative_to(ROOT)}:{opened[0]}", opened[1], "\n".join(lines) + "\n")
                opened = None
            else:
                lines.append(line)
        assert opened is None, f"{path}:{opened}: not closed"


def test_every_block_says_its_language():
    """`text` is what nobody runs: trees of folders, formulas, what a command printed."""
    known = {"sh", "python", "csv", "json", "toml", "js", "text", "{toctree}", "{eval-rst}"}
    assert [block.where for block in blocks() if block.language not in known] == []
    assert not [block.where for block in blocks("text") if re.search(r"^(finegraph|make|pip|curl) ", block.text, re.M)]


# ---- files ----------------------------------------------------------------------------------------------------------


def test_tables_are_read(tmp_path):
    read = {"fine": 0, "path": 0, "kind": 0}
    for block in blocks("csv"):
        path = tmp_path / "table.csv"
        path.write_text(block.text, encoding="utf-8")
        first = block.text.partition(",")[0]
        rows = block.text.count("\n") - 1
        if first == "fine":
            assert len(LabelGraph.read(path)) == rows, block.where
        elif first == "path":
            assert len(read_manifest(path)) == rows, block.where
        else:
            names = set(re.findall(r"[^,\n]+", block.text))
            photos = {name for name in names if name.endswith(".jpg")}
            found = parse_comparisons(block.text, Comparable(names - photos, photos), block.where)
            assert len(found) == rows, block.where
        read[first] += 1
    assert all(read.values())


def test_json_is_that_of_graphs(tmp_path):
    for block in blocks("json"):
        path = tmp_path / "graph.json"
        path.write_text(block.text, encoding="utf-8")
        assert len(LabelGraph.read(path)) > 1, block.where


def test_toml_is_that_of_studies():
    found = [study_of(tomllib.loads(block.text), block.where) for block in blocks("toml")]
    assert found


# ---- scripts --------------------------------------------------------------------------------------------------------

TABLE = {**tiny.TABLE, "ramen @ B": {"dish": "ramen", "restaurant": "B", "with": ["pork"], "spicy": False}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the documents call theirs: a model, photos, an index, a store."""
    tiny.register(monkeypatch)
    monkeypatch.chdir(tmp_path)
    taught_classifier.fitted(TABLE).save(tmp_path / "runs/menu/model")
    for number, label in enumerate(TABLE):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.fromarray(taught_classifier.photo_of(number, 50)).save(tmp_path / "photos" / label / "1.png")
    for name in ("new.jpg", "photo.jpg"):
        tiny.picture(7).save(tmp_path / name)
    return tmp_path


def run_blocks(path, **names):
    """Run the scripts of a page; sessions are run elsewhere. Gives the names that the last one left."""
    found = [block for block in blocks("python") if block.where.startswith(path) and ">>>" not in block.text]
    assert found, path
    for block in found:
        script = Path("script.py")
        script.write_text(block.text, encoding="utf-8")
        names = runpy.run_path(str(script), init_globals=names)
    return names


def test_no_script_is_left_out():
    pages = {block.where.partition(":")[0] for block in blocks("python") if ">>>" not in block.text}
    run = set(re.findall(r"run_blocks\(\"(.+?)\"", Path(__file__).read_text(encoding="utf-8")))
    assert pages == run


def test_searching(place):
    import finegraph as fg
    from finegraph.search import embed_photos

    model = fg.load("runs/menu")
    make_index(place / "runs/menu", [place / "photos"], place / "dishes.index")
    features = embed_photos(model, ["photo.jpg"]).features[0]
    run_blocks("docs/image-search.md", model=model, features=features)


def test_labelling(place):
    rows = {"kung pao @ B": {"dish": "kung pao", "served": "bowl"}, "ramen @ B": {"dish": "ramen", "served": "plate"}}
    with LabelStore.create("menu.db") as store:
        store.import_graph(LabelGraph.from_table(rows), person="ann", edit_id="1")
    names = run_blocks("docs/label.md")
    assert names["graph"].parents("served").tolist() == [1, 1]


def test_teaching(place):
    import finegraph as fg

    names = run_blocks("docs/teach.md", fg=fg)
    assert names["model"].graph.fine == fg.load("runs/menu").graph.fine
    assert [lesson.forgotten for lesson in names["model"].lessons] == [True]


def test_other_tools(place, monkeypatch):
    """With stand-ins for both libraries: FiftyOne needs a database server, and both bring many packages."""
    exported, made = [], []

    class Rows(list):
        features = types.SimpleNamespace()

    rows = Rows({"image": tiny.picture(n).convert("L"), "label": n % 2} for n in range(4))
    rows.features = {"label": types.SimpleNamespace(int2str=["ramen @ A", "udon @ B"].__getitem__)}
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=lambda kind, data_dir, split: rows))
    answers = types.SimpleNamespace(add_sample=made.append)
    fiftyone = types.SimpleNamespace(
        Dataset=lambda name: answers,
        Sample=lambda filepath, ground_truth: {"filepath": filepath, "ground_truth": ground_truth},
        Classification=lambda **values: values,
        types=types.SimpleNamespace(ImageClassificationDirectoryTree=object),
    )
    monkeypatch.setitem(sys.modules, "fiftyone", fiftyone)
    evaluation = place / "runs/photos/evaluations/test"
    evaluation.mkdir(parents=True)
    (evaluation / "samples.csv").write_text("path,label,predicted,probability\n1.jpg,a,b,0.75\n", encoding="utf-8")
    shutil.rmtree(place / "photos")
    collection = types.SimpleNamespace(export=lambda **how: exported.append(how))
    with pytest.MonkeyPatch.context() as patch:  # the second script is about a data set that the reader has
        patch.setattr(Rows, "export", lambda self, **how: exported.append(how), raising=False)
        run_blocks("docs/how-to/other-tools.md", dataset=collection)
    assert sorted(path.parent.name for path in Path("photos").rglob("*.jpg")) == ["ramen @ A"] * 2 + ["udon @ B"] * 2
    assert exported == [{"export_dir": "photos", "dataset_type": object}]
    assert made[0]["finegraph"] == {"label": "b", "confidence": 0.75}


def test_javascript_is_javascript_and_uses_the_names_of_exported_files(tmp_path):
    node = shutil.which("node")
    assert node, "install nodejs"
    used = []
    for block in blocks("js"):
        script = tmp_path / "script.mjs"
        script.write_text(block.text, encoding="utf-8")
        subprocess.run([node, "--check", script], check=True, capture_output=True)
        inputs = set(re.search(r"\.run\(\{(.+?)\}", block.text)[1].replace(" ", "").split(","))
        outputs = set(re.search(r"const \{(.+?)\} =", block.text)[1].replace(" ", "").split(","))
        used.append((inputs, outputs))
    assert used == [
        ({export_names.IMAGES, export_names.EVIDENCE}, {export_names.LOG_PROBS, export_names.KIND_LOG_PROBS}),
        (
            {export_names.IMAGES, export_names.NUMBER_RANGES, export_names.NUMBER_ESTIMATES},
            {export_names.NUMBER_MEANS, export_names.NUMBER_QUANTILES},
        ),
    ]


# ---- shell ----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_every_line_of_shell_can_be_typed():
    """`finegraph` lines have a test of their own (`test_docs.py`); here is everything else."""
    checks = {
        "finegraph": lambda words: None,
        "make": is_target,
        "pip": is_extra,
        "python": is_script,
        "curl": is_route,
        "torchrun": lambda words: None,
        "kill": lambda words: None,
        "export": lambda words: None,
    }
    seen = set()
    for block in blocks("sh"):
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                assert words[0] in checks, f"{block.where}: {line}"
                checks[words[0]](words)
                seen.add(words[0])
    assert seen == set(checks)


def is_target(words):
    """`make TARGET`."""
    assert re.search(rf"^{re.escape(words[1])}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M), words


def is_extra(words):
    """`pip install "finegraph[EXTRA]"`."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.search(r"\[(.+)\]", words[2])[1].split(",")) <= set(extras), words


def is_script(words):
    """`python SCRIPT --option ...`."""
    text = (ROOT / words[1]).read_text(encoding="utf-8")
    for word in words[2:]:
        assert not word.startswith("--") or f'"{word}"' in text, words


@functools.cache
def sections_of_routes():
    """The page of all routes, in sections."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from reference_pages import http_page
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return http_page().split("\n## ")


def is_route(words):
    """`curl ... http://ADDRESS/ROUTE`, with fields that the route takes."""
    route = "/" + words[-1].split("/", 3)[3]
    sections = [part for part in sections_of_routes() if part.split("\n", 1)[0].split(" ")[-1] == route]
    assert sections, words
    for flag, word in itertools.pairwise(words):
        if flag in ("-F", "-d", "--data-urlencode"):
            assert any(f"| `{word.partition('=')[0]}` |" in part for part in sections), words
