"""The base of all models, and of linear ones, which solve a problem."""

from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from permatch._progress import progress_bar
from permatch._shards import showing
from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError, NotFittedError
from permatch.estimators.checks import check_number
from permatch.estimators.convergence import warn_unless_converged
from permatch.estimators.persistence import save
from permatch.estimators.problem import LinearProblem
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.optimizers import BaseOptimum


class BaseModel(BaseEstimator):
    """A model that can be fitted, saved and loaded.

    A subclass whose `fit` sets ``n_features_in_`` and ``feature_names_`` is saved with all
    attributes that end in an underscore.
    """

    n_features_in_: int
    feature_names_: list[str] | None

    #: How to fit the model, for messages.
    _fit_call: ClassVar[str]
    #: Arrays with a number per feature, stored separately in model files.
    _by_feature: ClassVar[tuple[str, ...]] = ()
    #: Fitted attributes that are objects, with their classes, which have `to_json` and
    #: `from_json`; the latter raises ValueError, TypeError or KeyError if it is damaged.
    _objects: ClassVar[dict[str, Any]] = {}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a JSON file; `permatch.load` reads it.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, never left half-written.
        """
        save(self, path)

    def inference(self, *data: Any, **options: Any) -> Any:
        """Refuse: only coefficients of a likelihood have standard errors."""
        raise InvalidOptionError(
            "inference needs a linear model with a likelihood: MAPMatching or RankMatch; "
            f"got {type(self).__name__}. Fit one of these, or resample the data."
        )

    def _check_loaded(self) -> None:
        """Refuse attributes from a file that contradict each other by ValueError."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"a fitted {type(self).__name__} is required; this one is not fitted. Call "
                f"{self._fit_call} first, or load a fitted model with permatch.load."
            )


class LinearModel(BaseModel):
    """A model with one coefficient per feature, found by solving a `LinearProblem`.

    Subclasses have the parameters named below.
    """

    alpha: float
    alpha_: float
    tol: float
    max_iter: int
    n_jobs: int | None
    warm_start: bool = False
    verbose: bool = False
    coef_: FloatArray
    scale_: FloatArray
    n_iter_: int
    is_converged_: bool
    history_: list[dict[str, float]]

    _by_feature = ("coef", "scale")
    _objects: ClassVar[dict[str, Any]] = {"posterior_": Posterior}
    #: Attributes that `inference` sets.
    _of_inference: ClassVar[tuple[str, ...]] = ("posterior_", "log_evidence_")
    #: Whether alpha may be 0.
    _is_zero_allowed: ClassVar[bool] = True

    def _problem(self, data: Any, n_jobs: int) -> LinearProblem:
        """Return the objective over checked training data."""
        raise NotImplementedError

    def _solver_options(self) -> dict[str, Any]:
        """Return the checked options of `LinearProblem.solve`."""
        return {
            "tol": check_number(self.tol, "tol", is_zero_allowed=False),
            "max_iter": check_count(self.max_iter, "max_iter", 1),
        }

    def _check_alpha(self) -> float:
        return check_number(self.alpha, "alpha", is_zero_allowed=self._is_zero_allowed)

    def _learn(
        self, problem: LinearProblem, alpha: float, options: dict[str, Any]
    ) -> BaseOptimum:
        """Solve the problem and set the fitted attributes, without a warning."""
        start = None
        if self.warm_start and hasattr(self, "coef_"):
            held = self._weights()
            start = problem.scaled(held) if len(held) == len(problem.scale) else None
        with progress_bar(type(self).__name__, 100, 0.0, bool(self.verbose)) as show:
            if show is not None:
                options = options | {"on_iteration": problem.percent(options["tol"], show)}
            with showing(problem.passes, show):
                optimum = problem.settle(alpha, start, **options)
            self._adopt(problem, optimum)  # before the bar is taken down, which takes time
            self.alpha_ = alpha
            self._conclude(problem, optimum)
        return optimum

    def _adopt(self, problem: LinearProblem, optimum: BaseOptimum) -> None:
        """Set the fitted attributes."""
        for name in self._of_inference:  # of the fit before
            vars(self).pop(name, None)
        self._hold(problem.coef(optimum), problem.scale)
        self.n_iter_ = optimum.n_iter
        self.is_converged_ = optimum.is_converged
        self.history_ = optimum.history
        for name, value in problem.fitted.items():
            setattr(self, name, value)

    def _conclude(self, problem: LinearProblem, optimum: Any) -> None:
        """Find out more about the fitted model, where that takes time."""

    def _hold(self, weights: FloatArray, scale: FloatArray) -> None:
        """Set the coefficients, in the units of the features, and their scale."""
        self.coef_, self.scale_ = weights, scale
        self.n_features_in_ = len(scale)

    def _weights(self) -> FloatArray:
        """Return all coefficients that were learned, as `_hold` takes them."""
        return self.coef_

    def _penalty(self) -> float:
        """Return the alpha that the model was fitted with."""
        return float(getattr(self, "alpha_", self.alpha))

    def _warn(self, optimum: Any) -> None:
        """Warn the caller of `fit` of unreliable results."""
        warn_unless_converged(optimum, type(self).__name__, getattr(self, "tol", np.nan))
