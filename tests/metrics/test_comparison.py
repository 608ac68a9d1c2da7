"""Comparisons of scores against a slow definition, in tables and in words."""

import csv

import numpy as np
import pytest

from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.metrics import NDCG, Tau, evaluate, holm, randomisation_test
from permatch.metrics.comparing import compare_scores
from permatch.metrics.comparison_words import verdict
from permatch.metrics.significance import paired_tests

N_QUERIES, LENGTH = 30, 8
MEASURES = "NDCG@5,1, MAP, Tau"
QUICK = {"n_resamples": 999}


@pytest.fixture(scope="module")
def lists():
    """Judged lists, one of them of a single grade, their documents in any order."""
    rng = np.random.default_rng(3)
    grades = rng.integers(3, size=N_QUERIES * LENGTH)
    grades[:LENGTH] = 1
    qid = np.repeat([f"q{k}" for k in range(N_QUERIES)], LENGTH)
    order = rng.permutation(len(qid))
    noise = rng.normal(size=(3, len(qid)))
    scores = {
        "old": grades + 2.0 * noise[0],
        "new": grades + noise[1],
        "odd": grades + 2.0 * noise[2],
    }
    return {name: own[order] for name, own in scores.items()}, grades[order], qid[order]


@pytest.fixture(scope="module")
def comparison(lists):
    scores, grades, qid = lists
    return compare_scores(scores, grades, qid, measures=MEASURES, **QUICK)


def by_query(measure, lists, name):
    """A measure of every query, one query at a time."""
    scores, grades, qid = lists
    queries = list(dict.fromkeys(qid.tolist()))
    return np.array(
        [measure(grades[qid == query], scores[name][qid == query]) for query in queries]
    )


def test_all_figures_are_those_of_a_slow_definition(comparison, lists):
    p_values, rows = [], []
    for name in ("new", "odd"):
        for measure in comparison.measures:
            row = comparison.row(name, measure)
            ours = by_query(measure, lists, name)
            theirs = by_query(measure, lists, "old")
            known = ~np.isnan(ours - theirs)
            assert known.sum() == N_QUERIES - (measure == Tau())
            gains = [a - b for a, b in zip(ours[known], theirs[known], strict=True)]
            test = randomisation_test(ours[known], theirs[known], **QUICK)
            assert row.mean == pytest.approx(ours[known].mean())
            assert row.baseline_mean == pytest.approx(theirs[known].mean())
            assert row.difference == pytest.approx(test.difference)
            assert row.p_value == pytest.approx(test.p_value)
            assert row.interval == pytest.approx(test.interval)
            assert row.n_wins == sum(gain > 1e-12 for gain in gains)
            assert row.n_losses == sum(gain < -1e-12 for gain in gains)
            assert row.n_queries == len(gains)
            error = np.std(gains, ddof=1) / np.sqrt(len(gains))
            assert row.detectable == pytest.approx(3.6 * error)  # of 8 tests
            p_values.append(test.p_value)
            rows.append(row)
    assert comparison.rows == rows
    np.testing.assert_allclose([row.p_holm for row in rows], holm(p_values))
    assert comparison.row() == rows[0]


def test_the_queries_most_won_and_lost(comparison, lists):
    queries = list(dict.fromkeys(lists[2].tolist()))
    measure = NDCG @ 5
    ours, theirs = (by_query(measure, lists, name) for name in ("odd", "old"))
    np.testing.assert_allclose(comparison.differences("odd"), ours - theirs, atol=1e-12)
    for sign, found in (
        (1.0, comparison.most_won(4, "odd")),
        (-1.0, comparison.most_lost(4, "odd")),
    ):
        gains = sign * (ours - theirs)
        order = np.argsort(-gains, kind="stable")[:4]
        assert [query.query for query in found] == [queries[k] for k in order]
        for query, k in zip(found, order, strict=True):
            assert query.position == k
            assert query.value == pytest.approx(ours[k])
            assert query.baseline == pytest.approx(theirs[k])
            assert query.difference == pytest.approx(sign * gains[k])
    n_wins = comparison.row("odd").n_wins
    assert len(comparison.most_won(100, "odd")) == n_wins < 100
    assert comparison.most_won(0) == []
    assert comparison.most_won(3, "new", "MAP") != comparison.most_won(3, "new")


