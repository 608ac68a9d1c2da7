"""The seam as operators of PyTorch: batches of graphs in, sums over matchings out.

    infer     scores (b, n, k), unmatched_left (b, n), unmatched_right (b, k), float64
              -> log_partition (b,), marginals (b, n, k), left (b, n), right (b, k)
    tangents  the same and a direction of the same three shapes
              -> the derivatives of the three tables of probabilities along it

With z = (scores, unmatched_left, unmatched_right) and y the indicators of what a matching
uses, the marginals are ``p = grad log_partition(z) = E y`` and the derivative of p along v
is ``Cov(y) v``.  A covariance is symmetric, so `tangents` is also the backward of the
marginals, and its own backward with respect to v.  What is left out are derivatives of
`tangents` with respect to z: the third of the log-partition.

``-inf`` forbids an edge, or makes a node one that must be matched; probabilities and
derivatives are 0 there.  The operators of CPU tensors call the engines of
`permatch.inference`, those of CUDA tensors call `permatch.cuda`; both load on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from permatch.errors import DerivativeError, InvalidMatchingError
from permatch.nn._batch import must_be_matched
from permatch.nn._values import check_values

Four = tuple[Tensor, Tensor, Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]

_PROBLEM = "Tensor scores, Tensor unmatched_left, Tensor unmatched_right"
_DIRECTION = "Tensor d_scores, Tensor d_left, Tensor d_right"


# ---- forward


@torch.library.custom_op(
    "permatch::infer",
    mutates_args=(),
    device_types="cpu",
    schema=f"({_PROBLEM}) -> (Tensor, Tensor, Tensor, Tensor)",
)
def infer_op(scores: Tensor, unmatched_left: Tensor, unmatched_right: Tensor) -> Four:
    """Return log-partitions and marginals of a batch on the CPU."""
    from permatch.nn._engines import infer

    check_values(scores, unmatched_left, unmatched_right)
    arrays = _as_arrays(scores, unmatched_left, unmatched_right)
    found = infer(*arrays, n_jobs=torch.get_num_threads())
    log_partition, marginals, left, right = map(torch.from_numpy, found)
    return log_partition, marginals, left, right


@infer_op.register_kernel("cuda")
def _infer_cuda(scores: Tensor, unmatched_left: Tensor, unmatched_right: Tensor) -> Four:
    from permatch.nn._cuda import infer

    # It looks at values only where sums fail: looking takes as long as small graphs.
    return infer(*_contiguous(scores, unmatched_left, unmatched_right))


@torch.library.custom_op(
    "permatch::tangents",
    mutates_args=(),
    device_types="cpu",
    schema=f"({_PROBLEM}, {_DIRECTION}) -> (Tensor, Tensor, Tensor)",
)
def tangents_op(
    scores: Tensor,
    unmatched_left: Tensor,
    unmatched_right: Tensor,
    d_scores: Tensor,
    d_left: Tensor,
    d_right: Tensor,
) -> Three:
    """Return the derivatives of the probabilities along a direction, on the CPU."""
    from permatch.nn._engines import tangents

    given = scores, unmatched_left, unmatched_right, d_scores, d_left, d_right
    found = tangents(*_as_arrays(*given), n_jobs=torch.get_num_threads())
    edges, left, right = map(torch.from_numpy, found)
    return edges, left, right


@tangents_op.register_kernel("cuda")
def _tangents_cuda(*given: Tensor) -> Three:
    from permatch.nn._cuda import tangents

    return tangents(*_contiguous(*given))[1:]


def _contiguous(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.contiguous() for tensor in tensors)


def _as_arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


# ---- shapes without values


@infer_op.register_fake
def _infer_fake(scores: Tensor, unmatched_left: Tensor, unmatched_right: Tensor) -> Four:
    return scores.new_empty(scores.shape[:1]), *_tables_like(scores)


@tangents_op.register_fake
def _tangents_fake(scores: Tensor, *rest: Tensor) -> Three:
    return _tables_like(scores)


def _tables_like(scores: Tensor) -> Three:
    b, n, k = scores.shape
    return scores.new_empty(b, n, k), scores.new_empty(b, n), scores.new_empty(b, k)


# ---- derivatives


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Four) -> None:
    # Probabilities are kept as outputs: the gradient made of them has a gradient again.
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.save_for_forward(*inputs, *output[1:])
    ctx.set_materialize_grads(False)


def _infer_backward(ctx: Any, slope: Tensor | None, *direction: Tensor | None) -> Any:
    saved = ctx.saved_tensors
    problem, probabilities = saved[:3], saved[3:]
    grads: list[Tensor | None] = [None, None, None]
    if slope is not None:
        grads = [
            slope.reshape(-1, *[1] * (p.ndim - 1)) * p if is_needed else None
            for p, is_needed in zip(probabilities, ctx.needs_input_grad, strict=True)
        ]
    if any(part is not None for part in direction):
        curved = tangents(*problem, *_without_certain(probabilities, direction))
        grads = [
            (part if grad is None else grad + part) if is_needed else None
            for grad, part, is_needed in zip(
                grads, curved, ctx.needs_input_grad, strict=True
            )
        ]
    return tuple(grads)


def _without_certain(
    probabilities: Sequence[Tensor], direction: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return a direction that is 0 at probability 0, and nowhere infinite at 1.

    What is certain has no covariance with anything, and entropies have infinite slopes
    there: at forbidden edges, and at allowed ones that no matching needs or that underflow.
    """
    return [
        torch.zeros_like(p)
        if v is None
        else torch.where((p != 0.0) & ((p != 1.0) | v.isfinite()), v, 0.0)
        for p, v in zip(probabilities, direction, strict=True)
    ]


