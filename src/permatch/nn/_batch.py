"""Tensors as users have them to batches as the operators take them.

    scores (..., n, k), unmatched (..., n) and (..., k), mask (..., n, k)
    ->  scores (b, n, k), unmatched (b, n) and (b, k), float64, -inf where nothing may be

Nodes whose row or column of the mask has no True are padding.  A padded node stays
unmatched with score 0.  Where all others must be matched, padded rows and columns are
paired by edges of score 0 instead, so that the graph stays a square of the full size whose
nodes must all be matched, which is solved fastest.  Either way the log-partition is that of
the graph without padding, and what is asked of padding is 0.

All of this is plain tensor arithmetic without a look at values, so that it can be compiled
and mapped.
"""

from __future__ import annotations

import math
import numbers
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from permatch.errors import InvalidOptionError, ScoreShapeError, ScoreTypeError

#: A score of staying unmatched: one for all nodes, or one per node.
Unmatched: TypeAlias = "Tensor | float | None"


class Batch(NamedTuple):
    """Graphs of one shape, with what is padding.

    Attributes
    ----------
    scores : Tensor of shape (b, n, k)
        Log-weights.
    left, right : Tensor of shape (b, n), (b, k), or None
        Scores of staying unmatched; None: squares all of whose nodes must be matched.
    shape : tuple of int
        The batch dimensions that were given.
    is_edge : Tensor of shape (b, n, k), or None
        The mask.
    is_left, is_right : Tensor of shape (b, n), (b, k), or None
        Nodes that are not padding; None: all.
    """

    scores: Tensor
    left: Tensor | None
    right: Tensor | None
    shape: tuple[int, ...]
    is_edge: Tensor | None = None
    is_left: Tensor | None = None
    is_right: Tensor | None = None

    @property
    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """The scores, and those of staying unmatched."""
        if self.left is None or self.right is None:
            must = must_be_matched(self.scores)
            return self.scores, must, must
        return self.scores, self.left, self.right


def as_batch(
    scores: Tensor,
    unmatched_left: Unmatched,
    unmatched_right: Unmatched,
    mask: Tensor | None,
) -> Batch:
    """Check types and shapes; return the batch in float64, without padding in the way."""
    check_floats(scores, "scores")
    if scores.ndim < 2:
        raise ScoreShapeError(
            "scores must have shape (..., n, k), a row per left node and a column per "
            f"right node; got shape {tuple(scores.shape)}."
        )
    n, k = scores.shape[-2:]
    if n == k and unmatched_left is None and unmatched_right is None and mask is None:
        return _perfect(scores, n)
    if mask is not None:
        _check_mask(mask, scores)
    sides = [
        None if values is None else _as_tensor(values, name, scores)
        for name, values in (
            ("unmatched_left", unmatched_left),
            ("unmatched_right", unmatched_right),
        )
    ]
    shape = _batch_shape(scores, mask, *sides)
    size = math.prod(shape)
    table = scores.to(torch.float64).expand(*shape, n, k).reshape(size, n, k)
    own = [
        None if values is None else values.expand(*shape, nodes).reshape(size, nodes)
        for values, nodes in zip(sides, (n, k), strict=True)
    ]
    if mask is None:
        left, right = (
            _default(table, nodes, others) if values is None else values
            for values, nodes, others in zip(own, (n, k), (k, n), strict=True)
        )
        return Batch(table, left, right, shape)
    is_edge = mask.expand(*shape, n, k).reshape(size, n, k)
    return _masked(table, own[0], own[1], shape, is_edge)


def _perfect(scores: Tensor, n: int) -> Batch:
    """Return squares whose nodes must all be matched."""
    shape = scores.shape[:-2]
    table = scores.to(torch.float64)
    if len(shape) != 1:
        table = table.reshape(math.prod(shape), n, n)
    return Batch(table, None, None, shape)


def must_be_matched(table: Tensor) -> Tensor:
    """Return the scores (b, n) of staying unmatched on either side of perfect squares."""
    return _default(table, table.shape[1], table.shape[2])


def _default(table: Tensor, nodes: int, others: int) -> Tensor:
    """Return the scores of a side by default: 0 on the larger one, else ``-inf``."""
    return table.new_full((table.shape[0], nodes), 0.0 if nodes > others else -torch.inf)


