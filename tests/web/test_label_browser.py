"""The labelling page in a real browser: by keyboard, with several people, without a server, with hostile names."""

import json
import re

import pytest
from label_server import menu_session, photo_folder, serving
from playwright.sync_api import expect

from finegraph.graph.samples import sample_menu

TOFU = "mapo tofu @ Chef Yu"
SHUMAI = "shumai @ Lei Garden"


@pytest.fixture
def session(tmp_path):
    photos = photo_folder(tmp_path / "photos", [TOFU, SHUMAI])
    with menu_session(tmp_path, data=str(photos)) as made:
        yield made


# In every test the server comes before the pages, so that it ends after them: a page asks again and again.
@pytest.fixture
def server(session):
    with serving(session) as running:
        yield running


def enter(page, server, person="Ann", place=""):
    """Open the page as a person, who types their name as asked."""
    page.goto(f"{server.url}/{place}")
    page.get_by_label("Your name").fill(person)
    page.keyboard.press("Enter")
    page.wait_for_selector(".kind.focus, .grid-row.focus")
    return page


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def saved(page):
    page.wait_for_selector('#state[data-state="saved"]')


def focused_kind(page):
    return page.locator(".kind.focus").get_attribute("data-kind")


def cell(session, kind, fine=TOFU):
    return session.store.cell(fine, kind)


# ---- the keyboard ----------------------------------------------------------------------------------------------------


def test_a_whole_run_by_keyboard(session, server, page):
    enter(page, server)
    assert page.locator("h1").inner_text() == TOFU
    press(page, "ArrowDown", "2")  # restaurant: Lei Garden
    press(page, "ArrowDown", "4")  # ingredient: chicken too
    press(page, "ArrowDown", "Shift+Digit3")  # served: or in a basket
    press(page, "ArrowDown", "1", "Enter")  # spicy: no, then the next class
    expect(page.locator("h1")).to_have_text("mapo tofu @ Lei Garden")
    saved(page)
    assert cell(session, "restaurant").value == "Lei Garden"
    assert cell(session, "ingredient").value == {"all_of": ["tofu", "pork", "chili", "chicken"]}
    assert set(cell(session, "served").value["one_of"]) == {"basket", "bowl", "plate"}
    assert cell(session, "spicy").value == "no"
    assert {cell(session, kind).by for kind in ("restaurant", "ingredient", "served", "spicy")} == {"Ann"}


def test_enter_makes_what_is_shown_a_decision_of_the_person(session, server, page):
    enter(page, server)
    press(page, "Enter")
    saved(page)
    assert focused_kind(page) == "restaurant"
    assert cell(session, "dish").votes == {"Ann": "mapo tofu"}


def test_undo_goes_back_step_by_step(session, server, page):
    enter(page, server)
    press(page, "ArrowDown", "2", "3", "Backspace")
    saved(page)
    assert cell(session, "restaurant").value is None
    for expected in ("Shanghai Dumpling", "Lei Garden", "Chef Yu"):
        press(page, "u")
        expect(page.locator(".kind.focus .option[aria-pressed=true]")).to_have_text(re.compile(expected))
        saved(page)
    assert cell(session, "restaurant").value == "Chef Yu"


def test_search_finds_classes_and_the_keys_work_on(server, page):
    enter(page, server)
    press(page, "/")
    page.keyboard.type("chow FUN")
    expect(page.locator("h1")).to_have_text("beef chow fun @ Lei Garden")
    press(page, "Enter", "ArrowDown")
    assert focused_kind(page) == "restaurant"
    assert page.locator(".list-row").count() == 1


def test_labels_are_found_and_added_by_name(session, server, page):
    enter(page, server)
    press(page, "=")
    page.keyboard.type("shum")
    press(page, "Enter")
    saved(page)
    assert cell(session, "dish").value == "shumai"
    press(page, "=")
    page.keyboard.type("new dish")
    press(page, "Enter")
    page.wait_for_selector('.kind.focus .option[title="new dish"]')
    assert "new dish" in session.store.kinds()[0].labels


