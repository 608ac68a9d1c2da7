"""Kernels compiled by NVRTC and launched through the CUDA driver.

A compiled kernel is kept on disk, by a hash of its source, its macros, the architecture and
the version of the compiler.
"""

import ctypes
import hashlib
import os
import secrets
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from permatch._optional import require
from permatch.errors import DeviceError

_SOURCE = Path(__file__).with_name("matchings.cu")
_OPTIONS = (
    "--std=c++17",
    "--define-macro=INFINITY=__longlong_as_double(0x7ff0000000000000LL)",
)

# Shared memory that every block gets without being asked for more is 48 KiB, with a few
# that kernels have of their own.
_PLAIN_SHARED = 40 << 10

Pointer = int


class Int32(int):
    """A whole number that a kernel takes as one of 32 bits, not 64."""


class Record(NamedTuple):
    """Three pointers that a kernel takes as one argument."""

    first: Pointer
    second: Pointer
    third: Pointer


#: What a kernel takes.
Argument = int | float | Record
# How `struct` writes it.
_KINDS = {int: "q", Int32: "i", float: "d", Record: "qqq"}


@cache
def available() -> str | None:
    """Return why there is no CUDA device to compute on, or None if there is one."""
    try:
        driver = _bindings("driver")
    except ImportError as err:
        return str(err)
    with suppress(RuntimeError):  # the library of the driver is missing
        status, *_ = driver.cuInit(0)
        if not status:
            status, n_devices = driver.cuDeviceGetCount()
            if not status and n_devices:
                return None
    return "no CUDA device was found"


def require_device() -> "Device":
    """Return the current CUDA device, or say that there is none and what to use."""
    why = available()
    if why is not None:
        raise DeviceError(
            f"computing on a GPU requires an NVIDIA GPU with its driver; {why}. Use "
            "engine='auto' or 'glynn', which run on the processor."
        )
    driver = _bindings("driver")
    context = int(_check(driver.cuCtxGetCurrent()))
    if not context:
        device = _check(driver.cuDeviceGet(0))
        _check(driver.cuCtxSetCurrent(_check(driver.cuDevicePrimaryCtxRetain(device))))
        context = int(_check(driver.cuCtxGetCurrent()))
    return _device_of(context)


@cache
def _device_of(context: int) -> "Device":
    """Return the device of a context, which must be the current one."""
    return Device()


class Device:
    """A CUDA device: its kernels, its memory, its default stream."""

    def __init__(self) -> None:
        driver = self._driver = _bindings("driver")
        self._device = _check(driver.cuCtxGetDevice())
        attribute = driver.CUdevice_attribute
        self.architecture = 10 * self._attribute(
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        ) + self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.n_processors = self._attribute(
            attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        )
        self.max_shared = self._attribute(
            attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        )
        self._kernels: dict[tuple[Any, ...], Any] = {}

    @property
    def number(self) -> int:
        """The number of the device."""
        return int(self._device)

    @property
    def free_bytes(self) -> int:
        """Memory not in use."""
        free, _ = _check(self._driver.cuMemGetInfo())
        return free

    def kernel(self, name: str, **macros: int) -> "Kernel":
        """Return a kernel of the source, compiled with these macros."""
        key = (name, *macros.items())
        if key not in self._kernels:
            architecture = f"sm_{self.architecture}"
            try:
                code = compile_source(architecture, macros)
                module = _check(self._driver.cuModuleLoadData(code))
            except DeviceError:  # what lay on disk may be damaged
                code = compile_source(architecture, macros, is_fresh=True)
                module = _check(self._driver.cuModuleLoadData(code))
            function = _check(self._driver.cuModuleGetFunction(module, name.encode()))
            self._kernels[key] = Kernel(self._driver, function)
        return self._kernels[key]

    def synchronize(self, stream: int = 0) -> None:
        """Wait for all that was launched."""
        _check(self._driver.cuStreamSynchronize(stream))

    def upload(self, pointer: Pointer, array: Any) -> None:
        """Copy a contiguous NumPy array to the device."""
        _check(self._driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))

    def download(self, array: Any, pointer: Pointer) -> None:
        """Copy memory of the device into a contiguous NumPy array."""
        _check(self._driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))

    @contextmanager
    def memory(self) -> Iterator[Callable[[int], Pointer]]:
        """Yield a function that allocates bytes; all are given back at the end."""
        held: list[Any] = []

        def allocate(n_bytes: int) -> Pointer:
            held.append(_check(self._driver.cuMemAlloc(max(n_bytes, 8))))
            return int(held[-1])

        try:
            yield allocate
        finally:
            for pointer in held:
                self._driver.cuMemFree(pointer)

    def _attribute(self, which: Any) -> int:
        return _check(self._driver.cuDeviceGetAttribute(which, self._device))


