"""``permatch infer``: the distribution over the matchings of one graph."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from permatch.cli.infer_report import describe_accuracy, show
from permatch.cli.shared.options import AsJson, Engine, Jobs, argument, optional
from permatch.cli.shared.terminal import print_summary
from permatch.errors import InvalidMatchingError, InvalidOptionError, SizeLimitError

if TYPE_CHECKING:
    from permatch.datasets.score_matrix import ScoreMatrix
    from permatch.distribution import MatchingDistribution
    from permatch.inference import AbstractEngine


def _check_given(edges: list[str] | None) -> list[str]:
    for edge in edges or []:
        if ":" not in edge:
            raise typer.BadParameter(
                f"an edge must be written ROW:COL, such as 0:2; got {edge!r}."
            )
    return edges or []


@dataclass(frozen=True)
class Chosen:
    """The options that choose an engine."""

    engine: Engine = "auto"
    tol: Annotated[
        float | None,
        optional(
            "--tol",
            metavar="X",
            help="Error to reach; for auto, of the edge probabilities.",
        ),
    ] = None
    budget: Annotated[
        float | None,
        optional(
            "--budget",
            metavar="SECONDS",
            help="Time for graphs too large for exact inference.",
        ),
    ] = None
    max_size: Annotated[
        int | None,
        optional(
            "--max-size", metavar="N", min=0, help="Largest graph the engine accepts."
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, help="Seed of the samples and of sampling engines."),
    ] = 0

    def make(self) -> "AbstractEngine":
        """Return the engine, refusing options it does not have."""
        from permatch.inference import find_engine

        engine = find_engine(self.engine)
        known = {option.name for option in fields(engine)}
        given = {name: getattr(self, name) for name in ("max_size", "tol", "budget")}
        options = {name: value for name, value in given.items() if value is not None}
        for name in options:
            if name not in known:
                option = f"--{name.replace('_', '-')}"
                raise typer.BadParameter(
                    f"{option} is not an option of the engine {engine.name!r}, which has "
                    f"{', '.join(sorted(known))}. Drop it, or choose another --engine."
                )
        if "random_state" in known:
            options["random_state"] = self.seed
        try:
            return replace(engine, **options)
        except InvalidOptionError as err:
            raise typer.BadParameter(str(err)) from err


_PAIRS = "Tables of candidate pairs"


def _score(name: str, text: str) -> Any:
    return optional(name, metavar="SCORE", help=text, callback=_check_unmatched)


def _check_unmatched(score: float | None) -> float | None:
    if score is not None and not score < math.inf:  # NaN too
        raise typer.BadParameter("must be a number, or -inf: every node must be matched.")
    return score


@dataclass(frozen=True)
class Unmatched:
    """The options of nodes without a partner, and of tables of pairs."""

    unmatched_left: Annotated[
        float | None,
        _score(
            "--unmatched-left",
            "Score of a row without a partner. Default: every row has one; of more rows "
            "than columns, those left over have none. If there are as many rows as "
            "columns, a row can only stay unmatched if a column may too.",
        ),
    ] = None
    unmatched_right: Annotated[
        float | None,
        _score("--unmatched-right", "Score of a column without a partner, likewise."),
    ] = None
    left_column: Annotated[
        str,
        typer.Option(
            "--left-column", metavar="NAME", help="Left node.", rich_help_panel=_PAIRS
        ),
    ] = "left"
    right_column: Annotated[
        str,
        typer.Option(
            "--right-column", metavar="NAME", help="Right node.", rich_help_panel=_PAIRS
        ),
    ] = "right"
    score_column: Annotated[
        str,
        typer.Option(
            "--score-column", metavar="NAME", help="Score.", rich_help_panel=_PAIRS
        ),
    ] = "score"


def infer(
    file: Annotated[
        str,
        argument(
            "FILE",
            "Matrix of scores: .csv, .tsv, .txt or .npy; or table of candidate pairs with "
            "columns left, right, score: .csv, .tsv, .parquet; - for standard input.",
        ),
    ],
    chosen: Chosen,
    problem: Unmatched,
    k: Annotated[
        int, typer.Option("--k", "-k", min=0, help="Most probable matchings to list.")
    ] = 5,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            "-n",
            min=0,
            help="Exact random matchings to draw; beyond 24 rows each takes milliseconds "
            "to seconds.",
        ),
    ] = 0,
    jobs: Jobs = 1,
    given: Annotated[
        list[str] | None,
        optional(
            "--given",
            metavar="ROW:COL",
            help="Edge known to be matched, by labels or numbers from 0; repeatable.",
            callback=_check_given,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Print the distribution over the matchings of one graph.

    A matching's probability is proportional to exp(sum of the scores of its
    edges, and of staying unmatched).  Prints the log-partition, the entropy,
    the most probable matchings, the probability of every edge and of staying
    unmatched, and the matching with the most correct nodes expected (Bayes).
    Exact for small or sparse graphs; beyond that, estimated to --tol within
    --budget seconds, with its errors reported.

    [bold]A matrix[/bold] has one line per row, cells separated by commas,
    semicolons, tabs or spaces.  An empty cell or -inf forbids an edge.  A
    first row and a first column of text are labels; lines that start with #
    are skipped.  For pair probabilities p, use the score log(p / (1 - p)) and
    --unmatched-left 0 --unmatched-right 0.

    [bold]A table[/bold] has a header with the columns left, right and score,
    and one line per candidate pair; other pairs are forbidden.

    [bold]Examples[/bold]

      permatch infer scores.csv
      permatch infer scores.csv --unmatched-left 0 --unmatched-right -1
      permatch infer pairs.parquet --unmatched-left 0 --unmatched-right 0
      permatch infer scores.npy --k 10 --samples 1000 --seed 1
      permatch infer large.csv --tol 0.005 --budget 60
      permatch infer scores.csv --given ann:x --given 1:0
      permatch infer scores.csv --json | python -m json.tool
      printf '2 0 1\n0 2 1\n1 1 0\n' | permatch infer -
    """
    from permatch.datasets.score_matrix import PairColumns, read_score_matrix
    from permatch.distribution import MatchingDistribution

    engine = chosen.make()
    columns = PairColumns(problem.left_column, problem.right_column, problem.score_column)
    source = read_score_matrix(file, columns)
    edges = _find_given(source, given or [])
    distribution = MatchingDistribution(
        source.scores,
        engine,
        unmatched_left=problem.unmatched_left,
        unmatched_right=problem.unmatched_right,
        given=edges,
        n_jobs=jobs,
    )
    with warnings.catch_warnings():  # what engines warn of, the summary tells
        warnings.simplefilter("ignore", RuntimeWarning)
        with _helpful_limits(engine, max(source.shape) - len(edges)):
            summary = summarise(distribution, source, k, samples, chosen.seed)
    print_summary(summary, as_json, show)


