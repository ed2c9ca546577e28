"""The card tells a stranger what the model is, and no name in it is an instruction."""

import re

import pytest

import finegraph as fg
import tiny_classifier as tiny
from finegraph.data.transforms import ViewSettings
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.folder.model_card import escape


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


def card(tmp_path, *arguments, **parts):
    tiny.classifier(*arguments, **parts).save(tmp_path / "m")
    return (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


def test_what_it_tells(tmp_path):
    text = card(
        tmp_path,
        temperature=1.5,
        unknown=UnknownRule("energy", 0.25, 0.9),
        about={
            "data": {"source": "menu", "photos": 1200},
            "settings": {"batch_size": 32},
            "metrics": {"top1": 0.71234, "kinds": {"dish": 0.9}},
            "figures": {"val": 1},
        },
    )
    assert "# A photo classifier of 5 labels and 6 kinds\n" in text
    assert "5 fine labels: mapo tofu @ A, mapo tofu @ B, kung pao @ A, kung pao @ B, egg rice @ B.\n" in text
    assert "| dish | mapo tofu, kung pao, egg rice |\n" in text
    assert "| spicy | yes or no |\n" in text
    assert "finegraph predict FOLDER photo.jpg --given 'dish=mapo tofu'\n" in text
    assert "prediction = model.predict(\"photo.jpg\", given={'dish': 'mapo tofu'})\n" in text
    assert "| data: photos | 1200 |\n" in text
    assert "| top1 | 0.7123 |\n| kinds: dish | 0.9 |\n| val | 1 |\n" in text
    assert "all scores are divided by 1.5." in text
    assert "its score `energy` is above 0.25, which was chosen to leave 90% of the photos of known labels" in text
    assert "allergy" in text
    assert text.endswith("\n## Settings\n\n| | |\n|---|---|\n| batch_size | 32 |\n")


def test_what_it_does_not_know_it_says(tmp_path):
    text = card(tmp_path, {"a": {}, "b": {}}, head="softmax", views=ViewSettings(size=24, resize=32, box=True))
    assert "# A photo classifier of 2 labels\n" in text
    assert "finegraph predict FOLDER photo.jpg\n" in text
    assert "None were saved with this model. Measure it on photos that it was not trained on" in text
    assert "not calibrated afterwards. No rule was chosen" in text
    assert "cut to the box first" in text


def test_the_python_lines_run(tmp_path, monkeypatch):
    text = card(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    tiny.picture().save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code.replace("FOLDER", "m"), names)
    assert names["prediction"].top[0].label.startswith("mapo tofu")


NASTY = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](http://example.org/x.png)",
    "a | b",
    "`code` *bold* _under_ ~~gone~~",
    "back\\slash \\| $x$ &lt; #1",
    "<!-- -->",
]


@pytest.mark.parametrize("name", NASTY)
def test_names_are_no_instructions(tmp_path, name):
    text = card(tmp_path, {f"{name}{end}": {f"{name} k": f"{name}{end}"} for end in "12"}, about={name: [name, name]})
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    body = plain.split("---\n", 2)[2]
    assert "<" not in body
    assert not re.search(r"(?<!\\)[\[\]*~$]|(?<![\\\w])_|(?<!\\)_(?!\w)", body)
    for line in body.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3, line
    spans = re.findall(r"(?<!\\)`([^`]*)(?<!\\)`", body)
    assert set(spans) <= {"FOLDER", "graph.json", "config.json", "finegraph evaluate FOLDER --data PHOTOS"}


def test_escape():
    assert escape("a_b*c _d_ _") == r"a_b\*c \_d\_ \_"
    assert escape("two\n  lines\t| <x>") == r"two lines \| &lt;x&gt;"


def test_long_lists_are_cut(tmp_path):
    table = {f"f{number}": {f"k{kind}": f"c{number % 30}" for kind in range(70)} for number in range(60)}
    text = card(tmp_path, fg.LabelGraph.from_table(table), about={"rows": {f"r{n}": n for n in range(100)}})
    assert "f39, and 20 more." in text
    assert "c7, and 22 more |" in text
    assert "10 more kinds in `graph.json`." in text
    assert "43 more are in `config.json`." in text
    assert len(text) < 12_000
