"""``permatch rank``: its group, and the commands fit, predict, show and export."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from permatch._types import IntArray
from permatch.cli.rank.comparison import compare
from permatch.cli.rank.evaluation import cv as cross_validation
from permatch.cli.rank.evaluation import evaluate
from permatch.cli.rank.options import Columns, FeatureNames, Judged, Learner, Metrics
from permatch.cli.rank.steps import (
    check_chances,
    find_parts,
    load_ranker,
    new_ranker,
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
    output,
    refuse_id,
    written_if_interrupted,
)
from permatch.cli.shared.terminal import add, new_group, print_summary
from permatch.cli.shared.trees import TreeOptions, refuse_penalty

#: Most features that LETOR text may have.
MAX_FEATURES = 1 << 20

rank = new_group()


@rank.callback()
def main() -> None:
    """Learn to rank documents from judged lists.

    Every query has a list of documents; every document has features and a
    grade.  permatch learns one weight per feature, or boosted trees, so that
    sorting by the scores puts the best documents first.

    [bold]The file[/bold] has the format of LETOR and SVMlight, one line per document:

      2 qid:1 1:0.31 2:0.20 3:1.7 # docid = GX001
      0 qid:1 1:0.05 2:0.11 3:0.2 # docid = GX002
      ...

    or that of LightGBM, without "qid:1", with the number of rows of each query in
    a file of the same name and .query; or it is a table, CSV or Parquet, with a
    column of grades, one of query ids, and the features (--grade, --qid,
    --features).  Files are told apart by what is in them.  Documents of a query
    need not be together.  A file of more than a million feature values, though, is
    read in blocks by all commands but fit and cv, and has to be sorted by query.

    [bold]Examples[/bold]

      permatch rank fit train.txt --model model.json --cv
      permatch rank fit train.csv --model model.json --grade label --qid query
      permatch rank evaluate model.json test.txt
      permatch rank compare old.json model.json test.txt --out compare.html
      permatch rank predict model.json new.txt --out scores.txt
      permatch rank show model.json test.txt --query 76
      permatch rank cv OHSUMED
      permatch rank export model.json --to solr --out model-solr.json
    """


def fit(
    train: Judged,
    model_file: NewModel,
    validation: Annotated[
        str | None,
        optional(
            "--validation",
            "--valid",
            metavar="FILE",
            help="A second file: with --cv to choose alpha, for trees to end the training, "
            "otherwise only reported.",
        ),
    ] = None,
    n_features: Annotated[
        int | None,
        optional(
            "--n-features",
            min=1,
            max=MAX_FEATURES,
            metavar="N",
            help="Number of features of LETOR text. Default: the highest index in the "
            "files.",
        ),
    ] = None,
    feature_names: FeatureNames = None,
    metric: Metrics = None,
    inference: Inference = None,
    *,
    learner: Learner,
    penalty: Penalty,
    trees: TreeOptions,
    elsewhere: Elsewhere,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Learn one weight per feature, or boosted trees, and write the model.

    With --cv (or --alphas) the penalty with the highest mean of NDCG@1 to
    NDCG@10 is chosen, on folds of the queries or on --validation (LETOR's
    protocol).

    With --model-kind trees the score of a document is a sum of regression trees,
    trained by the likelihood of whole lists.  With --cv leaves and number of
    trees are chosen in the same way; a --validation file alone ends the training
    when its rankings get no better.

    The model knows the columns of a table by name, so that other tables may have
    them in another order, among others.

    Features may be scaled to [0, 1] within each query (--scaling minmax), as in
    LETOR's baselines; such a model scores whole queries and cannot be exported.

    Data that do not fit in memory are a folder of LETOR or Parquet files, sorted
    by query: read from disk in every pass (--from-disk), or held by the workers of
    a cluster that see the same folder (--dask).  The model is the same.

    Ctrl-C writes the best model so far.

    [bold]Examples[/bold]

      permatch rank fit train.txt --model model.json
      permatch rank fit train.txt -m model.json --cv --jobs -1
      permatch rank fit train.txt -m model.json --cv --validation vali.txt
      permatch rank fit train.csv -m model.json --grade label --qid query
      permatch rank fit train.csv -m m.json --grade label --qid query --features title
      permatch rank fit train.txt.gz -m model.json --subset-size 3 --alpha 0.01
      permatch rank fit train.txt -m model.json --estimator dorm --cv
      permatch rank fit train.txt -m model.json --alphas 100,10,1 --scaling minmax
      permatch rank fit train.txt -m model.json --alphas evidence
      permatch rank fit train.txt -m model.json --inference sandwich
      permatch rank fit train.txt -m m.json --model-kind trees --valid vali.txt
      permatch rank fit train.txt -m m.json --model-kind trees --cv --leaves 7,15
      permatch rank fit folder/ -m model.json --from-disk --jobs -1
      permatch rank fit folder/ -m model.json --dask tcp://10.0.0.1:8786
    """
    is_search = penalty.cv or penalty.alphas is not None
    if is_search and penalty.alpha is not None:
        raise typer.BadParameter(
            "--alpha excludes --cv and --alphas, which choose alpha; drop one."
        )
    options = learner.options() | penalty.values()
    is_held_out = is_search and not penalty.is_by_evidence
    if trees.is_trees:
        learner.check_for_trees()
        refuse_penalty(penalty.alpha, penalty.alphas)
        elsewhere.refuse("trees learn from data in memory")
    penalty.check_evidence(learner.estimator, "rankmatch")
    if inference is not None and (trees.is_trees or learner.estimator != "rankmatch"):
        raise typer.BadParameter(
            "--inference needs weights with a likelihood: --estimator rankmatch, and no "
            "trees."
        )
    options |= trees.values("rank", learner.estimator, is_search=is_search)
    if penalty.folds is not None and (validation is not None or not is_search):
        raise typer.BadParameter("--folds needs --cv, and no --validation.")
    if train == validation == "-":
        raise typer.BadParameter("standard input can be read once; name one of the files.")
    elsewhere.check(train, validation)
    if elsewhere.is_used and validation is not None and not is_held_out:
        raise typer.BadParameter(
            "with --from-disk and --dask, --validation only serves to choose alpha; add "
            "--cv, or drop it."
        )
    options |= {"cv": penalty.n_folds} if is_search else {}
    how = learner.estimator, trees.kind, options
    model = new_ranker(*how, is_search=is_search)
    with nothing_written_if_interrupted(), elsewhere.connected():
        from permatch.datasets.sources import read_feature_names

        check_target(model_file, "--model", train, validation, str(feature_names or ""))
        names = read_feature_names(feature_names)
        more: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        if elsewhere.is_used:
            read = partial(find_parts, columns, elsewhere, n_features)
            data = read(train)
            more["feature_names"] = columns.names or names
            if validation is not None:
                more["validation"] = read(validation)
        else:
            from permatch.cli.rank.reading import read_pair

            learnt, held_out = read_pair(train, validation, columns, n_features, names)
            more["feature_names"] = learnt.feature_names
            data = learnt.X, learnt.y, learnt.qid
            parts = {"train": learnt} | ({"validation": held_out} if held_out else {})
            if (is_held_out or trees.is_trees) and held_out is not None:
                more["validation"] = (held_out.X, held_out.y, held_out.qid)
            elif is_held_out:
                check_folds(penalty.n_folds, learnt.n_queries, "queries", "--validation")
        seconds = fit_and_save(model, model_file, *data, **more)
        if inference is not None:
            with written_if_interrupted(model_file):
                infer_and_save(model, model_file, inference, *data)
    from permatch.cli.rank.report import describe_fit, show_fit

    with written_if_interrupted(model_file):
        summary = describe_fit(model, parts, metric, str(model_file), seconds)
        print_summary(summary, as_json, show_fit)


