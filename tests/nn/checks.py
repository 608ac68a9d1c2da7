"""What holds of `permatch.nn` on any device: run on the CPU, and on CUDA if there is any.

Every check takes a device.  Only NumPy, PyTorch, pytest and permatch are imported.
"""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import permatch as pm
import permatch.nn
from permatch.errors import NaNScoreError
from permatch.nn import _ops
from tests.brute_force import all_matchings

TOL = {torch.float64: 1e-10, torch.float32: 2e-5}
MUST = -math.inf


def enumerated(scores, left, right):
    """Log-partition, probabilities and covariances of one small graph, one by one."""
    n, k = scores.shape
    matchings, totals = all_matchings(scores, left, right)
    top = totals.max()
    weights = np.exp(totals - top)
    p = weights / weights.sum()
    rows = np.zeros((len(p), n * k + n + k))
    for r, matching in enumerate(matchings):
        table = np.zeros((n, k))
        for i, j in enumerate(matching):
            if j >= 0:
                table[i, j] = 1.0
        rows[r] = np.r_[table.ravel(), matching < 0, table.sum(axis=0) == 0]
    mean = p @ rows
    covariance = (rows * p[:, None]).T @ rows - np.outer(mean, mean)
    log_partition = top + math.log(weights.sum())
    parts = np.split(mean, [n * k, n * k + n])
    return log_partition, parts[0].reshape(n, k), *parts[1:], covariance, matchings, totals


def by_default(n, k):
    """The unmatched scores that None stands for."""
    return np.full(n, 0.0 if n > k else MUST), np.full(k, 0.0 if k > n else MUST)


def graphs(rng, b, n, k, *, spread=1.0, forbidden=0.0, unmatched="none"):
    """A batch of feasible graphs, and what to hand over for their unmatched scores."""
    scores = spread * rng.normal(size=(b, n, k))
    is_forbidden = rng.random((b, n, k)) < forbidden
    keep = np.arange(min(n, k))
    is_forbidden[:, keep, keep] = False
    scores[is_forbidden] = MUST
    left, right = (np.tile(own, (b, 1)) for own in by_default(n, k))
    given = None, None
    if unmatched == "all":
        left, right = spread * rng.normal(size=(b, n)), spread * rng.normal(size=(b, k))
        given = left, right
    if unmatched == "some":
        left, right = rng.normal(size=(b, n)), rng.normal(size=(b, k))
        left[:, 0], right[:, min(1, k - 1)] = MUST, MUST
        given = left, right
    return scores, left, right, given


#: Shapes of graphs, and what is special about them.
TABLE = {
    "square": {"n": 4, "k": 4},
    "one": {"n": 1, "k": 1},
    "square, forbidden edges": {"n": 5, "k": 5, "forbidden": 0.4},
    "more right nodes": {"n": 3, "k": 5},
    "more left nodes": {"n": 5, "k": 3, "forbidden": 0.2},
    "all may stay unmatched": {"n": 4, "k": 3, "unmatched": "all"},
    "some must be matched": {"n": 4, "k": 4, "unmatched": "some", "forbidden": 0.2},
    "spread 300": {"n": 5, "k": 5, "spread": 300.0},
    "spread 300, unmatched": {"n": 4, "k": 4, "spread": 300.0, "unmatched": "all"},
}


def tensors(device, *arrays, dtype=torch.float64):
    return [
        None if one is None else torch.tensor(one, dtype=dtype, device=device)
        for one in arrays
    ]


def close(found, wanted, tol):
    wanted = np.asarray(wanted)
    found = found.detach().cpu().double().numpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol)


