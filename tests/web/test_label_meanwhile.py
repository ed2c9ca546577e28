"""What others do while a person types: nothing that was decided or written is lost, or taken for another class."""

import itertools
import re

import pytest
from label_hands import TOFU, Held, blind, enter, focused_class, focused_kind, press, saved, wait_until, without
from label_server import serving
from playwright.sync_api import expect

from finegraph.graph.sample_menu import sample_menu
from finegraph.labelling import (
    AddFine,
    AddLabel,
    Proposal,
    RemoveFine,
    RemoveLabel,
    RenameFine,
    RenameKind,
    RenameLabel,
)
from finegraph.workflows.label import open_session

MENU = sample_menu().fine


def cell(session, kind, fine=TOFU):
    return session.store.cell(fine, kind)


NUMBERS = itertools.count()


def change(session, what):
    session.store.apply(what, person="Bo", edit_id=f"edit-names-{next(NUMBERS)}")


def decided_by(session, person, kind, value, fine=TOFU):
    seen = cell(session, kind, fine).version
    session.store.decide(fine, kind, value, person=person, edit_id=f"edit-{person}-{kind}", seen=seen)


def suggest(session, kind, value, fine=TOFU):
    session.store.put_suggestions("model", [Proposal(fine, kind, value, "model", 0.95, "seen on the photos")])


# ---- names that change -----------------------------------------------------------------------------------------------


def test_a_label_chosen_while_names_change_leaves_the_others(session, server, page):
    enter(page, server)
    press(page, "ArrowDown", "ArrowDown")
    start, rows = Held(page, "**/api/start"), Held(page, "**/api/class?*")
    change(session, RenameLabel(kind="served", name="plate", to="flat plate"))
    start.wait()
    press(page, "4")  # chicken, beside what is there; the page still has the old names
    start.let_go()
    rows.wait()
    page.locator('.kind.focus .option[title="tofu"]').click()
    expect(page.locator(".toast")).to_have_text(re.compile("please choose again"))
    press(page, "3")  # takes chili out, as soon as the new names are shown
    wait_until(page, lambda: cell(session, "ingredient").version > 0)
    assert cell(session, "ingredient").value == {"all_of": ["tofu", "pork", "chili", "chicken"]}
    rows.let_go()
    page.wait_for_selector('[data-kind=served] .option[title="flat plate"]')
    expect(page.locator('.kind.focus .option[title="chili"]')).to_have_attribute("aria-pressed", "false")
    saved(page)
    assert cell(session, "ingredient").value == {"all_of": ["tofu", "pork", "chicken"]}


def test_a_label_that_was_just_renamed_is_not_taken_out(session, server, page):
    enter(page, server)
    press(page, "ArrowDown", "ArrowDown")
    start = Held(page, "**/api/start")
    change(session, RenameLabel(kind="ingredient", name="tofu", to="bean curd"))
    decided_by(session, "Bo", "ingredient", {"all_of": ["bean curd", "pork"]})
    start.wait()
    press(page, "4")
    page.wait_for_timeout(300)
    start.let_go()
    page.wait_for_selector('.kind.focus .option[title="bean curd"][aria-pressed=true]')
    saved(page)
    assert cell(session, "ingredient").value == {"all_of": ["bean curd", "pork", "chicken"]}


def test_the_grid_stays_at_its_class_when_somebody_adds_a_label(session, server, page):
    enter(page, server, place="#/grid/restaurant")
    press(page, *["ArrowDown"] * 5)
    rows = Held(page, "**/api/classes*")
    change(session, AddLabel(kind="served", name="tray"))
    rows.wait()
    press(page, "2", "3")  # typed before the rows are there again: for this class and the next
    rows.let_go()
    page.wait_for_selector(f'.grid-row.focus[data-fine="{MENU[7]}"]')
    saved(page)
    assert [cell(session, "restaurant", fine).votes for fine in MENU[:8]] == [
        *[{}] * 5,
        {"Ann": "Lei Garden"},
        {"Ann": "Shanghai Dumpling"},
        {},
    ]


@pytest.mark.parametrize("classes", [AddFine(name="a new dish"), RemoveFine(name=MENU[0]), RemoveFine(name=MENU[5])])
def test_the_grid_stays_at_its_class_when_classes_change(session, server, page, classes):
    enter(page, server, place="#/grid/restaurant")
    press(page, *["ArrowDown"] * 5)
    change(session, classes)
    expect(page.locator(".grid-tools .muted").first).to_have_text(
        "25 classes" if "new" in classes.name else "23 classes"
    )
    gone = classes.name == MENU[5]
    expect(page.locator(".grid-row.focus")).to_have_attribute("data-fine", MENU[6] if gone else MENU[5])


def test_a_kind_that_is_renamed_stays_open_in_the_grid(session, server, page):
    enter(page, server, place="#/grid/spicy")
    press(page, "ArrowDown")
    change(session, RenameKind(name="spicy", to="hot"))
    expect(page.locator(".tabs [aria-selected=true]")).to_have_text("hot")
    assert focused_class(page) == MENU[1]


