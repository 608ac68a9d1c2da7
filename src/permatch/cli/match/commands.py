"""``permatch match``: its commands fit, predict, evaluate and show."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch._estimators import find_estimator
from permatch.cli.match.options import (
    Columns,
    Decoder,
    Edges,
    Learner,
    NoProbabilities,
    Use,
)
from permatch.cli.match.report import (
    describe_evaluation,
    describe_fit,
    show_evaluation,
    show_fit,
)
from permatch.cli.match.steps import (
    decode_matchings,
    edge_probabilities,
    load_for,
    read_table,
)
from permatch.cli.shared.options import (
    AsJson,
    Model,
    NewModel,
    Page,
    Penalty,
    flag,
    optional,
)
from permatch.cli.shared.steps import (
    check_folds,
    check_target,
    fit_and_save,
    nothing_written_if_interrupted,
    refuse_id,
)
from permatch.cli.shared.terminal import add, new_group, print_summary, standard_output

match = new_group()


@match.callback()
def main() -> None:
    """Learn to match from labelled matchings.

    A graph is one set of things to pair: a day's invoices and payments, the
    points of two pictures.  Every pair, or edge, of a left and a right node
    has features, and the matching of the training graphs is known.  permatch
    learns one weight per feature and predicts the probability of every edge
    of new graphs.  If one side is larger, some of its nodes stay unmatched.

    [bold]The table[/bold] has one row per edge:

      graph,left,right,label,distance,same_city
      monday,a1,b1,0,3.1,0
      monday,a1,b2,1,0.4,1
      ...

    For other column names use --graph-column, --left-column and so on.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json --cv
      permatch match evaluate model.json test.csv
      permatch match predict model.json new.csv --out matches.csv
      permatch match show model.json test.csv --graph monday
    """


def fit(
    edges: Edges,
    model_file: NewModel,
    valid: Annotated[
        str | None,
        optional(
            "--valid",
            metavar="EDGES",
            help="A second table: with --cv to choose alpha, otherwise only reported.",
        ),
    ] = None,
    *,
    penalty: Penalty,
    learner: Learner,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Learn one weight per feature and write the model.

    [bold]The table[/bold] has a header and one row per edge: the graph, the left
    and the right node, the label (1 if matched, otherwise 0), and numbers.
    All numeric columns are features unless --features names them.  Every node
    has one match, on the larger side at most one, and every edge has a row
    (or see --missing).

    Ctrl-C writes the best model so far.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json
      permatch match fit train.csv -m model.json --cv --jobs -1
      permatch match fit train.csv -m model.json --cv --valid valid.csv
      permatch match fit train.csv -m model.json --cv --alphas 1,0.1,0.01
      permatch match fit train.parquet -m model.json --features age,distance
      permatch match fit train.csv -m model.json --estimator max-margin
    """
    options = learner.options(penalty)
    read_as = columns.read_as("required")
    with nothing_written_if_interrupted():
        check_target(model_file, "--model", edges, valid)
        table = read_table(edges, read_as)
        held_out = None
        if valid is not None:
            held_out = read_table(valid, read_as, table.feature_names)
        elif penalty.cv:
            check_folds(penalty.n_folds, len(table.graphs), "graphs", "--valid")
        more: dict[str, Any] = {"feature_names": table.feature_names}
        if penalty.cv and held_out is not None:
            more["validation"] = (held_out.graphs, held_out.matchings)
        kind = find_estimator("match", learner.estimator, is_search=penalty.cv)
        model = kind(**options)
        seconds = fit_and_save(model, model_file, table.graphs, table.matchings, **more)
    summary = describe_fit(model, table, held_out, str(model_file), seconds)
    print_summary(summary, as_json, show_fit)


def predict(
    model_file: Model,
    edges: Edges,
    out: Annotated[
        Path | None,
        optional(
            "--out", "-o", metavar="FILE", help="Output file. Default: standard output."
        ),
    ] = None,
    decode: Decoder = "mode",
    marginals: Annotated[
        bool, flag("--marginals", help="List all edges, not only matched ones.")
    ] = False,
    no_probabilities: NoProbabilities = False,
    *,
    use: Use,
    columns: Columns,
) -> None:
    """Match the nodes of new graphs, with the probability of each match.

    Writes CSV: graph, left, right, probability.  The table is like that of
    fit; labels are ignored.  Its features must have the names of the model's,
    in any order.

    [bold]Examples[/bold]

      permatch match predict model.json new.csv
      permatch match predict model.json new.csv --decode bayes --out matches.csv
      permatch match predict model.json new.csv --marginals > edges.csv
    """  # fmt: skip
    if no_probabilities and (marginals or decode == "bayes"):
        raise typer.BadParameter(
            "--marginals and --decode bayes need probabilities; drop --no-probabilities."
        )
    with nothing_written_if_interrupted():
        if out is not None:
            check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, columns.read_as("ignored"), use)
        from permatch.datasets import write_matches

        chances = None if no_probabilities else edge_probabilities(model, table)
        matchings = decode_matchings(model, table, chances, decode)
        target = standard_output() if out is None else out
        write_matches(target, table, matchings, chances, all_edges=marginals)