def _find_given(source: "ScoreMatrix", edges: list[str]) -> dict[int, int]:
    """Return the given edges, row to column."""
    found: dict[int, int] = {}
    for edge in edges:
        row, col = source.find_edge(edge)
        if found.setdefault(row, col) != col:
            raise InvalidMatchingError(
                f"given edges must match each row at most once; got {edge!r} and another "
                f"edge of row {row}. Drop one of them."
            )
    return found


@contextmanager
def _helpful_limits(engine: "AbstractEngine", size: int) -> Iterator[None]:
    """Name the options that help if a graph is too large."""
    try:
        yield
    except SizeLimitError as err:
        options = "--given ROW:COL"
        with suppress(InvalidOptionError, TypeError):  # where the limit cannot be raised
            replace(engine, max_size=size)
            options += f" or --max-size {size}"
        raise SizeLimitError(f"{err} On the command line: {options}.") from err


def summarise(
    distribution: "MatchingDistribution",
    source: "ScoreMatrix",
    k: int,
    n_samples: int,
    seed: int,
) -> dict[str, Any]:
    """Collect the results as plain lists and numbers, None where there are none."""
    # Samples first: that there are none should not be learned after minutes of inference.
    drawn = distribution.sample(n_samples, rng=seed).tolist() if n_samples > 0 else None
    marginals = entropy = bayes = alone = None
    if distribution.engine.has_marginals:
        marginals = distribution.marginals.tolist()
        alone = [
            distribution.unmatched_left.tolist(),
            distribution.unmatched_right.tolist(),
        ]
        entropy = distribution.entropy
        bayes = _describe(distribution, distribution.bayes_matching())
    n_left, n_right = source.shape
    summary = {
        "file": source.name,
        "n_left": n_left,
        "n_right": n_right,
        "n_edges": source.n_edges,
        "n_forbidden": n_left * n_right - source.n_edges,
        "row_labels": source.row_labels,
        "column_labels": source.column_labels,
        "given": sorted(distribution.given.matched.items()),
        "engine": distribution.diagnostics.engine,
        "reason": distribution.diagnostics.reason,
        "is_exact": distribution.is_exact,
        **describe_accuracy(distribution),
        "log_partition": distribution.log_partition,
        "entropy": entropy,
        "mode": _describe(distribution, distribution.mode()),
        "bayes_matching": bayes,
        "k_best": [],
        "edges": _edges(source),
        "marginals": marginals,
        "unmatched_left": None if alone is None else alone[0],
        "unmatched_right": None if alone is None else alone[1],
    }
    if k > 0:
        best = distribution.k_best(k)
        summary["k_best"] = [
            _describe(distribution, matching) for matching in best.matchings
        ]
    if drawn is not None:
        summary["seed"] = seed
        summary["samples"] = drawn
    return summary


def _edges(source: "ScoreMatrix") -> list[list[int]] | None:
    """Return the nodes of every pair of a table, in the order of its marginals."""
    from permatch.scores import EdgeScores  # loads the compiler

    if not isinstance(source.scores, EdgeScores):
        return None
    return np.stack([source.scores.left, source.scores.right], axis=1).tolist()


def _describe(distribution: "MatchingDistribution", matching: Any) -> dict[str, Any]:
    from permatch.decoding.totals import total_scores  # loads the compiler

    log_probability = distribution.log_prob(matching)
    (score,) = total_scores(distribution.problem, matching[None]).tolist()
    return {
        "matching": matching.tolist(),
        "score": score,
        "log_probability": log_probability,
        "probability": math.exp(log_probability),
    }
