"""A measure of ranking: a frozen set of options that prints as it is typed."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np

from permatch._types import FloatArray
from permatch._validation import check_choice, check_count
from permatch.errors import InvalidOptionError
from permatch.metrics.lists import RankedLists, rank_lists

#: No list is longer.
MAX_CUT = 10**9


def _check_cut(value: Any, name: str) -> int:
    k = check_count(value, name, 1)
    if k > MAX_CUT:
        raise InvalidOptionError(f"{name} must be at most {MAX_CUT}; got {value}.")
    return k


def _check_number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(f"{name} must be a number; got {value!r}.") from err


#: What checks an option of a measure, by its name.
_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "k": lambda value, name: None if value is None else _check_cut(value, name),
    "ties": partial(check_choice, choices=("stable", "expected")),
    "no_relevant": _check_number,
    "discount": partial(check_choice, choices=("paper", "letor")),
    "gain": partial(check_choice, choices=("exponential", "linear")),
    "threshold": lambda value, name: check_count(value, name, 1),
    "max_grade": lambda value, name: None if value is None else check_count(value, name, 0),
    "undefined": _check_number,
}


class _MeasureType(ABCMeta):
    """The type of measures, so that ``NDCG @ 10`` is short for ``NDCG() @ 10``."""

    def __matmul__(cls, k: int | None) -> Any:
        """Return the measure with default options, cut at `k`."""
        return cls() @ k


@dataclass(frozen=True, repr=False, eq=False)
class Measure(metaclass=_MeasureType):
    """A measure of ranked lists: what to compute, without the data.

    ``measure @ k`` cuts lists at `k` documents, and ``measure(y, score, qid)`` returns the
    mean over queries.  Measures are equal if they print alike.

    Notes
    -----
    Options that several measures have:

    k : int or None
        How many documents count; None for all.
    threshold : int
        The lowest grade that is relevant; default: 1.
    ties : {"stable", "expected"}
        Documents with equal scores keep the order given, as in LETOR's script (default),
        or the mean over all their orders is taken.
    no_relevant : float
        The value of a query without relevant documents; default: 0, as in LETOR.  NaN
        leaves such queries out of the mean.

    Examples
    --------
    >>> from permatch.metrics import MAP, NDCG
    >>> NDCG @ 5, NDCG(discount="letor") @ 10, MAP(threshold=2)
    (NDCG@5, NDCG(discount="letor")@10, MAP(threshold=2))
    >>> MAP(threshold=2)([2, 0, 1], [0.1, 0.5, 0.3])
    0.3333333333333333
    """

    def __post_init__(self) -> None:
        """Check the options."""
        for name, value in vars(self).items():
            object.__setattr__(self, name, _CHECKS[name](value, name))

    def __matmul__(self, k: int | None) -> Self:
        """Return the same measure of the first `k` documents."""
        if "k" not in vars(self):
            raise InvalidOptionError(
                f"{type(self).__name__} measures whole lists; got @ {k}. Drop the @ {k}."
            )
        return replace(self, **{"k": k})

    def __repr__(self) -> str:
        """Return the measure as it is typed."""
        defaults = {field.name: field.default for field in fields(self)}
        options = [
            f"{name}={_literal(value)}"
            for name, value in vars(self).items()
            if name != "k" and repr(value) != repr(defaults[name])
        ]
        k = vars(self).get("k")
        cut = "" if k is defaults.get("k") is None else f"@{k}"
        return type(self).__name__ + f"({', '.join(options)})" * bool(options) + cut

    def __eq__(self, other: object) -> bool:
        """Compare printed forms, so that NaN equals NaN."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Hash the printed form."""
        return hash(repr(self))

    def __call__(
        self,
        y: Any,
        score: Any,
        qid: Any = None,
        *,
        group: Any = None,
        per_query: bool = False,
    ) -> Any:
        """Return the mean over queries, or an array (q,); see `evaluate`."""
        return self.of(rank_lists(y, score, qid, group), per_query=per_query)

    def of(self, lists: RankedLists, *, per_query: bool = False) -> Any:
        """Measure lists that are already sorted.

        Parameters
        ----------
        lists : RankedLists
            Judged lists, each from the highest score down.
        per_query : bool
            Return one value per query, in the order of their first rows.

        Returns
        -------
        float or ndarray of shape (q,)
            The mean over queries that are not NaN, or one value per query.
        """
        values = self.values(lists)
        return values.mean(axis=1) if per_query else self.mean(values)

    @staticmethod
    def mean(values: FloatArray) -> float:
        """Return the mean of what `values` returns, over queries that are not NaN."""
        return float(means(values).mean())

    def values(self, lists: RankedLists) -> FloatArray:
        """Return the values (q, c) of all queries; the measure is the mean of c columns."""
        return self._values(lists)

    @abstractmethod
    def _values(self, lists: RankedLists) -> FloatArray:
        """Return the values (q, c) of all queries; the measure is the mean of c columns."""


def means(values: FloatArray) -> FloatArray:
    """Return the mean of every column over the queries that have a value."""
    is_known = ~np.isnan(values)
    n_known = is_known.sum(axis=0)
    sums = np.where(is_known, values, 0.0).sum(axis=0)
    return np.where(n_known > 0, sums / np.maximum(n_known, 1), np.nan)


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
