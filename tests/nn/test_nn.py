"""`permatch.nn` on the CPU: against enumeration, by laws, and as PyTorch asks for."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")

import torch

import permatch as pm
import permatch.nn
from permatch.errors import (
    DerivativeError,
    InfeasibleGraphError,
    InfiniteScoreError,
    InvalidMatchingError,
    InvalidOptionError,
    MissingDependencyError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
    SizeLimitError,
)
from permatch.nn import _ops
from tests.nn import checks

CPU = "cpu"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", checks.TABLE)
def test_agrees_with_enumeration(name, dtype):
    checks.agrees_with_enumeration(CPU, name, dtype)


@pytest.mark.parametrize("name", checks.TABLE)
def test_derivatives_agree_with_enumeration(name):
    checks.derivatives_agree_with_enumeration(CPU, name)


def test_gradcheck_and_gradgradcheck():
    checks.passes_gradcheck(CPU)


@pytest.mark.parametrize("unmatched", ["square", "default", "all"])
def test_padding_changes_nothing(unmatched):
    checks.padding_changes_nothing(CPU, unmatched)


def test_laws():
    checks.laws_hold(CPU)


@pytest.mark.parametrize("size", [8, 10, 14])
def test_agrees_with_numpy(size):
    checks.agrees_with_numpy(CPU, size)


def test_forbidden_edges_have_no_gradient():
    checks.forbidden_edges_have_no_gradient(CPU)


def test_certain_edges_have_finite_gradients():
    checks.certain_edges_have_finite_gradients(CPU)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_hessian_products():
    checks.hessian_products_agree(CPU)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_forward_mode_of_functional_is_vectorized():
    functional = torch.autograd.functional
    scores = torch.randn(3, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    run = permatch.nn.log_partition
    slope = functional.jacobian(run, scores, vectorize=True, strategy="forward-mode")
    torch.testing.assert_close(slope, torch.func.grad(run)(scores))
    found = functional.hessian(
        run, scores, vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    torch.testing.assert_close(found, torch.func.hessian(run)(scores))


def test_transforms():
    checks.transforms_work(CPU)


@pytest.mark.slow
def test_compiles():
    checks.compiles(CPU, "aot_eager")


def test_trains():
    checks.trains(CPU)


# PyTorch looks at the gradients of clones, which have none, and hides its own warning.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.slow
def test_opcheck():
    checks.passes_opcheck(CPU)


def test_unknown_scores_are_refused():
    checks.unknown_scores_are_refused(CPU)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_comes_back_as_such(dtype):
    found = permatch.nn.infer(torch.zeros(2, 2, dtype=dtype))
    assert {one.dtype for one in found} == {dtype}
    assert found.marginals.float().tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_no_graphs_and_no_nodes():
    assert permatch.nn.infer(torch.zeros(0, 3, 3)).marginals.shape == (0, 3, 3)
    assert permatch.nn.log_partition(torch.zeros(2, 0, 0)).tolist() == [0.0, 0.0]
    found = permatch.nn.infer(torch.zeros(0, 2), unmatched_right=torch.tensor([1.0, 2.0]))
    assert found.log_partition.item() == 3.0
    assert found.unmatched_right.tolist() == [1.0, 1.0]


def test_unmatched_scores_broadcast_and_add_up_gradients():
    scores = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    alone = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    found = permatch.nn.infer(scores, alone, 0.5)
    found.log_partition.sum().backward()
    assert alone.grad.item() == pytest.approx(found.unmatched_left.sum().item())
    per_graph = permatch.nn.infer(scores[0, 0], torch.zeros(5, 1), torch.zeros(4))
    assert per_graph.marginals.shape == (5, 4, 4)


def test_unmatched_scores_by_default_are_those_of_infer():
    scores = np.random.default_rng(0).normal(size=(3, 5))
    for left, right in (
        *((None, None), (0.5, None), (None, 0.5), (0.0, 0.0)),
        (np.float32(0.5), np.int64(1)),
    ):
        wanted = pm.infer(scores, unmatched_left=left, unmatched_right=right)
        found = permatch.nn.infer(torch.tensor(scores), left, right)
        assert found.log_partition.item() == pytest.approx(wanted.log_partition)


def test_gradient_by_direction_of_a_hessian_product():
    # linear in the direction, and symmetric: what conjugate gradients differentiate
    scores = torch.randn(1, 3, 3, dtype=torch.float64)
    free = torch.zeros(1, 3, dtype=torch.float64)
    along = [torch.randn(1, 3, 3, dtype=torch.float64), free + 0.1, free - 0.2]
    along = [one.requires_grad_() for one in along]
    assert torch.autograd.gradcheck(lambda *v: _ops.tangents(scores, free, free, *v), along)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_third_derivatives_are_refused():
    scores = torch.zeros(3, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(
        (permatch.nn.marginals(scores) ** 2).sum(), scores, create_graph=True
    )
    words = "up to the second .* Detach the scores"
    with pytest.raises(DerivativeError, match=words):
        torch.autograd.grad(grad.sum(), scores)

    def spread(scores):
        return (permatch.nn.marginals(scores) ** 2).sum()

    own, along = scores.detach(), torch.ones(3, 3)
    for ask in (
        lambda: torch.autograd.functional.hvp(spread, own, along),
        lambda: torch.func.jacfwd(torch.func.jacfwd(permatch.nn.marginals))(own),
        lambda: torch.func.jacrev(torch.func.hessian(permatch.nn.log_partition))(own),
    ):
        with pytest.raises(DerivativeError, match=words):
            ask()


@pytest.mark.slow
def test_large_squares_have_derivatives_in_chunks():
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(1, 18, 18)), requires_grad=True)
    along = torch.tensor(rng.normal(size=(18, 18)))
    (grad,) = torch.autograd.grad((permatch.nn.marginals(scores)[0] * along).sum(), scores)
    step = 1e-6
    ends = [permatch.nn.marginals(scores.detach() + s * along) for s in (step, -step)]
    wanted = (ends[0] - ends[1]) / (2 * step)
    assert (grad - wanted).abs().max() < 1e-8


def test_sparse_squares_are_solved_by_their_components():
    torch.manual_seed(0)
    blocks = torch.full((2, 36, 36), -torch.inf, dtype=torch.float64)
    for at in range(0, 36, 3):
        blocks[:, at : at + 3, at : at + 3] = torch.randn(2, 3, 3)
    blocks.requires_grad_()
    found = permatch.nn.marginals(blocks)
    (grad,) = torch.autograd.grad((found**2).sum(), blocks)
    alone = blocks.detach()[:, 3:6, 3:6].clone().requires_grad_()
    wanted = permatch.nn.marginals(alone)
    torch.testing.assert_close(found[:, 3:6, 3:6], wanted)
    (own,) = torch.autograd.grad((wanted**2).sum(), alone)
    torch.testing.assert_close(grad[:, 3:6, 3:6], own)


# ---- messages


def refuses(error, words, *given, **options):
    with pytest.raises(error, match=words):
        permatch.nn.infer(*given, **options)


def test_messages_about_types_and_shapes():
    refuses(ScoreTypeError, r"scores must be a tensor; got ndarray", np.zeros((2, 2)))
    refuses(
        ScoreTypeError, r"floating-point type; got torch.int64", torch.zeros(2, 2).long()
    )
    refuses(ScoreShapeError, r"\(\.\.\., n, k\).*got shape \(3,\)", torch.zeros(3))
    two = torch.zeros(2, 2)
    refuses(ScoreTypeError, r"real; use scores\.real", two.to(torch.complex64))
    refuses(ScoreTypeError, "For allowed edges use mask=", two.bool())
    refuses(ScoreTypeError, "unmatched_left must be a number", two, "much")
    refuses(
        ScoreTypeError,
        r"got ndarray. Use torch\.as_tensor\(unmatched_right\)",
        two,
        0.0,
        np.zeros(2),
    )
    refuses(ScoreTypeError, "got bool. Use 0.0 where nodes may stay", two, True)
    refuses(
        ScoreShapeError, r"in its last dimension, 2; got shape \(3,\)", two, torch.zeros(3)
    )
    refuses(
        ScoreShapeError,
        r"batch dimensions .* got \(4,\), \(3,\)",
        torch.zeros(4, 2, 2),
        torch.zeros(3, 2),
    )
    refuses(InvalidOptionError, r"float32. Use mask\.bool", two, mask=two)
    refuses(
        InvalidOptionError,
        r"got ndarray. Use torch\.as_tensor\(mask, dtype=torch\.bool\)",
        two,
        mask=np.ones((2, 2), dtype=bool),
    )
    refuses(
        ScoreShapeError,
        r"mask must end in the shape of a graph.*left_mask",
        two,
        mask=torch.ones(2, 1, dtype=torch.bool),
    )


def test_arrays_are_not_made_of_tensors_that_have_gradients():
    scores = torch.zeros(3, 3, requires_grad=True)
    for ask in (
        lambda: pm.infer(scores),
        lambda: pm.infer([scores, scores]),
        lambda: pm.infer(np.zeros((3, 3)), unmatched_left=scores[0]),
        lambda: pm.MatchingDistribution(scores),
    ):
        with pytest.raises(ScoreTypeError, match=r"Use \.detach\(\), or permatch\.nn"):
            ask()
    assert pm.infer(scores.detach()).log_partition == pytest.approx(np.log(6.0))


def test_messages_about_values():
    scores = torch.zeros(3, 2, 2)
    scores[1, 0, 1] = torch.nan
    refuses(NaNScoreError, r"got 1 of them, the first at entry \(0, 1\) of graph 1", scores)
    scores[1, 0, 1] = torch.inf
    refuses(InfiniteScoreError, r"got inf at entry \(0, 1\) of graph 1", scores)
    refuses(NaNScoreError, "unmatched_right must not", torch.zeros(2, 2), 0.0, torch.nan)


def test_infeasible_graphs_are_named():
    scores = torch.zeros(3, 3, 3)
    scores[2, :2, 1:] = -torch.inf
    refuses(InfeasibleGraphError, "graph 2", scores)
    scores[1, 0] = -torch.inf
    refuses(InfeasibleGraphError, "graph 1", scores, -torch.inf, 0.0)


def test_graphs_that_are_too_large_are_refused():
    refuses(SizeLimitError, r"is exact.*at most 30 nodes.*40 x 40", torch.zeros(40, 40))
    refuses(SizeLimitError, r"graph 0, of 40 x 41 nodes", torch.zeros(40, 41), 0.0, 0.0)


def test_messages_about_matchings():
    scores = torch.zeros(2, 3, 3)
    for matching, words in (
        ([0, 1, 2], "tensor of an integer type.*got list"),
        (torch.zeros(2, 3), "got torch.float32"),
        (torch.zeros(2, 2).long(), r"shape \(\.\.\., 3\); got shape \(2, 2\)"),
        (torch.tensor([0, 1, 3]), "from 0 to 2, .* got 3 at left node 2 of matching 0"),
        (torch.tensor([[0, 1, 2], [0, 2, 2]]), "right node 2 2 times in matching 1"),
    ):
        with pytest.raises(InvalidMatchingError, match=words):
            permatch.nn.log_prob(scores, matching)


# ---- imports


def loaded(statement, names):
    code = f"{statement}\nimport sys\nprint(*(set(sys.modules) & set({names!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_import_loads_no_compiler():
    assert loaded("import permatch.nn", ["numba", "scipy", "sklearn"]) == []


def test_missing_torch_is_reported(monkeypatch):
    monkeypatch.delitem(sys.modules, "permatch.nn")
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(
        MissingDependencyError, match="needs torch: install the extra 'torch'"
    ):
        import_module("permatch.nn")


def test_what_the_gpu_cannot_sum_is_solved_on_the_processor():
    from permatch.nn import _cuda

    # All matchings but the best weigh next to nothing, and scaling by sweeps is slow.
    size = 12
    scores = torch.full((2, size, size), -torch.inf, dtype=torch.float64)
    for i in range(size):
        scores[:, i, i] = 0.0
        scores[0, i, (i + 1) % size] = 30.0
        scores[1, i, (i + 2) % size] = -1.0
    must = torch.full((2, size), -torch.inf, dtype=torch.float64)
    problem = _cuda._Problem.of(scores, must, must)
    along = torch.where(scores > -torch.inf, torch.randn_like(scores), 0.0)
    direction = _cuda._Problem.of(along, 0.0 * along[:, 0], 0.0 * along[:, 0])
    found = problem._solved_on_processor(None)
    expected = pm.infer(list(scores.numpy()))
    np.testing.assert_allclose(found[0], expected.log_partition, atol=1e-10)
    np.testing.assert_allclose(found[1], np.stack(expected.marginals), atol=1e-10)
    slopes = problem._solved_on_processor(direction)
    moved = [problem.scores + step * along for step in (1e-5, -1e-5)]
    ends = [_cuda._Problem.of(z, must, must)._solved_on_processor(None) for z in moved]
    for slope, high, low in zip(slopes, *ends, strict=True):
        np.testing.assert_allclose(slope, (high - low) / 2e-5, atol=1e-8)
    with pytest.raises(NaNScoreError, match="scores must not contain NaN"):
        _cuda._Problem.of(scores * torch.nan, must, must)._solved_on_processor(None)


def test_nan_unmatched_scores_are_seen_on_the_gpu():
    from permatch.nn import _cuda

    scores = torch.zeros(2, 3, 3, dtype=torch.float64)
    must, free = torch.full((2, 3), -torch.inf), torch.zeros(2, 3)
    good = torch.zeros(2, dtype=torch.float64)
    unknown = must.clone().double()
    unknown[1, 2] = torch.nan
    for left, right, name in (
        (unknown, must.double(), "unmatched_left"),
        (must.double(), unknown, "unmatched_right"),
    ):
        problem = _cuda._Problem.of(scores, left, right)
        assert not problem._is_perfect()
        with pytest.raises(NaNScoreError, match=rf"{name} .* entry \(2,\) of graph 1"):
            problem._are_good(good)
    assert _cuda._Problem.of(scores, must.double(), must.double())._are_good(good)
    assert _cuda._Problem.of(scores, free.double(), must.double())._are_good(good)
    assert not _cuda._Problem.of(scores, None, None)._are_good(good + torch.inf)
    # the columns are the smaller side: what is refused is named as it was given
    wide = torch.zeros(2, 3, 4, dtype=torch.float64), unknown, torch.zeros(2, 4).double()
    with pytest.raises(NaNScoreError, match="unmatched_left must not"):
        _cuda._Problem.of(*wide)._solved_on_processor(None)


def test_large_graphs_that_lose_digits_on_the_gpu_are_refused_in_words_that_fit():
    from permatch.nn import _cuda

    problem = _cuda._Problem.of(torch.zeros(1, 34, 34, dtype=torch.float64), None, None)
    with pytest.raises(
        SizeLimitError, match="34 x 34 nodes on the GPU lost .* Forbid edges"
    ):
        problem._solved_on_processor(None)


def test_odd_matchings_are_refused_or_taken():
    scores = torch.zeros(3, 2, 2)
    with pytest.raises(InvalidMatchingError, match="batch dimensions of the scores"):
        permatch.nn.log_prob(scores, torch.zeros(2, 2, dtype=torch.int64))
    with pytest.raises(InvalidMatchingError, match=r"Use matching\.long"):
        permatch.nn.log_prob(scores, torch.zeros(3, 2))
    mask = torch.ones(3, 2, 2, dtype=torch.bool)
    labels = torch.tensor([0, 1], dtype=torch.uint8).expand(3, 2)
    mask[0, 1], mask[0, :, 1] = False, False
    assert permatch.nn.log_prob(scores, labels, mask=mask)[0] == 0.0
    empty = permatch.nn.MatchingDistribution(torch.zeros(0, 2, 2))
    assert empty.mode.shape == empty.bayes_matching().shape == (0, 2)
    assert empty.sample((4,)).shape == (4, 0, 2)
