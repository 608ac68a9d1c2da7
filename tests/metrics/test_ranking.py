"""Measures of ranking: by hand, over all orders of ties, and as others compute them."""

import os
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score

from permatch.errors import GradeError, InvalidOptionError, InvalidQueriesError
from permatch.metrics import (
    average_precision,
    expected_reciprocal_rank,
    kendall_tau,
    ndcg,
    precision_at,
    reciprocal_rank,
)

MEASURES = {
    "ndcg": ndcg,
    "ndcg letor": lambda *args, **options: ndcg(*args, discount="letor", **options),
    "ndcg linear": lambda *args, **options: ndcg(*args, gain="linear", **options),
    "precision": precision_at,
    "average precision": average_precision,
    "reciprocal rank": reciprocal_rank,
    "expected reciprocal rank": expected_reciprocal_rank,
}
WITH_CUT = [name for name in MEASURES if name != "average precision"]


def eval_pl(grades, scores, n_positions=16):
    """LETOR's evaluation script for one query: precision, average precision, NDCG.

    A stable sort; discounts 1, 1, 1/log2(3) ...; 0 if no document is relevant.
    """
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    ranked = [grades[row] for row in order]
    hits = np.cumsum([grade >= 1 for grade in ranked])
    precision = [hits[min(k, len(hits)) - 1] / k for k in range(1, n_positions + 1)]
    n_relevant = hits[-1]
    average = sum(hits[j] / (j + 1) for j in range(len(ranked)) if ranked[j] >= 1)

    def dcg(sequence):
        total, sums = 0.0, []
        for j, grade in enumerate(sequence, 1):
            total += (2**grade - 1) / (1.0 if j < 3 else np.log2(j))
            sums.append(total)
        return [sums[min(k, len(sums)) - 1] for k in range(1, n_positions + 1)]

    best = dcg(sorted(grades, reverse=True))
    gains = [a / b if b else 0.0 for a, b in zip(dcg(ranked), best, strict=True)]
    return precision, average / n_relevant if n_relevant else 0.0, gains


def random_lists(rng, n_queries=12, n_grades=3, decimals=1):
    """Lists of 1 to 20 documents, many with equal scores, and their query ids."""
    lengths = rng.integers(1, 21, n_queries)
    n = lengths.sum()
    scores = np.round(rng.normal(size=n), decimals)
    return rng.integers(0, n_grades, n), scores, np.repeat(np.arange(n_queries), lengths)


def test_ndcg_by_hand():
    # order by score: grades 0, 1, 2
    gains = 0 / 1 + 1 / np.log2(3) + 3 / 2
    best = 3 / 1 + 1 / np.log2(3)
    y, score = [2, 0, 1], [0.1, 0.5, 0.3]
    assert ndcg(y, score, k=3) == pytest.approx(gains / best)
    assert ndcg(y, score, k=1) == 0.0
    letor = (0 + 1 + 3 / np.log2(3)) / (3 + 1)
    assert ndcg(y, score, discount="letor") == pytest.approx(letor)
    linear = (1 / np.log2(3) + 2 / 2) / (2 + 1 / np.log2(3))
    assert ndcg(y, score, gain="linear") == pytest.approx(linear)


def test_the_others_by_hand():
    y, score = [0, 2, 0, 1], [4.0, 3.0, 2.0, 1.0]
    np.testing.assert_allclose(
        precision_at(y, score, k=range(1, 5)), [0, 1 / 2, 1 / 3, 0.5]
    )
    assert average_precision(y, score) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert average_precision(y, score, threshold=2) == pytest.approx(1 / 2)
    assert reciprocal_rank(y, score) == 0.5
    assert reciprocal_rank(y, score, k=1) == 0.0
    # stops with 3/4 at position 2, else with 1/4 at position 4
    assert expected_reciprocal_rank(y, score) == pytest.approx(3 / 4 / 2 + 1 / 4 / 4 / 4)
    # pairs of different grades: two above a lower one, three below
    assert kendall_tau(y, score) == pytest.approx((2 - 3) / np.sqrt(6 * 5))


@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_is_that_of_scikit_learn(rng, k):
    y, score, qid = random_lists(rng, decimals=8)
    expected = [
        ndcg_score([np.exp2(y[qid == q]) - 1], [score[qid == q]], k=k)
        for q in np.unique(qid)
        if (qid == q).sum() > 1 and y[qid == q].any()
    ]
    is_taken = [(qid == q).sum() > 1 and y[qid == q].any() for q in np.unique(qid)]
    found = ndcg(y, score, qid, k, per_query=True)
    np.testing.assert_allclose(found[is_taken], expected, rtol=1e-12)


def test_expected_ties_are_those_of_scikit_learn(rng):
    y, score = rng.integers(0, 3, 30), rng.integers(0, 4, 30).astype(float)
    found = ndcg(y, score, k=None, gain="linear", ties="expected")
    assert found == pytest.approx(ndcg_score([y], [score]))


