"""What tests of the labelling page share: a session of the sample menu with photos, and its server."""

import pytest
from label_hands import SHUMAI, TOFU
from label_server import menu_session, photo_folder, serving


@pytest.fixture
def session(tmp_path):
    """A session of the sample menu, with photos of two classes."""
    photos = photo_folder(tmp_path / "photos", [TOFU, SHUMAI])
    with menu_session(tmp_path, data=str(photos)) as made:
        yield made


@pytest.fixture
def server(session):
    """Its server. In every test it comes before the pages, so that it ends after them: a page asks again and again."""
    with serving(session) as running:
        yield running