def agrees_with_enumeration(device, name, dtype):
    rng = np.random.default_rng(5)
    scores, left, right, given = graphs(rng, 4, **TABLE[name])
    if dtype == torch.float32:  # the oracle sees the rounded numbers too
        scores, left, right = (
            a.astype(np.float32).astype(float) for a in (scores, left, right)
        )
    wanted = [enumerated(*graph) for graph in zip(scores, left, right, strict=True)]
    table, *sides = tensors(device, scores, *given, dtype=dtype)
    n, k = scores.shape[1:]
    stacked = [None if one is None else one.reshape(2, 2, -1) for one in sides]
    found = permatch.nn.infer(table.reshape(2, 2, n, k), *stacked)
    tol = TOL[dtype]
    for own, place in zip(found, range(4), strict=True):
        assert own.dtype == dtype
        assert own.device.type == torch.device(device).type
        expected = np.stack([one[place] for one in wanted])
        close(own, expected.reshape(2, 2, *expected.shape[1:]), tol)
    for g, (log_partition, *_, matchings, totals) in enumerate(wanted):
        own = [None if one is None else one[g] for one in sides]
        every = torch.tensor(matchings, device=device)
        log_prob = permatch.nn.log_prob(table[g], every, *own)
        # Differences of large numbers keep the digits of the large ones.
        scale = tol * max(1.0, np.abs(totals).max())
        np.testing.assert_allclose(
            log_prob.cpu().double().numpy(), totals - log_partition, atol=scale, rtol=tol
        )


def derivatives_agree_with_enumeration(device, name):
    rng = np.random.default_rng(6)
    scores, left, right, _ = graphs(rng, 3, **TABLE[name])
    n, k = scores.shape[1:]
    z = [one.requires_grad_() for one in tensors(device, scores, left, right)]
    found = permatch.nn.infer(*z)
    along = [rng.normal(size=one.shape) for one in (scores, left, right)]
    pulled = sum(
        (p * v).sum() for p, v in zip(found[1:], tensors(device, *along), strict=True)
    )
    first = torch.autograd.grad(found.log_partition.sum(), z, retain_graph=True)
    second = torch.autograd.grad(pulled, z)
    for g in range(3):
        one = enumerated(scores[g], left[g], right[g])
        flat = np.concatenate([v[g].ravel() for v in along])
        slopes = np.split(one[4] @ flat, [n * k, n * k + n])
        for grad, wanted in zip(first, one[1:4], strict=True):
            close(grad[g], wanted, 1e-10)
        for grad, wanted in zip(second, slopes, strict=True):
            close(grad[g], wanted.reshape(grad[g].shape), 1e-9)


def passes_gradcheck(device):
    rng = np.random.default_rng(7)
    for options in (
        {"n": 3, "k": 3},
        {"n": 2, "k": 3},
        {"n": 3, "k": 2, "unmatched": "all"},
    ):
        scores, _, _, given = graphs(rng, 2, **options)
        z = [
            one.requires_grad_()
            for one in tensors(device, scores, *given)
            if one is not None
        ]
        assert gradcheck(permatch.nn.log_partition, z)
        assert gradgradcheck(permatch.nn.log_partition, z)
        assert gradcheck(lambda *z: tuple(permatch.nn.infer(*z)[1:]), z)
        matching = torch.tensor([[0, 1, -1][: scores.shape[1]]] * 2, device=device)
        if options["n"] != options["k"]:
            assert gradcheck(
                lambda *z, m=matching: permatch.nn.log_prob(z[0], m, *z[1:]), z
            )


