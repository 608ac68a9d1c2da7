"""``permatch match``: its group, and the commands fit, predict, evaluate and show."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permatch._estimators import find_estimator
from permatch.cli.match.folds import cv
from permatch.cli.match.options import (
    Columns,
    Decision,
    Edges,
    Learner,
    NoProbabilities,
    Use,
)
from permatch.cli.match.report import (
    describe_evaluation,
    describe_fit,
    describe_parts,
    show_evaluation,
    show_fit,
)
from permatch.cli.match.steps import (
    advice,
    check_held_out,
    check_order,
    columns_of,
    count_parts,
    decide,
    divide,
    find_parts,
    load_for,
    note_parts,
    pair_intervals,
    pair_probabilities,
    read_table,
)
from permatch.cli.shared.options import (
    AsJson,
    Elsewhere,
    Inference,
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
    infer_and_save,
    nothing_written_if_interrupted,
    refuse_id,
    written_if_interrupted,
)
from permatch.cli.shared.terminal import add, new_group, print_summary, standard_output
from permatch.cli.shared.trees import TreeOptions

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable

match = new_group()


@match.callback()
def main() -> None:
    """Learn to match from labelled pairs, and link new ones.

    Every row of the table is a pair of a left and a right node that may match:
    an invoice and a payment, two records of one person.  It has features, and
    where it is known, whether the pair matches.  A node has at most one
    partner.  permatch learns one weight per feature, or boosted trees, and a
    score of staying unmatched, and predicts the probability of every pair of
    new tables.

    [bold]The table[/bold] has one row per candidate pair; others cannot match:

      left,right,label,distance,same_city
      a1,b1,0,3.1,0
      a1,b2,1,0.4,1
      ...

    A column graph, if there is one, divides it into independent problems, such
    as the invoices of one day.  For other column names use --left-column and
    so on; the model file keeps them.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json
      permatch match evaluate model.json test.csv
      permatch match cv train.csv
      permatch match predict model.json new.csv --out links.csv
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
            help="A second table, or folder: with --cv to choose alpha, for trees to end "
            "the training, otherwise only reported.",
        ),
    ] = None,
    inference: Inference = None,
    *,
    penalty: Penalty,
    learner: Learner,
    trees: TreeOptions,
    columns: Columns,
    elsewhere: Elsewhere,
    as_json: AsJson = False,
) -> None:
    """Learn one weight per feature, or boosted trees, and write the model.

    [bold]The table[/bold] has a header and one row per candidate pair: the left
    and the right node, the label (1 if they match, 0 if not, empty if that is
    not known), numbers, and optionally the graph.  All numeric columns are
    features unless --features names them.  A node none of whose pairs matches
    is unmatched; where labels leave nodes unmatched, the score of staying
    unmatched is learned too.

    With --model-kind trees the score of a pair is a sum of regression trees,
    trained by the likelihood of whole matchings.  With --cv leaves and number of
    trees are chosen; a --valid table alone ends the training when its likelihood
    no longer rises.

    A table that does not fit in memory is a folder of Parquet files, sorted by
    graph: read from disk in every pass (--from-disk), or held by the workers of a
    cluster that see the same folder (--dask).  The model is the same.

    Ctrl-C writes the best model so far.

    [bold]Examples[/bold]

      permatch match fit train.csv --model model.json
      permatch match fit train.csv -m model.json --cv --jobs -1
      permatch match fit train.csv -m model.json --cv --valid valid.csv
      permatch match fit train.csv -m model.json --alphas evidence
      permatch match fit frames.csv -m model.json --cv --in-order --prior-coef -1
      permatch match fit train.csv -m model.json --inference sandwich
      permatch match fit train.csv -m m.json --model-kind trees --valid valid.csv
      permatch match fit train.csv -m m.json --model-kind trees --cv --leaves 4,8
      permatch match fit train.parquet -m model.json --features age,distance
      permatch match fit ids.csv -m m.json --left-column id_l --right-column id_r
      permatch match fit folder/ -m model.json --from-disk --jobs -1
      permatch match fit folder/ -m m.json --from-disk --cv --valid later/
      permatch match fit folder/ -m m.json --from-disk --inference sandwich
      permatch match fit folder/ -m model.json --dask tcp://10.0.0.1:8786
    """
    options = learner.options(penalty, trees)
    if trees.is_trees:
        elsewhere.refuse("trees learn from data in memory")
        if inference is not None:
            raise typer.BadParameter("--inference needs --model-kind linear.")
    is_search = penalty.cv or penalty.is_by_evidence
    if inference is not None and learner.estimator != "map":
        raise typer.BadParameter("--inference needs --estimator map.")
    if learner.in_order and (valid is not None or not penalty.cv):
        raise typer.BadParameter("--in-order is for --cv without --valid.")
    read_as = columns.read_as("required")
    elsewhere.check(edges, valid)
    if elsewhere.is_used:
        kind = find_estimator("match", learner.estimator, is_search=is_search)
        with nothing_written_if_interrupted(), elsewhere.connected():
            check_target(model_file, "--model", edges, valid)
            model = kind(**options)
            source, names = find_parts(edges, read_as, elsewhere)
            more: dict[str, Any] = {"feature_names": read_as["features"]}
            second = None
            if valid is not None:
                second = find_parts(valid, read_as, elsewhere)
                if penalty.cv:
                    more["validation"] = second
                else:
                    check_held_out(source, names, second, **more)
            seconds = fit_and_save(model, model_file, source, names, **more)
            with written_if_interrupted(model_file):
                if inference is not None:
                    infer_and_save(model, model_file, inference, source, names)
                summary = describe_parts(model, str(model_file), seconds, second)
                print_summary(summary, as_json, show_fit)
        return
    with nothing_written_if_interrupted():
        check_target(model_file, "--model", edges, valid)
        table = read_table(edges, read_as)
        held_out = None
        if valid is not None:
            held_out = read_table(valid, read_as, table.feature_names)
        data = table
        if learner.in_order:
            check_order(len(table.graphs), penalty.n_folds)
        elif penalty.cv and held_out is None:
            data, things = divide(table, penalty.n_folds, has_entities=True)
            check_folds(penalty.n_folds, *count_parts(data, things), "--valid")
            note_parts(data, things)
        more = {
            "feature_names": table.feature_names,
            "attributes": {"columns_": columns_of(table, read_as)},
        }
        if (penalty.cv or trees.is_trees) and held_out is not None:
            more["validation"] = (held_out.graphs, held_out.matchings)
        how = {"is_search": is_search, "kind": trees.kind}
        model = find_estimator("match", learner.estimator, **how)(**options)
        seconds = fit_and_save(model, model_file, data.graphs, data.matchings, **more)
    with written_if_interrupted(model_file):
        if inference is not None:
            infer_and_save(model, model_file, inference, data.graphs, data.matchings)
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
    marginals: Annotated[
        bool, flag("--marginals", help="List all candidate pairs and all nodes.")
    ] = False,
    links_only: Annotated[
        bool, flag("--links-only", help="Leave out the nodes that stay unmatched.")
    ] = False,
    no_probabilities: NoProbabilities = False,
    intervals: Annotated[
        bool,
        flag("--intervals", help="Add 95 % intervals of the probabilities."),
    ] = False,
    *,
    decision: Decision,
    use: Use,
    columns: Columns,
) -> None:
    """Link the nodes of a new table, with the probability of each link.

    Writes CSV: the columns of the ids as in the table, then the probability.
    After the links come the nodes that stay unmatched, with an empty cell in
    place of the partner and the probability of having none.  The table is
    like that of fit; labels are ignored, features are found by name.

    With --decode bayes the expected cost of the decisions is least; a node can
    be left to a person at the cost --abstain (decision "review").  With
    --threshold all pairs above a probability are links; the precision and
    recall to expect are reported.

    --intervals adds the columns probability_low and probability_high: how
    sure a probability is, given how sure the weights are.  The model must be
    fitted with --inference.

    [bold]Examples[/bold]

      permatch match predict model.json new.csv
      permatch match predict model.json new.csv --links-only --out links.csv
      permatch match predict model.json new.csv --decode bayes --false 5
      permatch match predict model.json new.csv --decode bayes --abstain 0.1
      permatch match predict model.json new.csv --threshold 0.9 2> expected.txt
      permatch match predict model.json new.csv --marginals > pairs.csv
      permatch match predict model.json new.csv --intervals --out links.csv
    """  # fmt: skip
    decision.check(has_probabilities=not no_probabilities)
    if no_probabilities and (marginals or intervals):
        raise typer.BadParameter(
            f"{'--marginals' if marginals else '--intervals'} needs probabilities; drop "
            "--no-probabilities."
        )
    with nothing_written_if_interrupted():
        if out is not None:
            check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, columns, "ignored", use)
        from permatch.datasets import write_matches

        chances = None if no_probabilities else pair_probabilities(model, table)
        ends = pair_intervals(model, table) if intervals else None
        matchings = decide(model, table, chances, decision)
        target = standard_output() if out is None else out
        write_matches(
            target,
            table,
            matchings,
            chances,
            intervals=ends,
            all_edges=marginals,
            links_only=links_only,
        )