def test_average_precision_is_that_of_scikit_learn(rng):
    y, score = rng.integers(0, 2, 50), rng.normal(size=50)
    assert average_precision(y, score) == pytest.approx(average_precision_score(y, score))


def test_agreement_with_the_script_of_letor(rng):
    y, score, qid = random_lists(rng, n_queries=40)
    cuts = range(1, 17)
    precision = precision_at(y, score, qid, k=cuts, per_query=True)
    average = average_precision(y, score, qid, per_query=True)
    gains = ndcg(y, score, qid, k=cuts, discount="letor", per_query=True)
    for q in range(40):
        rows = qid == q
        a, b, c = eval_pl(y[rows].tolist(), score[rows].tolist())
        np.testing.assert_allclose(precision[q], a, rtol=1e-14)
        np.testing.assert_allclose(average[q], b, rtol=1e-14)
        np.testing.assert_allclose(gains[q], c, rtol=1e-14)


@pytest.mark.parametrize("name", MEASURES)
def test_expected_ties_are_means_over_all_orders(rng, name):
    measure = MEASURES[name]
    cuts = {"k": 3} if name in WITH_CUT else {}
    for score in (
        [1.0] * 6,
        [2.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0, -1.0],
    ):
        y = rng.integers(0, 4, 6)
        values = [
            measure(y[list(order)], np.array(score)[list(order)], **cuts)
            for order in permutations(range(6))
        ]
        found = measure(y, score, ties="expected", **cuts)
        assert found == pytest.approx(np.mean(values), rel=1e-12), (y, score)


@pytest.mark.parametrize("name", MEASURES)
def test_without_ties_both_rules_agree(rng, name):
    y, score, qid = random_lists(rng, decimals=8)
    score = score + 1e-4 * np.arange(len(score))
    stable = MEASURES[name](y, score, qid, per_query=True)
    expected = MEASURES[name](y, score, qid, ties="expected", per_query=True)
    np.testing.assert_allclose(stable, expected, rtol=1e-13)


def test_stable_ties_keep_the_order_given():
    assert ndcg([1, 0, 0], [1.0, 1.0, 1.0], k=1) == 1.0
    assert ndcg([0, 0, 1], [1.0, 1.0, 1.0], k=1) == 0.0
    assert ndcg([0, 0, 1], [1.0, 1.0, 1.0], k=1, ties="expected") == pytest.approx(1 / 3)
    assert ndcg([1, 0], [0.0, -0.0], k=1) == 1.0  # equal numbers


def test_kendall_tau_is_that_of_scipy(rng):
    y, score, qid = random_lists(rng, n_queries=30, n_grades=4)
    found = kendall_tau(y, score, qid, per_query=True)
    for q, value in enumerate(found):
        rows = qid == q
        if len(np.unique(y[rows])) == 1:
            assert np.isnan(value)
        elif len(np.unique(score[rows])) == 1:
            assert value == 0.0
        else:
            assert value == pytest.approx(kendalltau(y[rows], score[rows]).statistic)
    known = found[~np.isnan(found)]
    assert kendall_tau(y, score, qid) == pytest.approx(known.mean())
    filled = kendall_tau(y, score, qid, undefined=0.0)
    assert filled == pytest.approx(known.sum() / len(found))


@pytest.mark.parametrize("name", MEASURES)
def test_rows_of_a_query_may_be_apart(rng, name):
    y, score, qid = random_lists(rng, decimals=8)
    order = rng.permutation(len(y))
    expected = MEASURES[name](y, score, qid)
    assert MEASURES[name](y[order], score[order], qid[order]) == pytest.approx(expected)
    names = np.array([f"query {q}" for q in qid])
    assert MEASURES[name](y, score, names) == expected
    assert MEASURES[name](y, score, group=np.bincount(qid)) == expected


@pytest.mark.parametrize("name", WITH_CUT)
def test_shapes(rng, name):
    y, score, qid = random_lists(rng)
    measure = MEASURES[name]
    whole = measure(y, score, qid, k=[1, 5, None], per_query=True)
    assert whole.shape == (12, 3)
    assert measure(y, score, qid, k=[5], per_query=True).shape == (12, 1)
    assert measure(y, score, qid, k=5, per_query=True).shape == (12,)
    assert isinstance(measure(y, score, qid, k=5), float)
    means = measure(y, score, qid, k=(1, 5, None))
    np.testing.assert_allclose(means, whole.mean(axis=0))
    np.testing.assert_array_equal(measure(y, score, qid, 5, per_query=True), whole[:, 1])


def test_lists_shorter_than_k():
    y, score = [1, 0], [0.0, 1.0]
    assert ndcg(y, score, k=10) == pytest.approx(1 / np.log2(3))
    assert precision_at(y, score, k=10) == 0.1  # the places that are not there count
    assert precision_at(y, score, k=None) == 0.5
    assert reciprocal_rank(y, score, k=10) == 0.5


