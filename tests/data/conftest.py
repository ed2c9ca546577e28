import pytest
from data_files import state_of


@pytest.fixture
def unchanged(tmp_path):
    """Fail if a file under `tmp_path` changed since the fixture was called."""
    before = {}
    yield lambda: before.update(state_of(tmp_path))
    assert before, "call it when the files are there"
    after = state_of(tmp_path)
    assert {path: after.get(path) for path in before} == before
