"""The routes by which people compare, without a browser, and the whole way with one."""

import itertools
from array import array

import httpx
import pytest
from label_hands import press, saved, wait_until
from label_server import photo_folder, serving, table_session

from finegraph.labelling import RenameFine
from finegraph.web.label import live_order
from finegraph.web.label.live_order import LiveOrder
from finegraph.workflows.label import open_session

NAMES = ("mapo", "ramen", "udon", "soba", "laksa")


@pytest.fixture
def session(tmp_path):
    photos = photo_folder(tmp_path / "photos", NAMES[:3], each=2)
    table_session(tmp_path, ["fine", "dish", "heat [number]"], [[name, "x", ""] for name in NAMES]).close()
    with open_session(str(tmp_path / "table.csv"), data=str(photos)) as made:
        yield made


@pytest.fixture
def server(session):
    with serving(session) as running:
        yield running


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, timeout=30) as made:
        yield made


NUMBERS = itertools.count()


def answer(client, pair, outcome, person="Ann", **more):
    """Say what holds of a pair as the route gave it."""
    one, two = pair["pair"]
    of = pair["of"]
    named = {"one": one["photo"], "two": two["photo"]} if of == "photos" else {"one": one["fine"], "two": two["fine"]}
    numbers = {"one": one["number"], "two": two["number"]}
    body = {"person": person, "edit": f"compare-{next(NUMBERS)}", "kind": pair["kind"], "of": of, "outcome": outcome}
    return client.post("/api/compare", json={**body, **named, "seen": pair["seen"], "numbers": numbers, **more})


def next_pair(client, person="Ann", **query):
    found = client.get("/api/compare/pair", params={"kind": "heat", "person": person, **query})
    assert found.status_code == 200, found.text
    return found.json()


def order(client, **query):
    return client.get("/api/compare/order", params={"kind": "heat", **query}).json()


def test_a_person_is_asked_every_pair_once_and_the_order_follows(client):
    hotness = {name: place for place, name in enumerate(NAMES)}
    asked = []
    while (pair := next_pair(client))["pair"] is not None:
        one, two = (side["fine"] for side in pair["pair"])
        asked.append(frozenset((one, two)))
        done = answer(client, pair, "more" if hotness[one] > hotness[two] else "less")
        assert done.status_code == 200, done.text
    assert sorted(map(sorted, asked)) == sorted(map(sorted, map(frozenset, itertools.combinations(NAMES, 2))))
    assert not set(asked[0]) & set(asked[1])  # what nobody compared comes first
    found = order(client)
    assert [one["fine"] for one in found["order"]] == list(reversed(NAMES))
    assert (found["comparisons"], found["people"], found["total"]) == (10, {"Ann": 10}, 5)
    assert len(order(client, limit=2)["order"]) == 2


def test_pairs_that_are_shown_are_not_asked_again_and_undone_ones_are(client):
    pair = next_pair(client)
    shown = "-".join(str(side["number"]) for side in pair["pair"])
    for _ in range(5):
        other = next_pair(client, shown=shown)
        assert not {side["number"] for side in other["pair"]} & {side["number"] for side in pair["pair"]}
    done = answer(client, pair, "skip").json()
    undone = client.post("/api/undo", json={"person": "Ann", "edit": "undo-0001", "batch": done["batch"]})
    assert undone.status_code == 200
    assert answer(client, pair, "more").status_code == 409  # looked at before the undo
    assert answer(client, {**pair, "seen": undone.json()["version"]}, "more").status_code == 200


def test_what_somebody_else_answered_is_asked_now_and_then(session):
    for number, name in enumerate(NAMES[1:]):
        session.store.compare("heat", "mapo", name, "more", person="Bo", edit_id=f"b{number}")
    kind = session.store.kind_entry("heat").id
    live = LiveOrder(session.store, kind, seed=0)
    pairs = [frozenset(live.next_pair("heat", "Ann", "classes")) for _ in range(60)]
    again = [pair for pair in pairs if 1 in pair]
    assert 0 < len(again) < len(pairs)
    assert {frozenset(live.next_pair("heat", "Bo", "classes")) for _ in range(30)} <= {
        frozenset(pair) for pair in itertools.combinations(range(2, 6), 2)
    }


def test_photos_are_compared_as_photos_of_two_classes(client):
    pair = next_pair(client, of="photos")
    assert {side["fine"] for side in pair["pair"]} <= set(NAMES[:3])
    assert client.get(f"/photos/{pair['pair'][0]['photo']}/small").status_code == 200
    assert answer(client, pair, "more").status_code == 200
    assert order(client)["comparisons"] == 0
    assert order(client, of="photos")["comparisons"] == 1
    rows = client.get("/api/export/comparisons").text.splitlines()
    assert rows[0] == "kind,more,less,who,same,of"
    assert rows[1].endswith(",Ann,,photos")


