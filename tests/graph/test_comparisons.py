"""Comparisons: read with all faults, fitted as brute force fits them, conflicts found."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finegraph.errors import GraphFileError, InputError, UnknownNameError
from finegraph.graph.comparison_choice import expected_gain, telling_pair
from finegraph.graph.comparison_conflicts import AgainstKnown, DividedPair, find_conflicts
from finegraph.graph.comparison_fit import (
    PRIOR_SPREAD,
    ComparisonTally,
    fit_comparisons,
    likeliest_values,
    log_posterior,
    shown_by_photos,
)
from finegraph.graph.comparisons import (
    Comparable,
    Comparison,
    between_labels,
    format_comparisons,
    is_comparisons,
    read_comparisons,
)
from finegraph.graph.kind import Kind
from finegraph.graph.number import Number
from finegraph.graph.order_fit import DoubtedLabel, fit_order

NAMES = ("mapo", "ramen", "udon", "kung pao")


def told(*pairs, kind="heat", photos=False):
    """Comparisons from texts: "a>b" or "a=b"."""
    found = []
    for pair in pairs:
        one, two = pair.replace("=", ">").split(">")
        found.append(Comparison(kind, one, two, same="=" in pair, photos=photos))
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_file_reads_back(tmp_path):
    comparisons = [Comparison("heat", "mapo", "ramen", "ann"), Comparison("mass", "udon", "mapo", same=True)]
    path = tmp_path / "comparisons.csv"
    path.write_text(format_comparisons(comparisons))
    assert read_comparisons(path, NAMES) == comparisons
    path.write_text("kind,more,less\nheat,mapo,udon\n")
    assert read_comparisons(path, NAMES) == [Comparison("heat", "mapo", "udon")]


def test_names_that_spreadsheets_would_run_and_photos_read_back(tmp_path):
    names = ("=1+1", "a\\b", "# c", "@d")
    comparisons = [
        Comparison("heat", "=1+1", "a\\b", "-ann"),
        Comparison("heat", "# c", "@d"),
        Comparison("heat", " odd .jpg", "2.jpg", photos=True),
    ]
    path = tmp_path / "comparisons.csv"
    for safe in (False, True):
        path.write_text(format_comparisons(comparisons, safe=safe))
        assert read_comparisons(path, Comparable(names, None)) == comparisons
    assert all(cell[0] not in "=+-@" for line in path.read_text().splitlines() for cell in line.split(",") if cell)
    assert is_comparisons(path.read_text())
    assert not is_comparisons("fine,kind,more,less\n")


def test_names_tell_whether_photos_are_compared(tmp_path):
    path = tmp_path / "comparisons.csv"
    path.write_text("kind,more,less\nheat,1.jpg,2.jpg\nheat,mapo,udon\n")
    names = Comparable(NAMES, ("1.jpg", "2.jpg"), {"dish": "it has labels"})
    assert [one.photos for one in read_comparisons(path, names)] == [True, False]
    path.write_text(
        "kind,more,less,of\nheat,mapo,2.jpg,\ndish,mapo,udon,\ndish,ramen,udon,\nheat,mapo,udon,photos\n"
        "heat,1.jpg,3.jpg,\nheat,mapo,udon,pets\nheat,a\\qb,udon,\n"
    )
    with pytest.raises(GraphFileError) as caught:
        read_comparisons(path, names)
    assert [(fault.line, fault.column, fault.rule) for fault in caught.value.faults] == [
        (2, "less", "mixed-pair"),
        (3, "kind", "bad-kind"),
        (5, "more", "mixed-pair"),
        (5, "less", "mixed-pair"),
        (6, "less", "unknown-label"),
        (7, "of", "bad-of"),
        (8, "more", "bad-escape"),
    ]


def test_all_faults_at_once(tmp_path):
    path = tmp_path / "comparisons.csv"
    path.write_text(
        "kind,more,less,who,same\nheat,mapo,ramn,ann,\nheat,udon,udon,ann,\n,mapo,,ann,\nfine,mapo,udon,ann,maybe\n"
        "heat,mapo,udon,ben,\nheat,udon,mapo,ben,yes\n"
    )
    with pytest.raises(GraphFileError) as caught:
        read_comparisons(path, NAMES)
    found = [(fault.line, fault.column, fault.rule) for fault in caught.value.faults]
    assert found == [
        (2, "less", "unknown-label"),
        (3, "less", "with-itself"),
        (4, "kind", "bad-name"),
        (4, "less", "empty-name"),
        (5, "kind", "bad-name"),
        (5, "same", "bad-same"),
        (7, "more", "compared-twice"),
    ]
    assert "did you mean 'ramen'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "empty-file"),
        ("kind,more\nheat,mapo\n", "missing-column"),
        ("kind,more,less,less\n", "duplicate-column"),
        ("kind,more,less,weight\n", "unknown-column"),
        ("kind,more,less\n", "no-rows"),
        ("kind,more,less\nheat,mapo\n", "short-row"),
    ],
)
def test_files_that_are_none(tmp_path, text, rule):
    path = tmp_path / "comparisons.csv"
    path.write_text(text)
    with pytest.raises(GraphFileError) as caught:
        read_comparisons(path, NAMES)
    assert rule in {fault.rule for fault in caught.value.faults}


PIECES = [
    "kind",
    "more",
    "less",
    "who",
    "same",
    "heat",
    "mapo",
    "ramen",
    "udon",
    "ann",
    "yes",
    ",",
    ",",
    "\n",
    '"',
    " ",
    "é",
]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["", "kind,more,less\n", "kind,more,less,who,same\n"]),
    st.lists(st.sampled_from(PIECES), max_size=25),
)
def test_any_text_is_refused_or_read_exactly(tmp_path, header, pieces):
    path = tmp_path / "comparisons.csv"
    path.write_text(header + "".join(pieces), encoding="utf-8")
    try:
        found = read_comparisons(path, NAMES)
    except GraphFileError as error:
        assert error.faults  # noqa: PT017
        return
    path.write_text(format_comparisons(found), encoding="utf-8")
    assert read_comparisons(path, NAMES) == found


def test_photos_as_their_fine_labels():
    labels = {"1.jpg": "mapo", "2.jpg": "ramen", "3.jpg": "mapo", "4.jpg": None}
    photos = told("1.jpg>2.jpg", "1.jpg>3.jpg", "4.jpg>1.jpg", "3.jpg=2.jpg", photos=True)
    assert between_labels(photos + told("mapo>udon"), labels) == [
        *told("mapo>ramen", "mapo=ramen", photos=True),
        *told("mapo>udon"),
    ]


# ---- values ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.sampled_from([1.0, 0.6])).filter(
            lambda one: one[0] != one[1]
        ),
        max_size=20,
    ),
    st.lists(st.sampled_from([0.0, -2.0, 1.5]), min_size=4, max_size=4),
    st.lists(st.sampled_from([0.05, 1.3, 4.0]), min_size=4, max_size=4),
)
def test_the_fit_is_the_maximum_and_its_covariance_the_inverse_curvature(pairs, mean, spread):
    tally, mean, spread = ComparisonTally.of(pairs), np.array(mean), np.array(spread)
    values, covariance = likeliest_values(tally, mean, spread)
    step = 1e-4
    unit = np.eye(4) * step

    def at(moved):
        return log_posterior(values + moved, tally, mean, spread)

    gradient = np.array([(at(e) - at(-e)) / (2 * step) for e in unit])
    assert gradient == pytest.approx(np.zeros(4), abs=1e-6)
    second = np.array([[(at(e + f) - at(e - f) - at(f - e) + at(-e - f)) / (4 * step**2) for e in unit] for f in unit])
    assert np.linalg.inv(covariance) == pytest.approx(-second, abs=1e-4, rel=1e-5)


@pytest.mark.deep
def test_two_things_against_quadrature():
    given_pairs = told("mapo>ramen", "mapo>ramen", "ramen>mapo", "mapo=ramen")
    fit = fit_comparisons("heat", NAMES, given_pairs)
    grid = np.linspace(-6, 6, 301)
    more = 1 / (1 + np.exp(grid[None, :] - grid[:, None]))
    density = 2.5 * np.log(more) + 1.5 * np.log(1 - more)
    density -= (grid[:, None] ** 2 + grid**2) / (2 * PRIOR_SPREAD**2)
    best = np.unravel_index(density.argmax(), density.shape)
    assert fit.number.values[:2] == pytest.approx([grid[best[0]], grid[best[1]]], abs=0.03)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    marginal = weight.sum(axis=1)
    mean = (marginal * grid).sum()
    spread = math.sqrt((marginal * (grid - mean) ** 2).sum())
    assert fit.number.spreads[0] == pytest.approx(spread, rel=0.05)
    assert fit.number.values[0] == pytest.approx(mean, abs=0.05)


def test_photos_tell_less_and_as_much_less_as_their_noise_says():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, PRIOR_SPREAD, (2, 400_000))
    for apart in (0.5, 2.0):
        seen = (1 / (1 + np.exp(-(apart + noise[0] - noise[1])))).mean()
        expected = 1 / (1 + math.exp(-apart * shown_by_photos(PRIOR_SPREAD)))
        assert seen == pytest.approx(expected, abs=0.01)
    labels = fit_comparisons("heat", NAMES, told("mapo>ramen") * 5).number
    photos = fit_comparisons("heat", NAMES, told("mapo>ramen", photos=True) * 5).number
    alike = fit_comparisons("heat", NAMES, told("mapo>ramen", photos=True) * 5, photo_spread=0.0).number
    assert labels.spreads[0] < photos.spreads[0]
    assert alike == labels


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_known_values_stay_and_others_come_out_in_their_unit(scale):
    known = Number.from_values("heat", [100.0, 1.0, None, None], [1.0, 0.1, 0, 0], scale, "SHU")
    votes = told("mapo>udon", "udon>ramen", "mapo>ramen") * 20
    number = fit_comparisons("heat", NAMES, votes, known=known).number
    assert (number.unit, number.scale) == ("SHU", scale)
    assert number.values[:2].tolist() == [100.0, 1.0]
    assert number.spreads[:2].tolist() == [1.0, 0.1]
    middle = 50 if scale == "linear" else 10
    assert number.values[2] == pytest.approx(middle, rel=0.3)
    assert not number.known[3]
    near = fit_comparisons("heat", NAMES, told("mapo>udon", "udon>mapo") * 60 + votes[1::3] * 3, known=known).number
    assert number.values[2] < near.values[2] < 150


def test_how_well_people_tell_known_values_apart_is_learnt():
    known = Number.from_values("heat", [0.0, 1.0, 2.0, None])
    sharp = told("udon>ramen", "ramen>mapo", "udon>mapo") * 20
    blurred = sharp + told("ramen>udon", "mapo>ramen", "mapo>udon") * 15
    once = told("kung pao>udon") * 3
    names = ("mapo", "ramen", "udon", "kung pao")
    values = [fit_comparisons("heat", names, one + once, known=known).number.values[3] for one in (sharp, blurred)]
    assert values[1] < 2.0 < values[0]  # who often errs tells little: it stays nearer to the mean


def test_the_prior_makes_every_probability_about_equally_likely():
    rng = np.random.default_rng(0)
    apart = rng.normal(0, PRIOR_SPREAD, 200_000) - rng.normal(0, PRIOR_SPREAD, 200_000)
    shares = np.histogram(1 / (1 + np.exp(-apart)), bins=5, range=(0, 1))[0] / 200_000
    assert shares == pytest.approx(np.full(5, 0.2), abs=0.04)


def test_what_nobody_compared_is_unknown_and_more_votes_are_surer():
    once = fit_comparisons("heat", NAMES, told("mapo>ramen")).number
    often = fit_comparisons("heat", NAMES, told("mapo>ramen") * 50).number
    assert once.known.tolist() == [True, True, False, False]
    assert often.values[0] > once.values[0] > 0 > once.values[1]
    assert often.spreads[0] < once.spreads[0] < PRIOR_SPREAD
    assert fit_comparisons("heat", NAMES, told("mapo=udon")).number.values[0] == pytest.approx(0)
    assert (once.name, once.scale) == ("heat", "linear")


def test_order_of_a_chain_and_other_kinds_are_passed_over():
    comparisons = told("mapo>ramen", "ramen>udon", "udon>kung pao") + told("udon>mapo", kind="mass")
    values = fit_comparisons("heat", NAMES, comparisons).number.values
    assert np.argsort(-values).tolist() == [0, 1, 2, 3]


def test_what_cannot_be_fitted():
    with pytest.raises(InputError, match="no comparison of the kind 'mass'"):
        fit_comparisons("mass", NAMES, told("mapo>ramen"))
    with pytest.raises(UnknownNameError, match="soba"):
        fit_comparisons("heat", NAMES, told("mapo>soba"))
    with pytest.raises(InputError, match="prior_spread"):
        fit_comparisons("heat", NAMES, told("mapo>ramen"), prior_spread=0)


# ---- the next pair ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("spread", [0.3, 1.8, 4.0])
def test_the_gain_is_the_mutual_information(mean, spread):
    grid = np.linspace(-12, 12, 4001)
    weight = np.exp(-(grid**2) / 2)
    weight /= weight.sum()
    sure = 1 / (1 + np.exp(-(mean + spread * grid)))

    def bits(p):
        return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))

    expected = bits((weight * sure).sum()) - (weight * bits(np.clip(sure, 1e-12, 1 - 1e-12))).sum()
    assert expected_gain(np.array([mean]), np.array([spread**2]))[0] == pytest.approx(expected, abs=1e-3)


def next_pair(fit, count, seed=0, **options):
    rng = np.random.default_rng(seed)
    mean, spread = (
        (np.zeros(count), np.full(count, PRIOR_SPREAD)) if fit is None else (fit.prior_mean, fit.prior_spread)
    )
    return telling_pair(fit, mean, spread, rng, **options)


@pytest.mark.deep
def test_the_start_favours_nobody():
    pairs = [next_pair(None, 5, seed) for seed in range(400)]
    assert {frozenset(pair) for pair in pairs} == {frozenset(pair) for pair in itertools.combinations(range(5), 2)}
    assert 150 < sum(one < two for one, two in pairs) < 250


def test_the_pair_is_the_one_of_largest_gain():
    fit = fit_comparisons("heat", NAMES, told("mapo>ramen", "ramen>udon", "mapo>kung pao", "mapo>udon") * 2)
    gains = {}
    for one, two in itertools.combinations(range(4), 2):
        at = np.searchsorted(fit.items, (one, two))
        apart = np.array([1, -1])
        variance = apart @ fit.covariance[np.ix_(at, at)] @ apart
        gains[one, two] = expected_gain(fit.values[at[:1]] - fit.values[at[1:]], np.array([variance]))[0]
    ranked = sorted(gains, key=gains.get, reverse=True)
    assert tuple(sorted(next_pair(fit, 4))) == ranked[0]
    assert tuple(sorted(next_pair(fit, 4, barred=ranked[:2]))) == ranked[2]
    assert tuple(sorted(next_pair(fit, 4, among=ranked[3:]))) == ranked[3]
    assert next_pair(fit, 4, barred=ranked) is None
    assert next_pair(fit, 4, among=ranked[:1], barred=ranked[:1]) is None
    assert next_pair(None, 1) is None


def test_new_things_come_first_and_many_are_drawn_from():
    names = [str(number) for number in range(700)]
    fit = fit_comparisons("heat", names, told(*(f"{number}>{number + 1}" for number in range(0, 690, 2))))
    assert min(next_pair(fit, 700)) >= 690


@pytest.mark.deep
def test_asking_by_gain_finds_an_order_with_fewer_questions_than_by_lot():
    truth = np.linspace(-4, 4, 12)
    names = [str(number) for number in range(12)]
    found = {}
    for way in ("gain", "lot"):
        rng = np.random.default_rng(1)
        right = []
        for _ in range(4):
            votes = told("0>1" if rng.random() < 1 / (1 + math.exp(truth[1] - truth[0])) else "1>0")
            while len(votes) < 30:
                fit = fit_comparisons("heat", names, votes)
                one, two = (
                    telling_pair(fit, fit.prior_mean, fit.prior_spread, rng)
                    if way == "gain"
                    else rng.choice(12, 2, replace=False)
                )
                more = rng.random() < 1 / (1 + math.exp(truth[two] - truth[one]))
                votes += told(f"{one}>{two}" if more else f"{two}>{one}")
            values = np.nan_to_num(fit_comparisons("heat", names, votes).number.values)
            pairs = itertools.combinations(range(12), 2)
            right.append(np.mean([(values[i] < values[j]) for i, j in pairs]))
        found[way] = np.mean(right)
    assert found["gain"] > found["lot"]


# ---- conflicts -------------------------------------------------------------------------------------------------------


def test_divided_pairs_circles_and_groups():
    found = find_conflicts("heat", told("a>b", "a>b", "b>a", "b>c", "c>a", "d>e", "d>e", "x>y", "y>x", "d=e"))
    assert found.divided == (DividedPair("x", "y", 1, 1), DividedPair("a", "b", 2, 1))
    assert found.circles == (("a", "b", "c"),)
    assert [set(group) for group in found.groups] == [{"a", "b", "c"}, {"d", "e"}, {"x", "y"}]
    assert not find_conflicts("heat", told("a>b", "b>c", "a>c", "c=a")).circles


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1]), max_size=12))
def test_circles_as_brute_force_finds_them(pairs):
    comparisons = told(*(f"{i}>{j}" for i, j in pairs))
    more = {(i, j) for i, j in pairs if pairs.count((i, j)) > pairs.count((j, i))}
    not_less = {(i, j) for i, j in pairs if pairs.count((i, j)) >= pairs.count((j, i))}

    def is_circle(path):
        steps = list(zip(path, (*path[1:], path[0]), strict=True))
        return all(step in not_less for step in steps) and any(step in more for step in steps)

    shortest = next(
        (size for size in range(3, 7) for path in itertools.permutations(range(6), size) if is_circle(path)),
        None,
    )
    circles = find_conflicts("heat", comparisons).circles
    assert min(map(len, circles), default=None) == shortest
    for circle in circles:
        assert is_circle([int(name) for name in circle])


def test_a_circle_may_pass_through_a_pair_told_both_ways():
    found = find_conflicts("heat", told("a>b", "b>a", "b>c", "c>a"))
    assert found.divided == (DividedPair("a", "b", 1, 1),)
    assert found.circles == (("a", "b", "c"),)
    assert not find_conflicts("heat", told("a>b", "b>a", "b>c", "c>b")).circles


def test_comparisons_against_known_values():
    known = {"a": 8.6, "b": 10.7, "c": 1.0}
    found = find_conflicts("price", told("a>b", "a>b", "b>a", "b>c", "c>d", "c=a", kind="price"), known)
    assert found.known == (AgainstKnown("a", "b", 2, 8.6, 10.7),)


# ---- ordered kinds ---------------------------------------------------------------------------------------------------


def ordered(parents, labels=("mild", "medium", "hot")):
    return replace(Kind.from_parents("heat", labels, parents), ordered=True)


def test_an_unknown_label_of_an_ordered_kind_is_the_nearest():
    kind = ordered([2, 0, -1, 1, -1, -1])
    votes = told(*["e>a"] * 6, *["e>d"] * 6, *["a>c"] * 9, *["c>b"] * 9, *["c=d"] * 9)
    found = fit_order(kind, "abcdef", votes)
    assert found.filled == {"c": "medium", "e": "hot"}
    assert found.kind.parents.tolist() == [2, 0, 1, 1, 2, -1]
    assert found.kind.ordered
    assert found.doubted == ()


def test_a_label_that_comparisons_contradict_is_reported_and_stays():
    kind = ordered([2, 0, 1, 0])
    found = fit_order(kind, "abcd", told(*["d>a"] * 8, *["d>b"] * 8, *["d>c"] * 8, "a>c", "c>b"))
    assert found.doubted == (DoubtedLabel("d", "mild", "hot"),)
    assert found.kind == kind
    assert fit_order(kind, "abcd", told("d>a")).doubted == ()  # one slip says little
    assert fit_order(kind, "abcd", told(*["d>a"] * 5)).doubted == ()  # which of the two is wrong?


def test_without_any_label_there_is_an_order_and_nothing_is_filled():
    kind = ordered([-1, -1, -1])
    found = fit_order(kind, "abc", told("a>b", "b>c"))
    assert (found.filled, found.steps, found.kind) == ({}, None, kind)
    assert np.argsort(-found.fit.number.values).tolist() == [0, 1, 2]


def test_rows_with_several_labels_stay():
    matrix = np.array([[0, 0, 1.0], [0.5, 0.5, 0], [np.nan] * 3, [1.0, 0, 0]])
    matrix[2] = 0
    kind = replace(Kind.from_matrix("heat", ("mild", "medium", "hot"), matrix), ordered=True)
    found = fit_order(kind, "abcd", told(*["c>a"] * 9))
    assert found.kind.matrix()[[0, 1, 3]].tolist() == matrix[[0, 1, 3]].tolist()
    assert found.kind.matrix()[2].tolist() == [0, 0, 1]
