"""Runs of every released version can be gone on with: the settings that they hold are still known by these names."""

import tomllib
from dataclasses import replace
from pathlib import Path

from finegraph.training.settings import TrainSettings, read_settings

GOLDEN = Path(__file__).parents[1] / "golden" / "config-1.toml"


def test_settings_of_old_runs_are_known():
    settings = TrainSettings.from_dict(read_settings(GOLDEN))
    values = tomllib.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(values) > 35
    assert {name: settings.to_dict()[name] for name in values} == {**values, "kinds": ["colour"]}
    # Settings that came later, as those runs were.
    since = {"optimizer": "sgd", "start": "new", "refit": False}
    since |= {"frozen_share": 0.0, "layer_decay": 1.0, "train_scale": 1.0, "judge_every": 1}
    assert settings.resolve() == replace(settings, **since)
