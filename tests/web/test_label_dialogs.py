"""The windows of the labelling page, in a real browser: names, files, history, suggestions, and the list of actions."""

import httpx
import pytest
from label_hands import SHUMAI, TOFU, press, saved
from label_server import serving
from playwright.sync_api import expect

from finegraph.labelling import Proposal
from finegraph.workflows.label import open_session
from serving import until


def enter(page, server, place=""):
    """Open the page as Ann, whose name is kept already."""
    page.add_init_script('localStorage.setItem("finegraph.person", "Ann")')
    page.goto(f"{server.url}/{place}")
    page.wait_for_selector(".kind.focus, .grid-row.focus, .team-view table")
    return page


def decide(session, kind, value, fine=TOFU, person="Bo"):
    """A decision of somebody else."""
    seen = session.store.cell(fine, kind).version
    number = f"{person} {session.store.version}"
    return session.store.decide(fine, kind, value, person=person, edit_id=number, seen=seen)


def expect_refusals(faults):
    """Conflicts are answers that a test asks for; the browser logs them as errors."""
    assert any("409" in line for line in faults.lines)
    faults.lines[:] = [line for line in faults.lines if "409" not in line]


# ---- names -----------------------------------------------------------------------------------------------------------


def preview_of_a_merge(page, kind="served"):
    """Fill in the form that merges two labels of a kind, and look at what it would do."""
    press(page, "m")
    page.get_by_role("tab", name="Merge labels").click()
    page.locator("dialog select").select_option(kind)
    for label in ("bowl", "plate"):
        page.locator("dialog .checkboxes").get_by_label(label, exact=True).check()
    page.locator("dialog").get_by_label("Name of the one label").fill("dishware")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Make this change").wait_for()
    return page.locator("dialog .preview")


def test_a_change_whose_preview_is_old_shows_the_new_one_and_keeps_the_form(session, server, page, faults):
    enter(page, server)
    preview = preview_of_a_merge(page)
    before = preview.locator("tr").count()
    decide(session, "served", None)
    page.get_by_role("button", name="Make this change").click()
    expect(preview).to_contain_text("Nothing was changed: somebody has edited something since the preview")
    assert preview.locator("tr").count() == before - 1
    assert page.locator("dialog").get_by_label("Name of the one label").input_value() == "dishware"
    press(page, "Enter")  # whoever pressed it before the new preview was there has not agreed to it
    assert "bowl" in session.store.kinds()[3].labels
    page.get_by_role("button", name="Make this change").click()
    page.wait_for_selector("dialog", state="detached")
    assert "dishware" in {label for kind in session.store.kinds() for label in kind.labels}
    expect(page.locator(".toast")).to_contain_text("merged")
    assert page.locator(".toast.fault").count() == 0
    expect_refusals(faults)


def test_the_window_stays_until_the_change_is_saved(session, server, page, faults):
    enter(page, server)
    preview = preview_of_a_merge(page)
    server.stop()
    page.get_by_role("button", name="Make this change").click()
    expect(preview).to_contain_text("Saving")
    page.wait_for_selector('#state[data-state="not saved"]')
    assert page.locator(".toast").count() == 0
    server.start()
    page.wait_for_selector("dialog", state="detached")
    assert "dishware" in {label for kind in session.store.kinds() for label in kind.labels}
    faults.lines.clear()  # the browser logs each request that nobody answered


def test_a_label_of_a_group_is_added_after_its_warning(session, server, page):
    """Every decided class says that a new label of a group does not hold; nobody should do that unawares."""
    enter(page, server)
    press(page, "ArrowDown", "ArrowDown", "=")
    page.keyboard.type("sesame")
    press(page, "Enter")
    expect(page.locator("dialog .warn")).to_contain_text(
        "cells are decided already; they say that 'sesame' does not hold"
    )
    press(page, "Enter")  # the same key again is not meant for the warning
    assert "sesame" not in session.store.kinds()[2].labels
    page.get_by_role("button", name="Add “sesame” to ingredient").click()
    page.wait_for_selector("dialog", state="detached")
    saved(page)
    assert "sesame" in session.store.kinds()[2].labels


def test_a_label_is_added_once_however_often_enter_is_pressed(session, server, page):
    enter(page, server)
    press(page, "=")
    page.keyboard.type("ramen")
    press(page, "Enter", "Enter", "Enter")
    page.wait_for_selector("dialog", state="detached")
    saved(page)
    assert [batch.action for batch in session.store.batches(person="Ann")][-1] == "add_label"
    assert sum(batch.action == "add_label" for batch in session.store.batches()) == 1


