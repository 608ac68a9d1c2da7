"""Bit counts in one instruction, for kernels whose states are sets of columns."""

from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic


@intrinsic
def count_ones(typing_context, value):
    """Return the number of bits set in a 64-bit integer."""

    def lower(context, builder, sig, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), lower


@intrinsic
def lowest_one(typing_context, value):
    """Return the position of the lowest bit set in a nonzero 64-bit integer."""

    def lower(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), lower


if config.DISABLE_JIT:  # intrinsics exist in compiled code only: the same in plain Python

    def count_ones(value):  # noqa: F811
        """Return the number of bits set."""
        return int(value).bit_count()

    def lowest_one(value):  # noqa: F811
        """Return the position of the lowest bit set."""
        return (int(value) & -int(value)).bit_length() - 1