def _without_forbidden(
    problem: Sequence[Tensor], direction: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return a direction that is 0 at forbidden edges, whatever was asked of them.

    It may be infinite there, as the slope of a log of a weight is at 0.
    """
    return [
        torch.zeros_like(z) if v is None else torch.where(z > -torch.inf, v, 0.0)
        for z, v in zip(problem, direction, strict=True)
    ]


def _keep_problem(ctx: Any, inputs: tuple[Tensor, ...], output: Three) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.save_for_forward(*inputs[:3])
    ctx.set_materialize_grads(False)


def _op_backward(ctx: Any, *direction: Tensor | None) -> Any:
    if any(ctx.needs_input_grad[:3]):
        raise _third_derivative()
    return _tangents_backward(ctx, *direction)


def _tangents_backward(ctx: Any, *direction: Tensor | None) -> Any:
    problem = ctx.saved_tensors
    grads = tangents(*problem, *_without_forbidden(problem, direction))
    return None, None, None, *grads


def _third_derivative() -> DerivativeError:
    return DerivativeError(
        "permatch.nn has derivatives of log-partitions up to the second and of "
        "probabilities up to the first, forward over reverse or reverse over reverse; "
        "another one was asked for, as by the gradient of a Hessian or by jacfwd of "
        "jacfwd. Detach the scores, or the gradient, before differentiating again, or use "
        "torch.func.hessian."
    )


infer_op.register_autograd(_infer_backward, setup_context=_keep)
tangents_op.register_autograd(_op_backward, setup_context=_keep_problem)


# The rules once more, as functions: those of operators are not seen by `torch.func`, and
# have no forward mode.


class _Infer(torch.autograd.Function):
    generate_vmap_rule = True
    setup_context = staticmethod(_keep)
    backward = staticmethod(_infer_backward)

    @staticmethod
    def forward(*problem: Tensor) -> Four:
        return infer_op(*problem)

    @staticmethod
    def jvp(ctx: Any, *direction: Tensor | None) -> Four:
        saved = ctx.saved_tensors
        problem, probabilities = saved[:3], saved[3:]
        along = _without_forbidden(problem, direction)
        # `flatten` does not come back from a mapped dimension here; sums over several do.
        edges, left, right = (
            (p * v).sum(dim=tuple(range(1, p.ndim)))
            for p, v in zip(probabilities, along, strict=True)
        )
        return edges + left + right, *tangents(*problem, *along)


class _Constant(torch.autograd.Function):
    """The problem as it is, which refuses to be differentiated by.

    `backward` of `_Tangents` cannot tell which gradients are asked for: Hessian-vector
    products of `torch.autograd.functional` differentiate it by the direction only.  This
    one is called when the gradient by the problem is.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*problem: Tensor) -> Three:
        one, two, three = (z.view_as(z) for z in problem)
        return one, two, three

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Three) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise _third_derivative()

    @staticmethod
    def jvp(ctx: Any, *grads: Tensor) -> Any:
        raise _third_derivative()


