"""Rankers compared on the same queries: what differs, and whether by more than chance."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import write_csv
from permatch._optional import require
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.metrics.base import Measure
from permatch.metrics.comparison_words import Columns, as_text, query_columns, row_columns
from permatch.metrics.ranking import MeasureLike, find_measure
from permatch.metrics.significance import LEVEL

#: Values of a query that differ by rounding only are tied.
ROUNDING = 1e-12


@dataclass(frozen=True)
class ComparedMeasure:
    """One measure of one ranker, next to that of the baseline on the same queries.

    Queries without a value, such as those of a single grade for Tau, are left out.  Where
    fewer than two are left, all numbers but the means are NaN.

    Attributes
    ----------
    measure : Measure
        The measure.
    ranker : str
        The ranker.
    baseline_mean, mean : float
        Means over queries, of the baseline and of the ranker.
    difference : float
        Mean of the ranker less that of the baseline; above 0 the ranker is better.
    interval : pair of float
        95 % percentile bootstrap interval of the difference, resampling queries.
    p_value : float
        Of a paired randomisation test, two-sided.
    p_holm : float
        The same, corrected for all tests of the comparison by Holm's rule.
    detectable : float
        About the smallest true difference that so many queries show four times in five, at
        5 % divided by the number of tests of the comparison.
    n_wins, n_losses, n_ties : int
        Queries on which the ranker is better, worse, and as good.

    Examples
    --------
    >>> import permatch as pm
    >>> scores = {"old": [1.0, 2.0, 1.0, 2.0], "new": [2.0, 1.0, 2.0, 1.0]}
    >>> found = pm.compare_rankers(scores, None, [1, 0, 1, 0], group=[2, 2])
    >>> row = found.row("new", "NDCG@1")
    >>> row.difference, row.n_wins, row.p_value > 0.4
    (1.0, 2, True)
    """

    measure: Measure
    ranker: str
    baseline_mean: float
    mean: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    p_holm: float
    detectable: float
    n_wins: int
    n_losses: int
    n_ties: int

    @property
    def n_queries(self) -> int:
        """Number of queries with a value."""
        return self.n_wins + self.n_losses + self.n_ties

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at 5 %, after the correction."""
        return self.p_holm <= LEVEL


@dataclass(frozen=True)
class ComparedQuery:
    """One query under the baseline and under another ranker.

    Attributes
    ----------
    query : int or str
        The id of the query.
    position : int
        Its position among all queries, from 0.
    baseline, value : float
        The measure under the baseline and under the ranker.

    Examples
    --------
    >>> import permatch as pm
    >>> scores = {"old": [1.0, 2.0, 1.0, 2.0], "new": [1.0, 2.0, 2.0, 1.0]}
    >>> found = pm.compare_rankers(scores, None, [1, 0, 1, 0], ["a", "a", "b", "b"])
    >>> best = found.most_won()[0]
    >>> best.query, best.value
    ('b', 1.0)
    """

    query: Any
    position: int
    baseline: float
    value: float

    @property
    def difference(self) -> float:
        """What the ranker gains over the baseline."""
        return self.value - self.baseline


@dataclass(frozen=True, eq=False)
class ScoredLists:
    """Judged documents, sorted by query, with the scores of several rankers.

    Attributes
    ----------
    queries : ndarray of shape (q,)
        The ids of the queries.
    starts : ndarray of shape (q + 1,)
        Where the documents of each query begin, and the end.
    grades : ndarray of shape (n,)
        Grades of the documents.
    scores : ndarray of shape (m, n)
        Scores of the documents, by ranker.
    documents : list of str
        Names of the documents; by default their positions in the data, from 1.

    Examples
    --------
    >>> import permatch as pm
    >>> scores = {"old": [1.0, 2.0, 1.0, 2.0], "new": [1.0, 2.0, 2.0, 1.0]}
    >>> lists = pm.compare_rankers(scores, None, [1, 0, 1, 0], group=[2, 2]).lists
    >>> [lists.documents[row] for row in lists.best_first(1, 0)]
    ['4', '3']
    """

    queries: np.ndarray
    starts: IntArray
    grades: IntArray
    scores: FloatArray
    documents: list[str]

    def best_first(self, position: int, ranker: int) -> IntArray:
        """Return the documents of a query from the best to the worst.

        Parameters
        ----------
        position : int
            The query, from 0.
        ranker : int
            The ranker, from 0, the baseline.

        Returns
        -------
        ndarray
            Positions of documents; equal scores keep the order given.
        """
        first, end = self.starts[position : position + 2]
        return first + np.argsort(-self.scores[ranker, first:end], kind="stable")


