"""One rival on one fold: what is tried, what is chosen, and what of it is kept."""

from dataclasses import replace

import numpy as np
import pytest

from reproduce.experiments.letor_folds import load_folds
from reproduce.experiments.rival_fits import RUN, Grid, learn_rival, measure_rival
from reproduce.experiments.tree_rivals import mean_ndcg
from reproduce.rivals import RIVALS
from reproduce.tests.letor_folder import write_letor

SMALL = Grid(alphas=(1.0, 0.01, 0.1), n_values=2, n_rounds=3)


@pytest.fixture(scope="module")
def fold(tmp_path_factory):
    return load_folds("OHSUMED", write_letor(tmp_path_factory.mktemp("data"))).fold(1)


def test_all_of_the_papers_rivals_are_run_but_the_one_that_needs_more():
    assert set(RIVALS) - set(RUN) == {"ccrf"}
    assert len(RUN) == 10


@pytest.mark.parametrize("method", RUN)
def test_the_best_setting_is_chosen_and_fitted_alone_gives_the_same(method, fold):
    rival = RIVALS[method]
    scores, row = learn_rival(rival, fold, SMALL, seed=3)
    settings = SMALL.settings(rival)
    assert row["n_fits"] == len(settings) == len(row["path"])
    best = max(row["path"], key=lambda step: step["validation_ndcg"])
    assert row["validation_ndcg"] == best["validation_ndcg"]
    # The chosen one, fitted by hand.
    options = dict(row["chosen"])
    if rival.has_alpha:
        assert row["is_edge"] == (options["alpha"] in (1.0, 0.01))
    if "random_state" in rival.kind().get_params():
        options["random_state"] = 3
    model = rival.kind(scaling=None, **rival.fixed | options)
    model.fit(fold.train.X, fold.train.y, fold.train.qid)
    np.testing.assert_allclose(scores, model.predict(fold.test.X, fold.test.qid))
    valid = fold.validation
    reached = mean_ndcg(valid, model.predict(valid.X, valid.qid))
    assert reached == pytest.approx(row["validation_ndcg"])
    if rival.has_rounds:
        assert 1 <= row["chosen"]["n_rounds"] <= 3
        assert row["is_edge"] == (row["chosen"]["n_rounds"] == 3)


def test_all_values_are_tried_unless_fewer_are_asked_for():
    full = Grid(alphas=(1.0, 0.1))
    assert len(full.settings(RIVALS["rankboost"])) == 3
    assert len(full.settings(RIVALS["adarank_ndcg"])) == 4
    assert [step["alpha"] for step in full.settings(RIVALS["ranksvm"])] == [1.0, 0.1]
    (only,) = replace_values(full, 1).settings(RIVALS["rankboost"])
    assert only == {"n_bins": 32}
    model = full.model(RIVALS["frank"], {"n_bins": 8}, seed=0)
    assert (model.n_rounds, model.n_bins, model.scaling) == (150, 8, None)
    assert full._replace(n_rounds=500).model(RIVALS["frank"], {}, 0).n_rounds == 150
    assert full._replace(n_rounds=7).model(RIVALS["frank"], {}, 0).n_rounds == 7
    assert full.model(RIVALS["sortnet"], {}, seed=5).random_state == 5


def replace_values(grid, n_values):
    return grid._replace(n_values=n_values)


class Flat:
    """A rival whose scores are always the same, whatever the round."""

    def __init__(self, scaling=None, alpha=1.0, kind="a", n_rounds=4):
        self.alpha, self.kind, self.n_rounds, self.kept = alpha, kind, n_rounds, None

    def get_params(self):
        return {"n_rounds": self.n_rounds}

    def fit(self, X, y, qid):
        return self

    def staged_predict(self, X, qid):
        return iter([X[:, 0]] * self.n_rounds)

    def keep(self, n_rounds):
        self.kept = n_rounds

    def predict(self, X, qid):
        assert self.kept == 1
        return X[:, 0]


def test_ties_go_to_the_simpler(fold):
    rival = replace(
        RIVALS["rankboost"], kind=Flat, grid={"kind": ("a", "b")}, has_alpha=True
    )
    _, row = learn_rival(rival, fold, Grid(alphas=(0.1, 1.0)))
    assert row["chosen"] == {"kind": "a", "alpha": 1.0, "n_rounds": 1}
    assert len({step["validation_ndcg"] for step in row["path"]}) == 1
    assert row["is_edge"]  # the strongest alpha


def test_the_test_part_is_only_measured(fold):
    flipped = replace(fold.test, y=2 - fold.test.y)
    for method in ("rankboost", "ranksvm"):
        row = measure_rival(RIVALS[method], fold, SMALL)
        other = measure_rival(RIVALS[method], replace(fold, test=flipped), SMALL)
        assert row["path"] == other["path"]
        assert row["chosen"] == other["chosen"]
        assert row["ndcg"] != other["ndcg"]
        assert np.shape(row["per_query"]) == (3, 10)
        assert row["fit_seconds"] >= 0
