"""Advice in messages can be followed: what they name works on the graph at hand."""

import re

import numpy as np
import pytest

import permatch as pm
from permatch.errors import PartialMatchingError, SizeLimitError
from permatch.inference import ENGINES, Diagnostics
from permatch.inference._words import error_in_words

FREE = {"unmatched_left": 0.0, "unmatched_right": 0.0}
TOO_LARGE = pytest.mark.filterwarnings("ignore:auto did not reach:RuntimeWarning")


def engines_named(message):
    """Every engine that a message tells to use."""
    names = re.findall(r"engine='(\w+)'", message) + re.findall(r"or '(\w+)'", message)
    found = [ENGINES[name]() for name in names]
    for kind, option, value in re.findall(r"permatch\.(\w+)\((\w+)=(\d+)\)", message):
        found.append(getattr(pm, kind)(**{option: int(value)}))
    return found


def sparse(size, n_others, rng):
    """A connected graph with a perfect matching and few edges."""
    own = np.arange(size)[:, None]
    right = np.hstack([own, (own + 1) % size, rng.integers(0, size, (size, n_others))])
    keys = np.unique(own * size + right)
    return pm.EdgeScores(keys // size, keys % size, np.zeros(len(keys)), size, size)


#: An engine, the size of a graph, and whether its nodes may stay unmatched.
REFUSALS = {
    "glynn": (pm.Glynn(max_size=9), 12, {}),
    "subset_dp": (pm.SubsetDP(max_size=9), 12, {}),
    "ryser": (pm.Ryser(max_size=9), 12, {}),
    "enumeration": (pm.Enumeration(max_size=6), 8, {}),
    "small_batch": (pm.SmallBatch(), 12, {}),
    "frontier": (pm.Frontier(max_width=6), 9, FREE),
    "frontier, all matched": (pm.Frontier(max_width=6), 9, {}),
    "glynn, partial": (pm.Glynn(), 9, FREE),
    "enumeration, partial": (pm.Enumeration(), 9, FREE),
    "sparsified": (pm.Sparsified(max_block=5), 40, {}),
    "sparsified, partial": (pm.Sparsified(max_block=5), 12, FREE),
}


@TOO_LARGE
@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_refusal_names_takes_the_graph(name, rng):
    engine, size, free = REFUSALS[name]
    scores = rng.normal(size=(size, size))
    with pytest.raises((SizeLimitError, PartialMatchingError)) as info:
        engine.infer(scores, **free)
    named = engines_named(str(info.value))
    assert named
    for other in named:
        if other.name == "sparsified":
            continue
        other.infer(scores, **free)


@pytest.mark.parametrize("size", [61, 1001, 2001, 9999])
@pytest.mark.parametrize("name", ["glynn", "auto", "small_batch", "enumeration"])
def test_large_graphs_are_sent_to_an_engine_that_takes_them(name, size):
    engine = ENGINES[name]()
    if size <= engine.max_size:
        return
    with pytest.raises(SizeLimitError) as info:
        engine.check_size(size)
    named = engines_named(str(info.value))
    assert named
    for other in named:
        other.check_size(size)


@pytest.mark.parametrize("size", [28, 60])
def test_limits_are_to_be_raised_only_where_the_end_will_be_seen(size):
    with pytest.raises(SizeLimitError) as info:
        pm.Glynn(max_size=9).check_size(size)
    assert ("raise the limit" in str(info.value)) == (size == 28)
    with pytest.raises(SizeLimitError) as info:
        pm.Frontier().infer(np.zeros((38, 38)), **FREE)
    assert "raise the limit" not in str(info.value)


@TOO_LARGE
def test_auto_takes_sparse_graphs_of_any_size(rng):
    # Too wide for exact engines, larger than what it takes as an array.
    scores = sparse(1200, 2, rng)
    answer = pm.infer(scores, pm.AutoEngine(budget=0.5))
    assert not answer.is_exact
    sums = np.bincount(scores.left, answer.marginals.data, 1200)
    np.testing.assert_allclose(sums, 1.0, atol=1e-3)
    narrow = pm.AutoEngine(budget=0.5, max_size=20, exact_size=5)
    assert not pm.infer(sparse(30, 2, rng), narrow).is_exact


@pytest.mark.parametrize(
    ("certificate", "error", "words"),
    [
        ("rigorous", 0.25, "error at most 0.25"),
        ("asymptotic", 0.25, "standard error 0.25"),
        ("heuristic", 0.25, "error unknown"),
        ("asymptotic", np.nan, "error unknown"),
        ("asymptotic", None, "error unknown"),
    ],
)
def test_errors_are_called_what_they_are(certificate, error, words):
    report = Diagnostics("auto", "", 3, certificate=certificate, marginal_error=error)
    assert error_in_words(report) == words
