import itertools

import pytest

from finegraph import LabelGraph
from finegraph.labelling import LabelStore


@pytest.fixture
def file_place(tmp_path):
    return str(tmp_path / "menu.db")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a new store can be made: both databases, through the same tests."""
    if request.param == "sqlite":
        return str(tmp_path / "menu.db")
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def menu():
    return LabelGraph.from_table(
        {
            "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "with": ["tofu", "pork"], "served": "bowl"},
            "mapo tofu @ B": {
                "dish": "mapo tofu",
                "restaurant": "B",
                "with": ["tofu"],
                "served": {"plate": 0.75, "bowl": 0.25},
            },
            "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "with": None, "served": "plate"},
            "kung pao @ A": {"dish": "kung pao", "restaurant": "A", "with": ["pork"], "served": {"plate", "bowl"}},
        }
    )


@pytest.fixture
def new_id():
    numbers = itertools.count(1)
    return lambda: f"edit {next(numbers)}"


@pytest.fixture
def store(place, menu):
    """A store with the menu, on either database."""
    with LabelStore.create(place) as made:
        made.import_graph(menu, person="import", edit_id="first")
        yield made
        made.check()  # whatever a test did, all of it is sealed


@pytest.fixture
def file_store(file_place, menu):
    """A store with the menu in a file."""
    with LabelStore.create(file_place) as made:
        made.import_graph(menu, person="import", edit_id="first")
        yield made
