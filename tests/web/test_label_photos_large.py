"""Photos as large as the window, and addresses that open a class and one of its photos."""

from urllib.parse import quote, urlencode

import pytest
from label_hands import SHUMAI, TOFU, Held, enter, focused_kind, press, saved, wait_until
from label_server import menu_session, photo_folder, serving
from playwright.sync_api import expect

from finegraph.web.label import class_routes


def shown(page):
    """The photo that is shown large, by the end of its name."""
    return page.locator(".lightbox img").get_attribute("alt")


def loaded(page):
    wait_until(page, lambda: page.evaluate("document.querySelector('.lightbox img')?.naturalWidth > 0"))


def test_a_photo_is_enlarged_by_key_and_left_again(session, server, page):
    enter(page, server)
    press(page, "Space")
    loaded(page)
    assert shown(page) == f"{TOFU}/0.jpg"
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")  # the third is the last
    assert shown(page) == f"{TOFU}/2.jpg"
    expect(page.locator(".lightbox")).to_contain_text("3 of 3")
    press(page, "ArrowLeft")
    assert shown(page) == f"{TOFU}/1.jpg"
    press(page, "Escape")
    expect(page.locator(".lightbox")).to_have_count(0)
    press(page, "ArrowDown", "2")  # the keys are for the class again
    saved(page)
    assert session.store.cell(TOFU, "restaurant").value == "Lei Garden"
    press(page, "Space")
    assert shown(page) == f"{TOFU}/1.jpg"  # where the person was
    press(page, "Space")
    expect(page.locator(".lightbox")).to_have_count(0)


def test_a_click_enlarges_and_labels_stay_those_of_the_class(session, server, page):
    enter(page, server)
    page.locator(".thumb").nth(2).click()
    assert shown(page) == f"{TOFU}/2.jpg"
    page.get_by_role("button", name="Close").click()
    press(page, "ArrowDown", "2")
    saved(page)
    assert session.store.photo_labels() == []
    page.locator(".thumb").nth(1).click()
    press(page, "p")  # now they are for the photo
    page.wait_for_selector(".thumb.focus")
    assert focused_kind(page) == "restaurant"
    press(page, "1")
    saved(page)
    assert [label.value for label in session.store.photo_labels()] == ["Chef Yu"]
    page.locator(".large img").click()
    assert shown(page) == f"{TOFU}/1.jpg"


def test_photos_of_the_grid_are_enlarged(server, page):
    enter(page, server, place="#grid=spicy")
    press(page, "Space")
    loaded(page)
    assert shown(page) == f"{TOFU}/0.jpg"
    press(page, "Escape")
    expect(page.locator(".lightbox")).to_have_count(0)  # until then keys are for the photo
    press(page, "ArrowDown")
    expect(page.locator(f'.grid-row.focus:not([data-fine="{TOFU}"])')).to_have_count(1)
    press(page, "Space")
    expect(page.locator(".toast")).to_contain_text("no photos")
    page.get_by_label("Search classes").last.fill("shumai")
    page.locator(f'[data-fine="{SHUMAI}"] .tiny').click()
    loaded(page)
    assert shown(page) == f"{SHUMAI}/0.jpg"


def test_a_finger_turns_photos(server, phone):
    enter(phone, server)
    phone.locator(".thumb").first.tap()
    loaded(phone)
    swipe = """to => {
        const stage = document.querySelector(".lightbox .stage");
        const told = (x) => ({ clientX: x, isPrimary: true, bubbles: true });
        const at = (type, x) => stage.dispatchEvent(new PointerEvent(type, told(x)));
        at("pointerdown", 200);
        at("pointerup", 200 + to);
    }"""
    phone.evaluate(swipe, -90)
    assert shown(phone) == f"{TOFU}/1.jpg"
    phone.evaluate(swipe, 90)
    assert shown(phone) == f"{TOFU}/0.jpg"
    phone.evaluate(swipe, -9)  # a touch that moved a little is none
    assert shown(phone) == f"{TOFU}/0.jpg"
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.get_by_role("button", name="Next photo").tap()
    assert shown(phone) == f"{TOFU}/1.jpg"
    phone.get_by_role("button", name="Close").tap()
    expect(phone.locator(".lightbox")).to_have_count(0)


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("photo", [f"{SHUMAI}/1.jpg", "1.jpg"], ids=["its key", "its file"])
@pytest.mark.parametrize("encode", [urlencode, lambda fields: urlencode(fields, quote_via=quote)], ids=["+", "%20"])
def test_an_address_opens_a_class_and_a_photo(server, page, photo, encode):
    enter(page, server, place="#" + encode({"class": SHUMAI, "photo": photo}))
    loaded(page)
    assert shown(page) == f"{SHUMAI}/1.jpg"
    press(page, "Escape")
    expect(page.locator("h1")).to_have_text(SHUMAI)
    wait_until(page, lambda: page.url.endswith("#class=" + quote(SHUMAI, safe="")))


def test_an_open_page_follows_another_address(server, page):
    enter(page, server)
    page.evaluate("hash => (location.hash = hash)", "#" + urlencode({"class": SHUMAI, "photo": "2.jpg"}))
    loaded(page)
    assert shown(page) == f"{SHUMAI}/2.jpg"


def test_a_key_for_the_class_before_is_not_for_that_of_another_address(session, server, page):
    enter(page, server)
    held = Held(page, "**/api/class?*")
    press(page, "ArrowRight", "ArrowRight", "2")  # the first is there already, the second is on its way
    held.wait()
    page.evaluate("hash => (location.hash = hash)", "#" + urlencode({"class": SHUMAI}))
    held.wait(2)
    held.let_go()
    expect(page.locator("h1")).to_have_text(SHUMAI)
    press(page, "ArrowDown", "1")
    saved(page)
    wait_until(page, lambda: session.store.cell(SHUMAI, "restaurant").by == "Ann")
    assert session.store.cell(SHUMAI, "dish").by != "Ann"


def test_an_address_without_a_photo_opens_the_class(server, page):
    enter(page, server, place="#" + urlencode({"class": SHUMAI}))
    expect(page.locator("h1")).to_have_text(SHUMAI)
    expect(page.locator(".lightbox")).to_have_count(0)


def test_a_photo_that_is_not_there_is_told(server, page):
    enter(page, server, place="#" + urlencode({"class": SHUMAI, "photo": "9.jpg"}))
    expect(page.locator(".toast.fault")).to_contain_text("no photo “9.jpg”")
    expect(page.locator("h1")).to_have_text(SHUMAI)


def test_a_photo_beyond_those_that_are_listed_is_opened_too(tmp_path, page, monkeypatch):
    monkeypatch.setattr(class_routes, "MAX_PHOTOS", 2)
    photos = photo_folder(tmp_path / "photos", [TOFU], each=5)
    with menu_session(tmp_path, data=str(photos)) as session, serving(session) as server:
        enter(page, server, place="#" + urlencode({"class": TOFU, "photo": "4.jpg"}))
        loaded(page)
        assert shown(page) == f"{TOFU}/4.jpg"
        page.goto("about:blank")
