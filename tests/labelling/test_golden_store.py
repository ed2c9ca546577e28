"""Stores of released versions load for ever, on both databases, with the same labels and the same history."""

import json
import lzma
from pathlib import Path

import pytest
import sqlalchemy as sa

from finegraph.labelling import LabelStore
from finegraph.labelling.store.sql_tables import SCHEMA_VERSION

GOLDEN = Path(__file__).parents[1] / "golden"


def unpack(version, place, tmp_path):
    """A golden store at a place: the file itself, or its tables on a server."""
    if "://" not in place:
        Path(place).write_bytes(lzma.decompress((GOLDEN / f"store-{version}.db.xz").read_bytes()))
        return
    engine = sa.create_engine(place, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in (GOLDEN / f"store-{version}.sql").read_text(encoding="utf-8").split(";\n"):
            connection.exec_driver_sql(statement.replace("%", "%%"))
    engine.dispose()


@pytest.mark.deep
@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_golden_store_loads(place, tmp_path, version):
    unpack(version, place, tmp_path)
    expected = json.loads((GOLDEN / f"store-{version}.json").read_text(encoding="utf-8"))
    with LabelStore.open(place) as store:
        assert store._ask(
            lambda connection, _: connection.scalar(sa.text("SELECT value FROM meta WHERE key = 'schema'"))
        ) == str(SCHEMA_VERSION)
        store.check()
        assert store.version == expected["version"]
        for form in {"json", "photos", "label-studio", "comparisons"} & expected.keys():
            assert store.export_text(form) == expected[form]
        assert store.export_text("json", version=1) == expected["first"]
        assert [edit.to_dict() for edit in store.history(limit=1000)] == expected["history"]
        assert store.suggestions().total == 1
        store.decide("ramen @ A", "restaurant", "A", person="ann", edit_id="new", seen=0)
        store.check()
    with LabelStore.open(place, write=False) as store:
        assert store.cell("ramen @ A", "restaurant").value == "A"
