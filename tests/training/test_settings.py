"""Settings: what is refused and how, recipes, and the way through a file and back."""

import dataclasses
import math

import pytest

from finegraph.errors import SettingsError, UnknownNameError
from finegraph.nn.backbones.build import member_names
from finegraph.training.recipes import RECIPES, Recipe
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import QUALITIES, TrainSettings, check_settings_used, read_settings, setting_type

ALL = {one.name: one for one in dataclasses.fields(TrainSettings)}


def given(**values):
    return TrainSettings.from_dict(values)


@pytest.mark.parametrize("name", ALL)
def test_every_setting_refuses_other_types_by_name(name):
    kind, optional = setting_type(name)
    wrong = [{"a": 1}, object(), 3 + 4j]
    wrong += [] if kind is str else ["surely no choice"]
    wrong += [] if kind is bool else [True]
    wrong += [] if kind in (int, float) else [3]
    wrong += [] if kind is float else [0.5]
    wrong += [] if optional else [None]
    for value in wrong:
        with pytest.raises(SettingsError, match=rf"^{name}: expected .*, got "):
            given(**{name: value})


@pytest.mark.parametrize("name", [name for name, one in ALL.items() if one.metadata["least"] is not None])
def test_every_range_is_kept(name):
    kind, _ = setting_type(name)
    least, below = ALL[name].metadata["least"], ALL[name].metadata["below"]
    wrong = [least - 1] if kind is int else [least - 0.001, math.nan, math.inf, -math.inf]
    wrong += [] if below is None else [kind(below)]
    what = f"a finite number of at least {least}"
    if kind is int:
        what = f"a whole number of at least {least}" if below is None else f"a whole number from {least} to {below - 1}"
    for value in wrong:
        with pytest.raises(SettingsError, match=rf"^{name}: expected {what}"):
            given(**{name: value})
    assert getattr(given(**{name: kind(least)}), name) == least


def test_all_numbers_have_a_range():
    assert [name for name in ALL if setting_type(name)[0] in (int, float) and ALL[name].metadata["least"] is None] == []


@pytest.mark.parametrize("value", ["colour", ["colour", 3], 5, {"colour": 1}])
def test_kinds_are_a_list_of_names(value):
    with pytest.raises(SettingsError, match=r"^kinds: expected a list of names, got "):
        given(kinds=value)
    assert given(kinds=["colour"]).kinds == ("colour",)


def test_whole_numbers_will_do_for_numbers_but_not_the_reverse():
    settings = given(lr=1, epochs=2)
    assert isinstance(settings.lr, float)
    with pytest.raises(SettingsError, match=r"^epochs: expected a whole number, got 2.0"):
        given(epochs=2.0)


def test_choices_are_named():
    with pytest.raises(SettingsError, match=r"^recipe: expected fitted or short or paper, got 'long'"):
        given(recipe="long")


def test_unknown_names_are_refused_with_a_near_match(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown setting 'epoch'; did you mean 'epochs'"):
        given(epoch=3)
    with pytest.raises(UnknownNameError, match=r"unknown setting 'labelsmoothing' in here; .*'label_smoothing'"):
        TrainSettings.from_dict({"labelsmoothing": 0.1}, "here")
    file = tmp_path / "settings.toml"
    file.write_text("weight-decay = 0.1\n")
    with pytest.raises(UnknownNameError, match=r"'weight-decay' in .*settings.toml; did you mean 'weight_decay'"):
        read_settings(file)


def test_former_names_are_read_as_the_current_ones(tmp_path):
    assert given(image_labels="ignore", photos_per_class=3) == given(photo_labels="ignore", photos_per_label=3)
    file = tmp_path / "settings.toml"
    file.write_text('image_labels = "use"\nphotos_per_class = 5\n')
    assert read_settings(file) == {"photo_labels": "use", "photos_per_label": 5}
    with pytest.warns(DeprecationWarning, match="image_labels is called photo_labels now"):
        assert TrainSettings(image_labels="ignore") == TrainSettings(photo_labels="ignore")
    with pytest.raises(TypeError, match="unexpected keyword argument 'photo_lables'"):
        TrainSettings(photo_lables="use")
    with pytest.raises(SettingsError, match="image_labels is the former name of photo_labels, and both are given"):
        given(image_labels="use", photo_labels="use")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SettingsError, match=r"none.toml: there is no such file"):
        read_settings(tmp_path / "none.toml")
    file = tmp_path / "settings.toml"
    for text in (b"lr 3", b"name = '\xff'"):
        file.write_bytes(text)
        with pytest.raises(SettingsError, match=r"settings.toml: this is not TOML: "):
            read_settings(file)


