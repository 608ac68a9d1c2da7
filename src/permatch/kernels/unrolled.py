"""Straight-line code for small graphs, one graph per SIMD lane.

The functions here are written out by the compiler for every size: no loop, no table of
indices, and values stay in registers as far as these reach.  The size is given by a tuple
of that length, whose type tells it to the compiler and to its cache on disk.

Arrays of lanes are flat, ``array[entry * LANES + lane]``.
"""

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

from permatch.kernels.intrinsics import WIDTH, vector

#: Graphs worked on together, on every machine.
LANES = 8

_INT32 = ir.IntType(32)


class _Lanes:
    """Loads from and stores to an array, for code that is being written out."""

    def __init__(self, context, builder, array_type, array, offset):
        self.builder = builder
        data = context.make_array(array_type)(context, builder, array).data
        self.start = builder.gep(data, [offset], inbounds=True)

    def _at(self, offset, ir_type):
        element = self.builder.gep(self.start, [ir.Constant(ir.IntType(64), offset)])
        return self.builder.bitcast(element, ir_type.as_pointer())

    def load(self, offset, ir_type=vector.ir_type):
        return self.builder.load(self._at(offset, ir_type), align=8)

    def store(self, offset, value):
        self.builder.store(value, self._at(offset, value.type), align=8)


def _align_stack(builder):
    """Have the stack aligned, for the vectors that do not find room in registers.

    The compiler aligns it only for what is known before it runs out of registers: a slot
    that some code, here empty, may use.
    """
    with builder.goto_entry_block():
        slot = builder.alloca(vector.ir_type)
    slot.align = 8 * WIDTH
    uses = ir.FunctionType(ir.VoidType(), [slot.type])
    builder.asm(uses, "", "r", [slot], side_effect=True)


def _sets_by_size(m):
    """Return the sets of columns, as bit masks, by their size."""
    sets = [[] for _ in range(m + 1)]
    for columns in range(1 << m):
        sets[columns.bit_count()].append(columns)
    return sets


def _write_sums(builder, m, weights, flows):
    """Write out both recursions of `sum_over_subsets`; return the permanent."""
    fused = ("contract",)  # a * b + c may be rounded once

    def add_product(total, a, b):
        product = builder.fmul(a, b, flags=fused)
        return product if total is None else builder.fadd(total, product, flags=fused)

    one = ir.Constant(vector.ir_type, [1.0] * WIDTH)
    full = (1 << m) - 1
    sets = _sets_by_size(m)
    forward, backward = {0: one}, {full: one}
    for row in range(m):
        own = [weights.load((row * m + col) * LANES) for col in range(m)]
        for used in sets[row + 1]:
            total = None
            for col in range(m):
                if used >> col & 1:
                    total = add_product(total, own[col], forward[used ^ 1 << col])
            forward[used] = total
    for row in range(m - 1, -1, -1):
        own = [weights.load((row * m + col) * LANES) for col in range(m)]
        sums = [None] * m
        for left in sets[m - row]:
            used = full ^ left
            total = None
            for col in range(m):
                if left >> col & 1:
                    after = backward[used | 1 << col]
                    total = add_product(total, own[col], after)
                    sums[col] = add_product(sums[col], forward[used], after)
            backward[used] = total
        for col in range(m):
            flows.store((row * m + col) * LANES, builder.fmul(sums[col], own[col]))
    return forward[full]


@intrinsic
def sum_over_subsets(typing_context, weights, flows, lane, size):
    """Return the permanents of `WIDTH` graphs beginning at `lane`.

    `flows` receives, for every edge, the total weight of the matchings through it: the
    marginals times the permanent.  See `small_batch` for the recursions.
    """

    def lower(context, builder, sig, args):
        sources, targets = (
            _Lanes(context, builder, sig.args[k], args[k], args[2]) for k in (0, 1)
        )
        _align_stack(builder)
        return _write_sums(builder, size.count, sources, targets)

    return vector(weights, flows, types.intp, size), lower


def _transpose(builder, rows):
    """Return the columns of a square of `WIDTH` vectors."""
    rows = list(rows)
    step = 1
    while step < WIDTH:
        picks = [], []
        for k in range(WIDTH):
            picks[0].append(WIDTH + k - step if k & step else k)
            picks[1].append(WIDTH + k if k & step else k + step)
        masks = [ir.Constant(ir.VectorType(_INT32, WIDTH), pick) for pick in picks]
        for k in range(WIDTH):
            if not k & step:
                pair = rows[k], rows[k + step]
                rows[k], rows[k + step] = (
                    builder.shuffle_vector(*pair, mask) for mask in masks
                )
        step *= 2
    return rows


@intrinsic
def to_lanes(typing_context, source, start, lanes, size):
    """Copy `LANES` graphs, which follow one another in `source` from `start` on."""
    n = size.count**2

    def lower(context, builder, sig, args):
        graphs = _Lanes(context, builder, sig.args[0], args[0], args[1])
        zero = ir.Constant(ir.IntType(64), 0)
        target = _Lanes(context, builder, sig.args[2], args[2], zero)
        for lane in range(0, LANES, WIDTH):
            for e in range(0, n - WIDTH + 1, WIDTH):
                rows = [graphs.load((lane + k) * n + e) for k in range(WIDTH)]
                for k, column in enumerate(_transpose(builder, rows)):
                    target.store((e + k) * LANES + lane, column)
            for e in range(n // WIDTH * WIDTH, n):
                value = ir.Constant(vector.ir_type, ir.Undefined)
                for k in range(WIDTH):
                    number = graphs.load((lane + k) * n + e, ir.DoubleType())
                    value = builder.insert_element(value, number, ir.Constant(_INT32, k))
                target.store(e * LANES + lane, value)
        return context.get_dummy_value()

    return types.void(source, types.intp, lanes, size), lower


@intrinsic
def from_lanes(typing_context, lanes, target, start, size):
    """Copy lanes to `LANES` graphs, which follow one another in `target`."""
    n = size.count**2

    def lower(context, builder, sig, args):
        zero = ir.Constant(ir.IntType(64), 0)
        source = _Lanes(context, builder, sig.args[0], args[0], zero)
        graphs = _Lanes(context, builder, sig.args[1], args[1], args[2])
        for lane in range(0, LANES, WIDTH):
            for e in range(0, n - WIDTH + 1, WIDTH):
                rows = [source.load((e + k) * LANES + lane) for k in range(WIDTH)]
                for k, column in enumerate(_transpose(builder, rows)):
                    graphs.store((lane + k) * n + e, column)
            for e in range(n // WIDTH * WIDTH, n):
                value = source.load(e * LANES + lane)
                for k in range(WIDTH):
                    number = builder.extract_element(value, ir.Constant(_INT32, k))
                    graphs.store((lane + k) * n + e, number)
        return context.get_dummy_value()

    return types.void(lanes, target, types.intp, size), lower


if config.DISABLE_JIT:  # intrinsics exist in compiled code only: the same on small arrays

    def sum_over_subsets(weights, flows, lane, size):  # noqa: F811
        """Return the permanents of `WIDTH` graphs; fill the totals through every edge."""
        m = len(size)
        lanes = slice(lane, lane + WIDTH)
        own = weights.reshape(m, m, LANES)[:, :, lanes]
        sums = np.zeros((m, m, WIDTH))
        forward, backward = np.zeros((2, 1 << m, WIDTH))
        forward[0] = backward[-1] = 1.0
        sets = _sets_by_size(m)
        for row in range(m):
            for used in sets[row + 1]:
                for col in range(m):
                    if used >> col & 1:
                        forward[used] += own[row, col] * forward[used ^ 1 << col]
        for row in range(m - 1, -1, -1):
            for left in sets[m - row]:
                used = (1 << m) - 1 ^ left
                for col in range(m):
                    if left >> col & 1:
                        after = backward[used | 1 << col]
                        backward[used] += own[row, col] * after
                        sums[row, col] += forward[used] * after
        flows.reshape(m, m, LANES)[:, :, lanes] = sums * own
        return forward[-1]

    def to_lanes(source, start, lanes, size):  # noqa: F811
        """Copy graphs to lanes."""
        n = len(size) ** 2
        graphs = source[start : start + LANES * n].reshape(LANES, n)
        lanes.reshape(n, LANES)[:] = graphs.T

    def from_lanes(lanes, target, start, size):  # noqa: F811
        """Copy lanes to graphs."""
        n = len(size) ** 2
        target[start : start + LANES * n] = lanes.reshape(n, LANES).T.ravel()
