"""Batches of problems as PyTorch tensors on a CUDA device."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from permatch._progress import PATIENCE, progress_bar
from permatch.cuda.driver import Pointer, require_device
from permatch.cuda.sums import (
    GLYNN_FROM,
    GLYNN_MAX,
    QUICK_SWEEPS,
    SWEEPS,
    Batch,
    Sums,
    scale,
    sum_signs,
    sum_small,
    sum_subsets,
)
from permatch.errors import InfeasibleGraphError, SizeLimitError

Tensor = torch.Tensor
#: Log-partitions (b,), marginals (b, n, k), and of staying unmatched (b, n) and (b, k).
Answer = tuple[Tensor, Tensor, Tensor, Tensor]

# Largest deviation of a row of marginals from one with which signed sums are accepted: for
# squares that positive sums take over easily, and for larger ones.
_SMALL_TOL, _LARGE_TOL, _LARGE = 1e-10, 1e-8, 25
# Up to here squares are taken for perfect ones until the kernel says that they are not.
_GUESSED = 27
# Of a term of Glynn's formula, per node.
_SECONDS_PER_TERM = 3e-13
# Bytes taken at a time: one allocation for most calls, before the first launch.
_ARENA = 8 << 20


def infer(
    scores: Tensor,
    unmatched_left: Tensor | None = None,
    unmatched_right: Tensor | None = None,
) -> Answer:
    """Return log-partitions, marginals and the probabilities of staying unmatched.

    Takes scores (b, n, k) and the scores of staying unmatched (b, n) and (b, k), ``-inf``
    where a node must be matched, all float64 on one CUDA device; without them all nodes of
    squares must be.  Exact: by positive sums over sets of columns, or by Glynn's formula
    for perfect squares from 9 nodes, whose residual is checked.
    """
    problem = _Problem.of(scores, unmatched_left, unmatched_right)
    if not scores.numel():
        return _without_edges(*problem.filled())
    return problem.turned(problem.solved(None))


def tangents(
    scores: Tensor,
    unmatched_left: Tensor,
    unmatched_right: Tensor,
    d_scores: Tensor,
    d_left: Tensor,
    d_right: Tensor,
) -> Answer:
    """Return the derivatives of what `infer` returns along a direction of the scores."""
    if not scores.shape[0] or not min(scores.shape[1:]):
        held = (
            torch.where(u > -math.inf, d, 0.0).sum(-1)
            for u, d in ((unmatched_left, d_left), (unmatched_right, d_right))
        )
        total = sum(held, scores.new_zeros(scores.shape[0]))
        ends = torch.zeros_like(unmatched_left), torch.zeros_like(unmatched_right)
        return total, torch.zeros_like(scores), *ends
    problem = _Problem.of(scores, unmatched_left, unmatched_right)
    direction = _Problem.of(d_scores, d_left, d_right)
    return problem.turned(problem.solved(direction))


def _without_edges(scores: Tensor, left: Tensor, right: Tensor) -> Answer:
    total = left.sum(-1) + right.sum(-1)
    if not bool((total > -math.inf).all()):
        raise _infeasible(total > -math.inf)
    ones = torch.ones_like(left), torch.ones_like(right)
    return total, torch.zeros_like(scores), *ones


class _Problem(NamedTuple):
    """A batch whose columns are its smaller side; None: all nodes must be matched."""

    scores: Tensor
    left: Tensor | None
    right: Tensor | None
    shape: tuple[int, int, int]
    is_turned: bool = False

    @classmethod
    def of(cls, scores: Tensor, left: Tensor | None, right: Tensor | None) -> _Problem:
        n_graphs, n, k = scores.shape
        if left is None or right is None:
            return cls(scores, None, None, (n_graphs, n, k))
        left, right = left.contiguous(), right.contiguous()
        if k > n:
            return cls(scores.mT, right, left, (n_graphs, k, n), is_turned=True)
        return cls(scores, left, right, (n_graphs, n, k))

    def take(self, chosen: Tensor) -> _Problem:
        """Return some of the graphs."""
        scores = self.scores[chosen]
        left, right = (
            None if own is None else own[chosen] for own in (self.left, self.right)
        )
        shape = len(scores), *self.shape[1:]
        return _Problem(scores, left, right, shape, self.is_turned)

    def filled(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores and those of staying unmatched."""
        if self.left is None or self.right is None:
            must = self.scores.new_full(self.scores.shape[:2], -math.inf)
            return self.scores, must, must
        return self.scores, self.left, self.right

    def turned(self, answer: Answer) -> Answer:
        """Return an answer with the sides as they were given."""
        if not self.is_turned:
            return answer
        total, marginals, left, right = answer
        return total, marginals.mT.contiguous(), right, left

    def solved(self, direction: _Problem | None) -> Answer:
        """Return the answer, or its derivative along a direction, sides turned."""
        _, n, k = self.shape
        is_guess = n == k <= _GUESSED
        if is_guess or (n == k and self._is_perfect()):
            answer, residuals = self._solved_squares(direction)
            if self._are_good(residuals):
                return answer
            if not is_guess or self._is_perfect():
                return self._mended(answer, residuals, direction)
        sweeps = QUICK_SWEEPS if direction is None else SWEEPS
        answer, residuals = self._summed(sum_subsets, direction, False, sweeps)
        if self._are_good(residuals):
            return answer
        return self._mended(answer, residuals, direction)

    def _solved_squares(self, direction: _Problem | None) -> tuple[Answer, Tensor]:
        """Solve squares all of whose nodes must be matched."""
        k = self.shape[2]
        if k < GLYNN_FROM:
            if direction is None:
                return self._summed_small()
            return self._summed(sum_subsets, direction, True, SWEEPS)
        if k > GLYNN_MAX:
            raise SizeLimitError(
                f"exact sums on the GPU need graphs of at most {GLYNN_MAX} nodes per side; "
                f"got {k}. Use permatch.infer with engine='auto', which estimates."
            )
        return self._summed(sum_signs, direction, True, SWEEPS)

    @property
    def _tol(self) -> float:
        return _SMALL_TOL if self.shape[2] < _LARGE else _LARGE_TOL

    def _are_good(self, residuals: Tensor) -> bool:
        worst = residuals if len(residuals) == 1 else residuals.max()
        if self.left is None or self.right is None:
            worst = worst.item()
        else:  # kernels take NaN for a node that must be matched; maxima keep it
            ends = self.left.max(), self.right.max()
            worst, *most = torch.stack([worst.reshape(()), *ends]).tolist()
            if any(map(math.isnan, most)):
                self._check_values()
        if _SMALL_TOL < worst <= self._tol:
            warnings.warn(
                f"digits were lost on a graph of {self.shape[2]} nodes: its probabilities "
                f"are off by about {worst:.1g}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return worst <= self._tol

    def _is_perfect(self) -> bool:
        if self.left is None or self.right is None:
            return True
        is_free = (self.left != -math.inf).any() | (self.right != -math.inf).any()
        return not bool(is_free)  # NaN is for others to refuse

    def _check_values(self) -> None:
        """Refuse NaN and scores that are too large, sides named as they were given."""
        from permatch.nn._values import check_values

        scores, left, right = self.filled()
        if self.is_turned:
            scores, left, right = scores.mT, right, left
        check_values(scores, left, right)

    def _mended(
        self, answer: Answer, residuals: Tensor, direction: _Problem | None
    ) -> Answer:
        """Solve graphs again by positive sums, and what these lose on the processor."""
        is_poor = ~(residuals <= self._tol)
        if self._is_within_memory():
            poor = self.take(is_poor)
            along = None if direction is None else direction.take(is_poor)
            again, doubts = poor._summed(sum_subsets, along, False, SWEEPS)
            _put(answer, is_poor, again)
            is_poor = is_poor.clone()
            is_poor[is_poor.clone()] = doubts != 0.0
        if is_poor.any():
            along = None if direction is None else direction.take(is_poor)
            _put(answer, is_poor, self.take(is_poor)._solved_on_processor(along))
        return answer

    def _solved_on_processor(self, direction: _Problem | None) -> Answer:
        """Solve graphs that are too peaked for sums in floats that are scaled quickly.

        There the scaling is that of the best matching.  What has no matching, or is no
        number, is refused there too.
        """
        from permatch.nn._engines import infer, tangents

        self._check_values()
        given = self.filled()
        arrays = [tensor.detach().cpu().contiguous().numpy() for tensor in given]
        n_jobs = torch.get_num_threads()
        try:
            found = infer(*arrays, n_jobs=n_jobs)
        except SizeLimitError as err:
            n, k = self.shape[:0:-1] if self.is_turned else self.shape[1:]
            raise SizeLimitError(
                f"sums over graphs of {n} x {k} nodes on the GPU lost too many digits, as "
                "they do where single matchings outweigh all others by far, and the exact "
                "engines of the CPU, which take over then, take none of this size. "
                "Forbid edges that hardly matter, scale the scores down, or use "
                "permatch.infer, which approximates."
            ) from err
        if direction is not None:
            along = [
                torch.where(z > -math.inf, v, 0.0).cpu().contiguous().numpy()
                for z, v in zip(given, direction.filled(), strict=True)
            ]
            parts = zip(found[1:], along, strict=True)
            slope = sum((p * v).reshape(len(p), -1).sum(axis=1) for p, v in parts)
            found = slope, *tangents(*arrays, *along, n_jobs=n_jobs)
        total, marginals, left, right = (
            torch.as_tensor(each, dtype=torch.float64).to(self.scores.device)
            for each in found
        )
        return total, marginals, left, right

    def _summed_small(self) -> tuple[Answer, Tensor]:
        """Return an answer for small squares and its residuals (b,)."""
        n_graphs, _, k = self.shape
        with _on(self.scores.device) as stream:
            answer, residuals = self._unanswered()
            out = _sums_in(answer, residuals, 0)
            sum_small(require_device(), *self._pointers, n_graphs, k, out, stream=stream)
        return answer, residuals

    def _summed(
        self,
        sum_up: Callable[..., None],
        direction: _Problem | None,
        is_perfect: bool,
        n_sweeps: int,
    ) -> tuple[Answer, Tensor]:
        """Return an answer and its residuals (b,)."""
        n_graphs, n, k = self.shape
        found: list[tuple[Answer, Tensor]] = []

        def prepare() -> Sums:
            found.append(self._unanswered())
            return _sums_in(*found[0], offsets)

        with _on(self.scores.device) as stream:
            device, room = require_device(), _Room(self.scores.device)
            sizes = (n_graphs * n * k, n_graphs * n, n_graphs * k, n_graphs)
            weights, left, right, offsets = room.divided(sizes)
            batch = Batch(n_graphs, n, k, weights, left, right, is_perfect)
            scale(device, *self._pointers, batch, offsets, n_sweeps=n_sweeps, stream=stream)
            if direction is not None:
                d_scores, d_left, d_right = direction.filled()
                d_scores = d_scores.contiguous()
                batch = batch._replace(
                    d_scores=d_scores.data_ptr(),
                    d_left=d_left.data_ptr(),
                    d_right=d_right.data_ptr(),
                )
            more: dict[str, Any] = {}
            if sum_up is sum_subsets:
                more["find_free"] = self._free_bytes
            with _shown(self.shape, sum_up is sum_signs) as show:
                sum_up(device, batch, prepare, room, stream, show, **more)
        return found[0]

    @property
    def _pointers(self) -> tuple[Pointer, tuple[int, int, int], tuple[Pointer, Pointer]]:
        """Where the scores lie, their strides, and the scores of staying unmatched."""
        scores, left, right = self.scores, self.left, self.right
        ends = 0, 0
        if left is not None and right is not None:
            ends = left.data_ptr(), right.data_ptr()
        graph, row, column = scores.stride()
        return scores.data_ptr(), (graph, row, column), ends

    def _unanswered(self) -> tuple[Answer, Tensor]:
        """Return room for an answer and its residuals (b,)."""
        (n_graphs, n, k), new = self.shape, self.scores.new_empty
        tables = new((n_graphs, n, k)), new((n_graphs, n)), new((n_graphs, k))
        return (new(n_graphs), *tables), new(n_graphs)

    def _free_bytes(self) -> int:
        """Return the memory that can be had, what PyTorch keeps in reserve included."""
        where = self.scores.device
        kept = torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
        return torch.cuda.mem_get_info(where)[0] + kept

    def _is_within_memory(self) -> bool:
        """Return whether positive sums can take over."""
        _, n, k = self.shape
        return (n + 3) * 16.0 * 2.0**k <= self._free_bytes() / 2


def _on(device: torch.device) -> AbstractContextManager[int]:
    """Make a device the current one; give its current stream."""
    number = torch.cuda.current_device()
    if device.index == number:
        return nullcontext(torch._C._cuda_getCurrentRawStream(number))
    return _on_another(device)


@contextmanager
def _on_another(device: torch.device) -> Iterator[int]:
    with torch.cuda.device(device):
        yield torch.cuda.current_stream().cuda_stream


def _shown(
    shape: tuple[int, int, int], is_signed: bool
) -> AbstractContextManager[Callable[[float], None] | None]:
    """Give what shows the share that is done, for long sums, to a person at a terminal."""
    n_graphs, _, k = shape
    seconds = n_graphs * k * 2.0**k * _SECONDS_PER_TERM if is_signed else 0.0
    return nullcontext() if seconds < PATIENCE else _long_shown(n_graphs, k, seconds)


@contextmanager
def _long_shown(
    n_graphs: int, k: int, seconds: float
) -> Iterator[Callable[[float], None] | None]:
    with progress_bar(f"{n_graphs:,} graphs of {k} nodes", 100, seconds, None) as bar:
        yield None if bar is None else lambda share: bar(int(100 * share))


def _sums_in(answer: Answer, residuals: Tensor, offsets: Pointer) -> Sums:
    """Return where kernels are to put an answer."""
    total, marginals, *alone = (each.data_ptr() for each in answer)
    return Sums(total, residuals.data_ptr(), offsets, marginals, *alone)


def _put(answer: Answer, chosen: Tensor, part: Answer) -> None:
    """Put an answer for some of the graphs in its place."""
    for whole, own in zip(answer, part, strict=True):
        whole[chosen] = own


def _infeasible(is_possible: Tensor) -> InfeasibleGraphError:
    return InfeasibleGraphError(
        "every graph needs a matching of allowed edges that includes all nodes that must "
        f"be matched; {int((~is_possible).sum())} of {len(is_possible)} graphs have none. "
        "Allow more edges, or give unmatched scores."
    )


class _Room:
    """Allocates bytes that live as long as it does."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[Tensor] = []
        self._next = self._end = 0

    def __call__(self, n_bytes: int) -> Pointer:
        if self._next + n_bytes > self._end:
            size = max(n_bytes, _ARENA)
            room = torch.empty(size, dtype=torch.uint8, device=self._device)
            self._held.append(room)
            self._next, self._end = room.data_ptr(), room.data_ptr() + size
        place = self._next
        self._next += -(-n_bytes // 256) * 256
        return place

    def divided(self, sizes: tuple[int, ...]) -> list[Pointer]:
        """Return places for so many float64 values each."""
        place = self(8 * sum(sizes))
        return [place + 8 * sum(sizes[:at]) for at in range(len(sizes))]
