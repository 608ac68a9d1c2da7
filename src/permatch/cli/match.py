"""``permatch match``: learn to match from labelled edge tables, and use what was learnt."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.match_options import (
    MAX_SEED,
    AsJson,
    Decode,
    Decoder,
    Edges,
    Engine,
    Estimator,
    Features,
    GraphColumn,
    Jobs,
    LabelColumn,
    LeftColumn,
    Missing,
    MissingEdges,
    Model,
    ModelEngine,
    NoProbabilities,
    RightColumn,
    Scoring,
    check_alpha,
    column_options,
    parse_alphas,
)
from permatch.cli.match_report import (
    describe_evaluation,
    describe_fit,
    show_evaluation,
    show_fit,
)
from permatch.cli.match_show import show
from permatch.cli.match_steps import (
    check_folds,
    check_target,
    decode_matchings,
    edge_probabilities,
    fit_model,
    leave_early,
    load_for,
    new_model,
    nothing_written_if_interrupted,
    read_table,
)
from permatch.cli.options import Debug, MaxBytes
from permatch.cli.terminal import Command, Group, printing, standard_output

match = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


@match.command(cls=Command)
def fit(
    edges: Edges,
    model_file: Annotated[
        Path,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Where to write the model (JSON).",
            show_default=False,
        ),
    ],
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            "-a",
            help="Strength of the penalty; 0.01 without --cv.",
            callback=check_alpha,
            show_default=False,
        ),
    ] = None,
    cv: Annotated[
        bool,
        typer.Option(
            "--cv", metavar="", help="Choose alpha by cross-validation, or by --valid."
        ),
    ] = False,
    alphas: Annotated[
        str | None,
        typer.Option(
            "--alphas",
            metavar="A,B,...",
            help="The values that --cv tries.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of --cv.")] = 5,
    scoring: Annotated[
        Scoring, typer.Option("--scoring", help="What --cv looks at.")
    ] = Scoring.LOG_LIKELIHOOD,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of the folds.")
    ] = 0,
    valid: Annotated[
        str | None,
        typer.Option(
            "--valid",
            metavar="EDGES",
            help="A second table: chooses alpha with --cv, else is only reported.",
            show_default=False,
        ),
    ] = None,
    estimator: Annotated[
        Estimator, typer.Option("--estimator", help="What is learnt.")
    ] = Estimator.MAP,
    non_negative: Annotated[
        bool, typer.Option("--non-negative", metavar="", help="Keep all coefficients >= 0.")
    ] = False,
    non_positive: Annotated[
        bool,
        typer.Option(
            "--non-positive", metavar="", help="Keep them <= 0, as for distances."
        ),
    ] = False,
    max_iter: Annotated[
        int | None,
        typer.Option("--max-iter", min=1, help="Most steps.", show_default=False),
    ] = None,
    engine: Engine = "auto",
    jobs: Jobs = 1,
    graph_column: GraphColumn = "graph",
    left_column: LeftColumn = "left",
    right_column: RightColumn = "right",
    label_column: LabelColumn = "label",
    features: Features = None,
    missing: MissingEdges = Missing.ERROR,
    as_json: AsJson = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
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
    if estimator is Estimator.MAX_MARGIN and alpha == 0.0:
        raise typer.BadParameter("--alpha must be above 0 with --estimator max-margin.")
    if estimator is Estimator.MAX_MARGIN and (cv or non_negative or non_positive):
        raise typer.BadParameter(
            "--cv, --non-negative and --non-positive work with --estimator map only."
        )
    if non_negative and non_positive:
        raise typer.BadParameter("--non-negative and --non-positive exclude each other.")
    columns = column_options(
        graph_column, left_column, right_column, label_column, features, missing
    ) | {"labels": "required"}
    options: dict[str, Any] = {"engine": engine, "n_jobs": jobs}
    options |= {"max_iter": max_iter} if max_iter is not None else {}
    if non_negative or non_positive:
        options["bounds"] = "non-negative" if non_negative else "non-positive"
    if cv:
        options |= {"alphas": parse_alphas(alphas)} if alphas is not None else {}
        options |= {"cv": folds, "scoring": scoring.replace("-", "_"), "random_state": seed}
    elif alpha is not None:
        options["alpha"] = alpha
    with nothing_written_if_interrupted():
        check_target(model_file, "--model", edges, valid)
        table = read_table(edges, columns)
        held_out = None
        if valid is not None:
            held_out = read_table(valid, columns, table.feature_names)
        elif cv:
            check_folds(folds, len(table.graphs), "graphs", "--valid")
        model = new_model("cv" if cv else estimator.value, options)
        began = time.perf_counter()
        if fit_model(model, table, held_out if cv else None):
            leave_early(model, model_file)
        seconds = time.perf_counter() - began
        model.save(model_file)
    summary = describe_fit(model, table, held_out, str(model_file), seconds)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        with printing() as console:
            show_fit(console, summary)


@match.command(cls=Command)
def predict(
    model_file: Model,
    edges: Edges,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write; else standard output.",
            show_default=False,
        ),
    ] = None,
    decode: Decoder = Decode.MODE,
    marginals: Annotated[
        bool,
        typer.Option(
            "--marginals", metavar="", help="List all edges, not the matched ones only."
        ),
    ] = False,
    no_probabilities: NoProbabilities = False,
    engine: ModelEngine = None,
    jobs: Jobs = 1,
    graph_column: GraphColumn = "graph",
    left_column: LeftColumn = "left",
    right_column: RightColumn = "right",
    label_column: LabelColumn = "label",
    features: Features = None,
    missing: MissingEdges = Missing.ERROR,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
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
    columns = column_options(
        graph_column, left_column, right_column, label_column, features, missing
    ) | {"labels": "ignored"}
    with nothing_written_if_interrupted():
        if out is not None:
            check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, columns, engine, jobs)
        from permatch.datasets import write_matches

        chances = None if no_probabilities else edge_probabilities(model, table)
        matchings = decode_matchings(model, table, chances, decode.value)
        target = standard_output() if out is None else out
        write_matches(target, table, matchings, chances, all_edges=marginals)


@match.command(cls=Command)
def evaluate(
    model_file: Model,
    edges: Edges,
    decode: Decoder = Decode.MODE,
    no_probabilities: NoProbabilities = False,
    engine: ModelEngine = None,
    jobs: Jobs = 1,
    graph_column: GraphColumn = "graph",
    left_column: LeftColumn = "left",
    right_column: RightColumn = "right",
    label_column: LabelColumn = "label",
    features: Features = None,
    missing: MissingEdges = Missing.ERROR,
    as_json: AsJson = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
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
    columns = column_options(
        graph_column, left_column, right_column, label_column, features, missing
    ) | {"labels": "required"}
    model, table = load_for(model_file, edges, columns, engine, jobs)
    chances = None if no_probabilities else edge_probabilities(model, table)
    matchings = decode_matchings(model, table, chances, decode.value)
    summary = describe_evaluation(model, table, matchings, chances)
    source = {"model": str(model_file), "edges": edges, "decode": decode.value}
    summary = source | summary
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        with printing() as console:
            show_evaluation(console, summary)


match.command(cls=Command)(show)