def padding_changes_nothing(device, unmatched):
    """Graphs of different sizes in one batch, with rubbish in the padding."""
    rng = np.random.default_rng(8)
    sizes = [(3, 3), (1, 1), (4, 4), (0, 0), (2, 2)]
    if unmatched != "square":
        sizes = [(3, 2), (1, 4), (4, 4), (0, 3), (2, 2)]
    rubbish = [np.nan, np.inf, 1e300, -1.0]
    scores = rng.choice(rubbish, size=(5, 4, 4))
    mask = np.zeros((5, 4, 4), dtype=bool)
    own = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    padded = tuple(one.copy() for one in own)
    rows, cols = [], []
    for g, (n, k) in enumerate(sizes):  # padding anywhere, not only at the end
        rows.append(np.sort(rng.permutation(4)[:n]))
        cols.append(np.sort(rng.permutation(4)[:k]))
        place = np.ix_([g], rows[g], cols[g])
        scores[place], mask[place] = rng.normal(size=(1, n, k)), bool(n and k)
    if unmatched == "all":
        for one, kept in zip(padded, (rows, cols), strict=True):
            for g, nodes in enumerate(kept):
                lost = np.setdiff1d(np.arange(4), nodes if sizes[g][0] else [])
                one[g, lost] = np.nan
    table = torch.tensor(scores, device=device, requires_grad=True)
    given = [None, None]
    if unmatched == "all":
        given = [one.requires_grad_() for one in tensors(device, *padded)]
    found = permatch.nn.infer(table, *given, mask=torch.tensor(mask, device=device))
    loss = found.log_partition.sum() + (found.marginals**2).sum()
    loss = loss + (found.unmatched_left**2).sum()
    loss.backward()
    assert not table.grad[~torch.tensor(mask, device=device)].any()
    for g, (n, k) in enumerate(sizes):
        if not (n and k):
            assert found.log_partition[g] == 0.0
            assert not found.unmatched_right[g].any()
            continue
        place = np.ix_(rows[g], cols[g])
        alone = torch.tensor(scores[g][place], device=device, requires_grad=True)
        sides = [None, None]
        if unmatched == "all":
            kept = own[0][g, rows[g]], own[1][g, cols[g]]
            sides = [one.requires_grad_() for one in tensors(device, *kept)]
        one = permatch.nn.infer(alone, *sides)
        (
            one.log_partition + (one.marginals**2).sum() + (one.unmatched_left**2).sum()
        ).backward()
        close(found.log_partition[g], one.log_partition.item(), 1e-12)
        close(found.marginals[g][place], one.marginals.detach().cpu(), 1e-12)
        close(table.grad[g][place], alone.grad.cpu(), 1e-12)
        assert torch.isclose(found.marginals[g].sum(), one.marginals.sum())
        for side, nodes, values in zip(given, (rows[g], cols[g]), sides, strict=True):
            if side is not None:
                close(side.grad[g, nodes], values.grad.cpu(), 1e-12)
    assert all(torch.isfinite(side.grad).all() for side in given if side is not None)


def laws_hold(device):
    rng = np.random.default_rng(9)
    scores, left, right, _ = graphs(rng, 3, n=4, k=5, forbidden=0.2, unmatched="all")
    table, u, v = tensors(device, scores, left, right)
    found = permatch.nn.infer(table, u, v)
    # every node is matched or not
    close(found.marginals.sum(2) + found.unmatched_left, np.ones((3, 4)), 1e-12)
    close(found.marginals.sum(1) + found.unmatched_right, np.ones((3, 5)), 1e-12)
    turned = permatch.nn.infer(table.mT, v, u)
    close(turned.marginals.mT, found.marginals.cpu(), 1e-12)
    order = torch.tensor([2, 0, 3, 1], device=device)
    mixed = permatch.nn.infer(table[:, order], u[:, order], v)
    close(mixed.marginals, found.marginals[:, order].cpu(), 1e-12)
    shift = torch.tensor([3.0, -1.0, 0.5, 2.0], device=device, dtype=torch.float64)
    moved = permatch.nn.infer(table + shift[:, None], u + shift, v)
    close(moved.log_partition, (found.log_partition + shift.sum()).cpu(), 1e-12)
    close(moved.marginals, found.marginals.cpu(), 1e-12)


def agrees_with_numpy(device, size):
    """Larger graphs than enumeration takes, with forbidden edges, spread 1 to 100."""
    rng = np.random.default_rng(size)
    for spread in (1.0, 10.0, 100.0):
        scores, *_ = graphs(rng, 2, size, size, spread=spread, forbidden=0.2)
        wanted = pm.infer(scores)
        found = permatch.nn.infer(torch.tensor(scores, device=device))
        close(found.log_partition, wanted.log_partition, 1e-10)
        close(found.marginals, wanted.marginals, 1e-10)


