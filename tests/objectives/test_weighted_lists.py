"""Losses of lists with a weight per document, against integrating over thresholds."""

import numpy as np
import pytest
from scipy import sparse

from permatch import _memory
from permatch._shards import HeldShards
from permatch.errors import SizeLimitError
from permatch.objectives.rank_losses import ranking_likelihood
from permatch.objectives.weighted_lists import copy_queries
from permatch.queries import check_queries
from tests.objectives.test_pairs import by_listing
from tests.objectives.test_whole_list import by_definition

STEP = 1e-5
GRADES = [[0, 2, 1, 0, 1, 0, 2], [1, 0, 1, 1], [1, 1, 1], [0, 0], [0, 1, 0], [2, 0, 1]]
SIZES = [len(grades) for grades in GRADES]
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
# Several weights, with ties; a document and a query of weight 0; equal ones; one click.
WEIGHTS = np.concatenate(
    [
        [9.0, 0.5, 2.0, 7.0, 0.5, 0.0, 3.0],
        [1.5, 1.5, 4.0, 0.0],
        [1.0, 2.0, 3.0],
        [2.0, 5.0],
        [1.0, 2.5, 1.0],
        [0.0, 0.0, 0.0],
    ]
)


def lists(weights=WEIGHTS, documents=None):
    documents = np.zeros((STARTS[-1], 1)) if documents is None else documents
    grades = np.concatenate(GRADES)
    return check_queries(documents, grades, group=SIZES, sample_weight=weights)


def observe(queries, size="all", **options):
    """Return the loss of scores, and the sum of the weights in it."""
    observed = ranking_likelihood(HeldShards([queries]), size, **options)
    ((_, loss),) = observed.shards.shards
    return loss, observed


def thresholded(scores, loss_of):
    """Return the integral over thresholds, and the sum of the weights of what counts.

    `loss_of` takes scores and grades, and returns a loss and a weight.
    """
    total, norm = 0.0, 0.0
    for k, grades in enumerate(GRADES):
        own, grades = scores[STARTS[k] : STARTS[k + 1]], np.array(grades)
        weights = WEIGHTS[STARTS[k] : STARTS[k + 1]]
        before = 0.0
        for threshold in np.unique(weights[weights > 0]):
            seen = np.where(weights >= threshold, grades, 0)[weights > 0]
            if len(set(seen)) > 1:
                loss, weight = loss_of(own[weights > 0], seen)
                total += (threshold - before) * loss
                norm += (threshold - before) * weight
            before = threshold
    return total, norm


def test_whole_lists_are_the_integral_over_thresholds(rng):
    scores = rng.normal(size=STARTS[-1])
    loss, observed = observe(lists())
    levels = np.arange(3.0)
    total, norm = thresholded(scores, lambda s, g: (by_definition(s, g, levels), 1.0))
    value, _ = loss.value_and_slope(scores)
    assert value * observed.total_weight == pytest.approx(total, rel=1e-12)
    assert observed.total_weight == pytest.approx(norm, rel=1e-12)
    assert observed.n_observations == 4  # all equal after the threshold, or of weight 0
    assert observed.fitted["forms_"] == {"exact": 4, "profile": 0, "skipped": 2}
    assert observed.weigh().sum() == pytest.approx(1.0)
    assert observed.weigh()[[3, 5]].tolist() == [0.0, 0.0]


def test_pairs_are_the_integral_over_thresholds(rng):
    scores = rng.normal(size=STARTS[-1])
    loss, _ = observe(lists(), "pairs")

    def pairs(own, grades):
        n_pairs = (grades[:, None] > grades).sum()
        mean, _ = by_listing([0, len(own)], grades, [1.0], own)
        return mean * n_pairs, n_pairs

    total, norm = thresholded(scores, pairs)
    assert loss.value_and_slope(scores)[0] == pytest.approx(total / norm, rel=1e-12)


def test_clicked_pairs_count_by_the_difference_of_their_weights(rng):
    scores, weights = rng.normal(size=4), np.array([1.0, 3.0, 5.0, 1.0])
    clicks = np.array([1, 0, 1, 0])
    queries = check_queries(np.zeros((4, 1)), clicks, group=[4], sample_weight=weights)
    loss, _ = observe(queries, "pairs")
    own = np.where(clicks, weights, 0.0)
    shares = np.maximum(own[:, None] - own, 0.0)
    expected = (shares * np.logaddexp(0.0, scores - scores[:, None])).sum() / shares.sum()
    assert loss.value_and_slope(scores)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", ["all", "pairs"])