def test_a_label_that_is_added_in_the_grid_is_chosen_for_its_class(session, server, page):
    enter(page, server, place="#/grid/restaurant")
    press(page, "ArrowDown", "ArrowDown", "=")
    page.keyboard.type("New Place")
    press(page, "Enter")
    page.wait_for_selector(f'[data-fine="{MENU[2]}"] .option[title="New Place"][aria-pressed=true]')
    saved(page)
    assert cell(session, "restaurant", MENU[2]).value == "New Place"
    assert cell(session, "restaurant", MENU[0]).value == "Chef Yu"
    assert focused_class(page) == MENU[3]


def test_the_open_class_stays_open_under_a_filter_when_classes_change(session, server, page):
    enter(page, server)
    page.get_by_label("Filter").first.select_option("unknown")
    expect(page.locator("h1")).not_to_have_text(TOFU)
    first = page.locator("h1").inner_text()
    kinds = {kind.name: kind for kind in session.store.kinds()}
    for name, one in session.store.one_class(first).cells.items():
        if one.value is None:
            decided_by(
                session, "Bo", name, kinds[name].labels[0] if kinds[name].mode == "one" else {"all_of": []}, first
            )
    change(session, AddFine(name="a new dish"))
    page.wait_for_selector(".list-row:has-text('a new dish')")
    expect(page.locator("h1")).to_have_text(first)
    change(session, RenameFine(name=first, to="another name"))
    expect(page.locator("h1")).to_have_text("another name")


def test_a_decision_that_waits_holds_under_new_names(session, server, page, faults):
    enter(page, server)
    page.route("**/api/decide", lambda route: route.abort())
    press(page, "ArrowDown", "2", "ArrowDown", "4")
    page.wait_for_selector('#state[data-state="not saved"]')
    change(session, RenameLabel(kind="restaurant", name="Lei Garden", to="Lei's"))
    change(session, AddLabel(kind="restaurant", name="Lei Garden"))  # another one under the old name
    change(session, RenameKind(name="ingredient", to="with"))
    change(session, RenameFine(name=TOFU, to="mapo"))
    page.unroute("**/api/decide")
    expect(page.locator("h1")).to_have_text("mapo")
    saved(page)
    assert session.store.cell("mapo", "restaurant").value == "Lei's"
    assert session.store.cell("mapo", "with").value == {"all_of": ["tofu", "pork", "chili", "chicken"]}
    without(faults, "ERR_FAILED")


def test_a_decision_that_was_refused_is_kept_until_it_is_looked_at(session, server, page, faults):
    change(session, AddLabel(kind="served", name="tray"))
    blind(page)
    enter(page, server)
    change(session, RemoveLabel(kind="served", name="tray"))
    press(page, *["ArrowDown"] * 3, "4")
    page.wait_for_selector('#state[data-state="open"]')
    page.reload()
    page.wait_for_selector(".kind.focus")
    page.locator('#state[data-state="open"]').click()
    told = page.locator("dialog .unresolved")
    expect(told).to_contain_text(TOFU)
    expect(told).to_contain_text("served: tray")
    page.get_by_role("button", name="Choose again").click()
    expect(page.locator(".kind.focus")).to_have_attribute("data-kind", "served")
    page.locator('.kind.focus .option[title="basket"]').click()
    saved(page)
    assert cell(session, "served").value == "basket"
    without(faults, "422")


# ---- notes -----------------------------------------------------------------------------------------------------------


def test_a_note_is_kept_when_its_class_is_renamed(session, server, page):
    enter(page, server)
    press(page, "n")
    page.keyboard.type("without")
    page.wait_for_selector('#state[data-state="writing"]')
    change(session, RenameFine(name=TOFU, to="mapo"))
    expect(page.locator("h1")).to_have_text("mapo")
    page.keyboard.type(" pork")
    press(page, "Enter")
    saved(page)
    assert session.store.one_class("mapo").note == "without pork"
    assert page.get_by_label("Note").input_value() == "without pork"


def test_a_note_that_is_refused_stays_in_its_field(session, server, page, faults):
    blind(page)
    enter(page, server)
    change(session, RemoveFine(name=TOFU))
    press(page, "n")
    page.keyboard.type("my text")
    press(page, "Enter")
    page.wait_for_selector(".note")
    page.locator('#state:not([data-state="saving"]):not([data-state="saved"])').wait_for()
    assert page.get_by_label("Note").input_value() == "my text"
    page.locator("#state").click()
    expect(page.get_by_label("Text that was not saved")).to_have_value("my text")
    without(faults, "422")


def test_a_note_that_is_being_written_survives_a_reload(session, server, page):
    enter(page, server)
    press(page, "n")
    page.keyboard.type("half a")
    page.reload()
    page.wait_for_selector(".kind.focus")
    saved(page)
    expect(page.get_by_label("Note")).to_have_value("half a")
    assert session.store.one_class(TOFU).note == "half a"
    assert len(session.store.history(fine=TOFU)) == 1


