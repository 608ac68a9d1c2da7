"""The entropy of matchings, also of scores so large that their sums have no digits left.

Where the two numbers that an entropy is the difference of are large, the scores are reduced
first: a number off every row and column leaves the distribution as it is, and so does
leaving out what has probability 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from permatch.errors import InvalidOptionError
from permatch.nn._batch import Batch
from permatch.nn.functional import Inference, infer_batch

# Up to this size of scores an entropy is right to some nine digits.
_PLAIN = 1e6
# Entropies that may be off by more are refused.
_TOLERANCE = 1e-6
# Rows and columns in turn.
_N_ROUNDS = 8


def entropies(batch: Batch, found: Inference) -> Tensor:
    """Return the entropies (...) of a batch whose sums are known, in float64."""
    is_hidden = torch.compiler.is_compiling()
    is_hidden = is_hidden or torch._C._are_functorch_transforms_active()
    if not is_hidden and _largest(batch) <= _PLAIN:
        return _difference(batch, found)[0]
    reduced = _reduced(_possible(batch, found))
    value, size = _difference(reduced, infer_batch(reduced))
    if not is_hidden and (size.detach() * 2.0**-52 > _TOLERANCE).any():
        raise InvalidOptionError(
            "the entropy needs scores that are not too large for double precision; with "
            "as much as possible taken off rows and columns they still add up to "
            f"{size.detach().max().item():.3g}. Scale the scores down."
        )
    return value


def _difference(batch: Batch, found: Inference) -> tuple[Tensor, Tensor]:
    """Return entropies, and the size of the numbers that they are differences of."""
    expected: Any = 0.0
    size: Any = found.log_partition.abs()
    for values, p in zip(batch.tables, found[1:], strict=True):
        own = values.reshape(p.shape)
        terms = torch.where(own > -torch.inf, own, 0.0) * p
        terms = terms.flatten(len(batch.shape))
        expected = expected + terms.sum(dim=-1)
        size = size + terms.abs().sum(dim=-1)
    # Differences of large numbers are off by their last digits.
    return (found.log_partition - expected).clamp(min=0.0), size


def _largest(batch: Batch) -> float:
    """Return the size of the largest finite score."""
    sizes = [
        torch.where(values > -torch.inf, values, 0.0).detach().abs().max().item()
        for values in batch.tables
        if values.numel()
    ]
    return max(sizes, default=0.0)


def _possible(batch: Batch, found: Inference) -> Batch:
    """Return the distribution without what has probability 0, except for padding."""
    shown = batch.is_edge, batch.is_left, batch.is_right
    scores, left, right = (
        torch.where(_is_left_out(p.reshape(values.shape), own), -torch.inf, values)
        for values, p, own in zip(batch.tables, found[1:], shown, strict=True)
    )
    return _replaced(batch, scores, left, right)


def _is_left_out(p: Tensor, is_shown: Tensor | None) -> Tensor:
    return p == 0.0 if is_shown is None else (p == 0.0) & is_shown


def _replaced(batch: Batch, scores: Tensor, left: Tensor, right: Tensor) -> Batch:
    """Return a batch with other scores; squares all of whose nodes must be matched stay."""
    if batch.left is None or batch.right is None:
        return batch._replace(scores=scores)
    return batch._replace(scores=scores, left=left, right=right)


def _reduced(batch: Batch) -> Batch:
    """Return the same distribution with scores near 0 where matchings are likely."""
    scores, left, right = batch.tables
    if not scores.numel():
        return batch
    for _ in range(_N_ROUNDS):
        rows = _finite(torch.maximum(scores.amax(dim=2), left).detach())
        scores, left = scores - rows[:, :, None], left - rows
        columns = _finite(torch.maximum(scores.amax(dim=1), right).detach())
        scores, right = scores - columns[:, None, :], right - columns
    return _replaced(batch, scores, left, right)


def _finite(values: Tensor) -> Tensor:
    return torch.where(values > -torch.inf, values, 0.0)
