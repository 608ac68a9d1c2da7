"""MatchingDistribution on problems: sparse, of any shape, nodes that may stay unmatched."""

import math
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chi2

import permatch as pm
from permatch import errors
from tests.brute_force import all_matchings, random_problem

TOL = 1e-9
INF = np.inf

engines = pytest.mark.parametrize("engine", ["enumeration", "frontier", "auto"])


def make(parts, engine="frontier", **options):
    scores, left, right = parts
    free = {"unmatched_left": left, "unmatched_right": right}
    return pm.MatchingDistribution(scores, engine, **free, **options)


def truth(parts, keep=lambda y: True):
    """All matchings that are kept, their log-probabilities, and the log-partition."""
    matchings, totals = all_matchings(*parts)
    kept = np.array([keep(y) for y in matchings], dtype=bool)
    matchings, totals = matchings[kept], totals[kept]
    top = totals.max()
    log_partition = top + math.log(np.exp(totals - top).sum())
    return matchings, totals - log_partition, log_partition


def check(d, parts, keep=lambda y: True):
    """Compare all that a distribution says with every matching."""
    n, k = parts[0].shape
    matchings, log_probs, log_partition = truth(parts, keep)
    probs = np.exp(log_probs)
    assert d.log_partition == pytest.approx(log_partition, abs=TOL)
    links = [[probs[matchings[:, i] == j].sum() for j in range(k)] for i in range(n)]
    np.testing.assert_allclose(d.marginals, np.array(links).reshape(n, k), atol=TOL)
    np.testing.assert_allclose(d.unmatched_left, probs @ (matchings < 0), atol=TOL)
    free = [probs[(matchings != j).all(axis=1)].sum() for j in range(k)]
    np.testing.assert_allclose(d.unmatched_right, free, atol=TOL)
    assert d.entropy == pytest.approx(-(probs * log_probs).sum(), abs=TOL)
    np.testing.assert_allclose(d.log_prob(matchings), log_probs, atol=TOL)
    assert d.log_prob(d.mode()) == pytest.approx(log_probs.max(), abs=TOL)
    best = d.k_best(7)
    assert len(best.scores) == min(7, len(probs))
    np.testing.assert_allclose(
        best.scores - log_partition, -np.sort(-log_probs)[:7], atol=TOL
    )
    np.testing.assert_array_equal(best.matchings[0], d.mode())
    errors_of = [(probs @ (matchings != y)).sum() for y in matchings]
    bayes = (probs @ (matchings != d.bayes_matching())).sum()
    assert bayes == pytest.approx(min(errors_of), abs=TOL)
    assert d.is_exact
    assert d.log_partition_error == 0.0
    assert d.kl(d) == 0.0


@engines
@pytest.mark.parametrize("seed", range(4))
def test_everything_agrees_with_every_matching(engine, seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        parts = random_problem(rng)
        check(make(parts, engine), parts)


def test_what_contradicts_the_graph_has_no_probability(rng):
    parts = random_problem(rng, largest=3)
    shape = parts[0].shape
    every, _ = all_matchings(np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[1]))
    matchings, log_probs, _ = truth(parts)
    known = dict(zip(map(tuple, matchings), log_probs, strict=True))
    found = make(parts).log_prob(every)
    expected = [known.get(tuple(y), -INF) for y in every]
    np.testing.assert_allclose(found, expected, atol=TOL)
    assert make(parts).log_prob(every[0]) == pytest.approx(expected[0], abs=TOL)


