"""What compiled kernels are made of: vectors of doubles, bit counts, random numbers.

**Vectors.**  Numba leaves SIMD to LLVM's loop vectoriser, which guards every loop that
writes one array and reads another with overlap checks; in short loops the checks cost more
than the work. The type `Vector` says what is meant instead: inside a compiled function
``load``, ``splat`` and the operators ``+ - * /`` act on `WIDTH` doubles in one register.

    x = load(array, offset) * splat(2.0) + load(other, offset)
    store(array, offset, x)

Arrays are contiguous float64, offsets count elements of the flat array.  ``a * b + c`` may
be contracted to one rounding, as in C compilers; the result does not depend on threads.

`WIDTH` is what a register of this machine holds, as Numba sees the machine: it follows from
the processor's features, which are part of the key of every compiled function on disk.
Where more lanes are to go together, `vectors` makes ``load`` and ``splat`` of another
width, which the compiler spreads over several registers.

**Bit counts** in one instruction are for kernels whose states are sets of columns.

**Random numbers** come from the generator xoshiro256++ of Blackman and Vigna.  A stream is
an array of four 64-bit words that the functions advance in place; there is no global
state.  NumPy's own generators work in compiled code too, at five times the cost.

    state = seed_state(random_state, graph, chunk)      # any whole numbers >= 0
    uniform(state)                                      # in [0, 1), 53 random bits
"""

import operator

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import config, types
from numba.core.codegen import get_host_cpu_features
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model


def _machine_width() -> int:
    """Return how many doubles a vector register holds."""
    features = config.CPU_FEATURES
    if features is None:
        features = get_host_cpu_features()
    return 8 if "+avx512f" in features.split(",") else 4


WIDTH = _machine_width()

_DOUBLE = ir.DoubleType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)

# The upper bits of the root of one half, and those of 1.5 * 2**52.
_ROOT_HALF = 0x3FE6A09E00000000
_WHOLE = 0x4338000000000000


class VectorType(types.Type):
    """Numba's name for `width` doubles side by side."""

    def __init__(self, width):
        self.width = width
        super().__init__(name=f"float64x{width}")

    @property
    def ir_type(self):
        """The type in LLVM's language."""
        return ir.VectorType(_DOUBLE, self.width)


vector = VectorType(WIDTH)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, fe_type.ir_type)


