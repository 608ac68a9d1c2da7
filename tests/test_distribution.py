"""Everything that can be asked of a distribution over matchings."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import permatch as pm
from permatch.inference import all_matchings
from tests.helpers import ENGINES_WITH_MARGINALS, random_scores, score_matrices
from tests.inference.goodness import THRESHOLD, p_value

every_engine = pytest.mark.parametrize("case", ENGINES_WITH_MARGINALS, ids=str)


def all_log_probs(d):
    """Every matching of the graph with its log-probability."""
    matchings = all_matchings(d.size)
    return matchings, np.atleast_1d(d.log_prob(matchings))


@given(scores=score_matrices())
def test_probabilities_sum_to_one(scores):
    _, log_probs = all_log_probs(pm.MatchingDistribution(scores))
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-12)


@every_engine
@given(scores=score_matrices())
def test_entropy_is_the_expected_surprise(case, scores):
    d = pm.MatchingDistribution(scores, engine=case.engine)
    _, log_probs = all_log_probs(d)
    possible = log_probs[np.isfinite(log_probs)]
    assert d.entropy == pytest.approx(-(np.exp(possible) * possible).sum(), abs=1e-10)


@given(scores=score_matrices(min_size=1))
def test_mode_has_the_highest_probability(scores):
    d = pm.MatchingDistribution(scores)
    _, log_probs = all_log_probs(d)
    assert d.log_prob(d.mode()) == pytest.approx(log_probs.max(), abs=1e-10)


@given(scores=score_matrices(min_size=1))
def test_bayes_matching_has_the_fewest_expected_errors(scores):
    d = pm.MatchingDistribution(scores)
    matchings, log_probs = all_log_probs(d)
    probs = np.exp(log_probs)
    possible = matchings[np.isfinite(log_probs)]
    errors = [(probs * (matchings != y).sum(axis=1)).sum() for y in possible]
    chosen = (probs * (matchings != d.bayes_matching()).sum(axis=1)).sum()
    assert chosen == pytest.approx(min(errors), abs=1e-10)


def star_scores():
    """Marginals whose best assignment would use a forbidden edge."""
    allowed = np.eye(5, dtype=bool)
    allowed[0, :] = allowed[:, 0] = True
    allowed[0, 0] = False
    return np.where(allowed, 0.0, -np.inf)


def test_bayes_matching_keeps_to_the_graph():
    d = pm.MatchingDistribution(star_scores())
    assert np.isneginf(d.scores[range(5), pm.best_matching(d.marginals)]).any()
    assert np.isfinite(d.scores[range(5), d.bayes_matching()]).all()


def test_bayes_matching_can_differ_from_the_mode():
    weights = np.array([[4.0, 3.0, 2.0], [5.0, 0.0, 3.0], [0.0, 5.0, 5.0]])
    with np.errstate(divide="ignore"):
        d = pm.MatchingDistribution(np.log(weights))
    assert d.mode().tolist() == [1, 0, 2]
    assert d.bayes_matching().tolist() == [2, 0, 1]
    # Of 185: 75 for the mode, 60 for [0, 2, 1] and 50 for the one with fewest errors.
    likeliest, safest = np.exp(d.log_prob([d.mode(), d.bayes_matching()]))
    assert (likeliest, safest) == (pytest.approx(75 / 185), pytest.approx(50 / 185))
    right = [d.marginals[range(3), y].sum() for y in (d.mode(), d.bayes_matching())]
    assert right == [pytest.approx(275 / 185), pytest.approx(285 / 185)]


@given(scores=score_matrices(min_size=1), k=st.integers(1, 30))
def test_k_best_is_sorted_distinct_and_starts_with_the_mode(scores, k):
    d = pm.MatchingDistribution(scores)
    best = d.k_best(k)
    matchings, log_probs = all_log_probs(d)
    n_possible = int(np.isfinite(log_probs).sum())
    assert len(best.matchings) == min(k, n_possible)
    assert len({tuple(y) for y in best.matchings}) == len(best.matchings)
    assert (np.diff(best.scores) <= 0).all()
    np.testing.assert_allclose(
        d.log_prob(best.matchings), np.sort(log_probs)[::-1][: len(best.scores)], atol=1e-9
    )
    np.testing.assert_array_equal(best.matchings[0], d.mode())


@every_engine
@given(scores=score_matrices(min_size=1), data=st.data())
def test_conditioning_agrees_with_the_joint(case, scores, data):
    d = pm.MatchingDistribution(scores, engine=case.engine)
    rows = data.draw(st.lists(st.integers(0, d.size - 1), unique=True, max_size=d.size))
    mode = d.mode()
    known = {row: int(mode[row]) for row in rows}
    matchings, log_probs = all_log_probs(d)
    agrees = np.array([all(y[r] == c for r, c in known.items()) for y in matchings])
    mass = np.exp(log_probs[agrees]).sum()
    for conditioned in (
        pm.MatchingDistribution(scores, engine=case.engine, given=known),
        d.condition(known),
    ):
        assert conditioned.given == pm.Known(known)
        if mass > 1e-300:
            assert conditioned.log_partition - d.log_partition == pytest.approx(
                math.log(mass), abs=1e-9
            )
        expected = np.where(agrees, log_probs - math.log(mass), -np.inf)
        np.testing.assert_allclose(conditioned.log_prob(matchings), expected, atol=1e-9)
        probs = np.exp(expected)
        marginals = [[probs[matchings[:, i] == j].sum() for j in range(d.size)]
                     for i in range(d.size)]  # fmt: skip
        np.testing.assert_allclose(conditioned.marginals, marginals, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(conditioned.mode()[rows], mode[rows])
        assert (conditioned.sample(5, rng=1)[:, rows] == mode[rows]).all()
        best = conditioned.k_best(3)
        assert (best.matchings[:, rows] == mode[rows]).all()
        totals = scores[np.arange(d.size), best.matchings].sum(axis=1)
        np.testing.assert_allclose(best.scores, totals, rtol=1e-12, atol=1e-9)


@every_engine
@given(
    scores=score_matrices(largest=20.0),
    share=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_kl_divergence_is_the_expected_log_ratio(case, scores, share, seed):
    rng = np.random.default_rng(seed)
    other = scores + rng.normal(size=scores.shape)
    is_forbidden = rng.random(scores.shape) < share
    is_forbidden[np.arange(len(scores)), pm.best_matching(scores)] = False
    other[is_forbidden] = -np.inf
    p = pm.MatchingDistribution(scores, case.engine)
    q = pm.MatchingDistribution(other, case.engine)
    _, log_p = all_log_probs(p)
    _, log_q = all_log_probs(q)
    ok = np.isfinite(log_p)
    expected = (np.exp(log_p[ok]) * (log_p[ok] - log_q[ok])).sum()
    assert p.kl(q) == pytest.approx(expected, abs=1e-9)
    assert p.kl(p) == 0.0


@pytest.mark.parametrize("engine", ["glynn", "subset_dp"])
def test_edges_in_no_matching_have_no_probability_and_no_say(engine, rng):
    # Triangular: only the identity is a perfect matching.
    scores = np.triu(rng.normal(size=(12, 12)))
    scores[np.tril_indices(12, -1)] = -np.inf
    d = pm.MatchingDistribution(scores, engine)
    np.testing.assert_array_equal(d.marginals > 0, np.eye(12, dtype=bool))
    assert d.entropy == pytest.approx(0.0, abs=1e-12)
    assert d.kl(d.condition({0: 0})) == pytest.approx(0.0, abs=1e-12)
    far = np.where(np.isneginf(scores), -np.inf, np.where(np.eye(12) > 0, scores, -1e200))
    assert d.kl(pm.MatchingDistribution(far, engine)) == pytest.approx(0.0, abs=1e-12)


def test_kl_is_infinite_where_the_other_says_never():
    free = pm.MatchingDistribution(np.zeros((3, 3)))
    bound = free.condition({0: 0})
    assert free.kl(bound) == math.inf
    assert bound.kl(free) == pytest.approx(math.log(3))
    # Even where the probability of what the other rules out underflows.
    faint = pm.MatchingDistribution([[0.0, -1000.0], [0.0, 0.0]])
    assert faint.kl(pm.MatchingDistribution([[0.0, -np.inf], [0.0, 0.0]])) == math.inf


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_samples_follow_the_distribution(spread, forbidden, rng):
    d = pm.MatchingDistribution(random_scores(rng, 5, spread, forbidden))
    n = 40_000
    drawn = d.sample(n, rng=7)
    matchings, log_probs = all_log_probs(d)
    codes = 5 ** np.arange(5)
    counts = dict(zip(*np.unique(drawn @ codes, return_counts=True), strict=True))
    observed = np.array([counts.pop(code, 0) for code in matchings @ codes])
    assert not counts  # nothing but permutations was drawn
    expected = n * np.exp(log_probs)
    assert observed[expected == 0].sum() == 0
    # Chi-square with the rare matchings pooled, as its approximation needs.
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    assert chi2.sf(statistic, keep.sum() - 1) > 1e-4


def test_samples_match_the_marginals_of_a_larger_graph(rng):
    d = pm.MatchingDistribution(random_scores(rng, 14, 1.5, 0.2))
    n = 50_000
    drawn = d.sample(n, rng=3)
    frequency = np.array([np.bincount(drawn[:, i], minlength=14) / n for i in range(14)])
    deviation = np.sqrt(d.marginals * (1 - d.marginals) / n)
    assert (np.abs(frequency - d.marginals) < 5 * deviation + 1e-12).all()


def test_seeds_reproduce_and_threads_do_not_matter(rng):
    scores = random_scores(rng, 9)
    first = pm.MatchingDistribution(scores).sample(10_000, rng=5)
    np.testing.assert_array_equal(
        pm.MatchingDistribution(scores, n_jobs=3).sample(10_000, rng=5), first
    )
    np.testing.assert_array_equal(
        pm.MatchingDistribution(scores).sample(10_000, rng=np.random.default_rng(5)), first
    )
    assert (pm.MatchingDistribution(scores).sample(10_000, rng=6) != first).any()
    assert pm.MatchingDistribution(scores).sample(0).shape == (0, 9)


def test_sizes_zero_and_one():
    nothing = pm.MatchingDistribution(np.zeros((0, 0)))
    assert nothing.log_partition == 0.0
    assert nothing.entropy == 0.0
    assert nothing.marginals.shape == (0, 0)
    assert nothing.log_prob([]) == 0.0
    assert nothing.mode().shape == (0,)
    assert nothing.sample(3, rng=0).shape == (3, 0)
    assert nothing.k_best(2).matchings.shape == (1, 0)
    single = pm.MatchingDistribution([[-7.5]])
    assert single.log_partition == -7.5
    assert single.log_prob([0]) == 0.0
    assert single.marginals.tolist() == [[1.0]]
    assert single.sample(2, rng=0).tolist() == [[0], [0]]


def test_everything_known_leaves_nothing_to_infer():
    d = pm.MatchingDistribution([[1.0, 2.0], [3.0, 4.0]], given={0: 1, 1: 0})
    assert d.log_partition == 5.0
    assert d.entropy == 0.0
    assert d.marginals.tolist() == [[0, 1], [1, 0]]
    assert d.log_prob([1, 0]) == 0.0
    assert d.log_prob([0, 1]) == -math.inf


def test_given_edges_make_a_large_graph_small(rng):
    scores = random_scores(rng, 40)
    known = {i: i for i in range(30)}
    d = pm.MatchingDistribution(scores, given=known)
    rest = pm.MatchingDistribution(scores[30:, 30:])
    assert d.log_partition == pytest.approx(
        rest.log_partition + scores[range(30), range(30)].sum(), abs=1e-10
    )
    np.testing.assert_allclose(d.marginals[30:, 30:], rest.marginals, atol=1e-13)


def test_log_probabilities_keep_their_digits_under_large_scores(rng):
    scores = np.round(rng.normal(size=(6, 6)) * 64) / 64
    plain = pm.MatchingDistribution(scores)
    offset = pm.MatchingDistribution(scores + 2.0**40 * np.arange(6)[:, None])
    matchings = all_matchings(6)
    np.testing.assert_allclose(
        offset.log_prob(matchings), plain.log_prob(matchings), rtol=0, atol=1e-12
    )
    assert offset.entropy == pytest.approx(plain.entropy, abs=1e-12)


def test_inference_is_lazy_and_cached(rng, monkeypatch):
    calls = []
    original = pm.Glynn._infer_stack

    def counting(self, scores, members, job):
        calls.append(scores.shape)
        return original(self, scores, members, job)

    monkeypatch.setattr(pm.Glynn, "_infer_stack", counting)
    pm.infer(np.zeros((1, 1)), engine="glynn")  # loads the kernels
    calls.clear()
    d = pm.MatchingDistribution(random_scores(rng, 9), engine="glynn")
    assert "not inferred yet" in repr(d)
    d.mode(), d.k_best(3), d.sample(2, rng=0)
    assert calls == []
    d.log_partition, d.marginals, d.entropy, d.log_prob(d.mode()), d.diagnostics
    assert len(calls) == 1
    assert "log_partition=" in repr(d)
    assert "entropy=" in repr(d)


def test_prints_something_useful():
    d = pm.MatchingDistribution([[0.0, -np.inf], [0.0, 0.0]], given={0: 0})
    assert repr(d) == (
        "MatchingDistribution(size=2, edges=3, engine='auto', given={0: 0}, "
        "not inferred yet)"
    )


def test_scores_and_marginals_cannot_be_changed_by_accident(rng):
    scores = random_scores(rng, 4)
    d = pm.MatchingDistribution(scores)
    scores[0, 0] = 99.0
    assert d.scores[0, 0] != 99.0
    with pytest.raises(ValueError, match="read-only"):
        d.scores[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        d.marginals[0, 0] = 1.0


def test_survives_pickling(rng):
    d = pm.MatchingDistribution(random_scores(rng, 5), given={0: 1})
    assert d.entropy > 0
    again = pickle.loads(pickle.dumps(d))
    assert again.log_partition == d.log_partition
    np.testing.assert_array_equal(again.sample(4, rng=1), d.sample(4, rng=1))


# ---- beyond the exact tables


def frequencies(samples):
    size = samples.shape[1]
    return np.array([np.bincount(col, minlength=size) for col in samples.T]) / len(samples)


@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_samples_beyond_the_tables_have_the_exact_marginals(spread, rng):
    d = pm.MatchingDistribution(random_scores(rng, 26, spread, 0.1), "glynn")
    drawn = d.sample(3000, rng=1)
    deviation = np.sqrt(d.marginals * (1 - d.marginals) / 3000) + 1 / 3000
    assert (np.abs(frequencies(drawn) - d.marginals) < 5 * deviation).all()
    np.testing.assert_array_equal(
        pm.MatchingDistribution(d.scores, n_jobs=2).sample(3000, rng=1), drawn
    )
    assert d.sample(0).shape == (0, 26)


@pytest.mark.parametrize("outside", [-np.inf, -100.0])
def test_graphs_in_blocks_are_sampled_block_by_block(outside, rng):
    scores = np.full((36, 36), outside)
    scores[:5, :5], scores[5:9, 5:9] = random_scores(rng, 5, 1.5), random_scores(rng, 4)
    scores[9:, 9:] = random_scores(rng, 27)  # too large for a table
    shuffle = rng.permutation(36)
    d = pm.MatchingDistribution(scores[shuffle])
    drawn = d.sample(5000, rng=1)[:, np.argsort(shuffle)]
    assert (np.sort(drawn, axis=1) == np.arange(36)).all()
    assert p_value(drawn[:, :5], scores[:5, :5]) > THRESHOLD
    assert p_value(drawn[:, 5:9] - 5, scores[5:9, 5:9]) > THRESHOLD


def test_given_edges_hold_in_samples_of_large_graphs(rng):
    d = pm.MatchingDistribution(random_scores(rng, 30), given={3: 7})
    drawn = d.sample(50, rng=0)
    assert (drawn[:, 3] == 7).all()
    assert (np.sort(drawn, axis=1) == np.arange(30)).all()


def test_chains_are_drawn_from_only_where_asked_and_needed(rng):
    scores = random_scores(rng, 30, 3.0, 0.2)
    chain = pm.MatchingDistribution(scores, "swap_chain", given={0: 2})
    if np.isneginf(scores[0, 2]):
        pytest.fail("choose another edge")
    drawn = chain.sample(40, rng=3)
    assert (drawn[:, 0] == 2).all()
    assert np.isfinite(scores[np.arange(30), drawn]).all()
    np.testing.assert_array_equal(chain.sample(40, rng=3), drawn)
    small = pm.MatchingDistribution(scores[:9, :9], "swap_chain")
    exact = pm.MatchingDistribution(scores[:9, :9])
    np.testing.assert_array_equal(small.sample(9, rng=1), exact.sample(9, rng=1))


def test_approximate_answers_say_so_and_hang_together(rng):
    engine = pm.AutoEngine(exact_size=0, tol=0.02, budget=None)
    scores = random_scores(rng, 14, 1.0, 0.2) + 100.0
    d, exact = pm.MatchingDistribution(scores, engine), pm.MatchingDistribution(scores)
    assert not d.is_exact
    assert exact.is_exact
    assert exact.log_partition_error == 0.0
    assert not exact.marginal_errors.any()
    assert abs(d.log_partition - exact.log_partition) < 4 * d.log_partition_error
    low, high = d.diagnostics.interval
    assert low <= exact.log_partition <= high
    own = d.diagnostics.steps[-1].interval
    assert own[0] < d.log_partition < own[1]
    assert d.entropy == pytest.approx(exact.entropy, abs=0.2)
    assert d.kl(exact) == pytest.approx(0.0, abs=0.2)
    best = d.k_best(2).matchings
    assert np.diff(d.log_prob(best)) == pytest.approx(np.diff(exact.log_prob(best)))
    known = {0: int(d.mode()[0])}
    assert d.condition(known).log_partition == pytest.approx(
        exact.condition(known).log_partition, abs=0.1
    )
    assert (d.marginal_errors[~np.isfinite(scores)] == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        d.marginal_errors[0, 0] = 1.0


def test_errors_that_nobody_knows(rng):
    d = pm.MatchingDistribution(random_scores(rng, 6), "bethe")
    assert d.log_partition_error is None
    assert d.marginal_errors is None
    assert d.diagnostics.interval is not None


def test_samples_of_a_chain_follow_its_options(rng):
    scores = 2.0 * rng.normal(size=(26, 26))
    few, many = (
        pm.MatchingDistribution(scores, pm.SwapChain(burn_in=burn_in)).sample(20, rng=0)
        for burn_in in (0, 500)
    )
    assert not np.array_equal(few, many)


def test_later_samples_need_no_pilot(rng, monkeypatch):
    from permatch.inference.sampling import matching_samples

    d = pm.MatchingDistribution(0.5 * rng.normal(size=(26, 26)))
    first = d.sample(3, rng=0)
    monkeypatch.delattr(matching_samples, "_log_share")
    np.testing.assert_array_equal(d.sample(3, rng=0), first)
