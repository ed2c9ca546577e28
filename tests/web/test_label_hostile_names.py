"""Names that try to be markup or script, in every place where a name can stand: none of them runs."""

import pytest
from label_server import photo_folder, serving
from playwright.sync_api import expect

from finegraph.workflows.label import open_session

PAYLOADS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "<svg/onload=window.hit=1>",
    '"><script>window.hit=1</script>',
    "' onfocus=window.hit=1 autofocus='",
    "javascript:window.hit=1",
    "</textarea><script>window.hit=1</script>",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "{{constructor.constructor('window.hit=1')()}}",
    "<a href=javascript:window.hit=1>x</a>",
    "<math><mtext><img src=x onerror=window.hit=1>",
    "${window.hit=1}",
]
VIEWS = ("Grid", "Team", "Class")


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.fixture
def session(tmp_path):
    kinds = [f"kind {payload}".replace(":", ";") for payload in PAYLOADS[:3]]
    lines = [",".join(quoted(name) for name in ["fine", *kinds])]
    for number, payload in enumerate(PAYLOADS):
        labels = [f"label {PAYLOADS[(number + step) % len(PAYLOADS)]}".replace(":", ";") for step in range(3)]
        lines.append(",".join(quoted(name) for name in [payload, *labels]))
    (tmp_path / "hostile.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    photos = photo_folder(tmp_path / "photos", ["<img src=x onerror=window.hit=1>"], each=1)
    with open_session(str(tmp_path / "hostile.csv"), data=str(photos)) as made:
        yield made


def test_no_name_runs(page, session):
    person = "<img src=x onerror=window.hit=1>"
    first, kind = session.store.kinds()[0], session.store.kinds()[1]
    for number, payload in enumerate(PAYLOADS):
        session.store.set_note(payload, payload, person=person, edit_id=f"note-{number:04}", seen=0)
        for who, label in ((payload, first.labels[0]), ("<b>Bo</b>", first.labels[1])):
            session.store.decide(
                payload, first.name, label, person=who[:80], edit_id=f"vote-{number:04}-{who[:3]}", seen=None
            )
    with serving(session) as server:
        page.goto(server.url)
        page.get_by_label("Your name").fill(person)
        page.keyboard.press("Enter")
        page.wait_for_selector(".kind.focus")
        for index in range(len(PAYLOADS)):
            assert page.locator("h1").inner_text() == PAYLOADS[index]
            page.keyboard.press("1")
            if index + 1 < len(PAYLOADS):
                page.keyboard.press("ArrowRight")
                expect(page.locator("h1")).to_have_text(PAYLOADS[index + 1])
        for view in VIEWS:
            page.get_by_role("tab", name=view, exact=True).click()
            page.wait_for_timeout(150)
        for key in ("=", "m", "h", "?", "Shift+S"):
            page.keyboard.press(key)
            page.wait_for_selector("dialog[open]")
            page.wait_for_timeout(150)
            page.keyboard.press("Escape")
        page.keyboard.press("m")
        page.get_by_role("tab", name="Remove a kind").click()
        page.get_by_role("button", name="Preview").click()
        page.wait_for_selector(".preview footer")
        page.keyboard.press("Escape")
        page.locator("#files").click()
        page.wait_for_timeout(200)
        page.get_by_role("button", name="Compare").click()
        page.wait_for_timeout(200)
        assert page.evaluate("window.hit") is None
        assert page.locator("#view script, #view iframe, dialog script, dialog iframe").count() == 0
        page.goto("about:blank")
    assert kind.labels


VECTORS = ["onerror=window.hit=1", "onload=window.hit=1", "onfocus=window.hit=1 autofocus", "onmouseover=window.hit=1"]
TAGS = [
    "img src=x",
    "svg",
    "body",
    "input",
    "video src=x",
    "audio src=x",
    "details open",
    "object data=x",
    "embed src=x",
]
FRAMES = ["{}", '"{}', "'{}", "</title>{}", "</script>{}", "<!--{}-->", "\\u003c{}", "&lt;{}&gt;", "]]>{}"]


@pytest.mark.slow
def test_three_hundred_payloads_as_classes_and_labels(page, tmp_path):
    names = [frame.format(f"<{tag} {vector}>") for frame in FRAMES for tag in TAGS for vector in VECTORS][:300]
    # A backslash begins an escape in graph files; in the file it is written twice.
    cells = [[name.replace("\\", "\\\\"), f"is {number}"] for number, name in enumerate(names)]
    for number, row in enumerate(cells):
        row[1] = f"label {cells[(number * 7) % 300][0]}".replace(":", ";")
    lines = [",".join(map(quoted, row)) for row in [["fine", "<img src=x onerror=window.hit=1>"], *cells]]
    (tmp_path / "many.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_session(str(tmp_path / "many.csv")) as session, serving(session) as server:
        assert list(session.store.graph().fine) == names
        kind = session.store.kinds()[0]
        for number, name in enumerate(names):
            session.store.set_note(name, name, person=name[:80], edit_id=f"note-{number:04}", seen=0)
            voter = f"{number} {name}"[:80].strip()
            session.store.decide(name, kind.name, kind.labels[1], person=voter, edit_id=f"vote-{number:04}", seen=None)
        page.goto(f"{server.url}/#/grid/{session.store.kinds()[0].name}")
        page.get_by_label("Your name").fill("<svg onload=window.hit=1>")
        page.keyboard.press("Enter")
        page.wait_for_selector(".grid-row.focus")
        seen = set()
        for step in range(0, 300, 15):
            page.locator(".grid-rows").evaluate("(rows, step) => { rows.scrollTop = step * 46; }", step)
            last = min(step + 14, 299)  # rows are drawn at the next frame, the last one in sight with them
            page.wait_for_selector(f'[aria-label="Classes"] .grid-row[data-index="{last}"] .option')
            expect(page.locator(".grid-row:not([data-index])")).to_have_count(0)  # rows that are still on their way
            seen.update(page.locator(".grid-name").all_text_contents())
        assert seen == set(names)
        assert page.evaluate("window.hit") is None
        walk_through(page, names)
        assert page.evaluate("window.hit") is None
        assert page.locator("#view script, #view iframe, #view object, #view embed, #view video").count() == 0
        page.goto("about:blank")


def walk_through(page, names):
    """Look at every class alone, decide it, and at what the team did."""
    page.get_by_role("tab", name="Class", exact=True).click()
    for index, name in enumerate(names):
        expect(page.locator("h1")).to_have_text(name, use_inner_text=True)
        expect(page.locator(".note")).to_have_value(name)
        page.keyboard.press("1")
        if index % 50 == 0:
            page.wait_for_selector('#state[data-state="saved"]')
            page.keyboard.press("h")
            page.wait_for_selector("dialog .history")
            page.keyboard.press("Escape")
        if index + 1 < len(names):
            page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name="Team", exact=True).click()
    page.wait_for_selector(".team-view table")
    page.wait_for_timeout(300)
