"""Pipelines of scikit-learn that prepare features for a ranker."""

from typing import Any

from sklearn.pipeline import Pipeline

from permatch._estimators import ESTIMATORS
from permatch.errors import ModelFileError


def split_pipeline(model: Any) -> tuple[Any, Any]:
    """Return the preparation and the ranker of a pipeline; None and any other model.

    Pipelines of other steps are refused.
    """
    if not isinstance(model, Pipeline):
        return None, model
    steps = [step for _, step in model.steps]
    if list(map(_task, steps)) != ["prepare", "rank"]:
        found = ", ".join(type(step).__name__ for step in steps)
        raise ModelFileError(
            "a pipeline to save or export must have two steps, a FeaturePreparation and a "
            f"ranker; got {found}. Rankers scale features themselves (scale_features, "
            "scaling); do anything else before the pipeline."
        )
    return steps[0], steps[1]


def _task(step: Any) -> str | None:
    """Return what one of permatch's own estimators is for, None for any other."""
    listed = ESTIMATORS.get(type(step).__name__)
    if listed is None or listed.home != type(step).__module__:
        return None
    return listed.task
