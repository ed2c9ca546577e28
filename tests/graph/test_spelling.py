import numpy as np
import pytest

from finegraph.graph.spelling import Suggestions, misspelt, near


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("noodle", "noodles"),  # one letter more
        ("nodles", "noodles"),  # one less
        ("noodlas", "noodles"),  # another one
        ("nooldes", "noodles"),  # two swapped
        ("kung poa", "kung pao"),  # two swapped, in a short word
        ("resteraunt", "restaurant"),  # other vowels
        ("mapo tofu", "mapotofu"),
        ("crème brûlée", "creme brulee"),
    ],
)
def test_near_names(one, other):
    assert near(one, other)
    assert near(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("noodles", "noodles"),
        ("noodles", "dumplings"),
        ("noodles", "oodle"),  # two letters less
        ("platter12", "platter13"),  # other digits
        ("type a soup", "type b soup"),  # a short word is another word
        ("beef", "beet"),
        ("plan ab", "plan ba"),
        ("北京烤鸭面条", "北京烤鸡面条"),  # one sign is a word
    ],
)
def test_names_that_are_not_near(one, other):
    assert not near(one, other)
    assert not near(other, one)


def test_only_a_name_that_occurs_once_can_be_misspelt_and_only_for_one_that_occurs_more_often():
    names = ["noodles", "noodels"]
    assert misspelt(names, np.array([5, 1])) == [(1, 0)]
    assert misspelt(names, np.array([1, 5])) == [(0, 1)]
    assert misspelt(names, np.array([5, 2])) == []
    assert misspelt(names, np.array([1, 1])) == []
    assert misspelt(names, np.array([1, 0])) == []
    assert misspelt([], np.array([], dtype=int)) == []


def test_of_several_near_names_the_most_frequent_is_meant():
    names = ["platter", "paltterx", "platterx"]
    assert misspelt(names, np.array([2, 3, 1])) == [(2, 1)]
    assert misspelt(names, np.array([3, 2, 1])) == [(2, 0)]


def test_hints_name_at_most_three_and_end_after_a_while():
    suggestions = Suggestions(most=3)
    names = {"noodles", "noodled", "noodle", "nodles", "beef"}
    hint = suggestions.hint("noodless", names)
    assert hint is not None
    assert hint.startswith("did you mean 'noodles' or")
    assert hint.count(" or ") == 2
    assert suggestions.hint("zzzzz", names) is None
    assert suggestions.hint("Beef", names) == "did you mean 'beef'?"
    assert suggestions.hint("Beef", names) is None