class _Tangents(torch.autograd.Function):
    generate_vmap_rule = True
    setup_context = staticmethod(_keep_problem)
    backward = staticmethod(_tangents_backward)

    @staticmethod
    def forward(*given: Tensor) -> Three:
        return tangents_op(*given)

    @staticmethod
    def jvp(ctx: Any, *direction: Tensor | None) -> Three:
        problem = ctx.saved_tensors
        return tangents(*problem, *_without_forbidden(problem, direction[3:]))


def infer(scores: Tensor, left: Tensor | None, right: Tensor | None) -> Four:
    """Return log-partitions (b,) and probabilities of a batch, differentiable.

    `left` and `right` are the scores of staying unmatched; None: squares all of whose
    nodes must be matched.
    """
    is_compiled = torch.compiler.is_compiling()
    is_for_values = not is_compiled and torch.is_inference_mode_enabled()
    if is_for_values and torch._C._are_functorch_transforms_active():
        is_for_values = False
    if is_for_values and scores.is_cuda:
        from permatch.nn._cuda import infer

        # Operators take longer to call than small graphs to solve.
        return infer(scores, left, right)
    if left is None or right is None:
        left = right = must_be_matched(scores)
    run = infer_op if is_compiled or is_for_values else _Infer.apply
    return run(scores, left, right)


def tangents(*given: Tensor) -> Three:
    """Return the derivatives of probabilities along a direction, differentiable by it."""
    if torch.compiler.is_compiling():
        return tangents_op(*given)
    return _Tangents.apply(*_Constant.apply(*given[:3]), *given[3:])


# ---- matchings


@torch.library.custom_op(
    "permatch::count_partners",
    mutates_args=(),
    schema="(Tensor matching, SymInt n_right) -> Tensor",
)
def count_partners(matching: Tensor, n_right: int) -> Tensor:
    """Return the number of partners (b, k) of right nodes; refuse what is no matching."""
    if not matching.numel():
        return matching.new_zeros((matching.shape[0], n_right))
    if matching.shape[1] == n_right:  # mostly all nodes have partners: little to look at
        every = torch.arange(n_right, device=matching.device)
        if (matching.sort(dim=1).values == every).all():
            return torch.ones_like(matching)
    counts = matching.new_zeros((matching.shape[0], n_right + 1))
    # Unmatched nodes are counted in front.
    place = (matching + 1).clamp(0, n_right)
    counts = counts.scatter_add_(1, place, torch.ones_like(matching))[:, 1:].clone()
    most = counts.amax() if n_right else matching.new_zeros(())
    ends = torch.stack([*torch.aminmax(matching), most])
    least, last, most = ends.tolist()  # one look at a device
    if least < -1 or last >= n_right or most > 1:
        _refuse(matching, n_right, counts)
    return counts


def _refuse(matching: Tensor, n_right: int, counts: Tensor) -> None:
    """Say why some of the matchings are none."""
    is_wrong = (matching < -1) | (matching >= n_right)
    if is_wrong.any():
        g, i = torch.nonzero(is_wrong)[0].tolist()
        raise InvalidMatchingError(
            f"matching must hold right nodes from 0 to {n_right - 1}, or -1 for unmatched "
            f"nodes; got {matching[g, i].item()} at left node {i} of matching {g}."
        )
    g, j = torch.nonzero(counts > 1)[0].tolist()
    raise InvalidMatchingError(
        f"matching must give every right node at most one partner; got right node {j} "
        f"{int(counts[g, j])} times in matching {g}. Use -1 for unmatched nodes."
    )


@count_partners.register_fake
def _count_partners_fake(matching: Tensor, n_right: int) -> Tensor:
    return matching.new_empty((matching.shape[0], n_right))


# ---- vmap


def _folded(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule that takes a mapped dimension into the batch."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> Any:
        size = info.batch_size

        def whole(value: Any, dim: int | None) -> Any:
            if not isinstance(value, Tensor):
                return value
            value = (
                value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
            )
            return value.reshape(size * value.shape[1], *value.shape[2:])

        found = op(*map(whole, given, in_dims))
        if isinstance(found, Tensor):
            return _unfolded(found, size), 0
        return tuple(_unfolded(one, size) for one in found), (0,) * len(found)

    return rule


def _unfolded(value: Tensor, size: int) -> Tensor:
    return value.reshape(size, value.shape[0] // max(size, 1), *value.shape[1:])


for _op in (infer_op, tangents_op, count_partners):
    _op.register_vmap(_folded(_op))
