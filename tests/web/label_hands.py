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


class Held:
    """Questions of a page that get no answer until they are let go."""

    def __init__(self, page, pattern):
        self._page, self._pattern, self._routes, self._open = page, pattern, [], False
        page.route(pattern, lambda route: route.continue_() if self._open else self._routes.append(route))

    def wait(self, count=1):
        """Wait until the page has asked."""
        for _ in range(400):
            if len(self._routes) >= count:
                return
            self._page.wait_for_timeout(25)
        raise AssertionError(f"the page did not ask for {self._pattern}")

    def let_go(self):
        """Answer what was asked, and from now on at once."""
        self._open = True
        for route in self._routes:
            route.continue_()


def without(faults, *told):
    """Take faults that a test expects from the list."""
    faults.lines[:] = [line for line in faults.lines if not any(one in line for one in told)]
