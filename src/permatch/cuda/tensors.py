"""Batches of problems as PyTorch tensors on a CUDA device."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from permatch.cuda.driver import Device, Pointer, require_device
from permatch.cuda.sums import (
    GLYNN_FROM,
    GLYNN_MAX,
    QUICK_SWEEPS,
    SWEEPS,
    Batch,
    Sums,
    scale,
    sum_signs,
    sum_subsets,
)
from permatch.errors import InfeasibleGraphError, PrecisionError, SizeLimitError

Tensor = torch.Tensor
#: Log-partitions (b,), marginals (b, n, k), and of staying unmatched (b, n) and (b, k).
Answer = tuple[Tensor, Tensor, Tensor, Tensor]

#: Largest deviation of a row of marginals from one with which signed sums are accepted.
RESIDUAL_TOL = 1e-8
# A sum below this may have lost what underflows.
_TINY = 1e-200


def infer(scores: Tensor, unmatched_left: Tensor, unmatched_right: Tensor) -> Answer:
    """Return log-partitions, marginals and the probabilities of staying unmatched.

    Takes scores (b, n, k) and the scores of staying unmatched (b, n) and (b, k), ``-inf``
    where a node must be matched, all float64 on one CUDA device.  Exact: by positive sums
    over sets of columns, or by Glynn's formula for perfect squares from 9 nodes, whose
    residual is checked.
    """
    problem = _Problem.of(scores, unmatched_left, unmatched_right)
    if not problem.n_graphs or not problem.k:
        return problem.without_edges()
    with torch.cuda.device(scores.device):
        return problem.turned(*problem.solved())


def tangents(
    scores: Tensor,
    unmatched_left: Tensor,
    unmatched_right: Tensor,
    d_scores: Tensor,
    d_left: Tensor,
    d_right: Tensor,
) -> Answer:
    """Return the derivatives of what `infer` returns along a direction of the scores."""
    problem = _Problem.of(scores, unmatched_left, unmatched_right)
    if not problem.n_graphs or not problem.k:
        held = [torch.where(u.isfinite(), d, 0.0) for u, d in
                ((unmatched_left, d_left), (unmatched_right, d_right))]  # fmt: skip
        total = held[0].sum(-1) + held[1].sum(-1)
        zeros = torch.zeros_like
        return total, zeros(scores), zeros(unmatched_left), zeros(unmatched_right)
    direction = _Problem.of(d_scores, d_left, d_right, is_turned=problem.is_turned)
    with torch.cuda.device(scores.device):
        return problem.turned(*problem.moved(direction))


@dataclass(frozen=True, eq=False)
class _Problem:
    """A batch whose columns are its smaller side."""

    scores: Tensor
    left: Tensor
    right: Tensor
    is_turned: bool
    is_perfect: bool  # squares whose nodes are all matched

    @classmethod
    def of(
        cls, scores: Tensor, left: Tensor, right: Tensor, *, is_turned: bool | None = None
    ) -> "_Problem":
        if is_turned is None:
            is_turned = scores.shape[2] > scores.shape[1]
        is_perfect = scores.shape[1] == scores.shape[2] and not bool(
            (left > -math.inf).any() | (right > -math.inf).any()
        )
        ends = left.contiguous(), right.contiguous()
        if is_turned:
            return cls(scores.mT, ends[1], ends[0], is_turned, is_perfect)
        return cls(scores, *ends, is_turned, is_perfect)

    @property
    def n_graphs(self) -> int:
        return self.scores.shape[0]

    @property
    def n(self) -> int:
        return self.scores.shape[1]

    @property
    def k(self) -> int:
        return self.scores.shape[2]

    def take(self, chosen: Tensor) -> "_Problem":
        """Return some of the graphs."""
        return replace(
            self,
            scores=self.scores[chosen],
            left=self.left[chosen],
            right=self.right[chosen],
        )

    def turned(
        self, total: Tensor, marginals: Tensor, left: Tensor, right: Tensor
    ) -> Answer:
        """Return an answer with the sides as they were given."""
        if self.is_turned:
            return total, marginals.mT.contiguous(), right, left
        return total, marginals, left, right

    def without_edges(self) -> Answer:
        total = self.left.sum(-1) + self.right.sum(-1)
        self._check(total.isfinite())
        ones = torch.ones_like(self.left), torch.ones_like(self.right)
        return self.turned(total, torch.zeros_like(self.scores), *ones)

    def solved(self) -> Answer:
        """Return the answer, sides turned."""
        if self._is_glynn():
            return self._solved_by_signs()
        answer, sums = self._solved_by_subsets(QUICK_SWEEPS)
        is_small = ~(sums > _TINY)
        if is_small.any():
            again, sums = self.take(is_small)._solved_by_subsets(SWEEPS)
            for whole, part in zip(answer, again, strict=True):
                whole[is_small] = part
            self._check(sums > 0.0)
        return answer

    def moved(self, direction: "_Problem") -> Answer:
        """Return the derivative of the answer along a direction, sides turned."""
        if not self._is_glynn():
            return self._moved(direction, sum_subsets)[0]
        answer, residuals = self._moved(direction, sum_signs)
        is_poor = ~(residuals <= RESIDUAL_TOL)
        if is_poor.any():
            self._check_fallback(residuals)
            again, _ = self.take(is_poor)._moved(direction.take(is_poor), sum_subsets)
            for whole, part in zip(answer, again, strict=True):
                whole[is_poor] = part
        return answer

    def _moved(
        self, direction: "_Problem", sum_up: Callable[..., None]
    ) -> tuple[Answer, Tensor]:
        scaled = self._scaled(SWEEPS)
        steps = [
            each.contiguous()
            for each in (direction.scores, direction.left, direction.right)
        ]
        names = "d_scores", "d_left", "d_right"
        pointers = {name: step.data_ptr() for name, step in zip(names, steps, strict=True)}
        answer, out, residuals = self._empty()
        sum_up(
            scaled.device,
            replace(scaled.batch, **pointers),
            out,
            _Room(self.scores.device),
            _stream(),
        )
        return answer, residuals

    def _is_glynn(self) -> bool:
        if not self.is_perfect or self.k < GLYNN_FROM:
            return False
        if self.k > GLYNN_MAX:
            raise SizeLimitError(
                f"exact sums on the GPU need graphs of at most {GLYNN_MAX} nodes per side; "
                f"got {self.k}. Use permatch.infer with engine='auto', which estimates."
            )
        return True

    def _solved_by_signs(self) -> Answer:
        scaled = self._scaled(SWEEPS)
        answer, out, residuals = self._empty()
        sum_signs(scaled.device, scaled.batch, out, _Room(self.scores.device), _stream())
        is_poor = ~(residuals <= RESIDUAL_TOL)
        answer[0].log_().add_(scaled.offsets - (self.k - 1) * math.log(2.0))
        if is_poor.any():
            self._check_fallback(residuals)
            again, sums = self.take(is_poor)._solved_by_subsets(SWEEPS)
            self._check(sums > 0.0)
            for whole, part in zip(answer, again, strict=True):
                whole[is_poor] = part
        return answer

    def _solved_by_subsets(self, n_sweeps: int) -> tuple[Answer, Tensor]:
        scaled = self._scaled(n_sweeps)
        answer, out, _ = self._empty()
        sum_subsets(scaled.device, scaled.batch, out, _Room(self.scores.device), _stream())
        sums = answer[0].clone()
        answer[0].log_().add_(scaled.offsets)
        return answer, sums

    def _scaled(self, n_sweeps: int) -> "_Scaled":
        device, scores = require_device(), self.scores
        weights = torch.empty(scores.shape, dtype=torch.float64, device=scores.device)
        left, right = torch.empty_like(self.left), torch.empty_like(self.right)
        offsets = left.new_empty(self.n_graphs)
        pointers = weights.data_ptr(), left.data_ptr(), right.data_ptr()
        batch = Batch(self.n_graphs, self.n, self.k, *pointers, self.is_perfect)
        scale(
            device,
            scores.data_ptr(),
            (scores.stride(0), scores.stride(1), scores.stride(2)),
            (self.left.data_ptr(), self.right.data_ptr()),
            batch,
            offsets.data_ptr(),
            n_sweeps=n_sweeps,
            stream=_stream(),
        )
        return _Scaled(device, batch, offsets, (weights, left, right))

    def _empty(self) -> tuple[Answer, Sums, Tensor]:
        """Return tensors for an answer, where they lie, and one for residuals."""
        shape = self.scores.shape
        answer = (
            self.left.new_empty(self.n_graphs),
            self.left.new_empty(shape),
            torch.zeros_like(self.left),
            torch.zeros_like(self.right),
        )
        residuals = torch.zeros_like(answer[0])
        return answer, Sums(*(each.data_ptr() for each in (*answer, residuals))), residuals

    def _check(self, is_possible: Tensor) -> None:
        if not is_possible.all():
            raise InfeasibleGraphError(
                "every graph needs a matching of allowed edges that includes all nodes "
                f"that must be matched; {int((~is_possible).sum())} of {len(is_possible)} "
                "graphs have none. Allow more edges, or give unmatched scores."
            )

    def _check_fallback(self, residuals: Tensor) -> None:
        """Refuse sizes that positive sums cannot take over."""
        need = (self.n + 3) * 16.0 * 2.0**self.k
        if need > require_device().free_bytes / 2:
            raise PrecisionError(
                f"signed sums need a residual of at most {RESIDUAL_TOL:g}; got "
                f"{float(residuals.nan_to_num(math.inf).max()):.2g} at size {self.k}, "
                "where positive sums would need too much memory. Fix known edges to make "
                "the graph smaller, or check that a perfect matching exists."
            )


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Scaled weights; holds the tensors they lie in."""

    device: Device
    batch: Batch
    offsets: Tensor
    tensors: tuple[Tensor, ...]


class _Room:
    """Allocates bytes that live as long as it does."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[Tensor] = []

    def __call__(self, n_bytes: int) -> Pointer:
        room = torch.empty(max(n_bytes, 8), dtype=torch.uint8, device=self._device)
        self._held.append(room)
        return room.data_ptr()


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream
