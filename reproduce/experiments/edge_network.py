"""An edge network, trained by the likelihood of matchings or by a Sinkhorn loss.

The network scores pairs of points by a perceptron on what their shape contexts have in
common and apart, and single points, for staying unmatched, by another.  The losses differ
only in what they make of the scores:

    likelihood  -log p(true matching), exact, over all matchings: `permatch.nn.MatchingNLL`
    sinkhorn    -log of the entries of the true matching in a transport plan with a bin for
                the unmatched, by 50 iterations (as in SuperGlue; Sarlin et al. 2020)
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import permatch.nn
from reproduce.experiments.outlier_points import Pair

_FAR = -1e9


class Padded(NamedTuple):
    """Pairs of different sizes in one batch; ``mask`` says where points are."""

    left: Tensor
    right: Tensor
    mask: Tensor
    matching: Tensor


class Probabilities(NamedTuple):
    """Of edges (b, n, k) and of staying unmatched, (b, n) and (b, k)."""

    edges: Tensor
    left: Tensor
    right: Tensor


def pad(pairs: Sequence[Pair]) -> Padded:
    """Return pairs as a batch."""
    n = max(len(pair.left) for pair in pairs)
    k = max(len(pair.right) for pair in pairs)
    d = pairs[0].left.shape[1]
    left, right = np.zeros((len(pairs), n, d)), np.zeros((len(pairs), k, d))
    mask = np.zeros((len(pairs), n, k), dtype=bool)
    matching = np.full((len(pairs), n), -1)
    for g, pair in enumerate(pairs):
        left[g, : len(pair.left)], right[g, : len(pair.right)] = pair.left, pair.right
        mask[g, : len(pair.left), : len(pair.right)] = True
        matching[g, : len(pair.left)] = pair.matching
    floats = torch.tensor(np.sqrt(left)).float(), torch.tensor(np.sqrt(right)).float()
    return Padded(*floats, torch.tensor(mask), torch.tensor(matching))


class EdgeNetwork(torch.nn.Module):
    """Scores of pairs of points, and of points that stay unmatched."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.apart = torch.nn.Linear(n_features, width)
        self.node = torch.nn.Linear(n_features, width)
        self.pair = torch.nn.Sequential(
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 1),
        )
        self.alone = torch.nn.Sequential(
            torch.nn.Linear(n_features, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
        )

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores (b, n, k) of pairs, (b, n) and (b, k) of single points."""
        gaps = (left[:, :, None] - right[:, None, :]).abs()
        common = self.node(left)[:, :, None] + self.node(right)[:, None, :]
        edges = self.pair(self.apart(gaps) + common)[..., 0]
        return edges, self.alone(left)[..., 0], self.alone(right)[..., 0]


# ---- losses


def likelihood_loss(scores: Sequence[Tensor], batch: Padded) -> Tensor:
    """Return the mean negative log-likelihood of the true matchings."""
    edges, left, right = scores
    return permatch.nn.MatchingNLL()(edges, batch.matching, left, right, batch.mask)


def likelihood_probabilities(scores: Sequence[Tensor], batch: Padded) -> Probabilities:
    """Return exact marginals."""
    edges, left, right = scores
    found = permatch.nn.infer(edges, left, right, batch.mask)
    return Probabilities(found.marginals, found.unmatched_left, found.unmatched_right)


def log_plan(scores: Sequence[Tensor], mask: Tensor, n_iterations: int) -> Tensor:
    """Return the log of the transport plan (b, n + 1, k + 1), whose last ones are bins."""
    edges, left, right = scores
    b, n, k = edges.shape
    is_left, is_right = mask.any(2), mask.any(1)
    table = edges.new_full((b, n + 1, k + 1), 0.0)
    table[:, :n, :k], table[:, :n, k], table[:, n, :k] = edges, left, right
    one = is_left.new_ones(b, 1)
    rows, cols = torch.cat([is_left, one], 1), torch.cat([is_right, one], 1)
    table = torch.where(rows[:, :, None] & cols[:, None, :], table, _FAR)
    # Every point has mass one; the bins have room for all points of the other side.
    sizes = is_left.sum(1, keepdim=True), is_right.sum(1, keepdim=True)
    log_rows = torch.cat([torch.zeros(b, n), sizes[1].float().log()], 1)
    log_cols = torch.cat([torch.zeros(b, k), sizes[0].float().log()], 1)
    u, v = torch.zeros(b, n + 1), torch.zeros(b, k + 1)
    for _ in range(n_iterations):
        u = torch.where(rows, log_rows - (table + v[:, None, :]).logsumexp(2), 0.0)
        v = torch.where(cols, log_cols - (table + u[:, :, None]).logsumexp(1), 0.0)
    return table + u[:, :, None] + v[:, None, :]


def sinkhorn_loss(
    scores: Sequence[Tensor], batch: Padded, n_iterations: int = 50
) -> Tensor:
    """Return minus the mean log of the plan's entries that the true matching uses."""
    plan = log_plan(scores, batch.mask, n_iterations)
    n, k = batch.mask.shape[1:]
    edges = batch.matching[:, :, None] == torch.arange(k)
    used = torch.zeros_like(plan, dtype=torch.bool)
    used[:, :n, :k] = edges
    used[:, :n, k] = (batch.matching < 0) & batch.mask.any(2)
    used[:, n, :k] = ~edges.any(1) & batch.mask.any(1)
    return -torch.where(used, plan, 0.0).sum() / len(plan)


def sinkhorn_probabilities(scores: Sequence[Tensor], batch: Padded) -> Probabilities:
    """Return the entries of the transport plan."""
    plan = log_plan(scores, batch.mask, 50).exp()
    n, k = batch.mask.shape[1:]
    edges = torch.where(batch.mask, plan[:, :n, :k], 0.0)
    return Probabilities(edges, plan[:, :n, k], plan[:, n, :k])


LOSSES = {
    "likelihood": (likelihood_loss, likelihood_probabilities),
    "sinkhorn": (sinkhorn_loss, sinkhorn_probabilities),
}


# ---- training


class Fit(NamedTuple):
    """A trained network, and the seconds that each epoch took."""

    network: EdgeNetwork
    seconds: list[float]


def train(
    pairs: Padded,
    loss: str,
    *,
    width: int,
    rate: float,
    decay: float,
    n_epochs: int,
    batch_size: int,
    seed: int,
) -> Fit:
    """Return a network trained by Adam with decoupled weight decay."""
    torch.manual_seed(seed)
    network = EdgeNetwork(pairs.left.shape[2], width)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
    n_steps = n_epochs * -(-len(pairs.mask) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=n_steps)
    objective, _ = LOSSES[loss]
    seconds = []
    for _ in range(n_epochs):
        start = time.process_time()
        for some in torch.randperm(len(pairs.mask)).split(batch_size):
            batch = Padded(*(values[some] for values in pairs))
            value = objective(network(batch.left, batch.right), batch)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
        seconds.append(time.process_time() - start)
    return Fit(network, seconds)


@torch.no_grad()
def probabilities(network: EdgeNetwork, loss: str, pairs: Padded) -> Probabilities:
    """Return what the network trained by a loss makes of pairs."""
    return LOSSES[loss][1](network(pairs.left, pairs.right), pairs)
