"""Scores of documents: as plain numbers, TREC runs, CSV or JSON lines.

    query Q0 document rank score name

is a line of a TREC run.  As in trec_eval the score decides, not the rank.
"""

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TextIO

import numpy as np

from permatch._files import Gauge
from permatch._types import FloatArray, IntArray
from permatch.datasets.letor import RankingData, read_scores
from permatch.datasets.letor_rows import BYTE_ORDER_MARK, damage_reported, open_bytes
from permatch.errors import LetorFileError, ModelFileError
from permatch.queries import QueryRows, query_rows

# Of an unpacked file, what is looked at to tell what it holds.
_BEGINNING = 1 << 16
_N_WORDS = 6


@dataclass(frozen=True, eq=False)
class Scored:
    """Documents of whole queries, in any order, with the scores of one model or more.

    `first` is the position in the file of the first document, from 0.  `chances` have the
    probability of every grade by the first model, (n, n_grades), if they are wanted.
    """

    data: RankingData
    first: int
    scores: list[FloatArray]
    chances: FloatArray | None = None

    @cached_property
    def rows(self) -> QueryRows:
        """The documents of every query."""
        return query_rows(self.data.qid, None, self.data.n_documents)


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
    rows = block.rows
    order = rows.best_first(rows.gather(block.scores[0]))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order)) - rows.starts[rows.owners] + 1
    sorted_rows = order if rows.order is None else rows.order[order]
    return sorted_rows, rows.scatter(ranks)


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


def _chances(block: Scored) -> list[list[float]]:
    """Return the probabilities of grades of every document, none if not wanted."""
    if block.chances is None:
        return [[]] * block.data.n_documents
    return block.chances.tolist()


def _write_csv(file: TextIO, block: Scored) -> None:
    writer = csv.writer(file, lineterminator="\n")
    grades = 0 if block.chances is None else block.chances.shape[1]
    if block.first == 0:
        named = [f"p_grade_{grade}" for grade in range(grades)]
        writer.writerow(["query", "document", "rank", "score", *named])
    rows, chances = _rows(block), _chances(block)
    writer.writerows((*row, *own) for row, own in zip(rows, chances, strict=True))


def _write_jsonl(file: TextIO, block: Scored) -> None:
    for values, own in zip(_rows(block), _chances(block), strict=True):
        names = ("query", "document", "rank", "score")
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        if own:
            row["p_grades"] = own
        file.write(json.dumps(row, allow_nan=False) + "\n")


def is_json(path: str | os.PathLike[str]) -> bool:
    """Tell from how a file begins whether it is JSON, as models are."""
    return _beginning(path)[:1] in (b"{", b"[")


def find_source(path: str | os.PathLike[str]) -> Literal["model", "scores", "run"]:
    """Tell from how a file begins whether it has a model, or scores and in which form.

    An empty one, or JSON of any kind, passes for a model: loading it says what is wrong.
    """
    text = _beginning(path)
    if not text or is_json(path):
        return "model"
    if is_run(path):
        return "run"
    line = text.splitlines()[0]
    if len(line.split()) == 1:
        return "scores"
    raise ModelFileError(
        f"{path} must be a model as written by permatch rank fit, scores with one number "
        "per line, or a TREC run with lines 'query Q0 document rank score name'; its first "
        f"line is {line[:60].decode('utf-8', 'replace')!r}. Judged documents come last."
    )


def is_run(path: str | os.PathLike[str]) -> bool:
    """Tell from its first line whether a file is a TREC run."""
    words = next(iter(_beginning(path).splitlines()), b"").split()
    return len(words) == _N_WORDS and b":" not in words[1]


def _beginning(path: str | os.PathLike[str]) -> bytes:
    with open_bytes(path) as (file, _), damage_reported(str(path)):
        return file.read(_BEGINNING).removeprefix(BYTE_ORDER_MARK).strip()


def read_source(
    path: str | os.PathLike[str], qid: Any, documents: Sequence[Any] | None
) -> FloatArray:
    """Read scores of documents, in their order, from plain numbers or a TREC run.

    Documents without names are numbered from 1.
    """
    if not is_run(path):
        return read_scores(path)
    if documents is None:
        documents = range(1, len(qid) + 1)
    return read_run(path, qid, documents)


def read_run(
    path: str | os.PathLike[str],
    qid: Any,
    documents: Sequence[Any],
    *,
    max_bytes: int | None = None,
) -> FloatArray:
    """Read the scores of documents from a TREC run, in the order of the documents.

    `qid` has the query of each and `documents` its name.  The run must score exactly these.
    """
    scores = _read_lines(str(path), max_bytes)
    wanted = [(str(query), str(name)) for query, name in zip(qid, documents, strict=True)]
    for query, name in wanted:
        if (query, name) not in scores:
            raise LetorFileError(
                f"{path} must have a line for every judged document; there is none for "
                f"document {name!r} of query {query!r}. Add one with a score below those "
                "of all others, or drop the document."
            )
    if len(scores) > len(set(wanted)):
        query, name = next(iter(scores.keys() - set(wanted)))
        raise LetorFileError(
            f"{path} must have lines for the judged documents only; document {name!r} of "
            f"query {query!r} is not judged. Judge it, 0 if it is not relevant, or drop "
            "the line."
        )
    return np.array([scores[one] for one in wanted])


def _read_lines(path: str, max_bytes: int | None) -> dict[tuple[str, str], float]:
    """Return the scores of a TREC run by query and document."""
    scores: dict[tuple[str, str], float] = {}
    number = 0
    with open_bytes(path) as (file, _), damage_reported(path):
        for piece in Gauge(path, LetorFileError, max_bytes).pieces(file):
            for line in piece.splitlines():
                number += 1
                words = line.split()
                if words:
                    one, score = _parse(words, f"{path}, line {number}")
                    _refuse_twice(one, scores, f"{path}, line {number}")
                    scores[one] = score
    return scores


def _parse(words: list[bytes], place: str) -> tuple[tuple[str, str], float]:
    """Return query and document, and the score, of the words of a line."""
    try:
        query, _, document, _, text, _ = words
        score = math.nan if b"_" in text else float(text)  # Python reads 1_0
        if math.isfinite(score):
            return (query.decode("utf-8"), document.decode("utf-8")), score
    except ValueError:  # as many words, a number, UTF-8
        pass
    got = b" ".join(words)[:60].decode("utf-8", "replace")
    raise LetorFileError(
        f"{place}: a line of a TREC run must be 'query Q0 document rank score name', with "
        f"a finite score; got {got!r}. Correct the line."
    )


def _refuse_twice(one: tuple[str, str], scores: Any, place: str) -> None:
    if one in scores:
        query, document = one
        raise LetorFileError(
            f"{place}: document {document!r} of query {query!r} has a score already. Drop "
            "one of the lines."
        )
