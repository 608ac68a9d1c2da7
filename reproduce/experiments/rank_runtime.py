"""Training time per observation, by the size of the graphs: the paper's Table 1.

One fit at one alpha on the training part of a fold, divided by the number of subsets it
learns from.  Three to five documents are as in the ranking experiments.  In the paper,
graphs of 20 are those of the image matching experiment; they are timed here where
scikit-image is installed, and next to them subsets of 20 documents.  Whole lists have no
counterpart there.  Where the paper sampled, everything here is exact.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from permatch._validation import check_count
from permatch.pages.demo_learning import quiet_fit
from reproduce.experiments.letor_folds import FoldSet, load_folds
from reproduce.experiments.ranking_fits import draw_seed
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint
from reproduce.experiments.timed_fits import (
    Case,
    first_queries,
    image_case,
    ranking_case,
    timed,
)

#: What together names a row; `size` is M, or "all" for whole lists.
KEY = ("config", "repeat", "task", "size", "method")

#: Seconds per observation in the paper's Table 1, by M: exponential model, max-margin.
PAPER = {
    3: (0.0006661, 0.0008965),
    4: (0.0011277, 0.0016086),
    5: (0.0030187, 0.0015328),
    20: (36.03, 0.9334556),
}

#: The estimators of the two columns of the table, by task.
METHODS = {"ranking": ("rankmatch", "dorm"), "images": ("map", "max_margin")}

# Subsets larger than this are long: few of them are drawn.
_LONG = 8

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
    sizes : tuple of int or "all"
        Documents of a subset.
    image_size : int
        Points of the images to be matched; 0 leaves them out.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times M.
    n_long : int
        Queries that subsets of more than 8 documents are drawn from, one each, and pairs
        of images.
    n_repeats : int
        Fits, each on subsets of its own.
    alpha, margin_alpha, list_alpha : float
        Strength of the penalty: of the exponential model, of max-margin, and of the
        exponential model on whole lists.
    n_jobs : int
        Threads; -1 means all processors.
    seed : int
        Where all randomness comes from.
    """

    dataset: str = "OHSUMED"
    data: str | None = None
    sizes: tuple[int | str, ...] = (3, 4, 5, 20, "all")
    image_size: int = 20
    n_subsets: float = 0.4
    n_long: int = 10
    n_repeats: int = 5
    alpha: float = 0.01
    margin_alpha: float = 0.01
    list_alpha: float = 1.0
    n_jobs: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_repeats", "n_long"):
            check_count(getattr(self, name), name, 1)
        check_count(self.seed, "seed", 0)
        check_count(self.image_size, "image_size", 0)
        for size in self.sizes:
            if size != "all":
                check_count(size, "every entry of sizes", 2)

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a second or two on a small data set, for tests."""
        return cls(data=data, sizes=(3, 9, "all"), image_size=0, n_long=2, n_repeats=2)

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, under a minute."""
        return cls(data=data, n_repeats=1, n_long=1)

    def fingerprint(self, data: FoldSet) -> str:
        """Return what names this configuration, on this data, in its rows."""
        left_out = ("n_repeats", "sizes", "data")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=data.digest)


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``repeat``, ``task`` (``"ranking"`` or ``"images"``), ``size``,
        ``method``, ``n_observations``, ``seconds``, ``seconds_per_observation``,
        ``n_evaluations`` and ``is_converged``.
    """
    data = load_folds(config.dataset, config.data)
    cases: list[tuple[str, int | str]] = [("ranking", size) for size in config.sizes]
    if config.image_size and find_spec("skimage") is not None:
        cases.append(("images", config.image_size))
    tasks = [
        (repeat, task, size, method)
        for repeat in range(config.n_repeats)
        for task, size in cases
        for method in METHODS[task]
    ]
    warm: set[tuple[str, int | str, str]] = set()

    def measure(key: Row, show: Any) -> Row:
        case = _case(config, data, key)
        name = (key["task"], key["size"], key["method"])
        if name not in warm:  # compile what is not compiled yet
            with quiet_fit():
                case.warm_up()
            warm.add(name)
        return timed(case)

    name = config.fingerprint(data)
    return Plan(name, tasks, measure, lambda key: 10.0 if _is_long(key["size"]) else 1.0)


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return seconds per observation by task and size, beside the paper's.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``task``, ``size``, and for ``model`` (the exponential model) and ``margin``: the
        median over repeats of seconds per observation, the mean number of evaluations
        ``*_evaluations``, and the paper's figure ``paper_*``, None where it has none;
        ``n_observations``.
    """
    groups: dict[tuple[str, Any], dict[str, list[Row]]] = {}
    for row in rows:
        by_method = groups.setdefault((row["task"], row["size"]), {})
        by_method.setdefault(row["method"], []).append(row)
    lines = []
    for (task, size), by_method in groups.items():
        line: Row = {"task": task, "size": size}
        published = PAPER.get(size, (None, None))
        for column, method, paper in zip(
            ("model", "margin"), METHODS[task], published, strict=True
        ):
            found = by_method.get(method, [])
            times = [row["seconds_per_observation"] for row in found]
            counts = [row["n_evaluations"] for row in found]
            line[column] = float(np.median(times)) if found else None
            line[f"{column}_evaluations"] = float(np.mean(counts)) if found else None
            line[f"paper_{column}"] = paper
        everything = [row["n_observations"] for part in by_method.values() for row in part]
        lines.append(line | {"n_observations": float(np.mean(everything))})
    return lines


def _case(config: Config, data: FoldSet, key: Row) -> Case:
    method, size = key["method"], key["size"]
    if key["task"] == "images":
        return image_case(
            method,
            size,
            alpha=config.alpha if method == "map" else config.margin_alpha,
            n_pairs=config.n_long,
            n_jobs=config.n_jobs,
            seed=config.seed,
            repeat=key["repeat"],
        )
    fold = data.folds[0]
    alpha = config.list_alpha if size == "all" else config.alpha
    return ranking_case(
        method,
        size,
        first_queries(fold.train, config.n_long) if _is_long(size) else fold.train,
        alpha=config.margin_alpha if method == "dorm" else alpha,
        # One subset a query where they are long.
        n_subsets=1e-6 if _is_long(size) else config.n_subsets,
        n_jobs=config.n_jobs,
        seed=draw_seed(config.seed, key["repeat"], fold.number),
    )


def _is_long(size: int | str) -> bool:
    return isinstance(size, int) and size > _LONG
