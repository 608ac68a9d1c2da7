"""What a page shows of a table of pairs under a fitted matcher."""

from typing import Any

import numpy as np

from permatch._parallel import Job
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_jobs
from permatch.assignment import best_assignment
from permatch.datasets import EdgeTable
from permatch.decoding.bayes import bayes_assignment
from permatch.estimators import BaseMatcher, LinearMatcher
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.inference import InferenceResult, find_engine, require_marginals
from permatch.labels import check_known
from permatch.pages.explorer_page import count, percent
from permatch.pages.match_view import (
    BAYES_ONLY,
    LINK,
    MODE_ONLY,
    NO_LINK,
    Evidence,
    MatchView,
)
from permatch.problems import Problem, Selection, Structure, side_by_side

# Standard errors to both sides of an estimate.
_REACH = 2.0


def model_view(
    model: BaseMatcher,
    table: EdgeTable,
    *,
    n_best: int = 10,
    node: str | None = None,
) -> MatchView:
    """Return the pairs of all graphs of a table, and what a model makes of them.

    Parameters
    ----------
    model : BaseMatcher
        A fitted model.
    table : EdgeTable
        Graphs with the features of the model, in its order.
    n_best : int
        How many of the best matchings to list for a component.
    node : str, optional
        Show only the components of the nodes of this name; none if there is no such node.

    Returns
    -------
    MatchView
        The input of `permatch.pages.match_explorer.match_page`.
    """
    engine = find_engine(model.engine)
    require_marginals(engine)
    whole = _side_by_side([model.distribution(graph).problem for graph in table.graphs])
    part = whole.select(np.arange(len(whole.structure.components)))
    result = engine.infer_problem(part.problem, Job(check_jobs(model.n_jobs)))
    names = ["" if name is None else str(name) for name in table.graph_ids]
    name = _name(names)
    low, high, interval = _intervals(result)
    posterior = getattr(model, "posterior_", None) if result.is_exact else None
    if posterior is not None:
        low, high, interval = _of_weights(model, table, posterior, part)
    view = MatchView(
        name=name,
        title=f"Matchings of {name}" if name else "Matchings",
        lead=_lead(model, table, whole.structure, names),
        how=_how_found(result),
        table="permatch match predict --marginals writes all pairs to a table.",
        problem=part.problem,
        left=_names(table.left_ids, part.left),
        right=_names(table.right_ids, part.right),
        graphs=_graphs(whole, part, names),
        chances=result.marginals,
        alone_left=result.unmatched_left,
        alone_right=result.unmatched_right,
        decisions=_decide(part.problem, result),
        is_exact=_exact_parts(part.problem.structure, result),
        evidence=_evidence(model, table).take(part.edges),
        log_partitions=np.asarray(result.log_partition),
        low=low,
        high=high,
        interval=interval,
        is_for_weights=posterior is not None,
        labels=_labels(table, part),
        n_best=n_best,
    )
    return view if node is None else view.having(node)


def _evidence(model: BaseMatcher, table: EdgeTable) -> Evidence:
    """Return what speaks for every pair: its features, and what each adds to the score."""
    features = np.concatenate([graph.edge_features for graph in table.graphs])
    if isinstance(model, LinearMatcher):
        return Evidence(table.feature_names, features, model.coef_)
    return explained(model, table.feature_names, features, [])


def explained(
    model: BaseMatcher,
    names: list[str],
    features: FloatArray,
    more: list[tuple[str, float]],
) -> Evidence:
    """Return evidence of a model that is not linear, and `more` names and constants."""
    n_features = features.shape[1]

    def explain(values: FloatArray) -> FloatArray:
        added = model.contributions(values[:, :n_features])
        return np.column_stack([added, values[:, n_features + 1 :]])

    constants = np.tile([1.0, *(value for _, value in more)], (len(features), 1))
    return Evidence(
        [*names, "constant", *(name for name, _ in more)],
        np.column_stack([features, constants]),
        explain=explain,
    )


def _side_by_side(problems: list[Problem]) -> Problem:
    """Return one problem with the graphs of several."""

    def joined(name: str) -> FloatArray:
        return np.concatenate([np.zeros(0), *(getattr(one, name) for one in problems)])

    return Problem(
        side_by_side([problem.structure for problem in problems]),
        joined("scores"),
        joined("unmatched_left"),
        joined("unmatched_right"),
    )


def _names(ids: list[list[Any]], chosen: IntArray) -> list[str]:
    every = [str(name) for own in ids for name in own]
    return [every[k] for k in chosen.tolist()]


