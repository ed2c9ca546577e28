"""Which photos are trained on and which are held out."""

from dataclasses import replace
from pathlib import Path

import pytest

from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.splits import choose_splits, draw_per_label, hold_out
from finegraph.errors import DataError, UnknownNameError


def photos(counts, split=None, folder="photos"):
    return [
        Sample(Path(folder) / label / f"{number}.jpg", label, split)
        for label, count in counts.items()
        for number in range(count)
    ]


def names(samples):
    return {"/".join(sample.path.parts[-2:]) for sample in samples}


def test_splits_by_name():
    samples = Samples([*photos({"a": 3}, "train", "1"), *photos({"a": 2}, "val", "2"), *photos({"a": 1}, "test", "3")])
    train, val = choose_splits(samples)
    assert (len(train), len(val)) == (3, 2)
    train, val = choose_splits(samples, "train", "test", share=0.5)
    assert (len(train), len(val)) == (3, 1)
    train, val = choose_splits(samples, "val")
    assert (len(train), val) == (2, None)
    with pytest.raises(DataError, match="val_split: 'train' is the split to train on too"):
        choose_splits(samples, "train", "train")
    with pytest.raises(UnknownNameError, match=r"unknown split 'tets'.*'test'"):
        choose_splits(samples, "train", "tets")
    with pytest.raises(UnknownNameError, match="unknown split 'training'"):
        choose_splits(samples, "training")


def test_a_source_without_splits_is_used_whole():
    samples = Samples(photos({"a": 3, "b": 2}))
    assert choose_splits(samples) == (samples, None)
    with pytest.raises(UnknownNameError, match="unknown split 'val'; there are none"):
        choose_splits(samples, val="val")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.25, {"a": 3, "b": 1, "c": 1}), (0.5, {"a": 5, "b": 3, "c": 1}), (0.99, {"a": 9, "b": 4, "c": 1})],
)
def test_a_share_of_each_class_is_held_out(share, expected):
    samples = Samples([*photos({"a": 10, "b": 5, "c": 2, "d": 1}), Sample(Path("x/no label.jpg"))])
    train, val = choose_splits(samples, share=share)
    assert val.counts() == expected
    assert len(train) + len(val) == len(samples)
    assert not names(train) & names(val)
    assert names(train) | names(val) == names(samples)
    assert "x/no label.jpg" in names(train)


@pytest.mark.parametrize("counts", [{"a": 1, "b": 1}, {"a": 4, "b": 4}, {}])
def test_a_share_that_is_no_photo_is_refused(counts):
    with pytest.raises(
        DataError, match=r"val_share: expected a share that is at least a photo of some class, got 0\.1"
    ):
        hold_out(Samples(photos(counts)), 0.1, 0)


def test_draws_depend_on_the_seed_and_the_names_alone():
    samples = Samples(photos({"a": 20, "b": 20}))
    three, five = draw_per_label(samples, 3, 7), draw_per_label(samples, 5, 7)
    assert three.counts() == {"a": 3, "b": 3}
    assert names(three) < names(five)
    more = Samples(photos({"a": 20, "b": 20, "c": 20}))
    assert {name for name in names(draw_per_label(more, 3, 7)) if name[0] != "c"} == names(three)
    assert names(draw_per_label(Samples(photos({"a": 20, "b": 20}, folder="elsewhere")), 3, 7)) == names(three)
    assert names(draw_per_label(samples, 3, 8)) != names(three)
    assert draw_per_label(samples, 3, 7) == three


def test_a_draw_of_more_than_there_are_takes_all_that_have_a_label():
    samples = Samples([*photos({"a": 2}), Sample(Path("x/no label.jpg"))])
    assert draw_per_label(samples, 5, 0).counts() == {"a": 2}
    assert len(draw_per_label(samples, 5, 0)) == 2


def test_the_boxes_of_a_photo_stay_on_one_side():
    boxes = [Box(0, 0, 5, 5), Box(5, 5, 5, 5)]
    samples = Samples(replace(sample, box=box) for sample in photos({"a": 10, "b": 7}) for box in boxes)
    train, val = hold_out(samples, 0.3, seed=0)
    assert len(train) + len(val) == len(samples)
    assert len(val) == 2 * (3 + 2)
    assert not {sample.path for sample in train} & {sample.path for sample in val}


@pytest.mark.parametrize(
    ("size", "held"),
    [(1, 0), (2, 0), (3, 1), (7, 1), (8, 2), (20, 4), (100, 20), (104, 20), (105, 21), (200, 30), (1000, 110)],
)
def test_by_default_a_fifth_of_the_first_hundred_and_a_tenth_of_the_rest(size, held):
    train, val = hold_out(Samples(photos({"a": size, "b": 20})), None, seed=0)
    assert val.counts().get("a", 0) == held
    assert train.counts()["a"] == size - held


def test_classes_too_small_to_hold_any_out():
    train, val = hold_out(Samples(photos({"a": 2, "b": 1})), None, seed=0)
    assert (len(train), len(val)) == (3, 0)


class TestPhotosThatAreTheSame:
    def groups(self, *groups):
        return [[Path("photos") / name for name in group] for group in groups]

    @pytest.mark.parametrize("seed", range(20))
    def test_stay_on_one_side(self, seed):
        samples = Samples(photos({"a": 20, "b": 20}))
        same = self.groups([f"a/{n}.jpg" for n in range(3)], ["a/7.jpg", "b/3.jpg"], ["b/3.jpg", "b/4.jpg"])
        train, val = hold_out(samples, None, seed, same)
        assert (len(train), len(val)) == (32, 8)
        for group in (same[0], [*same[1], *same[2]]):  # those that share a photo are one
            names_held = {path for path in group if path in {one.path for one in val}}
            assert names_held in (set(), set(group))

    @pytest.mark.parametrize("seed", range(10))
    def test_more_than_is_held_out_are_trained_on(self, seed):
        same = self.groups([f"a/{n}.jpg" for n in range(9)])
        _, val = hold_out(Samples(photos({"a": 10})), None, seed, same)
        assert names(val) == {"a/9.jpg"}
        whole = self.groups(["a/0.jpg", "a/1.jpg"])
        with pytest.raises(DataError, match="val_share"):
            hold_out(Samples(photos({"a": 2})), 0.5, seed, whole)

    def test_change_nothing_where_there_are_none(self):
        samples = Samples(photos({"a": 30, "b": 11, "c": 4}))
        assert hold_out(samples, 0.3, 5, []) == hold_out(samples, 0.3, 5)
