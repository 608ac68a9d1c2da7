"""The contract of rankers: one that is not linear has everything by two methods."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.base import clone

import permatch as pm
from permatch._estimators import ESTIMATORS, Listed, find_estimator, options_of
from permatch.errors import InvalidOptionError, NotFittedError
from permatch.estimators import BaseRanker
from permatch.pages.rank_explorer import rank_view
from tests.estimators.test_rank_match import judged_lists


@dataclass(eq=False, repr=False)
class Curved(BaseRanker):
    """Scores by distance from the mean of the best documents."""

    scaling: str | None = None
    center_: np.ndarray = field(init=False)

    def _fit(self, queries):
        self.n_features_in_ = queries.n_features
        best = queries.grades == queries.grades.max()
        self.center_ = queries.documents[best].mean(axis=0)

    def _predict(self, documents):
        return -((documents - self.center_) ** 2).sum(axis=1)


class Outside(Listed):
    """A line of the table for a class that is not in the package."""

    home = Curved.__module__

    def load(self):
        return Curved


@pytest.fixture
def listed(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "Curved", Outside("Curved", "curved", "rank", None))


@pytest.mark.parametrize("scaling", [None, "minmax"])
def test_a_curved_ranker_can_do_what_rankers_can(scaling, listed, tmp_path):
    X, y, qid = judged_lists(n_queries=20)
    model = clone(Curved(scaling=scaling))
    with pytest.raises(NotFittedError, match="fitted Curved"):
        model.predict(X, qid)
    model.fit(X, y, qid, feature_names=["a", "b", "c"])
    assert model.score(X, y, qid) > 0.6
    assert model.feature_names_ == ["a", "b", "c"]
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    assert loaded.n_features_in_ == 3
    np.testing.assert_array_equal(loaded.predict(X, qid), model.predict(X, qid))
    np.testing.assert_array_equal(loaded.rank(X, qid), model.rank(X, qid))


def test_what_needs_coefficients_says_so(listed):
    X, y, qid = judged_lists()
    model = Curved().fit(X, y, qid)
    with pytest.raises(InvalidOptionError, match="rankers and of trees; got a Curved"):
        rank_view("q", ["d"], X[:1], y[:1], model)


def test_the_table_names_every_estimator_once():
    for name, row in ESTIMATORS.items():
        assert row.load() is getattr(pm, name)
        is_ranker = issubclass(row.load(), BaseRanker)
        assert (row.task == "rank") == is_ranker
    rooms = pm.estimators, pm.boosting
    learners = {name for room in rooms for name in room.__all__ if hasattr(pm, name)}
    others = {"QueryScaler", "MarginalIntervals", "Posterior", "compare_rankers"}
    others |= {"export", "load", "save"}
    assert learners - others == set(ESTIMATORS)


@pytest.mark.parametrize("task", ["match", "rank"])
def test_every_name_on_the_command_line_is_that_of_an_estimator_and_its_search(task):
    found = {
        find_estimator(task, option, is_search=is_search, kind=kind)
        for kind in ("linear", "trees")
        for option in options_of(task, kind)
        for is_search in (False, True)
    }
    rows = [row for row in ESTIMATORS.values() if row.task == task and row.option]
    assert found == {row.load() for row in rows}


def test_an_estimator_that_is_not_linear_is_not_on_the_command_line(listed):
    assert options_of("rank")
    assert None not in options_of("rank")
