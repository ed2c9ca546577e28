"""What the labelling server says when its store cannot go on, and that its messages name only what it has."""

import re

import httpx
import pytest
import sqlalchemy as sa
from label_server import menu_session, serving

from finegraph.errors import DamagedStoreError
from finegraph.graph.sample_menu import sample_menu
from finegraph.labelling import LabelStore
from finegraph.web.label import label_app as label
from finegraph.web.label.label_app import StoreHealth
from finegraph.web.problems import PROBLEMS, ProblemError
from finegraph.web.serve import serve_app as serve
from finegraph.workflows.label import LabelSession

FINE = "mapo tofu @ Chef Yu"
ROUTE = re.compile(r"(?<![\w.])/[a-z][\w./-]*")


@pytest.fixture
def session(tmp_path):
    with menu_session(tmp_path) as made:
        yield made


def decide(client, value="Chef Yu"):
    cells = [{"fine": FINE, "kind": "restaurant", "value": value, "seen": 0}]
    return client.post("/api/decide", json={"person": "Ann", "edit": "edit-0001", "cells": cells})


def told(answer):
    """The type of a problem, its status and its detail."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    return body["type"].rpartition(":")[2], answer.status_code, body["detail"]


@pytest.mark.deep
def test_a_full_disk_is_not_busy(session):
    with serving(session) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        with session.store._database.writers.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        found = [decide_new(client, number) for number in range(200)]
        full = next(answer for answer in found if answer.status_code != 200)
        kind, status, detail = told(full)
        assert (kind, status) == ("no-room", 507)
        assert re.match(
            r"the disk is full, [\d,]+ bytes are left; up to 8,388,608 are needed to continue; nothing", detail
        )
        assert str(session.store.place) not in full.text
        version = client.get("/api/start").json()["version"]
        with session.store._database.writers.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert decide_new(client, 1000).status_code == 200  # and it goes on where there is room again
        assert client.get("/api/start").json()["version"] == version + 1
        session.store.check()


def decide_new(client, number):
    body = {"person": "Ann", "edit": f"note {number:04}", "fine": FINE, "text": "x" * 1900, "seen": number}
    seen = client.get("/api/class", params={"fine": FINE}).json()["note_version"]
    return client.post("/api/note", json={**body, "text": f"{number}" + body["text"], "seen": seen})


def test_a_full_disk_of_a_database_server_is_not_busy(postgres):
    with LabelStore.create(postgres.new_database()) as store:
        store.import_graph(sample_menu(), person="import", edit_id="first")
        with store._database.writers.begin() as connection:
            connection.exec_driver_sql(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
            )
            connection.exec_driver_sql("CREATE TRIGGER refusing BEFORE INSERT ON edits EXECUTE FUNCTION refuse()")
        session = LabelSession(store=store, name="menu")
        with serving(session) as server, httpx.Client(base_url=server.url, timeout=30) as client:
            kind, status, detail = told(decide(client))
            assert (kind, status) == ("no-room", 507)
            assert detail == "the disk of the database server is full; nothing was changed. Make room and try again"
        assert store.version == 1


@pytest.mark.deep
def test_damage_is_told_as_such(session, caplog):
    with serving(session) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        assert client.get("/health/ready").json() == {"status": "ready"}
        with session.store._database.writers.begin() as connection:
            connection.execute(sa.text("UPDATE labels SET name = name || '!' WHERE id = 1"))
        for answer in (client.get("/api/export/csv"), client.get("/api/export/label-studio")):
            kind, status, detail = told(answer)
            assert (kind, status) == ("damaged", 500)
            assert re.fullmatch(r"label '.*!' \(number 1\) of kind 'dish' is not as it was written", detail)
            assert str(session.store.place) not in answer.text
        assert "Still whole: the log of 1 edit" in caplog.text  # how to restore it is for who runs the server


def test_the_health_is_looked_at_again(session):
    now, later = StoreHealth(session.store, between=0), StoreHealth(session.store)
    now.refuse_damaged()
    with session.store._database.writers.begin() as connection:
        connection.execute(sa.text("UPDATE fine SET name = name || '!' WHERE id = 1"))
    later.refuse_damaged()  # it was checked when it was opened, and the next time is not yet
    with pytest.raises(DamagedStoreError, match=r"class '.*!' \(number 1\) is not as it was written"):
        ask_often(now)


def ask_often(health):
    """Ask until a check has ended; the one that a question begins is waited for a second only."""
    for _ in range(100):
        health.refuse_damaged()


def test_messages_name_only_routes_that_the_labelling_server_has(session):
    app = label.create_label_app(session)
    routes = {route.path for route in app.routes}
    for name in PROBLEMS:
        for advice in (label.ADVICE, {}):  # what refuses a request before the app sees it gives no advice of the app
            assert routes_in(ProblemError(name, "").content(advice)) <= routes, name


def routes_in(content):
    return {found.rstrip(".") for found in ROUTE.findall(f"{content['title']} {content['what_to_do']}")}


@pytest.mark.parametrize("name", PROBLEMS)
def test_messages_name_only_routes_that_the_server_of_a_model_has(name):
    described = set(re.findall(r"/[a-z][\w./-]*", serve.__doc__ or ""))
    assert routes_in(ProblemError(name, "").content(serve.ADVICE)) <= described
