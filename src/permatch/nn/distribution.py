"""The distribution over the matchings of a batch of graphs, for `torch.distributions`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from permatch.errors import InvalidOptionError
from permatch.nn._batch import Batch, Unmatched, as_batch
from permatch.nn._decoding import (
    best_matchings,
    cheapest_matchings,
    check_plain,
    draw_matchings,
)
from permatch.nn._entropy import entropies
from permatch.nn.functional import Inference, infer_batch, total_scores

if TYPE_CHECKING:
    from permatch.decoding import LinkCosts

# PyTorch declares as properties what its own distributions override by plain values.
_Distribution: Any = Distribution


class _Scores(constraints.Constraint):
    """Tables of numbers that may be infinite; unlike PyTorch's own, also of no graphs."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        """Return which tables hold no NaN."""
        return ~value.isnan().flatten(-2).any(dim=-1)


class _Matchings(constraints.Constraint):
    """Whole numbers from -1 on, none but -1 twice in a row of the last dimension."""

    is_discrete = True
    event_dim = 1

    def __init__(self, n_right: int) -> None:
        self.n_right = n_right
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Return which rows are matchings."""
        ordered = value.sort(dim=-1).values
        is_repeated = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
        is_node = (value >= -1) & (value < self.n_right) & (value == value.floor())
        return is_node.all(dim=-1) & ~is_repeated.any(dim=-1)


class MatchingDistribution(_Distribution):
    """The distribution over the matchings of every graph of a batch.

    ``p(matching) ∝ exp(sum of the scores of its edges and of its unmatched nodes)``.  A
    value is a tensor (n,): the right node of every left node, -1 for unmatched and padded
    ones.  All is exact; log-probabilities, marginals and the entropy are differentiable.
    They are computed where the scores are; `mode`, `sample` and `bayes_matching` on the
    CPU, from where matchings are copied back.

    Parameters
    ----------
    scores : Tensor of shape (..., n, k)
        Log-weight of every edge; ``-inf`` forbids an edge.
    unmatched_left, unmatched_right : Tensor, number or None
        Score of staying unmatched; ``-inf``: must be matched.  None: every node must be
        matched, except that on the larger side of an unequal graph it is 0.
    mask : Tensor of shape (..., n, k), bool, optional
        True where an edge may be; nodes without a True are padding.
    validate_args : bool, optional
        Whether to check arguments, as for all distributions of PyTorch.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> d = permatch.nn.MatchingDistribution(torch.tensor([[3.0, 1.0], [2.0, 2.0]]).log())
    >>> d.log_prob(torch.tensor([1, 0])).exp()
    tensor(0.2500)
    >>> d.mode, d.entropy()
    (tensor([0, 1]), tensor(0.5623))
    >>> _ = torch.manual_seed(0)
    >>> d.sample((3,)).shape
    torch.Size([3, 2])
    """

    arg_constraints = {"scores": _Scores()}
    has_rsample = False

    def __init__(
        self,
        scores: Tensor,
        unmatched_left: Unmatched = None,
        unmatched_right: Unmatched = None,
        mask: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._batch = as_batch(scores, unmatched_left, unmatched_right, mask)
        self._dtype = scores.dtype
        n, k = scores.shape[-2:]
        shape = self._batch.shape
        self.scores = self._batch.scores.reshape(*shape, n, k).to(scores.dtype)
        super().__init__(torch.Size(shape), torch.Size((n,)), validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Tensors that are matchings; which of them are possible, `log_prob` says."""
        return _Matchings(self._batch.scores.shape[2])

    def expand(
        self, batch_shape: Any, _instance: MatchingDistribution | None = None
    ) -> MatchingDistribution:
        """Return the distribution with its batch dimensions expanded.

        Parameters
        ----------
        batch_shape : torch.Size
            The batch dimensions wanted.

        Returns
        -------
        MatchingDistribution
            Of copies of the same graphs.
        """
        new: Any = self._get_checked_instance(MatchingDistribution, _instance)
        shape = torch.Size(batch_shape)
        batch = self._batch
        try:
            is_wider = torch.broadcast_shapes(shape, batch.shape) == shape
        except (RuntimeError, ValueError):  # the latter of numbers below 0
            is_wider = False
        if not is_wider:
            raise InvalidOptionError(
                "batch_shape must be the batch dimensions of the distribution, "
                f"{tuple(batch.shape)}, with more in front or other numbers where these "
                f"are 1; got {tuple(shape)}."
            )

        def expanded(values: Tensor | None) -> Any:
            if values is None:
                return None
            own = values.reshape(*batch.shape, *values.shape[1:])
            whole = own.expand(*shape, *values.shape[1:])
            return whole.reshape(shape.numel(), *values.shape[1:])

        tables = (batch.scores, batch.left, batch.right)
        shown = (batch.is_edge, batch.is_left, batch.is_right)
        scores, left, right = map(expanded, tables)
        new._batch = Batch(scores, left, right, tuple(shape), *map(expanded, shown))
        new._dtype = self._dtype
        new.scores = self.scores.expand(*shape, *self.scores.shape[-2:])
        super(MatchingDistribution, new).__init__(shape, self.event_shape, False)
        new._validate_args = self._validate_args
        return new

    # ---- inference

    @cached_property
    def _found(self) -> Inference:
        return infer_batch(self._batch)

    @property
    def log_partition(self) -> Tensor:
        """Log of the total weight of all matchings, (...)."""
        return self._found.log_partition.to(self._dtype)

    @property
    def marginals(self) -> Tensor:
        """Probability of every edge, (..., n, k)."""
        return self._found.marginals.to(self._dtype)

    @property
    def unmatched_left(self) -> Tensor:
        """Probability of every left node of staying unmatched, (..., n); 0 for padding."""
        return self._found.unmatched_left.to(self._dtype)

    @property
    def unmatched_right(self) -> Tensor:
        """Probability of every right node of staying unmatched, (..., k)."""
        return self._found.unmatched_right.to(self._dtype)

    # ---- questions

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of matchings.

        Parameters
        ----------
        value : Tensor of shape (..., n), of an integer type
            Matchings, -1 for unmatched and padded nodes.

        Returns
        -------
        Tensor of shape (...)
            ``-inf`` for matchings that are not possible.
        """
        total, is_possible = total_scores(self._batch, value)
        value = total - self._found.log_partition
        return torch.where(is_possible, value, -torch.inf).to(self._dtype)

    def entropy(self) -> Tensor:
        """Return the entropy of every matching in nats, (...); differentiable.

        Also right where scores are so large that log-partitions lose all digits behind the
        point; where even that does not help, `InvalidOptionError`.
        """
        return entropies(self._batch, self._found).to(self._dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest matching of every graph, (..., n)."""
        return self._laid_out(best_matchings(self._batch))

    def bayes_matching(self, costs: LinkCosts | None = None) -> Tensor:
        """Return the matchings with the fewest expected errors, or the least expected cost.

        Parameters
        ----------
        costs : LinkCosts, optional
            What missed, false and wrong links cost, and leaving a node to a person.

        Returns
        -------
        Tensor of shape (..., n)
            -1: unmatched, ``pm.ABSTAINED`` (-2): left to a person.
        """
        found = self._found
        matching = cheapest_matchings(
            self._batch, found.marginals, found.unmatched_left, costs
        )
        return self._laid_out(matching)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw matchings, exact and independent, from PyTorch's global generator.

        Parameters
        ----------
        sample_shape : torch.Size
            Dimensions of the sample, in front of those of the batch.

        Returns
        -------
        Tensor of shape sample_shape + (..., n)
            Matchings, -1 for unmatched and padded nodes.

        Notes
        -----
        Larger graphs can be sampled than summed.  Squares of more than 24 nodes, all of
        which must be matched, are drawn by rejection, whose cost is exponential in the size
        and in the spread of the scores; see `permatch.MatchingDistribution.sample`.
        """
        check_plain(self._batch)
        shape = torch.Size(sample_shape)
        seed = int(torch.randint(2**63 - 1, ()).item())
        drawn = draw_matchings(self._batch, shape.numel(), seed)
        return drawn.reshape(*shape, *self._batch.shape, *self.event_shape)

    def _laid_out(self, matching: Tensor) -> Tensor:
        return matching.reshape(*self._batch.shape, *self.event_shape)

    def __repr__(self) -> str:
        n, k = self._batch.scores.shape[1:]
        return f"MatchingDistribution(batch_shape={tuple(self._batch.shape)}, {n} x {k})"