def test_lists_are_sorted_by_score(comparison, lists):
    scores, grades, qid = lists
    found = comparison.lists
    assert found.queries.tolist() == list(dict.fromkeys(qid.tolist()))
    rows = found.best_first(2, 1)
    own = np.flatnonzero(qid == found.queries[2])
    expected = own[np.argsort(-scores["new"][own])]
    assert [found.documents[row] for row in rows] == [str(k + 1) for k in expected]
    assert found.grades[rows].tolist() == grades[expected].tolist()


def test_tests_side_by_side_are_those_alone(rng):
    differences = rng.normal(0.2, 1.0, size=(25, 3))
    together = paired_tests(differences, 500, 7)
    for column, test in zip(differences.T, together, strict=True):
        alone = randomisation_test(column, 0 * column, n_resamples=500, random_state=7)
        assert test.p_value == alone.p_value
        assert test.interval == pytest.approx(alone.interval)


def test_seeds_decide(lists):
    scores, grades, qid = lists

    def rows(seed):
        found = compare_scores(scores, grades, qid, random_state=seed, n_resamples=200)
        return found.rows

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


def test_tables(comparison, tmp_path):
    pytest.importorskip("pandas")
    frame = comparison.to_pandas()
    assert frame["ranker"].tolist() == ["new"] * 4 + ["odd"] * 4
    assert frame["measure"].tolist() == [str(m) for m in comparison.measures] * 2
    assert frame["p_holm"].tolist() == [row.p_holm for row in comparison.rows]
    assert (frame["n_wins"] + frame["n_losses"] + frame["n_ties"]).max() == N_QUERIES
    queries = comparison.to_pandas(by_query=True)
    assert len(queries) == N_QUERIES
    assert queries["n_documents"].unique().tolist() == [LENGTH]
    assert queries["MAP odd"].mean() == pytest.approx(comparison.row("odd", "MAP").mean)
    for by in (False, True):
        path = tmp_path / "table.csv"
        comparison.write(path, by_query=by)
        with path.open() as file:
            lines = list(csv.DictReader(file))
        own = queries if by else frame
        assert list(lines[0]) == list(own.columns)
        assert [line["MAP odd" if by else "mean"] for line in lines] == [
            repr(value) for value in own["MAP odd" if by else "mean"].tolist()
        ]
    single = comparison.lists.queries.tolist()
    cells = {line["query"]: line["Tau old"] for line in lines}
    assert [query for query in single if cells[query] == ""] == ["q0"]


def test_printed_it_is_a_table(comparison):
    lines = repr(comparison).splitlines()
    assert lines[0].split()[:3] == ["measure", "old", "new"]
    assert lines[1].startswith("NDCG@5 ")
    assert f"{comparison.row().difference:+.4f}" in lines[1]
    assert lines[5].startswith("new is better than old in NDCG@5 by ")


# ---- in words


def compare_two(gains, **more):
    """Compare rankers of two documents a query: a gain puts the good one first."""
    grades = np.tile([1, 0], len(gains))
    ours = np.array([[gain > 0, gain < 0] for gain in gains], dtype=float).ravel()
    theirs = np.array([[gain < 0, gain > 0] for gain in gains], dtype=float).ravel()
    group = [2] * len(gains)
    return compare_scores(
        {"a": theirs, "b": ours}, grades, group=group, measures="NDCG@1", **QUICK, **more
    )


def test_what_is_more_than_chance_is_said():
    found = compare_two([1] * 12)
    row = found.row()
    assert (row.n_wins, row.n_losses, row.n_ties) == (12, 0, 0)
    assert row.is_significant
    words = verdict(found, row)
    assert words.startswith("b is better than a in NDCG@1 by 1.0000 (1.0000 against 0.0000")
    assert "more than chance explains: p = 0.0" in words
    assert "Holm" not in words  # a single test


def test_what_may_be_chance_is_said():
    words = str(compare_two([1, -1] * 8 + [-1]))
    assert "b is worse than a in NDCG@1 by 0.0588" in words
    assert "which may be chance: p = 1" in words
    assert "A true difference of less than about 0.7 would be missed on 17 quer" in words


def test_too_few_queries_are_said():
    words = str(compare_two([1, 1, 1, 0]))
    assert "They differ on 3 queries, where p cannot be below 0.25: too few" in words
    words = str(compare_two([1, 0]))
    assert "They differ on 1 query, where p cannot be below 1: too few" in words