def predict(
    model_file: Model,
    file: Judged,
    out: Annotated[
        Path | None,
        optional(
            "--out",
            "-o",
            metavar="FILE",
            help="Output file. Default, and for -: standard output.",
        ),
    ] = None,
    kind: Annotated[
        Literal["scores", "trec", "csv", "jsonl"],
        typer.Option("--format", "-f", help="Output format; see above."),
    ] = "scores",
    run_name: Annotated[
        str, typer.Option("--run-name", metavar="NAME", help="Last column of a TREC run.")
    ] = "permatch",
    probabilities: Annotated[
        bool,
        flag(
            "--probabilities",
            help="Add the probability of every grade; with --format csv or jsonl.",
        ),
    ] = False,
    *,
    columns: Columns,
) -> None:
    """Score the documents of a file; within a query, higher is better.

    The file may be far larger than memory if it is sorted by query: it is read and
    written in blocks of whole queries.  Grades are ignored; a table needs none.
    MODEL may be a pipeline that prepares features, saved in Python; then a table is
    read whole.  The formats (--format) are:

      scores  one number per line, in file order
      trec    run file for trec_eval, best first: query Q0 document rank score run
      csv     query, document, rank, score, in file order
      jsonl   the same as JSON, one object per line

    Documents without "docid = ..." in their comment, or a column of names
    (--document), are numbered from 1, in file order.

    With --probabilities, csv has columns p_grade_0, p_grade_1 ..., and jsonl a
    list p_grades: the probability of every grade, for which the model has
    learned how many documents of each grade a query has.

    [bold]Examples[/bold]

      permatch rank predict model.json test.txt --out scores.txt
      permatch rank predict model.json test.txt --probabilities -f csv -o p.csv
      permatch rank predict model.json test.txt --format trec -o run.txt
      permatch rank predict new.json test.csv --qid query -f csv
      zcat big.txt.gz | permatch rank predict model.json - -f jsonl | head
    """
    if probabilities and kind not in ("csv", "jsonl"):
        raise typer.BadParameter(
            f"--probabilities needs --format csv or jsonl; got {kind}, which has no room "
            "for them."
        )
    if not run_name or run_name.split() != [run_name]:
        raise typer.BadParameter(f"--run-name must be one word; got {run_name!r}.")
    with nothing_written_if_interrupted():
        from permatch.cli.rank.scoring import stream_scores
        from permatch.datasets.runs import run_writer

        if out is not None and str(out) != "-":
            check_target(out, "--out", file, str(model_file))
        write = run_writer(kind, run_name)
        model = load_ranker(model_file)
        if probabilities:
            check_chances(model, model_file)
        with output(out) as target:
            how = {"has_grades": False, "has_chances": probabilities}
            for block in stream_scores(file, [model], columns, **how):
                write(target, block)
                del block  # before the next one is read


