"""Write scores of documents as plain numbers, TREC runs, CSV or JSON lines."""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.datasets.letor import RankingData


@dataclass(frozen=True, eq=False)
class Scored:
    """Consecutive documents of whole queries with the scores of one or two models.

    `first` is the position in the file of the first document, from 0.
    """

    data: RankingData
    first: int
    scores: list[FloatArray]

    @property
    def starts(self) -> IntArray:
        """Where the queries begin, and the end, (q + 1,)."""
        qid = self.data.qid
        changes = np.flatnonzero(qid[1:] != qid[:-1]) + 1
        return np.concatenate([[0], changes, [len(qid)]])


#: What writes one block of documents to a file.
Writer = Callable[[TextIO, Scored], None]


def run_writer(kind: str, run_name: str) -> Writer:
    """Return the function that writes one block in the format `kind`."""
    return {
        "scores": _write_scores,
        "trec": partial(_write_trec, run_name=run_name),
        "csv": _write_csv,
        "jsonl": _write_jsonl,
    }[kind]


def document_names(block: Scored) -> list[str]:
    """Return document ids; by default their positions in the file, from 1."""
    numbers = range(block.first + 1, block.first + 1 + block.data.n_documents)
    if block.data.doc_ids is None:
        return [str(number) for number in numbers]
    named = zip(block.data.doc_ids.tolist(), numbers, strict=True)
    return [name or str(number) for name, number in named]


def best_first(block: Scored) -> tuple[IntArray, IntArray]:
    """Return the rows sorted by score per query, and the rank of every row, from 1.

    Equal scores keep file order.
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
