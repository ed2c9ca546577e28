"""The page while something is on its way: taps, other photos, other models, faults, and who moves by keyboard."""

from pathlib import Path

import pytest
from page_steps import another_model, choose, expected, expected_of, give, held, open_page, settle, shown

import tiny_classifier as tiny
from finegraph.graph import LabelGraph
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json
from finegraph.graph.sample_menu import sample_menu
from finegraph.search.index_state import STATE
from finegraph.web.serve.answer_text import answer_words, percent
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import make_index
from serving import photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")
LOOKING = "Analysing the photo…"
GONE = "The server does not answer. It may have been stopped."
FOCUS = "document.activeElement.dataset.key"
IN_THE_LIST = "document.activeElement.closest('#kind-list') !== null"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with samples and an index."""
    root = tmp_path_factory.mktemp("meanwhile")
    for folder, seeds in (("samples", (7, 8)), ("photos", (70, 71, 72))):
        (root / folder).mkdir()
        for seed in seeds:
            tiny.picture(seed, width=200, height=150).save(root / folder / f"{seed}.png")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        patch.setenv("FINEGRAPH_CACHE", str(root / "cache"))
        model = tiny.classifier(sample_menu())
        model.save(root / "model")
        make_index(root / "model", [root / "photos"], root / "index", engine="torch")
        index = PhotoIndex.open_for(root / "index", ServedModel(model, "menu"))
        with running(model, index=index, samples=root / "samples") as found:
            found.index = root / "index"
            yield found


def chip(page, key):
    return page.locator(f'#kind-list [data-key="{key}"]')


def forget(faults, *texts):
    """Leave out what browsers note of requests that were refused or did not arrive, as the test wants it."""
    faults.lines = [line for line in faults.lines if not any(text in line for text in texts)]


def test_a_tap_while_similar_photos_are_looked_for_does_not_end_the_search(phone, server):
    content = photo_bytes(1)
    open_page(phone, server)
    with held(phone, "**/v1/search"):
        choose(phone, content)  # the answer is not dimmed by the search
        phone.get_by_text("Searching…").wait_for()
        chip(phone, "restaurant=Lei Garden").tap()
        settle(phone)
        assert shown(phone) == expected(server, content, restaurant="Lei Garden")
        assert phone.locator("#similar li").count() == 0
    phone.locator("#similar li").first.wait_for()
    assert phone.locator("#similar li").count() == 3
    assert not phone.get_by_text("Searching…").is_visible()


def test_another_photo_ends_the_search_for_the_one_before(page, server):
    contents = [photo_bytes(seed) for seed in (2, 3)]
    open_page(page, server)
    ended = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    with held(page, "**/v1/search"):
        choose(page, contents[0])
        page.get_by_text("Searching…").wait_for()
        with page.expect_event("requestfailed"):
            choose(page, contents[1])
    page.locator("#similar li").first.wait_for()
    assert ended == [f"{server.address}/v1/search"]
    assert shown(page) == expected(server, contents[1])


def test_an_index_that_cannot_be_opened_is_said_at_once_and_can_be_asked_again(page, server, faults):
    state = server.index / STATE
    whole = state.read_bytes()
    open_page(page, server)
    try:
        state.write_bytes(b"{")
        choose(page, photo_bytes(4))
        again = page.get_by_role("button", name="Search again")
        again.wait_for()
        assert "The index cannot be opened. The index was changed" in page.locator("#similar").inner_text()
        assert page.locator("#notes").inner_text() == ""
    finally:
        state.write_bytes(whole)
    again.click()
    page.locator("#similar li").first.wait_for()
    assert not again.is_visible()
    forget(faults, "503")


def test_the_answer_before_cannot_be_tapped_and_what_is_told_meanwhile_counts(page, server):
    contents = [photo_bytes(seed) for seed in (5, 6)]
    open_page(page, server)
    choose(page, contents[0])
    with held(page, "**/v1/predict"):
        give(page, contents[1])
        page.locator("#waiting").wait_for()
        for part in ("#result", "#why", "#similar"):
            assert not page.locator(part).is_visible()
        page.evaluate("document.querySelector('[data-key=\"restaurant=Lei Garden\"]').click()")
        page.locator("#risk").evaluate("one => { one.value = '0.2'; one.dispatchEvent(new Event('change')); }")
    settle(page)
    assert chip(page, "restaurant=Lei Garden").get_attribute("aria-pressed") == "true"
    assert shown(page) == expected(server, contents[1], restaurant="Lei Garden", risk=0.2)


def test_where_there_is_no_answer_that_of_the_photo_before_is_not_shown(page, server, faults):
    contents = [photo_bytes(seed) for seed in (7, 8)]
    open_page(page, server)
    give(page, *contents)
    entries = page.locator("#album button")
    entries.nth(1).get_by_text(expected(server, contents[1])[0][1]).wait_for()
    page.select_option("#risk", "0.2")
    settle(page)
    page.context.set_offline(True)
    entries.nth(1).click()  # its answer has another risk, so the server is asked
    page.locator("#notes").get_by_text(GONE).wait_for()
    assert not page.locator("#result").is_visible()
    page.context.set_offline(False)
    entries.nth(1).click()
    settle(page)
    assert shown(page) == expected(server, contents[1], risk=0.2)
    forget(faults, "ERR_INTERNET_DISCONNECTED")


def test_a_model_with_other_kinds_takes_over(page, server, faults):
    table = {
        label: {"place" if kind == "restaurant" else kind: parents for kind, parents in kinds.items()}
        for label, kinds in tiny.TABLE.items()
    }
    contents = [photo_bytes(seed) for seed in (9, 10)]
    headings = page.locator("#kinds h3")
    open_page(page, server)
    choose(page, contents[0])
    before = headings.all_inner_texts()
    chip(page, "restaurant=Lei Garden").click()
    settle(page)
    with another_model(server, LabelGraph.from_table(table)) as other:
        chip(page, "spicy=yes").press("Enter")
        page.locator("#notes").get_by_text("Your entries were removed.").wait_for()
        settle(page)
        assert shown(page) == expected_of(other, contents[0])
        assert page.locator("#evidence").inner_text() == ""
        assert headings.all_inner_texts() == ["Dish", "Place", "With", "Spicy"]
        assert "5 labels" in page.locator("#about").inner_text()
        assert page.evaluate(IN_THE_LIST)
        chip(page, "place=B").click()
        settle(page)
        assert page.locator("#notes").inner_text() == ""
        assert shown(page) == expected_of(other, contents[0], place="B")
    choose(page, contents[1])  # and back, by an answer that comes from yet another model
    assert shown(page) == expected(server, contents[1])
    assert headings.all_inner_texts() == before
    forget(faults, "409")


def test_a_model_with_the_same_kinds_but_another_label_takes_over(page, server, faults):
    renamed = graph_from_json(canonical_json(sample_menu()).replace('"Lei Garden"', '"Lei Palace"'))
    content = photo_bytes(11)
    open_page(page, server)
    choose(page, content)
    chip(page, "restaurant=Lei Garden").click()
    settle(page)
    with another_model(server, renamed) as other:
        chip(page, "spicy=yes").click()
        page.locator("#notes").get_by_text("Your entries were removed.").wait_for()
        settle(page)
        assert shown(page) == expected_of(other, content)
        chip(page, "restaurant=Lei Palace").click()
        settle(page)
        assert shown(page) == expected_of(other, content, restaurant="Lei Palace")
    forget(faults, "409", "422")


def test_a_photo_that_comes_before_the_model_is_known_waits_for_it(page, server):
    content = photo_bytes(12)
    with held(page, "**/v1/model"):
        page.goto(server.address)
        with page.expect_response("**/v1/predict"):
            give(page, content)
        page.locator("#waiting").wait_for()
    settle(page)
    assert shown(page) == expected(server, content)
    chip(page, "restaurant=Chef Yu").click()
    settle(page)
    assert shown(page) == expected(server, content, restaurant="Chef Yu")
    page.locator("#similar li").first.wait_for()


def test_a_model_that_could_not_be_had_is_asked_for_again_with_a_photo(page, server, faults):
    content = photo_bytes(13)
    page.route("**/v1/model", lambda route: route.abort(), times=1)
    page.goto(server.address)
    page.locator("#notes").get_by_text(GONE).wait_for()
    page.get_by_role("button", name="Try sample 1").wait_for()  # what did come is there
    choose(page, content)
    assert page.locator("#notes").inner_text() == ""
    assert shown(page) == expected(server, content)
    chip(page, "restaurant=Chef Yu").click()
    settle(page)
    assert shown(page) == expected(server, content, restaurant="Chef Yu")
    forget(faults, "ERR_FAILED")


def test_a_fault_of_the_page_is_said_and_the_next_tap_works(page, server, faults):
    content = photo_bytes(14)
    open_page(page, server)
    choose(page, content)
    page.route("**/v1/given", lambda route: route.fulfill(json={"prediction": {"top": None}}), times=1)
    chip(page, "restaurant=Lei Garden").click()
    page.locator("#notes").get_by_text("Something went wrong on this page.").wait_for()
    forget(faults, "TypeError")
    chip(page, "restaurant=Chef Yu").click()
    settle(page)
    assert page.locator("#notes").inner_text() == ""
    assert shown(page) == expected(server, content, restaurant={"Lei Garden", "Chef Yu"})


@pytest.mark.parametrize("form", ["page", "phone"])
def test_while_the_first_photo_is_on_its_way_the_page_says_so(request, server, form):
    page = request.getfixturevalue(form)
    content = photo_bytes(15)
    status = page.get_by_role("status")
    open_page(page, server)
    assert status.inner_text() == ""
    with held(page, "**/v1/predict"):
        give(page, content)
        page.locator("#waiting").get_by_text(LOOKING).wait_for()
        assert status.inner_text() == LOOKING
        box = page.locator("#waiting").bounding_box()
        assert box["y"] + box["height"] < page.viewport_size["height"]
    settle(page)
    assert not page.locator("#waiting").is_visible()
    prediction = server.model.predict(tiny.picture(15), top=6)
    assert status.inner_text() == answer_words(prediction, {})


def test_a_sample_that_cannot_be_had_is_said_and_nothing_is_sent(page, server, faults):
    content = photo_bytes(16)
    open_page(page, server)
    choose(page, content)
    sent = []
    page.on("request", lambda request: sent.append(request.url.removeprefix(server.address)))
    sample = page.get_by_role("button", name="Try sample 1")
    page.context.set_offline(True)
    sample.click()
    page.locator("#notes").get_by_text(GONE).wait_for()
    page.context.set_offline(False)
    path = Path(server.state.samples.paths[0])
    path.rename(path.with_suffix(".away"))
    try:
        sample.click()
        page.locator("#notes .note").filter(has_not_text=GONE).wait_for()
    finally:
        path.with_suffix(".away").rename(path)
    assert "/v1/predict" not in sent
    assert sample.get_attribute("aria-busy") is None
    assert shown(page) == expected(server, content)  # what was there stays
    sample.click()
    page.wait_for_selector("#notes:empty", state="attached")
    settle(page)
    prediction = server.model.predict(path, top=6)
    assert shown(page) == [(answer.label, percent(answer.probability)) for answer in prediction.top]
    forget(faults, "ERR_INTERNET_DISCONNECTED", "422")


def test_on_a_phone_a_note_is_in_sight_whatever_was_tapped(phone, server, faults):
    open_page(phone, server)
    choose(phone, photo_bytes(21))
    phone.locator("#similar li").first.wait_for()
    phone.context.set_offline(True)
    phone.get_by_role("button", name="Try sample 2").tap()  # below all else
    note = phone.locator("#notes").get_by_text(GONE)
    note.wait_for()
    box = note.bounding_box()
    assert 0 <= box["y"] <= 844 - box["height"]
    forget(faults, "ERR_INTERNET_DISCONNECTED")


def test_of_two_samples_the_last_that_was_tapped_is_looked_at(page, server):
    open_page(page, server)
    with held(page, "**/v1/samples/0"):
        page.get_by_role("button", name="Try sample 1").click()
        page.locator("#samples [aria-busy]").wait_for()
        page.get_by_role("button", name="Try sample 2").click()
        settle(page)
    page.locator("#samples [aria-busy]").wait_for(state="detached")
    prediction = server.model.predict(server.state.samples.paths[1], top=6)
    assert shown(page) == [(answer.label, percent(answer.probability)) for answer in prediction.top]


def test_the_keyboard_keeps_its_place_when_more_is_shown(page, server):
    open_page(page, server)
    choose(page, photo_bytes(17))
    row = page.get_by_role("group", name="ingredient").get_by_role("button")
    count = row.count()
    row.last.press("Enter")
    assert row.count() > count
    assert row.nth(count - 1).evaluate("one => one === document.activeElement")  # the first that was out of sight


def test_the_keyboard_keeps_its_place_when_something_is_taken_back(page, server):
    content = photo_bytes(18)
    told = page.locator("#evidence button")
    open_page(page, server)
    choose(page, content)
    for key in ("restaurant=Lei Garden", "spicy=yes"):
        chip(page, key).press("Enter")
        settle(page)
    told.first.press("Enter")
    settle(page)
    assert shown(page) == expected(server, content, spicy="yes")
    assert page.evaluate(FOCUS) == "evidence: spicy"
    page.keyboard.press("Enter")
    settle(page)
    assert shown(page) == expected(server, content)
    assert page.evaluate(IN_THE_LIST)
    for key in ("restaurant=Chef Yu", "spicy=yes"):
        chip(page, key).press("Enter")
        settle(page)
    page.get_by_role("button", name="Remove all").press("Enter")
    settle(page)
    assert shown(page) == expected(server, content)
    assert page.evaluate(IN_THE_LIST)


def test_the_enter_key_of_an_input_method_picks_nothing(page, server):
    content = photo_bytes(19)
    open_page(page, server)
    choose(page, content)
    box = page.get_by_role("combobox", name="Find a dish")
    box.fill("kung")
    page.get_by_role("option", name="kung pao chicken").wait_for()
    for event in ("{ key: 'Enter', isComposing: true }", "{ key: 'Enter', keyCode: 229 }"):
        box.evaluate(f"one => one.dispatchEvent(new KeyboardEvent('keydown', {event}))")
        assert box.input_value() == "kung"
        assert page.locator("#evidence").inner_text() == ""
    box.press("Enter")
    settle(page)
    assert shown(page) == expected(server, content, dish="kung pao chicken")


def test_a_field_that_cannot_ask_the_server_says_so(page, server, faults):
    open_page(page, server)
    choose(page, photo_bytes(20))
    page.context.set_offline(True)
    page.get_by_role("combobox", name="Find a dish").fill("kung")
    page.get_by_role("listbox", name="Find a dish").get_by_text(GONE).wait_for()
    page.context.set_offline(False)
    forget(faults, "ERR_INTERNET_DISCONNECTED")
