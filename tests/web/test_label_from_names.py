"""Labels that do not exist yet, suggested from the names of classes, in the page."""

import pytest
from label_hands import enter, focused_class, press, saved, wait_until
from label_server import serving, table_session
from playwright.sync_api import expect

DISHES = ["mapo tofu", "kung pao chicken", "shumai", "beef chow fun"]
PLACES = ["Lei Garden", "Chef Yu", "Golden Wok"]
NAMES = [f"{dish} @ {place}" for dish in DISHES for place in PLACES]


@pytest.fixture
def menu(tmp_path):
    rows = [[name, "", "Lei Garden" if name == NAMES[0] else ""] for name in NAMES]
    table = table_session(tmp_path, ["fine", "dish", "restaurant"], [*rows, ["mapo tofu @ home", "mapo tofu", ""]])
    with table as session, serving(session) as server:
        yield session.store, server


def dishes(store):
    return [store.cell(name, "dish").value for name in NAMES]


def test_a_new_label_is_suggested_accepted_and_undone(menu, page):
    store, server = menu
    enter(page, server, place="#class=" + NAMES[0])
    press(page, "1", "ArrowRight")
    expect(page.locator("h1")).to_have_text(NAMES[1])
    press(page, "1")  # two of mapo tofu, and with the one at home there are three
    saved(page)
    page.goto(f"{server.url}/#class={NAMES[3]}")
    page.wait_for_selector('.kind.focus .option.suggested:has-text("kung pao chicken")')
    expect(page.locator(".suggestion")).to_contain_text("new label")
    expect(page.locator(".suggestion")).to_contain_text("what stands before '@', as in ")
    press(page, "s")
    chosen = page.locator(".kind.focus .option[aria-pressed=true]")
    expect(chosen).to_have_attribute("title", "kung pao chicken")
    saved(page)
    wait_until(page, lambda: store.cell(NAMES[3], "dish").value == "kung pao chicken")
    assert "kung pao chicken" in store.kinds()[0].labels
    press(page, "u")
    wait_until(page, lambda: store.kinds()[0].labels == ("mapo tofu",))
    assert store.cell(NAMES[3], "dish").value is None
    expect(chosen).to_have_count(0)


def test_the_grid_learns_while_it_is_swept(menu, page):
    store, server = menu
    enter(page, server, place="#grid=dish")
    press(page, "1", "1", "1")
    saved(page)
    page.wait_for_selector(f'[data-fine="{NAMES[3]}"] .option.suggested:has-text("kung pao chicken")')
    assert focused_class(page) == NAMES[3]
    press(page, *"sss")  # the first adds the label, the others choose it
    wait_until(page, lambda: dishes(store)[3:6] == ["kung pao chicken"] * 3)
    wait_until(page, lambda: focused_class(page) == NAMES[6])
    press(page, "s")
    wait_until(page, lambda: dishes(store)[6] == "shumai")
    assert store.kinds()[0].labels == ("mapo tofu", "kung pao chicken", "shumai")


def test_new_labels_are_accepted_by_touch(menu, phone):
    store, server = menu
    for name in NAMES[:2]:
        store.decide(name, "dish", "mapo tofu", person="Bo", edit_id=f"edit-{name}", seen=0)
    enter(phone, server, place="#class=" + NAMES[3])
    phone.locator('[data-kind=dish] .option.suggested:has-text("kung pao chicken")').tap()
    wait_until(phone, lambda: store.cell(NAMES[3], "dish").value == "kung pao chicken")


def test_another_label_is_added_by_touch(menu, phone):
    store, server = menu
    enter(phone, server, place="#class=" + NAMES[3])
    phone.get_by_role("button", name="another …").tap()
    phone.get_by_label("Name of the label").fill("chicken")
    phone.get_by_role("option", name="Add “chicken” to dish").tap()
    wait_until(phone, lambda: store.cell(NAMES[3], "dish").value == "chicken")


def test_all_of_a_kind_are_accepted_at_once_and_undone_at_once(menu, page):
    store, server = menu
    for name in NAMES[:2]:
        store.decide(name, "dish", "mapo tofu", person="Bo", edit_id=f"edit-{name}", seen=0)
    enter(page, server, place="#grid=dish")
    press(page, "Shift+S")
    page.wait_for_selector(".suggestion-line .mark")
    page.get_by_role("button", name="Accept 10 suggestions").click()
    wait_until(page, lambda: dishes(store) == [name.split(" @ ")[0] for name in NAMES])
    saved(page)
    press(page, "u")
    wait_until(page, lambda: dishes(store)[2:] == [None] * 10)
    assert store.kinds()[0].labels == ("mapo tofu",)
