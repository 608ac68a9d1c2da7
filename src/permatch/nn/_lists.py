"""The likelihood of whole graded lists as an operator of PyTorch.

    scores (q, slate), grades (q, slate), -inf for padding
    ->  losses (q,), slopes (q, slate), is_used (q,)

The sums are those of `permatch.objectives.whole_list`, on the CPU; the gradient of a loss
is its slopes, which padding does not enter and does not have.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from permatch.errors import (
    DerivativeError,
    GradeError,
    InfiniteScoreError,
    InvalidOptionError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
)

Three = tuple[Tensor, Tensor, Tensor]

# Grade of the padding of lists whose mask is the wrong way round; no grade that is given.
_CONTRARY = -1e300


def check_levels(levels: str | Sequence[float]) -> str | tuple[float, ...]:
    """Return the name of levels, or one number per grade."""
    from permatch.objectives.list_levels import check_levels

    found = check_levels(levels, None)
    return levels if isinstance(levels, str) else tuple(found.tolist())


def check_form(form: str) -> str:
    """Return a form of the likelihood."""
    from permatch._validation import check_choice
    from permatch.objectives.whole_list import FORMS

    check_choice(form, "form", FORMS)
    return form


def check_padding(padding: int) -> int:
    """Return the grade of padding."""
    try:
        found = operator.index(padding)
    except TypeError:
        found = 0
    if found >= 0:
        raise InvalidOptionError(
            f"padding must be a whole number below 0, which no grade is; got {padding!r}."
        )
    return found


def as_arguments(levels: str | tuple[float, ...]) -> tuple[str, list[float]]:
    """Return levels as the operator takes them: a name, or numbers."""
    return (levels, []) if isinstance(levels, str) else ("", list(levels))


def as_grades(y_pred: Tensor, y_true: Tensor, mask: Tensor | None, padding: int) -> Tensor:
    """Return grades (..., slate) as float64, ``-inf`` for padding.

    A mask that is True at padding only is marked for the operator to refuse, which sees
    values.
    """
    for name, values in (("y_true", y_true), ("mask", mask)):
        if values is None and name == "mask":
            continue
        if not isinstance(values, Tensor):
            raise ScoreTypeError(
                f"{name} must be a tensor; got {type(values).__name__}. Use "
                f"torch.as_tensor({name})."
            )
        if values.shape != y_pred.shape:
            raise ScoreShapeError(
                f"{name} must have the shape of y_pred, {tuple(y_pred.shape)}; got "
                f"{tuple(values.shape)}."
            )
    if not y_pred.ndim:
        raise ScoreShapeError("y_pred must have shape (..., slate); got a single number.")
    is_padding = y_true == padding
    grades = y_true.to(torch.float64)
    if mask is None:
        return torch.where(is_padding, -torch.inf, grades)
    if mask.dtype != torch.bool:
        raise InvalidOptionError(
            "mask must be of type bool, True for documents; got "
            f"{mask.dtype}. Use mask.bool()."
        )
    is_contrary = (mask == is_padding).all() & mask.any() & ~mask.all()
    unused = torch.where(is_contrary, _CONTRARY, grades.new_full((), -torch.inf))
    return torch.where(is_padding | ~mask, unused, grades)


@torch.library.custom_op(
    "permatch::whole_lists",
    mutates_args=(),
    schema="(Tensor scores, Tensor grades, str levels, float[] values, str form) "
    "-> (Tensor, Tensor, Tensor)",
)
def whole_lists_op(
    scores: Tensor, grades: Tensor, levels: str, values: Sequence[float], form: str
) -> Three:
    """Return the losses of lists, their slopes, and which lists have several grades."""
    import numpy as np

    from permatch.objectives.list_levels import check_levels
    from permatch.objectives.whole_list import WholeListLikelihood

    table, kinds = scores.detach().cpu().numpy(), grades.detach().cpu().numpy()
    if (kinds == _CONTRARY).any():
        raise InvalidOptionError(
            "mask must be True for documents; got one that is True exactly where y_true is "
            "padding. Use ~mask, or none: y_true marks the padding already."
        )
    is_document = kinds != -np.inf
    own, whole = table[is_document], kinds[is_document]
    _check(own, whole, len(values))
    grade_of = whole.astype(np.int64)
    largest = max(int(grade_of.max(initial=0)), 1)
    by_grade = check_levels(levels, largest) if levels else np.array(values)
    # Grades of equal level are one to the model.
    distinct, codes = np.unique(by_grade, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(is_document.sum(axis=1))])
    likelihood = WholeListLikelihood(
        starts,
        codes[grade_of],
        distinct,
        np.ones(len(table)),
        form=form,
        n_jobs=torch.get_num_threads(),
    )
    losses, slope = likelihood.losses_and_slope(own)
    slopes = np.zeros_like(table)
    slopes[is_document] = slope
    is_used = likelihood.forms != "skipped"
    one, two, three = map(torch.from_numpy, (losses, slopes, is_used))
    return one.to(scores.device), two.to(scores.device), three.to(scores.device)


def _check(scores: Any, grades: Any, n_levels: int) -> None:
    """Refuse NaN, and grades that are no whole numbers or have no level."""
    import numpy as np

    from permatch._validation import MAX_SCORE

    if np.isnan(scores).any():
        raise NaNScoreError(
            f"y_pred must not contain NaN; got {int(np.isnan(scores).sum())} of them among "
            "the documents. Mark padding by its grade, or by mask."
        )
    if (np.abs(scores) > MAX_SCORE).any():
        raise InfiniteScoreError(
            f"y_pred must be at most {MAX_SCORE:g} in size; got {np.abs(scores).max()}. "
            "Mark padding by its grade, or by mask."
        )
    is_wrong = ~((grades >= 0) & (grades == np.floor(grades)) & (grades <= 1000))
    if is_wrong.any():
        raise GradeError(
            "y_true must hold whole numbers from 0 to 1000, or the padding value; got "
            f"{grades[is_wrong][0]}."
        )
    if n_levels and grades.max(initial=0) >= n_levels:
        raise GradeError(
            f"levels must have one number per grade; got {n_levels} levels and the grade "
            f"{int(grades.max())}."
        )


@whole_lists_op.register_fake
def _whole_lists_fake(scores: Tensor, grades: Tensor, *options: Any) -> Three:
    used = scores.new_empty(scores.shape[:1], dtype=torch.bool)
    return scores.new_empty(scores.shape[:1]), torch.empty_like(scores), used


@whole_lists_op.register_vmap
def _whole_lists_vmap(
    info: Any,
    in_dims: tuple[int | None, ...],
    scores: Tensor,
    grades: Tensor,
    *options: Any,
) -> Any:
    size = info.batch_size
    given = [
        t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)
        for t, dim in zip((scores, grades), in_dims, strict=False)
    ]
    found = whole_lists_op(*(t.reshape(-1, t.shape[-1]) for t in given), *options)
    return tuple(t.reshape(size, -1, *t.shape[1:]) for t in found), (0, 0, 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    _, slopes, is_used = output
    ctx.mark_non_differentiable(is_used)
    ctx.save_for_backward(slopes)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, *grads: Tensor | None) -> Any:
    slope, curved, _ = grads
    if curved is not None:
        raise _second_derivative()
    (slopes,) = ctx.saved_tensors
    grad = None if slope is None else slope[:, None] * slopes
    return grad, None, None, None, None


def _second_derivative() -> DerivativeError:
    return DerivativeError(
        "RankMatchLoss has first derivatives only, and those in reverse mode; a second one "
        "or forward mode was asked for, as by torch.func.hessian or jvp. Use "
        "torch.func.grad or backward(), and detach the gradient before differentiating "
        "again."
    )


whole_lists_op.register_autograd(_backward, setup_context=_keep)


class _WholeLists(torch.autograd.Function):
    """The same for `torch.func`, which does not see the rules of operators."""

    generate_vmap_rule = True
    setup_context = staticmethod(_keep)
    backward = staticmethod(_backward)

    @staticmethod
    def forward(*given: Any) -> Three:
        return whole_lists_op(*given)

    @staticmethod
    def jvp(ctx: Any, *direction: Tensor | None) -> Any:
        raise _second_derivative()


def whole_lists(
    scores: Tensor, grades: Tensor, levels: str, values: Sequence[float], form: str
) -> Three:
    """Return the losses of lists, differentiable; their slopes; which ones count."""
    run = whole_lists_op if torch.compiler.is_compiling() else _WholeLists.apply
    return run(scores, grades, levels, values, form)
