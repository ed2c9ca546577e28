"""The page in a real browser: clicking, sorting, searching, the keyboard, and names that are markup."""

import itertools
import json
import re
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect

from finegraph.data.dataset import MISSING
from finegraph.graph import LabelGraph
from finegraph.reports.report_page import report_page
from finegraph.reports.run_results import read_run
from finegraph.workflows.report import write_report
from reports.made_up_runs import made_up_graph, make_run
from serving import until


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    graph = made_up_graph(14, (("dish", 5), ("place", 3)), 1)
    runs = [
        make_run(folder / head, graph, 120, seed=seed, head=head, settings={"data": "/data", "graph": "my menu.csv"})
        for seed, head in ((0, "softmax"), (1, "bipartite"))
    ]
    write_report(runs, folder / "report.html")
    return (folder / "report.html").as_uri()


def cells_of(page, level="0"):
    """The number of photos of each off-diagonal cell of the matrix, from the list of confusions."""
    texts = page.locator("#pairs button").all_inner_texts()
    return [(text.rsplit("\n", 1)[0], int(text.rsplit("\n", 1)[1])) for text in texts]


def test_from_a_confusion_to_its_photos(page, address):
    page.goto(address)
    names, count = cells_of(page)[0]
    page.locator("#pairs button").first.click()
    assert page.locator("#viewer").is_visible()
    assert page.locator("#viewer .middle .note").first.inner_text() == f"{count} photo{'' if count == 1 else 's'}"
    photos = page.locator("#viewer .photo")
    assert photos.count() == count
    true, answered = names.split(" → ")
    assert re.search(r"^[\d.]+ %\n\d+\.jpg\n", photos.first.inner_text())
    assert page.locator("#viewer-title").inner_text() == f"true: {true}, answered: {answered}"
    photos.first.locator(".about").click()
    assert page.locator("#viewer-title").inner_text() == true
    assert page.locator("#viewer .detail section").count() == 2
    assert "Why " in page.locator("#viewer .detail").inner_text()
    page.locator("#viewer-back").click()
    assert photos.count() == count
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()


def test_a_click_on_a_cell_of_the_matrix(page, address):
    page.goto(address)
    canvas = page.locator("#matrix")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    step = box["width"] / 14
    canvas.click(position={"x": step * 2.5, "y": step * 2.5})
    title = page.locator("#viewer-title").inner_text()
    true, answered = re.fullmatch(r"true: (.+), answered: (.+)", title).groups()
    assert true == answered
    assert "photos" in page.locator("#viewer .note").first.inner_text()


def test_the_matrix_by_keyboard(page, address):
    page.goto(address)
    page.locator("#matrix").focus()
    page.keyboard.press("n")
    words = page.locator("#matrix-cell").inner_text()
    count, true, answered = re.fullmatch(r"(\d+) photos?\ntrue: (.+)\nanswered: (.+)", words).groups()
    assert true != answered
    page.keyboard.press("Enter")
    assert page.locator("#viewer .photo").count() == int(count)
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#matrix-cell").inner_text() != words


def test_kinds_have_a_matrix_too(page, address):
    page.goto(address)
    page.locator("#matrix-level").select_option(label="dish")
    assert page.locator("#matrix-order option").all_inner_texts() == ["by confusion", "by name"]
    assert all(re.match(r"dish \d → dish \d", names) for names, _ in cells_of(page))
    page.locator("#matrix-order").select_option("name")
    page.locator("#matrix-run").select_option("0")
    page.locator("#pairs button").first.click()
    assert page.locator("#viewer").is_visible()