def show(
    model_file: Model,
    file: Judged,
    query: Annotated[
        str | None,
        optional(
            "--query",
            "-q",
            metavar="ID",
            help="The query; optional if the file has only one.",
        ),
    ] = None,
    out: Page = Path("rank.html"),
    *,
    columns: Columns,
) -> None:
    """Write a page that shows how a query's documents are ranked, and why.

    Open it in a browser; it needs no network.  It shows the scores, the
    probability of every rank (only rankmatch models), and for the document
    selected by mouse or keyboard which features moved it up or down from the
    mean of the list.  Of a model fitted with --inference it also says how sure
    the probability of the best level of ranks is.

    [bold]Examples[/bold]

      permatch rank show model.json test.txt --query 76
      permatch rank show model.json test.txt -q 76 --out query-76.html
      permatch rank show new.json test.csv -q 76 --grade label --qid query
    """
    with nothing_written_if_interrupted():
        check_target(out, "--out", file, str(model_file))
        model = load_ranker(model_file)
        name, documents, values, grades = _find_query(file, model, columns, query)
        from permatch.cli.rank.scoring import prepared_features
        from permatch.metrics.scorer import last_step
        from permatch.pages.rank_explorer import rank_page, rank_view

        values, ranker = prepared_features(model, values), last_step(model)
        view = rank_view(name, documents, values, grades, ranker)
        rank_page(view).write(out)
        law = view.distribution
        kind = "scores only"
        if law is not None:
            kind = f"{'exact' if law.is_exact else 'approximate'} probabilities"
        typer.echo(
            f"wrote {out}: query {name}, {len(documents)} documents, {kind}. Open it in a "
            "browser."
        )


