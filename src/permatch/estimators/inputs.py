"""What a ranker reads of its data: features by name or position, and whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from permatch._cells import column_keys
from permatch._missing_queries import missing_queries
from permatch._tables import (
    Roles,
    check_feature_names,
    column_names,
    is_numeric,
    is_table,
    take_features,
    take_roles,
)
from permatch.distributed import has_columns
from permatch.queries import QuerySet, check_documents, check_queries


@dataclass(frozen=True, eq=False)
class Inputs:
    """The features of a model: columns of a table by name, of anything else by position.

    `columns` is None if they have no names; then `aside` is a column that is no feature.
    """

    n_features: int
    names: list[str] | None = None
    columns: list[str] | None = None
    left_out: Sequence[str] = ()
    aside: str | None = None

    @classmethod
    def of(cls, model: Any) -> "Inputs":
        """Return those of a fitted ranker."""
        return cls(
            n_features=model.n_features_in_,
            names=model.feature_names_,
            columns=model.columns_ or model.feature_names_,
            left_out=model.left_out_,
            aside=model.qid,
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a ranker fitted on them."""
        return {
            "feature_names_": self.names,
            "columns_": self.columns,
            "left_out_": list(self.left_out),
        }

    def read(self, X: Any) -> Any:
        """Return checked documents in memory with these features.

        Columns of a table are found by name, in any order; others are ignored.
        """
        return check_documents(self._select(X), self.n_features, names=self._names(X))

    def queries(
        self, X: Any, roles: Roles, group: Any, owner: str = "the fitted model"
    ) -> QuerySet:
        """Return checked judged lists in memory with these features."""
        y, qid, weight = take_roles(X, roles)
        return check_queries(
            self._select(X),
            y,
            qid,
            group,
            self.n_features,
            sample_weight=weight,
            names=self._names(X),
            owner=owner,
        )

    def _select(self, X: Any) -> Any:
        if not is_table(X):
            return X
        unnamed = [key for key in column_keys(X) if key != self.aside]
        return take_features(X, self.columns or unnamed)

    def _names(self, X: Any) -> list[str] | None:
        return self.columns if is_table(X) else None


def learn_inputs(X: Any, roles: Roles, group: Any) -> tuple[Inputs, QuerySet]:
    """Return the features of training data in memory, and the judged lists.

    Those of a table are the columns named, or all others that hold numbers.
    """
    y, qid, weight = take_roles(X, roles)
    names, columns, left_out = roles.features, None, []
    documents = X
    if is_table(X):
        numeric, named = is_numeric(X), roles.named()
        chosen = named.columns(numeric, "X")
        documents = take_features(X, chosen)
        if column_names(X) is not None:
            columns = names = chosen
        if roles.features is None:
            taken = {*chosen, *named.taken}
            left_out = [str(name) for name in numeric if name not in taken]
    queries = check_queries(documents, y, qid, group, sample_weight=weight, names=columns)
    known = check_feature_names(names, queries.n_features)
    return Inputs(queries.n_features, known, columns, left_out), queries


def own_queries(model: Any, X: Any, qid: Any, group: Any) -> Any:
    """Return query ids, or the name of their column, as given or as the model has it."""
    if qid is None and group is None and model.qid is not None and has_columns(X):
        return model.qid
    return qid


def query_ids(model: Any, X: Any, qid: Any, group: Any) -> Any:
    """Return the query ids of documents in memory, None if they are given by `group`."""
    qid = own_queries(model, X, qid, group)
    if qid is None and group is None:
        raise missing_queries(type(model).__name__, X, model.qid)
    return take_roles(X, Roles(qid=qid))[1]
