"""What a person leaves and comes back to: conflicts over a reload, the view before, a class in the grid, no kinds."""

import pytest
from label_hands import SHUMAI, TOFU, blind, enter, focused_class, press, saved, without
from label_server import serving
from playwright.sync_api import expect

from finegraph.labelling import AddKind, RenameFine
from finegraph.workflows.label import open_session


def waiting(page, count=1):
    """Wait until the page says that so many things wait for the person."""
    expect(page.locator("#state")).to_have_text(f"Needs attention ({count})")


def test_a_conflict_that_nobody_has_chosen_in_outlives_a_reload(session, server, page, faults):
    blind(page)
    enter(page, server)
    session.store.decide(TOFU, "dish", "shumai", person="Bo", edit_id="before ann", seen=0)
    press(page, "2")
    page.wait_for_selector(".kind .conflict")
    waiting(page)
    page.reload()
    page.wait_for_selector(".kind .conflict")
    waiting(page)
    sides = page.locator(".kind .conflict .side strong")
    assert sides.all_inner_texts() == ["kung pao chicken", "shumai"]
    page.get_by_text("Keep mine").click()
    saved(page)
    assert session.store.cell(TOFU, "dish").votes == {"Ann": "kung pao chicken", "Bo": "shumai"}
    assert session.store.cell(TOFU, "dish").value == "kung pao chicken"
    page.reload()
    page.wait_for_selector(".kind.focus")
    saved(page)
    expect(page.locator(".conflict")).to_have_count(0)
    without(faults, "409")


def test_a_conflict_of_a_photo_waits_until_somebody_chooses(session, server, page, faults):
    blind(page)
    enter(page, server)
    key = session.photos(TOFU)[0].key
    session.store.label_photo(key, "dish", "shumai", person="Bo", edit_id="before ann", seen=0)
    press(page, "p", "2")
    page.wait_for_selector("dialog .conflict")
    press(page, "Escape")
    page.wait_for_selector("dialog", state="detached")
    waiting(page)
    page.reload()
    waiting(page)
    page.locator("#state").click()
    page.get_by_text("Keep mine").click()
    page.wait_for_selector("dialog", state="detached")
    saved(page)
    assert session.store.photo_cells([key])[key]["dish"].value == "kung pao chicken"
    without(faults, "409")


def test_labels_of_a_photo_are_shown_as_chosen_while_they_are_for_it(session, server, page):
    enter(page, server)
    press(page, *["ArrowDown"] * 4, "p", "1")
    pressed = page.locator(".kind.focus .option[aria-pressed=true]")
    expect(pressed).to_have_count(1)
    expect(pressed).to_contain_text("no")
    expect(page.locator(".kind.focus")).to_be_in_viewport()
    press(page, "Escape")
    expect(pressed).to_contain_text("yes")
    saved(page)


def test_a_click_in_the_grid_leaves_one_row_in_focus(server, page):
    enter(page, server, place="#/grid/spicy")
    page.locator(".grid-row").nth(4).locator(".option").first.click()
    saved(page)
    expect(page.locator(".grid-row.focus")).to_have_count(1)
    expect(page.locator(".grid-row").nth(4)).to_have_class("grid-row focus")
    press(page, "ArrowDown")
    expect(page.locator(".grid-row.focus")).to_have_count(1)


def test_the_grid_opens_at_the_class_that_was_open(server, page):
    enter(page, server, place=f"#/class/{SHUMAI}")
    press(page, "g")
    page.wait_for_selector(f'.grid-row.focus[data-fine="{SHUMAI}"]')
    press(page, "ArrowDown")
    after = focused_class(page)
    press(page, "g")
    expect(page.locator("h1")).to_have_text(after)


def test_back_goes_to_the_view_before(server, page):
    enter(page, server, place=f"#/class/{SHUMAI}")
    press(page, "Shift+G")
    page.wait_for_selector(".team-view table")
    page.go_back()
    expect(page.locator("h1")).to_have_text(SHUMAI)
    page.wait_for_selector(".kind.focus")
    press(page, "ArrowRight")  # another class of the same view is no step
    expect(page.locator("h1")).not_to_have_text(SHUMAI)
    press(page, "g")
    page.wait_for_selector(".grid-row.focus")
    page.go_back()
    page.wait_for_selector(".kind.focus")
    expect(page.locator("h1")).not_to_have_text(SHUMAI)


def test_escape_leaves_a_key_as_it_was(server, page):
    enter(page, server)
    press(page, "?")
    page.locator("tr[data-action=clear] button").click()
    press(page, "Control+a", "Escape")
    expect(page.locator("tr[data-action=clear] button")).to_have_text("Backspace")


def test_classes_without_any_kind_can_be_begun_with(tmp_path, page):
    (tmp_path / "menu.csv").write_text("fine\na\nb\n")
    with open_session(str(tmp_path / "menu.csv")) as session, serving(session) as server:
        page.goto(server.url)
        page.get_by_label("Your name").fill("Ann")
        press(page, "Enter")
        expect(page.locator("h1")).to_have_text("a")
        for view in ("class", "grid"):
            press(page, "1", "ArrowDown", "Backspace", "s", "r", "h", "=", "Shift+S", "Enter")
            expect(page.locator(".toast").last).to_contain_text("There are no kinds yet")
            if view == "class":
                press(page, "g")
                expect(page.locator(".grid-row")).to_have_count(2)
        press(page, "m")
        page.wait_for_selector('dialog[aria-label="Names"]')
        saved(page)
        assert session.store.version == 1
        press(page, "Escape")
        page.wait_for_selector("dialog", state="detached")
        press(page, "g")
        expect(page.locator(".begin")).to_contain_text("What do you want to record about each class?")
        page.get_by_role("button", name="Add a kind").click()
        page.get_by_label("Name of the new kind").fill("dish")
        page.get_by_label("Its labels, separated by commas").fill("soup, rice")
        press(page, "Enter")
        page.get_by_role("button", name="Make this change").click()
        expect(page.locator(".kind.focus")).to_have_attribute("data-kind", "dish")
        press(page, "2")
        saved(page)
        assert session.store.cell("a", "dish").value == "rice"
        page.goto("about:blank")  # before its server goes


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_no_window_is_wider_than_what_it_shows(session, server, page, size):
    long = "a very long name of a class that says all that is on the plate " * 3
    page.set_viewport_size({"width": size[0], "height": size[1]})
    store = session.store
    store.decide(TOFU, "dish", "shumai", person="Bo with a long name", edit_id="first one", seen=0)
    store.apply(RenameFine(name=TOFU, to=long.strip()), person="Bo", edit_id="rename it")
    store.apply(AddKind(name=f"kind of {long}".strip(), labels=(long.strip(), "b")), person="Bo", edit_id="new kind")
    enter(page, server)
    for key, title in (("Shift+M", "Files"), ("m", "Names")):
        press(page, key)
        page.wait_for_selector(f'dialog[aria-label="{title}"]')
        page.wait_for_timeout(300)  # the lists of the window are loaded after it is open
        wide = page.locator("dialog").evaluate("(window) => window.scrollWidth - window.clientWidth")
        assert wide <= 0, f"{title} is {wide} pixels too wide"
        press(page, "Escape")
        page.wait_for_selector("dialog", state="detached")
