"""The page in a real browser: photos come in every way, evidence changes the answer to what Python says."""

import base64
import io

import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.graph import LabelGraph
from finegraph.graph.samples import sample_menu
from finegraph.web.answering import ServedModel
from finegraph.web.security import Security
from finegraph.web.words import percent
from serving import photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")
HOSTILE = {
    "<img src=x onerror=alert(1)> @ A": {
        "<b>dish</b>": "<script>alert(2)</script>",
        "place": "'\"><svg onload=alert(3)>",
    },
    "javascript:alert(4) @ B": {"<b>dish</b>": "{{7*7}}", "place": "</script><script>alert(5)</script>"},
    "a & b &lt;i&gt; @ B": {"<b>dish</b>": "&amp;", "place": "</script><script>alert(5)</script>"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for seed in (7, 8):
        tiny.picture(seed, width=200, height=150).save(folder / f"{seed}.png")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(sample_menu()), samples=folder) as found:
            yield found


def open_page(page, server):
    page.goto(server.address)
    page.wait_for_selector("body[data-ready]")


def choose(page, content, name="photo.png"):
    page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": content})
    settle(page)


def settle(page):
    """Wait until what is shown is the answer to what was last asked."""
    page.wait_for_selector("#result:not([hidden])")
    page.wait_for_selector("body:not(.busy)")


def shown(page):
    """The answers with their probabilities, as they stand on the page."""
    return [tuple(row.inner_text().split("\n")[:2]) for row in page.locator("#top li").all()]


def expected(server, content, **given):
    prediction = server.model.predict(Image.open(io.BytesIO(content)), given=given, top=6)
    return [(answer.label, percent(answer.probability)) for answer in prediction.top]


def test_a_chosen_photo_is_answered_as_in_python(page, server):
    content = photo_bytes(1)
    open_page(page, server)
    choose(page, content)
    assert shown(page) == expected(server, content)
    best = expected(server, content)[0]
    sentence = page.locator("#sentence").inner_text()
    assert best[0].replace(" @ ", " at ").lower() in sentence.lower()
    assert page.locator("#why").is_visible()
    assert not page.locator("#similar").is_visible()  # there is no index
    assert page.locator("#picture").evaluate("image => image.naturalWidth") == 50


def test_evidence_changes_the_answer_to_what_given_says(page, server):
    content = photo_bytes(2)
    open_page(page, server)
    choose(page, content)
    page.get_by_role("group", name="restaurant").get_by_text("Lei Garden").click()
    settle(page)
    assert shown(page) == expected(server, content, restaurant="Lei Garden")
    chip = page.get_by_role("group", name="ingredient").get_by_role("button").first
    name = chip.locator("span").first.inner_text()
    chip.click()
    settle(page)
    both = {"restaurant": "Lei Garden", f"ingredient: {name}": "yes"}
    assert shown(page) == expected(server, content, **both)
    page.get_by_role("group", name="restaurant").get_by_text("Chef Yu").click()  # or Chef Yu
    settle(page)
    assert shown(page) == expected(server, content, **{**both, "restaurant": {"Lei Garden", "Chef Yu"}})
    page.get_by_role("button", name="Take all back").click()
    settle(page)
    assert shown(page) == expected(server, content)


def test_a_chip_goes_from_open_to_yes_to_no_and_back(page, server):
    content = photo_bytes(3)
    open_page(page, server)
    choose(page, content)
    chip = page.get_by_role("group", name="spicy").get_by_role("button").first
    for given in ({"spicy": "yes"}, {"spicy": "no"}, {}):
        chip.click()
        settle(page)
        assert shown(page) == expected(server, content, **given)


def test_contradictory_evidence_is_said_in_words_and_can_be_taken_back(page, server, faults):
    content = photo_bytes(2)
    open_page(page, server)
    choose(page, content)
    box = page.get_by_role("combobox", name="Find a dish")
    box.fill("shumai")
    page.get_by_role("option", name="shumai").click()
    settle(page)
    page.get_by_role("group", name="ingredient").get_by_role("button", name="more").click()
    page.get_by_role("group", name="ingredient").get_by_role("button", name="beef").click()
    page.wait_for_selector("#notes .note")
    assert "no fine label of the graph agrees" in page.locator("#notes").inner_text()
    faults.lines = [line for line in faults.lines if "422" not in line]  # browsers note refused requests
    page.get_by_role("button", name="Take back ingredient: beef: yes").click()
    page.wait_for_selector("#notes:empty", state="attached")
    settle(page)
    assert shown(page) == expected(server, content, dish="shumai")


def tab_to(page, start):
    """Press Tab until the element with the focus has an id, a key or a name that starts so."""
    names = "const e = document.activeElement; return [e.id, e.dataset.key, e.ariaLabel]"
    for _ in range(60):
        page.keyboard.press("Tab")
        if any((name or "").startswith(start) for name in page.evaluate(f"() => {{ {names} }}")):
            return
    raise AssertionError(f"{start} cannot be reached by Tab")


def test_by_keyboard_alone(page, server):
    content = photo_bytes(4)
    with page.expect_file_chooser() as chooser:  # around all of it: the browser takes a moment to be told
        open_page(page, server)
        tab_to(page, "choose")
        page.keyboard.press("Enter")
    chooser.value.set_files({"name": "a.png", "mimeType": "image/png", "buffer": content})
    settle(page)
    tab_to(page, "Find a dish")
    page.keyboard.type("kung")
    page.get_by_role("option", name="kung pao chicken").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take back dish: kung pao chicken").wait_for()
    settle(page)
    assert shown(page) == expected(server, content, dish="kung pao chicken")
    tab_to(page, "restaurant=")
    label = page.evaluate("document.activeElement.dataset.key").partition("=")[2]
    page.keyboard.press("Space")
    settle(page)
    assert shown(page) == expected(server, content, dish="kung pao chicken", restaurant=label)
    assert page.evaluate("document.activeElement.dataset.key") == f"restaurant={label}"  # the focus stays


def test_dropped_and_pasted_photos_and_samples(page, server):
    for event, seed in (("drop", 5), ("paste", 6)):
        content = photo_bytes(seed)
        open_page(page, server)
        page.evaluate(
            """([event, text]) => {
                const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
                const data = new DataTransfer();
                data.items.add(new File([bytes], "a.png", { type: "image/png" }));
                const made = event === "drop"
                  ? new DragEvent("drop", { dataTransfer: data, cancelable: true, bubbles: true })
                  : new ClipboardEvent("paste", { clipboardData: data, bubbles: true });
                document.body.dispatchEvent(made);
            }""",
            [event, base64.b64encode(content).decode()],
        )
        settle(page)
        assert shown(page) == expected(server, content)
    open_page(page, server)
    page.get_by_role("button", name="Try sample 2").click()
    settle(page)
    prediction = server.model.predict(server.state.samples.paths[1], top=6)
    assert shown(page) == [(answer.label, percent(answer.probability)) for answer in prediction.top]


def test_on_a_phone_one_can_take_a_photo_and_nothing_is_cut_off(phone, server):
    open_page(phone, server)
    assert phone.locator("#take").is_visible()
    assert phone.locator("#camera").get_attribute("capture") == "environment"
    phone.set_input_files("#camera", {"name": "a.png", "mimeType": "image/png", "buffer": photo_bytes(1)})
    settle(phone)
    phone.get_by_role("group", name="restaurant").get_by_role("button").first.tap()
    settle(phone)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    order = [phone.locator(name).bounding_box()["y"] for name in ("#drop", ".answer", "#kinds", "#why", "#samples")]
    assert order == sorted(order)
    small = [box.bounding_box()["height"] for box in phone.get_by_role("button").all() if box.is_visible()]
    assert min(small) >= 36


def test_on_a_desktop_there_is_no_camera_button(page, server):
    open_page(page, server)
    assert not page.locator("#take").is_visible()


def test_a_bad_photo_is_explained_and_the_answer_before_it_goes(page, server, faults):
    open_page(page, server)
    choose(page, photo_bytes(1))
    page.set_input_files("#file", {"name": "<b>x</b>.jpg", "mimeType": "image/jpeg", "buffer": b"<html>"})
    page.wait_for_selector("#notes .note")
    text = page.locator("#notes").inner_text()
    assert "The photo cannot be read" in text
    assert "<b>x</b>.jpg: this is no photo of a known format" in text
    assert not page.locator("#result").is_visible()
    assert not page.locator("#why").is_visible()
    assert not page.locator("#picture").is_visible()
    faults.lines = [line for line in faults.lines if "422" not in line and "blob:" not in line]


def test_names_with_html_are_shown_as_text(page, faults):
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(LabelGraph.from_table(HOSTILE))) as server:
            page.on("dialog", lambda dialog: faults.lines.append(f"dialog: {dialog.message}"))
            open_page(page, server)
            choose(page, photo_bytes(1), name="<script>alert(6)</script>.png")
            assert {label for label, _ in shown(page)} == set(HOSTILE)
            page.get_by_role("group", name="place").get_by_role("button").first.click()
            settle(page)
            assert page.locator("#known").inner_text().startswith("place: ")
            assert page.locator("main script, main svg, #result img, #kinds b").count() == 0
            headings = [heading.text_content() for heading in page.locator("#kinds h3").all()]
            assert headings == ["<b>dish</b>", "place"]


