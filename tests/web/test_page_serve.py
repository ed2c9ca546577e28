"""The page in a real browser: photos come in every way, evidence changes the answer to what Python says."""

import base64
import io
from functools import partial

import pytest
from page_steps import FORMS, another_model, choose, expected, expected_of, open_page, settle, shown
from PIL import Image

import tiny_classifier as tiny
from finegraph.graph import LabelGraph
from finegraph.graph.sample_menu import sample_menu
from finegraph.web.security import Security
from finegraph.web.serve.answer_text import answer_words, percent
from finegraph.web.serve.answering import ServedModel
from serving import photo_bytes, running, until

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
    yes = page.locator("#kind-list [data-key^='ingredient: '][data-key$='=yes']").first
    kind = yes.get_attribute("data-key").removesuffix("=yes")
    yes.click()
    settle(page)
    both = {"restaurant": "Lei Garden", kind: "yes"}
    assert shown(page) == expected(server, content, **both)
    page.get_by_role("group", name="restaurant").get_by_text("Chef Yu").click()  # or Chef Yu
    settle(page)
    assert shown(page) == expected(server, content, **{**both, "restaurant": {"Lei Garden", "Chef Yu"}})
    page.get_by_role("button", name="Remove all").click()
    settle(page)
    assert shown(page) == expected(server, content)


@pytest.mark.parametrize("form", FORMS)
def test_yes_no_and_unknown_are_choices_that_one_sees(request, server, form):
    page = request.getfixturevalue(form)
    content = photo_bytes(3)
    open_page(page, server)
    choose(page, content)
    row = page.get_by_role("group", name="spicy", exact=True).last.get_by_role("button")
    assert row.all_inner_texts() == ["Yes", "No", "Unknown"]
    for place, given in ((0, {"spicy": "yes"}), (1, {"spicy": "no"}), (2, {}), (1, {"spicy": "no"})):
        row.nth(place).click()
        settle(page)
        assert shown(page) == expected(server, content, **given)
        assert [row.nth(n).get_attribute("aria-pressed") for n in range(3)] == [
            str(n == place).lower() for n in range(3)
        ]


def places(page):
    """Where in the window each button of the kinds stands, by its key."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#kind-list button[data-key]")]
            .filter((one) => one.offsetParent).map((one) => {
                const { x, y, width, height } = one.getBoundingClientRect();
                return [one.dataset.key, [x, y, width, height].map(Math.round)];
            }))"""
    )


def apart(one, two):
    return [first - second for first, second in zip(one, two, strict=True)]


@pytest.mark.parametrize("form", ["page", "phone"])
def test_what_one_can_tap_keeps_its_place_until_the_next_photo(request, server, form):
    page = request.getfixturevalue(form)
    open_page(page, server)
    choose(page, photo_bytes(2))
    keys = list(places(page))
    taps = [key for key in keys if key.startswith("restaurant=")][1:3]
    taps += [*[key for key in keys if key.endswith("=yes")][::3], taps[0], "spicy=unknown", taps[1]]
    for key in taps:
        button = page.locator(f'#kind-list [data-key="{key}"]')
        button.scroll_into_view_if_needed()
        before = places(page)
        button.click()
        settle(page)
        after = places(page)
        assert list(after) == list(before) == keys
        off = {one: (before[one], after[one]) for one in keys if max(map(abs, apart(before[one], after[one]))) > 1}
        assert off == {}
    choose(page, photo_bytes(5))
    assert list(places(page)) != keys  # for another photo the order is another


@pytest.mark.parametrize("form", ["page", "phone"])
def test_the_answer_stays_in_sight_while_one_tells_what_one_knows(request, server, form):
    page = request.getfixturevalue(form)
    content = photo_bytes(2)
    open_page(page, server)
    choose(page, content)
    if form == "page":
        page.set_viewport_size({"width": 1280, "height": 500})
    glance = page.locator("#glance")
    assert not glance.is_visible()
    button = page.locator("#kind-list [data-key='spicy=yes']")
    button.evaluate("one => one.scrollIntoView({ block: 'end' })")
    page.evaluate("document.getElementById('sentence').getBoundingClientRect().bottom >= 0 && scrollBy(0, 900)")
    glance.wait_for()
    button.evaluate("one => one.click()")
    settle(page)
    prediction = server.model.predict(Image.open(io.BytesIO(content)), given={"spicy": "yes"}, top=6)
    words = answer_words(prediction, {"spicy": "yes"}).lower()
    assert glance.locator("p").evaluate("one => one.firstChild.textContent").lower() in words
    box = glance.bounding_box()
    assert (box["y"], box["height"] < 90) == (0, True)
    glance.click()
    page.wait_for_selector("#glance", state="hidden")
    assert page.locator("#sentence").bounding_box()["y"] >= 0