def forbidden_edges_have_no_gradient(device):
    scores = torch.zeros(2, 3, 3, device=device, dtype=torch.float64)
    scores[:, 0, 1] = -torch.inf
    scores.requires_grad_()
    found = permatch.nn.infer(scores)
    # the slope of the log is infinite at probability 0
    loss = found.log_partition.sum() - found.marginals.log().clamp(min=-5.0).sum()
    (grad,) = torch.autograd.grad(loss, scores, retain_graph=True)
    assert torch.isfinite(grad).all()
    assert not grad[:, 0, 1].any()
    (grad,) = torch.autograd.grad(found.marginals.log()[:, 1:].sum(), scores)
    assert torch.isfinite(grad).all()
    (grad,) = torch.autograd.grad(permatch.nn.marginals(scores).log().sum(), scores)
    assert torch.isfinite(grad).all()
    impossible = torch.tensor([[1, 0, 2], [0, 1, 2]], device=device)
    log_prob = permatch.nn.log_prob(scores, impossible)
    assert log_prob[0] == -torch.inf
    (grad,) = torch.autograd.grad(log_prob.sum(), scores)
    assert not grad[0].any()
    assert torch.isfinite(grad).all()


def certain_edges_have_finite_gradients(device):
    """Entropies of edges have infinite slopes where a probability is 0 or 1."""
    only = torch.zeros(3, 3, dtype=torch.float64)
    only[0, 1] = only[0, 2] = only[1, 2] = -torch.inf  # allowed edges that cannot be used
    peaked = 800.0 * torch.eye(3, dtype=torch.float64)  # and some that underflow
    mixed = torch.zeros(3, 3, dtype=torch.float64)
    mixed[0, 1] = mixed[0, 2] = -torch.inf
    for scores in (only, peaked, mixed):
        own = scores.clone().to(device).requires_grad_()
        p = permatch.nn.marginals(own)
        loss = torch.special.entr(p).sum() + torch.special.entr(1.0 - p).sum()
        (grad,) = torch.autograd.grad(loss, own)
        assert torch.isfinite(grad).all()
        close(grad, np.zeros((3, 3)), 1e-12)
    # uneven where it is not certain: as if that part were alone
    mixed[1, 1] = 1.0
    alone = mixed[1:, 1:].clone().to(device).requires_grad_()
    whole = mixed.to(device).requires_grad_()
    grads = [
        torch.autograd.grad(torch.special.entr(permatch.nn.marginals(z)).sum(), z)[0]
        for z in (alone, whole)
    ]
    assert grads[0].abs().max() > 0.01
    close(grads[1][1:, 1:], grads[0].cpu(), 1e-12)


def hessian_products_agree(device):
    """Those of `torch.autograd.functional` and of `torch.func`: no third derivative."""
    rng = np.random.default_rng(12)
    scores, along = tensors(device, *rng.normal(size=(2, 4, 4)))
    must = np.full(4, MUST)
    covariance = enumerated(scores.cpu().numpy(), must, must)[4][:16, :16]
    wanted = (covariance @ along.cpu().numpy().ravel()).reshape(4, 4)
    matching = torch.tensor([1, 0, 3, 2], device=device)
    functional, log_partition = torch.autograd.functional, permatch.nn.log_partition
    for products in (
        functional.hvp(log_partition, scores, along),
        functional.vhp(log_partition, scores, along),
        functional.jvp(permatch.nn.marginals, scores, along),
        functional.hvp(lambda z: permatch.nn.MatchingNLL()(z, matching), scores, along),
        torch.func.jvp(torch.func.grad(log_partition), (scores,), (along,)),
    ):
        close(products[1], wanted, 1e-12)


def transforms_work(device):
    rng = np.random.default_rng(10)
    (scores,) = tensors(device, rng.normal(size=(2, 3, 4, 4)))
    plain = permatch.nn.infer(scores)
    mapped = torch.func.vmap(torch.func.vmap(permatch.nn.log_partition))(scores)
    close(mapped, plain.log_partition.cpu(), 1e-12)
    grad = torch.func.grad(lambda s: permatch.nn.log_partition(s).sum())(scores)
    close(grad, plain.marginals.cpu(), 1e-12)
    each = torch.func.vmap(torch.func.grad(permatch.nn.log_partition))(scores[0])
    close(each, plain.marginals[0].cpu(), 1e-12)
    one = scores[0, 0]
    hessian = torch.func.hessian(permatch.nn.log_partition)(one)
    twice = torch.func.jacrev(torch.func.jacrev(permatch.nn.log_partition))(one)
    slopes = torch.func.jacrev(permatch.nn.marginals)(one)
    forward = torch.func.jacfwd(permatch.nn.marginals)(one)
    must = np.full(4, MUST)
    covariance = enumerated(one.cpu().numpy(), must, must)[4][:16, :16].reshape(4, 4, 4, 4)
    for found in (hessian, twice, slopes, forward):
        close(found, covariance, 1e-10)
    with torch.inference_mode():
        for found, wanted in zip(permatch.nn.infer(scores), plain, strict=True):
            close(found, wanted.cpu(), 0.0)
        close(torch.func.vmap(permatch.nn.marginals)(scores), plain.marginals.cpu(), 1e-12)
    shared = torch.func.vmap(permatch.nn.log_prob, in_dims=(None, 0))
    matchings = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]], device=device)
    close(shared(one, matchings), permatch.nn.log_prob(one, matchings).cpu(), 1e-12)


