"""Hamming loss against the number of training pairs, on sheared copies of a silhouette.

Every repeat draws new landmarks, shears and pairs.  What is learned, and how, is as
in `permatch demo`: see `permatch.pages.demo_learning`.  What is learned from is the
protocol: see `silhouette_protocols`.  In the first repeats boosted trees learn from the
most pairs too: see `matching_trees`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from permatch._validation import check_choice, check_count
from permatch.errors import InvalidOptionError
from permatch.pages.demo_learning import Draw, Setup, measure
from reproduce.experiments.claims import Effect
from reproduce.experiments.evidence import (
    silhouette_effects,
    transfer_effects,
    tree_effects,
)
from reproduce.experiments.matching_trees import TREES, TreeGrid, learn_trees
from reproduce.experiments.repeats import is_enough, level_of, looks_of
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments
from reproduce.experiments.silhouette_protocols import (
    PROTOCOLS,
    digest,
    draw_pairs,
    other_images,
)

#: What together names a row; `n` is 0 for the method that learns nothing.
KEY = ("config", "repeat", "n", "method")

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 3


#: The trees of the first rows that have any, as they are named there: not at all.  Never
#: changed, also when those of `TreeGrid` by default are.
_FIRST_TREES = TreeGrid(
    leaf_counts=(8,),
    are_falling=(True, False),
    learning_rate=0.1,
    n_rounds=300,
    patience=20,
)


@dataclass(frozen=True)
class Config(Setup):
    """What the experiment depends on: what is drawn and tried, and how often.

    Parameters
    ----------
    n_train : tuple of int
        Numbers of training pairs.
    map_alphas, margin_alphas : tuple of float
        Strengths of the penalty that the two learners choose from.
    n_repeats : int, optional
        Repeats, each with landmarks, shears and pairs of its own; None goes on until the
        verdict is settled, see `reproduce.experiments.repeats`.
    protocol : str
        What is learned from, one of `silhouette_protocols.PROTOCOLS`.
    others : str, optional
        Folder of other silhouettes for the protocol that needs them.
    trees : TreeGrid
        What boosted trees are chosen from.
    n_tree_repeats : int
        First repeats in which boosted trees learn from the most pairs.
    """

    n_train: tuple[int, ...] = (5, 10, 20, 40, 60)
    # As many for either.  With few pairs validation chooses strong ones, with many weak
    # ones; a grid that ends too early costs the method that wants to go on.
    map_alphas: tuple[float, ...] = (
        *(100.0, 30.0, 10.0, 3.0, 1.0, 0.3),
        *(0.1, 0.03, 0.01, 0.003, 0.001, 0.0003),
    )
    margin_alphas: tuple[float, ...] = (
        *(3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0),
        *(3.0, 1.0, 0.3, 0.1, 0.03, 0.01),
    )
    n_repeats: int | None = None
    protocol: str = PROTOCOLS[0]
    others: str | None = None
    trees: TreeGrid = field(default_factory=TreeGrid)
    n_tree_repeats: int = 5

    def __post_init__(self) -> None:
        check_count(self.n_tree_repeats, "n_tree_repeats", 0)
        check_choice(self.protocol, "protocol", PROTOCOLS)
        check_count(self.n_test, "n_test", 1)
        if self.n_repeats is not None:
            check_count(self.n_repeats, "n_repeats", 1)
        if self.protocol == "other-silhouette":
            other_images(self.others, self.image)
        check_count(self.seed, "seed", 0)
        for name in ("n_train", "map_alphas", "margin_alphas"):
            values = tuple(getattr(self, name))
            if not values or not all(value > 0 for value in values):
                raise InvalidOptionError(
                    f"{name} must contain at least one number, all above 0; got {values}."
                )
            object.__setattr__(self, name, values)
        for n in self.n_train:
            check_count(n, "every entry of n_train", 1)

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration that takes a second or two, for tests."""
        return cls(
            n_train=(2, 4),
            n_test=10,
            n_repeats=2,
            map_alphas=(1.0, 0.1),
            margin_alphas=(1.0, 0.1),
            n_points=6,
            n_images=12,
            n_contour=60,
            trees=TreeGrid.tiny(),
        )

    @classmethod
    def quick(cls) -> "Config":
        """Return a smaller experiment of the same kind, well under a minute."""
        return cls(
            n_train=(5, 10, 20),
            n_test=100,
            n_repeats=2,
            map_alphas=(10.0, 1.0, 0.1),
            margin_alphas=(10.0, 1.0, 0.1),
            trees=TreeGrid((4,), (True, False), 0.3, 60, 10),
        )

    def repeat_tasks(self, repeat: int) -> list[tuple[int, str]]:
        """Return what is measured in a repeat, as (training pairs, method)."""
        n = max(self.n_train)
        trees = TREES if repeat < self.n_tree_repeats else ()
        return [*self.tasks(), *((n, method) for method in trees)]

    def fingerprint(self) -> str:
        """Return what names this configuration in its rows.

        Repeats and training sizes are left out, since rows are named by their own: the file
        of a run can be resumed with more of either.
        """
        options = asdict(self)
        if self.image is not None:
            options["image"] = hashlib.sha256(Path(self.image).read_bytes()).hexdigest()
        options["others"] = None
        # Rows are older than the trees, which change none of them.
        if self.trees == _FIRST_TREES:
            options.pop("trees")
        if self.protocol == "other-silhouette":
            options["others"] = digest(self.others, self.image)
        left_out = ("n_train", "n_repeats", "n_tree_repeats")
        return fingerprint(options, left_out, schema=_SCHEMA)


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``repeat``, ``n``, ``method``, ``hamming_loss``; and for the learners
        ``alpha``, ``validation_loss``, ``n_evaluations``, ``seconds`` and ``is_converged``
        of the chosen fit, its ``coef``, and ``path``, the figures for every alpha tried.
        Of trees ``chosen``, their options, in the place of ``alpha`` and ``coef``; their
        ``n_evaluations`` are rounds.

    Notes
    -----
    A minute a repeat on a core with the default configuration; those with trees take two or
    three more.
    """
    drawn = lru_cache(maxsize=1)(
        lambda repeat: draw_pairs(config, repeat, config.protocol, config.others)
    )

    def learn(key: Row, show: Callable[[float], None]) -> Row:
        pairs = drawn(key["repeat"])
        n, method = key["n"], key["method"]
        if method in TREES:
            return _learn_trees(config, pairs, n, method, show, n_jobs)
        return measure(config, pairs, n, method, on_progress=show, n_jobs=n_jobs)

    looks = looks_of(config.n_repeats)
    tasks = [config.repeat_tasks(repeat) for repeat in range(looks[-1])]
    return Plan(
        config.fingerprint(),
        [(repeat, *task) for repeat, own in enumerate(tasks) for task in own],
        learn,
        # Work is counted in training pairs gone through by all alphas.
        lambda key: key["n"] + 1,
        [sum(map(len, tasks[:look])) for look in looks],
        lambda rows: is_enough(silhouette_effects(rows, level_of(config.n_repeats))),
    )


def _learn_trees(
    config: Config,
    pairs: Draw,
    n: int,
    method: str,
    show: Callable[[float], None],
    n_jobs: int | None,
) -> Row:
    """Return the row of boosted trees."""
    train, validation = pairs.train(n), pairs.validation(n)
    fit = learn_trees(
        method, config.trees, train, validation, on_progress=show, n_jobs=n_jobs
    )
    losses = fit.losses(pairs.test)
    return {"hamming_loss": float(np.mean(losses))} | fit.to_row()


def judged(config: Config, rows: Sequence[Row]) -> list[Effect]:
    """Return what the claim is judged by, with intervals that allow for all looks.

    What is told beside it of boosted trees is not looked at before the end.
    """
    is_transfer = config.protocol == "other-silhouette"
    effects = transfer_effects if is_transfer else silhouette_effects
    return [*effects(rows, level_of(config.n_repeats)), *tree_effects(rows)]


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return mean and spread of the loss over repeats, by training pairs and method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        ``n``, ``method``, ``mean`` and ``spread`` (standard deviation over repeats; None
        for a single one) of the Hamming loss, ``n_repeats``; for learners also the mean
        ``seconds`` and ``n_evaluations`` of the chosen fit.  With both learners there is a
        ``map - max_margin``, the differences within repeats.
    """
    groups: dict[tuple[int, str], dict[int, Row]] = {}
    for row in rows:
        groups.setdefault((row["n"], row["method"]), {})[row["repeat"]] = row
    summary = []
    for (n, method), by_repeat in sorted(groups.items(), key=lambda item: item[0][0]):
        found = list(by_repeat.values())
        line = {"n": n, "method": method} | moments(row["hamming_loss"] for row in found)
        if n > 0:
            for name in ("seconds", "n_evaluations"):
                line[name] = float(np.mean([row[name] for row in found]))
        summary.append(line)
        rival = groups.get((n, "map"), {})
        both = [k for k in by_repeat if method == "max_margin" and k in rival]
        if both:
            differences = (
                rival[k]["hamming_loss"] - by_repeat[k]["hamming_loss"] for k in both
            )
            summary.append({"n": n, "method": "map - max_margin"} | moments(differences))
    return summary
