"""On a cluster of two workers: shards, links, matchings; one is killed in mid-fit."""

import os
import signal
from operator import attrgetter

import dask.dataframe
import numpy as np
import pandas as pd
import pytest

import permatch as pm
from permatch._tables import Roles
from permatch.distributed import open_queries
from permatch.distributed.dask_shards import DaskShards
from permatch.linking import link_parts
from permatch.objectives.sharded import ShardedLikelihood
from tests.distributed.test_matching_parts import make_table, weights_in_memory

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # what Dask warns of is not of interest here
]


@pytest.fixture(scope="module")
def client():
    """Return the client of two processes, which are started again when they die."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_one(client):
    """Kill one of the workers."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def test_links_are_those_of_one_machine(client, tmp_path, monkeypatch):
    monkeypatch.setattr(link_parts, "PER_PART", 100)
    rng = np.random.default_rng(3)
    left = np.repeat(np.arange(200), 3)
    right = left // 6 * 6 + rng.integers(0, 2, 600) + np.tile([0, 2, 4], 200)
    pairs = pd.DataFrame({"left": left, "right": right, "probability": rng.beta(1, 3, 600)})
    pairs = pairs.sample(frac=1.0, random_state=1, ignore_index=True)
    expected = pm.link(pairs)
    frame = dask.dataframe.from_pandas(pairs, npartitions=4, sort=False)
    links = pm.link(frame, out=tmp_path / "out")
    found = links.to_links()
    assert links.offset == expected.offset
    for name in expected.columns:
        assert found[name].tolist() == expected[name].tolist(), name


def test_shards_are_spread_evenly_and_dask_knows_their_size(client):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(800, 30)), rng.integers(0, 3, 800)
    qid = np.repeat(np.arange(80), 10)
    parts = [(X[k : k + 100], y[k : k + 100], qid[k : k + 100]) for k in range(0, 800, 100)]
    held = client.scatter(parts, workers=[next(iter(client.nthreads()))])
    shards = open_queries([dask.delayed(part) for part in held], Roles()).shards
    assert isinstance(shards, DaskShards)
    assert shards.map(attrgetter("n_documents")) == [100] * 8
    homes = [own for (own,) in client.who_has(shards.delayed).values()]
    assert sorted(homes.count(own) for own in set(homes)) == [4, 4]
    sizes = client.run_on_scheduler(
        lambda dask_scheduler, keys: [dask_scheduler.tasks[key].nbytes for key in keys],
        keys=[own.key for own in shards.delayed],
    )
    assert min(sizes) > 100 * 30 * 8


def test_a_worker_killed_in_mid_fit_costs_no_more_than_time(client, monkeypatch):
    table = make_table(is_square=False)
    model = pm.MAPMatching(0.1, tol=1e-9)
    expected = weights_in_memory(model, table)
    frame = dask.dataframe.from_pandas(table, npartitions=6, sort=False)
    whole = model.fit(frame)._weights().copy()
    evaluate, calls = ShardedLikelihood.evaluate, []

    def evaluated(self, coef):
        calls.append(coef)
        if len(calls) == 3:
            kill_one(client)
        return evaluate(self, coef)

    monkeypatch.setattr(ShardedLikelihood, "evaluate", evaluated)
    found = model.fit(frame)._weights()
    assert len(calls) > 3
    assert np.array_equal(found, whole)
    assert np.allclose(found, expected, rtol=0.0, atol=1e-9)