@dataclass(frozen=True, eq=False, repr=False)
class RankerComparison:
    """Rankers side by side on the same queries, as `permatch.compare_rankers` returns it.

    Printed, it is a table with a row per ranker and measure.
    `permatch.pages.write_comparison_page` writes a page about it.

    Attributes
    ----------
    rankers : list of str
        What the rankers are called; the first is the baseline.
    measures : list of Measure
        What they are compared by.
    rows : list of ComparedMeasure
        Every other ranker by every measure, ranker by ranker.
    values : ndarray of shape (m, k, q)
        Every ranker by every measure on every query; NaN where it has no value.
    lists : ScoredLists
        The documents and their scores.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> grades, queries = rng.integers(3, size=400), np.repeat(np.arange(40), 10)
    >>> noise = rng.normal(size=(2, 400))
    >>> scores = {"old": grades + 2 * noise[0], "new": grades + noise[1]}
    >>> result = pm.compare_rankers(scores, None, grades, queries, measures="NDCG@5, MAP")
    >>> result.row(measure="MAP").difference > 0
    True
    >>> [found.query for found in result.most_won(2)]
    [28, 20]
    """

    rankers: list[str]
    measures: list[Measure]
    rows: list[ComparedMeasure]
    values: FloatArray
    lists: ScoredLists

    @property
    def baseline(self) -> str:
        """The ranker that all others are compared with."""
        return self.rankers[0]

    def row(
        self, ranker: str | None = None, measure: MeasureLike | None = None
    ) -> ComparedMeasure:
        """Return the figures of one ranker by one measure.

        Parameters
        ----------
        ranker : str, optional
            Default: the first after the baseline.
        measure : Measure or str, optional
            Default: the first.
        """
        i, j = self._place(ranker, measure)
        return self.rows[(i - 1) * len(self.measures) + j]

    def differences(
        self, ranker: str | None = None, measure: MeasureLike | None = None
    ) -> FloatArray:
        """Return what a ranker gains over the baseline on every query.

        Parameters
        ----------
        ranker, measure
            As in `row`.

        Returns
        -------
        ndarray of shape (q,)
            Above 0 the ranker is better; NaN where the measure has no value.
        """
        i, j = self._place(ranker, measure)
        found = self.values[i, j] - self.values[0, j]
        return np.where(np.abs(found) <= ROUNDING, 0.0, found)

    def most_won(
        self,
        n: int = 5,
        ranker: str | None = None,
        measure: MeasureLike | None = None,
    ) -> list[ComparedQuery]:
        """Return the queries on which a ranker gains most over the baseline.

        Parameters
        ----------
        n : int
            How many; fewer if the ranker is better on fewer.
        ranker, measure
            As in `row`.

        Returns
        -------
        list of ComparedQuery
            The largest gain first.
        """
        return self._largest(n, 1.0, ranker, measure)

    def most_lost(
        self,
        n: int = 5,
        ranker: str | None = None,
        measure: MeasureLike | None = None,
    ) -> list[ComparedQuery]:
        """Return the queries on which a ranker loses most against the baseline.

        Parameters
        ----------
        n, ranker, measure
            As in `most_won`.

        Returns
        -------
        list of ComparedQuery
            The largest loss first.
        """
        return self._largest(n, -1.0, ranker, measure)

    def to_pandas(self, *, by_query: bool = False) -> Any:
        """Return a pandas DataFrame with a row per ranker and measure.

        Parameters
        ----------
        by_query : bool
            A row per query instead, with a column per measure and ranker.
        """
        pandas = require("pandas", "tables", what="to_pandas")
        return pandas.DataFrame(self._columns(by_query))

    def write(self, path: str | Path, *, by_query: bool = False) -> None:
        """Write the table of `to_pandas` as a CSV file.

        Parameters
        ----------
        path : path
            An existing file is replaced, never left half-written.  Numbers have all
            digits; cells without a value are empty.
        by_query : bool
            As in `to_pandas`.
        """
        columns = self._columns(by_query)
        cells = zip(*columns.values(), strict=True)
        body = (["" if cell != cell else cell for cell in row] for row in cells)
        write_csv(path, [list(columns), *body])

    def _columns(self, by_query: bool) -> Columns:
        return query_columns(self) if by_query else row_columns(self)

    def __repr__(self) -> str:
        """Return the table as text."""
        return as_text(self)

    def _place(self, ranker: Any, measure: Any) -> tuple[int, int]:
        if ranker is None:
            ranker = self.rankers[1]
        if ranker not in self.rankers[1:]:
            raise InvalidOptionError(
                f"ranker must be one of {', '.join(map(repr, self.rankers[1:]))}, which "
                f"are compared with {self.baseline!r}; got {ranker!r}."
            )
        found = self.measures[0] if measure is None else find_measure(measure)
        if found not in self.measures:
            raise InvalidOptionError(
                f"measure must be one of {', '.join(map(str, self.measures))}; got {found}."
                " Name it in measures= of the comparison."
            )
        return self.rankers.index(ranker), self.measures.index(found)

    def _largest(
        self, n: int, sign: float, ranker: Any, measure: Any
    ) -> list[ComparedQuery]:
        n = check_count(n, "n", 0)
        i, j = self._place(ranker, measure)
        gains = sign * self.differences(ranker, measure)
        found = np.flatnonzero(gains > 0.0)
        order = found[np.argsort(-gains[found], kind="stable")][:n]
        return [
            ComparedQuery(
                query=self.lists.queries[k].item(),
                position=k,
                baseline=float(self.values[0, j, k]),
                value=float(self.values[i, j, k]),
            )
            for k in order.tolist()
        ]
