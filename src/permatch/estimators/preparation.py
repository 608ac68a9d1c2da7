"""Features made ready for a model: logarithms, missing values, categories."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import TransformerMixin

from permatch._cells import quoted
from permatch._validation import check_choice, check_count
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.base import BaseModel
from permatch.estimators.prepared_columns import (
    MISSING,
    Plan,
    PreparedColumn,
    learn_categories,
    learn_numbers,
)
from permatch.estimators.prepared_tables import Table, as_keys


class FeaturePreparation(TransformerMixin, BaseModel):
    """Prepare the features of a table: logarithms, missing values, categories.

    A step before a ranker, in a pipeline that `permatch.save` writes to one file and
    `permatch.export` to ONNX, Solr and Elasticsearch.  Columns are found by name; all that
    are not named here, and hold no missing values, stay as they are.

    Parameters
    ----------
    log1p : sequence of column names
        Columns to replace by ``log(1 + value)``, for skewed counts; none negative.
        ``clicks`` becomes ``clicks_log1p``.
    missing : {"error", "indicator", "median", "zero"}
        What missing values (NaN, None, empty text) of numbers become: an error that names
        the column, the median of the column in training, or 0.  "indicator" is the median
        and a further feature, ``rating_missing``, 1 where it is missing, for each column
        that has missing values in training.
    categories : sequence of column names
        Columns of text, whole numbers or truth values to replace by a feature per value,
        ``brand=acme``, which is 1 where the column has it and 0 elsewhere.
    max_categories : int
        Most values of a column that get a feature, the most frequent ones.  All others,
        and values that training has not seen, are 0 in all of these features.
    keep : sequence of column names
        Columns to pass on unread, such as ids, which must not be filled in where they are
        missing.  To a ranker, what holds numbers is a feature still, its `qid` apart.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_ : list of str or None
        Their names; None for an array.
    plan_ : Plan
        What becomes of each column.
    categories_ : dict
        The values that have a feature, as text, by column.
    fill_ : dict
        What missing numbers become, after the logarithm, by column.

    Notes
    -----
    `transform` of a data frame (pandas, Polars, Arrow) gives one of the same kind.  Columns
    may come in any order; those that training has not seen are dropped, and those that
    are passed on as they are may be absent, though not with `set_output`.  Columns of an
    array are named by position, ``log1p=[0, 3]``.

    A missing category is 0 in all features of its column; with "indicator" it has one of
    its own, ``brand_missing``, if there were any in training.  A column without any value
    in training becomes 0.

    Examples
    --------
    >>> import pandas as pd
    >>> import permatch as pm
    >>> table = pd.DataFrame(
    ...     {"clicks": [0, 9, 99], "rating": [4.5, None, 3.5], "brand": ["a", "b", "b"]}
    ... )
    >>> preparation = pm.FeaturePreparation(
    ...     log1p=["clicks"], missing="indicator", categories=["brand"]
    ... )
    >>> preparation.fit_transform(table).round(1)
       clicks_log1p  rating  rating_missing  brand=a  brand=b
    0           0.0     4.5             0.0      1.0      0.0
    1           2.3     3.5             1.0      0.0      1.0
    2           4.6     3.5             0.0      0.0      1.0
    """

    plan_: Plan

    _fit_call = "fit(X)"
    _objects = {"plan_": Plan}

    def __init__(
        self,
        *,
        log1p: Sequence[str | int] = (),
        missing: Literal["error", "indicator", "median", "zero"] = "error",
        categories: Sequence[str | int] = (),
        max_categories: int = 100,
        keep: Sequence[str | int] = (),
    ) -> None:
        self.log1p = log1p
        self.missing = missing
        self.categories = categories
        self.max_categories = max_categories
        self.keep = keep

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn medians and categories.

        Parameters
        ----------
        X : DataFrame or array of shape (n, d)
            One row per document.
        y : ignored
            Accepted for scikit-learn.

        Returns
        -------
        FeaturePreparation
            Itself.
        """
        check_choice(self.missing, "missing", MISSING)
        most = check_count(self.max_categories, "max_categories", 1)
        table = Table(X)
        if not table.n_rows or not table.keys:
            raise InvalidQueriesError(
                "at least one row with at least one column is required; got "
                f"{table.n_rows} rows of {len(table.keys)} columns."
            )
        columns = [self._learn(column, table, most) for column in self._columns(table)]
        plan = Plan(tuple(columns))
        names = Counter(feature.name for feature in plan.features)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InvalidOptionError(
                "prepared features must have different names; more than one would be "
                f"called {quoted(twice)}. Rename a column of X."
            )
        self.plan_ = plan
        self.n_features_in_ = len(columns)
        self.feature_names_ = table.names
        return self

    def _columns(self, table: Table) -> list[PreparedColumn]:
        """Return the columns of a table, of which nothing is learned yet."""
        chosen: dict[Any, str] = {}
        for option in ("log1p", "categories", "keep"):
            for key in as_keys(getattr(self, option), option, table):
                if chosen.setdefault(key, option) != option:
                    raise InvalidOptionError(
                        f"a column may be in one of log1p, categories and keep; {key!r} is "
                        f"in {chosen[key]} and {option}. Leave it out of one."
                    )
        columns = []
        for key, label in zip(table.keys, table.labels, strict=True):
            option = chosen.get(key)
            is_kept = option == "keep" or (option is None and not table.is_number(key))
            kind: Any = "kept" if is_kept else "number"
            if option == "categories":
                kind = "category"
            columns.append(PreparedColumn(key, label, kind, is_log=option == "log1p"))
        return columns

    def _learn(self, column: PreparedColumn, table: Table, most: int) -> PreparedColumn:
        if column.kind == "kept":
            return column
        cells = table.cells(column.name)
        if column.kind == "category":
            return learn_categories(column, cells, self.missing, most)
        return learn_numbers(column, cells, self.missing)

    def transform(self, X: Any) -> Any:
        """Return the table with its features prepared.

        Parameters
        ----------
        X : DataFrame or array of shape (n, d)
            With the columns of `fit`.  Those that `fit` leaves as they are may be missing.

        Returns
        -------
        DataFrame or ndarray
            One row per row of `X`, one column per name of `get_feature_names_out`.
        """
        self._check_fitted()
        table = Table(X)
        self._check_columns(table)
        found: dict[str, Any] = {}
        for column in self.plan_.columns:
            if column.name not in table.keys:
                continue
            is_kept = column.kind == "kept"
            values = None if is_kept else column.values(table.cells(column.name))
            if values is None:
                values = [table.column(column.name)]
            names = [feature.name for feature in column.features]
            found |= dict(zip(names, values, strict=True))
        return table.like(found)

    def _check_columns(self, table: Table) -> None:
        """Refuse a table without the columns of the fit."""
        known = self.feature_names_
        if (known is None) != (table.names is None):
            wanted, got = ("an array", "a table")[:: 1 if known is None else -1]
            raise InvalidQueriesError(
                f"X must be {wanted}, as in fit; got {got}. Pass one with the columns of "
                "the training data."
            )
        if known is None and len(table.keys) != self.n_features_in_:
            raise InvalidQueriesError(
                f"X must have the {self.n_features_in_} columns of the training data; got "
                f"{len(table.keys)}."
            )
        needed = [column.name for column in self.plan_.columns if column.is_needed]
        if missing := [key for key in needed if key not in table.keys]:
            raise InvalidQueriesError(
                "X must have the columns of the training data; it lacks "
                f"{quoted(missing)}. It has {quoted(table.keys)}. Add or rename them; "
                "their order does not matter."
            )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns of an array; default: x0, x1 and so on.

        Returns
        -------
        ndarray of shape (n_features_out,)
            Text.
        """
        self._check_fitted()
        columns = self.plan_.columns
        if self.feature_names_ is None and input_features is not None:
            if len(input_features) != len(columns):
                raise InvalidOptionError(
                    f"input_features must be {len(columns)} names, one per column; got "
                    f"{len(input_features)}."
                )
            columns = tuple(
                replace(column, label=str(label))
                for column, label in zip(columns, input_features, strict=True)
            )
        names = [feature.name for feature in Plan(columns).features]
        return np.array(names, dtype=object)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns that `fit` was given."""
        names = getattr(self, "feature_names_", None)
        if names is None:
            raise AttributeError("there are no names: fitted on an array, or not fitted")
        return np.array(names, dtype=object)

    @property
    def categories_(self) -> dict[str | int, list[str]]:
        """The values that have a feature, by column."""
        return {
            column.name: list(column.categories)
            for column in self.plan_.columns
            if column.kind == "category"
        }

    @property
    def fill_(self) -> dict[str | int, float]:
        """What missing numbers become, by column."""
        return {
            column.name: column.fill
            for column in self.plan_.columns
            if column.kind == "number" and column.fill is not None
        }

    def _check_loaded(self) -> None:
        names = [column.name for column in self.plan_.columns]
        known = self.feature_names_
        if names != (list(range(self.n_features_in_)) if known is None else known):
            raise ValueError("plan_ must have a column for every feature")
