"""NDCG@1 to NDCG@10 on the folds of a LETOR data set: the paper's Figure 2.

For every repeat and fold, RankMatch and DORM learn from the same subsets, drawn from the
training part; all others run once, the rankers that the paper compares with among them
(`reproduce.rivals`).  Every method chooses its options on the validation part of the fold
and is measured on the test part.  Beside them stand the results published with the data, of
RankBoost from its own predictions, of RankSVM as means only.
"""

from dataclasses import asdict, dataclass

from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from reproduce.experiments.letor_folds import FoldSet, load_folds
from reproduce.experiments.published_rankings import (
    PUBLISHED,
    published_means,
    published_scores,
)
from reproduce.experiments.ranking_fits import (
    SAMPLED,
    draw_seed,
    learn_and_measure,
    measure,
)
from reproduce.experiments.rival_fits import RUN, Grid, measure_rival
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint
from reproduce.rivals.table import RIVALS

#: What together names a row; `fold` is None for means over all folds.
KEY = ("config", "repeat", "fold", "method")

#: What all others are compared with, declared before anything was run.
BASELINE = "rankmatch"

#: Half decades, wide enough for validation seldom to choose the first or the last.
SUBSET_ALPHAS = tuple(float(f"{10 ** (k / 2):.3g}") for k in range(3, -11, -1))
LIST_ALPHAS = tuple(float(f"{10 ** (k / 2):.3g}") for k in range(6, -5, -1))
RIDGE_ALPHAS = tuple(float(f"{10 ** (k / 2):.3g}") for k in range(2, -11, -1))

#: Raised whenever rows of before can no longer be compared with new ones; rivals have
#: versions of their own.
_SCHEMA = 2

# Work of a fit as a multiple of that of RankMatch on subsets.
_COSTS = {
    "rankmatch": 1.0,
    "rankmatch_list": 2.0,
    "rankmatch_pairs": 3.0,
    "dorm": 2.0,
    "rankboost": 1.0,
    "frank": 30.0,
    "qbrank": 40.0,
    "isorank": 45.0,
    "sortnet": 35.0,
}


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    dataset : str
        Name of the data set, such as ``"OHSUMED"``.
    data : str, optional
        Where to look for it; None looks where ``PERMATCH_DATA`` says.
    n_repeats : int
        Repeats, each with subsets of its own.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times M.
    subset_alphas, list_alphas, ridge_alphas : tuple of float
        Strengths of the penalty to choose from: of RankMatch and DORM on subsets, of
        RankMatch on pairs and of rivals, of RankMatch on whole lists, and of ridge
        regression.
    rival_values, rival_rounds : int, optional
        How many values of each option of a rival are tried, and rounds at most; None for
        all that `reproduce.rivals.table` lists and for what each rival has by default.
    seed : int
        Where all randomness comes from.
    """

    dataset: str = "OHSUMED"
    data: str | None = None
    n_repeats: int = 5
    n_subsets: float = 0.4
    subset_alphas: tuple[float, ...] = SUBSET_ALPHAS
    list_alphas: tuple[float, ...] = LIST_ALPHAS
    ridge_alphas: tuple[float, ...] = RIDGE_ALPHAS
    rival_values: int | None = None
    rival_rounds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_repeats, "n_repeats", 1)
        check_count(self.seed, "seed", 0)
        for name in ("rival_values", "rival_rounds"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name, 1)
        if not 0.0 < self.n_subsets < float("inf"):
            raise InvalidOptionError(
                f"n_subsets must be a finite number above 0; got {self.n_subsets}."
            )
        for name in ("subset_alphas", "list_alphas", "ridge_alphas"):
            object.__setattr__(self, name, check_alphas(getattr(self, name), name))

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a second or two on a small data set, for tests."""
        return cls(
            data=data,
            n_repeats=2,
            subset_alphas=(1.0, 0.1, 0.01),
            list_alphas=(10.0, 1.0, 0.1),
            ridge_alphas=(1.0, 0.1, 0.01),
            rival_values=1,
            rival_rounds=3,
        )

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, under a minute."""
        return cls(
            data=data,
            n_repeats=1,
            subset_alphas=SUBSET_ALPHAS[1::2],
            list_alphas=LIST_ALPHAS[::2],
            rival_values=1,
            rival_rounds=10,
        )

    @property
    def grid(self) -> Grid:
        """What is tried of every rival."""
        return Grid(self.subset_alphas, self.rival_values, self.rival_rounds)

    def fingerprint(self, data: FoldSet, method: str = BASELINE) -> str:
        """Return what names this configuration, on this data, in the rows of a method.

        Repeats are left out, since rows are named by their own, and so is the place where
        the data was found, since it is named by its content.  A rival has a name of its
        own, from what it depends on, so that no other method's rows are lost with it.
        """
        if method in RUN:
            named = self.grid.named(RIVALS[method], self.seed)
            return fingerprint(named, (), content=data.digest)
        left_out = ("n_repeats", "data", "rival_values", "rival_rounds")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=data.digest)


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``dataset``, ``repeat``, ``fold``, ``method``; ``ndcg`` (the paper's)
        and ``ndcg_letor``, each at 1 to 10; ``queries`` and ``per_query``; for learners
        ``is_edge``, ``validation_ndcg``, ``path``, ``is_converged``, ``n_fits``,
        ``fit_seconds`` and ``seconds``; for rivals ``chosen``, for the others ``alpha``,
        ``coef``, ``subset_size`` and ``n_observations``.

    Notes
    -----
    About ten minutes with the default configuration, nearly all of it for rivals
    with trees, pairs or networks.
    """
    data = load_folds(config.dataset, config.data)
    return Plan(
        lambda task: config.fingerprint(data, task[-1]),
        _tasks(config, data),
        lambda key, show: {"dataset": data.name} | _measure(config, data, key, n_jobs),
        lambda key: _COSTS.get(key["method"], 0.02),
    )


