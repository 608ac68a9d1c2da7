"""Arrays of other libraries on a CUDA device, through DLPack and without a copy."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch._validation import has_gradient
from permatch.cuda.driver import Device, Pointer
from permatch.errors import ScoreTypeError

_CUDA, _MANAGED = 2, 13  # kinds of memory
_FLOAT = 2  # kind of number
_LEGACY_STREAM = 1  # the default stream, which kernels are launched on


class _Tensor(ctypes.Structure):
    """The part of a DLPack tensor that all versions share."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def is_on_gpu(array: Any) -> bool:
    """Return whether an array lies in the memory of a CUDA device."""
    ask = getattr(array, "__dlpack_device__", None)
    return ask is not None and int(ask()[0]) in (_CUDA, _MANAGED)


@dataclass(frozen=True, eq=False)
class View:
    """Where the float64 values of an array lie; strides count values."""

    pointer: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int  # its number
    owner: Any  # keeps the memory

    def stacked(self) -> "View":
        """Return a view with a first axis of length one."""
        shape, strides = (1, *self.shape), (0, *self.strides)
        return View(self.pointer, shape, strides, self.device, self.owner)

    def download(self, device: Device) -> FloatArray:
        """Return a copy as a NumPy array."""
        if 0 in self.shape:
            return np.empty(self.shape)
        reach = sum(
            (n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)
        )
        values = np.empty(reach + 1)
        device.download(values, self.pointer)
        strides = tuple(values.itemsize * step for step in self.strides)
        found = np.lib.stride_tricks.as_strided(values, self.shape, strides)
        return np.ascontiguousarray(found)


def view(array: Any) -> View:
    """Return where an array lies; it has to hold float64 values."""
    try:
        capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    except BufferError as err:
        if getattr(array, "requires_grad", False):
            raise has_gradient("scores") from err
        raise ScoreTypeError(
            f"scores on a GPU must be plain arrays; this one cannot be shared: {err}."
        ) from err
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    if (tensor.code, tensor.bits, tensor.lanes) != (_FLOAT, 64, 1):
        raise ScoreTypeError(
            "scores on a GPU must be float64; got "
            f"{getattr(array, 'dtype', 'another type')}. Convert them first."
        )
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(tensor.strides[: tensor.ndim])
    else:
        strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    if min(strides, default=0) < 0:
        raise ScoreTypeError(
            "scores on a GPU must not run backwards; got an array that is reversed along "
            "an axis. Copy it first."
        )
    pointer = (tensor.data or 0) + tensor.byte_offset
    return View(pointer, shape, strides, tensor.device_id, (array, capsule))