def test_keys_can_be_changed_and_stay_changed(session, server, page):
    enter(page, server)
    press(page, "?")
    page.locator('tr[data-action="next"] button').click()
    press(page, "j", "Escape", "j")
    assert focused_kind(page) == "restaurant"
    page.reload()
    page.wait_for_selector(".kind.focus")
    press(page, "j", "2")
    saved(page)
    assert cell(session, "restaurant").value == "Lei Garden"


def test_a_note_is_saved(session, server, page):
    enter(page, server)
    press(page, "n")
    page.keyboard.type("no pork on Mondays")
    press(page, "Enter", "ArrowDown")
    saved(page)
    assert session.store.one_class(TOFU).note == "no pork on Mondays"
    assert focused_kind(page) == "restaurant"


def test_single_photos_have_their_own_labels(session, server, page):
    enter(page, server)
    press(page, *["ArrowDown"] * 4, "p", "ArrowRight", "1")
    page.wait_for_selector(".thumb.focus .thumb-label")
    saved(page)
    key = session.photos(TOFU)[1].key
    assert session.store.photo_cells([key])[key]["spicy"].value == "no"
    assert cell(session, "spicy").value == "yes"
    press(page, "Escape", "1")
    saved(page)
    assert cell(session, "spicy").value == "no"


# ---- the grid --------------------------------------------------------------------------------------------------------


def test_the_grid_is_swept_by_digits(session, server, page):
    enter(page, server, place="#/grid/spicy")
    press(page, *"1212")
    saved(page)
    values = [cell(session, "spicy", fine).value for fine in sample_menu().fine[:4]]
    assert values == ["no", "yes", "no", "yes"]
    press(page, "u")
    page.wait_for_selector('.grid-row.focus[data-fine="kung pao chicken @ Chef Yu"]')


def test_the_grid_filters_and_searches(server, page):
    enter(page, server, place="#/grid/spicy")
    page.get_by_label("Filter").last.select_option("unknown")
    expect(page.locator(".grid-row")).to_have_count(1)
    assert page.locator(".grid-name").inner_text() == "kung pao chicken @ Shanghai Dumpling"
    page.get_by_label("Filter").last.select_option("all")
    press(page, "/")
    page.keyboard.type("shumai")
    expect(page.locator(".grid-row")).to_have_count(2)


@pytest.mark.slow
def test_a_long_list_holds_only_the_rows_in_sight(tmp_path, page):
    from finegraph.workflows.label import open_session

    rows = "\n".join(f"dish number {number},{'yes' if number % 2 else 'no'}" for number in range(3000))
    (tmp_path / "many.csv").write_text(f"fine,spicy\n{rows}\n", encoding="utf-8")
    with open_session(str(tmp_path / "many.csv")) as session, serving(session) as server:
        enter(page, server, place="#/grid/spicy")
        page.locator(".grid-rows").evaluate("element => element.scrollTop = element.scrollHeight")
        page.wait_for_selector('[data-fine="dish number 2999"]')
        assert page.locator(".grid-row").count() < 60
        page.goto("about:blank")


# ---- several people --------------------------------------------------------------------------------------------------


def blind(page):
    """Keep what others do from a page, as if it had not asked yet."""
    nothing = json.dumps({"version": 0, "edits": [], "cells": [], "more": False})
    page.route("**/api/changes*", lambda route: route.fulfill(body=nothing, content_type="application/json"))


