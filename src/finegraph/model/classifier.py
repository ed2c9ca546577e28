"""A scikit-learn estimator on feature matrices: `BipartiteClassifier`.

It is the last layer of a network fitted to given features, to the minimum and without learning rates (fitting/), with
everything the posterior can answer: kinds, evidence, marginals. Without a graph it is multinomial logistic regression.

The objective is convex for the softmax head only; with kinds its minimum is the one that is reached from all weights 0,
so results do not depend on any seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import InputError, MissingExtraError, TargetError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.head_solver import SolvedHead, SolverSettings, solve_head
from finegraph.model.fitting.label_indices import (
    EstimatorClasses,
    classes_of_graph,
    classes_of_values,
    kind_target_indices,
)
from finegraph.model.fitting.selection import FOLDS, Fold, Grid, GridSearch, LabelledFeatures, deal_folds, default_grid

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import check_cv
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise MissingExtraError(
        "BipartiteClassifier needs scikit-learn, which is not installed; install it with "
        '`pip install "finegraph[sklearn]"`'
    ) from error

Evidence = Mapping[str, object] | None
_OF_DESCENT: dict[str, Any] = {
    "l2": 0.005,
    "coarse_ratio": None,
    "laplacian": 0.0,
    "kind_weight": None,
    "cv": None,
    "grid": None,
    "max_iter": 1000,
    "tolerance": 1e-4,
}
"""What only descent knows, and its defaults: with another value `"auto"` takes descent, and `"prototypes"` refuses."""
_ROUGHER = 10.0
"""How much farther from their minimum fits may end that are only compared."""


class BipartiteClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classify feature vectors whose labels form a graph.

    Args:
        graph: the label graph; `y` then names its fine labels. Without one the classes are those of `y`, and there are
            no kinds.
        head: `"bipartite"`, or `"softmax"` for the baseline.
        solver: `"descent"` minimises the joint loss. `"prototypes"` fits class means in closed form, for few samples of
            each class: everything is chosen by the data, and probabilities come out calibrated. It refuses `l2`,
            `coarse_ratio`, `laplacian`, `kind_weight`, `grid`, `max_iter` and `tolerance`, which mean nothing to it,
            and makes nothing of `cv` and `standardize`: it takes features as they are.
            `"auto"` takes the one under which held-out samples are more likely, both on standardised features; and
            descent where another of these is set or `kind_targets` are given. So a closed form that `"auto"` took is
            not that of `"prototypes"`, unless `standardize` is `"together"` or False.
        l2: the strength of the L2 prior on the weights of the fine labels, for a mean loss.
        coarse_ratio: the strength of the same on coarse labels, as a multiple of `l2`; by default a sixteenth
            of the number of kinds.
        laplacian: the strength of the prior that draws the weights of linked labels together.
        kind_weight: the weight of each kind's term in the loss; by default 1 / kinds for the bipartite head and 0 for
            softmax. The paper has 1.
        standardize: whether features are first brought to mean 0 and variance 1, each for itself; or `"together"` for
            one scale for all, which keeps what their sizes say: the better choice for the features of a network. The
            closed form whitens features, but shrinks towards axes of one size, so units matter to it too: with each
            for itself it has a top-1 of 93.0 instead of 73.9 on wine, and 86.7 instead of 87.9 on digits.
        cv: how to choose strengths by cross-validation: a number of folds; `"auto"` for 5 folds, or where no class has
            two samples for the strengths as given, with a warning; a scikit-learn splitter; or pairs of (train, test)
            indices. None takes the strengths as given.
        grid: the strengths to choose from, per name a list; what is not named stays as given. By default 28 settings.
        max_iter: how many steps to take at most.
        tolerance: stop when the objective is within this share of its minimum.

    Attributes:
        classes_: the classes in sorted order, which is the order of the columns of `predict_proba`. With a graph these
            are all its fine labels, also those without a sample: what their parents tell predicts them.
        graph_: the label graph.
        head_: the fitted head, on standardised features.
        mean_: the mean of the features; None without standardising.
        scale_: their standard deviation, 1 where it was 0; None without standardising.
        solver_: `"descent"` or `"prototypes"`.
        solver_reason_: why this one; only with `solver="auto"`.
        prototypes_: what the closed form found, with its scaling and variances; only where `solver_` is that.
        settings_: the settings of the fit.
        n_iter_: how many steps were taken.
        converged_: whether that was enough.
        best_params_: the strengths that cross-validation chose; only with `cv`.
        cv_results_: for every setting its `params`, `mean_test_score`, `rank_test_score` and `split<i>_test_score`; a
            score is the mean log probability of held-out fine labels. Only with `cv`.
        n_features_in_: how many features there are.
        feature_names_in_: their names, where `X` had any.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> X = np.eye(3)
        >>> model = BipartiteClassifier(graph).fit(X, ["a", "b", "c"])
        >>> model.predict(X).tolist(), model.predict_kind(X, "dish").tolist()
        (['a', 'b', 'c'], ['x', 'x', 'y'])
        >>> model.predict(X, given={"dish": "y"}).tolist()
        ['c', 'c', 'c']
    """

    def __init__(
        self,
        graph: LabelGraph | None = None,
        *,
        head: Literal["bipartite", "softmax"] = "bipartite",
        solver: Literal["auto", "descent", "prototypes"] = "auto",
        l2: float = 0.005,
        coarse_ratio: float | None = None,
        laplacian: float = 0.0,
        kind_weight: float | Mapping[str, float] | None = None,
        standardize: bool | Literal["together"] = True,
        cv: int | Literal["auto"] | Iterable[Fold] | None = None,
        grid: Grid | None = None,
        max_iter: int = 1000,
        tolerance: float = 1e-4,
    ) -> None:
        self.graph = graph
        self.head = head
        self.solver = solver
        self.l2 = l2
        self.coarse_ratio = coarse_ratio
        self.laplacian = laplacian
        self.kind_weight = kind_weight
        self.standardize = standardize
        self.cv = cv
        self.grid = grid
        self.max_iter = max_iter
        self.tolerance = tolerance

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,  # noqa: N803  # scikit-learn's name
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        kind_targets: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Fit the head.

        Args:
            X: (samples, features).
            y: the class of each sample; with a graph the name of a fine label, or None if it was not observed.
            sample_weight: how much each sample counts.
            kind_targets: with a graph, for some kinds the label seen on each sample, and for some numbers the value
                measured on it, None if none was. By default, and for the other kinds, they are those of the fine label.
        """
        features, classes = self._checked(X, y)
        weight = _check_sample_weight(sample_weight, features, ensure_non_negative=True)
        seen = {} if kind_targets is None else kind_target_indices(classes.graph, kind_targets, len(features))
        self.classes_, self.graph_, self._order = classes.names, classes.graph, classes.order
        settings = self._solver_settings(classes)
        self.mean_: NDArray[np.float64] | None = None
        self.scale_: NDArray[np.float64] | None = None
        if self.solver != "prototypes":
            self._learn_scale(features, weight)
        folds = [] if settings.grid is None else self._folds(features, classes.targets)
        solved = solve_head(
            LabelledFeatures(
                self._tensor(features),
                torch.from_numpy(classes.targets),
                kind_targets={kind: torch.from_numpy(labels) for kind, labels in seen.items()},
                sample_weight=torch.from_numpy(weight),
            ),
            self.graph_,
            settings,
            folds=folds,
        )
        self._keep(solved, settings.grid)
        if not solved.converged:
            warnings.warn(
                f"fitting stopped after {solved.iterations} steps before the objective was within {self.tolerance:g} "
                "of its minimum; raise max_iter, tolerance or l2, or give features in float64",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _solver_settings(self, classes: EstimatorClasses) -> SolverSettings:
        """How the head is fitted."""
        of_descent = tuple(name for name, value in _OF_DESCENT.items() if not _is_default(getattr(self, name), value))
        if self.solver == "prototypes":
            idle = [name for name in of_descent if name != "cv"]  # tools of scikit-learn set `cv` wherever there is one
            if idle:
                raise InputError(
                    f"{', '.join(idle)}: no effect with solver='prototypes'; use solver='descent', or leave it out"
                )
            return SolverSettings(solver=self.solver, descent=FitSettings(head=self.head))
        given = FitSettings(
            head=self.head,
            l2=self.l2,
            coarse_ratio=self.coarse_ratio,
            laplacian=self.laplacian,
            kind_weight=self.kind_weight,
            max_iter=self.max_iter,
            tolerance=self.tolerance,
        )
        grid = default_grid(self.head, classes.graph) if self.grid is None else self.grid
        return SolverSettings(
            solver=self.solver,
            descent=given,
            descent_only=of_descent,
            grid=None if self.cv is None else grid,
            # What is only compared need not be as near to its minimum as what is kept.
            grid_tolerance=_ROUGHER * given.tolerance,
        )

    def _keep(self, solved: SolvedHead, grid: Grid | None) -> None:
        """Keep what was fitted, and nothing of an earlier fit."""
        for name in ("solver_reason_", "prototypes_", "settings_", "cv_results_", "best_params_"):
            self.__dict__.pop(name, None)
        self.solver_, self.head_ = solved.solver, solved.head.requires_grad_(False)
        self.n_iter_, self.converged_ = solved.iterations, solved.converged
        if solved.reason is not None:
            self.solver_reason_ = solved.reason
        if solved.prototypes is not None:
            self.prototypes_ = solved.prototypes
        else:
            self.settings_ = solved.chosen
        if solved.search is not None:
            self.cv_results_ = _results(solved.search, tuple(grid or ()))
            self.best_params_ = {name: getattr(solved.chosen, name) for name in grid or ()}

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating[Any]], EstimatorClasses]:  # noqa: N803
        """The features as floats, and the classes."""
        numbers = [np.float64, np.float32]
        if self.graph is None:
            features, labels = validate_data(self, X, y, dtype=numbers)
            check_classification_targets(labels)
            return features, classes_of_values(labels)
        if not isinstance(self.graph, LabelGraph):
            raise InputError(f"graph: expected a LabelGraph or None, got {type(self.graph).__name__}")
        features = validate_data(self, X, dtype=numbers)
        if y is None:
            raise TargetError("y: expected the fine label of each sample, got None")
        labels = column_or_1d(np.asarray(y, dtype=object), dtype=object, warn=True)
        check_consistent_length(features, labels)
        return features, classes_of_graph(self.graph, labels)

    def _learn_scale(self, features: NDArray[np.floating[Any]], weight: NDArray[np.floating[Any]]) -> None:
        """Learn the mean and the standard deviation of the features."""
        if self.standardize not in (True, False, "together"):
            raise InputError(f"standardize: expected True, False or 'together', got {self.standardize!r}")
        if self.standardize:
            share = (weight / weight.sum()).astype(np.float64)
            self.mean_ = share @ features
            with np.errstate(over="ignore"):  # found out below, in words
                spread = _root_mean_square(features - self.mean_, share)
            if not np.isfinite(spread).all():
                raise InputError("features: they differ by more than float64 holds; divide them by a large number")
            # A feature that never changes is left alone; what rounding makes of its spread is no scale.
            constant = spread <= 10 * np.finfo(features.dtype).eps * np.abs(self.mean_)
            self.scale_ = np.where(constant, 1.0, spread)
            self._moving = ~constant
            if self.standardize == "together":
                moving = spread[~constant]
                even = np.full(len(moving), 1 / max(len(moving), 1))
                common = float(_root_mean_square(moving[:, None], even)[0]) if len(moving) else 1.0
                self.scale_ = np.full_like(spread, common)

    def _tensor(self, features: NDArray[np.floating[Any]], dtype: torch.dtype | None = None) -> torch.Tensor:
        """Features as the head takes them, in their own number format or another one."""
        if self.mean_ is not None and self.scale_ is not None:
            with np.errstate(over="ignore"):  # found out below, in words
                # Nothing was learnt of a feature that never changed.
                scaled = np.where(self._moving, (features - self.mean_) / self.scale_, 0.0)
                features = scaled.astype(features.dtype)
        tensor = torch.tensor(features, dtype=dtype)
        if not bool(tensor.isfinite().all()):
            row, column = (int(place) for place in (~tensor.isfinite()).nonzero()[0])
            raise InputError(
                f"features: sample {row} is so far from those of the fit, in feature {column}, that its numbers "
                f"overflow in {str(tensor.dtype).removeprefix('torch.')}; check its units"
            )
        return tensor

    def _folds(self, features: NDArray[np.floating[Any]], targets: NDArray[np.int64]) -> list[Fold]:
        """The folds of cross-validation; none where no sample can be held out."""
        if self.cv != "auto" and not isinstance(self.cv, int):
            return list(check_cv(self.cv, targets, classifier=True).split(features, targets))
        folds = deal_folds(targets, FOLDS if self.cv == "auto" else int(self.cv))
        if folds:
            return folds
        message = "cross-validation needs a class with at least two samples, and here every class has one"
        if self.cv != "auto":
            raise InputError(f"cv: {message}; give the strengths and cv=None")
        warnings.warn(f"{message}; the strengths are taken as given", UserWarning, stacklevel=3)
        return []

    # ---- answers ----------------------------------------------------------------------------------------------------

    def posterior(self, X: ArrayLike, given: Evidence = None) -> Posterior:  # noqa: N803
        """The whole posterior of each sample.

        Args:
            X: (samples, features).
            given: what is known already, as for `Posterior.given`: per kind a label, a set, likelihoods, or a list with
                one of these per sample.
        """
        check_is_fitted(self, "head_")
        features = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        tensor = self._tensor(features, self.head_.fine.weight.dtype)
        if self.solver_ == "prototypes":
            tensor = self.prototypes_.scaling(tensor)
        posterior: Posterior = self.head_(tensor)
        return posterior.given(given) if given else posterior

    def predict_log_proba(self, X: ArrayLike, given: Evidence = None) -> Float[NDArray[np.floating[Any]], "batch fine"]:  # noqa: N803
        """The log probability of each class, in the order of `classes_`."""
        log_probs: NDArray[np.floating[Any]] = self.posterior(X, given).log_probs().numpy()
        return log_probs[:, self._order]

    def predict_proba(self, X: ArrayLike, given: Evidence = None) -> Float[NDArray[np.floating[Any]], "batch fine"]:  # noqa: N803
        """The probability of each class, in the order of `classes_`."""
        probs: NDArray[np.floating[Any]] = np.exp(self.predict_log_proba(X, given))
        return probs

    def predict(self, X: ArrayLike, given: Evidence = None) -> Shaped[NDArray[np.generic], " batch"]:  # noqa: N803
        """The most probable class of each sample."""
        best = self.predict_log_proba(X, given).argmax(axis=1)
        predicted: NDArray[np.generic] = self.classes_[best]
        return predicted

    def predict_kind_proba(
        self,
        X: ArrayLike,  # noqa: N803
        kind: str,
        given: Evidence = None,
    ) -> Float[NDArray[np.floating[Any]], "batch label"]:
        """The probability of each label of a kind, in the order of `graph_.labels(kind)`."""
        probs: NDArray[np.floating[Any]] = self.posterior(X, given).probs(kind).numpy()
        return probs

    def predict_kind(self, X: ArrayLike, kind: str, given: Evidence = None) -> Shaped[NDArray[np.str_], " batch"]:  # noqa: N803
        """The most probable label of a kind for each sample."""
        best = self.predict_kind_proba(X, kind, given).argmax(axis=1)
        predicted: NDArray[np.str_] = np.array(self.graph_.labels(kind))[best]
        return predicted


def _is_default(value: object, default: object) -> bool:
    return value is default or (isinstance(value, (int, float)) and default is not None and value == default)


def _root_mean_square(values: NDArray[np.floating[Any]], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """The root of the weighted mean square of each column, also where squares would overflow or vanish."""
    largest = np.abs(values).max(axis=0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)
    with np.errstate(invalid="ignore"):  # infinity stays what it is
        return np.asarray(unit * np.sqrt(share @ np.square(values / unit)))


def _results(found: GridSearch, names: tuple[str, ...]) -> dict[str, Any]:
    """What cross-validation found, in the form of scikit-learn's `cv_results_`."""
    mean = found.mean_scores
    results: dict[str, Any] = {
        "params": [{name: getattr(setting, name) for name in names} for setting in found.settings],
        "mean_test_score": mean,
        "rank_test_score": 1 + (np.nan_to_num(mean[:, None], nan=-np.inf) < mean[None, :]).sum(axis=1),
    }
    results |= {f"split{fold}_test_score": scores for fold, scores in enumerate(found.scores.T)}
    return results