@pytest.mark.parametrize("seed", range(3))
def test_knowledge_of_every_kind(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        parts = random_problem(rng)
        n, k = parts[0].shape
        matchings, _, _ = truth(parts)
        y = matchings[rng.integers(len(matchings))]
        matched = {int(i): int(y[i]) for i in range(n) if rng.random() < 0.3}
        alone = [j for j in range(k) if j not in y and rng.random() < 0.5]
        pairs = rng.integers(0, max(n, 1), 2), rng.integers(0, max(k, 1), 2)
        apart = [(int(i), int(j)) for i, j in zip(*pairs, strict=True)
                 if n and k and y[i] != j]  # fmt: skip
        known = pm.Known(matched, apart, unmatched_right=alone)

        def agrees(z, matched=matched, alone=alone, apart=apart):
            return (
                all(z[i] == j for i, j in matched.items())
                and all(j not in z for j in alone)
                and all(z[i] != j for i, j in apart)
            )

        d = make(parts, given=known)
        check(d, parts, agrees)
        again = (
            make(parts)
            .condition(matched)
            .condition(pm.Known(apart=apart, unmatched_right=alone))
        )
        assert again.given == d.given == known
        assert again.log_partition == d.log_partition
        whole = make(parts)
        assert d.kl(whole) == pytest.approx(whole.log_partition - d.log_partition, abs=TOL)


def test_kl_against_every_matching(rng):
    n_infinite = 0
    for _ in range(60):
        parts = random_problem(rng, largest=3)
        other = [part + rng.normal(size=part.shape) for part in parts]
        other[0][rng.random(other[0].shape) < 0.15] = -INF
        other[1][rng.random(len(other[1])) < 0.15] = -INF
        if not len(all_matchings(*other)[0]):
            continue
        matchings, log_p, _ = truth(parts)
        d = make(other)
        log_q = np.atleast_1d(d.log_prob(matchings))
        expected = INF if np.isinf(log_q).any() else np.exp(log_p) @ (log_p - log_q)
        n_infinite += expected == INF
        assert make(parts).kl(d) == pytest.approx(expected, abs=TOL)
    assert 5 < n_infinite < 50


def test_marginals_come_back_in_the_form_of_the_scores(rng):
    scores = np.array([[1.0, -INF, 0.5], [-INF, 2.0, 0.0]])
    free = {"unmatched_left": -1.0, "unmatched_right": [0.0, 1.0, 2.0]}
    dense = pm.MatchingDistribution(scores, "frontier", **free)
    left, right = np.nonzero(scores > -INF)
    order = rng.permutation(len(left))
    left, right = left[order], right[order]
    edges = pm.EdgeScores(left, right, scores[left, right])
    listed = pm.MatchingDistribution(edges, "frontier", **free)
    np.testing.assert_allclose(listed.marginals, dense.marginals[left, right])
    for kind in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix):
        given = kind((scores[left, right], (left, right)), shape=scores.shape)
        d = pm.MatchingDistribution(given, "frontier", **free)
        assert type(d.marginals) is kind
        np.testing.assert_allclose(d.marginals.toarray(), dense.marginals)
        assert d.entropy == pytest.approx(dense.entropy)
        np.testing.assert_array_equal(d.mode(), dense.mode())
    assert (dense.n_left, dense.n_right, dense.size) == (2, 3, 3)
    assert listed.scores is edges
    with pytest.raises(ValueError, match="read-only"):
        dense.unmatched_left[0] = 1.0


def test_unequal_sides_need_nothing(rng):
    scores = rng.normal(size=(2, 5))
    d = pm.MatchingDistribution(scores, "frontier")
    check(d, (scores, np.full(2, -INF), np.zeros(5)))
    assert not d.unmatched_left.any()
    assert d.unmatched_right.sum() == pytest.approx(3.0)
    turned = pm.MatchingDistribution(scores.T, "frontier")
    assert turned.log_partition == pytest.approx(d.log_partition)
    np.testing.assert_allclose(turned.marginals, d.marginals.T)


def test_digits_survive_large_scores(rng):
    parts = [np.round(part * 64) / 64 for part in random_problem(rng, largest=4)]
    rows = 2.0**40 * np.arange(len(parts[1]))
    plain = make(parts)
    offset = make((parts[0] + rows[:, None], parts[1] + rows, parts[2]))
    matchings, _, _ = truth(parts)
    np.testing.assert_allclose(
        offset.log_prob(matchings), plain.log_prob(matchings), rtol=0, atol=1e-12
    )
    assert offset.entropy == pytest.approx(plain.entropy, abs=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)])
def test_graphs_without_edges(shape):
    d = make((np.full(shape, -INF), np.full(shape[0], 2.0), np.full(shape[1], 3.0)))
    assert d.log_partition == 2.0 * shape[0] + 3.0 * shape[1]
    assert d.entropy == 0.0
    assert d.mode().tolist() == d.bayes_matching().tolist() == [-1] * shape[0]
    assert d.unmatched_left.tolist() == [1.0] * shape[0]
    assert d.unmatched_right.tolist() == [1.0] * shape[1]
    assert d.k_best(3).matchings.tolist() == [[-1] * shape[0]]
    assert d.log_prob([-1] * shape[0]) == 0.0


def test_costs_decide(rng):
    d = make((np.array([[0.0]]), np.zeros(1), np.zeros(1)))
    assert d.bayes_matching(pm.LinkCosts(missed=2.0)).tolist() == [0]
    assert d.bayes_matching(pm.LinkCosts(false=2.0)).tolist() == [-1]
    assert d.bayes_matching(pm.LinkCosts(abstain=0.1)).tolist() == [pm.ABSTAINED]


def test_prints_something_useful():
    d = make((np.zeros((2, 3)), np.zeros(2), np.zeros(3)), given={0: 1})
    assert repr(d) == (
        "MatchingDistribution(size=2 x 3, edges=6, engine='frontier', given={0: 1}, "
        "not inferred yet)"
    )
    more = d.condition(pm.Known(apart=[(1, 0)], unmatched_right=[2]))
    assert "given=Known(matched={0: 1}, apart=[(1, 0)], unmatched_right=[2])" in repr(more)


