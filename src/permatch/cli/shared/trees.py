"""The options of boosted trees, and the report of a fit of them."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from permatch._estimators import Kind, Task, options_of
from permatch._optional import require
from permatch.cli.shared.options import optional
from permatch.cli.shared.report import MAX_ROWS, plain_table, plural

_PANEL = "Trees (--model-kind trees)"


def parse_leaves(text: str | None) -> list[int] | None:
    """Split ``7,15,31``."""
    if text is None:
        return None
    parts = text.split(",")
    is_count = all(len(p) < 7 and p.isdecimal() and p.isascii() for p in parts)
    counts = [int(part) for part in parts] if is_count else [0]
    if min(counts) < 2:
        raise typer.BadParameter(
            f"must be numbers of at least 2, such as 31 or 7,15,31; got {text!r}."
        )
    return counts


def check_leaves(text: str | None) -> str | None:
    """Refuse what are no numbers of leaves."""
    parse_leaves(text)
    return text


def check_rate(rate: float | None) -> float | None:
    """Refuse an impossible learning rate."""
    if rate is not None and not 0.0 < rate < math.inf:
        raise typer.BadParameter("must be a finite number above 0.")
    return rate


def _option(name: str, **more: Any) -> Any:
    return optional(name, rich_help_panel=_PANEL, **more)


@dataclass(frozen=True)
class TreeOptions:
    """What scores are made by, and the options of boosted trees."""

    model_kind: Annotated[
        Literal["linear", "trees"],
        typer.Option(
            "--model-kind",
            help="One weight per feature, or boosted trees, which see thresholds and "
            "interactions of features (extra 'boosting').",
        ),
    ] = "linear"
    leaves: Annotated[
        str | None,
        _option(
            "--leaves",
            metavar="N[,N...]",
            help="Most leaves of a tree; with --cv those to choose from. Default: 31, with "
            "--cv 7,15,31.",
            callback=check_leaves,
        ),
    ] = None
    rounds: Annotated[
        int | None,
        _option(
            "--rounds",
            min=1,
            help="Number of trees; the most to try with --cv or a second file. Default: "
            "100, with --cv 500.",
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        _option(
            "--learning-rate",
            help="Share of every tree that is added. Default: 0.1",
            callback=check_rate,
        ),
    ] = None
    min_in_leaf: Annotated[
        int | None,
        _option("--min-in-leaf", min=1, help="Fewest training rows of a leaf. Default: 20"),
    ] = None
    leaf_penalty: Annotated[
        float | None,
        _option("--leaf-penalty", min=0.0, help="L2 penalty on leaves. Default: 0"),
    ] = None
    patience: Annotated[
        int | None,
        _option(
            "--patience",
            min=1,
            help="Rounds without a better score before the end. Default: 50",
        ),
    ] = None

    @property
    def kind(self) -> Kind:
        """What scores are made by."""
        return self.model_kind

    @property
    def is_trees(self) -> bool:
        """Whether scores are made by trees."""
        return self.model_kind == "trees"

    def name(self, estimator: str) -> str:
        """Return what to call an estimator in reports."""
        return f"{estimator} with trees" if self.is_trees else estimator

    def values(self, task: Task, estimator: str, *, is_search: bool) -> dict[str, Any]:
        """Return what is given as parameters of an estimator."""
        given = {
            "--leaves": self.leaves,
            "--rounds": self.rounds,
            "--learning-rate": self.learning_rate,
            "--min-in-leaf": self.min_in_leaf,
            "--leaf-penalty": self.leaf_penalty,
            "--patience": self.patience,
        }
        if not self.is_trees:
            for name, value in given.items():
                if value is not None:
                    raise typer.BadParameter(f"{name} needs --model-kind trees.")
            return {}
        known = options_of(task, "trees")
        if estimator not in known:
            raise typer.BadParameter(
                f"--model-kind trees needs --estimator {' or '.join(known)}."
            )
        require("lightgbm", "boosting", what="--model-kind trees")  # before data are read
        counts = parse_leaves(self.leaves)
        if not is_search and counts is not None and len(counts) > 1:
            raise typer.BadParameter("several --leaves to choose from need --cv.")
        found = {
            "leaf_counts": counts if is_search else None,
            "num_leaves": counts[0] if counts and not is_search else None,
            "n_rounds": self.rounds,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_in_leaf,
            "lambda_l2": self.leaf_penalty,
            "patience": self.patience,
        }
        return {name: value for name, value in found.items() if value is not None}


def refuse_penalty(alpha: float | None, alphas: str | None) -> None:
    """Refuse a penalty of coefficients, which trees have not."""
    for name, value in (("--alpha", alpha), ("--alphas", alphas)):
        if value is not None:
            raise typer.BadParameter(
                f"{name} has no effect with --model-kind trees; use --leaf-penalty, or "
                "choose leaves and rounds with --cv."
            )


def describe_trees(
    model: Any, names: list[str], path: str, seconds: float
) -> dict[str, Any]:
    """Collect the results of a fit of trees as plain lists and numbers."""
    gains, counts = model.trees_.gains()
    shares = model.feature_importances_
    summary = {
        "model": path,
        "estimator": type(model).__name__,
        "num_leaves": int(getattr(model, "num_leaves_", model.num_leaves)),
        "n_rounds": int(model.n_rounds_),
        "learning_rate": float(model.learning_rate),
        "is_converged": bool(model.is_converged_),
        "seconds": seconds,
        "loss": float(model.history_[-1]["loss"]),
        "importances": [
            {"feature": name, "share": float(share), "gain": float(gain), "splits": int(n)}
            for name, share, gain, n in zip(names, shares, gains, counts, strict=True)
        ],
    }
    if not math.isnan(getattr(model, "best_score_", math.nan)):
        summary |= {"score": float(model.best_score_), "scoring": str(model.scoring)}
    if hasattr(model, "cv_results_"):
        results = model.cv_results_
        columns = [results[name].tolist() for name in _COLUMNS]
        summary["n_splits"] = results["scores"].shape[1]
        summary["path"] = [
            {"num_leaves": n, "n_rounds": k, "score": mean, "spread": spread}
            for n, k, mean, spread in zip(*columns, strict=True)
        ]
    return summary


_COLUMNS = ("num_leaves", "n_rounds", "mean_score", "std_score")


def size_in_words(summary: dict[str, Any]) -> str:
    """Return how many trees there are, and how large they may be."""
    trees = plural(summary["n_rounds"], "tree")
    return f"{trees} of up to {summary['num_leaves']} leaves"


def add_growth(table: Table, summary: dict[str, Any]) -> None:
    """Add how a fit ended to a table of facts."""
    ending = "ended" if summary["is_converged"] else "interrupted"
    table.add_row("fit", f"{ending} after {summary['seconds']:.1f} s")
    table.add_row("loss", f"{summary['loss']:.6g}, before the last tree")


def show_trees(console: Console, summary: dict[str, Any], title: str) -> None:
    """Print the leaves tried, if there was a choice, and what features are worth."""
    if "path" in summary:
        console.print(f"\n[bold]leaves tried, {title}[/bold]")
        has_spread = summary["n_splits"] > 1
        table = plain_table("leaves", "trees", "mean", "spread" if has_spread else "", "")
        for row in summary["path"]:
            is_chosen = row["num_leaves"] == summary["num_leaves"]
            table.add_row(
                str(row["num_leaves"]),
                str(row["n_rounds"]),
                f"{row['score']:.4f}",
                f"{row['spread']:.4f}" if has_spread else "",
                "chosen" if is_chosen else "",
                style="bold green" if is_chosen else "",
            )
        console.print(table)
    rows = sorted(summary["importances"], key=lambda row: -row["share"])
    more = f", the most important {MAX_ROWS}" * (len(rows) > MAX_ROWS)
    console.print(f"\n[bold]features{more}[/bold]")
    table = plain_table("feature", "share of gain", "splits")
    table.columns[0].justify = "left"
    table.columns[0].overflow = "fold"
    for row in rows[:MAX_ROWS]:
        table.add_row(Text(row["feature"]), f"{row['share']:.4f}", str(row["splits"]))
    console.print(table)