def test_files_go_out_and_in(client):
    text = "kind,more,less,who\nheat,mapo,udon,Ann\nheat,udon,soba,Ann\n"
    preview = client.post("/api/import/preview", json={"name": "c.csv", "text": text}).json()
    assert preview["counts"] == {"comparison": 2}
    body = {"name": "c.csv", "text": text, "digest": preview["digest"], "person": "Ann", "edit": "import-01"}
    assert client.post("/api/import", json=body).status_code == 200
    assert client.get("/api/export/comparisons").text.splitlines()[1:] == ["heat,mapo,udon,Ann,", "heat,udon,soba,Ann,"]
    assert client.get("/api/export/csv").text.count("+-") == 0
    assert client.get("/api/export/csv", params={"compared": "classes"}).text.count("+-") == 3


def test_what_is_refused(client):
    for query, status in (({"kind": "dish"}, 422), ({"kind": "hate"}, 422), ({"shown": "1"}, 422), ({"of": "x"}, 422)):
        found = client.get("/api/compare/pair", params={"kind": "heat", "person": "Ann", **query})
        assert found.status_code == status
        assert found.headers["content-type"] == "application/problem+json"
    pair = next_pair(client)
    assert answer(client, pair, "hotter").status_code == 422
    assert answer(client, pair, "more", one="nobody", numbers={}).status_code == 422


def test_other_edits_and_renames_are_noticed(session, client):
    answer(client, next_pair(client), "more")
    [first, *_] = order(client)["order"]
    session.store.apply(RenameFine(name=first["fine"], to="new name"), person="Bo", edit_id="r")
    assert order(client)["order"][0]["fine"] == "new name"


def test_many_classes_are_asked_by_the_last_fit(session, monkeypatch):
    """Where a fit takes long, it is made beside the questions, and nothing is asked twice meanwhile."""
    monkeypatch.setattr(live_order, "QUICK_FIT_CLASSES", 0)
    live = LiveOrder(session.store, session.store.kind_entry("heat").id, seed=1)
    threads = []
    monkeypatch.setattr(live_order.threading, "Thread", lambda **options: threads.append(options) or Late(options))
    seen = array("q")
    for number in range(10):
        one, two = live.next_pair("heat", "Ann", "classes")
        seen.append(min(one, two) * 10 + max(one, two))
        names = [live.name_of(one), live.name_of(two)]
        session.store.compare("heat", *names, "more", person="Ann", edit_id=f"m{number}")
    assert len(set(seen)) == 10
    assert live.next_pair("heat", "Ann", "classes") is None
    assert threads
    assert live.order("heat", "classes").comparisons == 10


class Late:
    """A thread that has not begun."""

    def __init__(self, options):
        self.options = options

    def start(self):
        pass


def test_the_whole_way_by_keyboard(page, faults, server, session):
    """Compare by keys, see the order change, undo and answer again."""
    page.goto(f"{server.url}/#compare=heat")
    page.get_by_label("Your name").fill("Ann")
    page.keyboard.press("Enter")
    page.wait_for_selector(".side")

    def shown():
        return page.locator(".side").evaluate_all("all => all.map((one) => one.dataset.fine)")

    def orders():
        return page.locator(".order li").evaluate_all("all => all.map((one) => one.dataset.fine)")

    first = shown()
    press(page, "ArrowRight")
    wait_until(page, lambda: len(shown()) == 2 and shown() != first)
    wait_until(page, lambda: orders() == first[::-1])
    second = shown()
    press(page, "=")
    wait_until(page, lambda: len(shown()) == 2 and shown() != second)
    saved(page)
    wait_until(page, lambda: len(orders()) == 4)
    press(page, "u")
    wait_until(page, lambda: shown() == second)
    wait_until(page, lambda: len(orders()) == 2)
    page.locator('.side[data-side="left"]').click()
    wait_until(page, lambda: len(orders()) == 4)
    saved(page)
    press(page, "ArrowDown")
    wait_until(page, lambda: "1 skipped" in page.locator(".order-summary").inner_text())
    told = {(one.one, one.two, one.outcome) for one in session.store.pair_answers()}
    assert len(told) == 3
    assert any({first[0], first[1]} == {one, two} for one, two, _ in told)
    assert any(outcome == "skip" for _, _, outcome in told)
    page.goto("about:blank")  # it asks for the next pair ahead, also while the server stops
