"""Which worker of a cluster keeps which shard.

Partitions lie where they were read.  All are gone through in every pass of a fit, so a pass
takes as long as the worker with the most rows; a few shards are moved, once.
"""

from collections.abc import Mapping, Sequence


def place(
    sizes: Sequence[int], homes: Sequence[str], threads: Mapping[str, int]
) -> list[str]:
    """Return a worker for every shard, so that all threads have about as much to do.

    Shards stay at home as long as it has room for half of them; the others go where most
    room is left, the largest first.

    Parameters
    ----------
    sizes : sequence of int
        Rows of every shard.
    homes : sequence of str
        The worker of every shard.
    threads : mapping of str to int
        Threads of every worker.

    Examples
    --------
    >>> place([10, 10, 10, 10], ["a", "a", "a", "b"], {"a": 1, "b": 1})
    ['a', 'a', 'b', 'b']
    """
    share = sum(sizes) / sum(threads.values())
    room = {worker: share * n_threads for worker, n_threads in threads.items()}
    placed = list(homes)
    moving = []
    largest_first = sorted(range(len(sizes)), key=lambda k: -sizes[k])
    for k in largest_first:
        if room.get(homes[k], -1.0) < 0.5 * sizes[k]:
            moving.append(k)
        else:
            room[homes[k]] -= sizes[k]
    for k in moving:
        placed[k] = max(room, key=room.__getitem__)
        room[placed[k]] -= sizes[k]
    return placed