# ---- lists that get shorter ------------------------------------------------------------------------------------------


def sweep(page, key, times):
    """Press a key again and again, as fast as the page takes it."""
    code = f"Digit{key}"
    page.evaluate(
        """async ([key, code, times]) => {
            for (let time = 0; time < times; time++) {
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, code, bubbles: true }));
                await new Promise((resolve) => setTimeout(resolve, 10));
            }
        }""",
        [key, code, times],
    )


@pytest.mark.slow
def test_a_sweep_through_what_is_unknown_leaves_out_no_class(tmp_path, page):
    rows = "\n".join(f"dish {number}," for number in range(130))
    (tmp_path / "many.csv").write_text(f"fine,spicy\n{rows}\nhot,yes\nmild,no\n", encoding="utf-8")
    with open_session(str(tmp_path / "many.csv")) as session, serving(session) as server:
        enter(page, server, place="#/grid/spicy")
        page.get_by_label("Filter").last.select_option("unknown")
        expect(page.locator(".grid-tools .muted").first).to_have_text("130 classes")
        sweep(page, "1", 130)
        saved(page)
        assert session.store.classes(show="unknown").total == 0
        page.goto("about:blank")


# ---- conflicts -------------------------------------------------------------------------------------------------------


def test_enter_goes_on_from_a_conflict_and_chooses_nothing(session, server, page, faults):
    blind(page)
    enter(page, server)
    decided_by(session, "Bo", "restaurant", "Lei Garden")
    press(page, "ArrowDown", "3")
    page.wait_for_selector(".kind .conflict")
    press(page, "Enter")
    assert focused_kind(page) == "ingredient"
    expect(page.locator("[data-kind=restaurant] .conflict")).to_have_count(1)
    press(page, "ArrowRight")  # to another class: the conflict is not forgotten
    expect(page.locator("h1")).not_to_have_text(TOFU)
    page.locator('#state[data-state="open"]').click()
    page.get_by_role("button", name="Keep mine").click()
    page.wait_for_selector("dialog", state="detached")
    saved(page)
    assert cell(session, "restaurant").value == "Shanghai Dumpling"
    without(faults, "409")


def test_enter_goes_on_from_a_conflict_in_the_grid(session, server, page, faults):
    blind(page)
    enter(page, server, place="#/grid/restaurant")
    decided_by(session, "Bo", "restaurant", "Lei Garden")
    press(page, "3")
    page.wait_for_selector(".grid-row .conflict")
    press(page, "ArrowUp", "Enter")
    assert focused_class(page) == MENU[1]
    expect(page.locator(".grid-row .conflict")).to_have_count(1)
    press(page, "ArrowUp", "r")
    expect(page.locator(".grid-row .conflict")).to_have_count(0)
    saved(page)
    assert cell(session, "restaurant").votes == {"Bo": "Lei Garden"}
    without(faults, "409")


# ---- one's own actions in a row --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "value"), [(["s", "Enter"], "no"), (["s", "2"], "yes"), (["2", "s"], "no")])
def test_an_accepted_suggestion_is_no_conflict_with_what_follows(session, server, page, keys, value):
    suggest(session, "spicy", "no")
    enter(page, server, place=f"#/class/{TOFU}")
    press(page, *["ArrowDown"] * 4)
    page.wait_for_selector(".suggestion.contradicts")
    held = Held(page, re.compile("/api/(accept|decide)"))
    press(page, *keys)
    held.wait()
    held.let_go()
    saved(page)
    expect(page.locator(".conflict")).to_have_count(0)
    assert cell(session, "spicy").value == value
    assert cell(session, "spicy").votes == {"Ann": value}


def test_a_disagreement_is_settled_with_what_was_just_chosen(session, server, page):
    decided_by(session, "Bo", "restaurant", "Lei Garden")
    decided_by(session, "Cy", "restaurant", "Shanghai Dumpling")
    enter(page, server, place="#/grid/restaurant")
    page.wait_for_selector(".grid-row.focus.disagreement")
    held = Held(page, "**/api/decide")
    press(page, "1", "ArrowUp", "r")
    held.wait()
    held.let_go()
    page.wait_for_selector(f'[data-fine="{TOFU}"]:not(.disagreement) .option[title="Chef Yu"][aria-pressed=true]')
    saved(page)
    found = cell(session, "restaurant")
    assert (found.value, found.resolved) == ("Chef Yu", True)


def test_a_photo_can_be_labelled_right_after_an_undo(session, server, page):
    enter(page, server)
    press(page, *["ArrowDown"] * 4, "p", "1")
    page.wait_for_selector(".thumb.focus .thumb-label")
    saved(page)
    held = Held(page, "**/api/undoable*")
    press(page, "u", "2")
    held.wait()
    held.let_go()
    saved(page)
    key = session.photos(TOFU)[0].key
    assert session.store.photo_cells([key])[key]["spicy"].value == "yes"