def _find_query(
    file: str, model: Any, columns: Columns, query: str | None
) -> tuple[str, list[str], Any, IntArray]:
    """Read as far as the query: its id, and names, features, grades of its documents."""
    from permatch.cli.rank.scoring import stream_scores
    from permatch.datasets.runs import document_names

    names: dict[str, None] = {}
    found = None
    for block in stream_scores(file, [model], columns):
        qids = [str(name) for name in block.data.qid.tolist()]
        names |= dict.fromkeys(qids)
        if query is None and len(names) > 1:
            break
        wanted = next(iter(names)) if query is None else query
        rows = np.flatnonzero([name == wanted for name in qids])
        if len(rows):
            called = document_names(block)
            documents = [called[row] for row in rows]
            X = block.data.X
            values = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
            found = wanted, documents, values, block.data.y[rows]
            if query is not None:
                return found
    if found is None or len(names) > 1:
        refuse_id("--query", query, list(names), f"{file} has no query")
    return found


def export(
    model_file: Model,
    to: Annotated[
        Literal["onnx", "solr", "solr-features", "elasticsearch", "elasticsearch-features"],
        optional("--to", "-t", metavar="SYSTEM", help="Target system; see above."),
    ],
    out: Annotated[
        Path,
        optional("--out", "-o", metavar="FILE", help="Output file; - for standard output."),
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the model there.")
    ] = "permatch",
    feature_names: FeatureNames = None,
    feature_prefix: Annotated[
        str,
        typer.Option(
            "--feature-prefix",
            metavar="TEXT",
            help="Prefix of features without names, followed by a number from 1.",
        ),
    ] = "f",
) -> None:
    r"""Export a model to a serving system.

    The systems (--to) are:

      onnx           any ONNX runtime: input X (n, d), output scores (n)
      solr           Solr: a LinearModel for its model store
      elasticsearch  Elasticsearch and OpenSearch, with their plugin for
                     learning to rank: a model/linear for _createmodel

    The features must be computed and named as in the serving system.  A model
    with scaling within queries cannot be exported.

    MODEL may be a pipeline that prepares features, saved in Python.  Its ONNX
    file takes the columns of the table: X, and text as categories (n, k).  The
    others need a second file, which defines the features by fields of documents:

      solr-features           for the feature store
      elasticsearch-features  for _addfeatures of the feature set

    [bold]Examples[/bold]

      permatch rank export model.json --to onnx --out model.onnx
      permatch rank export model.json --to solr --name shop --out shop.json
      permatch rank export model.json --to elasticsearch --out es.json
      curl -XPUT "$SOLR/schema/model-store" --data-binary @shop.json \
           -H 'Content-type:application/json'
      curl -XPOST "$ES/_ltr/_featureset/shop/_createmodel" -d @es.json \
           -H 'Content-type:application/json'
    """
    if not name:
        raise typer.BadParameter("--name must not be empty.")
    with nothing_written_if_interrupted():
        from permatch.datasets.sources import read_feature_names
        from permatch.estimators.exported_files import exported

        if str(out) != "-":
            check_target(out, "--out", str(model_file), str(feature_names or ""))
        model = load_ranker(model_file)
        names = read_feature_names(feature_names)
        data = exported(model, to, name, names, feature_prefix)
        with output(out) as file:
            file.buffer.write(data)


add(rank, fit, predict, evaluate, compare, cross_validation, export, show)
