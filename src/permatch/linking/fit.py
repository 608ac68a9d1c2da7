"""`fit_links`: learn to link from labelled pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from permatch.datasets.columns import Columns, Roles
from permatch.datasets.edge_table import build_edge_table
from permatch.datasets.table_sources import read_columns
from permatch.errors import InvalidOptionError, TableError
from permatch.estimators import MAPMatching, MAPMatchingCV
from permatch.estimators.unmatched import expected_unmatched, unmatched_in_words
from permatch.labels import check_known
from permatch.linking.models import features_of, logit_of
from permatch.linking.pairs import PairRoles, choose_roles
from permatch.linking.sources import as_table, check_sources, name_ids


def fit_links(
    pairs: Any,
    *,
    left: str | None = None,
    right: str | None = None,
    label: str = "label",
    features: Sequence[str] | None = None,
    probability: str | None = None,
    weight: str | None = None,
    score: str | None = None,
    alpha: float = 1.0,
    alphas: Sequence[float] | None = None,
    cv: int = 5,
    engine: Any = "auto",
    budget: float | None = 30.0,
    tol: float = 1e-4,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> MAPMatching:
    """Learn from labelled pairs how likely links are, no record having two partners.

    Either from features of the pairs, or from what a classifier or linker says of them:
    then two numbers are learned, a slope and a constant, that make its probabilities right
    one-to-one.  Records without a partner are learned from too, so list the candidate
    pairs of all records, not those of linked ones only.

    Parameters
    ----------
    pairs : DataFrame, mapping, path, or the result of a linker
        A row per candidate pair, as for `link`, with a label.
    left, right : str, optional
        The columns of the ids of the two records; default: as for `link`.
    label : str
        The column that is 1 for links, 0 for other pairs, and empty where it is not known.
    features : sequence of str, optional
        The columns to learn from; default: all other numeric columns.
    probability, weight, score : str, optional
        Calibrate this column, as for `link`, instead of learning from features.
    alpha : float
        Strength of the penalty, at least 0, relative to the whole table: 1 means as much as
        C = 1 in scikit-learn's logistic regression.
    alphas : sequence of float, optional
        Choose alpha among these by cross-validation, for the likelihood of held-out labels.
        Folds are split by entity: see `permatch.linking.split_entities`.
    cv : int
        Number of folds.
    engine : str or engine object
        Computes the probabilities, as in `MAPMatching`.  "bethe" is fast and close.
    budget : float or None
        Seconds that the fit should take with engine "auto", as in `MAPMatching`.
    tol : float
        How well the fit is to converge, as in `MAPMatching`.
    random_state : int, RandomState or None
        Seed of the folds.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    MAPMatching or MAPMatchingCV
        For ``pm.link(new_pairs, model=model)``; `save` writes it to a file.  Its attribute
        ``summary_`` says what was learned, and how many records are expected to have no
        partner.

    Raises
    ------
    TableError
        If columns are missing, a label is not 1, 0 or empty, a record has two links, or
        no record is known to have none.

    Notes
    -----
    A classifier is overconfident about the pairs it was trained on.  If `pairs` are these,
    give the probabilities that it had out of fold, from scikit-learn's
    ``cross_val_predict(..., method="predict_proba")``, not those of the final fit.

    Examples
    --------
    >>> import permatch as pm
    >>> pairs = {
    ...     "left": ["ann", "ann", "bob", "bob", "cid", "dan", "dan"],
    ...     "right": ["a", "b", "b", "c", "c", "d", "e"],
    ...     "probability": [0.7, 0.5, 0.6, 0.2, 0.4, 0.3, 0.9],
    ...     "label": [1, 0, 1, 0, 0, 0, 1],
    ... }
    >>> model = pm.fit_links(pairs, probability="probability")
    >>> model.feature_names_, bool(model.coef_[0] > 0)
    (['logit(probability)'], True)
    >>> print(model.summary_)
    Learned from 7 pairs of 4 left and 5 right records, 3 of them links.
    Of 4 left records 1 (25 %) and of 5 right records 2 (40 %) are expected to have no
    partner.
    """
    values = {"probability": probability, "weight": weight, "score": score}
    named = None if features is None else _as_tuple(features)
    roles = _FitRoles(choose_roles(*name_ids(pairs, left, right), values, named), label)
    columns = _calibrated(read_columns(as_table(pairs), roles), roles.pairs)
    check_sources(columns.others)
    table = build_edge_table(columns, label, is_label_required=True)
    known = check_known(table.graphs, table.matchings)
    if not any(one.leaves_spare for one in known):
        raise TableError(
            "fit_links learns how often records have no partner; no record of "
            f"{columns.name} is known to have none. Add candidate pairs of such records, "
            "all with label 0, or fit permatch.MAPMatching(unmatched='larger')."
        )
    options: dict[str, Any] = {
        "engine": engine,
        "budget": budget,
        "unmatched": "any",
        "tol": tol,
        "n_jobs": n_jobs,
        "verbose": verbose,
    }
    model: Any = MAPMatching(alpha, **options)
    if alphas is not None:
        more = {"cv": cv, "scoring": "log_likelihood", "random_state": random_state}
        model = MAPMatchingCV(alphas, **options, **more)
    model.fit(table.graphs, table.matchings, feature_names=table.feature_names)
    used = _used(columns) if roles.is_open else ""
    model.summary_ = _summary(model, table.graphs, known, _labelled(columns) + used)
    return model


def _as_tuple(names: Sequence[str]) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    if not found:
        raise InvalidOptionError(
            "features must name at least one column, or be None for all numeric columns; "
            f"got {names!r}."
        )
    return found


@dataclass(frozen=True)
class _FitRoles:
    """The columns of labelled pairs; without features or a value, all other numbers."""

    pairs: PairRoles
    label: str

    @property
    def is_open(self) -> bool:
        """Whether the features are to be found."""
        return self.pairs.features is None and self.pairs.value is None

    @property
    def required(self) -> list[str]:
        """The columns that a table should have."""
        found = self.pairs.required
        return [*(found[:2] if self.is_open else found), self.label]

    def fits(self, header: list[str]) -> bool:
        """Return whether a table with these columns will do."""
        return self._with_value(header).fits(header)

    def chosen(self, header: list[str]) -> Roles:
        """Return the roles of the columns of a table."""
        roles = self._with_value(header).chosen(header)
        features = None if self.is_open else roles.features
        return replace(roles, label=self.label, features=features, has_labels_read=True)

    def _with_value(self, header: list[str]) -> PairRoles:
        # Any column stands for the features that are to be found.
        return replace(self.pairs, features=()) if self.is_open else self.pairs


def _calibrated(columns: Columns, roles: PairRoles) -> Columns:
    """Return the columns with log-odds in place of a probability."""
    if roles.kind != "probability":
        return columns
    names = [logit_of(name) for name in columns.feature_names]
    return replace(columns, features=features_of(columns, names), feature_names=names)


def _used(columns: Columns) -> str:
    """Say which columns were taken for features, as none were named."""
    found = f"Features, all other numeric columns: {', '.join(columns.feature_names)}.\n"
    if columns.ignored:
        found += f"Not used: {', '.join(columns.ignored)}.\n"
    return found


def _labelled(columns: Columns) -> str:
    """Say how many pairs have a label, if not all do."""
    labels = columns.labels
    n_blank = 0 if labels is None else int(np.isnan(labels).sum())
    n_known = len(columns.features) - n_blank
    return f"{n_known:,} pairs are labelled.\n" if n_blank else ""


def _summary(model: Any, graphs: list[Any], known: list[Any], more: str) -> str:
    """Say what was learned."""
    n, k = sum(g.n_left for g in graphs), sum(g.n_right for g in graphs)
    n_links = int(sum(one.is_match.sum() for one in known))
    n_pairs = sum(graph.n_edges for graph in graphs)
    alone = expected_unmatched(model, graphs, known)
    return (
        f"Learned from {n_pairs:,} pairs of {n:,} left and {k:,} right records, "
        f"{n_links:,} of them links.\n{more}{unmatched_in_words(alone, (n, k), 'record')}"
    )
