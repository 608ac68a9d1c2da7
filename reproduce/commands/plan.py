"""The experiments of ``python -m reproduce all``, in the order of its page."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduce.commands.house import house_part
from reproduce.commands.ranking_parts import (
    RankingSummary,
    Rows,
    ohsumed_part,
    runtime_part,
    sample_size_part,
)
from reproduce.commands.silhouettes import silhouettes_part
from reproduce.commands.steps import Part

if TYPE_CHECKING:
    from reproduce.experiments.claims import Effect


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
    steps = _Steps(folder, None if data is None else str(data), is_quick, jobs)
    return [
        steps.letor("OHSUMED", "figure-2-ohsumed", 10.0),
        steps.silhouettes("figure-3-left", "same-landmarks", 20.0),
        steps.sample_size("figure-3-right", 5.0),
        steps.runtime("table-1", 1.0),
        steps.house("house", 12.0),
        # Last, because few have these.
        steps.letor("TD2004", "figure-2-td2004", 40.0),
        steps.letor("TD2003", "figure-2-td2003", 30.0),
    ]


@dataclass(frozen=True)
class _Steps:
    """Makes the steps, with what all of them depend on."""

    folder: Path
    data: str | None
    is_quick: bool
    jobs: int

    def _configure(self, module: Any, **options: Any) -> Any:
        config = module.Config.quick() if self.is_quick else module.Config()
        return replace(config, **options)

    def letor(self, name: str, claim: str, minutes: float) -> Step:
        from reproduce.experiments import evidence, ohsumed
        from reproduce.experiments.letor_folds import find_folder

        def make() -> Part:
            config = self._configure(ohsumed, dataset=name, data=self.data)
            return ohsumed_part(config, self.folder, self.is_quick, self.jobs)

        def judge(rows: Rows, summary: RankingSummary) -> "list[Effect]":
            if name == "TD2003":
                return evidence.weak_start_effects(rows)
            return evidence.ranking_effects(rows, summary.tests)

        find = partial(find_folder, name, self.data)
        return Step(claim, minutes, find, make, judge, _missing_letor(name))

    def silhouettes(self, claim: str, protocol: str, minutes: float) -> Step:
        from reproduce.experiments import silhouette_sample_size as experiment

        config = self._configure(experiment, protocol=protocol)

        def make() -> Part:
            return silhouettes_part(config, self.folder, self.is_quick, self.jobs)

        def judge(rows: Rows, summary: Rows) -> "list[Effect]":
            return experiment.judged(config, rows)

        return Step(claim, minutes, lambda: None, make, judge)

    def sample_size(self, claim: str, minutes: float) -> Step:
        from reproduce.experiments import ohsumed_sample_size as experiment
        from reproduce.experiments.letor_folds import find_folder

        config = self._configure(experiment, data=self.data)

        def make() -> Part:
            return sample_size_part(config, self.folder, self.is_quick, self.jobs)

        def judge(rows: Rows, summary: Rows) -> "list[Effect]":
            return experiment.judged(config, rows)

        find = partial(find_folder, "OHSUMED", self.data)
        return Step(claim, minutes, find, make, judge, _missing_letor("OHSUMED"))

    def runtime(self, claim: str, minutes: float) -> Step:
        from reproduce.experiments import evidence, rank_runtime
        from reproduce.experiments.letor_folds import find_folder

        def make() -> Part:
            config = self._configure(rank_runtime, data=self.data)
            return runtime_part(config, self.folder, self.is_quick)

        def judge(rows: Rows, summary: Rows) -> "list[Effect]":
            return evidence.runtime_effects(rows)

        find = partial(find_folder, "OHSUMED", self.data)
        return Step(claim, minutes, find, make, judge, _missing_letor("OHSUMED"))

    def house(self, claim: str, minutes: float) -> Step:
        from reproduce.experiments import cmu_house, evidence, house_frames

        def make() -> Part:
            config = self._configure(cmu_house, data=self.data)
            return house_part(config, self.folder, self.is_quick, self.jobs)

        def judge(rows: Rows, summary: Rows) -> "list[Effect]":
            return evidence.house_effects(rows)

        find = partial(house_frames.find_folder, self.data)
        content = "its shape_contexts.npy and points.npy"
        missing = _missing("CMU House", "cmu_house", content)
        return Step(claim, minutes, find, make, judge, missing)
