"""Long names that are alike: what tells them apart is always in sight, as is what is chosen."""

import pytest
from label_hands import enter, press, saved
from label_server import serving, table_session
from playwright.sync_api import expect

CARS = [
    "Chevrolet Silverado 1500 Hybrid Crew Cab 2012",
    "Chevrolet Silverado 1500 Extended Cab 2012",
    "Chevrolet Silverado 1500 Regular Cab 2012",
    "Chevrolet Silverado 2500HD Regular Cab 2012",
    "Ford F-150 Regular Cab 2012",
    "Ford F-150 Regular Cab 2007",
    "BMW M3 Coupe 2012",
]
TELLING = ["1500 Hybrid Crew", "1500 Extended", "1500 Regular", "2500HD Regular", "2012", "2007"]
BEDS = [f"pickup truck with a {size} bed and {doors} doors" for size in ("long", "short") for doors in ("two", "four")]
EXTRAS = ["hybrid", "crew cab", "leather seats", "towing hook", "roof rack", "snow chains", "running boards", "spare"]

IN_SIGHT = """element => {
    const box = element.getBoundingClientRect();
    const within = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
        && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
    for (let parent = element.parentElement; parent; parent = parent.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(parent);
        const clips = overflowX !== "visible" || overflowY !== "visible";
        if (clips && !within(box, parent.getBoundingClientRect())) return false;
    }
    return element.scrollWidth <= element.clientWidth + 1 && element.scrollHeight <= element.clientHeight + 1;
}"""


@pytest.fixture
def cars(tmp_path):
    rows = [[car, BEDS[number % 4], " & ".join(EXTRAS)] for number, car in enumerate(CARS)]
    with table_session(tmp_path, ["fine", "bed", "extras"], rows) as session, serving(session) as server:
        yield server


def told_apart(page, selector):
    """The parts of names that tell them apart, of those that are wholly in sight."""
    parts = page.locator(f"{selector} .differing").all()
    return [part.inner_text().strip() for part in parts if part.evaluate(IN_SIGHT)]


@pytest.mark.parametrize("device", ["page", "phone"])
@pytest.mark.parametrize(("place", "selector"), [("", ".list-row"), ("#/grid/bed", ".grid-name")])
def test_what_tells_names_apart_is_in_sight(cars, request, device, place, selector):
    page = enter(request.getfixturevalue(device), cars, place=place)
    if device == "phone" and selector == ".list-row":  # three rows are in sight there
        page.locator(".list-rows").evaluate("element => (element.style.height = '400px')")
        page.locator(".class-list").evaluate("element => (element.style.height = '600px')")
    expect(page.locator(selector)).to_have_count(len(CARS))
    assert [name.inner_text() for name in page.locator(f"{selector} .name-pieces").all()] != []
    assert told_apart(page, selector)[: len(TELLING)] == TELLING
    assert [name.text_content() for name in page.locator(f"{selector} .name-pieces").all()] == CARS


@pytest.mark.parametrize("device", ["page", "phone"])
def test_labels_are_told_apart_in_the_grid(cars, request, device):
    page = enter(request.getfixturevalue(device), cars, place="#/grid/bed")
    for number in range(4):
        part = page.locator(".grid-row").nth(number).locator(".option[aria-pressed=true] .differing")
        assert part.inner_text() in (
            "long bed and two ",
            "long bed and four ",
            "short bed and two ",
            "short bed and four ",
        )
        assert part.evaluate(IN_SIGHT), number


def test_the_whole_of_a_label_stands_in_the_class(cars, page):
    enter(page, cars)
    for option in page.locator("[data-kind=bed] .option .name-pieces").all():
        assert option.evaluate(IN_SIGHT)


@pytest.mark.parametrize("device", ["page", "phone"])
def test_the_row_in_focus_shows_what_is_chosen(cars, request, device):
    page = enter(request.getfixturevalue(device), cars, place="#/grid/bed")
    for key in "4321":
        press(page, key)
        saved(page)
        press(page, "ArrowUp")
        chosen = page.locator(".grid-row.focus .option[aria-pressed=true]")
        expect(chosen).to_have_attribute("title", BEDS[int(key) - 1])
        assert chosen.locator(".differing").evaluate(IN_SIGHT), key
        page.locator(".grid-row.focus .options").evaluate("options => (options.scrollLeft = 9999)")
        assert chosen.locator(".differing").evaluate(IN_SIGHT), key


def test_several_chosen_labels_stand_before_the_others(cars, phone):
    enter(phone, cars, place="#/grid/extras")
    summary = phone.locator(".grid-row.focus .chosen")
    expect(summary).to_have_attribute("title", " & ".join(EXTRAS))
    press(phone, *"2345678")
    expect(phone.locator(".grid-row.focus .chosen")).to_have_count(0)  # one label is its own button
    expect(phone.locator(".grid-row.focus .option[aria-pressed=true]")).to_have_attribute("title", "hybrid")
    press(phone, "8")
    expect(summary).to_have_text("hybrid & spare")
    phone.locator(".grid-row.focus .options").evaluate("options => (options.scrollLeft = 9999)")
    assert summary.evaluate(IN_SIGHT)