class Kernel:
    """A compiled kernel."""

    def __init__(self, driver: Any, function: Any) -> None:
        self._launch = driver.cuLaunchKernel
        self._driver = driver
        self._function = function
        self._shared = _PLAIN_SHARED
        self._lock = threading.Lock()
        self._local = threading.local()

    def __call__(
        self,
        grid: tuple[int, int, int],
        n_threads: int,
        *arguments: Argument,
        shared: int = 0,
        stream: int = 0,
    ) -> None:
        """Launch; whole numbers are 64 bits wide, as pointers are, unless `Int32`.

        A kernel takes arguments of the same types in every launch.
        """
        if shared > self._shared:
            self._allow(shared)
        try:
            packed: _Packed = self._local.packed
        except AttributeError:  # the first launch by this thread
            packed = self._local.packed = _Packed(*map(type, arguments))
        where = packed.fill(arguments)
        _check(
            self._launch(self._function, *grid, n_threads, 1, 1, shared, stream, where, 0)
        )

    def _allow(self, shared: int) -> None:
        """Ask for more shared memory than every kernel may have."""
        with self._lock:
            if shared > self._shared:
                attribute = self._driver.CUfunction_attribute
                most = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                _check(self._driver.cuFuncSetAttribute(self._function, most, shared))
                self._shared = shared


class _Packed:
    """Room for arguments of some types, laid out as the members of a struct of C.

    The driver copies them in the launch, so that the room serves the next one.
    """

    def __init__(self, *types: type) -> None:
        kinds = [_KINDS[each] for each in types]
        ends = [struct.calcsize("".join(kinds[: k + 1])) for k in range(len(kinds))]
        starts = [
            end - struct.calcsize(kind) for end, kind in zip(ends, kinds, strict=True)
        ]
        self._has_records = Record in types
        self._struct = struct.Struct("".join(kinds))
        self._room = ctypes.create_string_buffer(self._struct.size)
        base = ctypes.addressof(self._room)
        self._places = (ctypes.c_void_p * len(kinds))(*(base + start for start in starts))
        self._where = ctypes.addressof(self._places)

    def fill(self, arguments: tuple[Argument, ...]) -> Pointer:
        """Write the arguments; return where a list of their addresses lies."""
        values: Any = arguments
        if self._has_records:
            values = chain.from_iterable(
                one if isinstance(one, Record) else (one,) for one in arguments
            )
        self._struct.pack_into(self._room, 0, *values)
        return self._where


@cache
def _bindings(module: str) -> Any:
    return require(f"cuda.bindings.{module}", "cuda", what="computing on a GPU")


def _check(result: tuple[Any, ...]) -> Any:
    """Return what a call of the driver or the compiler returned, or raise its error."""
    status, *values = result
    if status:
        is_full = "OUT_OF_MEMORY" in status.name
        remedy = " Pass fewer graphs at a time." if is_full else ""
        raise DeviceError(f"the CUDA driver failed with {status.name}.{remedy}")
    return values[0] if len(values) == 1 else tuple(values)


def compile_source(
    architecture: str, macros: dict[str, int], *, is_fresh: bool = False
) -> bytes:
    """Return the kernels as machine code, from disk if they were compiled before.

    With `is_fresh` what is on disk is replaced.
    """
    nvrtc = _bindings("nvrtc")
    options = [
        *_OPTIONS,
        f"--gpu-architecture={architecture}",
        *(f"--define-macro={name}={value}" for name, value in sorted(macros.items())),
    ]
    source = _SOURCE.read_bytes()
    version = _check(nvrtc.nvrtcVersion())
    key = hashlib.sha256(source + repr((options, version)).encode()).hexdigest()
    name = f"{key[:32]}.cubin"
    with suppress(OSError, RuntimeError):
        if not is_fresh:
            return (_cache_folder() / name).read_bytes()
    code = _compile(nvrtc, source, [option.encode() for option in options])
    # A folder that cannot be written to, or no home, costs time only.
    with suppress(OSError, RuntimeError):
        _write_whole(_cache_folder() / name, code)
    return code


def _write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _compile(nvrtc: Any, source: bytes, options: list[bytes]) -> bytes:
    program = _check(nvrtc.nvrtcCreateProgram(source, b"matchings.cu", 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        log = bytearray(_check(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise DeviceError(
            f"the CUDA source could not be compiled: {log.decode(errors='replace')}"
        )
    code = bytearray(_check(nvrtc.nvrtcGetCUBINSize(program)))
    _check(nvrtc.nvrtcGetCUBIN(program, code))
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(code)


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "permatch" / "cuda"