def test_a_label_of_a_group_is_not_added_when_the_warning_is_closed(session, server, page):
    enter(page, server)
    press(page, "ArrowDown", "ArrowDown", "=")
    page.keyboard.type("sesame")
    press(page, "Enter")
    page.wait_for_selector("dialog .warn")
    press(page, "Escape")
    page.wait_for_selector("dialog", state="detached")
    saved(page)
    assert "sesame" not in session.store.kinds()[2].labels


# ---- files -----------------------------------------------------------------------------------------------------------


def test_an_import_does_not_reset_what_was_decided_after_its_preview(session, server, page, faults, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text(session.store.export_text("csv").replace("plate|basket", "basket"), encoding="utf-8")
    enter(page, server)
    press(page, "Shift+M")
    page.get_by_label("File to import").set_input_files(path)
    preview = page.locator("dialog .preview").first
    expect(preview).to_contain_text("1 change")
    decide(session, "spicy", "no")
    page.get_by_role("button", name="Import these labels").click()
    expect(preview).to_contain_text("Nothing was changed: somebody has edited something since the preview")
    expect(preview).to_contain_text("2 changes")
    expect(preview).to_contain_text(TOFU)
    assert session.store.cell(TOFU, "spicy").value == "no"
    page.get_by_role("button", name="Import these labels").click()
    expect(preview).to_contain_text("Saved. One undo")
    assert session.store.cell(TOFU, "spicy").value == "yes"
    assert page.locator(".toast.fault").count() == 0
    expect_refusals(faults)


# ---- history and actions ---------------------------------------------------------------------------------------------


def test_the_history_of_a_cell_a_note_and_photos_can_be_undone(session, server, page):
    store = session.store
    decide(session, "dish", "shumai")
    store.set_note(TOFU, "very hot", person="Bo", edit_id="note", seen=0)
    key = session.photos(TOFU)[0].key
    store.label_photo(key, "dish", "shumai", person="Bo", edit_id="photo", seen=0, fine=TOFU)
    store.label_photo(session.photos(SHUMAI)[0].key, "dish", "mapo tofu", person="Bo", edit_id="other", seen=0)
    texts = {"dish": "mapo tofu → shumai", "Note": "no note → very hot", "Photos": f"{key}: as its class → shumai"}
    for name, text in texts.items():
        enter(page, server)
        press(page, "h")
        page.locator("dialog").get_by_role("tab", name=name, exact=True).click()
        line = page.locator("dialog .history li")
        expect(line).to_have_count(1)
        expect(line).to_contain_text(text)
        line.get_by_role("button", name="Undo").click()
        page.wait_for_selector("dialog", state="detached")
        saved(page)
    assert store.cell(TOFU, "dish").value == "mapo tofu"
    assert store.one_class(TOFU).note == ""
    assert store.photo_cells([key])[key]["dish"].value is None


def test_a_history_that_cannot_be_loaded_says_so(session, server, page, faults):
    enter(page, server)
    page.route("**/api/history*", lambda route: route.abort())
    press(page, "h")
    expect(page.locator("dialog .fault")).to_contain_text("the server cannot be reached")
    assert "Nobody has changed" not in page.locator("dialog").inner_text()
    page.unroute("**/api/history*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("dialog .muted")).to_contain_text("since the import")
    faults.lines.clear()


def test_earlier_actions_and_those_of_one_person_are_shown_too(session, server, page):
    for number in range(40):
        decide(session, "spicy", ["no", "yes"][number % 2], person="Bo")
    decide(session, "dish", "shumai", person="Cy")
    enter(page, server, "#/team")
    section = page.locator(".team-view section.broad")
    rows = section.locator("tbody tr")
    expect(rows).to_have_count(30)
    section.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(42)
    expect(rows.last).to_contain_text("imported a graph")
    assert section.get_by_role("button", name="Show more").count() == 0
    section.get_by_label("Whose actions").select_option("Cy")
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Undo").click()
    saved(page)
    expect(rows).to_have_count(1)  # the undo is one of Ann
    expect(rows).to_contain_text("undone")
    assert session.store.cell(TOFU, "dish").value == "mapo tofu"


def test_the_undo_of_an_undo_is_called_redo_and_that_of_a_redo_undo(session, server, page):
    decide(session, "dish", "shumai")
    enter(page, server, "#/team")
    first = page.locator(".team-view section.broad tbody tr").first
    for button, text, value in (
        ("Undo", "undid: decided", "mapo tofu"),
        ("Redo", "redid: decided", "shumai"),
        ("Undo", "undid: decided", "mapo tofu"),
    ):
        first.get_by_role("button", name=button).click()
        expect(first).to_contain_text(text)
        assert session.store.cell(TOFU, "dish").value == value


# ---- suggestions -----------------------------------------------------------------------------------------------------


def test_of_two_suggestions_for_a_cell_one_can_be_ticked(session, server, page):
    shrimp = next(row.fine for row in session.store.classes(kind="spicy", show="unknown").rows)
    sources = [("model", "yes", 0.9), ("similar", "no", 0.6)]
    for source, value, score in sources:
        proposal = Proposal(shrimp, "spicy", value, source, score, f"of {source}")
        session.store.put_suggestions(source, [proposal])
    enter(page, server, "#/grid/spicy")
    press(page, "Shift+S")
    boxes = page.locator("dialog .suggestion-line", has_text=shrimp).locator("input")
    expect(boxes).to_have_count(2)
    assert [box.is_checked() for box in boxes.all()] == [True, False]
    boxes.nth(1).check()
    assert [box.is_checked() for box in boxes.all()] == [False, True]
    boxes.nth(1).uncheck()
    assert [box.is_checked() for box in boxes.all()] == [False, False]
    boxes.nth(1).check()
    page.get_by_role("button", name="Accept").click()
    saved(page)
    assert session.store.cell(shrimp, "spicy").value == "no"


# ---- findings --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_finding_is_told_of_each_class_that_it_concerns(tmp_path):
    lines = [f"dish {number},{'yes' if number < 3 else ''}" for number in range(60)]
    (tmp_path / "menu.csv").write_text("\n".join(["fine,spicy", *lines]) + "\n", encoding="utf-8")
    with (
        open_session(str(tmp_path / "menu.csv")) as session,
        serving(session) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        everything = client.get("/api/findings").json()["findings"]
        [unknown] = [one for one in everything if one["rule"] == "mostly-unknown"]
        assert unknown["fine"] == [f"dish {number}" for number in range(3, 23)]
        for number, expected in ((59, True), (3, True), (2, False)):
            found = client.get("/api/findings", params={"fine": f"dish {number}"}).json()["findings"]
            assert ("mostly-unknown" in {one["rule"] for one in found}) == expected
        told_apart = {one["rule"] for one in client.get("/api/findings", params={"fine": "dish 59"}).json()["findings"]}
        assert "not-told-apart" in told_apart


def test_the_grid_marks_cells_that_the_check_doubts(tmp_path, page):
    table = ["fine,dish,egg", *[f"bowl {number},{'ramen' if number < 9 else 'ramem'},yes" for number in range(10)]]
    (tmp_path / "menu.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    with open_session(str(tmp_path / "menu.csv")) as session, serving(session) as server:
        enter(page, server, place="#/grid/dish")
        doubted = page.locator('.grid-row[data-fine="bowl 9"] .mark.warn')
        expect(doubted).to_have_text("check", timeout=15_000)  # the check rests between two turns
        assert "looks like 'ramen'" in doubted.get_attribute("title")
        expect(page.locator(".grid-row .mark.warn")).to_have_count(1)
        press(page, *["ArrowDown"] * 9, "1")
        expect(page.locator(".grid-row .mark.warn")).to_have_count(0, timeout=15_000)
        decide(session, "dish", "ramem", fine="bowl 0")
        expect(page.locator('.grid-row[data-fine="bowl 0"] .mark.warn')).to_have_text("check", timeout=15_000)
        page.close()  # it would go on asking a server that is gone


@pytest.mark.deep
def test_marks_are_told_of_one_kind_and_of_classes_that_are_there(tmp_path):
    dishes = ["ramen"] * 9 + ["ramem"]
    table = ["fine,dish,egg", *[f"bowl {n},{dish},{'yes' if n % 2 else 'no'}" for n, dish in enumerate(dishes)]]
    (tmp_path / "menu.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    with (
        open_session(str(tmp_path / "menu.csv")) as session,
        serving(session) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        rows = client.get("/api/classes").json()["rows"]
        numbers = {row["fine"]: row["number"] for row in rows}
        asked = [*numbers.values(), 10**9]

        def marks(kind):
            found = client.get("/api/marks", params={"kind": kind, "number": asked}).json()
            return found if found["version"] == found["now"] else None

        until(lambda: marks("dish"))
        found = marks("dish")
        assert list(found["marks"]) == [str(numbers["bowl 9"])]
        assert found["now"] == session.store.version
        assert marks("egg")["marks"] == {}
        for wrong in ([], [-1], [10**20], [*range(201)]):
            assert client.get("/api/marks", params={"kind": "dish", "number": wrong}).status_code == 422
