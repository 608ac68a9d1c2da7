"""MAPMatching with its alpha chosen on graphs held out."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv

from permatch._progress import progress_bar
from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_path import (
    SCORINGS,
    AlphaPath,
    MatcherFold,
    take,
    walk,
)
from permatch.estimators.base import (
    BaseMatcher,
    DataSet,
    check_data_set,
    check_feature_names,
)
from permatch.estimators.convergence import (
    check_alphas,
    warn_of_path,
    warn_unless_converged,
)
from permatch.estimators.map_matching import MAPMatching
from permatch.estimators.noisy_fit import EstimatedOptimum, warn_of_doubts
from permatch.inference import AbstractEngine, find_engine
from permatch.optimizers import BundleOptimum, Optimum


class MAPMatchingCV(BaseMatcher):
    """`MAPMatching` with alpha chosen by cross-validation or on a validation set.

    Every alpha is tried from the strongest to the weakest, each fit beginning where the
    last one ended.  Of equally good ones the largest is taken.  The model is then fitted at
    it on all training graphs; with a validation set, which never trains, the model of the
    path is kept.

    Parameters
    ----------
    alphas : sequence of float
        Strengths of the penalty to try.
    cv : int, splitter, or iterable of (train, test) index arrays
        A number means that many folds, shuffled.  Not used with a validation set.
    scoring : {"hamming", "log_likelihood"}
        What chooses alpha on the graphs held out: the Hamming loss, the less the better,
        or the mean log-likelihood.
    engine : str or engine object
        Computes log-partitions and marginals.
    solver : {"lbfgs", "bfgs"}
        Limited-memory BFGS, or the full BFGS of the paper, which takes no bounds.
    bounds : None, "non-negative", "non-positive" or a pair (low, high)
        Limits of the coefficients in the units of the features: numbers, arrays of shape
        (d,), or None for no limit on that side.
    scale_features : bool
        Whether to divide every feature by its standard deviation over all training edges.
    tol : float
        Largest entry of the gradient, by the scaled coefficients, accepted as converged.
    max_iter : int
        Most steps of the solver, at every alpha.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No result depends on it.
    random_state : int, RandomState or None
        Seed of the shuffling into folds; None shuffles anew at every fit.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    alpha_ : float
        The alpha chosen.
    best_score_ : float
        Its mean score on the graphs held out.
    cv_results_ : dict of ndarray
        ``alphas`` (n_alphas,) from strong to weak; ``scores`` (n_alphas, n_splits), losses
        where the scoring is a loss; ``mean_score`` and ``std_score`` (n_alphas,) over the
        splits; ``n_evaluations`` (n_alphas, n_splits).
    coef_path_ : ndarray of shape (n_alphas, n_splits, d)
        The coefficients that were scored.
    coef_ : ndarray of shape (d,)
        One coefficient per feature, in the units of the features.
    scale_ : ndarray of shape (d,)
        What every feature was divided by.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if `fit` was given any.
    n_iter_ : int
        Steps taken by the fit that gave ``coef_``.
    is_converged_ : bool
        Whether its gradient got as small as `tol`, or cannot be told from zero.
    history_ : list of dict
        Its loss and gradient norm by iteration.
    gradient_error_ : float
        Largest standard error of an entry of its gradient: 0 with exact inference, NaN with
        an engine that says nothing of its errors (`Bethe`).
    is_exact_ : bool
        Whether all its inference was exact.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> from permatch.estimators import MAPMatchingCV
    >>> rng = np.random.default_rng(0)
    >>> graphs = list(rng.normal(size=(60, 4, 4, 3)))
    >>> coef = np.array([2.0, -1.0, 0.0])
    >>> matchings = [
    ...     pm.MatchingDistribution(graph @ coef).sample(1, rng=k)[0]
    ...     for k, graph in enumerate(graphs)
    ... ]
    >>> model = MAPMatchingCV([1e-4, 1e-2, 1.0], scoring="log_likelihood", random_state=0)
    >>> model.fit(graphs, matchings).alpha_
    0.01
    >>> model.cv_results_["scores"].shape
    (3, 5)
    """

    alpha_: float
    best_score_: float
    cv_results_: dict[str, Any]
    coef_path_: FloatArray
    n_iter_: int
    is_converged_: bool
    history_: list[dict[str, float]]
    gradient_error_: float
    is_exact_: bool

    def __init__(
        self,
        alphas: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        *,
        cv: Any = 5,
        scoring: str = "hamming",
        engine: str | AbstractEngine = "auto",
        solver: str = "lbfgs",
        bounds: Any = None,
        scale_features: bool = True,
        tol: float = 1e-6,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.engine = engine
        self.solver = solver
        self.bounds = bounds
        self.scale_features = scale_features
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        graphs: Any,
        matchings: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Choose alpha and learn the coefficients.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Edge features; sizes m may differ between graphs.
        matchings : sequence of integer arrays of shape (m,)
            The true matching of every graph.
        sample_weight : array of shape (n,), optional
            Weight of every graph, in training and in the scores of its fold.
        validation : pair (graphs, matchings), optional
            Graphs that choose alpha and never train; without it `cv` splits the others.
        feature_names : sequence of str, optional
            A name for every feature, kept with the model.

        Returns
        -------
        MAPMatchingCV
            Itself.
        """
        data = check_data_set(graphs, matchings, sample_weight)
        n_features = data[0][0].n_features
        names = check_feature_names(feature_names, n_features)
        alphas = check_alphas(self.alphas)
        if self.scoring not in SCORINGS:
            raise InvalidOptionError(
                f"scoring must be one of {', '.join(map(repr, SCORINGS))}; got "
                f"{self.scoring!r}."
            )
        if validation is None:
            splits = [
                (take(data, train, k), take(data, test, k))
                for k, (train, test) in enumerate(self._splits(data))
            ]
        else:
            splits = [(data, _check_validation(validation, n_features))]
        folds = [MatcherFold(self._model(), *split, self.scoring) for split in splits]
        title = type(self).__name__
        with progress_bar(title, len(alphas) * len(folds), 0.0, bool(self.verbose)) as show:
            path = walk(folds, alphas, show)
        best = self._keep(path, folds)
        self.feature_names_ = names
        if path.is_interrupted:
            self.is_converged_ = False
            warnings.warn(
                f"the fit of {title} was interrupted after {len(path.rows)} of "
                f"{len(alphas)} alphas; the best of these is kept, with coefficients "
                "averaged over the splits. Fit again for the others.",
                ConvergenceWarning,
                stacklevel=2,
            )
            return self
        warn_of_path(path.n_open(), path.scores().size, alphas, self.alpha_, title)
        optimum = path.rows[best][0].optimum
        if validation is None:
            model = self._model()
            model.alpha = self.alpha_
            model.coef_ = self.coef_  # the mean over the folds: a good place to begin
            optimum = model._fit(*data)
            self._adopt(model.coef_, model.scale_, optimum)
        warn_unless_converged(optimum, title, self.tol)
        if isinstance(optimum, EstimatedOptimum):
            warn_of_doubts(optimum, find_engine(self.engine))
        return self

    def _model(self) -> MAPMatching:
        return MAPMatching(
            engine=self.engine,
            solver=self.solver,
            bounds=self.bounds,
            scale_features=self.scale_features,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=True,
            n_jobs=self.n_jobs,
        )

    def _splits(self, data: DataSet) -> Iterable[tuple[Any, Any]]:
        n_graphs = len(data[0])
        try:
            if not isinstance(self.cv, int | np.integer) or isinstance(self.cv, bool):
                splitter: Any = check_cv(self.cv)
                return list(splitter.split(data[0], data[1]))
            n_folds = check_count(self.cv, "cv", 2)
            if n_folds > n_graphs:
                raise InvalidOptionError(
                    f"cv must be at most the number of graphs, {n_graphs}; got {n_folds}. "
                    "Give a smaller cv, or validation=(graphs, matchings)."
                )
            shuffled = KFold(n_folds, shuffle=True, random_state=self.random_state)
            return list(shuffled.split(range(n_graphs)))
        except InvalidOptionError:
            raise
        except (TypeError, ValueError) as err:
            raise InvalidOptionError(
                "cv must be a number of folds, a splitter of scikit-learn or an iterable "
                f"of (train, test) index arrays; got {self.cv!r} ({err})."
            ) from err

    def _keep(self, path: AlphaPath, folds: list[MatcherFold]) -> int:
        """Set the fitted attributes, choose alpha, and return its place on the path."""
        n_features = len(folds[0].model.coef_)
        self.cv_results_ = path.results(len(folds))
        self.coef_path_ = path.coefs().reshape(len(path.rows), len(folds), n_features)
        self.n_features_in_ = n_features
        if not path.rows:  # interrupted within the first alpha
            model = folds[0].model
            self.alpha_, self.best_score_ = path.alphas[0], np.nan
            self.coef_, self.scale_ = model.coef_, model.scale_
            self.n_iter_, self.history_ = model.n_iter_, model.history_
            self.gradient_error_, self.is_exact_ = model.gradient_error_, model.is_exact_
            return 0
        best = path.best(is_more_better=SCORINGS[self.scoring])
        self.alpha_ = path.alphas[best]
        self.best_score_ = float(self.cv_results_["mean_score"][best])
        scale = np.mean([fold.model.scale_ for fold in folds], axis=0)
        self._adopt(self.coef_path_[best].mean(axis=0), scale, path.rows[best][0].optimum)
        return best

    def _adopt(
        self, coef: FloatArray, scale: FloatArray, optimum: Optimum | BundleOptimum
    ) -> None:
        self.coef_, self.scale_ = coef, scale
        self.n_iter_, self.history_ = optimum.n_iter, optimum.history
        self.is_converged_ = optimum.is_converged
        if isinstance(optimum, EstimatedOptimum):
            self.gradient_error_, self.is_exact_ = optimum.gradient_error, optimum.is_exact


def _check_validation(validation: Any, n_features: int) -> DataSet:
    """Return the validation set, checked like the training set."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InvalidOptionError(
            "validation must be a pair (graphs, matchings); got "
            f"{type(validation).__name__}."
        )
    graphs, matchings = validation
    return check_data_set(graphs, matchings, None, n_features)