def check_alphas(alphas: tuple[float, ...], name: str) -> tuple[float, ...]:
    """Return alphas from strong to weak, all above 0."""
    values = tuple(sorted(alphas, reverse=True))
    if not values or not all(value > 0 for value in values):
        raise InvalidOptionError(
            f"{name} must contain at least one number, all above 0; got {tuple(alphas)}."
        )
    return values


def _tasks(config: Config, data: FoldSet) -> list[tuple[int, int | None, str]]:
    """Return what names all rows, those of one repeat and fold together."""
    once = ["rankmatch_list", "ridge"]
    if data.n_grades == 2:
        once.append("rankmatch_pairs")
    tasks: list[tuple[int, int | None, str]] = []
    for repeat in range(config.n_repeats):
        for fold in data.folds:
            methods = [*SAMPLED]
            if repeat == 0:
                methods += [*once, *RUN]
                methods += [
                    m for m in PUBLISHED if published_scores(m, data, fold) is not None
                ]
            tasks += [(repeat, fold.number, method) for method in methods]
    is_there = {method for _, _, method in tasks}
    tasks += [
        (0, None, method)
        for method in PUBLISHED
        if method not in is_there and published_means(method, data) is not None
    ]
    return tasks


def _measure(config: Config, data: FoldSet, key: Row, n_jobs: int | None) -> Row:
    """Return the figures of one method on one fold, and what they took."""
    method = key["method"]
    if key["fold"] is None:
        return published_means(method, data) or {}
    fold = data.fold(key["fold"])
    if method in PUBLISHED:
        scores = published_scores(method, data, fold)
        return {} if scores is None else measure(fold.test, scores)
    if method in RUN:
        return measure_rival(RIVALS[method], fold, config.grid, config.seed)
    alphas = {"rankmatch_list": config.list_alphas, "ridge": config.ridge_alphas}
    return learn_and_measure(
        method,
        fold,
        alphas.get(method, config.subset_alphas),
        subset_size=data.n_grades,
        n_subsets=config.n_subsets,
        seed=draw_seed(config.seed, key["repeat"], fold.number),
        n_jobs=n_jobs,
    )
