"""The scikit-learn estimator: scikit-learn's own checks without a graph, ours with one."""

from __future__ import annotations

import importlib
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import finegraph as fg
from finegraph.errors import EvidenceError, InputError, MissingExtraError, ShapeError, TargetError, UnknownNameError
from finegraph.model import BipartiteClassifier
from finegraph.model.fitting.selection import deal_folds

DIGITS = fg.LabelGraph.from_table(
    {
        name: {"parity": "odd" if digit % 2 else "even", "loop": digit in (0, 6, 8, 9), "straight": digit in (1, 4, 7)}
        for digit, name in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    }
)


def digits(per_class, classes=range(10)):
    """The first photos of each digit, and others to test with; labels are the words."""
    features, labels = load_digits(return_X_y=True)
    features = features / 16
    chosen = np.concatenate([np.flatnonzero(labels == digit)[:per_class] for digit in classes])
    rest = np.setdiff1d(np.arange(len(labels)), chosen)[:600]
    names = np.array(DIGITS.fine)[labels]
    return features[chosen], names[chosen], features[rest], names[rest]


@pytest.fixture(scope="module")
def fitted():
    features, names, test, truth = digits(3)
    return BipartiteClassifier(DIGITS).fit(features, names), test, truth


# ---- scikit-learn's own checks ---------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("solver", ["descent", "prototypes"])
def test_conventions_of_scikit_learn(solver):
    results = check_estimator(BipartiteClassifier(solver=solver), on_skip=None, on_fail=None)
    assert {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"} == {}
    assert sum(each["status"] == "passed" for each in results) >= 55
    # These need pandas or another array library, which is not installed here.
    assert {each["check_name"] for each in results if each["status"] != "passed"} <= {
        "check_sample_weights_pandas_series",
        "check_classifier_data_not_an_array",
        "check_array_api_input",
    }


# ---- with a graph ----------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_softmax_agrees_with_tuned_logistic_regression():
    features, names, test, truth = digits(4)
    features, test = features[:, ::3], test[:, ::3]  # for speed
    folds = deal_folds(np.unique(names, return_inverse=True)[1], 2)
    strengths = [1.0, 0.1, 0.01, 0.001]
    model = BipartiteClassifier(
        DIGITS, head="softmax", standardize=False, cv=folds, grid={"l2": strengths}, tolerance=1e-12
    )
    model.fit(features, names)
    # Half of the samples train in a fold, so the same strength for a mean loss is another C there.
    best = max(
        strengths,
        key=lambda l2: np.mean(
            [
                -log_loss(names[held], _logistic(l2, features[train], names[train]).predict_proba(features[held]))
                for train, held in folds
            ]
        ),
    )
    other = _logistic(best, features, names)
    assert model.best_params_ == {"l2": best}
    assert np.abs(model.predict_proba(test) - other.predict_proba(test)).max() < 1e-4
    assert model.score(test, truth) == other.score(test, truth)


def _logistic(l2, features, names):
    return LogisticRegression(C=1 / (l2 * len(names)), solver="newton-cholesky", tol=1e-8).fit(features, names)


def test_what_is_predicted_hangs_together(fitted):
    model, test, truth = fitted
    probs = model.predict_proba(test)
    assert model.classes_.tolist() == sorted(DIGITS.fine)
    assert np.allclose(probs.sum(axis=1), 1)
    assert np.array_equal(model.predict(test), model.classes_[probs.argmax(axis=1)])
    assert np.allclose(np.log(probs), model.predict_log_proba(test))
    assert model.score(test, truth) > 0.7
    loop = model.predict_kind_proba(test, "loop")
    with_loop = np.isin(model.classes_, ["zero", "six", "eight", "nine"])
    assert np.allclose(loop[:, 1], probs[:, with_loop].sum(axis=1))
    assert set(model.predict_kind(test, "loop")) == {"no", "yes"}
    assert model.predict_kind(test, "parity").tolist() == [
        ("even", "odd")[column] for column in model.predict_kind_proba(test, "parity").argmax(axis=1)
    ]


def test_posterior_is_in_the_order_of_the_graph(fitted):
    model, test, _ = fitted
    posterior = model.posterior(test[:5])
    assert isinstance(posterior, fg.Posterior)
    by_name = dict(zip(DIGITS.fine, posterior.probs().numpy().T, strict=True))
    for column, name in enumerate(model.classes_):
        assert np.allclose(by_name[name], model.predict_proba(test[:5])[:, column])
    assert [top[0].label for top in posterior.top(1)] == model.predict(test[:5]).tolist()


def test_evidence(fitted):
    model, test, truth = fitted
    odd = model.predict_proba(test, given={"parity": "odd"})
    even = np.isin(model.classes_, ["zero", "two", "four", "six", "eight"])
    assert (odd[:, even] == 0).all()
    probs = model.predict_proba(test)
    assert np.allclose(odd[:, ~even], probs[:, ~even] / probs[:, ~even].sum(axis=1, keepdims=True))
    parity = ["odd" if name in ("one", "three", "five", "seven", "nine") else "even" for name in truth]
    known = model.predict(test, given={"parity": parity})
    assert (known == truth).mean() > model.score(test, truth)
    assert set(model.predict_kind(test, "parity", given={"fine": "six"})) == {"even"}
    with pytest.raises(EvidenceError, match=r"probability 0 for sample 0"):
        model.predict(test, given={"fine": "six", "parity": "odd"})
    with pytest.raises(UnknownNameError, match=r"unknown label 'od' of kind 'parity'"):
        model.predict(test, given={"parity": "od"})


@pytest.mark.deep
def test_fine_labels_without_samples_are_predicted_from_their_parents():
    table = {
        f"{shape} {hue}": {"shape": shape, "hue": hue} for shape in ("bow", "hat", "mug") for hue in ("red", "blue")
    }
    graph = fg.LabelGraph.from_table(table)
    generator = np.random.default_rng(0)
    target = np.repeat(np.arange(6), 8)
    shown = np.concatenate([np.eye(3)[graph.parents("shape")], np.eye(2)[graph.parents("hue")]], axis=1)[target]
    features = shown + 0.1 * generator.standard_normal(shown.shape)
    names = np.array(graph.fine)[target]
    seen = names != "hat blue"
    model = BipartiteClassifier(graph).fit(features[seen], names[seen])
    assert "hat blue" in model.classes_
    assert np.array_equal(model.predict(features), names)


def test_labels_seen_on_photos_and_missing_fine_labels():
    features, names, test, truth = digits(2)
    more, more_names, _, _ = digits(12)
    every, labels = np.concatenate([features, more]), [*names, *[None] * len(more)]
    seen = [None] * len(names) + list(np.isin(more_names, ["zero", "six", "eight", "nine"]))  # booleans of numpy
    # By one solver, so that only the labels seen differ: auto may fit class means where there are none.
    model = BipartiteClassifier(DIGITS, solver="descent").fit(every, labels, kind_targets={"loop": seen})
    alone = BipartiteClassifier(DIGITS, solver="descent").fit(features, names)
    loops = np.isin(truth, ["zero", "six", "eight", "nine"])
    assert ((model.predict_kind(test, "loop") == "yes") == loops).mean() > (
        (alone.predict_kind(test, "loop") == "yes") == loops
    ).mean()


@pytest.mark.deep
def test_missing_fine_labels_may_be_nan():
    features, names, _, _ = digits(2)
    labels = np.array([*names[:-1], float("nan")], dtype=object)
    with_none = BipartiteClassifier(DIGITS).fit(features, [*names[:-1], None])
    assert np.array_equal(
        BipartiteClassifier(DIGITS).fit(features, labels).predict_proba(features), with_none.predict_proba(features)
    )


@pytest.mark.deep
def test_scale_of_features_does_not_matter_when_they_are_standardized():
    features, names, test, _ = digits(3)
    factors = np.geomspace(0.01, 100, features.shape[1])
    # Softmax is strictly convex, so that close values mean close weights and probabilities on every processor.
    model = BipartiteClassifier(DIGITS, head="softmax", tolerance=1e-12)
    one, two = clone(model).fit(features, names), clone(model).fit(features * factors + 5, names)
    assert np.allclose(one.predict_proba(test), two.predict_proba(test * factors + 5), atol=1e-3)
    assert np.allclose(two.mean_, one.mean_ * factors + 5)
    constant = features.std(axis=0) == 0
    assert constant.any()
    assert (two.scale_[constant] == 1).all()
    plain = BipartiteClassifier(DIGITS, standardize=False).fit(features, names)
    assert plain.mean_ is None
    assert plain.scale_ is None


@pytest.mark.deep
def test_float32_features_are_fitted_in_float32():
    features, names, test, truth = digits(3)
    model = BipartiteClassifier(DIGITS).fit(features.astype(np.float32), names)
    assert model.predict_proba(test).dtype == np.float32
    assert model.score(test, truth) == pytest.approx(
        BipartiteClassifier(DIGITS).fit(features, names).score(test, truth), abs=0.02
    )


@pytest.mark.deep
def test_the_same_twice(fitted):
    model, test, _ = fitted
    features, names, _, _ = digits(3)
    assert np.array_equal(clone(model).fit(features, names).predict_proba(test), model.predict_proba(test))


def test_pickle_clone_and_parameters(fitted):
    model, test, _ = fitted
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))
    copy = clone(model).set_params(l2=0.5)
    assert (copy.get_params()["l2"], model.l2) == (0.5, 0.005)
    assert copy.graph == DIGITS
    with pytest.raises(NotFittedError):
        copy.predict(test)