def test_two_people_at_once_get_both_values(session, server, new_page, faults):
    ann, bo = new_page(), new_page()
    blind(bo)
    enter(ann, server, "Ann")
    enter(bo, server, "Bo")
    press(ann, "ArrowDown", "2")
    saved(ann)
    press(bo, "ArrowDown", "3")
    bo.wait_for_selector(".conflict")
    text = bo.locator(".conflict").inner_text()
    assert "Ann" in text
    assert "Shanghai Dumpling" in text
    assert "Lei Garden" in text
    assert cell(session, "restaurant").value == "Lei Garden"
    faults.lines[:] = [line for line in faults.lines if "409" not in line]
    bo.get_by_role("button", name="Keep mine").click()
    bo.wait_for_selector(".conflict", state="detached")
    saved(bo)
    assert cell(session, "restaurant").value == "Shanghai Dumpling"
    assert cell(session, "restaurant").disagreement
    ann.wait_for_selector(".kind.focus.disagreement")
    press(ann, "r")
    ann.wait_for_selector(".kind.focus.disagreement", state="detached")
    assert cell(session, "restaurant").resolved


@pytest.mark.slow
def test_taking_theirs_leaves_their_value(session, server, new_page, faults):
    ann, bo = new_page(), new_page()
    blind(bo)
    enter(ann, server, "Ann")
    enter(bo, server, "Bo")
    press(ann, "ArrowDown", "2")
    saved(ann)
    press(bo, "ArrowDown", "3")
    bo.wait_for_selector(".conflict")
    press(bo, "Enter")
    bo.wait_for_selector('.kind.focus .option[title="Lei Garden"][aria-pressed=true]')
    assert cell(session, "restaurant").value == "Lei Garden"
    assert cell(session, "restaurant").votes == {"Ann": "Lei Garden"}
    faults.lines[:] = [line for line in faults.lines if "409" not in line]


def test_what_others_do_appears(server, new_page):
    ann, bo = new_page(), new_page()
    enter(ann, server, "Ann", place="#/grid/restaurant")
    enter(bo, server, "Bo")
    press(ann, "2")
    bo.wait_for_selector('[data-kind=restaurant] .option[title="Lei Garden"][aria-pressed=true]')


# ---- without a server ------------------------------------------------------------------------------------------------


def test_edits_wait_for_the_server_and_are_saved_once(session, server, page, faults):
    enter(page, server)
    server.stop()
    press(page, "ArrowDown", "2")
    page.wait_for_selector('#state[data-state="not saved"]')
    press(page, "3")
    server.start()
    saved(page)
    assert cell(session, "restaurant").value == "Shanghai Dumpling"
    assert [edit.after for edit in session.store.history(fine=TOFU, kind="restaurant")] == [
        "Shanghai Dumpling",
        "Lei Garden",
    ]
    faults.lines[:] = [line for line in faults.lines if "ERR_CONNECTION" not in line]


def test_an_answer_that_was_lost_does_not_make_an_edit_happen_twice(session, server, page, faults):
    enter(page, server)
    lost = []

    def lose(route):
        if not lost:
            lost.append(route.request.post_data_json["edit"])
            route.fetch()  # the server does it, the page never hears of it
            route.abort()
        else:
            lost.append(route.request.post_data_json["edit"])
            route.continue_()

    page.route("**/api/decide", lose)
    press(page, "ArrowDown", "2")
    page.wait_for_selector('#state[data-state="not saved"]')
    saved(page)
    assert len(lost) == 2
    assert lost[0] == lost[1]
    assert len(session.store.history(fine=TOFU, kind="restaurant")) == 1
    faults.lines[:] = [line for line in faults.lines if "ERR_FAILED" not in line]


@pytest.mark.slow
def test_what_is_not_saved_survives_a_reload(session, server, page, faults):
    enter(page, server)
    page.route("**/api/decide", lambda route: route.abort())
    press(page, "ArrowDown", "2")
    page.wait_for_selector('#state[data-state="not saved"]')
    page.unroute("**/api/decide")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.wait_for_selector(".kind.focus")
    saved(page)
    page.wait_for_selector('[data-kind=restaurant] .option[title="Lei Garden"][aria-pressed=true]')
    assert cell(session, "restaurant").value == "Lei Garden"
    faults.lines[:] = [line for line in faults.lines if "ERR_FAILED" not in line]


# ---- names and suggestions -------------------------------------------------------------------------------------------


