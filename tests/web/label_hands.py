"""What tests of the labelling page do with it: open it as a person, press keys, wait until all is saved."""

import json

TOFU = "mapo tofu @ Chef Yu"
SHUMAI = "shumai @ Lei Garden"


def enter(page, server, person="Ann", place=""):
    """Open the page as a person, who types their name as asked."""
    page.goto(f"{server.url}/{place}")
    page.get_by_label("Your name").fill(person)
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")  # as long as it is open, keys are its own
    page.wait_for_selector(".kind.focus, .grid-row.focus")
    return page


def press(page, *keys):
    """Press keys, one after the other."""
    for key in keys:
        page.keyboard.press(key)


def saved(page):
    """Wait until the page says that all is saved."""
    page.wait_for_selector('#state[data-state="saved"]')


def states(page):
    """From now on, note what the page says of saving, however briefly; returns a function that tells it."""
    page.evaluate("""() => {
        const state = document.querySelector("#state");
        window.statesShown = [];
        new MutationObserver(() => window.statesShown.push(state.dataset.state)).observe(state, { attributes: true });
    }""")
    return lambda: page.evaluate("window.statesShown")


def focused_kind(page):
    """The kind in focus."""
    return page.locator(".kind.focus").get_attribute("data-kind")


def focused_class(page):
    """The class in focus in the grid."""
    return page.locator(".grid-row.focus").get_attribute("data-fine")


def blind(page):
    """Keep what others do from a page, as if it had not asked yet."""
    nothing = json.dumps({"version": 0, "edits": [], "cells": [], "more": False})
    page.route("**/api/changes*", lambda route: route.fulfill(body=nothing, content_type="application/json"))


def wait_until(page, test, otherwise="it did not come true"):
    """Wait until something is true, while the page goes on."""
    for _ in range(400):
        if test():
            return
        page.wait_for_timeout(25)
    raise AssertionError(otherwise)


class Held:
    """Questions of a page that get no answer until they are let go."""

    def __init__(self, page, pattern):
        self._page, self._pattern, self._routes, self._open = page, pattern, [], False
        page.route(pattern, lambda route: route.continue_() if self._open else self._routes.append(route))

    def wait(self, count=1):
        """Wait until the page has asked."""
        wait_until(self._page, lambda: len(self._routes) >= count, f"the page did not ask for {self._pattern}")

    def let_go(self):
        """Answer what was asked, and from now on at once."""
        self._open = True
        for route in self._routes:
            route.continue_()


def without(faults, *told):
    """Take faults that a test expects from the list."""
    faults.lines[:] = [line for line in faults.lines if not any(one in line for one in told)]
