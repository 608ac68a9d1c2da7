"""``permatch rank export``: a model for the systems that serve it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from permatch.cli.rank.options import FeatureNames
from permatch.cli.rank.steps import load_ranker
from permatch.cli.shared.options import Model, optional
from permatch.cli.shared.steps import (
    check_target,
    nothing_written_if_interrupted,
    output,
)


class Target(StrEnum):
    """What ``--to`` accepts."""

    ONNX = "onnx"
    SOLR = "solr"
    ELASTICSEARCH_LTR = "elasticsearch-ltr"


def export(
    model_file: Model,
    to: Annotated[Target, optional("--to", "-t", help="What is to serve it.")],
    out: Annotated[
        Path,
        optional(
            "--out", "-o", metavar="FILE", help="Where to write; - is standard output."
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
        from permatch.datasets.sources import read_feature_names
        from permatch.estimators.export import to_elasticsearch_ltr, to_onnx, to_solr

        if str(out) != "-":
            check_target(out, "--out", str(model_file), str(feature_names or ""))
        model = load_ranker(model_file)
        options: Any = {
            "name": name,
            "feature_names": read_feature_names(feature_names),
            "feature_prefix": feature_prefix,
        }
        if to is Target.ONNX:
            data = to_onnx(model, **options)
        else:
            write = to_solr if to is Target.SOLR else to_elasticsearch_ltr
            data = (json.dumps(write(model, **options), indent=1) + "\n").encode()
        with output(out) as file:
            file.buffer.write(data)