def test_contradictory_evidence_is_said_in_words_and_can_be_taken_back(page, server, faults):
    content = photo_bytes(2)
    open_page(page, server)
    choose(page, content)
    box = page.get_by_role("combobox", name="Find a dish")
    box.fill("shumai")
    page.get_by_role("option", name="shumai").click()
    settle(page)
    page.get_by_role("group", name="ingredient").get_by_role("button", name="more").click()
    page.get_by_role("button", name="beef: yes").click()
    page.wait_for_selector("#notes .note")
    assert "no fine label of the graph agrees" in page.locator("#notes").inner_text()
    faults.lines = [line for line in faults.lines if "422" not in line]  # browsers note refused requests
    page.get_by_role("button", name="Remove ingredient: beef: yes").click()
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
    page.get_by_role("button", name="Remove dish: kung pao chicken").wait_for()
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


def test_several_photos_make_a_list_to_choose_from(page, server, faults):
    contents = [photo_bytes(seed) for seed in (11, 12)] + [b"<html>", photo_bytes(13)]
    open_page(page, server)
    page.set_input_files(
        "#file",
        [
            {"name": f"<b>{number}</b>.png", "mimeType": "image/png", "buffer": content}
            for number, content in enumerate(contents)
        ],
    )
    settle(page)
    assert shown(page) == expected(server, contents[0])
    entries = page.locator("#album button")
    best = [expected(server, content)[0] if number != 2 else None for number, content in enumerate(contents)]
    entries.nth(3).get_by_text(best[3][1]).wait_for()
    for number, answer in enumerate(best):
        name, _, words = entries.nth(number).get_attribute("aria-label").partition(": ")
        assert name == f"<b>{number}</b>.png"
        assert words == ("Unreadable photo" if answer is None else ", ".join(answer))
    page.get_by_role("group", name="restaurant").get_by_text("Lei Garden").click()
    settle(page)
    assert shown(page) == expected(server, contents[0], restaurant="Lei Garden")
    page.select_option("#risk", "0.2")
    settle(page)
    entries.nth(3).click()  # what was told of the first is not told of this one
    settle(page)
    assert shown(page) == expected(server, contents[3])
    assert page.locator("#evidence").inner_text() == ""
    assert [entries.nth(number).get_attribute("aria-pressed") for number in range(4)] == ["false"] * 3 + ["true"]
    prediction = server.model.predict(Image.open(io.BytesIO(contents[3])), top=6, risk=0.2)
    sentence = page.locator("#sentence").inner_text().lower().replace("\n", "; ")
    assert sentence == answer_words(prediction, {}).lower()
    entries.nth(2).click()
    page.wait_for_selector("#notes .note")
    assert "this is no photo of a known format" in page.locator("#notes").inner_text()
    assert not page.locator("#result").is_visible()
    choose(page, contents[1])
    assert not page.locator("#album").is_visible()
    assert shown(page) == expected(server, contents[1])
    faults.lines = [line for line in faults.lines if "422" not in line and "blob:" not in line]


def test_a_photo_that_the_server_failed_at_is_not_called_bad_and_can_be_asked_again(page, server, faults):
    contents = [photo_bytes(seed) for seed in (21, 22)]

    def fail(self, pictures):
        raise RuntimeError("a fault")

    open_page(page, server)
    entries = page.locator("#album button")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServedModel, "scores", fail)
        photos = [
            {"name": f"{number}.png", "mimeType": "image/png", "buffer": each} for number, each in enumerate(contents)
        ]
        page.set_input_files("#file", photos)
        for number in range(2):
            entries.nth(number).get_by_text("The server has a fault").wait_for()
    for number in (1, 0):
        entries.nth(number).click()
        settle(page)
        assert shown(page) == expected(server, contents[number])
        best = expected(server, contents[number])[0]
        assert entries.nth(number).get_attribute("aria-label") == f"{number}.png: {', '.join(best)}"
    faults.lines = [line for line in faults.lines if "500" not in line]


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
            assert page.locator("#evidence").inner_text().startswith("place: ")
            assert page.locator("main script, main svg, #result img, #kinds b").count() == 0
            headings = [heading.text_content() for heading in page.locator("#kinds h3").all()]
            assert headings == ["<b>dish</b>", "place"]


