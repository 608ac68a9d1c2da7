"""Links between DBLP and ACM: a pair classifier, with rules, and permatch.

Two ways to split the records, neither of which has a paper in both parts:

    entities   half of the papers for training, half for testing, drawn at random
    venues     one venue for testing, the others for training: nobody labelled any pair of
               this venue, and the texts of its records differ in other ways

In both, a share of the DBLP records is dropped, so that many ACM records have no partner.
Methods and how they choose: see `link_methods`.
"""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from reproduce.experiments.bibliographies import (
    VENUES,
    Bibliographies,
    Candidates,
    load_bibliographies,
)
from reproduce.experiments.claims import Effect, ratio_of
from reproduce.experiments.link_measures import (
    lead,
    measure_links,
    summarise_measures,
)
from reproduce.experiments.link_methods import METHODS, Answer, answers
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint

#: What together names a row.
KEY = ("config", "protocol", "repeat", "method")
PROTOCOLS = ("entities", "venues")

#: Pairs with at least this probability by any method are plausible.
PLAUSIBLE = 0.05
N_BINS = 10

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 2


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    protocols : tuple of str
        Ways to split the records, of `PROTOCOLS`.
    n_repeats : int
        Splits by entity; there are at most as many splits by venue as venues.
    n_neighbors : int
        Candidates per record: those with the most similar titles, from both sides.
    dropped : float
        Share of the DBLP records that are left out.
    seed : int
        Seed of splits and folds; nothing else is random.
    data : str, optional
        Where to look for the tables; None looks where ``PERMATCH_DATA`` says.
    """

    protocols: tuple[str, ...] = PROTOCOLS
    n_repeats: int = 5
    n_neighbors: int = 8
    dropped: float = 0.3
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)
        check_count(self.n_repeats, "n_repeats", 1)
        check_count(self.n_neighbors, "n_neighbors", 1)
        if not 0.0 <= self.dropped < 1.0:
            raise InvalidOptionError(
                f"dropped must be at least 0 and below 1; got {self.dropped}."
            )
        object.__setattr__(self, "protocols", tuple(self.protocols))
        if not self.protocols or not set(self.protocols) <= set(PROTOCOLS):
            raise InvalidOptionError(
                f"protocols must be some of {PROTOCOLS}; got {self.protocols}."
            )

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a few seconds on small tables, for tests."""
        return cls(protocols=("entities",), n_repeats=2, n_neighbors=3, data=data)

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, under a minute."""
        return cls(protocols=("entities",), n_repeats=2, data=data)

    def fingerprint(self, tables: Bibliographies) -> str:
        """Return what names this configuration, on this data, in its rows."""
        left_out = ("protocols", "n_repeats", "data")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=tables.digest)


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``protocol``, ``repeat``, ``method``, the measures of `measure_links`,
        ``bins`` (counts, sums of probabilities and of links of the plausible pairs), what
        the method chose (``told``), and ``seconds`` for all methods of the split.

    Notes
    -----
    A minute or two on two cores with the default configuration.
    """
    tables = load_bibliographies(config.data)

    # Rows of one split come one after the other, and share all that is computed.
    @lru_cache(maxsize=1)
    def split(protocol: str, repeat: int) -> dict[str, Row]:
        return _measure(config, tables, protocol, repeat)

    n_splits = {"entities": config.n_repeats, "venues": min(config.n_repeats, len(VENUES))}
    return Plan(
        config.fingerprint(tables),
        [
            (protocol, repeat, method)
            for protocol in config.protocols
            for repeat in range(n_splits[protocol])
            for method in METHODS
        ],
        lambda key, show: split(key["protocol"], key["repeat"])[key["method"]],
        lambda key: float(key["method"] == METHODS[0]),
    )


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per protocol and method: means and spreads of the measures.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        As `summarise_measures`, and ``calibration_error``: the mean distance of
        probability and share of links over the plausible pairs of all splits.
    """
    rows = list(rows)
    lines = summarise_measures(rows, ("protocol",))
    for line in lines:
        bins = reliability(rows, line["protocol"], line["method"])
        counts, chances, links = bins
        total = counts.sum()
        error = float(np.abs(chances - links).sum() / total) if total else None
        line["calibration_error"] = error
    return lines


def reliability(rows: Iterable[Row], protocol: str, method: str) -> FloatArray:
    """Return counts, sums of probabilities and of links, by bin, over all splits."""
    found = [
        row["bins"]
        for row in rows
        if (row["protocol"], row["method"]) == (protocol, method)
    ]
    return np.sum(np.array(found, dtype=float).reshape(-1, 3, N_BINS), axis=0)


def effects(rows: Iterable[Row], protocol: str) -> dict[str, Effect]:
    """Return what a reader wants to know first, paired by split, with intervals."""
    own = [row for row in rows if row["protocol"] == protocol]

    def brier(method: str) -> list[float]:
        return [row["brier"] for row in own if row["method"] == method]

    return {
        "brier": ratio_of(
            brier("link"), brier("classifier"), "Brier score of link over classifier"
        ),
        "labels": ratio_of(
            brier("calibrated"), brier("link"), "Brier score with labels over without"
        ),
        "f1": lead(own, "link", "greedy", "f1", "F1 of link above greedy's"),
    }


#: What boosted trees are compared with.
RIVALS = ("learned", "trees", "trees_assignment", "trees_link")


def tree_effects(rows: Iterable[Row], protocol: str) -> dict[str, dict[str, Effect]]:
    """Return by rival what `BoostedMatching` has of its log-loss, Brier score and F1.

    Ratios of losses and the difference of F1, paired by split, with intervals.
    """
    own = [row for row in rows if row["protocol"] == protocol]

    def ratio(name: str, rival: str) -> Effect:
        ours, theirs = (
            [row[name] for row in own if row["method"] == method]
            for method in ("boosted", rival)
        )
        return ratio_of(ours, theirs, f"{name} of boosted over {rival}")

    found: dict[str, dict[str, Effect]] = {}
    for rival in RIVALS:
        found[rival] = {name: ratio(name, rival) for name in ("log_loss", "brier")}
        what = f"F1 of boosted above that of {rival}"
        found[rival]["f1"] = lead(own, "boosted", rival, "f1", what)
    return found


def certainty(rows: Iterable[Row], protocol: str) -> Row:
    """Return how far off the probabilities of `pm.link` without labels may be."""
    told = [
        row["told"]
        for row in rows
        if (row["protocol"], row["method"]) == (protocol, "link")
    ]
    return {
        "widest": max(one["widest"] for one in told),
        "share_exact": min(one["share_exact"] for one in told),
        "n_review": sum(one["n_review"] for one in told),
    }


def _measure(
    config: Config, tables: Bibliographies, protocol: str, repeat: int
) -> dict[str, Row]:
    """Return the rows of all methods on one split."""
    start = time.perf_counter()
    rng = np.random.default_rng([config.seed, PROTOCOLS.index(protocol), repeat])
    name = "" if protocol == "entities" else list(VENUES)[repeat]
    first, second = tables.of_venue(name) if name else tables.halves(rng)
    is_kept = rng.random(len(second)) >= config.dropped
    train, test = (
        tables.candidates(
            np.flatnonzero(first == part),
            np.flatnonzero((second == part) & is_kept),
            config.n_neighbors,
        )
        for part in (0, 1)
    )
    found = answers(train, test, rng)
    seconds = time.perf_counter() - start
    is_plausible = np.any(
        [answer.probability >= PLAUSIBLE for answer in found.values()], axis=0
    )
    return {
        method: measure_links(
            test.is_link, answer.is_taken, answer.probability, test.n_links
        )
        | {
            "bins": _bins(test, answer, is_plausible),
            "told": answer.told,
            "venue": name,
            "seconds": seconds,
        }
        for method, answer in found.items()
    }


def _bins(test: Candidates, answer: Answer, is_plausible: BoolArray) -> list[list[float]]:
    p = answer.probability[is_plausible]
    which = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    weights = (np.ones(len(p)), p, test.is_link[is_plausible].astype(float))
    return [np.bincount(which, w, N_BINS).tolist() for w in weights]
