"""Cross-validation of a method: its options, the folds one by one, and their summary."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console

from permatch._files import write_csv
from permatch._progress import progress_bar
from permatch._types import IntArray
from permatch.cli.shared.options import (
    EVIDENCE,
    Alphas,
    Penalty,
    alpha_option,
    optional,
)
from permatch.cli.shared.report import number, plain_table
from permatch.cli.shared.terminal import INTERRUPTED, print_summary
from permatch.errors import InvalidOptionError

Part = TypeVar("Part")


@dataclass(frozen=True)
class Folds:
    """The options of a cross-validation besides those of the fit."""

    alpha: Annotated[
        float | None,
        alpha_option("Strength of the penalty. Default: chosen for every fold."),
    ] = None
    alphas: Alphas = None
    folds: Annotated[int, typer.Option("--folds", min=2, help="Number of folds.")] = 5
    out: Annotated[
        Path | None,
        optional("--out", "-o", metavar="CSV", help="Output file with one row per fold."),
    ] = None

    @property
    def is_search(self) -> bool:
        """Whether alpha is chosen on a part of every fold."""
        return self.alpha is None

    def penalty(self) -> Penalty:
        """Return the options of the fits for the penalty."""
        if self.alpha is not None and self.alphas is not None:
            raise typer.BadParameter("--alpha and --alphas exclude each other; drop one.")
        if self.alphas == EVIDENCE:
            raise typer.BadParameter(
                "--alphas evidence is for fit; cv chooses alpha on a part of every fold. "
                "Give values, or drop it."
            )
        return Penalty(self.alpha, self.is_search, self.alphas, self.folds)


@dataclass(frozen=True, eq=False)
class Split:
    """Positions to train on, to choose alpha on (none if it is given), and to test on."""

    name: str
    train: IntArray
    validation: IntArray
    test: IntArray


def shuffled_splits(
    n_all: int, things: str, n_folds: int, seed: int, *, is_search: bool
) -> list[Split]:
    """Split at random: one part tests, the next chooses alpha, the others train.

    Every part tests once.  Without a search for alpha, all others train.
    """
    n_least = 3 if is_search else 2
    if not n_least <= n_folds <= n_all:
        uses = "to test, to choose alpha" if is_search else "to test"
        raise InvalidOptionError(
            f"--folds must be at most the number of {things}, {n_all}, and at least "
            f"{n_least} ({uses} and to train); got {n_folds}."
        )
    shuffled = np.random.default_rng(seed).permutation(n_all)
    parts = np.array_split(shuffled, n_folds)
    found = []
    for k, test in enumerate(parts):
        held_out = parts[(k + 1) % n_folds] if is_search else test[:0]
        others = np.setdiff1d(shuffled, np.concatenate([test, held_out]))
        found.append(Split(str(k + 1), others, np.sort(held_out), np.sort(test)))
    return found


def forward_splits(
    n_all: int, things: str, n_folds: int, *, is_search: bool
) -> list[Split]:
    """Split in order: a part tests, those before it train, and the last chooses alpha."""
    n_first = 2 if is_search else 1
    if not 2 <= n_folds <= n_all - n_first:
        raise InvalidOptionError(
            f"--folds must be at least 2, and with --in-order at most the number of "
            f"{things}, {n_all}, less {n_first} that only "
            f"{'train or choose alpha' if is_search else 'train'}; got {n_folds}."
        )
    parts = np.array_split(np.arange(n_all), n_folds + n_first)
    found = []
    for k, test in enumerate(parts[n_first:]):
        before = parts[: k + n_first]
        held_out = before.pop() if is_search else test[:0]
        found.append(Split(str(k + 1), np.concatenate(before), held_out, test))
    return found


def run_folds(
    folds: Sequence[Part], run: Callable[[Part], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the results of all folds, after Ctrl-C those of the finished ones."""
    rows: list[dict[str, Any]] = []
    with progress_bar("cross-validation", len(folds), float("inf"), None) as show:
        for k, fold in enumerate(folds):
            if show is not None:
                show(k)
            try:
                rows.append(run(fold))
            except KeyboardInterrupt:
                if not rows:
                    raise
                break
    return rows


