"""`permatch.nn` on a CUDA device: the same checks as on the CPU, and agreement with it."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")

import torch

import permatch as pm
import permatch.nn
from permatch.errors import ScoreTypeError
from tests.nn import checks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CUDA = "cuda"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", checks.TABLE)
def test_agrees_with_enumeration(name, dtype):
    checks.agrees_with_enumeration(CUDA, name, dtype)


@pytest.mark.parametrize("name", checks.TABLE)
def test_derivatives_agree_with_enumeration(name):
    checks.derivatives_agree_with_enumeration(CUDA, name)


def test_gradcheck_and_gradgradcheck():
    checks.passes_gradcheck(CUDA)


@pytest.mark.parametrize("unmatched", ["square", "default", "all"])
def test_padding_changes_nothing(unmatched):
    checks.padding_changes_nothing(CUDA, unmatched)


def test_laws():
    checks.laws_hold(CUDA)


@pytest.mark.parametrize("size", [8, 12, 16, 20, 24])
def test_agrees_with_numpy(size):
    checks.agrees_with_numpy(CUDA, size)


def test_forbidden_edges_have_no_gradient():
    checks.forbidden_edges_have_no_gradient(CUDA)


def test_certain_edges_have_finite_gradients():
    checks.certain_edges_have_finite_gradients(CUDA)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_hessian_products():
    checks.hessian_products_agree(CUDA)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_transforms():
    checks.transforms_work(CUDA)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles(backend):
    checks.compiles(CUDA, backend)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck():
    checks.passes_opcheck(CUDA)


def test_unknown_scores_are_refused():
    checks.unknown_scores_are_refused(CUDA)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_arrays_of_others_come_in_through_dlpack(library):
    scores = np.random.default_rng(0).normal(size=(2, 12, 12))
    if library == "torch":
        array = torch.tensor(scores, device=CUDA)
        with pytest.raises(ScoreTypeError, match="without a gradient"):
            pm.infer(array.clone().requires_grad_(), "glynn_cuda")
    else:
        array = pytest.importorskip("cupy", reason="CuPy is not installed").asarray(scores)
    found, wanted = pm.infer(array, "glynn_cuda"), pm.infer(scores)
    np.testing.assert_allclose(found.log_partition, wanted.log_partition, atol=1e-10)
    np.testing.assert_allclose(found.marginals, wanted.marginals, atol=1e-10)


def test_trains():
    checks.trains(CUDA)


@pytest.mark.parametrize("size", [5, 9, 16])
@pytest.mark.parametrize("unmatched", ["none", "all"])
def test_agrees_with_the_cpu(size, unmatched):
    rng = np.random.default_rng(size)
    scores, _, _, given = checks.graphs(
        rng, 8, size, size, spread=3.0, forbidden=0.2, unmatched=unmatched
    )
    grads = []
    for device in ("cpu", CUDA):
        table, *sides = checks.tensors(device, scores, *given)
        table.requires_grad_()
        found = permatch.nn.infer(table, *sides)
        loss = found.log_partition.sum() + (found.marginals**2).sum()
        loss.backward()
        grads.append((*(one.detach().cpu() for one in found), table.grad.cpu()))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_distribution_on_the_device():
    torch.manual_seed(0)
    d = permatch.nn.MatchingDistribution(torch.randn(3, 4, 4, device=CUDA), 0.0, 0.0)
    drawn = d.sample((100,))
    assert drawn.device.type == d.mode.device.type == d.bayes_matching().device.type == CUDA
    assert torch.isfinite(d.log_prob(drawn)).all()
    assert d.entropy().device.type == CUDA


def test_ranking_loss_on_the_device():
    y_pred = torch.zeros(2, 4, device=CUDA, requires_grad=True)
    y_true = torch.tensor([[1, 0, 0, -1], [2, 1, 0, 0]], device=CUDA)
    loss = permatch.nn.RankMatchLoss(reduction="sum")(y_pred, y_true)
    loss.backward()
    assert loss.item() == pytest.approx(np.log(3.0) + np.log(12.0), abs=1e-6)
    assert y_pred.grad.device.type == CUDA
