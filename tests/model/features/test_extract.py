"""Features of lists of photos: the right ones, in the right order, whatever the photos are."""

from __future__ import annotations

import threading

import pytest
import torch
from feature_parts import GRAPH, VIEWS, Tiny, photo, samples_in, save_photos, tiny_network

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, PhotoFileError
from finegraph.model.features import extract_features
from finegraph.model.features import work as work_module
from finegraph.nn.backbones import build_backbone
from finegraph.nn.backbones.joined import JoinedBackbone


def plainly(network, samples, views, view="centre"):
    """Each photo through the data set and the network, one by one."""
    network.eval()
    dataset = PhotoDataset(samples, GRAPH, views, view=view)
    with torch.no_grad():
        found = [network.features(item.image if view == "ten" else item.image[None]) for item in dataset]
    fine, coarse = zip(*found, strict=True)
    return (torch.stack if view == "ten" else torch.cat)(fine), coarse


def odd_photos(folder):
    """Photos of many sizes and forms, among them one that lies on its side and one much larger than the view."""
    folder.mkdir()
    photo(1, 300, 200).save(folder / "large.jpg")
    photo(2, 30, 20).save(folder / "small.png")
    photo(3).convert("L").save(folder / "grey.png")
    photo(4).convert("CMYK").save(folder / "cmyk.jpg")
    photo(5).convert("P").save(folder / "palette.gif")
    exif = photo(6).getexif()
    exif[0x0112] = 6
    photo(6, 90, 50).save(folder / "sideways.jpg", exif=exif)
    return samples_in(folder)


@pytest.mark.parametrize("engine", ["torch", "onnx"])
@pytest.mark.parametrize("view", ["centre", "ten"])
@pytest.mark.parametrize("keep_shape", [False, True])
def test_features_are_those_of_the_network(tmp_path, engine, view, keep_shape):
    samples = odd_photos(tmp_path / "photos")
    views = ViewSettings(size=32, resize=40, keep_shape=keep_shape, interpolation="bicubic")
    expected, _ = plainly(tiny_network(), samples, views, view)
    found = extract_features(tiny_network(), samples, views, view=view, cache=False, engine=engine)
    assert found.samples == samples
    assert (found.coarse, found.bad, found.cached, found.notes) == (None, (), 0, ())
    assert found.fine.dtype == torch.float32
    assert found.fine.shape == ((6, 10, 6) if view == "ten" else (6, 6))
    assert torch.allclose(found.fine, expected, atol=1e-5)


@pytest.mark.parametrize("box", [False, True])
def test_boxes(tmp_path, box):
    photo(1).save(tmp_path / "photo.png")
    boxes = [None, Box(0, 0, 20, 30), Box(30.5, 10, 20, 30)]
    samples = Samples(Sample(tmp_path / "photo.png", "a", box=each) for each in boxes)
    views = ViewSettings(size=32, resize=40, box=box)
    found = extract_features(tiny_network(), samples, views, cache=False)
    expected, _ = plainly(tiny_network(), samples, views)
    assert torch.allclose(found.fine, expected, atol=1e-5)
    assert torch.allclose(found.fine[0], found.fine[2]) != box


@pytest.mark.deep
def test_engines_agree_on_a_real_network(tmp_path):
    torch.manual_seed(3)
    network = tiny_network(build_backbone("efficientnet_lite0"))
    samples = save_photos(tmp_path / "photos", 3)
    views = ViewSettings(size=64, resize=72, interpolation="bicubic")
    onnx, eager = (extract_features(network, samples, views, cache=False, engine=name) for name in ("onnx", "torch"))
    assert (onnx.fine - eager.fine).abs().max() <= 1e-4 * eager.fine.abs().max()
    assert eager.fine.std() > 0


# ---- two backbones ---------------------------------------------------------------------------------------------------


def test_two_backbones(tmp_path):
    samples = save_photos(tmp_path / "photos")
    network = tiny_network(Tiny(1), Tiny(2))
    found = extract_features(network, samples, VIEWS, cache=tmp_path / "cache")
    fine, coarse = plainly(network, samples, VIEWS)
    assert torch.allclose(found.fine, fine, atol=1e-5)
    assert torch.allclose(found.coarse, torch.cat(coarse), atol=1e-5)
    assert not torch.allclose(found.fine, found.coarse, atol=1e-2)
    posterior = network.of_features(found.fine, found.coarse)
    assert posterior.log_probs().shape == (6, 3)