def describe_fold(
    name: str, sizes: tuple[int, int, int], model: Any, measures: dict[str, Any]
) -> dict[str, Any]:
    """Return the result of one fold; `sizes` are those of train, validation and test."""
    n_train, n_validation, n_test = sizes
    return {
        "fold": name,
        "n_train": n_train,
        "n_validation": n_validation,
        "n_test": n_test,
        **_chosen(model),
        "is_converged": bool(model.is_converged_),
        "measures": measures,
    }


def _chosen(model: Any) -> dict[str, float]:
    """Return what was chosen for a model, or given: alpha, or leaves and trees."""
    if hasattr(model, "trees_"):
        leaves = getattr(model, "num_leaves_", model.num_leaves)
        return {"leaves": int(leaves), "trees": int(model.n_rounds_)}
    return {"alpha": float(getattr(model, "alpha_", model.get_params().get("alpha")))}


def _choices(row: dict[str, Any]) -> list[str]:
    """Return the names of what is chosen."""
    return [name for name in ("alpha", "leaves", "trees") if name in row]


def report_folds(
    summary: dict[str, Any],
    rows: list[dict[str, Any]],
    n_folds: int,
    out: Path | None,
    *,
    as_json: bool,
    show: Callable[[Console, dict[str, Any]], None],
) -> None:
    """Write and print the results; exit if folds are missing, by Ctrl-C."""
    if out is not None:
        write_csv(out, _fold_rows(rows))
    print_summary(summary | _describe_folds(rows), as_json, show)
    if len(rows) < n_folds:
        typer.echo(
            f"interrupted after {len(rows)} of {n_folds} folds; only these are reported.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)


def _describe_folds(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation of every measure over the folds that have it."""
    mean, spread = {}, {}
    for name in rows[0]["measures"]:
        values = [row["measures"][name] for row in rows]
        known = [value for value in values if value is not None]
        mean[name] = float(np.mean(known)) if known else None
        spread[name] = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return {"folds": rows, "mean": mean, "spread": spread}


def _fold_rows(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Yield a header and a row per fold."""
    sizes = ["fold", "n_train", "n_validation", "n_test"]
    heads = [*sizes, *_choices(rows[0]), "is_converged"]
    others = [f"{name} against" for name in rows[0].get("against", {})]
    yield [*heads, *rows[0]["measures"], *others]
    for row in rows:
        values = *row["measures"].values(), *row.get("against", {}).values()
        yield [*(row[name] for name in heads), *values]


def show_folds(
    console: Console, summary: dict[str, Any], things: str, names: dict[str, str]
) -> None:
    """Print a cross-validation for people, measures under the given names."""
    chosen = _choices(summary["folds"][0])
    table = plain_table("fold", things, *chosen, *names.values())
    table.pad_edge = False  # all that is shown by default fits into 80 columns
    for row in summary["folds"]:
        cells = [f"{row[name]:g}" for name in chosen]
        cells += [number(row["measures"][name]) for name in names]
        table.add_row(row["fold"], str(row["n_test"]), *cells)
    means = [number(summary["mean"][name]) for name in names]
    blank = [""] * (1 + len(chosen))
    table.add_row("mean", *blank, *means, style="bold")
    table.add_row("spread", *blank, *(number(summary["spread"][name]) for name in names))
    words = "Spread: standard deviation over folds."
    if "standard_error" in summary:
        errors = (number(summary["standard_error"][name]) for name in names)
        table.add_row("error", *blank, *errors)
        words += f" Error: standard error of the mean over all test {things}."
    console.print(table)
    how = "chosen on its validation part" if summary["is_search"] else "given"
    console.print(
        f"\n{summary['estimator']}: measures on the test part of every fold, "
        f"{' and '.join(chosen)} {how}. {words}"
    )
