import pytest
import tiny


@pytest.fixture(scope="session")
def manifest(tmp_path_factory):
    """Photos to train on; a test that changes any makes its own."""
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))
