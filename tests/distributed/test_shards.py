"""Sums over shards: nothing depends on how many there are, and empty ones do not matter."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import permatch as pm
from permatch._shards import HeldShards, add_up, showing
from permatch.errors import GradeError
from permatch.queries import check_queries
from tests.distributed.judged import estimators, judged_lists

SIMPLE = {name: model for name, model in estimators().items() if "search" not in name}
FACTS = ("n_observations_", "forms_", "level_weights_", "level_shares_")


def shards_of(queries, n_shards):
    """Return queries in shards, some of which are empty."""
    rng = np.random.default_rng(2)
    cuts = np.sort(rng.integers(0, queries.n_queries + 1, size=n_shards - 1))
    ends = [0, *cuts.tolist(), queries.n_queries]
    return HeldShards(
        [
            replace(queries.take(np.arange(first, last)), first=first)
            for first, last in zip(ends[:-1], ends[1:], strict=True)
        ]
    )


@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("n_shards", [2, 32])
def test_a_fit_does_not_depend_on_the_shards(name, n_shards):
    X, y, qid = judged_lists()
    weights = 1.0 + qid % 3
    whole = clone(SIMPLE[name]).fit(X, y, qid, sample_weight=weights)
    parted = clone(SIMPLE[name])
    queries = parted.scaled(check_queries(X, y, qid, sample_weight=weights))
    parted._fit_shards(shards_of(queries, n_shards))
    np.testing.assert_allclose(parted.coef_, whole.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(parted.scale_, whole.scale_, rtol=1e-12)
    for fact in FACTS:
        np.testing.assert_equal(getattr(parted, fact, None), getattr(whole, fact, None))
    for fact in ("grade_levels_", "grade_offsets_", "shift_coef_", "shift_std_"):
        if hasattr(whole, fact):
            own, other = getattr(parted, fact), getattr(whole, fact)
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)


def test_numbers_of_documents_are_learned_from_some_lists_of_all_shards(monkeypatch):
    monkeypatch.setattr("permatch.estimators.grade_fit._MOST_LISTS", 15)
    X, y, qid = judged_lists()
    queries = check_queries(X, y, qid)
    whole, parted = pm.RankMatch().fit(X, y, qid), pm.RankMatch()
    parted._fit_shards(shards_of(queries, 7))
    assert parted.shift_std_ == pytest.approx(whole.shift_std_, rel=1e-9)
    taken = queries.take((np.arange(15) + 0.5) * queries.n_queries / 15)
    again = pm.RankMatch().fit(X, y, qid)
    again._learn_counts(HeldShards([taken]), has_slope=False)
    np.testing.assert_allclose(again.grade_offsets_, whole.grade_offsets_)


@pytest.mark.parametrize("kind", [pm.RankMatch, pm.QueryRidge])
def test_sparse_features_too(kind):
    X, y, qid = judged_lists()
    queries = check_queries(sparse.csr_array(np.maximum(X, 0.0)), y, qid)
    one = kind(alpha=0.1).fit(queries.documents, y, qid)
    other = kind(alpha=0.1)
    other._fit_shards(shards_of(queries, 9))
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=1e-9)


def test_subsets_are_drawn_by_the_number_of_the_query():
    X, y, qid = judged_lists()
    queries = check_queries(X, y, qid)
    model = pm.RankMatch(3, missing_grades="fill")
    (whole,) = model._problem(HeldShards([queries]), 1).shards.shards
    parts = model._problem(shards_of(queries, 5), 1).shards.shards

    def drawn(pair):
        rows, loss = pair
        if not hasattr(loss, "_parts"):
            return []
        return [rows.documents[part.rows] for part in loss._parts]

    found = np.concatenate([own for pair in parts for own in drawn(pair)])
    np.testing.assert_array_equal(found, *drawn(whole))


def test_what_says_nothing_is_refused_wherever_it_is():
    X, _, qid = judged_lists()
    same = shards_of(check_queries(X, np.zeros(len(X)), qid), 3)
    for model in (pm.RankMatch(), pm.RankMatch("pairs"), pm.DORM("all"), pm.QueryRidge()):
        with pytest.raises(GradeError, match="none of the 40 queries has both"):
            model._fit_shards(same)
    with pytest.raises(GradeError, match="in each of the 40 queries all grades are equal"):
        pm.RankMatch(3)._fit_shards(same)


def test_sums_are_added_in_the_order_of_the_shards():
    terms = [(1e16, np.array([1.0])), (1.0, np.array([2.0])), (-1e16, np.array([3.0]))]
    assert add_up(terms) == (0.0, np.array([6.0]))
    assert add_up([terms[0], terms[2], terms[1]])[0] == 1.0


def test_passes_are_shown_while_wanted():
    shards, seen = HeldShards([1, 2]), []
    with showing(shards.passes, seen.append):
        shards.passes.begin()
        shards.passes.note(1, 2)
    shards.passes.note(2, 2)
    assert seen == ["pass 1, part 1 of 2"]
