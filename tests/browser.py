"""A real browser for tests of pages.

`page` is a fresh page of a headless Chromium in which every error on the console, every error of a script and every
request that leaves the machine makes the test fail. The browser is the one that FINEGRAPH_BROWSER names, or Debian's:
`chromium-headless-shell` first, which is the same engine without windows, menus and their own pages, at a third of the
processor time. Without one these tests are skipped, but not if FINEGRAPH_BROWSER is set, as in CI.
"""

import os
import shutil
from urllib.parse import urlsplit

import pytest

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Two processes fewer, and what they tell each other.
    "--in-process-gpu",
    "--enable-features=NetworkServiceInProcess2",
]
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_LOCAL = {"127.0.0.1", "localhost", ""}


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, one per module: with it runs a loop of asyncio, which other tests may not bear."""
    named = os.environ.get("FINEGRAPH_BROWSER")
    path = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no browser: install Chromium, or name one in FINEGRAPH_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield chromium
        chromium.close()


class Faults:
    """What went wrong on a page, as lines of text; a test may clear those that it expects."""

    def __init__(self):
        self.lines = []

    def watch(self, page):
        """Note the faults of a page from now on."""
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.lines.append(f"script: {error}"))
        page.on("request", lambda request: self._request(request.url))

    def _console(self, message):
        if message.type == "error":
            self.lines.append(f"console: {message.text}")

    def _request(self, url):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in _LOCAL:
            self.lines.append(f"request: {url}")


@pytest.fixture
def faults():
    """The faults of all pages of a test; any that is left at its end makes it fail."""
    found = Faults()
    yield found
    assert found.lines == []


@pytest.fixture
def new_page(browser, faults):
    """Makes fresh pages, each with its own cookies and storage; takes the options of a browser context."""
    contexts = []

    def make(**options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(15_000)
        _intercept(context)
        contexts.append(context)
        page = context.new_page()
        faults.watch(page)
        return page

    yield make
    for context in contexts:
        context.close()


def _intercept(context):
    """Send what pages ask for through Playwright from the start. Chromium takes a moment to do so for a page that is
    open already: a key pressed right after the first `page.route` may ask for something that no route sees."""
    context.route("**/nothing-asks-for-this", lambda route: route.abort())


@pytest.fixture
def page(new_page):
    """A fresh page of a desktop."""
    return new_page()


@pytest.fixture
def phone(new_page):
    """A fresh page of a phone."""
    return new_page(viewport={"width": 390, "height": 844}, device_scale_factor=2, is_mobile=True, has_touch=True)
