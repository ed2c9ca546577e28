"""The log of the team: the old and the new value of each edit."""

from label_hands import SHUMAI, TOFU, enter
from playwright.sync_api import expect

from finegraph.labelling import Decision


def rows_of(page, server):
    enter(page, server)
    page.get_by_role("tab", name="Team").click()
    return page.locator(".team-view section.broad tbody tr")


def test_a_decision_is_told_with_both_values(session, server, page):
    session.store.decide(TOFU, "dish", "shumai", person="Bo", edit_id="edit-one", seen=None)
    session.store.decide(
        TOFU,
        "dish",
        "hot and sour soup",
        person="Bo",
        edit_id="edit-two",
        seen=session.store.cell(TOFU, "dish").version,
    )
    first = rows_of(page, server).first
    expect(first).to_contain_text(f"{TOFU} · dish: mapo tofu → hot and sour soup")


def test_notes_and_photos_are_told_with_both_values(session, server, page):
    store, key = session.store, session.photos(TOFU)[0].key
    store.set_note(TOFU, "too salty", person="Bo", edit_id="edit-note", seen=0)
    store.label_photo(key, "spicy", "no", person="Bo", edit_id="edit-photo", seen=0)
    rows = rows_of(page, server)
    expect(rows.nth(1)).to_contain_text(f"{TOFU} · note: no note → too salty")
    expect(rows.nth(0)).to_contain_text(f"{key} · spicy: as its class → no")


def test_of_many_the_last_are_told_and_all_at_a_click(session, server, page):
    classes = [row.fine for row in session.store.classes(limit=5).rows]
    many = [
        Decision(fine=fine, kind="served", value="basket", seen=session.store.cell(fine, "served").version)
        for fine in classes
    ]
    session.store.decide_many(many, person="Bo", edit_id="edit-many")
    first = rows_of(page, server).first
    expect(first.locator(".edits li")).to_have_count(3)
    expect(first.locator(".edits li").first).to_contain_text("→ basket")
    first.get_by_role("button", name="All 5 changes").click()
    expect(page.locator("dialog li")).to_have_count(5)
    for fine in classes:
        expect(page.locator("dialog")).to_contain_text(f"{fine} · served: ")


def test_an_undo_is_told_with_both_values(session, server, page):
    made = session.store.decide(
        SHUMAI, "spicy", "yes", person="Bo", edit_id="edit-one", seen=session.store.cell(SHUMAI, "spicy").version
    )
    session.store.undo(made.batch, person="Bo", edit_id="edit-undo")
    expect(rows_of(page, server).first).to_contain_text(f"{SHUMAI} · spicy: yes → no")
