"""The sums of a batch of problems on the device: which kernels, in which pieces.

Everything is a pointer to float64 values, problem by problem: scores (b, n, k), scores of
staying unmatched (b, n) and (b, k).  The columns should be the smaller side.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from permatch.cuda.driver import Device, Int32, Kernel, Pointer, Record
from permatch.errors import SizeLimitError

#: Perfect squares from this size on are summed by Glynn's formula.
GLYNN_FROM = 9
#: The most columns whose sets lie in the fast memory of a block, and of a warp.
FEW_COLUMNS, FEWEST_COLUMNS = 10, 8
#: The largest square of Glynn's formula: about an hour.
GLYNN_MAX = 48
#: Sweeps of the first and of a second, thorough scaling for sums without cancellation.
QUICK_SWEEPS, SWEEPS = 1, 200
# How far a row may be off after scaling: signed sums lose digits only far from balance.
_SCALE_TOL = 0.02
# Rows whose signs a warp walks through at best, and blocks of one launch.
_SLOW, _BLOCKS = 10, 1 << 13
# Warps that keep a processor busy.
_WARPS_PER_PROCESSOR = 8
# Bytes that blocks leave behind at a time, and graphs of one launch.
_PARTIAL_BYTES, _GRAPHS = 256 << 20, 1 << 15
_RUNS = 32
_THREADS = 256
# Bytes of shared memory that kernels have besides what is asked for.
_STATIC_SHARED = 4096

Allocate = Callable[[int], Pointer]
#: Returns where answers go.  It is called as late as possible: what it allocates is
#: allocated while the device computes.
Prepare = Callable[[], "Sums"]


class Batch(NamedTuple):
    """Scaled weights of b problems, and directions of their scores (0: none)."""

    n_graphs: int
    n: int
    k: int
    weights: Pointer
    left: Pointer
    right: Pointer
    is_perfect: bool  # squares whose nodes are all matched
    d_scores: Pointer = 0
    d_left: Pointer = 0
    d_right: Pointer = 0

    @property
    def is_dual(self) -> bool:
        """Whether derivatives are asked for."""
        return bool(self.d_scores)

    @property
    def real_bytes(self) -> int:
        """Bytes of a number, with its derivative if there is one."""
        return 16 if self.is_dual else 8

    def some(self, first: int, last: int) -> "Batch":
        """Return some of the problems."""
        if last - first == self.n_graphs:
            return self

        def shifted(pointer: Pointer, n_each: int) -> Pointer:
            return pointer + 8 * first * n_each if pointer else 0

        n, k = self.n, self.k
        return self._replace(
            n_graphs=last - first,
            weights=shifted(self.weights, n * k),
            left=shifted(self.left, n),
            right=shifted(self.right, k),
            d_scores=shifted(self.d_scores, n * k),
            d_left=shifted(self.d_left, n),
            d_right=shifted(self.d_right, k),
        )


class Sums(NamedTuple):
    """Where the answers go: with directions, the derivatives of the answers.

    `totals` (b,) are sums over all matchings, with `offsets` their logarithms plus these,
    with directions the derivatives of their logarithms.  `residuals` (b,) tell how good the
    answers are: the largest deviation of a row or column from one by Glynn's formula, 0 for
    sums of positive numbers, infinite for answers that are none.
    """

    totals: Pointer
    residuals: Pointer
    offsets: Pointer
    marginals: Pointer
    left: Pointer = 0
    right: Pointer = 0

    @property
    def told(self) -> Record:
        """What kernels take together."""
        return Record(self.totals, self.residuals, self.offsets)

    def some(self, first: int, n: int, k: int) -> "Sums":
        """Return the answers from problem `first` on."""
        if not first:
            return self

        def shifted(pointer: Pointer, n_each: int) -> Pointer:
            return pointer + 8 * first * n_each if pointer else 0

        return Sums(
            shifted(self.totals, 1),
            shifted(self.residuals, 1),
            shifted(self.offsets, 1),
            shifted(self.marginals, n * k),
            shifted(self.left, n),
            shifted(self.right, k),
        )


def scale(
    device: Device,
    scores: Pointer,
    strides: tuple[int, int, int],
    unmatched: tuple[Pointer, Pointer],
    batch: Batch,
    offsets: Pointer,
    *,
    n_sweeps: int = SWEEPS,
    stream: int = 0,
) -> None:
    """Fill the weights of a batch, and the logarithms (b,) its sums were divided by.

    Scores of staying unmatched that are 0 pointers: all nodes must be matched.
    """
    n, k = batch.n, batch.k
    if (most := (device.max_shared - _STATIC_SHARED) // 8) < n + k:
        raise SizeLimitError(
            f"on this GPU graphs may have at most {most:,} nodes on both sides together; "
            f"got {n + k:,}. Use the processor."
        )
    if batch.n_graphs <= device.n_processors:  # quick for one; a warp per row or column
        width, n_threads = 32, min(1024, 32 * max(n, k))
    else:  # quick for many
        width, n_threads = 4, 32 if n * k <= 256 else 128
    device.kernel("scale", DUAL=0, KERNELS=1)(
        (batch.n_graphs, 1, 1), n_threads, scores, *strides, *unmatched, Int32(n), Int32(k),
        Int32(width), Int32(n_sweeps), _SCALE_TOL, batch.weights, batch.left, batch.right,
        offsets, shared=8 * (n + k), stream=stream,
    )  # fmt: skip


def sum_small(
    device: Device,
    scores: Pointer,
    strides: tuple[int, int, int],
    unmatched: tuple[Pointer, Pointer],
    n_graphs: int,
    size: int,
    out: Sums,
    stream: int = 0,
) -> None:
    """Sum small squares whose nodes are all matched, from their scores: logarithms."""
    device.kernel("small", DUAL=0, KERNELS=2, K=size)(
        (-(-n_graphs // 32), 1, 1), 32, scores, *strides, *unmatched, n_graphs, out.told,
        out.marginals, out.left, out.right, shared=32 * 8 << size, stream=stream,
    )  # fmt: skip


def sum_subsets(
    device: Device,
    batch: Batch,
    prepare: Prepare,
    allocate: Allocate,
    stream: int = 0,
    on_launch: Callable[[float], None] | None = None,
    find_free: Callable[[], int] | None = None,
) -> None:
    """Sum over sets of matched columns: positive terms only.

    `on_launch` is called with the share that is done where there are several launches;
    `find_free` returns the bytes that can be had; default: what the driver calls free.
    """
    out = prepare()
    if batch.k <= FEW_COLUMNS:
        _sum_few_columns(device, batch, out, allocate, stream)
        return
    per_graph = batch.real_bytes * ((batch.n + 3) << batch.k)
    free = (device.free_bytes if find_free is None else find_free()) // 2
    if per_graph > free:
        raise SizeLimitError(
            f"sums over sets of {batch.k} columns need {per_graph / 2**30:.3g} GiB of the "
            f"GPU's memory per graph; {free / 2**30:.3g} GiB are free for them. Use the "
            "processor, or fix known edges to make the graph smaller."
        )
    at_once = min(max(1, min(free, 4 << 30) // per_graph), _GRAPHS)
    room = allocate(min(at_once, batch.n_graphs) * per_graph)
    n_blocks = -(-(1 << batch.k) // _THREADS)
    partial = allocate(
        min(at_once, batch.n_graphs) * batch.real_bytes * (n_blocks + 1) * (batch.k + 1)
    )
    for first in range(0, batch.n_graphs, at_once):
        last = min(first + at_once, batch.n_graphs)
        some, into = batch.some(first, last), out.some(first, batch.n, batch.k)
        _sum_many_columns(device, some, into, room, partial, stream)
        if last < batch.n_graphs:
            device.synchronize(stream)  # Ctrl-C is heard between launches
            if on_launch is not None:
                on_launch(last / batch.n_graphs)


def _sum_few_columns(
    device: Device, batch: Batch, out: Sums, allocate: Allocate, stream: int
) -> None:
    n, k = batch.n, batch.k
    if batch.is_perfect and batch.is_dual and k <= FEWEST_COLUMNS:
        kernel = device.kernel("perfect", DUAL=1, KERNELS=2, K=k)
        kernel(
            (-(-batch.n_graphs // 4), 1, 1), 128, batch.weights, batch.left, batch.right,
            batch.d_scores, batch.n_graphs, out.told, out.marginals, out.left, out.right,
            stream=stream,
        )  # fmt: skip
        return
    table = batch.real_bytes << k
    kernel = device.kernel("subsets", DUAL=int(batch.is_dual), KERNELS=2, K=k)
    shared = table * (n + 3)
    is_outside = shared > device.max_shared - _STATIC_SHARED
    shared = 2 * table if is_outside else shared
    at_once = batch.n_graphs
    tables = 0
    if is_outside:
        at_once = min(at_once, max(1, (1 << 30) // (table * (n + 1))))
        tables = allocate(at_once * table * (n + 1))
    n_threads = max(32, (1 << k) >> 3)
    for first in range(0, batch.n_graphs, at_once):
        some = batch.some(first, min(first + at_once, batch.n_graphs))
        into = out.some(first, n, k)
        kernel(
            (some.n_graphs, 1, 1), n_threads, some.weights, some.left, some.right,
            some.d_scores, some.d_left, some.d_right, Int32(n), tables, into.told,
            into.marginals, into.left, into.right, shared=shared, stream=stream,
        )  # fmt: skip


def _sum_many_columns(
    device: Device, batch: Batch, out: Sums, room: Pointer, partial: Pointer, stream: int
) -> None:
    n, k, n_graphs = batch.n, batch.k, batch.n_graphs
    macros = {"DUAL": int(batch.is_dual), "KERNELS": 1}
    begin, forward_row, backward_row, finish_row = (
        device.kernel(name, **macros)
        for name in ("begin_tables", "forward_row", "backward_row", "finish_row")
    )
    size, sizes = batch.real_bytes, (Int32(n), Int32(k))
    table = size << k
    forward, here = room, room + n_graphs * (n + 1) * table
    ahead = here + n_graphs * table
    n_blocks = -(-(1 << k) // _THREADS)
    totals = partial + size * n_graphs * n_blocks * (k + 1)
    grid = (n_blocks, n_graphs, 1)
    weights = batch.weights, batch.left, batch.d_scores, batch.d_left
    begin(grid, _THREADS, batch.right, batch.d_right, *sizes, forward, ahead, stream=stream)
    for i in range(n):
        forward_row(grid, _THREADS, *weights, *sizes, Int32(i), forward, stream=stream)
    for i in range(n, -1, -1):
        row = Int32(i)
        backward_row(
            grid, _THREADS, *weights, *sizes, row, forward, ahead, here, partial,
            stream=stream,
        )  # fmt: skip
        finish_row(
            (k + 1, n_graphs, 1), 32, *weights, *sizes, row, Int32(n_blocks), partial,
            totals, out.told, out.marginals, out.left, out.right, stream=stream,
        )  # fmt: skip
        if i < n:
            ahead, here = here, ahead


class GlynnPlan(NamedTuple):
    """How the signs of the rows of a square are shared out."""

    size: int
    columns: int  # of a thread, even
    threads: int  # of a sign pattern
    n_slow: int  # rows that a warp walks through
    n_high: int  # rows fixed by the number of the block

    @property
    def entries(self) -> int:
        """Numbers that a block leaves behind."""
        return self.size * self.columns * self.threads


def plan_glynn(size: int, n_graphs: int, n_processors: int, *, is_dual: bool) -> GlynnPlan:
    """Share out the rows so that there are enough warps, each with enough to do.

    Examples
    --------
    >>> plan_glynn(30, 1, 132, is_dual=False)
    GlynnPlan(size=30, columns=16, threads=2, n_slow=10, n_high=13)
    """
    threads = 1 << max(0, math.ceil(math.log2(size / 16))) << is_dual
    columns = 2 * -(-size // (2 * threads))
    n_lane = 5 - int(math.log2(threads))
    n_free = size - 3 - n_lane
    wanted = int(math.log2(max(1.0, _WARPS_PER_PROCESSOR * n_processors / n_graphs)))
    n_high = max(min(wanted, n_free - 1), n_free - _SLOW)
    return GlynnPlan(size, columns, threads, n_free - n_high, n_high)


class _Launches(NamedTuple):
    """The launches of Glynn's formula for some number of squares, wherever they lie."""

    walk: Kernel
    add: Kernel
    finish: Kernel
    n_slow: Int32
    n_at_once: int  # graphs
    n_launches: int  # for that many graphs
    n_blocks: int  # of a launch, per graph
    n_runs: int  # of blocks that are added up together
    entries: int  # numbers that a block leaves behind
    partial_bytes: int
    total_bytes: int