def test_a_softmax_head_learns_the_fine_labels_alone():
    assert given(head="softmax").resolve().kind_weight == 0.0
    assert given(head="softmax", recipe="paper").resolve().kind_weight == 0.0
    assert given(head="softmax", kind_weight=0.5).resolve().kind_weight == 0.5
    assert given().resolve().kind_weight is None
    assert given(recipe="paper").resolve().kind_weight == 1.0


def test_a_softmax_head_has_nothing_coarse():
    with pytest.raises(SettingsError, match=r"^coarse_network: a softmax head has no coarse scores"):
        given(head="softmax", coarse_network="alexnet")
    with pytest.raises(SettingsError, match=r"^laplacian: this prior ties"):
        given(head="softmax", laplacian=0.1)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_fills_in_what_is_not_given(recipe):
    numbers = given(recipe=recipe, lr=0.125, nesterov=False, drop_every=3).numbers()
    assert numbers == dataclasses.replace(RECIPES[recipe], lr=0.125, nesterov=False, drop_every=3)
    assert given(recipe=recipe).numbers() == RECIPES[recipe]


def test_the_paper_recipe_is_the_papers():
    paper = RECIPES["paper"]
    assert (paper.lr, paper.new_rate, paper.momentum, paper.weight_decay, paper.epochs) == (1e-3, 10, 0.9, 5e-4, 100)
    assert paper.schedule == "steps"
    assert (paper.kind_weight, paper.scale_rates, paper.label_smoothing) == (1.0, False, 0.0)


def test_every_number_of_a_recipe_is_a_setting_that_may_be_left_open():
    for one in dataclasses.fields(Recipe):
        assert setting_type(one.name)[1], one.name
        assert ALL[one.name].default is None, one.name


@pytest.mark.parametrize(
    "values",
    [{}, {"head": "softmax", "kinds": ["a", "b\"'\\"], "lr": 1e-7, "box": True, "size": 96, "recipe": "paper"}],
)
def test_resolved_settings_come_back_from_a_file_as_they_were(tmp_path, values):
    settings = given(data='photos "of" é\\n', **values).resolve()
    run = RunFolder.create(tmp_path / "run")
    run.write_config(settings.to_dict())
    again = TrainSettings.from_dict(run.read_config())
    assert again == settings
    assert again.resolve() == settings
    assert read_settings(run.config_file) == settings.to_dict()


def test_changed_names_what_differs_but_not_what_may():
    one = given(lr=0.1, workers=1, kinds=["a"])
    other = given(lr=0.2, workers=2, kinds=["b"], device="cpu", checkpoint_minutes=1.0, seed=1, threads=3)
    assert one.changed(other) == ("kinds", "seed", "lr")
    assert one.changed(given(lr=0.1, kinds=["a"], tensorboard=True, cache="there")) == ()


def test_what_may_change_is_nothing_that_is_learnt():
    free = {name for name, one in ALL.items() if one.metadata["free"]}
    # Photos, graph and comparisons may lie elsewhere; their digests say whether they are the same.
    assert free == {
        "data",
        "graph",
        "comparisons",
        "device",
        "shard_groups",
        "threads",
        "workers",
        "checkpoint_minutes",
        "cache",
        "tensorboard",
    }


def test_a_quality_stands_for_networks():
    resolved = [TrainSettings(quality=quality).resolve() for quality in QUALITIES]
    assert [one.network.count("+") for one in resolved] == [0, 1, 2]
    assert resolved[0] == TrainSettings().resolve()
    assert {one.quality for one in resolved} == {None}  # what is written down is the network, whatever it comes to mean
    assert [member_names(one.network) for one in resolved]  # all are there
    again = TrainSettings.from_dict({**resolved[1].to_dict(), "quality": "balanced"})
    assert again.resolve() == resolved[1]
    with pytest.raises(SettingsError, match=r"quality: best is the network .*, and network is vgg16; give one"):
        TrainSettings(quality="best", network="vgg16")
    with pytest.raises(SettingsError, match="and network is efficientnet_lite0; give one of the two"):
        check_settings_used(
            {"quality": "best", "network": "efficientnet_lite0"}
        )  # the default network, but asked for by name
    check_settings_used({"quality": "fast", "network": "efficientnet_lite0"})
