"""The losses of `permatch.nn`: their reductions, and whole lists against enumeration."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")

import torch

import permatch.nn
from permatch.errors import (
    DerivativeError,
    GradeError,
    InvalidOptionError,
    NaNScoreError,
    ScoreShapeError,
)
from permatch.nn import _lists
from permatch.objectives.whole_list import WholeListLikelihood


def test_reductions_of_the_likelihood_of_matchings():
    scores, matching = torch.randn(2, 3, 4, 4), torch.arange(4).expand(2, 3, 4)
    each = permatch.nn.MatchingNLL(reduction="none")(scores, matching)
    assert torch.equal(each, -permatch.nn.log_prob(scores, matching))
    assert permatch.nn.MatchingNLL()(scores, matching).item() == pytest.approx(
        each.mean().item()
    )
    total = permatch.nn.MatchingNLL(reduction="sum")(scores, matching)
    assert total.item() == pytest.approx(each.sum().item())
    assert repr(permatch.nn.MatchingNLL("sum")) == "MatchingNLL(reduction='sum')"
    assert permatch.nn.MatchingNLL()(scores[:0], matching[:0]).item() == 0.0
    with pytest.raises(InvalidOptionError, match="'mean', 'sum', 'none'; got 'max'"):
        permatch.nn.MatchingNLL("max")


def test_gradient_is_marginals_less_the_truth():
    scores = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)
    matching = torch.tensor([[0, -1, 2]] * 5)
    permatch.nn.MatchingNLL("sum")(scores, matching, 0.0, 0.0).backward()
    wanted = permatch.nn.marginals(scores.detach(), 0.0, 0.0)
    wanted[:, 0, 0] -= 1.0
    wanted[:, 2, 2] -= 1.0
    torch.testing.assert_close(scores.grad, wanted)


def test_entries_of_padded_nodes_do_not_matter():
    scores, mask = torch.randn(2, 3, 3), torch.zeros(2, 3, 3, dtype=torch.bool)
    mask[:, :2, :2] = True
    loss = permatch.nn.MatchingNLL(reduction="none")
    one = loss(scores, torch.tensor([1, 0, -1]), mask=mask)
    other = loss(scores, torch.tensor([1, 0, 99]), mask=mask)
    assert torch.equal(one, other)
    assert torch.allclose(one, loss(scores[:, :2, :2], torch.tensor([1, 0])))


# ---- whole lists


def enumerated(scores, grades, levels):
    """The loss of one list, by all ways to hand out its grades."""
    totals = [
        sum(levels[g] * s for g, s in zip(given, scores, strict=True))
        for given in set(itertools.permutations(grades))
    ]
    observed = sum(levels[g] * s for g, s in zip(grades, scores, strict=True))
    return math.log(sum(math.exp(t - observed) for t in totals))


@pytest.mark.parametrize("levels", ["grades", "gains", (0.0, 0.5, 4.0)])
def test_whole_lists_agree_with_enumeration(levels):
    rng = np.random.default_rng(1)
    y_true = np.array([[0, 1, 2, 0, 0], [1, 0, 0, -1, -1], [2, -1, 0, 1, 2]])
    y_pred = rng.normal(size=y_true.shape)
    y_pred[y_true < 0] = np.nan
    values = {"grades": (0.0, 1.0, 2.0), "gains": (0.0, 1.0, 3.0)}.get(levels, levels)
    wanted = [
        enumerated(s[g >= 0], g[g >= 0], values)
        for s, g in zip(y_pred, y_true, strict=True)
    ]
    scores = torch.tensor(y_pred, requires_grad=True)
    loss = permatch.nn.RankMatchLoss(levels=levels, form="exact", reduction="none")
    found = loss(scores, torch.tensor(y_true))
    np.testing.assert_allclose(found.detach(), wanted, rtol=1e-10)
    found.sum().backward()
    assert not scores.grad[torch.tensor(y_true < 0)].any()
    clean = torch.tensor(np.nan_to_num(y_pred), requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, torch.tensor(y_true)), (clean,))


def test_forms_are_those_of_the_objective():
    rng = np.random.default_rng(2)
    scores, grades = rng.normal(size=12), rng.integers(0, 3, 12)
    for form in ("exact", "profile", "auto"):
        objective = WholeListLikelihood(
            np.array([0, 12]), grades, np.arange(3.0), np.ones(1), form=form
        )
        value, slope = objective.value_and_slope(scores)
        y_pred = torch.tensor(scores[None], requires_grad=True)
        found = permatch.nn.RankMatchLoss(form=form)(y_pred, torch.tensor(grades[None]))
        found.backward()
        assert found.item() == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(y_pred.grad[0], slope, atol=1e-12)


def test_mean_counts_lists_that_say_something():
    y_pred, y_true = torch.zeros(3, 3), torch.tensor([[1, 0, 0], [0, 0, 0], [1, 0, -1]])
    found = permatch.nn.RankMatchLoss()(y_pred, y_true)
    assert found.item() == pytest.approx((math.log(3.0) + math.log(2.0)) / 2.0)
    masked = permatch.nn.RankMatchLoss()(
        y_pred, torch.tensor([[1.0, 0.0, 0.0]] * 3), torch.tensor([[True, True, False]] * 3)
    )
    assert masked.item() == pytest.approx(math.log(2.0))


@pytest.mark.slow
def test_whole_lists_as_pytorch_asks_for():
    y_true = torch.tensor([[0, 1, 2, -1], [1, 0, 0, 0]])
    y_pred = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    loss = permatch.nn.RankMatchLoss(reduction="sum")
    grades = torch.where(y_true < 0, -torch.inf, y_true.double())
    given = y_pred, grades, "grades", [], "auto"
    # not the sum of all outputs: slopes have no derivative of their own
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(_lists.whole_lists_op, given, test_utils=tests)
    (wanted,) = torch.autograd.grad(loss(y_pred, y_true), y_pred, retain_graph=True)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(y_pred, y_true), y_pred)
    torch.testing.assert_close(found, wanted)
    mapped = torch.func.vmap(torch.func.grad(lambda s, g: loss(s, g)))
    torch.testing.assert_close(mapped(y_pred.detach(), y_true), wanted)
    (grad,) = torch.autograd.grad(loss(y_pred, y_true), y_pred, create_graph=True)
    with pytest.raises(DerivativeError, match="first derivatives only"):
        torch.autograd.grad((grad**2).sum(), y_pred)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_only_reverse_mode_once():
    loss, grades = permatch.nn.RankMatchLoss(), torch.tensor([[1, 0, 0]])
    zeros = torch.zeros(1, 3)
    for ask in (
        lambda: torch.func.hessian(loss)(zeros, grades),
        lambda: torch.func.jvp(lambda z: loss(z, grades), (zeros,), (zeros,)),
        lambda: torch.func.jacrev(torch.func.jacrev(loss))(zeros, grades),
    ):
        with pytest.raises(DerivativeError, match="first derivatives only.*reverse mode"):
            ask()
    along = torch.ones(1, 3)
    _, slope = torch.autograd.functional.jvp(lambda z: loss(z, grades), zeros, along)
    assert slope.item() == pytest.approx(0.0, abs=1e-6)


def test_masks_the_wrong_way_round_are_refused():
    y_pred = torch.zeros(2, 3)
    y_true = torch.tensor([[1, 0, -1], [1, 0, 0]])
    is_padding = y_true == -1
    loss = permatch.nn.RankMatchLoss()
    with pytest.raises(InvalidOptionError, match="True for documents; .* Use ~mask"):
        loss(y_pred, y_true, mask=is_padding)
    wanted = loss(y_pred, y_true)
    assert torch.equal(loss(y_pred, y_true, mask=~is_padding), wanted)
    # masks that leave out everything, or nothing
    assert loss(y_pred, y_true, mask=torch.zeros(2, 3, dtype=torch.bool)).item() == 0.0
    every = torch.ones(2, 3, dtype=torch.bool)
    assert torch.equal(loss(y_pred, y_true, mask=every), wanted)
    assert loss(y_pred, torch.full((2, 3), -1), mask=every).item() == 0.0


def test_messages_about_lists():
    loss, zeros = permatch.nn.RankMatchLoss(), torch.zeros(1, 3)
    grades = torch.tensor([[1, 0, 0]])
    for error, words, given in (
        (
            ScoreShapeError,
            r"y_true must have the shape of y_pred, \(1, 3\)",
            (zeros, grades[0]),
        ),
        (NaNScoreError, "y_pred must not contain NaN; got 3", (zeros + torch.nan, grades)),
        (GradeError, "whole numbers from 0 to 1000.*got 0.5", (zeros, grades * 0.5)),
        (InvalidOptionError, "mask must be of type bool", (zeros, grades, zeros)),
    ):
        with pytest.raises(error, match=words):
            loss(*given)
    with pytest.raises(GradeError, match="or the padding value; got -1"):
        permatch.nn.RankMatchLoss(padding=np.int64(-2))(zeros, torch.tensor([[1, -1, -2]]))
    with pytest.raises(GradeError, match="got 2 levels and the grade 3"):
        permatch.nn.RankMatchLoss(levels=(0.0, 1.0))(zeros, grades * 3)
    for options, words in (
        ({"levels": "none"}, "levels must be 'grades' or 'gains'"),
        ({"levels": 5}, "levels must be .* one number per grade, two at least, .* got 5"),
        ({"levels": [1.0]}, r"one number per grade, two at least, .* got \[1\.0\]"),
        ({"levels": None}, "levels must be .* one number per grade, .* got None"),
        ({"padding": -1.0}, r"padding must be a whole number below 0.* got -1\.0"),
        ({"form": "short"}, "form must be"),
        ({"padding": 0}, "padding must be a whole number below 0"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            permatch.nn.RankMatchLoss(**options)