def test_one_of_two_backbones_is_stored(tmp_path, monkeypatch):
    samples = save_photos(tmp_path / "photos")
    alone = extract_features(tiny_network(Tiny(1)), samples, VIEWS, cache=tmp_path / "cache")
    made = engines_made(monkeypatch)
    both = extract_features(tiny_network(Tiny(1), Tiny(2)), samples, VIEWS, cache=tmp_path / "cache")
    assert made == [2]
    assert torch.equal(both.fine, alone.fine)
    assert both.cached == 0
    assert extract_features(tiny_network(Tiny(2)), samples, VIEWS, cache=tmp_path / "cache").cached == 6


@pytest.mark.parametrize("engine", ["torch", "onnx"])
@pytest.mark.parametrize("view", ["centre", "ten"])
def test_joined_networks(tmp_path, engine, view):
    samples = save_photos(tmp_path / "photos")
    network = tiny_network(JoinedBackbone({"one": Tiny(0), "two": Tiny(1)}))
    expected, _ = plainly(network, samples, VIEWS, view)
    found = extract_features(network, samples, VIEWS, view=view, cache=False, engine=engine)
    assert found.fine.shape[-1] == 12
    assert torch.allclose(found.fine, expected, atol=1e-5)


def test_stored_features_of_a_network_serve_what_joins_it(tmp_path, monkeypatch):
    samples = save_photos(tmp_path / "photos")
    alone = extract_features(tiny_network(Tiny(1)), samples, VIEWS, cache=tmp_path / "cache")
    made = engines_made(monkeypatch)
    joined = tiny_network(JoinedBackbone({"one": Tiny(0), "two": Tiny(1)}))
    found = extract_features(joined, samples, VIEWS, cache=tmp_path / "cache")
    assert made == [0]  # the other one was stored
    assert torch.allclose(found.fine[:, 6:], joined.backbone.join([alone.fine, alone.fine])[:, 6:])
    again = extract_features(joined, samples, VIEWS, cache=tmp_path / "cache")
    assert again.cached == len(samples)
    assert torch.equal(again.fine, found.fine)
    assert made == [0]


def test_two_backbones_that_are_the_same_are_computed_once(tmp_path, monkeypatch):
    made = engines_made(monkeypatch)
    samples = save_photos(tmp_path / "photos")
    found = extract_features(tiny_network(Tiny(1), Tiny(1)), samples, VIEWS, cache=tmp_path / "cache")
    assert len(made) == 1
    assert torch.equal(found.fine, found.coarse)


def engines_made(monkeypatch):
    """A list that grows by the seed of a backbone whenever an engine is made for it."""
    made = []
    weights = {seed: Tiny(seed).fc.weight for seed in range(5)}
    make = work_module.make_engine

    def watched(name, backbone, size):
        made.extend(seed for seed, weight in weights.items() if torch.equal(weight, backbone.fc.weight))
        return make(name, backbone, size)

    monkeypatch.setattr(work_module, "make_engine", watched)
    return made


# ---- lists of photos -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threads", "batch_size"), [(1, 32), (3, 32), (3, 1), (2, 3)])
def test_threads_and_batches_change_nothing(tmp_path, threads, batch_size):
    samples = save_photos(tmp_path / "photos", 11)
    one = extract_features(tiny_network(), samples, VIEWS, cache=False, threads=1, batch_size=1)
    other = extract_features(tiny_network(), samples, VIEWS, cache=False, threads=threads, batch_size=batch_size)
    assert torch.allclose(one.fine, other.fine, atol=1e-5)


def test_threads_start_no_threads_and_leave_the_settings_of_torch_alone(tmp_path, monkeypatch):
    inside = []
    read_views = work_module.read_views
    monkeypatch.setattr(
        work_module, "read_views", lambda *arguments: inside.append(torch.get_num_threads()) or read_views(*arguments)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        samples = save_photos(tmp_path / "photos")
        extract_features(tiny_network(), samples, VIEWS, cache=False, threads=2)
        assert inside == [1] * 6
        assert torch.get_num_threads() == 3
        assert "mkl_get_max_threads() : 3" in torch.__config__.parallel_info()
        assert not torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)


def test_progress_is_told_in_order_from_the_calling_thread(tmp_path):
    samples = save_photos(tmp_path / "photos", 10)
    (tmp_path / "photos" / "004.png").write_bytes(b"broken")
    told, own = [], threading.get_ident()

    def progress(done, total):
        assert threading.get_ident() == own
        told.append((done, total))

    extract_features(tiny_network(), samples, VIEWS, cache=False, threads=2, on_bad_file="skip", progress=progress)
    assert told == [(done, 10) for done in range(1, 11)]


