"""Sums over all matchings of a batch of graphs, differentiable by their scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from permatch.errors import InvalidMatchingError
from permatch.nn._batch import Batch, Unmatched, as_batch
from permatch.nn._ops import count_partners
from permatch.nn._ops import infer as infer_tensors


class Inference(NamedTuple):
    """What `infer` returns: log-partitions and probabilities.

    Attributes
    ----------
    log_partition : Tensor of shape (...)
        Log of the total weight of all matchings.
    marginals : Tensor of shape (..., n, k)
        Probability of every edge.
    unmatched_left, unmatched_right : Tensor of shape (..., n), (..., k)
        Probability of every node of staying unmatched; 0 for padding.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> found = permatch.nn.infer(torch.zeros(1, 3), unmatched_left=0.0)
    >>> found.marginals  # of four matchings, one per edge and one of none
    tensor([[0.2500, 0.2500, 0.2500]])
    >>> found.unmatched_left, found.unmatched_right
    (tensor([0.2500]), tensor([0.7500, 0.7500, 0.7500]))
    """

    log_partition: Tensor
    marginals: Tensor
    unmatched_left: Tensor
    unmatched_right: Tensor


def infer(
    scores: Tensor,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    mask: Tensor | None = None,
) -> Inference:
    """Return log-partitions, marginals and probabilities of staying unmatched.

    Computed in float64, by the exact engines of permatch on the CPU and by its kernels on
    CUDA devices, and returned in the type of the scores.  Differentiable twice:
    log-partitions two times, probabilities once.  Derivatives are 0 at forbidden edges and
    at padding.

    Parameters
    ----------
    scores : Tensor of shape (..., n, k)
        Log-weight of every edge, of a floating-point type; ``-inf`` forbids an edge.
    unmatched_left, unmatched_right : Tensor, number or None
        Score of staying unmatched, one for all nodes or tensors of shapes (..., n) and
        (..., k); ``-inf``: must be matched.  None: every node must be matched, except that
        on the larger side of an unequal graph it is 0.
    mask : Tensor of shape (..., n, k), bool, optional
        True where an edge may be.  Nodes without a True are padding: graphs of different
        sizes fit into one batch, and what padded entries hold, NaN included, does not
        matter.  For a node that counts but has no edge, use ``-inf`` in the scores.

    Returns
    -------
    Inference
        ``log_partition``, ``marginals``, ``unmatched_left`` and ``unmatched_right``.

    Notes
    -----
    Cost and limits are those of `permatch.infer` for exact engines: 2^m for graphs of m
    nodes on the smaller side, up to 30; on a GPU up to 48 where all nodes must be matched.
    Graphs without an exact answer are refused.  `torch.compile` and `torch.func` work, but
    not one around the other.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> found = permatch.nn.infer(torch.zeros(5, 2, 3), unmatched_left=0.0)
    >>> found.log_partition.exp()  # 6 matchings of both, 6 of one, 1 of none
    tensor([13.0000, 13.0000, 13.0000, 13.0000, 13.0000])
    >>> found.marginals.shape, found.unmatched_left.shape
    (torch.Size([5, 2, 3]), torch.Size([5, 2]))
    """
    found = infer_batch(as_batch(scores, unmatched_left, unmatched_right, mask))
    if scores.dtype == torch.float64:
        return found
    return Inference(*(values.to(scores.dtype) for values in found))


def infer_batch(batch: Batch) -> Inference:
    """Return what `infer` does, in float64."""
    found = Inference(*infer_tensors(batch.scores, batch.left, batch.right))
    shown = batch.is_edge, batch.is_left, batch.is_right
    for name, is_shown in zip(Inference._fields[1:], shown, strict=True):
        if is_shown is not None:
            table = torch.where(is_shown, getattr(found, name), 0.0)
            found = found._replace(**{name: table})
    shape = batch.shape
    if len(shape) == 1:
        return found
    return Inference(*(own.reshape(shape + own.shape[1:]) for own in found))


def log_partition(
    scores: Tensor,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the log of the total weight of all matchings; its gradient is the marginals.

    Parameters
    ----------
    scores : Tensor of shape (..., n, k)
        Log-weight of every edge; ``-inf`` forbids an edge.
    unmatched_left, unmatched_right : Tensor, number or None
        Score of staying unmatched; see `infer`.
    mask : Tensor of shape (..., n, k), bool, optional
        True where an edge may be; nodes without a True are padding.

    Returns
    -------
    Tensor of shape (...)
        One number per graph.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> scores = torch.zeros(3, 3, requires_grad=True)
    >>> round(permatch.nn.log_partition(scores).exp().item(), 4)
    6.0
    >>> torch.func.grad(permatch.nn.log_partition)(torch.zeros(2, 2))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    return infer(scores, unmatched_left, unmatched_right, mask).log_partition


def marginals(
    scores: Tensor,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the probability of every edge; differentiable.

    Parameters
    ----------
    scores : Tensor of shape (..., n, k)
        Log-weight of every edge; ``-inf`` forbids an edge.
    unmatched_left, unmatched_right : Tensor, number or None
        Score of staying unmatched; see `infer`, which returns the probabilities of nodes
        too.
    mask : Tensor of shape (..., n, k), bool, optional
        True where an edge may be; nodes without a True are padding.

    Returns
    -------
    Tensor of shape (..., n, k)
        0 at forbidden edges and padding.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> permatch.nn.marginals(torch.tensor([[3.0, 1.0], [2.0, 2.0]]).log())
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]])
    """
    return infer(scores, unmatched_left, unmatched_right, mask).marginals


