"""The five sentences that a report opens with: their numbers, and that each stands where there is nothing to say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from finegraph.data.dataset import MISSING
from finegraph.reports.report_page import report_page
from finegraph.reports.run_results import read_run
from finegraph.reports.summary import summary_of, surely_contradicted, telling_kind, without_marks
from reports.made_up_runs import made_up_graph, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [
        read_run(make_run(folder / head, made_up_graph(), 150, seed=seed, head=head), head)
        for seed, head in enumerate(("softmax", "bipartite"))
    ]


def sentences(runs, baseline=0, other=0):
    found = summary_of(runs, baseline, other)
    assert [one.topic for one in found] == [
        "How good", "How sure", "Weakest classes", "Labels to check", "Photograph next",
    ]  # fmt: skip
    texts = [without_marks(one.text) for one in found]
    for text in texts:
        assert re.search(r"^\S.*[^.]\.$", text), text
        assert "nan" not in text
        assert "None" not in text.removeprefix("None of")
    return texts


def with_arrays(run, **arrays):
    return replace(run, arrays={**run.arrays, **arrays})


def flawless(run):
    """The same run, had it answered everything rightly."""
    return with_arrays(run, predicted=run.arrays["fine"], log_prob=np.zeros(len(run.photos)))


def test_one_run(runs):
    run = runs[0]
    good, sure, *_ = sentences([run])
    assert good.startswith(f"softmax is right about the fine label for {100 * run.result.top1:.1f} % (")
    assert " of the 150 photos" in good
    assert "about “dish” for" in good or "about “place” for" in good
    assert f"{100 * run.result.calibration['fine'].error:.1f} %" in sure
    assert f"a sure answer for {100 * run.result.sure.coverage:.1f} % of the photos" in sure


def test_a_run_that_is_too_sure_of_itself(runs):
    assert "too sure of itself" in sentences([with_arrays(runs[0], probability=np.full(150, 0.999))])[1]
    assert "less sure than it could be" in sentences([with_arrays(runs[0], probability=np.full(150, 0.2))])[1]
    fair = with_arrays(runs[0], probability=np.full(150, runs[0].result.top1))
    assert "its probabilities mean what they say" in sentences([fair])[1]


def test_two_runs_and_whether_one_can_tell(runs):
    assert re.search(
        r"whether that is better than softmax one cannot tell \([+−][\d.]+ points, 95 %", sentences(runs, 0, 1)[0]
    )
    assert "; that is better than softmax (+" in sentences([runs[0], flawless(runs[1])], 0, 1)[0]
    assert "; that is worse than bipartite (−" in sentences([runs[0], flawless(runs[1])], 1, 0)[0]


def test_the_weakest_class_is_bad_for_sure(runs):
    """Two wrong of two photos say less than nine wrong of ten."""
    fine = np.array([0] * 10 + [1] * 2 + [2] * 10)
    predicted = np.array([3] * 9 + [0] + [4] * 2 + [2] * 9 + [5])
    run = runs[0]
    few = {name: array[:22] if len(array) == 150 else array for name, array in run.arrays.items()}
    text = sentences([replace(run, arrays={**few, "fine": fine, "predicted": predicted})])[2]
    assert text == (
        "fine 0 (1 of 10 right, taken 9 times for fine 3), fine 1 (0 of 2 right, taken 2 times for fine 4) and "
        "fine 2 (9 of 10 right, taken for fine 5) are weakest; 3 of 3 evaluated classes have a wrong answer."
    )


def test_labels_to_check_against_what_is_to_be_expected(runs):
    probability = np.full(150, 0.5, dtype=np.float32)
    wrong = np.flatnonzero(~runs[0].right)[:3]
    probability[wrong] = 0.99
    log_prob = runs[0].arrays["log_prob"].copy()
    log_prob[wrong] = [-7.0, -9.0, -8.0]
    run = with_arrays(runs[0], probability=probability, log_prob=log_prob)
    assert surely_contradicted(run) == [wrong[1], wrong[2], wrong[0]]
    text = sentences([run])[3]
    assert text.startswith(
        "3 photos are answered with at least 95 % against the label, where its probabilities expect 0.0"
    )
    assert (
        f"{Path(run.photos[wrong[1]]).name}, labelled {run.graph.fine[run.arrays['fine'][wrong[1]]]} and answered"
        in text
    )
    assert summary_of([run], 0, 0)[3].photos == (wrong[1], wrong[2], wrong[0])
    many = np.where(runs[0].right, 0.95, 0.5)
    many[wrong] = 0.95
    assert (
        "against the label, no more than its probabilities expect: "
        in sentences([with_arrays(run, probability=many)])[3]
    )


def test_what_to_photograph_is_few_photos_with_many_mistakes(runs):
    """Each mistake counts for the class of the photo and for the class it is taken for."""
    run = runs[0]
    wrong = np.flatnonzero(~run.right)
    mistakes = np.zeros(12)
    for row in wrong:
        mistakes[run.arrays["fine"][row]] += 1
        mistakes[run.arrays["predicted"][row]] += 1
    photos = np.full(12, 50)
    photos[7] = 0
    about = {**run.about, "training": {**run.about["training"], "fine": photos.tolist()}}
    text = sentences([replace(run, about=about)])[4]
    assert text.startswith(f"More photos of fine 7 (0 training photos, {mistakes[7]:.0f} mistakes), ")


def test_no_mistakes_at_all(runs):
    good, sure, weak, labels, photos = sentences([flawless(runs[0])])
    assert "for 100.0 % (97.5 to 100.0 %) of the 150 photos" in good
    assert weak.startswith("No class has a wrong answer: all 150 photos of 12 classes are right")
    assert labels == "No photo is answered with at least 95 % against its label, so no label looks wrong."
    assert photos.startswith("There is no mistake to mend; the fewest training photos are those of fine 0 (5), ")
    assert "less sure" in sure


@pytest.mark.deep
def test_three_photos_that_are_right_say_little(runs):
    few = {name: array[:3] if len(array) == 150 else array for name, array in runs[0].arrays.items()}
    run = flawless(replace(runs[0], arrays={**few, "sample": np.arange(3)}))
    assert "for 100.0 % (43.9 to 100.0 %) of the 3 photos" in sentences([run])[0]
    assert "43.9 to 100.0" in report_page([run])  # the table says the same


def test_without_kinds_training_photos_or_labels(runs, tmp_path):
    plain = read_run(make_run(tmp_path / "plain", made_up_graph(5, (), 0), 40), "plain")
    assert telling_kind(plain) is None
    good, *_, photos = sentences([replace(plain, about={**plain.about, "training": None})])
    assert "“" not in good
    assert photos.endswith("by mistakes alone: the training photos are not known.")
    bare = replace(flawless(plain), about={**plain.about, "training": None})
    assert sentences([bare])[4].startswith("Nothing says what to photograph next: there is no mistake")
    blind = with_arrays(runs[0], fine=np.full(150, MISSING))
    good, sure, weak, labels, photos = sentences([blind])
    assert good.startswith("None of 150 photos has a known fine label, so one cannot tell how many are right; it is")
    assert "without known labels" in sure
    assert "without known labels" in weak
    assert labels == "There are no known labels that could be wrong."
    assert "without known labels" in photos


def test_the_kind_that_says_most(runs):
    """A kind that is right because it is nearly always the same says little."""
    run = runs[0]
    true = run.arrays["kinds_true"].copy()
    right = np.zeros_like(run.arrays["kinds_right"])
    true[:, 0], right[:, 0] = 0, 1  # always right, and always the same
    true[:, 1], right[:, 1] = np.arange(150) % 3, np.arange(150) % 5 > 0
    assert telling_kind(with_arrays(run, kinds_true=true, kinds_right=right)) == run.graph.kinds[1]


def test_the_page_opens_with_them(page, tmp_path):
    run = make_run(tmp_path / "run", made_up_graph(), 150, strength=1.0)
    found = read_run(run, "run")
    odd = with_arrays(found, probability=np.full(150, 0.99, dtype=np.float32))
    (tmp_path / "r.html").write_text(report_page([odd]), encoding="utf-8")
    page.goto((tmp_path / "r.html").as_uri())
    assert page.locator("main section").first.get_attribute("id") == "summary"
    assert page.locator(".summary dd").count() == 5
    page.get_by_role("button", name="Show them").click()
    assert page.locator("#viewer .note").first.inner_text() == f"{int((~found.right).sum())} photos"
    page.keyboard.press("Escape")
    for link in page.locator(".summary a").all():
        assert page.locator(link.get_attribute("href")).count() == 1
