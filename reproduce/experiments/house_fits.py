"""Fits on pairs of frames, each with its alpha chosen on validation pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.decoding import best_matching
from permatch.inference import AbstractEngine
from permatch.pages.demo_learning import Pairs
from reproduce.experiments.rows import Row


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        Coefficients at the chosen alpha.
    alpha : float
        That alpha; of equally good ones the strongest.
    path : list of [alpha, validation loss]
        What was tried, from strong to weak.
    n_train : int
        Training pairs.
    n_evaluations : int
        Times that the training pairs were gone through, all alphas together.
    is_converged : bool
        Whether the fit at the chosen alpha converged.
    gradient_error : float or None
        Largest standard error of an entry of the gradient; None where it is not known.
    coef_path : list of ndarray
        Coefficients at every alpha of the path.
    """

    coef: FloatArray
    alpha: float
    path: list[list[float]]
    n_train: int
    n_evaluations: int
    is_converged: bool
    gradient_error: float | None = None
    coef_path: list[FloatArray] = field(default_factory=list)

    def to_row(self) -> Row:
        """Return it as part of a row."""
        losses = {alpha: loss for alpha, loss in self.path}
        alphas = list(losses)
        return {
            "n_train": self.n_train,
            "alpha": self.alpha,
            "validation_loss": losses[self.alpha],
            "is_edge": self.alpha in (alphas[0], alphas[-1]),
            "path": self.path,
            "n_evaluations": self.n_evaluations,
            "is_converged": self.is_converged,
            "gradient_error": self.gradient_error,
            "coef": self.coef.tolist(),
        }


def learn_map(
    train: Pairs,
    validation: Pairs,
    alphas: Sequence[float],
    engine: AbstractEngine,
    tol: float,
    n_jobs: int | None,
    **options: Any,
) -> Fit:
    """Return a fit by maximum a posteriori, with further options of `MAPMatchingCV`."""
    from permatch.estimators import MAPMatchingCV

    model = MAPMatchingCV(alphas, engine=engine, tol=tol, n_jobs=n_jobs, **options)
    model.fit(*train, validation=(validation.graphs, validation.matchings))
    results, error = model.cv_results_, model.gradient_error_
    return Fit(
        coef=model.coef_,
        alpha=model.alpha_,
        path=np.column_stack([results["alphas"], results["mean_score"]]).tolist(),
        n_train=len(train.graphs),
        n_evaluations=int(results["n_evaluations"].sum()),
        is_converged=bool(model.is_converged_),
        gradient_error=None if np.isnan(error) else float(error),
        coef_path=list(model.coef_path_[:, 0, : model.n_features_in_]),
    )


def learn_margin(
    train: Pairs,
    validation: Pairs,
    alphas: Sequence[float],
    tol: float,
    n_jobs: int | None,
    **options: Any,
) -> Fit:
    """Return a fit by maximum margin, with further options of `MaxMarginMatching`."""
    from permatch.estimators import MaxMarginMatching

    model = MaxMarginMatching(tol=tol, warm_start=True, n_jobs=n_jobs, **options)
    path: list[list[float]] = []
    fits: list[tuple[FloatArray, bool]] = []
    n_evaluations = 0
    for alpha in sorted(alphas, reverse=True):
        model.set_params(alpha=alpha).fit(*train)
        path.append([alpha, validation.loss(model.coef_)])
        fits.append((model.coef_, bool(model.is_converged_)))
        n_evaluations += int(model.history_[-1]["evaluations"])
    best = min(range(len(path)), key=lambda k: path[k][1])
    return Fit(
        coef=fits[best][0],
        alpha=path[best][0],
        path=path,
        n_train=len(train.graphs),
        n_evaluations=n_evaluations,
        is_converged=fits[best][1],
        coef_path=[coef for coef, _ in fits],
    )


def measure(test: Pairs, coef: FloatArray) -> Row:
    """Return the Hamming losses of test pairs, their mean and its standard error."""
    wrong = [
        float(np.mean(best_matching(graph.scores(coef)) != matching))
        for graph, matching in zip(*test, strict=True)
    ]
    error = float(np.std(wrong, ddof=1) / np.sqrt(len(wrong))) if len(wrong) > 1 else None
    loss = float(np.mean(wrong))
    return {
        "hamming_loss": loss,
        "standard_error": error,
        "n_test": len(wrong),
        "losses": wrong,
    }


def check_marginals(
    scores: FloatArray,
    guessing: AbstractEngine,
    drawing: AbstractEngine,
    n_jobs: int | None,
) -> dict[str, Any]:
    """Return how far the marginals of one engine are from the drawn ones of another.

    Parameters
    ----------
    scores : ndarray of shape (b, m, m)
        Of the graphs to be compared on.
    guessing, drawing : engine object
        The engine in question, and one with standard errors.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    dict
        ``n_pairs``; ``largest``, over all edges; ``misplaced``, the share of a landmark's
        probability that sits on other partners than it should, on average;
        ``sampler_error``, the largest standard error of the drawn ones.
    """
    drawn = drawing.infer(scores, n_jobs=n_jobs)
    guessed = guessing.infer(scores, n_jobs=n_jobs)
    gaps = np.abs(guessed.marginals - drawn.marginals)
    return {
        "n_pairs": len(scores),
        "largest": float(gaps.max()),
        "misplaced": float(gaps.sum(axis=2).mean() / 2.0),
        "sampler_error": float(np.max(drawn.marginal_errors)),
    }
