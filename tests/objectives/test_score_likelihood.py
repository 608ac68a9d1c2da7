"""The likelihood by scores of edges against enumeration and finite differences."""

import numpy as np
import pytest

import permatch as pm
from permatch.inference import find_engine
from permatch.labels import check_known
from permatch.objectives import ScoreLikelihood
from tests.objectives.test_partial_likelihood import every_matching, is_possible, labelled

# Central differences at this step: rounding and curvature each leave about 1e-10.
STEP = 1e-4
DIFFERENCE_TOL = 1e-7


def likelihood(graphs, labels, is_any, engine="auto"):
    known = check_known(graphs, labels)
    return ScoreLikelihood(graphs, known, is_any=is_any, engine=find_engine(engine))


def agrees(matching, label):
    return all(want in (-2, have) for have, want in zip(matching, label, strict=True))


def enumerated(graph, label, scores, is_any):
    """The log-probability of a label and, for every edge, its chance and that given it."""
    structure = graph.structure
    weights, used, is_known = [], [], []
    for matching in every_matching(graph):
        if is_possible(graph, matching, is_any):
            edges = matching[structure.left] == structure.right
            weights.append(scores[edges].sum())
            used.append(edges)
            is_known.append(agrees(matching, label))
    weights, used, is_known = np.array(weights), np.array(used), np.array(is_known)
    chances = np.exp(weights - weights.max())
    total, known = chances.sum(), chances[is_known].sum()
    return (
        np.log(known / total),
        chances @ used / total,
        chances[is_known] @ used[is_known] / known,
    )


CASES = {
    "left over": (False, 0.0),
    "partial": (True, 0.0),
    "left over, incomplete": (False, 0.5),
    "partial, incomplete": (True, 0.5),
}


@pytest.mark.parametrize("engine", ["auto", "enumeration", "frontier"])
@pytest.mark.parametrize("name", CASES)
def test_is_what_enumeration_says(name, engine, rng):
    is_any, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, hidden=hidden)
    objective = likelihood(graphs, labels, is_any, engine)
    for spread in (0.0, 1.0, 8.0):
        scores = spread * rng.normal(size=objective.n_edges)
        found = objective.evaluate(scores)
        assert found.is_exact
        assert found.error == 0.0
        for k, (graph, label) in enumerate(zip(graphs, labels, strict=True)):
            own = slice(*objective.edge_starts[k : k + 2])
            log_prob, chances, given = enumerated(graph, label, scores[own], is_any)
            assert found.log_probs[k] == pytest.approx(log_prob, abs=1e-10)
            np.testing.assert_allclose(found.marginals[own], chances, atol=1e-12)
            np.testing.assert_allclose(found.surplus[own], chances - given, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_surplus_is_the_slope_of_the_loss(name, rng):
    is_any, hidden = CASES[name]
    graphs, labels = labelled(rng, is_any, hidden=hidden)
    objective = likelihood(graphs, labels, is_any)
    scores = 2.0 * rng.normal(size=objective.n_edges)
    ends = [
        -objective.evaluate(scores + step).log_probs.sum()
        for step in STEP * np.concatenate([np.eye(len(scores)), -np.eye(len(scores))])
    ]
    slopes = (np.array(ends[: len(scores)]) - ends[len(scores) :]) / (2 * STEP)
    found = objective.evaluate(scores)
    np.testing.assert_allclose(found.surplus, slopes, rtol=0, atol=DIFFERENCE_TOL)


def test_squares_are_stacked_with_and_without_forbidden_edges(rng):
    allowed = np.ones((3, 3), dtype=bool)
    allowed[0, 2] = False
    graphs = [
        pm.BipartiteGraph(np.zeros((3, 3, 1))),
        pm.BipartiteGraph(np.zeros((3, 3, 1)), allowed),
        pm.BipartiteGraph(np.zeros((2, 2, 1))),
    ]
    labels = [[2, 0, 1], [0, 2, 1], [1, 0]]
    objective = likelihood(graphs, labels, False)
    assert [len(part.members) for part, _ in objective.parts] == [1, 2]
    scores = rng.normal(size=objective.n_edges)
    found = objective.evaluate(scores)
    for k, (graph, label) in enumerate(zip(graphs, labels, strict=True)):
        own = slice(*objective.edge_starts[k : k + 2])
        log_prob, chances, given = enumerated(graph, label, scores[own], False)
        assert found.log_probs[k] == pytest.approx(log_prob, abs=1e-12)
        np.testing.assert_allclose(found.marginals[own], chances, atol=1e-12)
        np.testing.assert_allclose(found.surplus[own], chances - given, atol=1e-12)


def test_scores_of_staying_unmatched_can_be_given(rng):
    graphs, labels = labelled(rng, True)
    objective = likelihood(graphs, labels, True)
    scores = rng.normal(size=objective.n_edges)
    left = rng.normal(size=sum(graph.n_left for graph in graphs))
    right = rng.normal(size=sum(graph.n_right for graph in graphs))
    found = objective.evaluate(scores, (left, right))
    # Only the odds of edges matter.
    at = np.cumsum([0, *(graph.n_left for graph in graphs)])
    to = np.cumsum([0, *(graph.n_right for graph in graphs)])
    odds = scores - np.concatenate(
        [
            left[at[k] + graph.structure.left] + right[to[k] + graph.structure.right]
            for k, graph in enumerate(graphs)
        ]
    )
    other = objective.evaluate(odds)
    np.testing.assert_allclose(found.log_probs, other.log_probs, atol=1e-12)
    np.testing.assert_allclose(found.surplus, other.surplus, atol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e8])
def test_extreme_scores_lose_no_sense(size, rng):
    graphs, labels = labelled(rng, True)
    objective = likelihood(graphs, labels, True)
    found = objective.evaluate(size * rng.normal(size=objective.n_edges))
    assert np.isfinite(found.log_probs).all()
    assert ((found.marginals >= 0.0) & (found.marginals <= 1.0)).all()
    # Scores this far apart leave one matching.
    np.testing.assert_allclose(found.marginals, np.round(found.marginals), atol=1e-6)


def test_approximate_inference_says_so(rng):
    graphs, labels = labelled(rng, True)
    objective = likelihood(graphs, labels, True, pm.Bethe(bounds=False))
    found = objective.evaluate(rng.normal(size=objective.n_edges))
    assert not found.is_exact
    assert np.isnan(found.error)