def compiles(device, backend):
    rng = np.random.default_rng(11)
    (scores,) = tensors(device, rng.normal(size=(3, 4, 4)), dtype=torch.float32)
    mask = torch.ones(3, 4, 4, dtype=torch.bool, device=device)
    mask[0, 3], mask[0, :, 3] = False, False
    matching = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]], device=device)
    matching[0, 3] = -1

    def step(scores):
        loss = permatch.nn.MatchingNLL()(scores, matching, mask=mask)
        found = permatch.nn.infer(scores, 0.5, 0.5, mask)
        return loss + (found.marginals**2).sum() + found.unmatched_left.sum()

    grads = []
    for run in (step, torch.compile(step, fullgraph=True, backend=backend)):
        own = scores.clone().requires_grad_()
        loss = run(own)
        loss.backward()
        grads.append((loss.detach(), own.grad))
    for found, wanted in zip(*grads, strict=True):
        close(found, wanted.cpu(), 1e-5)


def passes_opcheck(device):
    torch.manual_seed(0)
    table = {"dtype": torch.float64, "device": device}
    scores, *along = (torch.randn(2, 3, 3, **table) for _ in range(2))
    must = torch.full((2, 3), -torch.inf, **table)
    sides = [torch.randn(2, 3, **table) for _ in range(2)]
    for problem in ([scores, must, must.clone()], [scores, *sides]):
        one, *others = (values.clone().requires_grad_() for values in problem)
        torch.library.opcheck(_ops.infer_op, (one, *others))
        direction = (values.clone().requires_grad_() for values in (*along, *sides))
        torch.library.opcheck(_ops.tangents_op, (*problem, *direction))
    matching = torch.tensor([[0, -1, 1]], device=device)
    torch.library.opcheck(_ops.count_partners, (matching, 3))


def unknown_scores_are_refused(device):
    """NaN is not taken for -inf, which is below all numbers as well."""
    scores = torch.zeros(2, 3, 3, dtype=torch.float64, device=device)
    must = torch.full((2, 3), -torch.inf, dtype=torch.float64, device=device)
    unknown = must.clone()
    unknown[1, 2] = torch.nan
    for given, name in (
        ((scores * torch.nan, None, None), "scores"),
        ((scores, unknown, must), "unmatched_left"),
        ((scores, must, unknown), "unmatched_right"),
        ((scores[:, :2], unknown[:, :2] * torch.nan, 0.0), "unmatched_left"),
    ):
        with pytest.raises(NaNScoreError, match=f"{name} must not contain NaN"):
            permatch.nn.infer(*given)


def trains(device):
    """A network learns which points are the same, and its loss becomes small."""
    torch.manual_seed(0)
    points = torch.rand(16, 6, 2, device=device)
    order = torch.stack([torch.randperm(6, device=device) for _ in range(16)])
    moved = torch.empty_like(points).scatter_(1, order[..., None].expand(-1, -1, 2), points)
    network = torch.nn.Linear(2, 8, bias=False, device=device)
    loss_of, losses = permatch.nn.MatchingNLL(), []
    for _ in range(30):
        scores = -(torch.cdist(network(points), network(moved)) ** 2)
        loss = loss_of(scores, order)
        network.zero_grad()
        loss.backward()
        with torch.no_grad():
            network.weight -= 0.5 * network.weight.grad
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
