"""NDCG@1 against the number of training subsets: the paper's Figure 3, right.

From every training query 0.03 to 1.0 times D M subsets are drawn, D being its documents and
M the number of grades.  RankMatch and DORM learn from the same subsets, those of a smaller
number are among those of a larger one, and each chooses its alpha on the validation part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from reproduce.experiments.claims import Effect
from reproduce.experiments.evidence import sample_size_effects
from reproduce.experiments.letor_folds import FoldSet, load_folds
from reproduce.experiments.ohsumed import SUBSET_ALPHAS, check_alphas
from reproduce.experiments.ranking_fits import SAMPLED, draw_seed, learn_and_measure
from reproduce.experiments.ranking_summary import detectable_at
from reproduce.experiments.repeats import is_enough, level_of, looks_of
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments

#: What together names a row.
KEY = ("config", "repeat", "fold", "n_subsets", "method")

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 1


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    dataset : str
        Name of the data set, such as ``"OHSUMED"``.
    data : str, optional
        Where to look for it; None looks where ``PERMATCH_DATA`` says.
    n_subsets : tuple of float
        Subsets drawn from a query, as multiples of its documents times M.
    n_repeats : int, optional
        Repeats, each with subsets of its own; None goes on until the verdict is settled,
        see `reproduce.experiments.repeats`.
    alphas : tuple of float
        Strengths of the penalty that both methods choose from.
    seed : int
        Where all randomness comes from.
    """

    dataset: str = "OHSUMED"
    data: str | None = None
    n_subsets: tuple[float, ...] = (0.03, 0.06, 0.1, 0.2, 0.4, 0.7, 1.0)
    n_repeats: int | None = None
    alphas: tuple[float, ...] = SUBSET_ALPHAS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_repeats is not None:
            check_count(self.n_repeats, "n_repeats", 1)
        check_count(self.seed, "seed", 0)
        shares = tuple(sorted(set(self.n_subsets)))
        if not shares or not all(0.0 < share < float("inf") for share in shares):
            raise InvalidOptionError(
                "n_subsets must contain at least one number, all finite and above 0; got "
                f"{tuple(self.n_subsets)}."
            )
        object.__setattr__(self, "n_subsets", shares)
        object.__setattr__(self, "alphas", check_alphas(self.alphas, "alphas"))

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a second or two on a small data set, for tests."""
        return cls(data=data, n_subsets=(0.1, 0.5), n_repeats=2, alphas=(1.0, 0.1))

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, well under a minute."""
        return cls(
            data=data, n_subsets=(0.03, 0.2, 1.0), n_repeats=1, alphas=SUBSET_ALPHAS[1::2]
        )

    def fingerprint(self, data: FoldSet) -> str:
        """Return what names this configuration, on this data, in its rows."""
        left_out = ("n_repeats", "n_subsets", "data")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=data.digest)


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        As of `reproduce.experiments.ohsumed.run`, and ``n_subsets``.

    Notes
    -----
    Some ten seconds a repeat on a core with the default configuration.
    """
    data = load_folds(config.dataset, config.data)
    looks = looks_of(config.n_repeats)
    each = [
        (fold.number, share, method)
        for share in config.n_subsets
        for fold in data.folds
        for method in SAMPLED
    ]

    def measure(key: Row, show: Any) -> Row:
        row = learn_and_measure(
            key["method"],
            data.fold(key["fold"]),
            config.alphas,
            subset_size=data.n_grades,
            n_subsets=key["n_subsets"],
            seed=draw_seed(config.seed, key["repeat"], key["fold"]),
            n_jobs=n_jobs,
        )
        return {"dataset": data.name} | row

    return Plan(
        config.fingerprint(data),
        [(repeat, *task) for repeat in range(looks[-1]) for task in each],
        measure,
        lambda key: 0.05 + key["n_subsets"],
        [look * len(each) for look in looks],
        lambda rows: is_enough(judged(config, rows)),
    )


def judged(config: Config, rows: Sequence[Row]) -> list[Effect]:
    """Return what the claim is judged by, with intervals that allow for all looks."""
    return sample_size_effects(rows, level_of(config.n_repeats))


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return mean and spread of NDCG@1 over repeats, by subsets and method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``n_subsets``, ``method``, ``mean`` and ``spread`` (standard deviation over repeats
        of the mean over folds; None for a single one) of NDCG@1, ``mean_of_ten``, the mean
        of NDCG@1 to NDCG@10, ``n_repeats``, ``n_observations``, ``seconds`` of all folds
        and ``n_edge``.  With both methods there is a ``rankmatch - dorm``, the differences
        within repeats, and ``detectable``, the smallest true difference that so many
        queries show four times in five.
    """
    groups: dict[tuple[float, str], dict[int, list[Row]]] = {}
    for row in rows:
        by_repeat = groups.setdefault((row["n_subsets"], row["method"]), {})
        by_repeat.setdefault(row["repeat"], []).append(row)
    summary = []
    for (share, method), by_repeat in sorted(groups.items(), key=lambda item: item[0][0]):
        found = [row for part in by_repeat.values() for row in part]
        line: Row = {"n_subsets": share, "method": method}
        line |= moments(_first(part) for part in by_repeat.values())
        line["mean_of_ten"] = float(np.mean([row["ndcg"] for row in found]))
        line["n_observations"] = float(np.mean([row["n_observations"] for row in found]))
        line["seconds"] = sum(row["seconds"] for row in found) / len(by_repeat)
        line["n_edge"] = sum(row["is_edge"] for row in found)
        summary.append(line)
        rival = groups.get((share, "rankmatch"), {})
        both = [k for k in by_repeat if method == "dorm" and k in rival]
        if both:
            differences = (_first(rival[k]) - _first(by_repeat[k]) for k in both)
            line = {"n_subsets": share, "method": "rankmatch - dorm"}
            pairs = [row for k in both for row in (*rival[k], *by_repeat[k])]
            line["detectable"] = float(detectable_at(pairs, "rankmatch", "dorm")[0])
            summary.append(line | moments(differences))
    return summary


def _first(part: list[Row]) -> float:
    """Return NDCG@1, its mean over folds."""
    return float(np.mean([row["ndcg"][0] for row in part]))