HOSTILE_NAMES = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "'\"><svg onload=window.hit=1>",
    "' onfocus=window.hit=1 autofocus='",
    "javascript:window.hit=1",
    "{{constructor.constructor('window.hit=1')()}} ${window.hit=1}",
    "</title></script><iframe srcdoc='<script>parent.hit=1</script>'>",
    "&lt;b&gt; &amp;amp; &#x3c;",
    "=HYPERLINK(1) ; surely \\u003cb\\u003e",
    "\u202eevil\u2066 100 %",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "z\u0301\u0302\u0303" * 12 + "\u200b\ufeff\u00ad\u2028.",
    "\U0001f469\u200d\U0001f373 \U0001f1e6\U0001f1e8 \ud7ff\ufffd",
    "W" * 900,
    "many words " * 90 + "end",
]


@pytest.mark.parametrize("form", FORMS)
def test_three_hundred_hostile_names_are_text_and_push_nothing_aside(request, faults, form):
    names = [f"{kind} {number}" for number in range(20) for kind in HOSTILE_NAMES]
    table = {name: {f"kind {HOSTILE_NAMES[0]}": names[-number - 1], "place": name} for number, name in enumerate(names)}
    page = request.getfixturevalue(form)
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(LabelGraph.from_table(table))) as server:
            page.on("dialog", lambda dialog: faults.lines.append(f"dialog: {dialog.message}"))
            open_page(page, server)
            content = photo_bytes(1)
            choose(page, content, name="<img src=x onerror=window.hit=1>\u202e.png")
            wanted = [label for label, _ in expected(server, content)]
            assert page.locator("#top .name").evaluate_all("all => all.map((one) => one.textContent)") == wanted
            options = page.get_by_role("option")
            listed = partial(options.evaluate_all, "all => all.map((one) => one.firstChild.textContent)")
            for number, name in enumerate(HOSTILE_NAMES):
                label = f"{name} {number}"  # all that hold its beginning are listed, also where it is very long
                box = page.get_by_role("combobox", name="Find a place")
                box.fill(label)
                until(lambda label=label: label in listed())
                box.fill("")
            page.get_by_role("group", name="place").get_by_role("button").first.click()
            settle(page)
            told = page.locator("#evidence button span").first.evaluate("one => one.textContent")
            assert told.removeprefix("place: ") in names
            assert page.evaluate("window.hit") is None
            assert page.locator("main :is(script, svg, iframe, math, object, a), #result img, #kinds b").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            tall = page.locator("#top li").evaluate_all("all => all.map((one) => one.offsetHeight)")
            assert max(tall) < 140
            assert max(len(text) for text in page.locator("#why b, #sentence").all_inner_texts()) < 500


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
    with another_model(server) as other:
        page.get_by_role("group", name="restaurant").get_by_text("Chef Yu").click()
        settle(page)
        assert shown(page) == expected_of(other, content, restaurant="Chef Yu")
    faults.lines = [line for line in faults.lines if "409" not in line]


def test_a_new_model_meanwhile_is_met_when_another_photo_is_chosen(page, server, faults):
    contents = [photo_bytes(seed) for seed in (31, 32)]
    open_page(page, server)
    photos = [
        {"name": f"{number}.png", "mimeType": "image/png", "buffer": each} for number, each in enumerate(contents)
    ]
    page.set_input_files("#file", photos)
    entries = page.locator("#album button")
    entries.nth(1).get_by_text(expected(server, contents[1])[0][1]).wait_for()
    page.select_option("#risk", "0.2")
    settle(page)
    with another_model(server) as other:
        entries.nth(1).click()  # its answer is of another risk, and its scores are of the old model
        settle(page)
        assert shown(page) == expected_of(other, contents[1], risk=0.2)
    faults.lines = [line for line in faults.lines if "409" not in line]


def test_with_a_token_the_page_asks_for_it_once(page, faults):
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(), security=Security(token="correct horse battery")) as server:
            page.goto(server.address)
            page.get_by_label("Token").fill("correct horse battery")
            page.get_by_role("button", name="Continue").click()
            page.wait_for_selector("body[data-ready]")
            assert "token" not in page.url
            choose(page, photo_bytes(1))
    faults.lines = [line for line in faults.lines if "401" not in line]
