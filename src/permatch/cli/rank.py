"""``permatch rank``: learn to rank from judged lists, and use what was learnt."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.match_options import parse_alphas
from permatch.cli.match_steps import (
    check_folds,
    check_target,
    leave_early,
    nothing_written_if_interrupted,
)
from permatch.cli.options import Debug, MaxBytes
from permatch.cli.rank_evaluation import cross_validation, evaluate
from permatch.cli.rank_export import export
from permatch.cli.rank_options import (
    MAX_FEATURES,
    Alpha,
    Alphas,
    AsJson,
    Cutoffs,
    Discount,
    DiscountOption,
    Estimator,
    EstimatorOption,
    FeatureNames,
    Form,
    FormOption,
    Jobs,
    Judged,
    MaxIter,
    Model,
    NSubsets,
    QueryWeightOption,
    RunFormat,
    Scaling,
    ScalingOption,
    Seed,
    SubsetSize,
    model_options,
    parse_cutoffs,
)
from permatch.cli.rank_show import show
from permatch.cli.rank_steps import (
    fit_ranker,
    load_ranker,
    new_ranker,
    read_feature_names,
    read_pair,
    stream_scores,
)
from permatch.cli.terminal import Command, Group, printing

rank = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@rank.callback()
def main() -> None:
    """Learn to rank documents from judged lists.

    Every query has a list of documents, every document has features and a
    grade.  permatch learns a weight per feature, so that sorting by the
    weighted sum puts the best documents on top.

    [bold]The file[/bold] is in the format of LETOR and SVMlight, one line per document:

      2 qid:1 1:0.31 2:0.20 3:1.7 # docid = GX001
      0 qid:1 1:0.05 2:0.11 3:0.2 # docid = GX002
      ...

    [bold]Examples[/bold]

      permatch rank fit train.txt --model model.json --cv
      permatch rank evaluate model.json test.txt
      permatch rank predict model.json new.txt --out scores.txt
      permatch rank show model.json test.txt --query 76
      permatch rank cv OHSUMED
      permatch rank export model.json --to solr --out model-solr.json
    """


@rank.command(cls=Command)
def fit(
    train: Judged,
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
    validation: Annotated[
        str | None,
        typer.Option(
            "--validation",
            "--valid",
            metavar="FILE",
            help="A second file: chooses alpha with --cv, else is only reported.",
            show_default=False,
        ),
    ] = None,
    estimator: EstimatorOption = Estimator.RANKMATCH,
    subset_size: SubsetSize = None,
    n_subsets: NSubsets = 0.4,
    form: FormOption = Form.AUTO,
    query_weight: QueryWeightOption = None,
    scaling: ScalingOption = Scaling.MINMAX,
    max_iter: MaxIter = None,
    alpha: Alpha = None,
    cv: Annotated[
        bool,
        typer.Option(
            "--cv",
            metavar="",
            help="Choose alpha by folds of queries, or by --validation.",
            rich_help_panel="How strong the penalty is",
        ),
    ] = False,
    alphas: Alphas = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            min=2,
            help="Folds of --cv; 5 unless told.",
            rich_help_panel="How strong the penalty is",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    n_features: Annotated[
        int | None,
        typer.Option(
            "--n-features",
            min=1,
            max=MAX_FEATURES,
            metavar="N",
            help="Number of features; by default the highest index in the files.",
            show_default=False,
        ),
    ] = None,
    feature_names: FeatureNames = None,
    discount: DiscountOption = Discount.PAPER,
    cutoffs: Cutoffs = "1,3,5,10",
    as_json: AsJson = False,
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    """Learn a weight for every feature and write the model.

    With --cv (or --alphas) the penalty that gives the highest mean of NDCG@1
    to NDCG@10 is taken: on folds of the queries, or on --validation, which is
    LETOR's protocol.

    Features are brought to [0, 1] within each query (--scaling minmax), as in
    LETOR's baselines; a model that is to be exported needs --scaling none.

    Ctrl-C writes the best model so far.

    [bold]Examples[/bold]

      permatch rank fit train.txt --model model.json
      permatch rank fit train.txt -m model.json --cv --jobs -1
      permatch rank fit train.txt -m model.json --cv --validation vali.txt
      permatch rank fit train.txt.gz -m model.json --subset-size 3 --alpha 0.01
      permatch rank fit train.txt -m model.json --estimator dorm --cv
      permatch rank fit train.txt -m model.json --alphas 100,10,1 --scaling none
    """
    is_search = cv or alphas is not None
    if is_search and alpha is not None:
        raise typer.BadParameter(
            "--alpha excludes --cv and --alphas, which choose alpha themselves."
        )
    options = model_options(
        estimator,
        subset_size,
        n_subsets,
        form,
        query_weight,
        scaling,
        max_iter,
        seed,
        jobs,
    )
    if folds is not None and (validation is not None or not is_search):
        raise typer.BadParameter("--folds goes with --cv, and without --validation.")
    options |= {"cv": folds or 5} if is_search else {}
    options |= {"alphas": parse_alphas(alphas)} if alphas is not None else {}
    options |= {"alpha": alpha} if alpha is not None else {}
    places = parse_cutoffs(cutoffs)
    with nothing_written_if_interrupted():
        check_target(model_file, "--model", train, validation, str(feature_names or ""))
        more: dict[str, Any] = {"feature_names": read_feature_names(feature_names)}
        learnt, held_out = read_pair(train, validation, n_features)
        if is_search and held_out is not None:
            more["validation"] = (held_out.X, held_out.y, held_out.qid)
        elif is_search:
            check_folds(folds or 5, learnt.n_queries, "queries", "--validation")
        model = new_ranker(estimator.value, options, is_search=is_search)
        began = time.perf_counter()
        if fit_ranker(model, (learnt.X, learnt.y, learnt.qid), **more):
            leave_early(model, model_file)
        seconds = time.perf_counter() - began
        model.save(model_file)
    from permatch.cli.rank_measures import Measuring
    from permatch.cli.rank_report import describe_fit, show_fit

    parts = {"train": learnt} | ({"validation": held_out} if held_out else {})
    measuring = Measuring(places, discount.value, is_short=True)
    summary = describe_fit(model, parts, measuring, str(model_file), seconds)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        with printing() as console:
            show_fit(console, summary)


@rank.command(cls=Command)
def predict(
    model_file: Model,
    file: Judged,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write; else, and with -, standard output.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        RunFormat, typer.Option("--format", "-f", help="What is written; see above.")
    ] = RunFormat.SCORES,
    run_name: Annotated[
        str, typer.Option("--run-name", metavar="NAME", help="Last column of a TREC run.")
    ] = "permatch",
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    """Score the documents of a file; within a query, more is better.

    The file may be far larger than memory: it is read and written in blocks of
    whole queries.  Grades have no influence.  --format says what is written:

      scores  one number per line, in the order of the file
      trec    run file for trec_eval, best first: query Q0 document rank score run
      csv     query, document, rank, score, in the order of the file
      jsonl   the same as JSON, one object per line

    Documents without "docid = ..." in their comment are called by their number
    in the file, from 1.

    [bold]Examples[/bold]

      permatch rank predict model.json test.txt --out scores.txt
      permatch rank predict model.json test.txt --format trec -o run.txt
      zcat big.txt.gz | permatch rank predict model.json - -f jsonl | head
    """
    if not run_name or run_name.split() != [run_name]:
        raise typer.BadParameter(f"--run-name {run_name!r} must be one word.")
    with nothing_written_if_interrupted():
        from permatch.cli.rank_runs import output, run_writer

        if out is not None and str(out) != "-":
            check_target(out, "--out", file, str(model_file))
        write = run_writer(kind.value, run_name)
        model = load_ranker(model_file)
        with output(out) as target:
            for block in stream_scores(file, [model]):
                write(target, block)


rank.command(cls=Command)(evaluate)
rank.command("cv", cls=Command)(cross_validation)
rank.command(cls=Command)(export)
rank.command(cls=Command)(show)