def test_a_query_without_relevant_documents():
    y, score, qid = [1, 0, 0, 0], [1.0, 0.0, 1.0, 0.0], [1, 1, 2, 2]
    for measure in (ndcg, average_precision, reciprocal_rank):
        assert measure(y, score, qid) == 0.5
        assert measure(y, score, qid, no_relevant=1.0) == 1.0
        assert measure(y, score, qid, no_relevant=np.nan) == 1.0
        assert np.isnan(measure(y, score, qid, no_relevant=np.nan, per_query=True)[1])
        assert np.isnan(measure([0], [1.0], no_relevant=np.nan))
    assert expected_reciprocal_rank([0, 0], [1.0, 0.0]) == 0.0
    assert precision_at([0, 0], [1.0, 0.0], k=1) == 0.0


def test_one_document():
    assert ndcg([2], [0.3]) == 1.0
    assert average_precision([2], [0.3]) == reciprocal_rank([2], [0.3]) == 1.0
    assert np.isnan(kendall_tau([2], [0.3]))


def test_documents_that_come_last():
    assert ndcg([0, 1], [-np.inf, 0.0]) == 1.0
    assert ndcg([0, 1], [np.inf, 0.0], k=1) == 0.0


def test_the_highest_grade_there_can_be():
    assert expected_reciprocal_rank([1], [0.0]) == 0.5
    assert expected_reciprocal_rank([1], [0.0], max_grade=4) == 1 / 16
    with pytest.raises(GradeError, match="got 1 and a grade of 2.*Raise"):
        expected_reciprocal_rank([2], [0.0], max_grade=1)


def test_a_million_documents_in_one_list(rng):
    y, score = rng.integers(0, 5, 1_000_000), rng.normal(size=1_000_000)
    assert ndcg(y, score, k=[10, None])[1] == pytest.approx(0.95, abs=0.05)
    assert kendall_tau(y, score) == pytest.approx(0.0, abs=0.01)


BAD = {
    "nan": (([1, 0], [0.0, np.nan]), InvalidQueriesError, "NaN; got 1 .* row 1.*-np.inf"),
    "lengths": (([1, 0, 1], [0.0, 1.0]), InvalidQueriesError, r"shape \(2,\).*\(3,\)"),
    "negative": (([1, -1], [0.0, 1.0]), GradeError, "got -1 at row 1"),
    "fraction": (([1, 0.5], [0.0, 1.0]), GradeError, "got 0.5 at row 1"),
    "empty": (([], []), InvalidQueriesError, r"at least one; got shape \(0,\)"),
    "text": (([1], ["high"]), InvalidQueriesError, "one number per document"),
    "table": (([1, 1], np.zeros((2, 2))), InvalidQueriesError, r"\(2, 2\)"),
    "ids": (([1, 0], [0.0, 1.0], [1]), InvalidQueriesError, "qid must have one id"),
}


@pytest.mark.parametrize("measure", [*MEASURES, "kendall tau"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, measure):
    args, error, message = BAD[name]
    with pytest.raises(error, match=message):
        (MEASURES | {"kendall tau": kendall_tau})[measure](*args)


BAD_OPTIONS = {
    "k": ({"k": 0}, "k must be a whole number of at least 1, got 0"),
    "k in a list": ({"k": [1, -2]}, "got -2"),
    "no k": ({"k": []}, "at least one position"),
    "k text": ({"k": "10"}, "got '10'"),
    "discount": ({"discount": "log"}, "'paper', 'letor'; got 'log'"),
    "gain": ({"gain": "log"}, "'exponential', 'linear'; got 'log'"),
    "ties": ({"ties": "random"}, "'stable', 'expected'; got 'random'"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name):
    options, message = BAD_OPTIONS[name]
    with pytest.raises(InvalidOptionError, match=message):
        ndcg([1, 0], [0.0, 1.0], **options)


def test_a_threshold_that_makes_all_relevant():
    with pytest.raises(InvalidOptionError, match="threshold must be.*at least 1, got 0"):
        average_precision([1, 0], [0.0, 1.0], threshold=0)


DATA = os.environ.get("PERMATCH_DATA")


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="needs LETOR's OHSUMED: set PERMATCH_DATA")
@pytest.mark.parametrize("fold", range(1, 6))
def test_published_figures_from_published_predictions(fold):
    from permatch.datasets import read_letor, read_scores

    folder = Path(str(DATA), "letor")
    published = folder / "published" / "RankBoost_OHSUMED"
    (predictions,) = published.glob(f"{fold}_Prediction_*.txt")
    text = (published / f"{fold}_Perf.txt").read_text()
    figures = {
        line.partition(":")[0]: np.array(line.partition(":")[2].split(), dtype=float)
        for line in text.splitlines()
        if ":" in line
    }
    data = read_letor(folder / "OHSUMED" / f"Fold{fold}" / "testset.txt")
    score = read_scores(predictions)
    cuts = range(1, 17)
    found = {
        "precision": precision_at(data.y, score, data.qid, k=cuts),
        "MAP": average_precision(data.y, score, data.qid),
        "NDCG": ndcg(data.y, score, data.qid, k=cuts, discount="letor"),
    }
    assert figures.keys() == found.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, np.squeeze(figures[name]), rtol=0, atol=1e-6)
