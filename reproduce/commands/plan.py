"""The experiments of ``python -m reproduce all``, in the order of its page."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduce.commands.house import house_part
from reproduce.commands.ranking_parts import (
    ohsumed_part,
    runtime_part,
    sample_size_part,
)
from reproduce.commands.silhouettes import silhouettes_part
from reproduce.commands.steps import Part

if TYPE_CHECKING:
    from reproduce.experiments.claims import Effect

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """An experiment on its way to the page.

    `find` raises if its data is not there, and `missing` says what to do then; `make`
    configures it, `judge` takes rows and summary to effects; `minutes` are its usual ones,
    for the progress.
    """

    claim: str
    minutes: float
    find: Callable[[], object]
    make: Callable[[], Part]
    judge: Callable[[Rows, Any], "list[Effect]"]
    missing: str = ""


def _missing(name: str, folder: str, content: str) -> str:
    return (
        f"No {name} was found under --data or PERMATCH_DATA. Put {content} into "
        f"DIR/{folder}, and give --data DIR, or set PERMATCH_DATA to DIR."
    )


def _missing_letor(name: str) -> str:
    return _missing(f"{name} folder of LETOR", f"letor/{name}", "its Fold1 to Fold5")


def plan(folder: Path, data: Path | None, is_quick: bool, jobs: int) -> list[Step]:
    """Return every experiment, in the order of the page."""
    from reproduce.experiments import cmu_house, evidence, house_frames, letor_folds
    from reproduce.experiments import ohsumed as ndcg
    from reproduce.experiments import ohsumed_sample_size as sizes
    from reproduce.experiments import rank_runtime as times
    from reproduce.experiments import silhouette_sample_size as silhouettes

    where = None if data is None else str(data)

    def configure(module: Any, **options: Any) -> Any:
        config = module.Config.quick() if is_quick else module.Config()
        return replace(config, **options)

    def letor(name: str, claim: str, minutes: float) -> Step:
        return Step(
            claim,
            minutes,
            lambda: letor_folds.find_folder(name, where),
            lambda: ohsumed_part(
                configure(ndcg, dataset=name, data=where), folder, is_quick, jobs
            ),
            lambda rows, summary: (
                evidence.weak_start_effects(rows)
                if name == "TD2003"
                else evidence.ranking_effects(rows, summary.tests)
            ),
            _missing_letor(name),
        )

    def find_ohsumed() -> Path:
        return letor_folds.find_folder("OHSUMED", where)

    return [
        letor("OHSUMED", "figure-2-ohsumed", 1.0),
        Step(
            "figure-3-left",
            13.0,
            lambda: None,
            lambda: silhouettes_part(configure(silhouettes), folder, is_quick, jobs),
            lambda rows, summary: evidence.silhouette_effects(rows),
        ),
        Step(
            "figure-3-right",
            3.0,
            find_ohsumed,
            lambda: sample_size_part(configure(sizes, data=where), folder, is_quick, jobs),
            lambda rows, summary: evidence.sample_size_effects(rows),
            _missing_letor("OHSUMED"),
        ),
        Step(
            "table-1",
            1.0,
            find_ohsumed,
            lambda: runtime_part(configure(times, data=where), folder, is_quick),
            lambda rows, summary: evidence.runtime_effects(rows),
            _missing_letor("OHSUMED"),
        ),
        Step(
            "house",
            12.0,
            lambda: house_frames.find_folder(where),
            lambda: house_part(configure(cmu_house, data=where), folder, is_quick, jobs),
            lambda rows, summary: evidence.house_effects(rows),
            _missing("CMU House", "cmu_house", "its shape_contexts.npy and points.npy"),
        ),
        # Last, because few have these.
        letor("TD2004", "figure-2-td2004", 6.0),
        letor("TD2003", "figure-2-td2003", 4.0),
    ]
