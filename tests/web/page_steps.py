"""What a person does on the page of `serve`, what stands there, and what ought to."""

import io
from contextlib import contextmanager

import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.graph.sample_menu import sample_menu
from finegraph.web.serve.answer_text import percent
from finegraph.web.serve.answering import ServedModel

FORMS = ["phone", pytest.param("page", marks=pytest.mark.slow)]
"""Fixtures for what is the same code on both: what the page says and does, not where it stands."""


def open_page(page, server):
    page.goto(server.address)
    page.wait_for_selector("body[data-ready]")


def give(page, *contents):
    """Choose photos, and do not wait for anything."""
    photos = [
        {"name": f"{number}.png", "mimeType": "image/png", "buffer": content} for number, content in enumerate(contents)
    ]
    page.set_input_files("#file", photos)


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


def expected_of(model, content, risk=0.05, **given):
    """What a classifier says of a photo, as it ought to stand on the page."""
    prediction = model.predict(Image.open(io.BytesIO(content)), given=given, top=6, risk=risk)
    return [(answer.label, percent(answer.probability)) for answer in prediction.top]


def expected(server, content, **given):
    return expected_of(server.model, content, **given)


@contextmanager
def another_model(server, graph=None):
    """The server with a new model in the place of its own, for a while."""
    old = server.state.model
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        other = tiny.classifier(graph or sample_menu(), seed=5)
    server.state.model = ServedModel(other, "menu")
    try:
        yield other
    finally:
        server.state.model = old


@contextmanager
def held(page, path):
    """Requests to a path are on their way until the block ends."""
    waiting = []
    page.route(path, lambda route: waiting.append(route))
    yield
    for route in waiting:
        route.continue_()
    page.unroute(path)