def evaluate(
    model_file: Model,
    edges: Edges,
    decode: Decoder = "mode",
    no_probabilities: NoProbabilities = False,
    *,
    use: Use,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Measure a model on a labelled table it was not fitted on.

    Prints the Hamming loss (share of nodes matched wrongly), the share of
    graphs matched without an error, the mean log-likelihood of the labels,
    and the expected calibration error of the edge probabilities.

    [bold]Examples[/bold]

      permatch match evaluate model.json test.csv
      permatch match evaluate model.json test.csv --json | python -m json.tool
    """
    if no_probabilities and decode == "bayes":
        raise typer.BadParameter("--decode bayes needs the probabilities.")
    model, table = load_for(model_file, edges, columns.read_as("required"), use)
    chances = None if no_probabilities else edge_probabilities(model, table)
    matchings = decode_matchings(model, table, chances, decode)
    source = {"model": str(model_file), "edges": edges, "decode": decode}
    summary = source | describe_evaluation(model, table, matchings, chances)
    print_summary(summary, as_json, show_evaluation)


def show(
    model_file: Model,
    edges: Edges,
    graph: Annotated[
        str | None,
        optional(
            "--graph",
            "-g",
            metavar="ID",
            help="The graph; optional if the table has only one.",
        ),
    ] = None,
    out: Page = Path("match.html"),
    k: Annotated[
        int,
        typer.Option("--k", "-k", min=1, max=1000, help="Most probable matchings to list."),
    ] = 10,
    *,
    use: Use,
    columns: Columns,
) -> None:
    """Write a page about the matchings of one graph.

    Open it in a browser; it needs no network.  It draws the two sides and the
    edges above a probability you choose, compares the likeliest matching with
    the one with the fewest expected errors, shows all probabilities as a heat
    map and lists the k best matchings.  Select an edge by mouse or keyboard to
    see its features and what each adds to the score.  Labels are marked.

    [bold]Examples[/bold]

      permatch match show model.json test.csv --graph monday
      permatch match show model.json test.csv -g monday --out monday.html -k 25
    """
    read_as = columns.read_as("optional")
    with nothing_written_if_interrupted():
        check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, read_as, use)
        place = find_id(graph, [str(name) for name in table.graph_ids], edges)
        from permatch.pages.match_explorer import MatchView, match_page

        view = MatchView(
            name=str(table.graph_ids[place]),
            left=_names(table.left_ids[place], table.graphs[place].size),
            right=_names(table.right_ids[place], table.graphs[place].size),
            features=table.feature_names,
            coef=model.coef_,
            graph=table.graphs[place],
            distribution=model.distribution(table.graphs[place]),
            truth=None if table.matchings is None else table.matchings[place],
            n_best=k,
            model=type(model).__name__,
        )
        with warnings.catch_warnings():  # the page says itself how good they are
            warnings.simplefilter("ignore", RuntimeWarning)
            page = match_page(view)
        page.write(out)
        kind = "exact" if view.distribution.is_exact else "approximate"
        typer.echo(
            f"wrote {out}: graph {view.name}, {' x '.join(map(str, view.graph.n_sides))} "
            f"nodes, {kind} probabilities. Open it in a browser."
        )


def _names(ids: list[Any], size: int) -> list[str]:
    """Return a name for every node of a side; dummy nodes are nobody."""
    extra = [f"(nobody {k})" for k in range(1, size - len(ids) + 1)]
    return [*map(str, ids), *extra]


def find_id(wanted: str | None, names: list[str], source: str) -> int:
    """Return the place of the graph called `wanted`, or of the only one."""
    if wanted is None and len(names) == 1:
        return 0
    if wanted not in names:
        refuse_id("--graph", wanted, names, f"{source} has no graph")
    return names.index(str(wanted))


add(match, fit, predict, evaluate, show)