def _masked(
    scores: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    shape: tuple[int, ...],
    mask: Tensor,
) -> Batch:
    """Return the batch with padding made harmless."""
    is_left, is_right = mask.any(dim=2), mask.any(dim=1)
    n_left, n_right = is_left.sum(dim=1), is_right.sum(dim=1)
    if left is None:
        left = _larger(n_left > n_right, is_left)
    if right is None:
        right = _larger(n_right > n_left, is_right)
    must = ((left == -torch.inf) | ~is_left).all(dim=1)
    must = must & ((right == -torch.inf) | ~is_right).all(dim=1)
    # The first padded row goes with the first padded column, and so on.
    rows, cols = (~is_left).cumsum(dim=1), (~is_right).cumsum(dim=1)
    is_pair = (~is_left[:, :, None] & ~is_right[:, None, :]) & must[:, None, None]
    is_pair = is_pair & (rows[:, :, None] == cols[:, None, :])
    scores = torch.where(mask, scores, -torch.inf)
    scores = torch.where(is_pair, 0.0, scores)
    left = torch.where(is_left, left, _padded(is_pair.any(dim=2), scores))
    right = torch.where(is_right, right, _padded(is_pair.any(dim=1), scores))
    return Batch(scores, left, right, shape, mask, is_left, is_right)


def _larger(is_larger: Tensor, nodes: Tensor) -> Tensor:
    free = torch.zeros((), dtype=torch.float64, device=nodes.device)
    return torch.where(is_larger[:, None].expand(nodes.shape), free, -torch.inf)


def _padded(is_paired: Tensor, scores: Tensor) -> Tensor:
    return torch.where(is_paired, -torch.inf, scores.new_zeros(()))


def _batch_shape(
    scores: Tensor, mask: Tensor | None, *sides: Tensor | None
) -> tuple[int, ...]:
    n, k = scores.shape[-2:]
    shapes = [scores.shape[:-2]]
    if mask is not None:
        shapes.append(mask.shape[:-2])
    for values, nodes, name in zip(sides, (n, k), ("left", "right"), strict=True):
        if values is None:
            continue
        if values.ndim and values.shape[-1] not in (1, nodes):
            raise ScoreShapeError(
                f"unmatched_{name} must be one number, or one per node in its last "
                f"dimension, {nodes}; got shape {tuple(values.shape)}."
            )
        shapes.append(values.shape[:-1])
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError as err:
        raise ScoreShapeError(
            "the batch dimensions of scores, mask and unmatched scores must agree or be 1; "
            f"got {', '.join(str(tuple(shape)) for shape in shapes)}."
        ) from err


def check_floats(values: Tensor, name: str) -> None:
    """Refuse what is not a tensor of floating-point numbers."""
    if not isinstance(values, Tensor):
        raise ScoreTypeError(
            f"{name} must be a tensor; got {type(values).__name__}. Use torch.as_tensor, "
            "or permatch.infer for NumPy arrays."
        )
    if not values.is_floating_point():
        hint = f"Use {name}.double()."
        if values.is_complex():
            hint = f"Log-weights are real; use {name}.real if that is meant."
        elif values.dtype == torch.bool and name == "scores":
            hint = "For allowed edges use mask= and scores of 0."
        raise ScoreTypeError(
            f"{name} must be of a floating-point type; got {values.dtype}. {hint}"
        )


def _as_tensor(values: Tensor | float, name: str, scores: Tensor) -> Tensor:
    if isinstance(values, bool) or not isinstance(values, Tensor | numbers.Real):
        hint = f"Use torch.as_tensor({name})."
        if isinstance(values, bool):
            hint = "Use 0.0 where nodes may stay unmatched, and -math.inf where not."
        raise ScoreTypeError(
            f"{name} must be a number, a tensor or None; got {type(values).__name__}. "
            f"{hint}"
        )
    if not isinstance(values, Tensor):
        return scores.new_full((), float(values), dtype=torch.float64)
    check_floats(values, name)
    _check_device(values, name, scores)
    return values.to(torch.float64)


def _check_mask(mask: Tensor, scores: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        is_tensor = isinstance(mask, Tensor)
        got = mask.dtype if is_tensor else type(mask).__name__
        hint = "mask.bool()" if is_tensor else "torch.as_tensor(mask, dtype=torch.bool)"
        raise InvalidOptionError(
            f"mask must be a tensor of type bool, True where an edge may be; got {got}. "
            f"Use {hint}."
        )
    if mask.shape[-2:] != scores.shape[-2:]:
        raise ScoreShapeError(
            "mask must end in the shape of a graph, as the scores do, "
            f"{tuple(scores.shape[-2:])}; got shape {tuple(mask.shape)}. For masks of "
            "nodes use left_mask[..., :, None] & right_mask[..., None, :]."
        )
    _check_device(mask, "mask", scores)


def _check_device(values: Tensor, name: str, scores: Tensor) -> None:
    if values.device != scores.device:
        raise InvalidOptionError(
            f"{name} must be on the device of the scores, {scores.device}; got "
            f"{values.device}. Use {name}.to(scores.device)."
        )