def test_a_merge_is_previewed_then_made_then_undone(session, server, page):
    enter(page, server)
    press(page, *["ArrowDown"] * 3, "m")
    page.get_by_role("tab", name="Merge labels").click()
    page.get_by_label("plate").check()
    page.get_by_label("bowl").check()
    page.get_by_label("Name of the one label").fill("dish ware")
    press(page, "Enter")
    page.wait_for_selector(".preview table")
    assert TOFU in page.locator(".preview").inner_text()
    assert "plate" in session.store.kinds()[3].labels
    page.get_by_role("button", name="Make this change").click()
    page.wait_for_selector('[data-kind=served] .option[title="dish ware"]')
    assert "plate" not in session.store.kinds()[3].labels
    press(page, "u")
    page.wait_for_selector('[data-kind=served] .option[title="plate"]')
    assert session.store.graph() == sample_menu()


@pytest.mark.slow
def test_a_label_is_split_between_its_classes(session, server, page):
    enter(page, server)
    press(page, *["ArrowDown"] * 3, "m")
    page.get_by_role("tab", name="Split a label").click()
    page.get_by_label("Label", exact=True).select_option("basket")
    page.wait_for_selector(f".parts label:has-text('{SHUMAI}')")
    page.get_by_label("New names").fill("small basket")
    page.locator(".parts label", has_text=SHUMAI).locator("select").select_option("small basket")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Make this change").click()
    page.wait_for_selector('[data-kind=served] .option[title="small basket"]')
    assert cell(session, "served", SHUMAI).value == "small basket"


def test_many_suggestions_are_one_action_and_one_undo(tmp_path, page):
    from finegraph.workflows.label import open_session

    lines = [
        "fine,tofu",
        *(f"tofu dish {n},yes" for n in range(6)),
        *(f"new tofu dish {n}," for n in range(4)),
        "beef,no",
    ]
    (tmp_path / "dishes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_session(str(tmp_path / "dishes.csv")) as session, serving(session) as server:
        enter(page, server, place="#/grid/tofu")
        press(page, "Shift+S")
        accept = page.get_by_role("button", name="Accept 4 suggestions")
        accept.wait_for()
        press(page, "Enter")
        saved(page)
        new = [f"new tofu dish {n}" for n in range(4)]
        page.wait_for_selector('[data-fine="new tofu dish 3"] .option[title=yes][aria-pressed=true]')
        assert {session.store.cell(fine, "tofu").value for fine in new} == {"yes"}
        press(page, "u")
        page.wait_for_selector('[data-fine="new tofu dish 3"] .option[title=yes][aria-pressed=false]')
        assert {session.store.cell(fine, "tofu").value for fine in new} == {None}
        page.goto("about:blank")


def test_the_team_page_shows_progress_agreement_and_actions(session, server, page):
    for person, value in (("Ann", "yes"), ("Bo", "no")):
        session.store.decide(TOFU, "spicy", value, person=person, edit_id=f"edit-{person}", seen=None)
    enter(page, server, "Cy")
    page.get_by_role("tab", name="Team").click()
    page.wait_for_selector(".team-view table")
    text = page.locator(".team-view").inner_text()
    assert "Ann and Bo" in text
    assert "kappa" in text
    page.locator(".team-view tr", has_text="spicy").first.get_by_role("button", name="1").last.click()
    page.wait_for_selector(".grid-row.disagreement")


def test_a_phone_labels_by_touch(session, server, phone):
    enter(phone, server)
    phone.locator('[data-kind=restaurant] .option[title="Lei Garden"]').tap()
    saved(phone)
    assert cell(session, "restaurant").value == "Lei Garden"
    phone.get_by_role("button", name="Undo").tap()
    phone.wait_for_selector('[data-kind=restaurant] .option[title="Chef Yu"][aria-pressed=true]')
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    for view in ("Grid", "Team"):
        phone.get_by_role("tab", name=view, exact=True).tap()
        phone.wait_for_timeout(200)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
