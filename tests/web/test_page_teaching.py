"""The page learns: a label from the list, a new one with its coarse labels, what changed, and undo."""

import os

import pytest
from page_steps import choose, open_page, settle, shown
from PIL import Image
from playwright.sync_api import expect
from test_serve_lessons import _file

import finegraph as fg
import tiny_classifier as tiny
from finegraph.graph import Number
from serving import running
from taught_classifier import fitted, photo_of

pytestmark = pytest.mark.usefixtures("unchecked")

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
ON_SCREENS = ["phone", pytest.param("desktop", marks=pytest.mark.slow)]


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server that takes lessons. In every test it comes before the page, which asks until its end."""
    tiny.register(monkeypatch)
    fitted().save(tmp_path / "model")
    with running(fg.load(tmp_path / "model"), teach=True) as found:
        found.folder = tmp_path / "model"
        yield found


@pytest.fixture
def photo():
    return _file(9)[0][1][1]


def _picture_of(page, name):
    """Keep a picture of the page if a folder for it is named, to be looked at by people."""
    if folder := os.environ.get("FINEGRAPH_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.mark.parametrize("screen", ON_SCREENS)
def test_a_label_of_the_list_and_undo(server, page, photo, screen):
    page.set_viewport_size(SCREENS[screen])
    open_page(page, server)
    choose(page, photo)
    before = shown(page)
    teach = page.locator("#teach")
    _picture_of(page, f"{screen}-closed")
    teach.get_by_role("button", name="No, this is").click()
    field = teach.get_by_role("combobox")
    field.fill("kung pao @ A")
    teach.get_by_role("option", name="kung pao @ A").click()
    teach.get_by_label("Your name").fill("Ada")
    _picture_of(page, f"{screen}-chosen")
    teach.get_by_role("button", name="Teach it").click()
    teach.get_by_role("heading", name="Learned").wait_for()
    settle(page)
    _picture_of(page, f"{screen}-learnt")
    assert teach.locator(".changes tbody tr").first.inner_text().split("\n")[0].startswith("kung pao @ A")
    after = shown(page)
    assert after != before
    (lesson,) = fg.load(server.folder).lessons
    assert (lesson.label, lesson.person, lesson.forgotten) == ("kung pao @ A", "Ada", False)
    teach.get_by_role("button", name="Undo").click()
    teach.get_by_role("heading", name="Removed").wait_for()
    settle(page)
    assert shown(page) == before
    assert fg.load(server.folder).lessons[0].forgotten
    teach.get_by_role("button", name="Done").click()
    teach.get_by_role("button", name="No, this is").wait_for()


@pytest.mark.parametrize("screen", ON_SCREENS)
def test_a_new_label_with_its_coarse_labels(server, page, photo, screen):
    page.set_viewport_size(SCREENS[screen])
    open_page(page, server)
    choose(page, photo)
    teach = page.locator("#teach")
    teach.get_by_role("button", name="No, this is").click()
    teach.get_by_role("button", name="It is not in the list").click()
    teach.get_by_label("Its name").fill("mapo tofu @ C")
    teach.get_by_label("dish").fill("mapo tofu")
    teach.get_by_label("restaurant").fill("C")
    teach.get_by_role("button", name="tofu", exact=True).click()
    teach.get_by_label("spicy").select_option("yes")
    _picture_of(page, f"{screen}-new")
    teach.get_by_role("button", name="Teach it").click()
    teach.get_by_role("heading", name="Learned").wait_for()
    settle(page)
    _picture_of(page, f"{screen}-new-learnt")
    assert "New: mapo tofu @ C, restaurant C" in teach.inner_text()
    assert "mapo tofu @ C" in [label for label, _ in shown(page)]
    parents = fg.load(server.folder).lessons[0].parents
    assert parents["with: tofu"] == "yes"
    assert parents["with: pork"] == "no"
    assert (parents["restaurant"], parents["spicy"]) == ("C", "yes")
    teach.get_by_role("button", name="Done").click()
    teach.get_by_text("Lessons so far").click()
    teach.get_by_role("button", name="Remove").click()
    teach.get_by_role("button", name="No, this is").wait_for()
    settle(page)
    expect(page.locator("#top li").filter(has_text="@ C")).to_have_count(0)


def test_the_name_of_the_person_is_recorded_after_yes_too(server, page, photo):
    open_page(page, server)
    choose(page, photo)
    teach = page.locator("#teach")
    teach.get_by_label("Your name").fill("Ada")
    teach.get_by_role("button", name="Yes").click()
    teach.get_by_role("heading", name="Learned").wait_for()
    assert [lesson.person for lesson in fg.load(server.folder).lessons] == ["Ada"]


def test_the_name_lasts_where_the_browser_keeps_nothing(server, page, photo):
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });")
    open_page(page, server)
    choose(page, photo)
    teach = page.locator("#teach")
    teach.get_by_label("Your name").fill("Ada")
    teach.get_by_role("button", name="Yes").click()
    teach.get_by_role("heading", name="Learned").wait_for()
    assert [lesson.person for lesson in fg.load(server.folder).lessons] == ["Ada"]


def test_the_page_shows_what_predict_says_of_the_label_and_its_relatives(server, page, photo):
    chances = []
    open_page(page, server)
    choose(page, photo)
    client = server.client
    asked = {
        "files": [("photo", ("a.png", photo if isinstance(photo, bytes) else photo.read_bytes()))],
        "data": {"top": "5"},
    }
    chances.append(
        {one["label"]: one["probability"] for one in client.post("/v1/predict", **asked).json()["photos"][0]["top"]}
    )
    teach = page.locator("#teach")
    teach.get_by_role("button", name="No, this is").click()
    teach.get_by_role("combobox").fill("kung pao @ A")
    teach.get_by_role("option", name="kung pao @ A").click()
    teach.get_by_role("button", name="Teach it").click()
    teach.get_by_role("heading", name="Learned").wait_for()
    chances.append(
        {one["label"]: one["probability"] for one in client.post("/v1/predict", **asked).json()["photos"][0]["top"]}
    )
    rows = teach.locator(".changes tbody tr")
    assert rows.count() == 5
    for number in range(5):
        cells = rows.nth(number)
        label = cells.locator("th").get_attribute("title")
        for chance, column in zip(chances, (0, 1), strict=True):
            said = cells.locator("td .value").nth(column).inner_text()
            value = 100 * chance[label]
            assert said in (f"{value:.0f} %", "under 1 %" if value < 0.5 else "over 99 %" if value >= 99.5 else "")
    assert "the same dish" in teach.locator(".changes").inner_text()


def test_a_new_label_without_the_photo_and_with_values(page, tmp_path, monkeypatch, photo):
    tiny.register(monkeypatch)
    graph = fitted().graph
    fitted(graph.with_number(Number.from_values("price", range(5, 5 + len(graph)), unit="EUR"))).save(
        tmp_path / "model"
    )
    with running(fg.load(tmp_path / "model"), teach=True) as server:
        open_page(page, server)
        choose(page, photo)
        teach = page.locator("#teach")
        teach.get_by_role("button", name="No, this is").click()
        teach.get_by_role("button", name="It is not in the list").click()
        teach.get_by_label("Its name").fill("mapo tofu @ C")
        teach.get_by_label("This photo shows it").uncheck()
        teach.get_by_label("price in EUR").fill("12.5 +- 1.5")
        _picture_of(page, "new-without-photo")
        teach.get_by_role("button", name="Teach it").click()
        teach.get_by_role("heading", name="Learned").wait_for()
        assert "Without a photo: mapo tofu @ C." in teach.inner_text()
        model = fg.load(tmp_path / "model")
        assert model.lessons[0].photos == ()
        assert (model.graph.number("price").values[-1], model.graph.number("price").spreads[-1]) == (12.5, 1.5)
        page.goto("about:blank")  # it asks again and again


def test_what_is_refused_is_said_and_the_form_stays(server, page, photo, faults):
    open_page(page, server)
    choose(page, photo)
    teach = page.locator("#teach")
    teach.get_by_role("button", name="No, this is").click()
    teach.get_by_role("button", name="It is not in the list").click()
    teach.get_by_label("Its name").fill("Egg rice @ b")
    teach.get_by_role("button", name="Teach it").click()
    teach.get_by_role("alert").get_by_text("the graph has 'egg rice @ B' already").wait_for()
    assert teach.get_by_label("Its name").input_value() == "Egg rice @ b"
    faults.lines[:] = [line for line in faults.lines if "422" not in line]
    assert fg.load(server.folder).lessons == ()


def test_a_page_of_a_server_that_takes_no_lessons_offers_none(page, tmp_path, monkeypatch, photo):
    tiny.register(monkeypatch)
    fitted().save(tmp_path / "model")
    with running(fg.load(tmp_path / "model")) as server:
        open_page(page, server)
        choose(page, photo)
        assert page.locator("#teach").is_hidden()


def test_names_are_text_and_nothing_else(server, page, photo):
    odd = '<img src=x onerror="document.title=1">'
    fg.load(server.folder).teach(odd, [photo_of(9, 0)], parents={"dish": odd}, person=odd)
    open_page(page, server)
    choose(page, photo)
    page.locator("#teach").get_by_text("Lessons so far").click()
    page.locator("#teach li").get_by_text(odd).first.wait_for()
    assert page.title() == "finegraph"


@pytest.mark.parametrize("screen", ON_SCREENS)
def test_photos_to_label_come_one_after_the_other(page, tmp_path, monkeypatch, screen):
    tiny.register(monkeypatch)
    model = fitted()
    model.save(tmp_path / "model")
    photos = []
    for label in (3, 0, 2):
        photos.append(tmp_path / f"photo of {label}.png")
        Image.fromarray(photo_of(label, 60)).save(photos[-1])
    with running(fg.load(tmp_path / "model"), teach=True, to_label=tuple(photos)) as server:
        page.set_viewport_size(SCREENS[screen])
        page.goto(server.address)
        teach, list_of = page.locator("#teach"), page.locator("#samples")
        teach.get_by_role("button", name="Yes").wait_for()  # the first photo is there by itself
        settle(page)
        _picture_of(page, f"{screen}-to-label")
        first = page.locator("#top li").first.locator(".name, b").first.inner_text()
        assert list_of.get_by_role("heading").inner_text() == "To label, most informative first"
        teach.get_by_role("button", name="Yes").click()
        teach.get_by_role("button", name="Next (2 left)").wait_for()
        settle(page)
        _picture_of(page, f"{screen}-labelled")
        assert list_of.locator(".labelled").count() == 1
        assert [one.label for one in fg.load(tmp_path / "model").lessons] == [first]
        teach.get_by_role("button", name="Next (").click()
        teach.get_by_role("button", name="Skip").click()
        page.locator("#samples li:nth-child(3) [aria-pressed=true]").wait_for()
        teach.get_by_role("button", name="No, this is").click()
        teach.get_by_role("combobox").fill("kung pao @ A")
        teach.get_by_role("option", name="kung pao @ A").click()
        teach.get_by_role("button", name="Teach it").click()
        teach.get_by_role("button", name="Next (1 left)").click()  # the one that was skipped
        page.locator("#samples li:nth-child(2) [aria-pressed=true]").wait_for()
        teach.get_by_role("button", name="Yes").click()
        teach.get_by_role("heading", name="Learned").wait_for()
        assert teach.get_by_role("button", name="Next (").count() == 0
        lessons = fg.load(tmp_path / "model").lessons
        assert [one.photos[0].name for one in lessons] == [photos[0].name, photos[2].name, photos[1].name]
        teach.get_by_role("button", name="Undo").click()
        teach.get_by_role("heading", name="Removed").wait_for()
        assert list_of.locator(".labelled").count() == 2
        settle(page)  # the answer is asked for again
