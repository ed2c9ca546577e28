import tomllib
from pathlib import Path

import numpy
import pytest
import torch

from finegraph import __version__
from finegraph.workflows import doctor

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def state(diagnosis, name):
    return next(part.state for part in diagnosis.parts if part.name == name)


def test_healthy():
    diagnosis = doctor.examine()
    assert diagnosis.healthy
    assert state(diagnosis, "finegraph") == __version__
    assert state(diagnosis, "numpy") == numpy.__version__
    assert state(diagnosis, "torch") == torch.__version__
    assert state(diagnosis, "threads") == str(torch.get_num_threads())
    assert int(state(diagnosis, "processors")) >= 1
    assert state(diagnosis, "sample menu") == "24 fine labels, 15 kinds"


def test_broken_part_is_reported(monkeypatch):
    def broken():
        raise OSError("libtorch.so: cannot open")

    monkeypatch.setattr(doctor, "_torch", broken)
    diagnosis = doctor.examine()
    assert not diagnosis.healthy
    assert [(part.name, part.problem) for part in diagnosis.parts if part.problem] == [
        ("torch", "OSError: libtorch.so: cannot open")
    ]


def test_every_extra_of_the_project_is_explained():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = {
        name: needs
        for name, needs in project["optional-dependencies"].items()
        if name not in ("all", "dev", "bench", "docs")
    }
    assert set(doctor.EXTRAS) == set(extras)
    for name, (packages, _) in doctor.EXTRAS.items():
        assert [need.split(">")[0].split("[")[0] for need in extras[name]] == list(packages)


@pytest.mark.parametrize(("package", "missing"), [("numpy", ()), ("no-such-package", ("no-such-package",))])
def test_extras(monkeypatch, package, missing):
    monkeypatch.setattr(doctor, "EXTRAS", {"some": ((package,), "something")})
    (extra,) = doctor.examine().extras
    assert (extra.missing, extra.present) == (missing, not missing)
    assert extra.install == "pip install 'finegraph[some]'"