def evaluate(
    model_file: Model,
    edges: Edges,
    no_probabilities: NoProbabilities = False,
    *,
    decision: Decision,
    use: Use,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Measure a model on a labelled table it was not fitted on.

    Prints precision, recall and F1 of the links, the Hamming loss (share of
    left nodes with a wrong partner, or one instead of none, or none instead of
    one), the share of graphs without an error, the mean log-likelihood of the
    labels, the expected calibration error over pairs of probability 0.05 or
    more, and how sure the likeliest answers for left nodes are next to how
    often they are right.  Pairs with an empty label are left out.

    [bold]Examples[/bold]

      permatch match evaluate model.json test.csv
      permatch match evaluate model.json test.csv --decode bayes --false 5
      permatch match evaluate model.json test.csv --json | python -m json.tool
    """
    decision.check(has_probabilities=not no_probabilities)
    model, table = load_for(model_file, edges, columns, "required", use)
    chances = None if no_probabilities else pair_probabilities(model, table)
    matchings = decide(model, table, chances, decision)
    source = {"model": str(model_file), "edges": edges, "decode": decision.words}
    summary = source | describe_evaluation(model, table, matchings, chances)
    print_summary(summary, as_json, show_evaluation)


def show(
    model_file: Model,
    edges: Edges,
    graph: Annotated[
        str | None,
        optional("--graph", "-g", metavar="ID", help="Show only this graph."),
    ] = None,
    node: Annotated[
        str | None,
        optional("--node", "-n", metavar="ID", help="Show only what depends on this node."),
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
    """Write a page about the pairs of a table and how certain they are.

    Open it in a browser; it needs no network.  It lists the components of the
    graphs, which are independent of each other, the least certain first.  An
    open component is drawn with its nodes, each with the probability of having
    no partner, and its pairs; below stand their probabilities, decisions and
    labels, and the k best matchings.  Select a pair to see what each feature
    adds to its score.  Of a table too large for a page it shows the uncertain
    part and says what is left out.

    [bold]Examples[/bold]

      permatch match show model.json test.csv
      permatch match show model.json test.csv --graph monday --out monday.html
      permatch match show model.json test.csv -g monday --node a1 -k 25
    """
    with nothing_written_if_interrupted():
        check_target(out, "--out", edges, str(model_file))
        model, table = load_for(model_file, edges, columns, "optional", use)
        if graph is not None:
            names = ["" if name is None else str(name) for name in table.graph_ids]
            table = table.take([find_id(graph, names, edges)])
        if node is not None:
            check_node(node, table)
        from permatch.pages.match_explorer import write_match_page
        from permatch.pages.model_view import model_view

        with warnings.catch_warnings():  # the page says itself how good they are
            warnings.simplefilter("ignore", RuntimeWarning)
            with advice(table):
                view = model_view(model, table, n_best=k, node=node)
        typer.echo(f"wrote {out}: {write_match_page(view, out)}. Open it in a browser.")


def find_id(wanted: str, names: list[str], source: str) -> int:
    """Return the place of the graph called `wanted`."""
    if names == [""]:
        raise typer.BadParameter(
            f"{source} has no column of graphs, so that it is one graph; got --graph "
            f"{wanted}. Drop --graph, or name the column with --graph-column."
        )
    if wanted not in names:
        refuse_id("--graph", wanted, names, f"{source} has no graph")
    return names.index(wanted)


def check_node(wanted: str, table: "EdgeTable") -> None:
    """Refuse a node that is in none of the graphs."""
    every = {str(name) for ids in (table.left_ids, table.right_ids) for own in ids
             for name in own}  # fmt: skip
    if wanted not in every:
        refuse_id("--node", wanted, sorted(every), "the table has no node")


add(match, fit, predict, evaluate, cv, show)
