"""What the model believes of each label: shown, and its order if a person asks for it."""

import pytest
from label_hands import TOFU, enter, press, saved
from playwright.sync_api import expect

OTHER = "mapo tofu @ Lei Garden"
BELIEFS = {
    "restaurant": {
        TOFU: {"Chef Yu": 0.06, "Lei Garden": 0.3, "Shanghai Dumpling": 0.64},
        OTHER: {"Chef Yu": 0.9, "Lei Garden": 0.1, "Shanghai Dumpling": 0.0},
    }
}


@pytest.fixture
def believing(session, server):
    session.store.put_beliefs(BELIEFS)
    return server


def expect_options(page, expected, row=".kind.focus"):
    """Wait until a row has these labels in this order, each with its key and what stands beside it."""
    texts = [" ".join(option) for option in expected]
    expect(page.locator(f"{row} .option")).to_have_text(texts, use_inner_text=True)


OWN = [("1", "Chef Yu", "6 %"), ("2", "Lei Garden", "30 %"), ("3", "Shanghai Dumpling", "64 %")]
LIKELIEST = [("1", "Shanghai Dumpling", "64 %"), ("2", "Lei Garden", "30 %"), ("3", "Chef Yu", "6 %")]


def test_labels_carry_what_the_model_gives_them_and_keep_their_order(believing, page):
    enter(page, believing)
    press(page, "ArrowDown")
    expect_options(page, OWN)
    press(page, "3")
    saved(page)
    expect_options(page, OWN)


def test_the_likeliest_come_first_if_asked_for(session, believing, page):
    enter(page, believing)
    press(page, "ArrowDown", "o")
    expect_options(page, LIKELIEST)
    press(page, "1")
    saved(page)
    assert session.store.cell(TOFU, "restaurant").value == "Shanghai Dumpling"
    page.reload()
    page.wait_for_selector(".kind.focus")
    press(page, "ArrowDown")
    expect_options(page, LIKELIEST)  # the browser keeps it
    page.get_by_role("button", name="Likeliest first").click()
    expect_options(page, OWN)


def test_the_grid_orders_each_class_by_itself(session, believing, page):
    enter(page, believing, place="#grid=restaurant")
    page.get_by_role("button", name="Likeliest first").click()
    expect_options(page, LIKELIEST, ".grid-row.focus")
    page.locator(f'[data-fine="{OTHER}"]').click()
    others = [("1", "Chef Yu", "90 %"), ("2", "Lei Garden", "10 %"), ("3", "Shanghai Dumpling")]
    expect_options(page, others, ".grid-row.focus")
    press(page, "2")
    saved(page)
    assert session.store.cell(OTHER, "restaurant").value == "Lei Garden"


def test_without_a_model_there_is_nothing_to_order_by(server, page):
    enter(page, server)
    press(page, "o")
    expect(page.locator(".toast")).to_contain_text("--model")
    assert page.get_by_role("button", name="Likeliest first").count() == 0


def test_a_key_that_a_person_has_chosen_stays_theirs(believing, page):
    enter(page, believing)
    page.evaluate("localStorage.setItem('finegraph.keys', JSON.stringify({ next: 'o' }))")
    page.reload()
    page.wait_for_selector(".kind.focus")
    press(page, "o")
    expect(page.locator(".kind.focus")).to_have_attribute("data-kind", "restaurant")
