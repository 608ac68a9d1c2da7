"""Write judged lists as LETOR or SVMlight text, CSV or Parquet."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import whole_file, write_csv
from permatch._optional import require
from permatch._progress import progress_bar
from permatch._validation import check_choice
from permatch.errors import InvalidQueriesError

# Numbers written per second, a cautious guess: it decides whether a progress bar appears.
_PER_SECOND = 2e6

FORMS = ("letor", "lightgbm", "csv", "parquet")


def write_judged(data: Any, path: Path, form: str | None) -> None:
    """Write judged lists in a form, by default that of the ending of the path."""
    if form is None:
        form = path.suffix.lower().removeprefix(".").replace("pq", "parquet")
        form = form if form in ("csv", "parquet") else "letor"
    check_choice(form, "form", FORMS)
    if form == "parquet":
        arrow = require("pyarrow", "tables", what="writing Parquet")
        parquet = require("pyarrow.parquet", "tables")
        with whole_file(path) as file:
            parquet.write_table(arrow.table(data.to_columns()), file.buffer)
    elif form == "csv":
        columns = data.to_columns()
        rows = zip(*(_cells(column) for column in columns.values()), strict=True)
        with _shown(data, path) as show:
            write_csv(path, _counted([list(columns), *rows], show))
    else:
        _write_lines(data.sorted(), path, has_queries=form == "letor")


def _write_lines(data: Any, path: Path, *, has_queries: bool) -> None:
    with whole_file(path) as file, _shown(data, path) as show:
        file.writelines(_counted(_lines(data, has_queries), show))
    if not has_queries:
        with whole_file(path.with_name(f"{path.name}.query")) as file:
            file.writelines(f"{size}\n" for size in data.group.tolist())


def _lines(data: Any, has_queries: bool) -> Iterator[str]:
    """Yield a line per document; the first one tells how many features there are."""
    X = np.asarray(data.X)
    _check_words(data.qid)
    names = None
    if has_queries and data.doc_ids is not None:
        names = data.doc_ids.tolist()
    queries, grades, last = data.qid.tolist(), data.y.tolist(), data.n_features
    for row in range(data.n_documents):
        values = X[row].tolist()
        entries = [f"{k}:{value!r}" for k, value in enumerate(values, 1) if value]
        if row == 0 and not values[-1]:
            entries.append(f"{last}:0")
        query = [f"qid:{queries[row]}"] if has_queries else []
        comment = [f"# docid = {names[row]}"] if names is not None and names[row] else []
        yield " ".join([str(grades[row]), *query, *entries, *comment]) + "\n"


def _cells(column: Any) -> Any:
    return np.asarray(column).tolist()


def _shown(data: Any, path: Path) -> Any:
    seconds = data.n_documents * data.n_features / _PER_SECOND
    return progress_bar(f"writing {path.name}", data.n_documents, seconds, None)


def _counted(rows: Any, show: Any) -> Iterator[Any]:
    for k, row in enumerate(rows):
        if show is not None and k % 1000 == 0:
            show(k)
        yield row


def _check_words(ids: Any) -> None:
    """Refuse query ids that a line of LETOR text would cut."""
    for name in dict.fromkeys(ids.tolist()):
        if not re.fullmatch(r"[^\s#]+", str(name)):
            raise InvalidQueriesError(
                "query ids must be words without blanks and # to be written as LETOR "
                f"text; got {name!r}. Replace them, such as by numbers, or write CSV."
            )
