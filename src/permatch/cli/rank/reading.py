"""Judged files of ``permatch rank``, in whatever form they are, read whole."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from permatch._cells import quoted
from permatch.cli.rank.options import Columns
from permatch.datasets import RankingData
from permatch.datasets.judged import find_form, read_table, sizes_of
from permatch.datasets.judged_tables import JudgedColumns, open_table
from permatch.datasets.letor import read_letor
from permatch.datasets.sources import Copy, local_file
from permatch.errors import FeatureIndexError, InvalidQueriesError


def read_judged_file(name: str | Path | Copy, columns: Columns) -> RankingData:
    """Read a file of judged documents."""
    with local_file(name) as path:
        return _read(path, columns, columns.judged())


def read_grades(name: str | Path | Copy, columns: Columns) -> RankingData:
    """Read a file of judged documents; of a table no features."""
    with local_file(name) as path:
        return _read(path, columns, columns.judged(features=()))


def read_pair(
    train: str,
    valid: str | None,
    columns: Columns,
    n_features: int | None,
    names: list[str] | None,
) -> tuple[RankingData, RankingData | None]:
    """Read a training file and perhaps a second one, with the same features.

    `names` are those of the features: of a table they choose its columns.
    """
    if names is not None and columns.features is not None:
        raise typer.BadParameter("--features and --feature-names exclude each other.")
    with ExitStack() as stack:
        path = stack.enter_context(local_file(train))
        more = None if valid is None else stack.enter_context(local_file(valid))
        is_table = find_form(path) == "table"
        if more is not None and (find_form(more) == "table") != is_table:
            forms = ("LETOR text", "a table")
            raise InvalidQueriesError(
                "training and validation files must both be tables or both LETOR text; "
                f"{train} is {forms[is_table]}, {valid} {forms[not is_table]}. Convert one "
                "of them: permatch.datasets.read_judged(path).write(path)."
            )
        if is_table:
            columns.check(path, is_table=True, n_features=n_features)
            learnt = read_table(path, columns.judged(names))
            _tell_left_out(path, columns.judged(names))
            chosen = replace(columns.judged(), features=learnt.feature_names)
            return learnt, None if more is None else read_table(more, chosen)
        return _read_text(path, more, columns, n_features, names)


def _tell_left_out(path: Any, chosen: JudgedColumns) -> None:
    """Say which columns of a table are no features."""
    with open_table(path, replace(chosen, wanted=())) as table:
        left_out = table.left_out
    if left_out:
        typer.echo(
            f"note: columns of text in {path} are not learned from: {quoted(left_out)}. "
            "permatch.FeaturePreparation, in Python, makes features of categories.",
            err=True,
        )


def _read_text(
    path: Any,
    more: Any,
    columns: Columns,
    n_features: int | None,
    names: list[str] | None,
) -> tuple[RankingData, RankingData | None]:
    paths = [path] if more is None else [path, more]
    try:
        found = [_read(one, columns, n_features=n_features) for one in paths]
    except FeatureIndexError as err:
        advice = "Give a larger --n-features, or a file with these features only."
        raise FeatureIndexError(err.problem, advice) from err
    width = max(data.n_features for data in found)
    # A feature that is 0 throughout a file may be omitted from it.
    for k, data in enumerate(found):
        if data.n_features < width:
            data = _read(paths[k], columns, n_features=width)
        found[k] = replace(data, feature_names=names)
    return found[0], found[1] if len(found) > 1 else None


def _read(
    path: Any,
    columns: Columns,
    chosen: JudgedColumns | None = None,
    n_features: int | None = None,
) -> RankingData:
    form = find_form(path)
    columns.check(path, is_table=form == "table")
    if form == "table":
        return read_table(path, chosen or columns.judged())
    sizes, base = sizes_of(path, form), columns.zero_based
    return read_letor(path, group=sizes, zero_based=base, n_features=n_features)
