"""A model folder gives back what was saved, or says what is wrong with it; saving leaves the old or the new one."""

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import finegraph as fg
import tiny_classifier as tiny
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, ModelFolderError
from finegraph.files import folder_swap
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.folder.model_reader import CHECKED, FILES, VERSION, checksum

RULE = UnknownRule("entropy", 0.75, 0.9)
ABOUT = {"data": {"source": "menu", "photos": 12}, "metrics": {"top1": 0.5}, "note": None}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


@pytest.fixture
def saved(tmp_path):
    """A classifier and the folder that it was saved to."""
    model = tiny.classifier(temperature=1.5, unknown=RULE, about=ABOUT)
    model.save(tmp_path / "model")
    return model, tmp_path / "model"


def answers(model):
    pictures = [tiny.picture(seed) for seed in range(4)]
    return [[list(answer) for answer in prediction.top] for prediction in model.predict(pictures)]


def edit(folder, **changes):
    """Change entries of the config and sign it anew, as only an unkind person would."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    for name in CHECKED:
        data = (folder / name).read_bytes()
        if "files" not in changes:
            config["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.write_text(json.dumps({**config, "checksum": checksum(config)}), encoding="utf-8")


def state_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["whitened_blocks", "compressed_blocks"])
def test_a_model_of_joined_networks_is_saved_with_its_members(tmp_path, scaling):
    model = tiny.classifier(network="tiny+other", scaling=scaling)
    first, second = model.network.backbone.parts
    first.preprocessing = replace(first.preprocessing, mean=(0.1, 0.2, 0.3))  # not what the name stands for
    model.save(tmp_path / "model")
    loaded = fg.load(tmp_path / "model")
    assert answers(loaded) == answers(model)
    assert loaded.network.design.network == "tiny+other"
    assert [one.preprocessing for one in loaded.network.backbone.parts] == [first.preprocessing, second.preprocessing]
    assert loaded.network.backbone.preprocessing == second.preprocessing


def test_models_of_one_network_stay_readable_to_older_versions(tmp_path):
    for network, version in (("tiny", 1), ("tiny+other", 2)):
        tiny.classifier(network=network).save(tmp_path / network)
        assert json.loads((tmp_path / network / "config.json").read_text(encoding="utf-8"))["version"] == version


def test_a_joined_model_without_the_preprocessing_of_its_members_is_refused(tmp_path):
    tiny.classifier(network="tiny+other").save(tmp_path / "model")
    path = tmp_path / "model" / "preprocessing.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["network"]["members"]
    path.write_text(json.dumps(content), encoding="utf-8")
    edit(tmp_path / "model")
    with pytest.raises(ModelFolderError, match=r"preprocessing.json: the entries do not fit the network .'members'"):
        fg.load(tmp_path / "model")


def test_a_loaded_model_gives_the_same_answers(saved):
    model, folder = saved
    loaded = fg.load(folder)
    assert answers(loaded) == [
        [[label, pytest.approx(probability, abs=1e-6)] for label, probability in row] for row in answers(model)
    ]
    assert loaded.graph == model.graph
    assert loaded.views == model.views
    assert (loaded.temperature, loaded.unknown, loaded.about) == (1.5, RULE, ABOUT)
    assert loaded.network.design == model.network.design
    assert not loaded.network.training
    assert not any(parameter.requires_grad for parameter in loaded.network.parameters())


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        (tiny.TABLE, {"head": "softmax"}),
        (tiny.TABLE, {"coarse_network": "tiny"}),
        ({"a": {}, "b": {}}, {}),
        ({"tea": {"dish": "tea"}}, {}),
        ({"a": {"k": {"x", "y"}}, "b": {"k": None}, "c": {"k": "x"}}, {}),
        (tiny.TABLE, {"views": ViewSettings(size=20, resize=30, keep_shape=True, box=True, interpolation="bicubic")}),
    ],
)
def test_all_designs(tmp_path, table, parts):
    model = tiny.classifier(table, **parts)
    model.save(tmp_path / "m")
    loaded = fg.load(tmp_path / "m")
    assert answers(loaded) == answers(model)
    assert loaded.views == model.views
    assert (loaded.network.coarse_backbone is None) == ("coarse_network" not in parts)


def test_other_precisions_and_memory_formats_are_saved_plainly(saved, tmp_path):
    model, folder = saved
    expected = state_of(folder)["model.safetensors"]
    model.network.to(memory_format=torch.channels_last).double()
    model.save(tmp_path / "other")
    assert state_of(tmp_path / "other")["model.safetensors"] == expected


def test_saving_is_the_same_again(saved, tmp_path):
    _, folder = saved
    fg.load(folder).save(tmp_path / "again")
    assert state_of(tmp_path / "again") == state_of(folder)


def test_the_folder_holds_these_files_and_no_code(saved):
    _, folder = saved
    assert sorted(state_of(folder)) == sorted(FILES)
    assert set(load_file(folder / "model.safetensors")) == set(saved[0].network.state_dict())
    for name in ("config.json", "preprocessing.json", "graph.json"):
        json.loads((folder / name).read_text(encoding="utf-8"))


def test_parts_for_training_only_are_left_out(tmp_path):
    model = tiny.classifier(network="branched")
    assert any("auxiliary_heads" in name for name in model.network.state_dict())
    model.save(tmp_path / "m")
    names = set(load_file(tmp_path / "m" / "model.safetensors"))
    assert not any("auxiliary_heads" in name or "branch" in name for name in names)
    loaded = fg.load(tmp_path / "m")
    assert len(loaded.network.auxiliary_heads) == 0
    assert answers(loaded) == answers(model)


def test_preprocessing_is_that_of_the_training(saved, monkeypatch):
    model, folder = saved
    content = json.loads((folder / "preprocessing.json").read_text(encoding="utf-8"))
    content["network"]["mean"] = [0.1, 0.2, 0.3]
    (folder / "preprocessing.json").write_text(json.dumps(content), encoding="utf-8")
    edit(folder)
    loaded = fg.load(folder)
    assert loaded.network.backbone.preprocessing.mean == (0.1, 0.2, 0.3)
    assert answers(loaded) != answers(model)


def test_loading_draws_no_random_numbers_and_leaves_nothing_empty(saved):
    _, folder = saved
    before = torch.get_rng_state()
    loaded = fg.load(folder)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(value.is_meta for value in [*loaded.network.parameters(), *loaded.network.buffers()])


def test_a_loaded_model_does_not_need_its_folder(saved):
    model, folder = saved
    loaded = fg.load(folder)
    for path in folder.iterdir():
        path.write_bytes(b"gone")
    assert answers(loaded) == answers(model)


def test_device_can_be_named(saved):
    assert fg.load(saved[1], device="cpu").device == torch.device("cpu")
    assert fg.load(str(saved[1]), torch.device("cpu")).device == torch.device("cpu")


# ---- finding it ------------------------------------------------------------------------------------------------------


def test_run_folder(saved, tmp_path):
    model, folder = saved
    run = tmp_path / "runs" / "menu"
    run.mkdir(parents=True)
    (run / "config.toml").write_text("", encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"menu: this run has no folder 'model' yet; finish its training first$"):
        fg.load(run)
    folder.rename(run / "model")
    assert answers(fg.load(run)) == answers(model)
    with pytest.raises(ModelFolderError, match=r"got another folder; did you mean '.*menu'\?$"):
        fg.load(tmp_path / "runs")


def test_what_is_no_model_folder(saved, tmp_path):
    _, folder = saved
    with pytest.raises(ModelFolderError, match=r"there is no such folder; did you mean '.*model'\?$"):
        fg.load(tmp_path / "modle")
    with pytest.raises(ModelFolderError, match=r"there is no such folder, nor the folder '.*nowhere'$"):
        fg.load(tmp_path / "nowhere" / "model")
    with pytest.raises(ModelFolderError, match=r"got a file; did you mean '.*model'\?$"):
        fg.load(folder / "model.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFolderError, match=r"expected a model folder, which has a config\.json, or a run folder"):
        fg.load(tmp_path / "empty")


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHECKED)
def test_missing_file(saved, name):
    (saved[1] / name).unlink()
    with pytest.raises(
        ModelFolderError, match=rf"{name}: the file is missing; a model folder holds .*; copy the folder"
    ):
        fg.load(saved[1])


def test_file_that_cannot_be_read(saved):
    path = saved[1] / "graph.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(ModelFolderError, match=r"graph\.json: the file cannot be read"):
        fg.load(saved[1])


@pytest.mark.parametrize("name", [*CHECKED, "config.json"])
def test_every_cut_is_found(saved, name):
    path = saved[1] / name
    whole = path.read_bytes()
    for length in np.random.default_rng(1).integers(0, len(whole) - 1, 25):  # the last byte of a config is a new line
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFolderError, match=re.escape(name)):
            fg.load(saved[1])


@pytest.mark.parametrize("name", [*CHECKED, "config.json"])
def test_every_flipped_bit_is_found(saved, name):
    path = saved[1] / name
    whole = path.read_bytes()
    random = np.random.default_rng(2)
    for _ in range(60):
        place, bit = int(random.integers(len(whole))), int(random.integers(8))
        if whole[place : place + 1].isspace():  # in a config, one blank is as good as another
            continue
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
        with pytest.raises(ModelFolderError, match=re.escape(name)):
            fg.load(saved[1])
    path.write_bytes(whole)
    fg.load(saved[1])


def test_card_is_for_people_and_may_be_edited(saved):
    (saved[1] / "README.md").write_text("my notes", encoding="utf-8")
    fg.load(saved[1])


# ---- versions and foreign content ------------------------------------------------------------------------------------


def test_future_version(saved):
    edit(saved[1], version=VERSION + 1, finegraph="9.0", more={"new": True})
    with pytest.raises(
        ModelFolderError, match=r"saved by a newer finegraph \('9\.0'\), in version 4 .*Update finegraph$"
    ):
        fg.load(saved[1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 0}, "expected version 1 to 3 of the format, got 0"),
        ({"version": True}, "expected version 1 to 3 of the format, got True"),
        ({"version": "1"}, "expected version 1 to 3 of the format, got '1'"),
        ({"format": "other"}, "expected the format 'finegraph.model', got 'other'"),
        ({"colour": 1}, r"expected the entries format, .*; colour unknown"),
        ({"temperature": 0}, "the entries have not the form of version 1"),
        ({"temperature": "1"}, "the entries have not the form of version 1"),
        ({"files": {}}, "the entries have not the form of version 1"),
        ({"about": []}, "the entries have not the form of version 1"),
        ({"unknown": {"score": "x", "threshold": 1, "kept": 0.5}}, "unknown score of unknown photos 'x'"),
        ({"unknown": {"score": "energy"}}, "expected score, threshold and kept"),
        ({"design": {"network": "tinny"}}, r"unknown network 'tinny'; did you mean 'tiny'\?"),
        ({"design": {"netwrk": "tiny"}}, "unknown setting 'netwrk' of the network"),
        ({"design": {"network": "tiny", "head": "sofmax"}}, r"unknown head 'sofmax'; did you mean 'softmax'\?"),
        (
            {"design": {"network": 3}},
            r"config\.json: the entries have not the form of version 1; copy the folder again",
        ),
        (
            {"design": {"network": "tiny", "head": "softmax"}},
            r"2 are not of this network \(head\.coarse\.bias, head\.coarse\.weight\)",
        ),
    ],
)
def test_foreign_config(saved, changes, words):
    edit(saved[1], **changes)
    with pytest.raises(ModelFolderError, match=words):
        fg.load(saved[1])


def test_config_that_lacks_an_entry_or_was_edited(saved):
    path = saved[1] / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "temperature": 1.6}), encoding="utf-8")
    with pytest.raises(
        ModelFolderError, match=r"does not match its checksum.*load the model in Python and save it again"
    ):
        fg.load(saved[1])
    del config["about"]
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"expected the entries .*; about missing"):
        fg.load(saved[1])
    for text in ("[]", "nonsense", '"text"'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ModelFolderError, match=r"config\.json: expected "):
            fg.load(saved[1])


def test_weights_that_do_not_fit(saved):
    path = saved[1] / "model.safetensors"
    weights = load_file(path)
    kept = dict(weights)
    del kept["head.fine.bias"]
    save_file({**kept, "extra": torch.zeros(1)}, path)
    edit(saved[1])
    with pytest.raises(ModelFolderError, match=r"1 of \d+ weights are missing \(head\.fine\.bias\); 1 are not of this"):
        fg.load(saved[1])
    save_file({**weights, "head.fine.bias": torch.zeros(7)}, path)
    edit(saved[1])
    with pytest.raises(ModelFolderError, match=r"head\.fine\.bias: expected \(5,\) float32, got \(7,\) float32"):
        fg.load(saved[1])
    path.write_bytes(b"no tensors at all")
    edit(saved[1])
    with pytest.raises(ModelFolderError, match="expected a file of weights"):
        fg.load(saved[1])


def test_weights_of_another_graph(saved):
    model, folder = saved
    swapped = dict(zip(tiny.TABLE, reversed(tiny.TABLE.values()), strict=True))
    other = tiny.classifier({name: swapped[name] | {"spicy": bool(number % 2)} for number, name in enumerate(swapped)})
    assert {name: value.shape for name, value in other.network.state_dict().items()} == {
        name: value.shape for name, value in model.network.state_dict().items()
    }
    other.graph.write(folder / "graph.json")
    edit(folder)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors: these weights were made for another label graph"):
        fg.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("network"),
        lambda content: content["views"].pop("size"),
        lambda content: content["views"].update(size=0),
        lambda content: content["network"].update(mean=[1]),
        lambda content: content.update(views=None),
    ],
)
def test_foreign_preprocessing(saved, change):
    path = saved[1] / "preprocessing.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    edit(saved[1])
    with pytest.raises(ModelFolderError, match=r"preprocessing\.json: the entries do not fit the network"):
        fg.load(saved[1])


def test_foreign_graph(saved):
    (saved[1] / "graph.json").write_text('{"format": "finegraph.graph", "version": 7}', encoding="utf-8")
    edit(saved[1])
    with pytest.raises(ModelFolderError, match=r"graph\.json"):
        fg.load(saved[1])


# ---- saving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_earlier_model_is_replaced(saved, monkeypatch, can_exchange):
    _, folder = saved
    if not can_exchange:
        monkeypatch.setattr(folder_swap, "_exchange", lambda one, two: False)
    other = tiny.classifier(seed=5)
    other.save(folder)
    assert answers(fg.load(folder)) == answers(other)
    assert os.listdir(folder.parent) == ["model"]


@pytest.mark.deep
def test_places_where_nothing_is_yet(saved, tmp_path, monkeypatch):
    model, _ = saved
    (tmp_path / "empty").mkdir()
    model.save(tmp_path / "empty")
    model.save(tmp_path / "a" / "b" / "c")
    monkeypatch.chdir(tmp_path)
    model.save("here")
    (tmp_path / "link").symlink_to(tmp_path / "here")
    other = tiny.classifier(seed=3)
    other.save("link")
    assert (tmp_path / "link").is_symlink()
    assert answers(fg.load("here")) == answers(other)
    for name in ("empty", "a/b/c"):
        assert answers(fg.load(name)) == answers(model)


def test_anything_else_is_left_alone(saved, tmp_path):
    model, folder = saved
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(ModelFolderError, match=r"got a folder with other files \(cat\.jpg\); choose another place$"):
        model.save(tmp_path / "photos")
    (tmp_path / "photos" / "config.json").write_text('{"format": "else"}', encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"got a folder with other files \(cat\.jpg, config\.json\)"):
        model.save(tmp_path / "photos")
    with pytest.raises(ModelFolderError, match="got a file; choose another place"):
        model.save(tmp_path / "photos" / "cat.jpg")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(
        ModelFolderError, match=r"would be replaced, but the folder also holds notes\.txt; move that away"
    ):
        model.save(folder)
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"
    fg.load(folder)
    assert sorted(os.listdir(tmp_path)) == ["model", "photos"]


@pytest.mark.parametrize("step", ["mkdir", "fsync", "rename"])
def test_a_failure_at_any_step_leaves_the_old_model(saved, monkeypatch, step):
    _, folder = saved
    before = state_of(folder)
    monkeypatch.setattr(folder_swap, "_exchange", lambda one, two: False)
    owner = os if step == "fsync" else Path
    real, left = getattr(owner, step), 0

    def failing(*arguments, **options):
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(owner, step, failing)
    for left in range(1, 1 + {"mkdir": 2, "fsync": 5, "rename": 2}[step]):  # noqa: B007  # counted down in `failing`
        with pytest.raises(ModelFolderError, match=r"the model \(\d\.\d MB\) cannot be written: No space left.*; make"):
            tiny.classifier(seed=5).save(folder)
        assert state_of(folder) == before
        assert os.listdir(folder.parent) == ["model"]
    tiny.classifier(seed=5).save(folder)
    assert answers(fg.load(folder)) == answers(tiny.classifier(seed=5))


def test_what_killed_savings_left_is_removed_and_others_are_not(saved):
    model, folder = saved
    old, new, foreign = (
        folder.with_name(name) for name in (f".model.{'0' * 16}.saving", f".model.{'1' * 16}.saving", ".model.x")
    )
    for path in (old, new, foreign):
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"half")
    with folder_swap.locked_folder(new):  # another process saves into it
        model.save(folder)
        assert sorted(os.listdir(folder.parent)) == sorted(["model", new.name, foreign.name])
    folder_swap.remove_leftovers(folder)
    assert sorted(os.listdir(folder.parent)) == sorted(["model", foreign.name])


@pytest.mark.deep
def test_a_killed_saving_leaves_nothing_after_the_next_start(saved):
    """A process is killed between two files of a model; whoever saves next finds no trace of it."""
    model, folder = saved
    program = (
        "import os, signal, sys; from pathlib import Path; from finegraph.files import folder_swap\n"
        "folder_swap.sync_folder = lambda folder: os.kill(os.getpid(), signal.SIGKILL)\n"
        "folder_swap.replace_folder(Path(sys.argv[1]), {'a': b'half'})"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(folder.parent)) == 2
    model.save(folder)
    assert os.listdir(folder.parent) == ["model"]


def test_without_locks_age_decides(saved, monkeypatch):
    model, folder = saved
    monkeypatch.setattr("finegraph.files.system_lock.fcntl", None)
    old, new = (folder.with_name(f".model.{digit * 16}.saving") for digit in "01")
    for path in (old, new):
        path.mkdir()
    long_ago = time.time() - 2 * folder_swap.LEFT_OVER
    os.utime(old, (long_ago, long_ago))
    model.save(folder)
    assert sorted(os.listdir(folder.parent)) == sorted(["model", new.name])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_not_saved(saved, value):
    model, folder = saved
    before = state_of(folder)
    with torch.no_grad():
        model.network.head.fine.weight[1, 2] = value
    with pytest.raises(
        ModelFolderError, match=r"the weights head\.fine\.weight hold NaN or infinity.*Nothing was saved"
    ):
        model.save(folder)
    assert state_of(folder) == before


def test_a_network_that_could_not_be_loaded_again_is_not_saved(tmp_path):
    model = tiny.classifier()
    model.network.backbone.convolution = torch.nn.Conv2d(3, 12, 3)
    with pytest.raises(ModelFolderError, match=r"not what its design.*convolution\.weight: expected \(12, 3, 5, 5\)"):
        model.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("about", [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}])
def test_facts_must_be_json(tmp_path, about):
    with pytest.raises(InputError, match="about: expected facts that JSON can hold"):
        tiny.classifier(about=about).save(tmp_path / "m")
    assert os.listdir(tmp_path) == []
