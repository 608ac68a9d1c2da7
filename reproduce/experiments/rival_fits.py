"""A rival of the paper on one fold: every setting fitted, one of them chosen by validation.

A setting is a combination of the options that `reproduce.rivals.table` lists, with each of
the alphas where the rival has a penalty.  Where it learns in rounds, it is measured after
every round.  Chosen is what has the largest mean of NDCG@1 to NDCG@10 on the validation
part of the fold; in case of ties the simpler: the stronger penalty, then fewer rounds, then
the setting that the table has first.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from permatch._types import FloatArray
from permatch.pages.demo_learning import quiet_fit
from reproduce.experiments.letor_folds import Fold
from reproduce.experiments.ranking_fits import measure
from reproduce.experiments.rows import Row
from reproduce.experiments.tree_rivals import mean_ndcg
from reproduce.rivals.table import RIVALS, Listed

#: The rivals that can be run on lists alone.
RUN = tuple(method for method, rival in RIVALS.items() if not rival.needs_similarity)


class Grid(NamedTuple):
    """What is tried of every rival.

    Attributes
    ----------
    alphas : sequence of float
        Strengths of the penalty.
    n_values : int, optional
        How many values of each option of the table; None takes all.
    n_rounds : int, optional
        Rounds at most; None leaves it to the rival.
    """

    alphas: Sequence[float]
    n_values: int | None = None
    n_rounds: int | None = None

    def settings(self, rival: Listed) -> list[Row]:
        """Return all settings of a rival, the strongest penalty first."""
        settings = rival.settings(self.n_values)
        if not rival.has_alpha:
            return settings
        alphas = sorted(self.alphas, reverse=True)
        return [setting | {"alpha": alpha} for setting in settings for alpha in alphas]

    def model(self, rival: Listed, setting: Row, seed: int) -> Any:
        """Return an unfitted rival; features are between 0 and 1 already."""
        model = rival.kind(scaling=None, **setting, **rival.fixed)
        options = model.get_params()
        if "random_state" in options:
            model.set_params(random_state=seed)
        if rival.has_rounds and self.n_rounds is not None:
            model.set_params(n_rounds=min(self.n_rounds, options["n_rounds"]))
        return model

    def named(self, rival: Listed, seed: int) -> Row:
        """Return all that the results of a rival depend on, for a fingerprint."""
        models = [self.model(rival, found, seed) for found in self.settings(rival)]
        return {
            "method": rival.method,
            "version": rival.version,
            "options": [model.get_params() for model in models],
        }


def learn_rival(
    rival: Listed, fold: Fold, grid: Grid, seed: int = 0
) -> tuple[FloatArray, Row]:
    """Fit a rival with every setting and choose one by validation.

    Parameters
    ----------
    rival : Listed
        The rival.
    fold : Fold
        Training and validation part are learned and chosen from; the test part is scored.
    grid : Grid
        What is tried.
    seed : int
        Of rivals that draw.

    Returns
    -------
    scores : ndarray of shape (n,)
        Of the test documents.
    row : dict
        ``chosen``, its options, ``alpha`` and ``n_rounds``; ``validation_ndcg``;
        ``is_edge``, whether alpha is the first or last one tried or the rounds are as many
        as there could be; ``is_converged``; ``n_fits``, ``fit_seconds``, the processor time
        of one fit, and ``seconds``, the wall time of all; ``path``, the settings tried,
        each with its best number of rounds and validation score.
    """
    train, valid, test = fold.train, fold.validation, fold.test
    start, spent = time.perf_counter(), 0.0
    path: list[Row] = []
    best: Any = None
    for setting in grid.settings(rival):
        model = grid.model(rival, setting, seed)
        began = time.process_time()
        with quiet_fit():
            model.fit(train.X, train.y, qid=train.qid)
        spent += time.process_time() - began
        stages = model.staged_predict(valid.X, qid=valid.qid)
        scores = [mean_ndcg(valid, stage) for stage in stages]
        n_rounds = int(np.argmax(scores)) + 1  # the first of those that are equal
        rounds = {"n_rounds": n_rounds} if rival.has_rounds else {}
        path.append(setting | rounds | {"validation_ndcg": scores[n_rounds - 1]})
        if best is None or _rank(path[-1]) > _rank(best[1]):
            best = model, path[-1]
    model, step = best
    chosen = {name: step[name] for name in step if name != "validation_ndcg"}
    is_last_round = rival.has_rounds and chosen["n_rounds"] == model.n_rounds
    if rival.has_rounds:
        model.keep(chosen["n_rounds"])
    return model.predict(test.X, qid=test.qid), {
        "chosen": chosen,
        "validation_ndcg": step["validation_ndcg"],
        "is_edge": is_last_round or _is_last_alpha(chosen, grid.alphas),
        "is_converged": bool(getattr(model, "is_converged_", True)),
        "n_fits": len(path),
        "fit_seconds": round(spent / len(path), 6),
        "seconds": round(time.perf_counter() - start, 3),
        "path": path,
    }


def measure_rival(rival: Listed, fold: Fold, grid: Grid, seed: int = 0) -> Row:
    """Return what a rival reaches on the test part of a fold, and how.

    Parameters
    ----------
    rival, fold, grid, seed
        As in `learn_rival`.

    Returns
    -------
    dict
        As of `reproduce.experiments.ranking_fits.measure` and `learn_rival`.
    """
    scores, row = learn_rival(rival, fold, grid, seed)
    return measure(fold.test, scores) | row


def _rank(step: Row) -> tuple[float, float, int]:
    """Return what is larger for a better setting and, if equally good, a simpler one."""
    return step["validation_ndcg"], step.get("alpha", 0.0), -step.get("n_rounds", 0)


def _is_last_alpha(chosen: Row, alphas: Sequence[float]) -> bool:
    is_choice = "alpha" in chosen and len(alphas) > 1
    return is_choice and chosen["alpha"] in (min(alphas), max(alphas))
