import pytest

from finegraph.nn.backbones.build import BACKBONES

OWN = tuple(BACKBONES)


@pytest.fixture(autouse=True)
def _only_own_networks(monkeypatch):
    """Without the small networks that other tests give names to."""
    for name in set(BACKBONES) - set(OWN):
        monkeypatch.delitem(BACKBONES, name)