# ---- with the rest of scikit-learn -----------------------------------------------------------------------------------


def test_in_a_pipeline():
    features, names, test, truth = digits(3)
    exact = {"head": "softmax", "tolerance": 1e-12}  # strictly convex: close values mean close probabilities
    pipeline = make_pipeline(StandardScaler(), BipartiteClassifier(DIGITS, standardize=False, **exact))
    pipeline.fit(features, names)
    alone = BipartiteClassifier(DIGITS, **exact).fit(features, names)
    assert np.allclose(pipeline.predict_proba(test), alone.predict_proba(test), atol=1e-3)
    assert pipeline.score(test, truth) == pytest.approx(alone.score(test, truth), abs=0.01)


@pytest.mark.deep
def test_in_a_grid_search():
    features, names, test, truth = digits(4)
    found = GridSearchCV(BipartiteClassifier(DIGITS), {"l2": [10.0, 0.01]}, cv=2, scoring="neg_log_loss").fit(
        features, names
    )
    assert found.best_params_ == {"l2": 0.01}
    own = -log_loss(truth, found.predict_proba(test), labels=found.classes_)
    assert found.score(test, truth) == pytest.approx(own)  # so the columns are in the order that scikit-learn believes


# ---- cross-validation ------------------------------------------------------------------------------------------------

