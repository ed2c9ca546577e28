"""Numbers on the page and in the API: what is said of a price, and a range as evidence."""

import httpx
import pytest
from page_steps import choose, expected, open_page, settle, shown

import tiny_classifier as tiny
from finegraph.graph import LabelGraph
from serving import photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")

TABLE = {
    "mapo tofu @ A": {"dish": "mapo tofu", "heat": "hot", "price": 12.0, "year": 2009, "mass": 100.5},
    "mapo tofu @ B": {"dish": "mapo tofu", "heat": "medium", "price": (9.0, 1.0), "year": 2012},
    "kung pao @ A": {"dish": "kung pao", "heat": "medium", "price": None, "year": 2013},
    "kung pao @ B": {"dish": "kung pao", "heat": "mild", "price": 16.0, "year": 2014, "mass": 104.5},
    "egg rice @ B": {"dish": "egg rice", "heat": "mild", "price": 6.0, "year": 2010},
}
TYPES = {"heat": ("mild", "medium", "hot"), "price": "log number, EUR", "year": "number", "mass": "number, g"}


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(LabelGraph.from_table(TABLE, TYPES), temperature=2.0)) as found:
            yield found


def move(page, name, steps):
    """Move a handle as a person does with the keys; the answer follows."""
    handle = page.get_by_role("slider", name=name)
    handle.focus()
    handle.evaluate("(handle, step) => { handle.value = step; }", steps)
    handle.dispatch_event("input")
    handle.dispatch_event("change")
    settle(page)


def test_the_model_names_its_numbers(server):
    numbers = server.client.get("/v1/model").json()["numbers"]
    assert numbers[0] == {"name": "price", "unit": "EUR", "scale": "log", "low": 6.0, "high": 16.0, "whole": True}
    assert [number["name"] for number in numbers] == ["price", "year", "mass"]


def test_handles_have_the_digits_that_their_steps_need(page, server):
    open_page(page, server)
    choose(page, photo_bytes(3))
    move(page, "mass: at most", 101)
    assert "at most 102.52 g" in page.locator("#kinds").inner_text()
    move(page, "year: at most", 101)
    assert "at most 2012" in page.locator("#kinds").inner_text()


def test_ordered_labels_stand_in_their_order(page, server):
    for seed in range(4):
        open_page(page, server)
        choose(page, photo_bytes(seed))
        labels = page.get_by_role("group", name="heat").locator("button span:first-child").all_inner_texts()
        assert labels == ["mild", "medium", "hot"]


def test_values_with_a_spread_are_written_with_one_sign(page, server):
    open_page(page, server)
    choose(page, photo_bytes(3))
    page.get_by_role("group", name="dish").get_by_role("button", name="mapo tofu").click()  # A costs 12, B 9 +- 1 EUR
    settle(page)
    why = page.locator("#why").inner_text()
    assert "9 ± 1 EUR" in why
    assert "+-" not in why


def test_a_range_on_the_page(page, server):
    content = photo_bytes(3)
    open_page(page, server)
    choose(page, content)
    kinds = page.locator("#kinds")
    assert "price" in kinds.inner_text().lower()
    assert "EUR" in kinds.inner_text()
    move(page, "price: at most", 100)  # half way on a log scale
    limit = float(f"{(6.0 * 16.0) ** 0.5:.3g}")
    assert f"at most {limit:g} EUR" in kinds.inner_text()
    assert shown(page) == expected(server, content, price=f"<= {limit}")
    assert f"price: at most {limit:g} EUR" in page.locator("#evidence").inner_text()
    lowest = page.get_by_role("slider", name="price: at least")
    lowest.evaluate("(handle) => { handle.value = 150; }")
    lowest.dispatch_event("input")
    assert page.get_by_role("slider", name="price: at most").input_value() == "150"  # it is pushed along
    page.locator("#evidence button").first.click()
    settle(page)
    assert shown(page) == expected(server, content)


@pytest.mark.deep
def test_ranges_over_http(server):
    photo = {"photo": ("a.png", photo_bytes(3), "image/png")}
    answer = server.client.post("/v1/predict", files=photo, data={"given": "price<=10", "scores": "true"}).json()
    (first,) = answer["photos"]
    assert answer["given"] == {"price": ["<= 10"]}
    assert first["numbers"]["price"]["high"] <= 10
    again = {"scores": first["scores"], "given": {"price": ["10..20"], "heat": ">= medium"}}
    given = server.client.post("/v1/given", json=again).json()["prediction"]
    assert 10 <= given["numbers"]["price"]["low"] <= given["numbers"]["price"]["high"] <= 20
    assert {one["label"] for one in given["kinds"]["heat"]} <= {"medium", "hot"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"price": ["<= 3", "> 5"]}, "expected one limit or range"),
        ({"price": "cheap"}, "cheap"),
        ({"year": "> 2500", "dish": "egg rice"}, "no fine label"),
    ],
)
def test_ranges_that_cannot_be(server, given, words):
    photo = {"photo": ("a.png", photo_bytes(3), "image/png")}
    scores = server.client.post("/v1/predict", files=photo, data={"scores": "true"}).json()["photos"][0]["scores"]
    problem = server.client.post("/v1/given", json={"scores": scores, "given": given})
    assert isinstance(problem, httpx.Response)
    assert problem.status_code == 422
    assert words in problem.json()["detail"]
