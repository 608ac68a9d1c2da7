"""Four doubles at a time: a vector type for compiled kernels.

Numba leaves SIMD to LLVM's loop vectoriser, which guards every loop that writes one array
and reads another with overlap checks; in short loops the checks cost more than the work.
The type `Vector` says what is meant instead: inside a compiled function ``load``, ``splat``
and the operators ``+ - *`` act on `WIDTH` doubles in one register.

    x = load(array, offset) * splat(2.0) + load(other, offset)
    store(array, offset, x)

Arrays are contiguous float64, offsets count elements of the flat array.  ``a * b + c`` may
be contracted to one rounding, as in C compilers; the result does not depend on threads.
"""

import operator

import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

WIDTH = 4

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_INT32 = ir.IntType(32)


class VectorType(types.Type):
    """Numba's name for `WIDTH` doubles in one register."""

    def __init__(self):
        super().__init__(name=f"float64x{WIDTH}")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _add_operator(function, instruction):
    @infer_global(function)
    class _Typing(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and all(isinstance(arg, VectorType) for arg in args):
                return signature(vector, vector, vector)
            return None

    @lower_builtin(function, VectorType, VectorType)
    def _lower(context, builder, sig, args):
        return getattr(builder, instruction)(*args, flags=("contract",))


_add_operator(operator.add, "fadd")
_add_operator(operator.sub, "fsub")
_add_operator(operator.mul, "fmul")


def _pointer(context, builder, array_type, array, offset):
    data = context.make_array(array_type)(context, builder, array).data
    element = builder.gep(data, [offset], inbounds=True)
    return builder.bitcast(element, _VECTOR.as_pointer())


@intrinsic
def load(typing_context, array, offset):
    """Return ``array.flat[offset : offset + WIDTH]`` as a vector."""

    def lower(context, builder, sig, args):
        value = builder.load(_pointer(context, builder, sig.args[0], args[0], args[1]))
        value.align = 8
        return value

    return vector(array, types.intp), lower


@intrinsic
def store(typing_context, array, offset, value):
    """Write a vector to ``array.flat[offset : offset + WIDTH]``."""

    def lower(context, builder, sig, args):
        target = _pointer(context, builder, sig.args[0], args[0], args[1])
        builder.store(args[2], target).align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), lower


@intrinsic
def splat(typing_context, value):
    """Return a vector of `WIDTH` copies of one float."""

    def lower(context, builder, sig, args):
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, args[0], ir.Constant(_INT32, 0))
        every = ir.Constant(ir.VectorType(_INT32, WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(first, undefined, every)

    return vector(types.float64), lower


@intrinsic
def maximum(typing_context, left, right):
    """Return the larger element of each pair (`right` where either is NaN)."""

    def lower(context, builder, sig, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return vector(vector, vector), lower


@intrinsic
def power_of_two(typing_context, value):
    """Return ``2.0**n`` of ``n + 1.5 * 2**52``, n whole, -1023 (giving 0) to 1023."""

    def lower(context, builder, sig, args):
        integers = ir.VectorType(ir.IntType(64), WIDTH)
        bits = builder.bitcast(args[0], integers)
        biased = builder.add(bits, ir.Constant(integers, [1023] * WIDTH))
        exponent = builder.shl(biased, ir.Constant(integers, [52] * WIDTH))
        return builder.bitcast(exponent, _VECTOR)

    return vector(vector), lower


@intrinsic
def total(typing_context, value):
    """Return the sum of a vector's elements, added pairwise."""

    def lower(context, builder, sig, args):
        parts = [
            builder.extract_element(args[0], ir.Constant(_INT32, k)) for k in range(WIDTH)
        ]
        while len(parts) > 1:
            parts = [
                builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    return types.float64(vector), lower


if config.DISABLE_JIT:  # intrinsics exist in compiled code only: the same on small arrays

    def load(array, offset):  # noqa: F811
        """Return `WIDTH` elements from `offset` on."""
        return array.ravel()[offset : offset + WIDTH].copy()

    def store(array, offset, value):  # noqa: F811
        """Write `WIDTH` elements from `offset` on."""
        array.reshape(-1)[offset : offset + WIDTH] = value

    def splat(value):  # noqa: F811
        """Return `WIDTH` copies of one float."""
        return np.full(WIDTH, value)

    def maximum(left, right):  # noqa: F811
        """Return the larger element of each pair."""
        return np.where(left > right, left, right)

    def power_of_two(value):  # noqa: F811
        """Return two to the whole number hidden in `value`."""
        return ((value.view(np.int64) + 1023) << 52).view(np.float64)

    def total(value):  # noqa: F811
        """Return the sum of the elements."""
        return float((value[0] + value[1]) + (value[2] + value[3]))
