"""The dataset: targets, bad photos, and views that do not depend on workers."""

import pytest
import torch
from data_files import save
from torch.utils.data import DataLoader

from finegraph.data import Box, Sample, Samples
from finegraph.data.dataset import MISSING, PhotoDataset, collate, targets_of
from finegraph.data.layouts.manifest import read_manifest
from finegraph.data.photo_decoding import read_picture
from finegraph.data.transforms import ViewSettings, make_view
from finegraph.errors import InputError, PhotoFileError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.inference.sums.targets import FROM_FINE

SETTINGS = ViewSettings(resize=32, size=24)
GRAPH = LabelGraph.from_table(
    {"ramen": {"dish": "noodles", "egg": True}, "udon": {"dish": "noodles", "egg": False}, "curry": {"dish": "rice"}}
)


@pytest.fixture
def samples(tmp_path):
    paths = [save(tmp_path / f"{number}.jpg", number) for number in range(4)]
    return Samples(
        [
            Sample(paths[0], "udon", kinds={"egg": "yes"}),
            Sample(paths[1], "ramen", box=Box(0, 0, 20, 20)),
            Sample(paths[2], None, kinds={"egg": "no", "weather": "fine"}),
            Sample(paths[3], "curry"),
        ]
    )


def test_items(samples, unchanged):
    unchanged()
    dataset = PhotoDataset(samples, GRAPH, SETTINGS)
    assert len(dataset) == 4
    items = [dataset[index] for index in range(4)]
    assert [item.fine for item in items] == [1, 0, MISSING, 2]
    assert [item.kinds for item in items] == [{"egg": 1}, {"egg": FROM_FINE}, {"egg": 0}, {"egg": FROM_FINE}]
    assert [item.sample for item in items] == [0, 1, 2, 3]
    assert torch.equal(items[1].image, make_view(read_picture(samples[1].path), SETTINGS, "centre"))


def test_boxes_are_used_when_asked_for(samples):
    boxed = ViewSettings(resize=32, size=24, box=True)
    expected = make_view(read_picture(samples[1].path, samples[1].box), boxed, "ten")
    plain = PhotoDataset(samples, GRAPH, SETTINGS, view="ten")[1].image
    assert torch.equal(PhotoDataset(samples, GRAPH, boxed, view="ten")[1].image, expected)
    assert not torch.equal(plain, expected)
    assert torch.equal(
        PhotoDataset(samples, GRAPH, boxed, view="ten")[0].image,
        PhotoDataset(samples, GRAPH, SETTINGS, view="ten")[0].image,
    )


def test_views_depend_on_seed_and_epoch_only(samples):
    def views(seed, epoch):
        dataset = PhotoDataset(samples, GRAPH, SETTINGS, view="train", seed=seed)
        return torch.stack([dataset.item(index, epoch).image for index in (3, 1, 0, 2)])

    assert torch.equal(views(1, 1), views(1, 1))
    assert not torch.equal(views(1, 1), views(1, 2))
    assert not torch.equal(views(1, 1), views(2, 1))


def test_workers_report_bad_files(samples):
    samples[3].path.write_bytes(b"<html>")
    dataset = PhotoDataset(samples, GRAPH, SETTINGS, view="train", on_bad_file="skip")
    full, rest = DataLoader(dataset, batch_size=3, num_workers=1, collate_fn=collate)
    assert torch.equal(full.images, torch.stack([dataset[index].image for index in range(3)]))
    assert (full.fine.tolist(), full.sample.tolist(), full.bad) == ([1, 0, MISSING], [0, 1, 2], ())
    assert full.kinds["egg"].tolist() == [1, FROM_FINE, 0]
    assert [error.path for error in rest.bad] == [str(samples[3].path)]
    assert (len(rest.images), len(rest.fine), len(rest.sample)) == (0, 0, 0)


def test_bad_photos_are_never_swapped(samples):
    samples[1].path.unlink()
    with pytest.raises(PhotoFileError, match=r"1\.jpg: there is no such file"):
        PhotoDataset(samples, GRAPH, SETTINGS)[1]
    skipping = PhotoDataset(samples, GRAPH, SETTINGS, on_bad_file="skip")
    batch = collate([skipping[index] for index in range(3)])
    assert batch.sample.tolist() == [0, 2]
    assert batch.bad[0].reason == "there is no such file"
    with pytest.raises(InputError, match="on_bad_file must be 'error' or 'skip', got 'swap'"):
        PhotoDataset(samples, GRAPH, SETTINGS, on_bad_file="swap")


def test_unknown_labels_are_reported_together(tmp_path):
    samples = Samples(
        [
            Sample(tmp_path / "1", "ramenn", kinds={"dish": "noodle"}),
            Sample(tmp_path / "2", "ramenn"),
            Sample(tmp_path / "3", "zzz"),
        ]
    )
    with pytest.raises(UnknownNameError) as caught:
        targets_of(samples, GRAPH)
    assert str(caught.value).splitlines() == [
        "3 labels are not in the graph:",
        "  fine label 'ramenn'; did you mean 'ramen'?",
        "  fine label 'zzz'",
        "  label of kind 'dish' 'noodle'; did you mean 'noodles'?",
    ]


def test_unknown_labels_of_a_manifest_have_their_lines(tmp_path):
    (tmp_path / "images.csv").write_text("path,label,dish\n2.jpg,ramen,\n1.jpg,ramenn,\n3.jpg,ramenn,noodle\n")
    with pytest.raises(UnknownNameError) as caught:
        targets_of(read_manifest(tmp_path / "images.csv"), GRAPH)
    assert str(caught.value).splitlines()[1:] == [
        f"  {tmp_path / 'images.csv'}:3: fine label 'ramenn'; did you mean 'ramen'?",
        f"  {tmp_path / 'images.csv'}:4: label of kind 'dish' 'noodle'; did you mean 'noodles'?",
    ]


def test_pictures_are_kept_up_to_a_size(samples, monkeypatch):
    read = []

    def counted(path, *rest, **options):
        read.append(path)
        return read_picture(path, *rest, **options)

    monkeypatch.setattr("finegraph.data.dataset.read_picture", counted)
    first = read_picture(samples[0].path, None, at_least=(SETTINGS.resize, SETTINGS.resize))
    one_picture = 3 * first.width * first.height
    for size, expected in ((0, 12), (one_picture, 10), (1 << 30, 4)):
        kept = PhotoDataset(samples, GRAPH, SETTINGS, view="train", view_share=0.5, keep_pictures=size)
        plain = PhotoDataset(samples, GRAPH, SETTINGS, view="train", view_share=0.5)
        read.clear()
        found = [kept.item(number, epoch).image for epoch in range(3) for number in range(4)]
        assert len(read) == expected
        for place, image in enumerate(found):
            assert torch.equal(image, plain.item(place % 4, place // 4).image)
