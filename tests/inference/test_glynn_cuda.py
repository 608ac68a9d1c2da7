"""Glynn's formula on a GPU: what can be said without one; the tables test the rest."""

import importlib.util

import numpy as np
import pytest

import permatch as pm
from permatch.cuda import dlpack, driver, sums
from permatch.errors import DeviceError, InvalidOptionError, ScoreTypeError

without_gpu = pytest.mark.skipif(driver.available() is None, reason="there is a GPU here")


class OnGpu:
    """An array that says it lies on a GPU."""

    def __dlpack_device__(self):
        return 2, 0


@without_gpu
@pytest.mark.parametrize("engine", ["glynn_cuda", pm.Glynn(device="cuda")])
def test_without_a_gpu_the_message_says_what_to_use(engine):
    with pytest.raises(DeviceError, match=r"requires an NVIDIA GPU.*Use engine='auto'"):
        pm.infer(np.zeros((10, 10)), engine)


def test_the_device_is_checked():
    with pytest.raises(InvalidOptionError, match="device must be .*'cpu', 'cuda'.*'tpu'"):
        pm.Glynn(device="tpu")


@pytest.mark.parametrize("engine", ["auto", "bethe", "glynn"])
def test_arrays_on_a_gpu_are_refused_where_they_cannot_be_used(engine):
    with pytest.raises(DeviceError, match=r"lie on a GPU.*glynn_cuda.*permatch\.nn.*copy"):
        pm.infer(OnGpu(), engine)


def test_unmatched_scores_of_arrays_on_a_gpu_are_refused():
    with pytest.raises(DeviceError, match="does not support unmatched scores"):
        pm.infer(OnGpu(), "glynn_cuda", unmatched_left=0.0)


@pytest.mark.parametrize("is_dual", [False, True])
@pytest.mark.parametrize("n_graphs", [1, 30, 100_000])
@pytest.mark.parametrize("size", range(sums.GLYNN_FROM, sums.GLYNN_MAX + 1))
def test_plans_share_out_all_rows(size, n_graphs, is_dual):
    plan = sums.plan_glynn(size, n_graphs, 132, is_dual=is_dual)
    n_lane = int(np.log2(32 // plan.threads))
    assert 3 + plan.n_slow + n_lane + plan.n_high == size
    assert plan.columns * plan.threads >= size
    assert plan.columns % 2 == 0
    assert 1 <= plan.n_slow <= 12
    # Numbers that a thread holds: four per column, and two per pair of columns.
    assert plan.columns * (1 + is_dual) <= 16


@pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None
    or importlib.util.find_spec("cuda.bindings") is None,
    reason="needs cuda-bindings and NVRTC",
)
@pytest.mark.parametrize("is_dual", [0, 1])
@pytest.mark.parametrize(
    "macros",
    [{"KERNELS": 1}, {"KERNELS": 2, "K": 8}, {"KERNELS": 3, "M": 17, "C": 10, "G": 2}],
    ids=["many", "few", "glynn"],
)
def test_the_source_compiles(macros, is_dual):
    code = driver.compile_source("sm_90", {"DUAL": is_dual, **macros})
    assert code[:4] == b"\x7fELF"


class Tensor:
    """An array that hands out a DLPack tensor in the memory of the processor."""

    def __init__(self, values):
        self.values = values
        self.dtype = values.dtype

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


class Unshared(Tensor):
    """One that refuses, as tensors of PyTorch that require a gradient do."""

    def __dlpack__(self, stream=None):
        raise BufferError("not this one")


def test_arrays_come_in_as_they_lie():
    values = np.arange(24.0).reshape(2, 3, 4)
    found = dlpack.view(Tensor(values.transpose(0, 2, 1)))
    assert found.shape == (2, 4, 3)
    assert found.strides == (12, 1, 4)
    assert found.pointer == values.ctypes.data
    assert found.stacked().shape == (1, 2, 4, 3)


def test_arrays_that_cannot_be_used_are_refused():
    with pytest.raises(ScoreTypeError, match="must be float64; got float32"):
        dlpack.view(Tensor(np.zeros((2, 2), dtype=np.float32)))
    with pytest.raises(ScoreTypeError, match="must not run backwards"):
        dlpack.view(Tensor(np.zeros((3, 3))[:, ::-1]))
    unshared = Unshared(np.zeros((3, 3)))
    with pytest.raises(ScoreTypeError, match="cannot be shared: not this one"):
        dlpack.view(unshared)
    unshared.requires_grad = True
    with pytest.raises(ScoreTypeError, match=r"without a gradient.*\.detach.*permatch\.nn"):
        dlpack.view(unshared)


def test_the_engine_of_gpus_computes_nowhere_else():
    with pytest.raises(InvalidOptionError, match="device of GlynnCuda must be 'cuda'"):
        pm.GlynnCuda(device="cpu")