def log_prob(
    scores: Tensor,
    matching: Tensor,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the log-probability of a matching of every graph.

    Parameters
    ----------
    scores : Tensor of shape (..., n, k)
        Log-weight of every edge; ``-inf`` forbids an edge.
    matching : Tensor of shape (..., n), of an integer type
        The right node of every left node, counted from 0; -1: unmatched.  Entries of padded
        nodes do not matter.  More leading dimensions than those of the scores are further
        matchings of the same graphs.
    unmatched_left, unmatched_right : Tensor, number or None
        Score of staying unmatched; see `infer`.
    mask : Tensor of shape (..., n, k), bool, optional
        True where an edge may be; nodes without a True are padding.

    Returns
    -------
    Tensor of shape (...)
        ``-inf``, with a gradient of 0, for matchings that use a forbidden edge or leave a
        node unmatched that must be matched.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> scores = torch.tensor([[3.0, 1.0], [2.0, 2.0]]).log()
    >>> permatch.nn.log_prob(scores, torch.tensor([[0, 1], [1, 0]])).exp()
    tensor([0.7500, 0.2500])
    """
    batch = as_batch(scores, unmatched_left, unmatched_right, mask)
    normaliser = infer_tensors(batch.scores, batch.left, batch.right)[0]
    total, is_possible = total_scores(batch, matching)
    value = total - normaliser.reshape(batch.shape)
    return value.masked_fill(~is_possible, -torch.inf).to(scores.dtype)


def total_scores(batch: Batch, matching: Tensor) -> tuple[Tensor, Tensor]:
    """Return the score of matchings (..., n) of a batch, and whether they are possible.

    The score of one that is not possible means nothing, and may be infinite.
    """
    n, k = batch.scores.shape[1:]
    _check_matching(matching, n, batch.scores)
    try:
        shape = torch.broadcast_shapes(matching.shape[:-1], batch.shape)
    except RuntimeError as err:
        raise InvalidMatchingError(
            "matching must have the batch dimensions of the scores, "
            f"{tuple(batch.shape)}, or further ones in front; got shape "
            f"{tuple(matching.shape)}."
        ) from err
    matching = matching.to(torch.int64).expand(*shape, n)
    if batch.is_left is not None:
        matching = torch.where(batch.is_left.reshape(*batch.shape, n), matching, -1)
    flat = matching.reshape(math.prod(shape), n)
    n_partners = count_partners(flat, k).reshape(*shape, k)
    is_matched = matching >= 0
    if batch.left is None or batch.right is None:  # nothing else to look at
        total = _chosen(batch, matching, shape).sum(dim=-1)
        return total, is_matched.all(dim=-1) & (total > -torch.inf)
    total, is_possible = 0.0, True
    for own, is_used, is_real in (
        (_chosen(batch, matching, shape), is_matched, None),
        (batch.left.reshape(*batch.shape, n), ~is_matched, batch.is_left),
        (batch.right.reshape(*batch.shape, k), n_partners == 0, batch.is_right),
    ):
        if is_real is not None:
            is_used = is_used & is_real.reshape(*batch.shape, is_real.shape[1])
        is_forbidden = own == -torch.inf
        total = total + torch.where(is_used & ~is_forbidden, own, 0.0).sum(dim=-1)
        is_possible = is_possible & ~(is_used & is_forbidden).any(dim=-1)
    return total, is_possible


def _chosen(batch: Batch, matching: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the scores (..., n) of the edges of matchings; anything at unmatched nodes."""
    n, k = batch.scores.shape[1:]
    if not k:
        return batch.scores.new_zeros((*shape, n))
    scores = batch.scores.reshape(*batch.shape, n, k).expand(*shape, n, k)
    return scores.gather(-1, matching.clamp(min=0)[..., None])[..., 0]


def _check_matching(matching: Tensor, n: int, scores: Tensor) -> None:
    is_tensor = isinstance(matching, Tensor)
    is_whole = (
        is_tensor
        and not matching.is_floating_point()
        and matching.dtype not in (torch.bool, torch.complex64, torch.complex128)
    )
    if not is_whole:
        got = matching.dtype if is_tensor else type(matching).__name__
        raise InvalidMatchingError(
            "matching must be a tensor of an integer type, the right node of every left "
            f"node and -1 for unmatched ones; got {got}. Use "
            f"{'matching.long()' if is_tensor else 'torch.as_tensor(matching)'}."
        )
    if not matching.ndim or matching.shape[-1] != n:
        raise InvalidMatchingError(
            f"matching must have one entry per left node, shape (..., {n}); got shape "
            f"{tuple(matching.shape)}."
        )
