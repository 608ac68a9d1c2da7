"""One graph, a stack, or a list of graphs; threads; what the diagnostics say."""

import numpy as np
import pytest

import permatch as pm
from tests.helpers import ENGINES, random_scores

every_engine = pytest.mark.parametrize("case", ENGINES, ids=str)


@every_engine
def test_stack_equals_one_by_one(case, rng):
    stack = np.stack([random_scores(rng, 6, 3.0, 0.2) for _ in range(11)])
    together = case.engine.infer(stack)
    assert together.log_partition.shape == (11,)
    for k, scores in enumerate(stack):
        alone = case.engine.infer(scores)
        assert isinstance(alone.log_partition, float)
        assert together.log_partition[k] == alone.log_partition
        if case.has_marginals:
            np.testing.assert_array_equal(together.marginals[k], alone.marginals)


@every_engine
def test_ragged_list_keeps_its_order(case, rng):
    graphs = [random_scores(rng, size) for size in (3, 5, 0, 3, 1, 5, 8)]
    together = case.engine.infer(graphs)
    assert len(together.diagnostics.parts) == 5
    assert together.diagnostics.n_graphs == 7
    for k, scores in enumerate(graphs):
        alone = case.engine.infer(scores)
        assert together.log_partition[k] == alone.log_partition
        if case.has_marginals:
            np.testing.assert_array_equal(together.marginals[k], alone.marginals)
    assert (together.marginals is None) == (not case.has_marginals)


@every_engine
@pytest.mark.parametrize("size", [4, 8, 12, 19])
def test_threads_change_no_bit(case, size, rng):
    if size > case.largest:
        pytest.skip(f"{case} is for smaller graphs")
    n_graphs = 5000 if size <= 4 and case.engine.name != "enumeration" else 3
    stack = np.stack([random_scores(rng, size, 2.0, 0.1) for _ in range(n_graphs)])
    one = case.engine.infer(stack, n_jobs=1)
    for n_jobs in (2, 3, 8, -1):
        other = case.engine.infer(stack, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.log_partition, one.log_partition)
        if case.has_marginals:
            np.testing.assert_array_equal(other.marginals, one.marginals)


@every_engine
def test_no_graphs(case):
    assert case.engine.infer([]).log_partition.shape == (0,)
    assert case.engine.infer(np.zeros((0, 3, 3))).log_partition.shape == (0,)


def test_other_forms_of_input(rng):
    scores = random_scores(rng, 4)
    expected = pm.infer(scores)
    nested = pm.infer(scores.tolist())
    assert nested.log_partition == expected.log_partition
    assert pm.infer(np.asfortranarray(scores)).log_partition == expected.log_partition
    half = pm.infer(scores.astype(np.float32))
    assert half.log_partition == pytest.approx(expected.log_partition, rel=1e-6)
    whole = pm.infer(np.arange(9).reshape(3, 3))
    assert whole.log_partition == pm.infer(np.arange(9.0).reshape(3, 3)).log_partition
    as_objects = np.empty(2, dtype=object)
    as_objects[:] = [scores, random_scores(rng, 3)]
    assert pm.infer(as_objects).log_partition[0] == expected.log_partition


def test_auto_says_what_it_picked_and_why():
    told = pm.infer(np.zeros((9, 9))).diagnostics
    assert told.engine == "glynn"
    assert told.reason == "auto: the fastest exact engine at size 9 is glynn"
    assert told.seconds > 0


def test_input_is_left_alone(rng):
    scores = random_scores(rng, 9, 5.0)
    before = scores.copy()
    for case in ENGINES:
        if case.largest >= 9:
            case.engine.infer(scores)
    np.testing.assert_array_equal(scores, before)


def test_progress_bar_on_request(rng, capsys):
    pm.infer(random_scores(rng, 19), n_jobs=2, progress=True)
    assert "Glynn" in capsys.readouterr().err


def test_functions_return_the_same_as_infer(rng):
    stack = np.stack([random_scores(rng, 4), random_scores(rng, 4)])
    result = pm.infer(stack)
    np.testing.assert_array_equal(pm.log_partition(stack), result.log_partition)
    np.testing.assert_array_equal(pm.marginals(stack), result.marginals)
