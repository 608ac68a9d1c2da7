"""``permatch rank export``: models for serving systems."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from permatch.cli.rank.options import FeatureNames
from permatch.cli.rank.steps import load_ranker
from permatch.cli.shared.options import Model, optional
from permatch.cli.shared.steps import (
    check_target,
    nothing_written_if_interrupted,
    output,
)


def export(
    model_file: Model,
    to: Annotated[
        Literal["onnx", "solr", "elasticsearch-ltr"],
        optional("--to", "-t", help="Target system."),
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

      onnx               any ONNX runtime: input X (n, d), output scores (n)
      solr               Solr: a LinearModel for its model store
      elasticsearch-ltr  Elasticsearch and OpenSearch, with their plugin for
                         learning to rank: a model/linear for _createmodel

    The model must be fitted with --scaling none, on features computed and
    named as in the serving system.

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
        if to == "onnx":
            data = to_onnx(model, **options)
        else:
            write = to_solr if to == "solr" else to_elasticsearch_ltr
            data = (json.dumps(write(model, **options), indent=1) + "\n").encode()
        with output(out) as file:
            file.buffer.write(data)
