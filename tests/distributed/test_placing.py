"""Shards are moved so that all threads have as much to do, and no more than that takes."""

import numpy as np
import pytest

from permatch.distributed.placing import place


@pytest.mark.parametrize("seed", range(20))
def test_no_thread_has_more_than_its_share_and_one_shard(seed):
    rng = np.random.default_rng(seed)
    workers = [f"w{k}" for k in range(int(rng.integers(1, 6)))]
    threads = {worker: int(rng.integers(1, 4)) for worker in workers}
    sizes = rng.integers(1, 100, size=40).tolist()
    homes = rng.choice(workers, size=40).tolist()
    placed = place(sizes, homes, threads)
    share = sum(sizes) / sum(threads.values())
    for worker, n_threads in threads.items():
        load = sum(n for n, own in zip(sizes, placed, strict=True) if own == worker)
        assert load <= share * n_threads + max(sizes)


def test_even_shards_stay_where_they_are():
    homes = ["a", "b"] * 10
    assert place([7] * 20, homes, {"a": 1, "b": 1}) == homes


def test_one_too_many_is_all_that_moves():
    homes = ["a"] * 11 + ["b"] * 9
    placed = place([5] * 20, homes, {"a": 2, "b": 2})
    assert placed.count("a") == 10
    assert sum(a != b for a, b in zip(homes, placed, strict=True)) == 1


def test_shards_of_a_lost_worker_go_elsewhere():
    assert set(place([3, 3, 3], ["", "gone", "a"], {"a": 1, "b": 1})) == {"a", "b"}