def test_no_photos(tmp_path):
    found = extract_features(tiny_network(Tiny(), Tiny(1)), Samples([]), VIEWS, cache=tmp_path)
    assert found.fine.shape == found.coarse.shape == (0, 6)
    assert len(found.samples) == 0


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_bad_photos(tmp_path, policy):
    samples = save_photos(tmp_path / "photos", 9)
    (tmp_path / "photos" / "002.png").write_bytes(b"<html>not found</html>")
    (tmp_path / "photos" / "005.png").unlink()
    (tmp_path / "photos" / "007.png").write_bytes((tmp_path / "photos" / "007.png").read_bytes()[:200])
    if policy == "error":
        with pytest.raises(PhotoFileError, match=r"002.png: this is no photo of a known format .* a web page"):
            extract_features(tiny_network(), samples, VIEWS, cache=tmp_path / "cache")
        return
    found = extract_features(tiny_network(), samples, VIEWS, cache=tmp_path / "cache", on_bad_file="skip")
    assert [sample.path.name for sample in found.samples] == [
        "000.png",
        "001.png",
        "003.png",
        "004.png",
        "006.png",
        "008.png",
    ]
    assert [(error.path[-7:], error.reason.split(";")[0]) for error in found.bad] == [
        ("002.png", "this is no photo of a known format (JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM, AVIF, HEIF)"),
        ("005.png", "there is no such file"),
        ("007.png", found.bad[2].reason),
    ]
    assert found.bad[2].reason.startswith("the photo is broken")
    rest = extract_features(tiny_network(), found.samples, VIEWS, cache=False)
    assert torch.allclose(found.fine, rest.fine, atol=1e-5)


def test_all_photos_bad(tmp_path):
    samples = Samples([Sample(tmp_path / "a.jpg", "a"), Sample(tmp_path / "b.jpg", "a")])
    found = extract_features(tiny_network(), samples, VIEWS, cache=False, on_bad_file="skip")
    assert found.fine.shape == (0, 6)
    assert len(found.bad) == 2


def test_photos_are_only_read(tmp_path):
    samples = save_photos(tmp_path / "photos")
    before = {sample.path: (sample.path.read_bytes(), sample.path.stat().st_mtime_ns) for sample in samples}
    extract_features(tiny_network(), samples, VIEWS, cache=tmp_path / "cache")
    assert {sample.path: (sample.path.read_bytes(), sample.path.stat().st_mtime_ns) for sample in samples} == before
    assert sorted(path.name for path in (tmp_path / "photos").iterdir()) == sorted(path.name for path in before)


def test_a_fault_in_a_thread_reaches_the_caller(tmp_path, monkeypatch):
    class Broken(Tiny):
        def forward(self, images):
            raise ZeroDivisionError("no features today")

    samples = save_photos(tmp_path / "photos")
    with pytest.raises(ZeroDivisionError, match="no features today"):
        extract_features(tiny_network(Broken()), samples, VIEWS, cache=False, engine="torch", threads=2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("features")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"view": "train"}, "view: expected 'centre' or 'ten', got 'train'"),
        ({"threads": 0}, "threads and batch_size: expected at least 1, got 0 and 32"),
        ({"batch_size": 0}, "threads and batch_size: expected at least 1, got 1 and 0"),
        ({"engine": "fast"}, "engine: expected 'auto', 'onnx' or 'torch', got 'fast'"),
        ({"on_bad_file": "guess"}, "on_bad_file: expected 'error' or 'skip', got 'guess'"),
    ],
)
def test_wrong_arguments(wrong, message):
    with pytest.raises(InputError, match=message):
        extract_features(tiny_network(), Samples([]), VIEWS, cache=False, **{"threads": 1, **wrong})


def test_what_the_network_cannot_do_in_onnx_is_noted(tmp_path):
    class Odd(Tiny):
        def forward(self, images):
            return torch.erf(super().forward(images))

    samples = save_photos(tmp_path / "photos", 2)
    found = extract_features(tiny_network(Odd()), samples, VIEWS, cache=False)
    assert len(found.notes) == 1
    assert "it has aten.erf.default; torch computes the features" in found.notes[0]
    assert found.fine.isfinite().all()
