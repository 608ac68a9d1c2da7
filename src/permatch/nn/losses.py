"""Losses to train networks by: of matchings, and of whole graded lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permatch.errors import InvalidOptionError
from permatch.nn._batch import Unmatched, check_floats
from permatch.nn._lists import (
    as_arguments,
    as_grades,
    check_form,
    check_levels,
    check_padding,
    whole_lists,
)
from permatch.nn.functional import log_prob

_REDUCTIONS = ("mean", "sum", "none")


class MatchingNLL(torch.nn.Module):
    """The negative log-likelihood of true matchings, exact.

    Its gradient by the scores is the marginals less the true edges.  Convex in the scores.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        The mean over graphs, 0 if there are none, their sum, or one loss per graph.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> scores = torch.tensor([[[3.0, 1.0], [2.0, 2.0]]]).log().requires_grad_()
    >>> loss = permatch.nn.MatchingNLL()(scores, torch.tensor([[0, 1]]))
    >>> loss.backward()
    >>> torch.exp(-loss).item(), scores.grad
    (0.75, tensor([[[-0.2500,  0.2500],
             [ 0.2500, -0.2500]]]))
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _check_reduction(reduction)

    def forward(
        self,
        scores: Tensor,
        matching: Tensor,
        unmatched_left: Unmatched = None,
        unmatched_right: Unmatched = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (..., n, k)
            Log-weight of every edge; ``-inf`` forbids an edge.
        matching : Tensor of shape (..., n), of an integer type
            The right node of every left node; -1: unmatched.  Entries of padded nodes do
            not matter.
        unmatched_left, unmatched_right : Tensor, number or None
            Score of staying unmatched; see `infer`.
        mask : Tensor of shape (..., n, k), bool, optional
            True where an edge may be; nodes without a True are padding.

        Returns
        -------
        Tensor
            Of shape (...) without a reduction.  Infinite, with a gradient of 0, if a
            matching is not possible.
        """
        losses = -log_prob(scores, matching, unmatched_left, unmatched_right, mask)
        return _reduced(losses, self.reduction)

    def extra_repr(self) -> str:
        """Return the options, for `repr`."""
        return f"reduction={self.reduction!r}"


class RankMatchLoss(torch.nn.Module):
    """The negative log-likelihood of whole graded lists, as `RankMatch` learns by.

    The likelihood of which documents fill which block of positions: of all ways to give as
    many documents to every grade as have it, ``exp(sum of level times score)`` of the true
    one over the sum of all.  No pairs, no subsets; convex in the scores.

    Parameters
    ----------
    levels : {"grades", "gains"} or sequence of float
        Value of every grade: itself, ``2^grade - 1``, or one number per grade from 0 on,
        non-decreasing.
    form : {"auto", "exact", "profile"}
        The likelihood itself, a lower bound of it, which is cheaper on long lists with many
        grades, or the likelihood for lists that are not too long and the bound for others.
    reduction : {"mean", "sum", "none"}
        The mean over lists, their sum, or one loss per list.  Lists of a single grade say
        nothing: they have the loss 0 and do not count in the mean.
    padding : int
        Grade of the entries of padded slates.

    Notes
    -----
    Computed on the CPU in float64; tensors on other devices are copied there and back.
    Differentiable once, in reverse mode.

    Examples
    --------
    >>> import torch
    >>> import permatch.nn
    >>> y_pred = torch.zeros(2, 4, requires_grad=True)
    >>> y_true = torch.tensor([[1, 0, 0, -1], [2, 1, 0, 0]])  # -1: padding
    >>> loss = permatch.nn.RankMatchLoss(reduction="none")(y_pred, y_true)
    >>> torch.exp(-loss)  # one of 3 choices; one of 12
    tensor([0.3333, 0.0833], grad_fn=<ExpBackward0>)
    """

    def __init__(
        self,
        *,
        levels: str | Sequence[float] = "grades",
        form: str = "auto",
        reduction: str = "mean",
        padding: int = -1,
    ) -> None:
        super().__init__()
        self.levels: Any = check_levels(levels)
        self.form = check_form(form)
        self.reduction = _check_reduction(reduction)
        self.padding = check_padding(padding)

    def forward(self, y_pred: Tensor, y_true: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        y_pred : Tensor of shape (..., slate)
            Score of every document.
        y_true : Tensor of shape (..., slate)
            Its grade, a whole number of at least 0, of any type; `padding` for entries that
            are no document.
        mask : Tensor of shape (..., slate), bool, optional
            True for documents; False for more padding.  The opposite, as other libraries
            have it, is refused where `y_true` has the padding value.

        Returns
        -------
        Tensor
            Of shape (...) without a reduction.
        """
        check_floats(y_pred, "y_pred")
        grades = as_grades(y_pred, y_true, mask, self.padding)
        n_lists, size = math.prod(y_pred.shape[:-1]), y_pred.shape[-1]
        losses, _, is_used = whole_lists(
            y_pred.to(torch.float64).reshape(n_lists, size),
            grades.reshape(n_lists, size),
            *as_arguments(self.levels),
            self.form,
        )
        losses = losses.reshape(y_pred.shape[:-1]).to(y_pred.dtype)
        if self.reduction == "mean":
            return losses.sum() / is_used.sum().clamp(min=1)
        return _reduced(losses, self.reduction)

    def extra_repr(self) -> str:
        """Return the options, for `repr`."""
        return f"levels={self.levels!r}, form={self.form!r}, reduction={self.reduction!r}"


def _check_reduction(reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise InvalidOptionError(
            f"reduction must be one of {', '.join(map(repr, _REDUCTIONS))}; got "
            f"{reduction!r}."
        )
    return reduction


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() / max(losses.numel(), 1) if reduction == "mean" else losses.sum()
