"""The page asks and warns: the question that helps most, evidence that contradicts the photo, photos that follow it."""

import io

import pytest
from page_steps import FORMS, choose, expected, open_page, settle, shown
from PIL import Image

import tiny_classifier as tiny
from finegraph.graph.sample_menu import sample_menu
from finegraph.web.serve.answer_text import percent
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import make_index
from serving import photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with an index of two photos of each of six fine labels."""
    root = tmp_path_factory.mktemp("asking")
    graph = sample_menu()
    for number, label in enumerate(graph.fine[:6]):
        (root / "photos" / label).mkdir(parents=True)
        for seed in (0, 1):
            tiny.picture(10 * number + seed).save(root / "photos" / label / f"{seed}.png")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        patch.setenv("FINEGRAPH_CACHE", str(root / "cache"))
        model = tiny.classifier(graph, temperature=2.0)  # so that there is something to ask
        model.save(root / "model")
        make_index(root / "model", [root / "photos"], root / "index", engine="torch")
        index = PhotoIndex.open_for(root / "index", ServedModel(model, "menu"))
        with running(model, index=index) as found:
            found.photos = root / "photos"
            yield found


def predicted(server, content, **given):
    return server.model.predict(Image.open(io.BytesIO(content)), given=given, questions=6)


def ask_until(page, server, wanted):
    """Choose a photo with a question that is wanted, and say of those before it that one does not know."""
    for seed in range(60):
        content = photo_bytes(seed)
        asked = predicted(server, content).questions
        before = [number for number, question in enumerate(asked) if wanted(question)]
        if before:
            break
    else:
        raise AssertionError("no photo has such a question")
    open_page(page, server)
    choose(page, content)
    for question in asked[: before[0]]:
        assert question.text in page.locator("#question").inner_text()
        page.locator("#question").get_by_role("button", name="I don’t know").click()
    return content, asked, asked[before[0]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("binary", [False, True])
def test_the_question_that_helps_most_is_asked_and_its_answer_counts(request, server, form, binary):
    page = request.getfixturevalue(form)
    content, asked, question = ask_until(page, server, lambda one: one.binary == binary)
    card = page.locator("#question")
    text = card.inner_text()
    assert question.text in text
    assert f"from {percent(question.before)} to {percent(question.after)} on average" in text
    assert (question.settles < 0.005) == ("decides it" not in text)
    button = card.get_by_role("button").first
    label = "yes" if binary else button.get_attribute("data-key").removeprefix("label ")
    button.click()
    settle(page)
    assert shown(page) == expected(server, content, **{question.kind: label})
    pressed = page.locator(f'#kind-list [data-key="{question.kind}={label}"]')
    assert pressed.get_attribute("aria-pressed") == "true"
    skipped = asked[: asked.index(question)]
    rest = predicted(server, content, **{question.kind: label}).questions
    rest = [one for one in rest if one.kind not in {other.kind for other in skipped}]
    assert skipped or (rest[0].text if rest else "Nothing is left to ask that would help.") in card.inner_text()


def test_what_one_does_not_know_is_not_asked_again_until_the_next_photo(page, server):
    content, asked, first = ask_until(page, server, lambda question: True)
    card = page.locator("#question")
    skip = card.get_by_role("button", name="I don’t know")
    assert asked[0] == first
    for question in asked:
        assert question.text in card.inner_text()
        skip.press("Enter")
    assert "You skipped every question that would help." in card.inner_text()
    assert page.locator("#evidence").inner_text() == ""
    assert card.get_by_role("button", name="Ask again").evaluate("one => one === document.activeElement")
    choose(page, photo_bytes(999))
    choose(page, content)
    assert asked[0].text in card.inner_text()


def test_the_second_half_of_a_double_tap_answers_nothing(page, server):
    content, _, question = ask_until(page, server, lambda one: one.binary)
    page.locator("#question").get_by_role("button", name="No", exact=True).dblclick()
    settle(page)
    assert shown(page) == expected(server, content, **{question.kind: "no"})
    assert page.locator("#evidence button").count() == 1


def test_another_label_than_those_offered_is_found_in_the_field_of_its_kind(page, server):
    page.set_viewport_size({"width": 1000, "height": 400})
    ask_until(page, server, lambda one: one.kind == "dish")
    page.locator("#question").get_by_role("button", name="Another one…").click()
    field = page.get_by_role("combobox", name="Find a dish")
    assert field.evaluate("one => one === document.activeElement")


def surprising(server):
    """A photo, and a kind and a label that contradict it and stand on the page."""
    for seed in range(60):
        content = photo_bytes(seed)
        for kind, answers in predicted(server, content).kinds.items():
            for answer in answers[:5] if not server.model.graph.kind(kind).binary else ():
                if predicted(server, content, **{kind: answer.label}).contradicts_photo:
                    return content, kind, answer.label, answers[0]
    raise AssertionError("nothing contradicts any photo")


@pytest.mark.parametrize("form", FORMS)
def test_evidence_that_contradicts_the_photo_is_said_to_and_nothing_is_sure(request, server, form):
    page = request.getfixturevalue(form)
    content, kind, label, likely = surprising(server)
    open_page(page, server)
    choose(page, content)
    assert not page.locator("#alone").is_visible()
    page.locator(f'#kind-list [data-key="{kind}={label}"]').click()
    settle(page)
    text = page.locator("#answer").inner_text()
    assert "surely" not in text.lower().replace("“surely”", "")
    assert "but the photo alone gave that 1 in " in text.lower()
    assert "The photo contradicts what you entered." in text
    page.get_by_role("button", name=f"Remove {kind}: {label}").click()
    settle(page)
    assert not page.locator("#alone").is_visible()
    page.locator(f'#kind-list [data-key="{kind}={likely.label}"]').click()
    settle(page)
    words = page.locator("#alone").inner_text()
    assert words == f"From the photo alone, the probability of what you entered is {percent(likely.probability)}."


def test_similar_photos_say_whether_they_follow_what_was_told(page, server):
    content = photo_bytes(2)
    open_page(page, server)
    choose(page, content)
    words, photos = page.locator("#similar-words"), page.locator("#similar li")
    photos.first.wait_for()
    assert (words.inner_text(), photos.count()) == ("By appearance only.", 12)
    restaurants = {label.partition(" @ ")[2] for label in server.model.graph.fine[:6]}
    told = page.locator("#kind-list [data-key^='restaurant=']")
    buttons = {told.nth(n).get_attribute("data-key").partition("=")[2]: told.nth(n) for n in range(told.count())}
    one, two = sorted(restaurants & buttons.keys())[:2]
    buttons[one].click()
    settle(page)
    assert "your entries are ignored" in words.inner_text()
    words.get_by_role("button", name="Only those that agree").click()
    words.get_by_text("Only photos that agree with your entries.").wait_for()
    assert {text.split("\n")[0].partition(" @ ")[2] for text in photos.all_inner_texts()} == {one}
    few = photos.count()
    buttons[two].click()  # or that one: the photos follow
    settle(page)
    photos.nth(few).wait_for()
    assert {text.split("\n")[0].partition(" @ ")[2] for text in photos.all_inner_texts()} == {one, two}
    words.get_by_role("button", name="Show all").click()
    words.get_by_text("By appearance only").wait_for()
    assert photos.count() == 12


@pytest.mark.parametrize("form", FORMS)
def test_a_photo_that_is_in_the_index_is_said_to_be(request, server, form):
    page = request.getfixturevalue(form)
    copies = [{"label": "<i>mapo</i> tofu", "guess": None}, {"label": None, "guess": "ramen"}]

    def stored(route):
        answer = route.fetch().json()
        answer["photos"][0]["in_index"] = copies
        route.fulfill(json=answer)

    open_page(page, server)
    page.route("**/v1/predict", stored, times=1)
    choose(page, photo_bytes(1))
    words = "This photo is in the index as <i>mapo</i> tofu and as one without a label, perhaps ramen."
    assert page.locator("#stored").inner_text() == words
    page.locator("#kind-list .labels button").first.click()  # it stays so, whatever is told
    settle(page)
    assert page.locator("#stored").inner_text() == words
    choose(page, photo_bytes(999))
    assert not page.locator("#stored").is_visible()


def test_a_tap_on_the_page_of_many_labels_moves_little_and_answers_the_same(page, monkeypatch):
    tiny.register(monkeypatch)
    table = {f"item {n}": {"dish": f"dish {n % 6000}", "place": f"place {n % 5}"} for n in range(20_000)}
    with running(tiny.classifier(table, temperature=2.0)) as server:
        moved = {}

        def measure(request):
            if "/v1/" in request.url:
                sizes = request.sizes()
                moved[request.url.rpartition("/")[2]] = (sizes["requestBodySize"], sizes["responseBodySize"])

        page.on("requestfinished", measure)
        content = photo_bytes(4)
        open_page(page, server)
        choose(page, content)
        assert shown(page) == expected(server, content)
        page.locator('#kind-list [data-key^="place="]').first.click()
        settle(page)
        pressed = page.locator('#kind-list [data-key^="place="][aria-pressed="true"]')
        label = pressed.get_attribute("data-key").removeprefix("place=")
        assert shown(page) == expected(server, content, place=label)
        assert max(moved["given"]) < 100_000
        assert moved["predict"][1] < 100_000
