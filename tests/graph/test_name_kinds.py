"""Kinds that names suggest."""

import pytest

from finegraph.graph.name_kinds import kinds_from_names


def found(*names):
    return {one.name: one for one in kinds_from_names(names)}


def test_parts_between_signs():
    kinds = found("Mapo tofu @ Lei Garden", "mapo tofu @ Jade", "Kung pao @ Jade", "Kung pao @ Lei Garden", "tea")
    assert kinds["before @"].kinds[0].labels == ("Mapo tofu", "Kung pao")
    assert kinds["before @"].kinds[0].parents.tolist() == [0, 0, 1, 1, -1]
    assert kinds["after @"].kinds[0].labels == ("Lei Garden", "Jade")


def test_years_are_numbers():
    kinds = found("2012 BMW M3", "2012 Audi A4", "2008 BMW X5", "2008 Audi TT")
    assert kinds["year"].number.values.tolist() == [2012, 2012, 2008, 2008]
    assert kinds["first word"].kinds[0].labels == ("bmw", "audi")


def test_last_words_without_case_and_plural():
    kinds = found("Royal-Gala-Apple", "Pink-Lady-Apples", "Anjou-Pear", "Conference-Pear", "Banana")
    last = kinds["last word"].kinds[0]
    assert last.labels == ("apple", "pear")
    assert last.parents.tolist() == [0, 0, 1, 1, -1]


def test_words_that_are_labels_of_another_kind_are_not_said_twice():
    names = ("big red apple", "old red apple", "big green pepper", "old green pepper", "red juice", "green juice")
    kinds = found(*names)
    assert kinds["last word"].kinds[0].labels == ("apple", "pepper", "juice")
    assert {kind.name for kind in kinds["word"].kinds} == {"word: red", "word: green"}


def test_shared_words_become_a_group_of_binary_kinds():
    kinds = found("oat milk one", "whole milk two", "sour cream three", "ice cream four", "rice five", "salt six")
    words = {kind.name: kind.parents.tolist() for kind in kinds["word"].kinds}
    assert words["word: milk"] == [1, 1, 0, 0, 0, 0]
    assert words["word: cream"] == [0, 0, 1, 1, 0, 0]


def test_any_script():
    kinds = found("麻婆豆腐 @ 北京", "麻婆豆腐 @ 上海", "炒饭 @ 北京", "炒饭 @ 上海")
    assert kinds["after @"].kinds[0].labels == ("北京", "上海")
    kinds = found("麻婆豆腐 店甲", "麻婆豆腐 店乙", "担担面 店甲", "担担面 店乙")
    assert kinds["first word"].kinds[0].labels == ("麻婆豆腐", "担担面")


@pytest.mark.parametrize("names", [(), ("one",), ("a", "b", "c"), ("@", "@@", "@@@")])
def test_names_that_say_nothing(names):
    assert kinds_from_names(names) == []


def test_what_each_fine_label_has_for_itself_is_no_kind():
    assert "before @" not in found("a @ X", "b @ X", "c @ Y", "d @ Y")


def test_words_inside_parts_are_suggested_too():
    dishes = ("clay pot tofu with egg", "steamed tofu with pea", "clay pot beef with pea", "fried beef with egg")
    names = [f"{dish} @ {place}" for dish in dishes for place in ("Jade Lantern", "Harbour Moon")]
    by_name = {one.name: one for one in kinds_from_names(names)}
    assert {"before @", "after @", "word"} == set(by_name)
    assert {kind.name for kind in by_name["word"].kinds} == {
        "word: clay pot",
        "word: tofu",
        "word: beef",
        "word: egg",
        "word: pea",
    }
