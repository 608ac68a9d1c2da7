"""``permatch rank export``: a model for the systems that serve it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch._files import whole_file
from permatch.cli.match_steps import check_target, nothing_written_if_interrupted
from permatch.cli.options import Debug, MaxBytes
from permatch.cli.rank_options import FeatureNames, Model, Target
from permatch.cli.rank_steps import load_ranker, read_feature_names
from permatch.cli.terminal import standard_output


def export(
    model_file: Model,
    to: Annotated[
        Target, typer.Option("--to", "-t", help="What is to serve it.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write; - is standard output.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What the model is called there.")
    ] = "permatch",
    feature_names: FeatureNames = None,
    feature_prefix: Annotated[
        str,
        typer.Option(
            "--feature-prefix",
            metavar="TEXT",
            help="Features without names are called this and a number, from 1.",
        ),
    ] = "f",
    max_bytes: MaxBytes = None,
    debug: Debug = False,
) -> None:
    r"""Write a model in the format of a system that serves it.

    Such systems (--to) are:

      onnx               any ONNX runtime: input X (n, d), output scores (n)
      solr               Solr: a LinearModel for its model store
      elasticsearch-ltr  Elasticsearch and OpenSearch, with their plugin for
                         learning to rank: a model/linear for _createmodel

    The model must have been fitted with --scaling none, on features as the
    serving system computes them, and its features must have the names they
    have there.

    [bold]Examples[/bold]

      permatch rank export model.json --to onnx --out model.onnx
      permatch rank export model.json --to solr --name shop --out shop.json
      permatch rank export model.json --to elasticsearch-ltr --out es.json
      curl -XPUT "$SOLR/schema/model-store" --data-binary @shop.json \
           -H 'Content-type:application/json'
      curl -XPOST "$ES/_ltr/_featureset/shop/_createmodel" -d @es.json \
           -H 'Content-type:application/json'
    """
    if not name:
        raise typer.BadParameter("--name must not be empty.")
    with nothing_written_if_interrupted():
        from permatch.estimators.export import to_elasticsearch_ltr, to_onnx, to_solr

        if str(out) != "-":
            check_target(out, "--out", str(model_file), str(feature_names or ""))
        model = load_ranker(model_file)
        names = read_feature_names(feature_names)
        options: Any = {
            "name": name,
            "feature_names": names,
            "feature_prefix": feature_prefix,
        }
        if to is Target.ONNX:
            data = to_onnx(model, **options)
        else:
            write = to_solr if to is Target.SOLR else to_elasticsearch_ltr
            data = (json.dumps(write(model, **options), indent=1) + "\n").encode()
        if str(out) == "-":
            standard_output().buffer.write(data)
            return
        with whole_file(out) as file:
            file.buffer.write(data)
