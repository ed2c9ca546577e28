import pytest
import tiny


@pytest.fixture(scope="session")
def manifest(tmp_path_factory):
    """Photos to train on; a test that changes any makes its own."""
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def unbroken(manifest, tmp_path_factory):
    """A run without interruption; with dropout, and statistics that move."""
    path = tmp_path_factory.mktemp("runs") / "unbroken"
    tiny.tune(manifest, path)
    return path
