"""docs/architecture.md against the code: what it names exists, and every package is named."""

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
