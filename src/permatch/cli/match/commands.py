"""``permatch match``: its commands fit, predict and evaluate."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch._estimators import find_estimator
from permatch.cli.match.options import (
    Columns,
    Decode,
    Decoder,
    Edges,
    NoProbabilities,
    Use,
)
from permatch.cli.match.report import (
    describe_evaluation,
    describe_fit,
    show_evaluation,
    show_fit,
)
from permatch.cli.match.show import show
from permatch.cli.match.steps import (
    decode_matchings,
    edge_probabilities,
    load_for,
    read_table,
)
from permatch.cli.shared.options import (
    Alpha,
    Alphas,
    AsJson,
    ChooseAlpha,
    Engine,
    Folds,
    Jobs,
    MaxIter,
    Model,
    NewModel,
    estimator_option,
    flag,
    optional,
    parse_alphas,
)
from permatch.cli.shared.steps import (
    check_folds,
    check_target,
    fit_model,
    leave_early,
    nothing_written_if_interrupted,
)
from permatch.cli.shared.terminal import add, new_group, print_summary, standard_output

#: Largest seed that scikit-learn's folds take.
MAX_SEED = 2**32 - 1

match = new_group()


class Scoring(StrEnum):
    """What ``--scoring`` accepts."""

    HAMMING = "hamming"
    LOG_LIKELIHOOD = "log-likelihood"


@match.callback()
def main() -> None:
    """Learn the weights of a matching from labelled matches.

    A graph is one lot of things to be paired: a day's invoices and payments,
    the points of two pictures.  Every pair, or edge, of a left and a right
    node has features, and of the training graphs one matching is known.
    permatch learns a weight per feature, and then tells for new graphs how
    probable every edge is.  If one side is larger, some of its nodes stay
    without a partner.

    [bold]The table[/bold] has one row per edge:

      graph,left,right,label,distance,same_city
      monday,a1,b1,0,3.1,0
      monday,a1,b2,1,0.4,1
      ...

    Columns of other names: --graph-column, --left-column and so on.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json --cv
      permatch match evaluate model.json test.csv
      permatch match predict model.json new.csv --out matches.csv
      permatch match show model.json test.csv --graph monday
    """


def fit(
    edges: Edges,
    model_file: NewModel,
    alpha: Alpha = None,
    cv: ChooseAlpha = False,
    alphas: Alphas = None,
    folds: Folds = None,
    scoring: Annotated[
        Scoring, typer.Option("--scoring", help="What --cv looks at.")
    ] = Scoring.LOG_LIKELIHOOD,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the folds.")
    ] = 0,
    valid: Annotated[
        str | None,
        optional(
            "--valid",
            metavar="EDGES",
            help="A second table: chooses alpha with --cv, else is only reported.",
        ),
    ] = None,
    estimator: Annotated[str, estimator_option("match", help="What is learnt.")] = "map",
    non_negative: Annotated[
        bool, flag("--non-negative", help="Keep all coefficients >= 0.")
    ] = False,
    non_positive: Annotated[
        bool, flag("--non-positive", help="Keep them <= 0, as for distances.")
    ] = False,
    max_iter: MaxIter = None,
    engine: Engine = "auto",
    jobs: Jobs = 1,
    as_json: AsJson = False,
    *,
    columns: Columns,
) -> None:
    """Learn a weight for every feature and write the model.

    [bold]The table[/bold] has a header and one row per edge: the graph, the left
    and the right node, the label (1 if they are matched, else 0), and numbers.
    All columns of numbers are features unless --features names them.  Every
    node has one match, some of a larger side none, and every edge a row (or
    see --missing).

    Ctrl-C writes the best model so far.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json
      permatch match fit train.csv -m model.json --cv --jobs -1
      permatch match fit train.csv -m model.json --cv --valid valid.csv
      permatch match fit train.csv -m model.json --cv --alphas 1,0.1,0.01
      permatch match fit train.parquet -m model.json --features age,distance
      permatch match fit train.csv -m model.json --estimator max-margin
    """
    if cv and alpha is not None:
        raise typer.BadParameter("--alpha and --cv exclude each other: --cv chooses alpha.")
    if alphas is not None and not cv:
        raise typer.BadParameter("--alphas is what --cv tries; add --cv, or use --alpha.")
    if estimator == "max-margin" and alpha == 0.0:
        raise typer.BadParameter("--alpha must be above 0 with --estimator max-margin.")
    if estimator == "max-margin" and (cv or non_negative or non_positive):
        raise typer.BadParameter(
            "--cv, --non-negative and --non-positive work with --estimator map only."
        )
    if non_negative and non_positive:
        raise typer.BadParameter("--non-negative and --non-positive exclude each other.")
    read_as = columns.read_as("required")
    options: dict[str, Any] = {"engine": engine, "n_jobs": jobs}
    options |= {"max_iter": max_iter} if max_iter is not None else {}
    if non_negative or non_positive:
        options["bounds"] = "non-negative" if non_negative else "non-positive"
    n_folds = folds or 5
    if cv:
        options |= {"alphas": parse_alphas(alphas)} if alphas is not None else {}
        options |= {"cv": n_folds, "scoring": scoring.replace("-", "_")}
        options["random_state"] = seed
    elif alpha is not None:
        options["alpha"] = alpha
    with nothing_written_if_interrupted():
        check_target(model_file, "--model", edges, valid)
        table = read_table(edges, read_as)
        held_out = None
        if valid is not None:
            held_out = read_table(valid, read_as, table.feature_names)
        elif cv:
            check_folds(n_folds, len(table.graphs), "graphs", "--valid")
        more: dict[str, Any] = {"feature_names": table.feature_names}
        if cv and held_out is not None:
            more["validation"] = (held_out.graphs, held_out.matchings)
        model = find_estimator("match", estimator, is_search=cv)(**options)
        began = time.perf_counter()
        if fit_model(model, table.graphs, table.matchings, **more):
            leave_early(model, model_file)
        seconds = time.perf_counter() - began
        model.save(model_file)
    summary = describe_fit(model, table, held_out, str(model_file), seconds)
    print_summary(summary, as_json, show_fit)


def predict(
    model_file: Model,
    edges: Edges,
    out: Annotated[
        Path | None,
        optional(
            "--out", "-o", metavar="FILE", help="Where to write; else standard output."
        ),
    ] = None,
    decode: Decoder = Decode.MODE,
    marginals: Annotated[
        bool, flag("--marginals", help="List all edges, not the matched ones only.")
    ] = False,
    no_probabilities: NoProbabilities = False,
    *,
    use: Use,
    columns: Columns,
) -> None:
    """Match the nodes of new graphs, and say how probable each match is.

    Writes CSV: graph, left, right, probability.  The table is like that of
    fit; labels are not needed and not looked at.  Its features must have the
    names of the model's, in any order.

    [bold]Examples[/bold]

      permatch match predict model.json new.csv
      permatch match predict model.json new.csv --decode bayes --out matches.csv
      permatch match predict model.json new.csv --marginals > edges.csv
    """  # fmt: skip
    if no_probabilities and (marginals or decode is Decode.BAYES):
        raise typer.BadParameter(
            "--marginals and --decode bayes need the probabilities; drop "
            "--no-probabilities."
        )
    with nothing_written_if_interrupted():
        if out is not None:
            check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, columns.read_as("ignored"), use)
        from permatch.datasets import write_matches

        chances = None if no_probabilities else edge_probabilities(model, table)
        matchings = decode_matchings(model, table, chances, decode.value)
        target = standard_output() if out is None else out
        write_matches(target, table, matchings, chances, all_edges=marginals)


def evaluate(
    model_file: Model,
    edges: Edges,
    decode: Decoder = Decode.MODE,
    no_probabilities: NoProbabilities = False,
    as_json: AsJson = False,
    *,
    use: Use,
    columns: Columns,
) -> None:
    """Measure a model on a labelled table it was not fitted on.

    Prints the Hamming loss (share of nodes matched wrongly), the share of
    graphs matched without an error, the mean log-likelihood of the labels,
    and how far the predicted probabilities of edges are from their observed
    frequency (expected calibration error).

    [bold]Examples[/bold]

      permatch match evaluate model.json test.csv
      permatch match evaluate model.json test.csv --json | python -m json.tool
    """
    if no_probabilities and decode is Decode.BAYES:
        raise typer.BadParameter("--decode bayes needs the probabilities.")
    model, table = load_for(model_file, edges, columns.read_as("required"), use)
    chances = None if no_probabilities else edge_probabilities(model, table)
    matchings = decode_matchings(model, table, chances, decode.value)
    source = {"model": str(model_file), "edges": edges, "decode": decode.value}
    summary = source | describe_evaluation(model, table, matchings, chances)
    print_summary(summary, as_json, show_evaluation)


add(match, fit, predict, evaluate, show)