def test_a_kind_with_many_labels_has_a_picker_that_searches(page):
    table = {
        f"dish {number} @ {number % 7}": {"dish": f"dish {number}", "place": str(number % 7)} for number in range(3000)
    }
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(LabelGraph.from_table(table))) as server:
            open_page(page, server)
            content = photo_bytes(2)
            choose(page, content)
            box = page.get_by_role("combobox", name="Find a dish")
            box.click()
            page.get_by_text("more; type to find them").wait_for()
            assert page.get_by_role("option").count() <= 50
            box.fill("dish 2987")
            page.get_by_role("option", name="dish 2987").click()
            settle(page)
            assert shown(page) == [("dish 2987 @ 5", "100 %")] == expected(server, content, dish="dish 2987")
            assert "nothing to compare it with" in page.locator("#why").inner_text()


def test_a_new_model_meanwhile_is_met_with_the_same_photo(page, server, faults):
    open_page(page, server)
    content = photo_bytes(3)
    choose(page, content)
    old = server.state.model
    try:
        with pytest.MonkeyPatch.context() as patch:
            tiny.register(patch)
            other = tiny.classifier(sample_menu(), seed=5)
        server.state.model = ServedModel(other, "menu")
        page.get_by_role("group", name="restaurant").get_by_text("Chef Yu").click()
        settle(page)
        prediction = other.predict(Image.open(io.BytesIO(content)), given={"restaurant": "Chef Yu"}, top=6)
        assert shown(page) == [(answer.label, percent(answer.probability)) for answer in prediction.top]
    finally:
        server.state.model = old
    faults.lines = [line for line in faults.lines if "409" not in line]


def test_with_a_token_the_page_asks_for_it_once(page, faults):
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(), security=Security(token="correct horse battery")) as server:
            page.goto(server.address)
            page.get_by_label("Token").fill("correct horse battery")
            page.get_by_role("button", name="Go on").click()
            page.wait_for_selector("body[data-ready]")
            assert "token" not in page.url
            choose(page, photo_bytes(1))
    faults.lines = [line for line in faults.lines if "401" not in line]