def _graphs(whole: Problem, part: Selection, names: list[str]) -> list[str]:
    """Return the graph of every component, if there are several graphs."""
    if len(names) == 1:
        return []
    return [names[g] for g in whole.structure.graph_of_component[part.components].tolist()]


def _decide(problem: Problem, result: InferenceResult) -> IntArray:
    """Return which pairs are links of the mode and of the Bayes matching."""
    structure = problem.structure
    modes, bayes = (
        structure.right == matching[structure.left]
        for matching in (
            best_assignment(problem).matching,
            bayes_assignment(problem, result.marginals, result.unmatched_left),
        )
    )
    words = np.where(modes, np.where(bayes, LINK, MODE_ONLY), NO_LINK)
    return np.where(bayes & ~modes, BAYES_ONLY, words)


def _labels(table: EdgeTable, part: Selection) -> IntArray | None:
    if table.matchings is None:
        return None
    known = check_known(table.graphs, table.matchings)
    values = [np.where(own.is_open, -1, own.is_match) for own in known]
    return np.concatenate(values)[part.edges]


def _exact_parts(structure: Structure, result: InferenceResult) -> BoolArray:
    """Return which components have exact probabilities: those without an error."""
    if result.is_exact:
        return np.ones(structure.n_graphs, dtype=bool)
    if result.marginal_errors is None:
        return np.zeros(structure.n_graphs, dtype=bool)
    owner = structure.graph_of_left[structure.left]
    is_rough = ~(np.asarray(result.marginal_errors) == 0.0)  # NaN too
    return np.bincount(owner[is_rough], minlength=structure.n_graphs) == 0


def _intervals(
    result: InferenceResult,
) -> tuple[FloatArray | None, FloatArray | None, str]:
    """Return the ends of intervals for the probabilities, and what is said of them."""
    if result.is_exact:
        return None, None, ""
    if result.marginal_bounds is not None:
        return *result.marginal_bounds, "certain"
    if result.marginal_errors is None or np.isnan(result.marginal_errors).all():
        return None, None, ""
    reach = _REACH * np.nan_to_num(result.marginal_errors, nan=np.inf)
    chances = result.marginals
    low, high = (np.clip(chances + sign * reach, 0.0, 1.0) for sign in (-1.0, 1.0))
    return low, high, "two standard errors"


def _of_weights(
    model: Any, table: EdgeTable, posterior: Posterior, part: Selection
) -> tuple[FloatArray, FloatArray, str]:
    """Return intervals due to the uncertainty of the weights, and their name."""
    found = model.predict_marginals(table.graphs, uncertainty=posterior)
    pairs = list(zip(table.graphs, found, strict=True))
    low = np.concatenate([graph.pick(one.low) for graph, one in pairs])
    high = np.concatenate([graph.pick(one.high) for graph, one in pairs])
    words = f"95 %, {posterior.interval_name} of the weights"
    return low[part.edges], high[part.edges], words


def _name(names: list[str]) -> str:
    if len(names) != 1:
        return f"{len(names):,} graphs"
    return f"graph {names[0]}" if names[0] else ""


def _lead(
    model: BaseMatcher, table: EdgeTable, structure: Structure, names: list[str]
) -> str:
    graphs = f"{len(names):,} graphs with " if len(names) != 1 else ""
    unmatched = ""
    if model.unmatched_ == "any":
        unmatched = (
            " Any node may stay unmatched, at the score "
            f"{model.unmatched_intercept_:.4g} (learned)."
        )
    return (
        f"{graphs}{structure.n_left:,} left and {count(structure.n_right, 'right node')}, "
        f"{count(structure.n_edges, 'candidate pair')}, "
        f"{count(len(table.feature_names), 'feature')}; probabilities from a "
        f"{type(model).__name__} model.{unmatched}"
    )


def _how_found(result: InferenceResult) -> str:
    found = result.diagnostics
    reason = f" ({found.reason})" if found.reason else ""
    if result.is_exact:
        return f"All probabilities are exact, computed by engine {found.engine}{reason}."
    error = (
        "their error is unknown"
        if found.marginal_error is None or np.isnan(found.marginal_error)
        else f"the largest standard error is {percent(found.marginal_error)}"
    )
    doubt = "" if found.is_converged else " The engine did not reach its tolerance."
    return (
        f"Probabilities are approximate, estimated by engine {found.engine}{reason}; "
        f"{error}.{doubt} The best matchings and their order are exact."
    )
