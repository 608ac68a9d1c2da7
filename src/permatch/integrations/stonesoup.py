"""A data associator for Stone Soup, in the place of `JPDA` and its variants.

Needs the extra ``stonesoup`` (``pip install '.[stonesoup]'`` in a clone of permatch).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import FloatArray, IntArray
from permatch.inference import Diagnostics
from permatch.inference._words import error_in_words, level_outside
from permatch.tracking import infer_association

__all__ = ["JPDAwithPermatch"]

_probability = require(
    "stonesoup.dataassociator.probability",
    "stonesoup",
    what="permatch.integrations.stonesoup",
)
_base = require("stonesoup.base", "stonesoup")
_hypothesis = require("stonesoup.types.hypothesis", "stonesoup")
_multiple = require("stonesoup.types.multihypothesis", "stonesoup")
_Probability = require("stonesoup.types.numeric", "stonesoup").Probability


class JPDAwithPermatch(_probability.JPDA):
    """Joint probabilistic data association, exact, without enumerating joint events.

    Takes the place of Stone Soup's ``JPDA``, ``JPDAwithEHM2`` or ``JPDAwithLBP`` in any
    tracker, and returns what the first two do.

    Parameters
    ----------
    hypothesiser : PDAHypothesiser
        Generates the hypotheses of every track.
    tol : float, default 0.01
        Error of the probabilities to reach, in frames that are too crowded for an exact
        answer.  A `RuntimeWarning` reports the first such frame.
    budget : float, default 1.0
        Seconds per frame: what takes longer to solve exactly is approximated.

    Notes
    -----
    In frames that are not too crowded (see `permatch.associate`: about 20 tracks that all
    compete for the same detections) the probabilities are exact up to rounding.

    Examples
    --------
    A tracker as in Stone Soup's tutorial, with one line changed::

        from permatch.integrations.stonesoup import JPDAwithPermatch

        data_associator = JPDAwithPermatch(hypothesiser=hypothesiser)
    """

    tol: float = _base.Property(default=0.01, doc="Error to reach in crowded frames")
    budget: float = _base.Property(default=1.0, doc="Seconds per frame")

    def associate(
        self, tracks: Any, detections: Any, timestamp: Any, **kwargs: Any
    ) -> Mapping[Any, Any]:
        """Return the hypotheses of every track, with their probabilities.

        Parameters
        ----------
        tracks : set of Track
            Tracks which detections will be associated to.
        detections : set of Detection
            Detections to be associated to tracks.
        timestamp : datetime.datetime
            Time to predict to, and that of missed detections.
        **kwargs
            Passed on to the hypothesiser.

        Returns
        -------
        dict
            A ``MultipleHypothesis`` per track.
        """
        hypotheses = self.generate_hypotheses(tracks, detections, timestamp, **kwargs)
        return self._with_probabilities(hypotheses)

    def _with_probabilities(self, hypotheses: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return hypotheses per track with the probabilities of joint association."""
        if not hypotheses:
            return {}
        rows, columns, logs = _as_arrays(hypotheses)
        matrix = np.full((len(hypotheses), int(columns.max(initial=0)) + 1), -np.inf)
        np.logaddexp.at(matrix, (rows, columns), logs)
        # What it would warn of is in our own warning.
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            found = infer_association(matrix, log=True, tol=self.tol, budget=self.budget)
        if not found.is_exact:
            _warn(found.diagnostics, self.tol, *matrix.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Hypotheses of one track about one detection share its probability.
            shares = logs - matrix[rows, columns]
            new = np.log(found.probabilities[rows, columns]) + shares
        values = iter(np.where(np.isnan(new), -np.inf, new).tolist())
        return {
            track: _multiple.MultipleHypothesis([_copy(one, next(values)) for one in own])
            for track, own in hypotheses.items()
        }


def _as_arrays(hypotheses: Mapping[Any, Any]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return track, column and log-likelihood of every hypothesis; column 0: missed."""
    rows: list[int] = []
    columns: list[int] = []
    logs: list[float] = []
    column_of: dict[int, int] = {}
    for row, own in enumerate(hypotheses.values()):
        for one in own:
            rows.append(row)
            seen = id(one.measurement) if one else 0
            columns.append(column_of.setdefault(seen, len(column_of) + 1) if one else 0)
            logs.append(_log(one.probability))
    return np.array(rows, np.intp), np.array(columns, np.intp), np.array(logs, dtype=float)


def _log(probability: Any) -> float:
    if isinstance(probability, _Probability):
        return probability.log_value
    return _Probability(probability).log_value


def _copy(one: Any, log_probability: float) -> Any:
    return _hypothesis.SingleProbabilityHypothesis(
        one.prediction,
        one.measurement,
        measurement_prediction=one.measurement_prediction,
        probability=_Probability(log_probability, log_value=True),
    )


def _warn(told: Diagnostics, tol: float, n_tracks: int, n_columns: int) -> None:
    error = error_in_words(told)
    if not told.is_converged:
        error += f", tol={tol:g} not reached"
    warnings.warn(
        f"JPDAwithPermatch: a frame with {n_tracks} tracks and {n_columns - 1} detections "
        "is too crowded for an exact answer within its budget, and was approximated "
        f"({error}). Raise budget, or lower prob_gate of the hypothesiser.",
        RuntimeWarning,
        stacklevel=level_outside(),
    )