def _add_operator(function, instruction):
    @infer_global(function)
    class _Typing(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and args[0] == args[1] and isinstance(args[0], VectorType):
                return signature(args[0], *args)
            return None

    @lower_builtin(function, VectorType, VectorType)
    def _lower(context, builder, sig, args):
        return getattr(builder, instruction)(*args, flags=("contract",))


_add_operator(operator.add, "fadd")
_add_operator(operator.sub, "fsub")
_add_operator(operator.mul, "fmul")
_add_operator(operator.truediv, "fdiv")


def _pointer(context, builder, array_type, array, offset, ir_type):
    data = context.make_array(array_type)(context, builder, array).data
    element = builder.gep(data, [offset], inbounds=True)
    return builder.bitcast(element, ir_type.as_pointer())


def vectors(width):
    """Return ``load`` and ``splat`` of vectors of `width` doubles."""
    result = VectorType(width)

    @intrinsic
    def load(typing_context, array, offset):
        def lower(context, builder, sig, args):
            at = _pointer(context, builder, sig.args[0], args[0], args[1], result.ir_type)
            return builder.load(at, align=8)

        return result(array, types.intp), lower

    @intrinsic
    def splat(typing_context, value):
        def lower(context, builder, sig, args):
            undefined = ir.Constant(result.ir_type, ir.Undefined)
            first = builder.insert_element(undefined, args[0], ir.Constant(_INT32, 0))
            every = ir.Constant(ir.VectorType(_INT32, width), [0] * width)
            return builder.shuffle_vector(first, undefined, every)

        return result(types.float64), lower

    return load, splat


#: ``load(array, offset)``: ``array.flat[offset : offset + WIDTH]`` as a vector;
#: ``splat(value)``: `WIDTH` copies of one float.
load, splat = vectors(WIDTH)


@intrinsic
def store(typing_context, array, offset, value):
    """Write a vector to the elements of ``array.flat`` from `offset` on."""

    def lower(context, builder, sig, args):
        ir_type = sig.args[2].ir_type
        at = _pointer(context, builder, sig.args[0], args[0], args[1], ir_type)
        builder.store(args[2], at, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), lower


@intrinsic
def maximum(typing_context, left, right):
    """Return the larger element of each pair (`right` where either is NaN)."""

    def lower(context, builder, sig, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return left(left, right), lower


@intrinsic
def minimum(typing_context, left, right):
    """Return the smaller element of each pair (`right` where either is NaN)."""

    def lower(context, builder, sig, args):
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return left(left, right), lower


@intrinsic
def count_up(typing_context, count, value, target):
    """Return `count`, plus one where ``value <= target``."""

    def lower(context, builder, sig, args):
        is_below = builder.fcmp_ordered("<=", args[1], args[2])
        ones, zeros = (
            ir.Constant(count.ir_type, [number] * count.width) for number in (1.0, 0.0)
        )
        return builder.fadd(args[0], builder.select(is_below, ones, zeros))

    return count(count, value, target), lower


@intrinsic
def power_of_two(typing_context, value):
    """Return ``2.0**n`` of ``n + 1.5 * 2**52``, n whole, -1023 (giving 0) to 1023."""

    def lower(context, builder, sig, args):
        integers = ir.VectorType(_INT64, value.width)
        bits = builder.bitcast(args[0], integers)
        biased = builder.add(bits, ir.Constant(integers, [1023] * value.width))
        exponent = builder.shl(biased, ir.Constant(integers, [52] * value.width))
        return builder.bitcast(exponent, value.ir_type)

    return value(value), lower


@intrinsic
def exponent(typing_context, value):
    """Return ``n + 1.5 * 2**52`` with ``value / 2**n`` from .707 to 1.414; value normal."""

    def lower(context, builder, sig, args):
        integers = ir.VectorType(_INT64, value.width)
        bits = builder.bitcast(args[0], integers)
        above = builder.sub(bits, ir.Constant(integers, [_ROOT_HALF] * value.width))
        n = builder.ashr(above, ir.Constant(integers, [52] * value.width))
        shifted = builder.add(n, ir.Constant(integers, [_WHOLE] * value.width))
        return builder.bitcast(shifted, value.ir_type)

    return value(value), lower


@intrinsic
def total(typing_context, value):
    """Return the sum of a vector's elements, added pairwise."""

    def lower(context, builder, sig, args):
        parts = [
            builder.extract_element(args[0], ir.Constant(_INT32, k))
            for k in range(value.width)
        ]
        while len(parts) > 1:
            parts = [
                builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    return types.float64(value), lower


if config.DISABLE_JIT:  # intrinsics exist in compiled code only: the same on small arrays

    def vectors(width):  # noqa: F811
        """Return ``load`` and ``splat`` of `width` elements."""
        return (
            lambda array, offset: array.ravel()[offset : offset + width].copy(),
            lambda value: np.full(width, value),
        )

    load, splat = vectors(WIDTH)

    def store(array, offset, value):  # noqa: F811
        """Write the elements from `offset` on."""
        array.reshape(-1)[offset : offset + len(value)] = value

    def maximum(left, right):  # noqa: F811
        """Return the larger element of each pair."""
        return np.where(left > right, left, right)

    def count_up(count, value, target):  # noqa: F811
        """Return `count`, plus one where ``value <= target``."""
        return count + (value <= target)

    def minimum(left, right):  # noqa: F811
        """Return the smaller element of each pair."""
        return np.where(left < right, left, right)

    def exponent(value):  # noqa: F811
        """Return the exponent, hidden in a float."""
        return ((value.view(np.int64) - _ROOT_HALF >> 52) + _WHOLE).view(np.float64)

    def power_of_two(value):  # noqa: F811
        """Return two to the whole number hidden in `value`."""
        return ((value.view(np.int64) + 1023) << 52).view(np.float64)

    def total(value):  # noqa: F811
        """Return the sum of the elements."""
        while len(value) > 1:
            value = value[::2] + value[1::2]
        return float(value[0])


@njit(cache=True, nogil=True, inline="always")
def aligned(n):
    """Return an uninitialised array of `n` floats that begins with a line of the cache.

    A vector of eight that crosses two lines costs two loads.
    """
    array = np.empty(n + 7)
    first = -(array.ctypes.data >> 3) & 7
    return array[first : first + n]


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


_UNIT = 2.0**-53
_MASK = (1 << 64) - 1


def seed_state(*key):
    """Return the state of the stream named by some whole numbers; keys do not overlap."""
    return np.random.SeedSequence(key).generate_state(4, np.uint64)


@njit(cache=True, nogil=True)
def next_word(state):
    """Return the next 64 random bits."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    total = a + d
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << np.uint64(45)) | (d >> np.uint64(19))
    state[0], state[1], state[2], state[3] = a, b, c, d
    return word


if config.DISABLE_JIT:  # NumPy's integers warn when they wrap around: the same in Python's

    def next_word(state):  # noqa: F811
        """Return the next 64 random bits."""
        a, b, c, d = (int(word) for word in state)
        total = (a + d) & _MASK
        word = ((total << 23 | total >> 41) + a) & _MASK
        shifted = b << 17 & _MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = (d << 45 | d >> 19) & _MASK
        state[:] = a, b, c, d
        return word


@njit(cache=True, nogil=True)
def uniform(state):
    """Return a number in [0, 1)."""
    return (next_word(state) >> 11) * _UNIT