SMALL = {"l2": [10.0, 0.01], "kind_weight": [0.1, 1.0]}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("cv", "folds"), [(2, 2), ("auto", 5), (StratifiedKFold(3), 3), ([(np.arange(20), np.arange(20, 40))], 1)]
)
def test_strengths_are_chosen(cv, folds):
    features, names, test, truth = digits(4)
    order = np.random.default_rng(0).permutation(40)
    features, names = features[order], names[order]
    model = BipartiteClassifier(DIGITS, cv=cv, grid=SMALL).fit(features, names)
    assert model.best_params_["l2"] == 0.01
    assert model.settings_.kind_weight == model.best_params_["kind_weight"]
    results = model.cv_results_
    assert len(results["params"]) == 4
    assert results["params"][int(np.argmin(results["rank_test_score"]))] == model.best_params_
    best = np.nanmax(results["mean_test_score"])  # NaN for settings that were given up
    assert best == results["mean_test_score"][results["rank_test_score"] == 1][0]
    assert sum(name.startswith("split") for name in results) == folds
    given = BipartiteClassifier(DIGITS, **model.best_params_).fit(features, names)
    assert np.array_equal(model.predict_proba(test), given.predict_proba(test))  # always fitted from 0
    assert model.score(test, truth) > 0.7


def test_one_sample_per_class_leaves_nothing_to_hold_out():
    features, names, test, _ = digits(1)
    with pytest.raises(InputError, match=r"cv: cross-validation needs a class with at least two samples"):
        BipartiteClassifier(DIGITS, cv=5).fit(features, names)
    with pytest.warns(UserWarning, match=r"every class has one; the strengths are taken as given"):
        model = BipartiteClassifier(DIGITS, cv="auto").fit(features, names)
    assert not hasattr(model, "best_params_")
    assert np.array_equal(
        model.predict_proba(test),
        BipartiteClassifier(DIGITS, solver="descent").fit(features, names).predict_proba(test),
    )