def test_each_of_several_coarse_labels_is_right(page, tmp_path):
    """Of a fine label with two parents the answer of each run may be another one, and right in both."""
    graph = LabelGraph.from_table({f"fine {n}": {"dish": {f"d{n % 4}", f"d{(n + 1) % 4}"}} for n in range(12)})
    runs = [make_run(tmp_path / f"run{seed}", graph, 80, seed=seed, strength=1.0) for seed in range(2)]
    write_report(runs, tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#matrix-level").select_option(label="dish")
    for place, run in enumerate(runs):
        page.locator("#matrix-run").select_option(str(place))
        wrong = int((read_run(run, "run").arrays["kinds_right"][:, 0] == 0).sum())
        assert sum(count for _, count in cells_of(page)) == wrong > 0


def test_an_answer_is_neither_right_nor_wrong_where_the_label_is_not_known(page, tmp_path):
    """Such photos are listed where their kind is known."""
    found = read_run(make_run(tmp_path / "run", made_up_graph(8), 60, strength=1.0), "run")
    row = int(np.flatnonzero(found.arrays["kinds_right"][:, 0] == 0)[0])
    fine = found.arrays["fine"].copy()
    fine[row] = MISSING
    odd = replace(found, arrays={**found.arrays, "fine": fine})
    (tmp_path / "report.html").write_text(report_page([odd]), encoding="utf-8")
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#matrix-level").select_option(label="dish")
    labels = found.graph.labels("dish")
    true, answered = (labels[int(found.arrays[name][row, 0])] for name in ("kinds_true", "kinds_predicted"))
    page.locator("#pairs button", has_text=f"{true} → {answered}").click()
    name = found.photos[row].rsplit("/", 1)[1]
    own, others = page.locator("#viewer .photo", has_text=name), page.locator("#viewer .photo")
    assert own.count() == 1
    assert own.locator(".mark").count() == 0
    assert page.locator("#viewer .photo .mark").count() == others.count() - 1


def test_the_run_that_is_looked_at_closely(page, tmp_path):
    """Where the baseline comes last, the run before it is shown, in the matrix and in the table."""
    graph = made_up_graph(8)
    runs = [
        make_run(tmp_path / name, graph, 60, seed=seed, head=head)
        for seed, (name, head) in enumerate((("one", "bipartite"), ("two", "bipartite"), ("three", "softmax")))
    ]
    write_report(runs, tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#matrix-run").input_value() == "1"
    headings = page.locator("#classes-table thead th").all_inner_texts()
    assert headings[-2:] == ["difference, two", "two: most often taken for"]


def test_lists_are_unfolded_on_paper(page, address):
    page.goto(address)
    assert page.locator("details:not([open])").count() > 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


def test_no_drawing_is_split_on_paper(page, tmp_path):
    """On A4 each drawing is lower than a page, and no page may end inside of it."""
    run = make_run(tmp_path / "run", made_up_graph(80, (("dish", 30), ("place", 3)), 2), 160)
    write_report([run], tmp_path / "report.html")
    page.set_viewport_size({"width": 703, "height": 1017})  # 210 x 297 mm without margins
    page.emulate_media(media="print")
    page.goto((tmp_path / "report.html").as_uri())
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    drawings = page.locator("main svg.chart, main canvas, .drawing svg, main figure, .card, .matrix, .photo")
    assert drawings.count() > 40
    found = drawings.evaluate_all(
        """all => all.map(e => {
          let whole = false;
          for (let at = e; at; at = at.parentElement) whole ||= getComputedStyle(at).breakInside === "avoid";
          return [whole, e.getBoundingClientRect().height];
        })"""
    )
    assert all(whole and height < 1017 for whole, height in found)
    heading, drawing = (page.locator(part).bounding_box() for part in ("#graph-h", ".drawing svg"))
    assert drawing["y"] + drawing["height"] - heading["y"] < 1017  # and its heading stands on the same page


def test_classes_on_paper(page, tmp_path):
    """All classes up to a thousand; of more, how many are missing."""
    run = make_run(tmp_path / "run", made_up_graph(1_200, (("dish", 5),), 0), 60)
    write_report([run], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    assert len(column(page, 1)) == 100
    assert not page.locator("#classes-paper").is_visible()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert len(column(page, 1)) == 1_000
    words = "200 more classes are left out on paper; the page has them all."
    assert page.locator("#classes-paper").inner_text() == words
    mistakes = page.locator("#pairs li:visible").count()
    assert mistakes == 15
    assert re.match(r"\d+ more confusions are left out on paper", page.locator("#pairs-paper").inner_text())
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert len(column(page, 1)) == 100
    page.emulate_media(media="screen")
    page.locator("#classes-search").fill("fine 11")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#classes-paper").inner_text() == ""


def test_pictures_of_a_list_are_of_one_size(page, address):
    """Beside its answers a picture is drawn in at most as many pixels as it has."""
    page.goto(address)
    page.locator("#pairs button").first.click()
    page.locator("#viewer .photo .about").first.click()
    sizes = page.locator("#viewer .detail img").evaluate("e => [e.clientWidth, e.naturalWidth]")
    assert sizes[0] == sizes[1] == 112
    page.locator("#viewer-back").click()
    sizes = page.locator("#viewer .photo img").evaluate_all("all => all.map(e => e.clientHeight)")
    assert set(sizes) == {124}  # in a list small and close ones are as large as each other


def column(page, number):
    return page.locator(f"#classes-table tbody tr > :nth-child({number})").all_inner_texts()


def test_sorting_and_searching_classes(page, address):
    page.goto(address)
    headings = page.locator("#classes-table thead th").all_inner_texts()
    assert headings[:5] == ["fine label", "dish", "place", "training photos, bipartite", "evaluated photos"]
    place = headings.index("bipartite: right") + 1
    page.get_by_role("button", name="bipartite: right").click()
    shares = [int(text.split()[0]) for text in column(page, place)]
    assert shares == sorted(shares, reverse=True)
    assert page.locator(f"#classes-table thead th:nth-child({place})").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="bipartite: right").click()
    assert [int(text.split()[0]) for text in column(page, place)] == sorted(shares)
    page.locator("#classes-search").fill("DISH 2")
    assert set(column(page, 2)) == {"dish 2"}
    assert page.locator("#classes-count").inner_text() == f"{len(column(page, 1))} classes"
    page.locator("#classes-search").fill("nothing like it")
    assert column(page, 1) == []
    page.locator("#classes-search").fill("")
    page.locator("#classes-table tbody button").first.click()
    assert page.locator("#viewer").is_visible()


def test_photos_that_changed_and_worst_losses(page, address):
    page.goto(address)
    for sort in ("fixed", "broken", "moved"):
        button = page.locator(f"[data-changed={sort}]")
        count = int(button.inner_text().split()[0])
        button.click()
        assert page.locator("#viewer .note").first.inner_text().split()[0] == str(count)
        page.locator("#viewer-close").click()
    page.locator("[data-photo]").first.click()
    assert page.locator("#viewer .detail").is_visible()
    assert not page.locator("#viewer .wrong").evaluate("e => e.open")
    assert not page.locator("#viewer-back").is_visible()


def test_training_photos_of_both_classes_stand_beside_a_confusion(page, address):
    page.goto(address)
    names, count = cells_of(page)[0]
    page.locator("#pairs button").first.click()
    sides = page.locator("#viewer .side")
    assert [side.locator("h3 bdi").inner_text() for side in sides.all()] == names.split(" → ")
    words = [side.locator(".note").inner_text() for side in sides.all()]
    assert all(re.fullmatch(r"2 of [567] training photos", text) for text in words)
    assert [side.locator("img").count() for side in sides.all()] == [2, 2]
    places = [page.locator(f"#viewer {part}").bounding_box() for part in (".side.left", ".middle", ".side.right")]
    assert places[0]["x"] + places[0]["width"] <= places[1]["x"]
    assert places[1]["x"] + places[1]["width"] <= places[2]["x"]
    assert page.locator("#viewer .middle .photo").count() == count


def test_training_photos_of_a_coarse_confusion(page, address):
    page.goto(address)
    page.locator("#matrix-level").select_option(label="dish")
    page.locator("#pairs button").first.click()
    sides = page.locator("#viewer .side")
    assert all(side.locator("h3 bdi").inner_text().startswith("dish ") for side in sides.all())
    page.locator("#viewer .side .enlarge").first.click()
    assert page.locator("#lightbox-caption strong").inner_text().startswith("fine ")


def test_the_large_view_by_keyboard_buttons_and_swipe(page, address):
    page.goto(address)
    names, count = cells_of(page)[0]
    true, answered = names.split(" → ")
    page.locator("#pairs button").first.click()
    page.locator("#viewer .side.left .enlarge").first.focus()
    page.keyboard.press("Enter")
    shown = page.locator("#lightbox")
    assert shown.is_visible()
    total = 4 + count
    assert page.locator("#lightbox-count").inner_text() == f"1 of {total}"
    assert page.locator("#lightbox-back").is_disabled()
    assert page.locator("#lightbox-caption").inner_text().startswith(f"{true} · training photo")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert f"truth: {true}" in page.locator("#lightbox-caption").inner_text()
    page.keyboard.press("End")
    assert page.locator("#lightbox-count").inner_text() == f"{total} of {total}"
    assert page.locator("#lightbox-caption").inner_text().startswith(f"{answered} · training photo")
    assert page.locator("#lightbox-on").is_disabled()
    page.locator("#lightbox-back").click()
    assert page.locator("#lightbox-count").inner_text() == f"{total - 1} of {total}"
    page.keyboard.press("Escape")
    assert not shown.is_visible()
    assert page.locator("#viewer").is_visible()  # one step back, not two
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == f"Enlarge: Training photo of {true}"


def test_the_large_view_is_large(page, address):
    page.goto(address)
    page.locator("#pairs button").first.click()
    small = page.locator("#viewer .photo img").first.bounding_box()
    page.locator("#viewer .photo .enlarge").first.click()
    page.locator("#lightbox-image[style]").wait_for()
    large = page.locator("#lightbox-image").bounding_box()
    assert large["width"] > 2 * small["height"]
    page.locator("#lightbox-caption button").click()
    assert page.locator("#viewer .detail").is_visible()
    assert not page.locator("#lightbox").is_visible()


def test_pictures_of_examples_are_enlarged_too(page, address):
    page.goto(address)
    card = page.locator(".card").first
    card.locator(".enlarge").first.click()
    assert page.locator("#lightbox-count").inner_text() == f"1 of {card.locator('.enlarge').count()}"
    page.keyboard.press("ArrowRight")
    assert page.locator("#lightbox-caption").inner_text().startswith("Training photo of fine ")


def test_a_swipe_on_a_phone(phone, address):
    phone.goto(address)
    phone.locator("#pairs button").first.tap()
    sides = [phone.locator(f"#viewer .side.{side}").bounding_box() for side in ("left", "right")]
    assert sides[0]["y"] == sides[1]["y"]  # beside each other, above the photos
    assert phone.locator("#viewer .middle").bounding_box()["y"] > sides[0]["y"] + sides[0]["height"] - 1
    phone.locator("#viewer .side.left .enlarge").first.tap()
    swipe = """([from, to]) => {
      const light = document.getElementById("lightbox");
      const touch = (x) => new Touch({ identifier: 1, target: light, clientX: x, clientY: 300 });
      light.dispatchEvent(new TouchEvent("touchstart", { touches: [touch(from)], changedTouches: [touch(from)] }));
      light.dispatchEvent(new TouchEvent("touchend", { changedTouches: [touch(to)] }));
    }"""
    phone.evaluate(swipe, [300, 100])
    assert phone.locator("#lightbox-count").inner_text().startswith("2 of ")
    phone.evaluate(swipe, [100, 300])
    assert phone.locator("#lightbox-count").inner_text().startswith("1 of ")


def test_a_wrong_label_leads_into_label(new_page, address):
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(address)
    page.locator(".worst .doubt").first.click()
    panel = page.locator("#viewer .wrong")
    assert panel.evaluate("e => e.open")
    command, file = panel.locator("code").all_inner_texts()
    assert command == "finegraph label 'my menu.csv' --data /data"
    label = page.locator("#viewer-title").inner_text()
    assert re.fullmatch(r"photos/\d{5}/\d{6}\.jpg", file)
    parts = [quote(part, safe="") for part in (label, file)]
    assert panel.locator("a").get_attribute("href") == f"http://127.0.0.1:8377/#class={parts[0]}&photo={parts[1]}"
    panel.locator(".copy").first.click()
    expect(panel.get_by_text("Copied")).to_be_visible()  # the clipboard answers when it likes
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_a_command_is_copied_without_the_right_to_the_clipboard(page, address):
    page.goto(address)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.locator(".worst .doubt").first.click()
    page.locator("#viewer .copy").first.click()
    command = page.locator("#viewer code").first.inner_text()
    until(lambda: page.evaluate("getSelection().toString()") == command)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_down_only(new_page, address, scheme):
    phone = new_page(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, color_scheme=scheme)
    phone.goto(address)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    phone.locator("#pairs button").first.tap()
    assert phone.locator("#viewer .photo").first.is_visible()


def test_pictures_have_words_and_charts_have_names(page, address):
    page.goto(address)
    assert page.evaluate(
        "[...document.querySelectorAll('main img')].every(image => image.hasAttribute('alt') && image.naturalWidth > 0)"
    )
    named = "e => e.getAttribute('aria-label') || e.querySelector('title')"
    assert page.evaluate(f"[...document.querySelectorAll('svg[role=img]')].every({named})")
    levels = page.evaluate("[...document.querySelectorAll('main h2, main h3, main h4')].map(e => Number(e.tagName[1]))")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


EVIL = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '" onmouseover="alert(3)',
    "\u202eשלום 'x'",
]


def test_names_that_are_markup_are_shown_as_text(page, tmp_path):
    graph = LabelGraph.from_table({name: {"<i>kind</i>": f"<b>{number % 2}</b>"} for number, name in enumerate(EVIL)})
    run = make_run(tmp_path / "run", graph, 24, strength=1.0)
    write_report([run], tmp_path / "report.html", title=EVIL[1])
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("h1").inner_text() == EVIL[1]
    assert sorted(column(page, 1)) == sorted(EVIL)
    assert set(column(page, 2)) == {"<b>0</b>", "<b>1</b>"}
    page.locator("#pairs button").first.click()
    assert set(page.locator("#viewer .side h3 bdi").all_inner_texts()) <= set(EVIL)
    page.locator("#viewer .side .enlarge").first.click()
    assert page.locator("#lightbox-caption strong").inner_text() in EVIL
    page.keyboard.press("Escape")
    page.locator("#viewer .photo .doubt").first.click()
    page.mouse.move(300, 300)
    assert page.locator("#viewer-title").inner_text() in EVIL
    assert page.locator("main b, main i:not(.rail-bar i), [onmouseover], img[src=x]").count() == 0
    assert asked == []


def test_labels_without_photos_are_left_out_and_counted(page, tmp_path):
    graph = made_up_graph(900, (("family", 30),), 0)
    run = make_run(tmp_path / "run", graph, 20, similar=False)
    details = run / "evaluations" / "test" / "details.json"
    about = json.loads(details.read_text(encoding="utf-8"))
    about["training"]["fine"] = [0] * 890 + [3] * 10
    details.write_text(json.dumps(about), encoding="utf-8")
    write_report([run], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    said = page.locator("#classes-count").inner_text()
    left = int(re.fullmatch(r"(\d+) classes; (\d+) without photos left out", said)[2])
    assert left == 900 - int(said.split()[0]) > 500
    page.locator("#classes-search").fill("fine 899")
    assert page.locator("#classes-table tbody tr").first.inner_text().startswith("fine 899")
    page.locator("#pairs button").first.click()
    names = page.locator("#viewer-title").inner_text()
    assert re.fullmatch(r"true: fine \d+, answered: fine \d+", names)


@pytest.mark.slow
def test_ten_thousand_labels(page, tmp_path):
    run = make_run(tmp_path / "run", made_up_graph(10_000, (("family", 80),), 0), 3_000)
    write_report([run], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#classes-search").fill("fine 77")
    assert page.locator("#classes-count").inner_text() == "111 classes"
    page.locator("#matrix").focus()
    page.keyboard.press("n")
    assert "more" in page.locator("#matrix-cell").inner_text()
    page.keyboard.press("Enter")
    assert page.locator("#viewer .photo").count() >= 1
