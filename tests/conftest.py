"""Shapes and types in signatures are checked while tests run; torch uses one thread unless told otherwise."""

import gc
import os
import signal

import hypothesis
import jaxtyping
import pytest
import torch

import shape_checks

if os.environ.get("FINEGRAPH_CHECK_SHAPES", "1") != "0":
    shape_checks.install()

gc.disable()  # until all is imported and collected, which makes no garbage to speak of
pytest_plugins = ["browser", "postgres_server"]

torch.set_num_threads(int(os.environ.get("FINEGRAPH_TEST_THREADS", "1")))  # `make test-cpu` says 2 as well
# How quickly examples are made, and how many texts are no names, says nothing of the code: machines are slow at times.
_UNCHECKED = [hypothesis.HealthCheck.filter_too_much, hypothesis.HealthCheck.too_slow]
_EXAMPLES = int(os.environ.get("FINEGRAPH_EXAMPLES", "40"))  # `make test-all` says more
hypothesis.settings.register_profile(
    "finegraph", max_examples=_EXAMPLES, deadline=None, suppress_health_check=_UNCHECKED
)
hypothesis.settings.load_profile("finegraph")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that run in the background are started so; those of stopping a run would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


DRILLS = {
    "cli": ("completion", "interrupts", "process", "serve_command", "train_command", "menu_command", "study_command"),
    "files": ("sealed_log_faults",),
    "labelling": ("damage", "store_faults"),
    "nn": ("in_torch",),
    "search": ("index_faults", "milvus"),
    "tests": ("benchmarks", "examples", "site"),
    "training": ("checkpoint_faults", "distributed", "sharded_ranks", "training_drills", "typed_ranks", "typed_shards"),
    "web": (
        "label_app",
        "label_compare",
        "label_import_preview",
        "label_serve",
        "serve_connections",
        "serve_contract",
        "serve_photo_files",
        "serve_predict",
        "serve_robust",
    ),
    "workflows": ("demo", "study_all", "study_paper", "study_run"),
}
"""Files of tests that start servers or processes, compile, or run whole commands: not for the edit loop."""


PAGES = ("page", "phone")
DATABASE = "postgres"
"""Fixtures that tests also ask for by a parameter."""


def pytest_collection_modifyitems(items):
    """Mark what `make test-fast` leaves out.

    Browsers and database servers are known by fixtures or by parameters that name one, drills by their files.
    """
    for item in items:
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {*item.fixturenames, *(value for value in params if isinstance(value, str))}
        if "browser" in asked or asked.intersection(PAGES):
            item.add_marker(pytest.mark.browser)
        if DATABASE in asked:
            item.add_marker(pytest.mark.database)
        if item.path.stem.removeprefix("test_") in DRILLS.get(item.path.parent.name, ()):
            item.add_marker(pytest.mark.drill)


def pytest_collection_finish():
    """Leave what was imported and collected out of what the garbage collector looks through in every test.

    Together with torch these are more than a million objects, and they stay until the end.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Features go to a folder of the test, never to that of the user."""
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _check_again():
    """The first calls of each function in each test are checked."""
    shape_checks.begin_test()


@pytest.fixture
def unchecked():
    """Without the checks of shapes: to see our own errors for wrong ones, and for speed."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
