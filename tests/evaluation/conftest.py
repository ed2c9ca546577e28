import pytest
from tiny_runs import make_classifier, make_photos, register


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    register(monkeypatch)
    return make_photos(tmp_path / "photos")


@pytest.fixture
def classifier(manifest):
    return make_classifier(manifest)
