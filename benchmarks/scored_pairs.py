"""A table of scored pairs whose true links are known, as large as asked for.

Two registers share 70 % of their entities.  Entities that resemble one another form groups,
of 2 to 6 each, and three large ones, like people of a common name; pairs are candidates
within a group.  A pair's evidence is normal, of variance 1, and its mean depends on whether
the two records belong together; its probability is the true one given this and nothing
else.
"""

from dataclasses import dataclass

import numpy as np

# Distance of the two means, share of true pairs that are candidates.
_APART, _FOUND = 2.8, 0.97
_SHARED, _N_LARGE = 0.7, 3


@dataclass(frozen=True)
class ScoredPairs:
    """Candidate pairs: rows, with the numbers of their records and what is true."""

    left: np.ndarray
    right: np.ndarray
    score: np.ndarray  # log-odds
    is_true: np.ndarray
    n_links: int  # of all records, whether among the pairs or not

    @property
    def probability(self) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-self.score))

    def frame(self):
        """Return the pairs as splink's predictions, with text as ids."""
        import pandas

        return pandas.DataFrame(
            {
                "match_weight": self.score / np.log(2.0),
                "match_probability": self.probability,
                "source_dataset_l": "a",
                "source_dataset_r": "b",
                "unique_id_l": np.char.add("a", self.left.astype(str)).astype(object),
                "unique_id_r": np.char.add("b", self.right.astype(str)).astype(object),
            }
        )


def simulate(n_pairs: int, n_records: int, rng: np.random.Generator) -> ScoredPairs:
    """Return pairs of `n_records` on each side."""
    n_shared = int(_SHARED * n_records)
    n_entities = 2 * n_records - n_shared
    # Entities from 0 have a left record, those up to the last a right one.
    groups = _groups(n_entities, rng)
    is_true = rng.random(n_shared) < _FOUND
    true = np.arange(n_records - n_shared, n_records)[is_true]
    false = _false_pairs(groups, n_pairs - len(true), n_records, n_entities, rng)
    pairs = np.concatenate([np.column_stack([true, true]), false])
    pairs = pairs[rng.permutation(len(pairs))]
    same = pairs[:, 0] == pairs[:, 1]
    evidence = rng.normal(np.where(same, 0.5, -0.5) * _APART)
    score = _APART * evidence + np.log(len(true) / len(false))
    numbers = rng.permutation(n_entities)
    return ScoredPairs(numbers[pairs[:, 0]], numbers[pairs[:, 1]], score, same, n_shared)


def _groups(n_entities: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return entities in groups of a size: arrays (n_groups, size)."""
    order = rng.permutation(n_entities)
    large = n_entities // 60
    groups = [order[: _N_LARGE * large].reshape(_N_LARGE, large)]
    rest = order[_N_LARGE * large :]
    for pieces, size in zip(np.array_split(rest, 5), range(2, 7), strict=True):
        groups.append(pieces[: len(pieces) // size * size].reshape(-1, size))
    return groups


def _false_pairs(groups, n_pairs, n_records, n_entities, rng) -> np.ndarray:
    """Return pairs of different entities of a group; a tenth of them in large groups."""
    first_right = n_entities - n_records
    found = []
    for members in groups[1:]:
        size = members.shape[1]
        places = np.argwhere(~np.eye(size, dtype=bool))
        found.append(members[:, places].reshape(-1, 2))
    small = _able(np.concatenate(found), n_records, first_right)
    n_large = n_pairs // 10
    members = groups[0]
    own = rng.integers(0, len(members), 4 * n_large)
    drawn = rng.integers(0, members.shape[1], (4 * n_large, 2))
    large = _able(members[own[:, None], drawn], n_records, first_right)
    large = np.unique(large[large[:, 0] != large[:, 1]], axis=0)
    chosen = rng.permutation(len(small))[: n_pairs - n_large]
    return np.concatenate([small[chosen], large[rng.permutation(len(large))[:n_large]]])


def _able(pairs: np.ndarray, n_records: int, first_right: int) -> np.ndarray:
    """Return the pairs of a left record and a right one."""
    return pairs[(pairs[:, 0] < n_records) & (pairs[:, 1] >= first_right)]