def test_what_many_tests_need_is_said():
    scores = {"a": np.tile([1.0, 0.0], 6), "b": np.tile([0.0, 1.0], 6)}
    lists = scores, np.tile([0, 1], 6), np.repeat(np.arange(6), 2)
    words = str(compare_scores(*lists, measures="NDCG@1", n_resamples=500))
    assert "more than chance" in words or "A true difference" in words
    words = str(compare_scores(*lists, measures="NDCG@1, MRR", n_resamples=500))
    assert "on 6 queries, where p cannot be below 0.0312 before the correction" in words
    with pytest.raises(InvalidOptionError, match="at least 39 for 2 tests, or no diff.*38"):
        compare_scores(*lists, measures="NDCG@1, MRR", n_resamples=38)
    with pytest.raises(InvalidOptionError, match="at most 10,000,000; got 10000001"):
        compare_scores(*lists, measures="NDCG@1", n_resamples=10**7 + 1)


def test_equal_rankers_are_called_so():
    found = compare_two([0, 0, 0])
    row = found.row()
    assert (row.p_value, row.difference, row.n_ties) == (1.0, 0.0, 3)
    assert str(found).endswith("b and a have the same NDCG@1 on all 3 queries.")
    assert found.most_won() == found.most_lost() == []


def test_a_measure_without_values_has_no_test():
    grades = [1, 1, 0, 0, 2, 0]
    scores = {"a": np.arange(6.0), "b": -np.arange(6.0)}
    found = compare_scores(scores, grades, group=[2, 2, 2], measures="Tau, NDCG@1", **QUICK)
    row = found.row()
    assert row.n_queries == 1
    assert np.isnan([row.p_value, row.difference, row.p_holm, *row.interval]).all()
    assert not row.is_significant
    assert (row.baseline_mean, row.mean) == (-1.0, 1.0)
    other = found.row(measure="NDCG@1")
    assert other.p_holm == other.p_value  # a single test
    assert "Tau has a value on 1 query; a test needs at least two." in str(found)
    nothing = compare_scores(scores, [0] * 6, group=[2, 2, 2], measures="Tau", **QUICK)
    assert np.isnan(nothing.row().mean)
    assert "Tau has a value on 0 queries" in str(nothing)


def test_rounding_is_no_win():
    grades, qid = [1, 0, 0, 1], [0, 0, 1, 1]
    found = compare_scores({"a": [1, 0, 0, 1], "b": [9, 0, 0, 9]}, grades, qid, **QUICK)
    values = found.values.copy()
    values[1] += 1e-15
    object.__setattr__(found, "values", values)
    assert found.most_won() == []
    assert not found.differences().any()


# ---- what is wrong


def test_bad_input(comparison):
    two = {"a": [1.0, 2.0], "b": [2.0, 1.0]}
    with pytest.raises(InvalidQueriesError, match="at least two queries; got 1. Judge mor"):
        compare_scores(two, [1, 0], group=[2])
    with pytest.raises(InvalidQueriesError, match="same documents; a scores 2, b 3"):
        compare_scores({"a": [1.0, 2.0], "b": [1, 2, 3]}, [1, 0], [0, 1])
    with pytest.raises(InvalidQueriesError, match=r"^b: score must not contain NaN"):
        compare_scores({"a": [1.0, 2.0], "b": [1, np.nan]}, [1, 0], [0, 1])
    with pytest.raises(InvalidOptionError, match="at least one measure is required"):
        compare_scores(two, [1, 0], [0, 1], measures=[])
    with pytest.raises(InvalidOptionError, match="a measure must be one of NDCG"):
        compare_scores(two, [1, 0], [0, 1], measures="NDCF")
    with pytest.raises(InvalidQueriesError, match=r"one name per document, shape \(2,\)"):
        compare_scores(two, [1, 0], [0, 1], documents=["x"])
    with pytest.raises(InvalidOptionError, match="n_resamples"):
        compare_scores(two, [1, 0], [0, 1], n_resamples=0)
    with pytest.raises(InvalidOptionError, match="one of 'new', 'odd', which are compared"):
        comparison.row("old")
    with pytest.raises(InvalidOptionError, match="measure must be one of NDCG@5.*got P@3"):
        comparison.row("new", "P@3")
    with pytest.raises(InvalidOptionError, match="n must be"):
        comparison.most_won(-1)


def test_values_are_those_of_evaluate(comparison, lists):
    scores, grades, qid = lists
    found = evaluate(MEASURES, grades, scores["new"], qid, per_query=True)
    np.testing.assert_array_equal(comparison.values[1], list(found.values()))
