"""How many nodes a fit expects to stay unmatched."""

import numpy as np
import pytest

import permatch as pm
from permatch.estimators.unmatched import expected_unmatched, unmatched_in_words
from permatch.labels import check_known


def problem():
    """A few graphs of 5 x 4 nodes, half of whose left nodes have a partner."""
    rng = np.random.default_rng(0)
    graphs, labels = [], []
    for _ in range(6):
        matching = np.where(rng.random(5) < 0.5, rng.permutation(5), -1)
        matching[matching == 4] = -1
        features = (
            rng.normal(size=(5, 4, 1)) + (matching[:, None] == np.arange(4))[..., None]
        )
        graphs.append(pm.BipartiteGraph(features))
        labels.append(matching)
    return graphs, labels


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_complete_labels_tell_the_number(alpha):
    graphs, labels = problem()
    known = check_known(graphs, labels)
    model = pm.MAPMatching(alpha).fit(graphs, labels)
    expected = expected_unmatched(model, graphs, known)
    model.is_converged_ = False  # it is computed then
    assert expected == pytest.approx(expected_unmatched(model, graphs, known), abs=1e-3)


def test_of_incomplete_labels_it_is_computed():
    graphs, labels = problem()
    labels[0][:] = -2
    model = pm.MAPMatching(0.1, unmatched="any").fit(graphs, labels)
    left, right = expected_unmatched(model, graphs, check_known(graphs, labels))
    links = sum(table.sum() for table in model.predict_marginals(graphs))
    assert left == pytest.approx(30 - links)
    assert right == pytest.approx(24 - links)


def test_words():
    assert unmatched_in_words((1200.4, 0.0), (4000, 1), "record") == (
        "Of 4,000 left records 1,200 (30 %) and of 1 right record 0 (0 %) are expected to "
        "have no partner."
    )
