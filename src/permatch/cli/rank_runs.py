"""Scores of documents as files: plain numbers, TREC runs, CSV and JSON lines."""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from permatch._files import whole_file
from permatch._types import IntArray
from permatch.cli.rank_steps import Scored
from permatch.cli.terminal import standard_output

#: What writes one block of documents to a file.
Writer = Callable[[TextIO, Scored], None]


def run_writer(kind: str, run_name: str) -> Writer:
    """Return what writes one block in the format `kind`."""
    if kind == "scores":
        return _write_scores
    if kind == "csv":
        return _write_csv
    if kind == "jsonl":
        return _write_jsonl
    return lambda file, block: _write_trec(file, block, run_name)


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that is there whole or not at all."""
    if path is None or str(path) == "-":
        yield standard_output()
        return
    with whole_file(path) as file:
        yield file


def document_names(block: Scored) -> list[str]:
    """Return the ids of the documents; one without has its number in the file, from 1."""
    numbers = range(block.first + 1, block.first + 1 + block.data.n_documents)
    if block.data.doc_ids is None:
        return [str(number) for number in numbers]
    named = zip(block.data.doc_ids.tolist(), numbers, strict=True)
    return [name or str(number) for name, number in named]


def best_first(block: Scored) -> tuple[IntArray, IntArray]:
    """Return the rows of every query from its best on, and the rank of every row, from 1.

    Equal scores keep the order of the file.
    """
    starts = block.starts
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((-block.scores[0], owners))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order)) - starts[owners] + 1
    return order, ranks


def _write_scores(file: TextIO, block: Scored) -> None:
    file.writelines(f"{score!r}\n" for score in block.scores[0].tolist())


def _write_trec(file: TextIO, block: Scored, run_name: str) -> None:
    order, ranks = best_first(block)
    names, queries = document_names(block), block.data.qid.tolist()
    scores, places = block.scores[0].tolist(), ranks.tolist()
    file.writelines(
        f"{queries[row]} Q0 {names[row]} {places[row]} {scores[row]!r} {run_name}\n"
        for row in order.tolist()
    )


def _rows(block: Scored) -> Iterator[tuple[Any, str, int, float]]:
    """Yield query, document, rank and score in the order of the file."""
    return zip(
        block.data.qid.tolist(),
        document_names(block),
        best_first(block)[1].tolist(),
        block.scores[0].tolist(),
        strict=True,
    )


def _write_csv(file: TextIO, block: Scored) -> None:
    writer = csv.writer(file, lineterminator="\n")
    if block.first == 0:
        writer.writerow(["query", "document", "rank", "score"])
    writer.writerows(_rows(block))


def _write_jsonl(file: TextIO, block: Scored) -> None:
    for query, document, rank, score in _rows(block):
        row = {"query": query, "document": document, "rank": rank, "score": score}
        file.write(json.dumps(row, allow_nan=False) + "\n")