# ---- without a graph -------------------------------------------------------------------------------------------------


def test_classes_are_named_like_their_values_where_that_is_possible():
    features = np.eye(3)
    assert BipartiteClassifier().fit(features, [7, 8, 9]).graph_.fine == ("7", "8", "9")
    odd = BipartiteClassifier().fit(features, [" x", "x", ""])
    assert odd.graph_.fine == ("0", "1", "2")
    assert odd.predict(features).tolist() == [" x", "x", ""]


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_labels_that_the_graph_does_not_have_are_refused():
    features, names, _, _ = digits(2)
    with pytest.raises(UnknownNameError, match=r"unknown fine label 'sevn'; did you mean 'seven'"):
        BipartiteClassifier(DIGITS).fit(features, [*names[:-1], "sevn"])
    with pytest.raises(UnknownNameError, match=r"unknown fine label 3"):
        BipartiteClassifier(DIGITS).fit(features, np.arange(20) % 10 + 3)
    with pytest.raises(UnknownNameError, match=r"unknown kind 'loops'; did you mean 'loop'"):
        BipartiteClassifier(DIGITS).fit(features, names, kind_targets={"loops": [True] * 20})
    with pytest.raises(UnknownNameError, match=r"unknown label 'maybe' of kind 'loop'"):
        BipartiteClassifier(DIGITS).fit(features, names, kind_targets={"loop": ["maybe"] * 20})
    with pytest.raises(
        ShapeError, match=r"kind_targets\['loop'\]: expected one label per sample, 20, got shape \(3,\)"
    ):
        BipartiteClassifier(DIGITS).fit(features, names, kind_targets={"loop": [True] * 3})
    with pytest.raises(InputError, match=r"kind_targets: expected a mapping from kinds to labels, got list"):
        BipartiteClassifier(DIGITS).fit(features, names, kind_targets=[True] * 20)


def test_wrong_parameters_are_refused():
    features, names, _, _ = digits(2)
    with pytest.raises(InputError, match=r"graph: expected a LabelGraph or None, got str"):
        BipartiteClassifier("menu.csv").fit(features, names)
    with pytest.raises(InputError, match=r"head: expected 'bipartite' or 'softmax', got 'mlp'"):
        BipartiteClassifier(head="mlp").fit(features, names)
    with pytest.raises(InputError, match=r"cross-validation needs at least 2 folds, got 1"):
        BipartiteClassifier(DIGITS, cv=1).fit(features, names)
    with pytest.raises(TargetError, match=r"y: expected the fine label of each sample, got None"):
        BipartiteClassifier(DIGITS).fit(features, None)
    with pytest.raises(TargetError, match=r"there is no sample with an observed label"):
        BipartiteClassifier(DIGITS, solver="descent").fit(features, [None] * 20)
    with pytest.raises(TargetError, match=r"expected at least one sample with a fine label"):
        BipartiteClassifier(DIGITS).fit(features, [None] * 20)


def test_too_few_steps_warn():
    features, names, _, _ = digits(2)
    with pytest.warns(ConvergenceWarning, match=r"fitting stopped after 2 steps before .* raise max_iter"):
        model = BipartiteClassifier(DIGITS, max_iter=2).fit(features, names)
    assert (model.n_iter_, model.converged_) == (2, False)


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "finegraph.model.classifier")
    with pytest.raises(MissingExtraError, match=r'needs scikit-learn.*pip install "finegraph\[sklearn\]"'):
        importlib.import_module("finegraph.model.classifier")


