"""`nn.MatchingDistribution`: against `pm.MatchingDistribution`, graph by graph."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")

import torch

import permatch as pm
import permatch.nn
from permatch.errors import (
    InfeasibleGraphError,
    InvalidMatchingError,
    InvalidOptionError,
    ScoreTypeError,
)

SIZES = [[(4, 4), (3, 3), (2, 2)], [(1, 1), (4, 4), (3, 3)]]


def batch(unmatched):
    """Padded graphs (2, 3), and each alone."""
    torch.manual_seed(1)
    scores = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    scores[0, 0, 0, 1] = -torch.inf
    mask = torch.zeros(2, 3, 4, 4, dtype=torch.bool)
    alone = {}
    for g in np.ndindex(2, 3):
        n, k = SIZES[g[0]][g[1]]
        mask[g][:n, :k] = True
        own = scores[g][:n, :k].numpy()
        alone[g] = pm.MatchingDistribution(
            own, unmatched_left=unmatched, unmatched_right=unmatched
        )
    return permatch.nn.MatchingDistribution(scores, unmatched, unmatched, mask), alone


@pytest.mark.parametrize("unmatched", [None, 0.3])
def test_agrees_graph_by_graph(unmatched):
    found, alone = batch(unmatched)
    assert found.batch_shape == (2, 3)
    assert found.event_shape == (4,)
    costs = pm.LinkCosts(false=3.0, abstain=0.2)
    matchings = found.mode, found.bayes_matching(), found.bayes_matching(costs)
    entropy, log_prob = found.entropy(), found.log_prob(found.mode)
    for g, one in alone.items():
        n, k = one.n_left, one.n_right
        assert found.log_partition[g].item() == pytest.approx(one.log_partition, abs=1e-12)
        np.testing.assert_allclose(found.marginals[g][:n, :k], one.marginals, atol=1e-12)
        np.testing.assert_allclose(
            found.unmatched_left[g][:n], one.unmatched_left, atol=1e-12
        )
        assert not found.unmatched_right[g][k:].any()
        assert entropy[g].item() == pytest.approx(one.entropy, abs=1e-12)
        assert log_prob[g].item() == pytest.approx(one.log_prob(one.mode()), abs=1e-12)
        wanted = one.mode(), one.bayes_matching(), one.bayes_matching(costs)
        for own, other in zip(matchings, wanted, strict=True):
            assert own[g][:n].tolist() == other.tolist()
            assert (own[g][n:] == -1).all()


@pytest.mark.parametrize("unmatched", [None, 0.3])
def test_samples_follow_the_marginals(unmatched):
    found, _ = batch(unmatched)
    torch.manual_seed(4)
    drawn = found.sample((4000,))
    assert drawn.shape == (4000, 2, 3, 4)
    assert drawn.dtype == torch.int64
    assert torch.isfinite(found.log_prob(drawn)).all()
    assert found.support.check(drawn).all()
    shares = (drawn[..., None] == torch.arange(4)).double().mean(0)
    assert (shares - found.marginals).abs().max() < 0.04
    torch.manual_seed(4)
    assert torch.equal(drawn[:3], found.sample((4000,))[:3])
    assert found.sample().shape == (2, 3, 4)
    assert found.sample((2, 5)).shape == (2, 5, 2, 3, 4)


def test_larger_squares_are_drawn_too():
    torch.manual_seed(0)
    d = permatch.nn.MatchingDistribution(2.0 * torch.randn(3, 14, 14, dtype=torch.float64))
    drawn = d.sample((2000,))
    assert (drawn.sort(-1).values == torch.arange(14)).all()
    shares = (drawn[..., None] == torch.arange(14)).double().mean(0)
    assert (shares - d.marginals).abs().max() < 0.06


def test_entropy_has_a_gradient():
    scores = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    free = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s, u: permatch.nn.MatchingDistribution(s, u, 0.1).entropy(), (scores, free)
    )


def test_expand():
    found, _ = batch(0.3)
    wide = found.expand((5, 2, 3))
    assert wide.batch_shape == (5, 2, 3)
    assert torch.equal(wide.marginals[3], found.marginals)
    assert wide.sample((2,)).shape == (2, 5, 2, 3, 4)
    one = permatch.nn.MatchingDistribution(torch.zeros(3, 3)).expand((4,))
    assert one.entropy().shape == (4,)
    assert one.scores.shape == (4, 3, 3)


@pytest.mark.parametrize("shape", [(3,), (2,), (1, 2), (2, 3, 4), ()], ids=str)
def test_expand_says_what_fits(shape):
    d = permatch.nn.MatchingDistribution(torch.zeros(2, 3, 4, 4))
    with pytest.raises(InvalidOptionError, match=r"batch_shape must be .* \(2, 3\)"):
        d.expand(shape)


@pytest.mark.parametrize("size", [1e5, 1e9, 1e17, -1e17])
def test_entropy_of_large_scores_is_that_of_their_differences(size):
    torch.manual_seed(0)
    scores = torch.zeros(2, 2, dtype=torch.float64) + size
    found = permatch.nn.MatchingDistribution(scores).entropy()
    assert found.item() == pytest.approx(np.log(2.0), abs=1e-9)
    free = permatch.nn.MatchingDistribution(scores, size / 2.0, size / 2.0).entropy()
    assert free.item() == pytest.approx(np.log(7.0), abs=1e-9)
    # Rows and columns off by different numbers, far from each other.
    small = torch.randint(-2, 3, (4, 4)).double()
    rows = 2.0 ** torch.arange(37, 41)[:, None]
    moved = permatch.nn.MatchingDistribution(small + rows - rows.T).entropy()
    wanted = permatch.nn.MatchingDistribution(small).entropy()
    assert moved.item() == pytest.approx(wanted.item(), abs=1e-9)


def test_entropy_of_large_scores_with_one_likely_matching_is_0():
    torch.manual_seed(0)
    scores, mask = 1e17 * torch.randn(5, 4, 4).double(), torch.ones(5, 4, 4).bool()
    mask[:, 3] = mask[:, :, 3] = mask[0, 2] = False
    for given in ((scores,), (scores, 0.0, 1e16), (scores, None, None, mask)):
        entropy = permatch.nn.MatchingDistribution(*given).entropy()
        assert entropy.tolist() == [0.0] * 5


def test_entropy_that_cannot_be_told_is_refused():
    # A ring of two matchings of equal scores, which no single row or column shows.
    size = 14
    left, right = 2.0 ** torch.randint(
        30, 46, (2, size), dtype=torch.float64, generator=torch.manual_seed(0)
    )
    on_ring = torch.eye(size).bool() | torch.eye(size).bool().roll(1, dims=1)
    scores = torch.where(on_ring, left[:, None] - right, -torch.inf)
    words = "scores that are not too large for double precision; .* Scale the scores down"
    with pytest.raises(InvalidOptionError, match=words):
        permatch.nn.MatchingDistribution(scores).entropy()


def test_entropy_of_large_scores_has_a_gradient():
    small = torch.tensor([[1.0, 2.0], [0.0, 4.0]], dtype=torch.float64)

    def slope(scores):
        return torch.autograd.grad(
            permatch.nn.MatchingDistribution(scores).entropy(), scores
        )[0]

    moved = slope((small + 2.0**40).requires_grad_())
    torch.testing.assert_close(moved, slope(small.requires_grad_()))
    run = torch.func.vmap(lambda s: permatch.nn.MatchingDistribution(s).entropy())
    found = run(torch.full((3, 2, 2), 1e17, dtype=torch.float64))
    assert found.tolist() == pytest.approx([np.log(2.0)] * 3, abs=1e-9)


def test_expanding_by_numbers_below_0_is_refused():
    one = permatch.nn.MatchingDistribution(torch.zeros(1, 2, 2, 2))
    with pytest.raises(InvalidOptionError, match=r"batch_shape must be .* got \(-1, 2\)"):
        one.expand((-1, 2))


def test_entropy_of_large_scores_is_not_negative():
    torch.manual_seed(0)
    scores = 1e9 * torch.randn(50, 4, 4, dtype=torch.float64)
    assert (permatch.nn.MatchingDistribution(scores).entropy() >= 0.0).all()


def test_matchings_are_not_mapped():
    scores = torch.zeros(2, 3, 3)
    for ask in (
        lambda s: permatch.nn.MatchingDistribution(s).mode,
        lambda s: permatch.nn.MatchingDistribution(s).sample(),
        lambda s: permatch.nn.MatchingDistribution(s).bayes_matching(),
    ):
        with pytest.raises(ScoreTypeError, match=r"outside of torch\.func\.vmap"):
            torch.func.vmap(ask)(scores)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0), (3, 0, 2, 4)], ids=str)
@pytest.mark.parametrize("is_masked", [False, True])
def test_no_graphs_and_no_nodes(shape, is_masked):
    mask = torch.ones(shape, dtype=torch.bool) if is_masked else None
    scores = torch.zeros(shape)
    d = permatch.nn.MatchingDistribution(scores, mask=mask, validate_args=True)
    matching = d.mode
    assert matching.shape == d.bayes_matching().shape == shape[:-1]
    assert d.entropy().tolist() == torch.zeros(shape[:-2]).tolist()
    drawn = d.sample((5,))
    assert drawn.shape == (5, *shape[:-1])
    assert d.log_prob(drawn).tolist() == torch.zeros((5, *shape[:-2])).tolist()
    wide = d.expand((4, *shape[:-2]))
    assert wide.log_prob(wide.mode).shape == (4, *shape[:-2])


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="scores"):
        permatch.nn.MatchingDistribution(torch.full((2, 2), torch.nan), validate_args=True)
    with pytest.raises(InfeasibleGraphError, match="graph 1"):
        _ = permatch.nn.MatchingDistribution(
            torch.tensor([[[0.0]], [[-torch.inf]]])
        ).log_partition
    d = permatch.nn.MatchingDistribution(torch.zeros(2, 2))
    with pytest.raises(InvalidMatchingError, match="right node 0 2 times"):
        d.log_prob(torch.tensor([0, 0]))
    assert d.support.check(torch.tensor([[0, 0], [0, -1], [2, 0]])).tolist() == [
        False,
        True,
        False,
    ]
    assert repr(d) == "MatchingDistribution(batch_shape=(), 2 x 2)"