def test_survives_pickling(rng):
    d = make(random_problem(rng), given=pm.Known())
    assert pickle.loads(pickle.dumps(d)).log_partition == d.log_partition


CONTRADICTIONS = {
    "right node twice": (lambda: pm.Known({0: 1, 2: 1}), "matched to 0 and to 2"),
    "matched and apart": (lambda: pm.Known({0: 1}, [(0, 1)]), r"apart, not both.*\(0, 1\)"),
    "left and unmatched": (
        lambda: pm.Known({0: 1}, unmatched_left=[0]), "left node 0 in both"
    ),
    "right and unmatched": (
        lambda: pm.Known({0: 1}, unmatched_right=[1]), "right node 1 in both"
    ),
    "matched: a list": (lambda: pm.Known([0, 1]), "matched must be a mapping"),
    "apart: no pairs": (lambda: pm.Known(apart=[0, 1]), "apart must be a list of pairs"),
    "apart: a fraction": (lambda: pm.Known(apart=[(0, 0.5)]), "right nodes by their"),
    "unmatched: a number": (lambda: pm.Known(unmatched_left=3), "list of nodes"),
    "unmatched: negative": (lambda: pm.Known(unmatched_right=[-1]), "got -1"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions(name):
    known, message = CONTRADICTIONS[name]
    with pytest.raises(errors.InvalidMatchingError, match=message):
        known()


def test_knowledge_that_does_not_fit_the_graph():
    scores = np.array([[0.0, -INF], [0.0, 0.0]])
    free = {"unmatched_left": 0.0, "unmatched_right": [-INF, 0.0]}
    for known, message in (
        (pm.Known({0: 1}), r"edge \(0, 1\) has score -inf"),
        (pm.Known(unmatched_right=[0]), "right node 0 must be matched"),
    ):
        with pytest.raises(errors.InfeasibleGraphError, match=message):
            pm.MatchingDistribution(scores, given=known, **free)
    for known in (pm.Known(apart=[(0, 2)]), pm.Known(unmatched_right=[2])):
        with pytest.raises(errors.InvalidMatchingError, match="right nodes 0 .. 1; got 2"):
            pm.MatchingDistribution(scores, given=known, **free)
    with pytest.raises(errors.InfeasibleGraphError, match="right node 0"):
        _ = pm.MatchingDistribution(
            scores, given=pm.Known(apart=[(0, 0), (1, 0)]), **free
        ).marginals


def test_one_graph_only():
    with pytest.raises(errors.ScoreShapeError, match="one graph: .* got 2 graphs"):
        pm.MatchingDistribution(np.zeros((2, 3, 3)))


# ---- samples


@pytest.mark.parametrize("seed", range(6))
def test_samples_follow_the_distribution(seed):
    rng = np.random.default_rng(seed)
    parts = random_problem(rng, largest=4, spread=1.0)
    d = make(parts)
    n = 20_000
    drawn = d.sample(n, rng=seed)
    matchings, log_probs, _ = truth(parts)
    places = {tuple(y): r for r, y in enumerate(matchings)}
    observed = np.bincount([places[tuple(y)] for y in drawn], minlength=len(matchings))
    expected = n * np.exp(log_probs)
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    assert chi2.sf(statistic, max(keep.sum() - 1, 1)) > 1e-4


APPROXIMATE = [
    pm.PathTree(tol=0.01),
    pm.Bethe(),
    pm.Nesting(tol=0.02),
    pm.SwapChain(n_sweeps=2000),
]


@pytest.mark.parametrize("engine", APPROXIMATE, ids=lambda engine: engine.name)
@pytest.mark.parametrize("given", [None, {0: 1, 2: -1}])
def test_estimates_hang_together(engine, given):
    rng = np.random.default_rng(0)
    parts = (rng.normal(size=(4, 5)), np.zeros(4), np.full(5, 0.5))
    exact, d = make(parts, given=given), make(parts, engine, given=given)
    assert not d.is_exact
    assert d.log_partition == pytest.approx(exact.log_partition, abs=0.1)
    assert d.entropy == pytest.approx(exact.entropy, abs=0.2)
    assert d.kl(exact) == pytest.approx(0.0, abs=0.1)
    np.testing.assert_allclose(d.marginals, exact.marginals, atol=0.06)
    np.testing.assert_allclose(
        d.marginals.sum(axis=1) + d.unmatched_left, 1.0, rtol=0, atol=0.02
    )
    if d.marginal_bounds is not None:
        for (low, high), truth_ in (
            (d.marginal_bounds, exact.marginals),
            (d.unmatched_left_bounds, exact.unmatched_left),
            (d.unmatched_right_bounds, exact.unmatched_right),
        ):
            assert low.shape == high.shape == truth_.shape
            assert (low <= truth_ + 1e-12).all()
            assert (truth_ <= high + 1e-12).all()
    assert (d.marginal_bounds is None) == (engine.name != "path_tree")
    if given is not None:
        assert d.marginals[0, 1] == 1.0
        assert d.unmatched_left[0] == 0.0
        assert d.unmatched_left[2] == 1.0


def test_samples_agree_with_what_is_given(rng):
    parts = (rng.normal(size=(4, 5)), np.zeros(4), np.zeros(5))
    known = pm.Known({0: 1, 1: -1}, apart=[(2, 3)], unmatched_right=[0])
    drawn = make(parts, given=known).sample(200, rng=0)
    assert (drawn[:, 0] == 1).all()
    assert (drawn[:, 1] == -1).all()
    assert (drawn[:, 2] != 3).all()
    assert (drawn != 0).all()
    assert len(np.unique(drawn, axis=0)) > 5
    np.testing.assert_array_equal(
        make(parts, given=known, n_jobs=2).sample(200, rng=0), drawn
    )


def band(n, half, rng):
    left = np.repeat(np.arange(n), 2 * half + 1)
    right = left + np.tile(np.arange(-half, half + 1), n)
    ok = (right >= 0) & (right < n)
    scores = rng.normal(size=ok.sum())
    return pm.EdgeScores(left[ok], right[ok], scores, n, n)


@pytest.mark.parametrize("free", [0.0, None])
def test_samples_of_a_long_band_have_the_exact_marginals(free, rng):
    edges = band(60, 2, rng)
    d = pm.MatchingDistribution(
        edges, "frontier", unmatched_left=free, unmatched_right=free
    )
    drawn = d.sample(4000, rng=1)
    frequency = (drawn[:, edges.left] == edges.right).mean(axis=0)
    deviation = np.sqrt(d.marginals * (1 - d.marginals) / 4000) + 1 / 4000
    assert (np.abs(frequency - d.marginals) < 5 * deviation).all()
    assert drawn.dtype == np.intp


def test_samples_of_components_whose_nodes_alternate(rng):
    scores = np.full((8, 8), -INF)
    for k in (0, 1):  # nodes of even and of odd number, on the right in reverse
        scores[k::2, 7 - k :: -2] = rng.normal(size=(4, 4))
    d = make((scores, np.zeros(8), np.zeros(8)))
    drawn = d.sample(4000, rng=1)
    assert np.isfinite(d.log_prob(drawn)).all()
    frequency = (drawn[:, :, None] == np.arange(8)).mean(axis=0)
    assert np.abs(frequency - d.marginals).max() < 5 * 0.5 / np.sqrt(4000)


def test_wide_and_narrow_components_together(rng):
    scores = np.full((30, 32), -INF)
    scores[:26, :26] = rng.normal(size=(26, 26))  # too wide for a table
    scores[26:29, 26:30] = rng.normal(size=(3, 4))
    scores[29, 30] = 0.0
    left, right = np.full(30, -INF), np.full(32, -INF)
    left[26:], right[26:] = 0.0, 0.0
    d = make((scores, left, right))
    drawn = d.sample(300, rng=0)
    assert (np.sort(drawn[:, :26], axis=1) == np.arange(26)).all()
    assert set(np.unique(drawn[:, 26:29])) <= {-1, 26, 27, 28, 29}
    assert set(np.unique(drawn[:, 29])) == {-1, 30}
    left[0] = 0.0
    with pytest.raises(errors.SizeLimitError, match=r"at most 24; .*\(26 x 26"):
        make((scores, left, right)).sample(1)


def test_intervals_of_components_count_from_their_best_matchings(rng):
    blocks = [rng.normal(size=(9, 9)) + 50.0, rng.normal(size=(7, 7)) - 7.0]
    engine = pm.AutoEngine(exact_size=0, tol=0.2, budget=None)
    whole = sparse.block_diag([sparse.coo_array(block) for block in blocks])
    d = pm.MatchingDistribution(sparse.csr_array(whole), engine)
    told = d.diagnostics
    assert told.interval[0] <= sum(map(pm.log_partition, blocks)) <= told.interval[1]
    for block in blocks:
        part = next(part for part in told.parts if part.size == len(block))
        best = pm.MatchingDistribution(block).k_best(1).scores[0]
        assert part.interval[0] + best <= pm.log_partition(block)
        assert pm.log_partition(block) <= part.interval[1] + best
