"""Features of several processes: all of them, in order, in the first; `test_typed_ranks.py` has real processes."""

from pathlib import Path

import pytest
import torch

from finegraph.data.samples import Sample, Samples
from finegraph.errors import PhotoFileError
from finegraph.model.features import Features
from finegraph.training import shared_features as shared_file
from finegraph.training.shared_features import FeatureCrew, shared_features
from thread_ranks import ThreadRanks

PHOTOS = Samples([Sample(Path(f"{number}.png"), str(number)) for number in range(11)], "made up")


def features_of(samples, bad=()):
    """Features that tell which photo they are of; photos with a label among `bad` cannot be read."""
    good = [(number, one) for number, one in enumerate(samples) if one.label not in bad]
    fine = torch.tensor([[float(one.label), -float(one.label)] for _, one in good]).reshape(-1, 2)
    return Features(
        fine=fine,
        coarse=fine + 0.5,
        samples=Samples([one for _, one in good]),
        numbers=tuple(number for number, _ in good),
        keys=tuple(one.label.encode() for _, one in good),
        bad=tuple(PhotoFileError(str(one.path), "broken") for one in samples if one.label in bad),
        views=torch.stack([fine, fine + 1], dim=1),
        cached=1,
    )


@pytest.mark.parametrize("size", [1, 2, 3, 12])
@pytest.mark.parametrize("rows", [1, 2, 4096])
def test_the_first_process_has_what_one_alone_computes(monkeypatch, size, rows):
    monkeypatch.setattr(shared_file, "_ROWS_AT_ONCE", rows)
    found = ThreadRanks(size).run(
        lambda rank: shared_features(rank, PHOTOS, lambda own: features_of(own, bad=("3", "8")))
    )
    assert found[1:] == [None] * (size - 1)
    alone = features_of(PHOTOS, bad=("3", "8"))
    for name in ("fine", "coarse", "views"):
        assert torch.equal(getattr(found[0], name), getattr(alone, name))
    assert (found[0].numbers, found[0].keys) == (alone.numbers, alone.keys)
    assert [one.path for one in found[0].samples] == [one.path for one in alone.samples]
    assert [error.path for error in found[0].bad] == ["3.png", "8.png"]
    assert found[0].cached == min(size, len(PHOTOS))


def test_a_photo_that_cannot_be_read_ends_all_with_the_first_such_photo():
    def compute(own):
        for one in own:
            if one.label in ("5", "6", "9"):
                raise PhotoFileError(str(one.path), "broken")
        return features_of(own)

    def work(rank):
        with pytest.raises(PhotoFileError) as caught:
            shared_features(rank, PHOTOS, compute)
        return caught.value.path

    assert ThreadRanks(3).run(work) == ["5.png"] * 3


def test_other_processes_help_until_the_first_has_ended():
    asked = [list(PHOTOS)[:4], list(PHOTOS)[4:5], list(PHOTOS)[5:]]
    computed = [[], [], []]

    def work(rank):
        def compute(own, progress):
            computed[rank.rank].append(len(own))
            if progress is not None:
                progress(len(own), len(own))
            return features_of(own)

        told = []
        with FeatureCrew(rank, compute) as crew:
            if not rank.first:
                return crew.help()
            found = [crew.of(part, lambda done, total: told.append((done, total))) for part in asked]
        return [part.keys for part in found], told

    first, *others = ThreadRanks(3).run(work)
    assert others == [None, None]
    assert first[0] == [tuple(one.label.encode() for one in part) for part in asked]
    assert computed == [[2, 1, 2], [1, 2], [1, 2]]
    assert first[1] == [(4, 4), (1, 1), (6, 6)]


def test_an_error_of_the_first_process_ends_the_others_in_peace():
    def work(rank):
        try:
            with FeatureCrew(rank, lambda own, progress: features_of(own)) as crew:
                if not rank.first:
                    return crew.help()
                raise ValueError("no such index")
        except ValueError as error:
            return str(error)

    assert ThreadRanks(2).run(work) == ["no such index", None]