# ---- numbers of any size ---------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("standardize", [True, "together"])
@pytest.mark.parametrize("power", [664, -664, 997, -990])  # 1e200, 1e-200, 1e300, 1e-298
def test_features_of_any_size_are_scaled(power, standardize):
    """Times a power of two, which rounds nothing, all answers stay as they are."""
    features, names, test, _ = digits(3)
    size = 2.0**power
    usual = BipartiteClassifier(DIGITS, standardize=standardize).fit(features, names)
    other = BipartiteClassifier(DIGITS, standardize=standardize).fit(features * size, names)
    assert np.allclose(other.predict_proba(test * size), usual.predict_proba(test), atol=1e-9)


def test_features_that_differ_by_more_than_there_is_are_refused():
    features, names = np.array([[-1.7e308]] * 3 + [[1.7e308]]), ["one", "two"] * 2
    with pytest.raises(InputError, match=r"features: they differ by more than float64 holds; divide them"):
        BipartiteClassifier(DIGITS).fit(features, names)


@pytest.mark.parametrize(("size", "dtype"), [(1e200, np.float64), (1e30, np.float32)])
def test_features_that_are_too_large_as_they_are_are_refused(size, dtype):
    features, names, _, _ = digits(3)
    with pytest.raises(InputError, match=r"features: numbers as large as 1e\+\d+ overflow in float\d\d when .* divide"):
        BipartiteClassifier(DIGITS, solver="descent", standardize=False).fit((features * size).astype(dtype), names)


@pytest.mark.deep
def test_samples_that_are_too_far_from_those_of_the_fit_are_refused():
    features, names, test, _ = digits(3)
    model = BipartiteClassifier(DIGITS).fit(features.astype(np.float32), names)
    far = test.copy()
    far[2, 5] = 1e200
    with pytest.raises(InputError, match=r"sample 2 is so far from those of the fit, in feature 5, .* in float32"):
        model.predict_proba(far)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused(fitted, bad):
    model, test, _ = fitted
    features, names, _, _ = digits(3)
    for broken, ask in ((features.copy(), lambda x: clone(model).fit(x, names)), (test.copy(), model.predict)):
        broken[1, 2] = bad
        with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
            ask(broken)


# ---- class means -----------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_class_means_need_nothing_to_be_set():
    features, names, test, truth = digits(5)
    model = BipartiteClassifier(DIGITS, solver="prototypes").fit(features, names)
    plain = BipartiteClassifier(DIGITS, solver="prototypes", head="softmax").fit(features, names)
    probs = model.predict_proba(test)
    assert np.allclose(probs.sum(axis=1), 1)
    assert model.score(test, truth) > 0.75
    assert model.prototypes_.variances.kinds.keys() <= set(DIGITS.kinds)
    assert plain.prototypes_.variances.kinds == {}
    assert np.allclose(model.predict_proba(test, given={"parity": "odd"})[:, model.classes_ == "two"], 0)


@pytest.mark.deep
def test_the_solver_is_chosen_by_held_out_samples_and_says_why():
    features, names, test, truth = digits(2)
    few = BipartiteClassifier(DIGITS).fit(features, names)
    assert few.solver_ == "prototypes"
    assert "held-out samples" in few.solver_reason_
    asked = BipartiteClassifier(DIGITS, l2=0.1).fit(features, names)
    assert (asked.solver_, asked.solver_reason_) == ("descent", "the closed form has no l2")
    assert not hasattr(asked, "prototypes_")
    assert few.score(test, truth) >= asked.score(test, truth) - 0.03


def test_what_class_means_cannot_use_is_refused():
    features, names, _, _ = digits(2)
    with pytest.raises(InputError, match="solver: expected 'auto', 'descent' or 'prototypes', got 'lbfgs'"):
        BipartiteClassifier(DIGITS, solver="lbfgs").fit(features, names)
    with pytest.raises(
        InputError, match="l2, tolerance: no effect with solver='prototypes'; use solver='descent', or leave"
    ):
        BipartiteClassifier(DIGITS, solver="prototypes", l2=0.1, tolerance=0.1).fit(features, names)
    with pytest.raises(InputError, match=r"kind_targets: labels seen on samples, .* leave out loop, or use"):
        BipartiteClassifier(DIGITS, solver="prototypes").fit(
            features, names, kind_targets={"loop": ["yes"] * len(names)}
        )