@lru_cache(maxsize=256)
def _plan_launches(device: Device, size: int, n_graphs: int, is_dual: bool) -> _Launches:
    n_at_once = min(n_graphs, _GRAPHS)
    plan = plan_glynn(size, n_at_once, device.n_processors, is_dual=is_dual)
    n_blocks = min(1 << plan.n_high, _BLOCKS)
    per_block = (16 if is_dual else 8) * plan.entries
    n_at_once = min(n_at_once, max(1, _PARTIAL_BYTES // (per_block * (n_blocks + _RUNS))))
    macros = {
        "DUAL": int(is_dual),
        "KERNELS": 3,
        "M": size,
        "C": plan.columns,
        "G": plan.threads,
    }
    return _Launches(
        *(device.kernel(name, **macros) for name in ("glynn", "add_blocks", "finish")),
        n_slow=Int32(plan.n_slow),
        n_at_once=n_at_once,
        n_launches=(1 << plan.n_high) // n_blocks,
        n_blocks=n_blocks,
        n_runs=min(_RUNS, n_blocks),
        entries=plan.entries,
        partial_bytes=n_at_once * per_block * n_blocks,
        total_bytes=n_at_once * per_block * _RUNS,
    )


def sum_signs(
    device: Device,
    batch: Batch,
    prepare: Prepare,
    allocate: Allocate,
    stream: int = 0,
    on_launch: Callable[[float], None] | None = None,
) -> None:
    """Sum by Glynn's formula: squares whose nodes are all matched.

    Without offsets, totals are permanents times ``2**(size - 1)``.  `on_launch` is called
    with the share that is done after every launch that takes long, when it is complete.
    """
    size, n_graphs = batch.k, batch.n_graphs
    if not n_graphs:
        return
    plan = _plan_launches(device, size, n_graphs, batch.is_dual)
    partial, totals = allocate(plan.partial_bytes), allocate(plan.total_bytes)
    out: Sums | None = None
    n_runs, n_blocks, n_at_once = plan.n_runs, plan.n_blocks, plan.n_at_once
    per_run = -(-n_blocks // n_runs)
    n_done, n_all = 0, plan.n_launches * -(-n_graphs // n_at_once)
    for first in range(0, n_graphs, n_at_once):
        some = batch.some(first, min(first + n_at_once, n_graphs))
        for launch in range(plan.n_launches):
            plan.walk(
                (n_blocks, some.n_graphs, 1), 32, some.weights, some.d_scores, plan.n_slow,
                launch * n_blocks, partial, stream=stream,
            )  # fmt: skip
            plan.add(
                (-(-plan.entries // 128), n_runs, some.n_graphs), 128, partial,
                Int32(n_blocks), Int32(per_run), Int32(launch == 0), totals, stream=stream,
            )  # fmt: skip
            n_done += 1
            if n_all > 1:
                device.synchronize(stream)  # Ctrl-C is heard between launches
                if on_launch is not None:
                    on_launch(n_done / n_all)
        out = prepare() if out is None else out
        into = out.some(first, size, size)
        plan.finish(
            (some.n_graphs, 1, 1), 512 if n_runs > 1 else 128, some.weights, some.left,
            some.right, some.d_scores, totals, Int32(n_runs), into.told, into.marginals,
            into.left, into.right, stream=stream,
        )  # fmt: skip