@pytest.mark.parametrize("query_weight", ["observations", "per_document", "per_relevant"])
def test_equal_weights_are_those_of_queries(size, query_weight, rng):
    scores = rng.normal(size=STARTS[-1])
    weights = np.repeat(rng.uniform(0.5, 2.0, size=len(SIZES)), SIZES)
    plain, before = observe(lists(weights), size, query_weight=query_weight)
    weights[0] *= 5.0  # not relevant: its weight does not matter
    assert lists(weights).document_weights is not None
    found, after = observe(lists(weights), size, query_weight=query_weight)
    one, other = (own.value_and_slope(scores) for own in (plain, found))
    assert one[0] == pytest.approx(other[0], rel=1e-13)
    np.testing.assert_allclose(one[1], other[1], atol=1e-14)
    assert before.n_observations == after.n_observations
    np.testing.assert_allclose(before.weigh(), after.weigh(), atol=1e-14)


@pytest.mark.parametrize("form", ["exact", "profile", "auto"])
def test_derivatives_against_finite_differences(form, rng):
    documents = rng.normal(size=(STARTS[-1], 3))
    loss, _ = observe(lists(documents=documents), form=form)
    coef = rng.normal(size=3)
    scores = documents @ coef
    value, slope, curvature = loss.derivatives(scores)
    assert value == pytest.approx(loss.value_and_slope(scores)[0])
    for i in range(len(scores)):
        step = STEP * np.eye(len(scores))[i]
        (up, ahead), (down, behind) = (
            loss.value_and_slope(scores + s) for s in (step, -step)
        )
        assert slope[i] == pytest.approx((up - down) / (2 * STEP), abs=1e-8)
        change = (ahead[i] - behind[i]) / (2 * STEP)
        assert curvature[i] == pytest.approx(change, abs=1e-7)
    hessian = loss.hessian(scores, documents)
    for k, way in enumerate(np.eye(3)):
        ahead, behind = (
            loss.value_and_slope(documents @ (coef + step * way))[1]
            for step in (STEP, -STEP)
        )
        change = documents.T @ (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(hessian[k], change, atol=1e-7)
    again, slope_again, curved = loss.evaluate_curved(scores, documents)
    assert again == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(slope_again, slope, atol=1e-6)
    profile = loss.in_form("profile").hessian(scores, documents)
    np.testing.assert_allclose(curved, profile, atol=1e-6)


def test_left_out_documents_have_no_slope(rng):
    scores = rng.normal(size=STARTS[-1])
    loss, _ = observe(lists())
    _, slope = loss.value_and_slope(scores)
    assert (slope[WEIGHTS == 0.0] == 0.0).all()


def test_no_document_with_a_weight_is_relevant():
    weights = np.where(np.concatenate(GRADES) > 0, 0.0, 2.0)
    copies = copy_queries(lists(weights))
    assert copies.queries.n_queries == 0
    assert copies.most(np.zeros(0, dtype=int)).tolist() == [0] * len(SIZES)


def test_threads_change_no_bit(rng):
    sizes = rng.integers(5, 60, size=200)
    grades = rng.integers(3, size=sizes.sum())
    weights = rng.integers(1, 9, size=sizes.sum()).astype(float)
    documents, scores = np.zeros((len(grades), 1)), rng.normal(size=len(grades))
    queries = check_queries(documents, grades, group=sizes, sample_weight=weights)
    one, two = (observe(queries, n_jobs=n)[0].value_and_slope(scores) for n in (1, 3))
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_too_many_different_weights_are_refused(monkeypatch, tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemAvailable: 1048576 kB\n")
    monkeypatch.setattr(_memory, "_ROOT", tmp_path)
    weights = np.random.default_rng(0).random(6000)
    grades = np.arange(6000) % 2
    queries = check_queries(
        np.zeros((6000, 1)), grades, group=[6000], sample_weight=weights
    )
    with pytest.raises(SizeLimitError, match=r"3,000 lists.* 1.68 GiB .*Round the weights"):
        copy_queries(queries)


@pytest.mark.parametrize("size", ["all", "pairs"])
def test_sparse_documents(size, rng):
    documents = rng.normal(size=(STARTS[-1], 3))
    loss, _ = observe(lists(), size)
    scores = documents @ rng.normal(size=3)
    dense = loss.hessian(scores, documents)
    np.testing.assert_allclose(loss.hessian(scores, sparse.csr_array(documents)), dense)
