"""Fitted models as JSON files: readable, exact to the last bit, never code.

    {"format": "permatch-model", "schema": 1, "version": ..., "class": "MAPMatching",
     "params": {...}, "n_features": d, "feature_names": [...] or null,
     "coef": [...], "scale": [...], "fitted": {...}}

A pipeline of scikit-learn that prepares features for a ranker has its steps instead:

    {"format": "permatch-model", "schema": 1, "version": ..., "class": "Pipeline",
     "steps": [{"name": ..., "class": "FeaturePreparation", ...}, {"name": ..., ...}]}

Values are written as `json_values` says.  Those of a class of their own, such as a
`Posterior`, are named in `BaseModel._objects` and written as their ``to_json`` says.
"""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from sklearn.pipeline import Pipeline

from permatch._estimators import ESTIMATORS
from permatch._files import Gauge, whole_file
from permatch._version import __version__
from permatch.errors import ModelFileError, PermatchError
from permatch.estimators.convergence import warn_caller
from permatch.estimators.json_values import (
    MOST_DEPTH,
    decode,
    depth,
    encode,
    refuse_constant,
)
from permatch.estimators.pipelines import split_pipeline

FORMAT = "permatch-model"
SCHEMA = 1
PIPELINE = "Pipeline"

# Attributes stored separately in every file; linear models have more.
_NAMED = ("feature_names_", "n_features_in_")


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model, or a pipeline that prepares features for one, to a JSON file.

    Parameters
    ----------
    model : fitted estimator
        One of permatch's own, or a scikit-learn `Pipeline` of a `FeaturePreparation` and a
        ranker.
    path : str or path
        An existing file is replaced, never left half-written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import permatch as pm
    >>> graphs = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    >>> model = pm.MAPMatching().fit(graphs, [[0, 1, 2]] * 4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.json")
    ...     pm.save(model, path)  # the same as model.save(path)
    ...     again = pm.load(path)
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    if isinstance(model, Pipeline):
        split_pipeline(model)
        steps = [{"name": name} | _describe(step) for name, step in model.steps]
        content = {"class": PIPELINE, "steps": steps}
    else:
        content = _describe(model)
    head = {"format": FORMAT, "schema": SCHEMA, "version": __version__}
    text = json.dumps(head | content, allow_nan=False, indent=1) + "\n"
    with whole_file(path) as file:
        file.write(text)


def _describe(model: Any) -> dict[str, Any]:
    """Return the class of a model, its parameters and what it has learned."""
    kind = type(model)
    listed = ESTIMATORS.get(kind.__name__)
    if listed is None or listed.home != kind.__module__:
        raise ModelFileError(
            f"a model to save must be one of {', '.join(ESTIMATORS)}; got "
            f"{kind.__module__}.{kind.__qualname__}, which could not be loaded."
        )
    model._check_fitted()
    fitted = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name not in _named(kind):
            # What cannot be written is not essential.
            with suppress(TypeError):
                is_object = name in kind._objects
                fitted[name] = value.to_json() if is_object else encode(value)
    return {
        "class": kind.__name__,
        "params": {
            name: _encode_param(value)
            for name, value in model.get_params(deep=False).items()
        },
        "n_features": int(model.n_features_in_),
        "feature_names": model.feature_names_,
        **{name: getattr(model, f"{name}_").tolist() for name in kind._by_feature},
        "fitted": fitted,
    }


def _encode_param(value: Any) -> Any:
    try:
        return encode(value)
    except TypeError:  # a splitter, say: it took part in the fit, not in the model
        return {"repr": repr(value)}


def load(path: str | PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read a fitted model, or a pipeline, from a file written by `save`.

    Parameters
    ----------
    path : str or path
        The JSON file.
    max_bytes : int, optional
        Largest file accepted, in bytes; default: 1 GiB.

    Returns
    -------
    fitted estimator
        The saved model or `Pipeline`, with the same coefficients to the last bit.

    Raises
    ------
    ModelFileError
        If the file is damaged, not a model file, or written by a newer version.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> load("no-such-file.json")
    Traceback (most recent call last):
        ...
    FileNotFoundError: ...
    """
    return _Reader(Path(path), max_bytes).read()


# ---- reading -----------------------------------------------------------------------------


class _Reader:
    """Reads one file and reports what is wrong with it."""

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self.path = path
        self.max_bytes = max_bytes

    def read(self) -> Any:
        document = self._document()
        if document.get("class") == PIPELINE:
            return self._pipeline(document)
        return self._model(document)

    def _pipeline(self, document: dict[str, Any]) -> Pipeline:
        steps = document.get("steps")
        if not isinstance(steps, list) or not all(isinstance(s, dict) for s in steps):
            self._damaged("steps must be a list of objects")
        names = [step.get("name") for step in steps]
        if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
            self._damaged("steps must have different names")
        version = document.get("version")
        models = [self._model(step | {"version": version}) for step in steps]
        pipeline = Pipeline(list(zip(names, models, strict=True)))
        try:
            split_pipeline(pipeline)
        except ModelFileError as err:
            self._damaged(str(err))
        return pipeline

    def _model(self, document: dict[str, Any]) -> Any:
        kind = self._kind(document)
        features = self._features(document, kind)
        model = kind(**self._params(document, kind))
        vars(model).update(self._fitted(document, kind) | features)
        try:
            model._check_loaded()
        except (ValueError, AttributeError) as err:
            self._damaged(str(err))
        return model

    def _fail(self, what: str, remedy: str) -> NoReturn:
        raise ModelFileError(f"{self.path} {what}. {remedy}")

    def _damaged(self, what: str) -> NoReturn:
        self._fail(f"is damaged: {what}", "Copy it again, or save the model again.")

    def _document(self) -> dict[str, Any]:
        foreign = (
            "Use a file written by permatch.save or the save method of a model, or by "
            "permatch match fit or permatch rank fit."
        )
        with self.path.open("rb") as file:
            data = Gauge(str(self.path), ModelFileError, self.max_bytes).whole(file)
        if not data:
            self._fail("is empty, not a model", "Copy it again, or save the model again.")
        try:
            document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
        except (ValueError, RecursionError) as err:
            if f'"{FORMAT}"'.encode() in data[:200]:
                self._fail(
                    f"is a truncated or damaged permatch model ({err})",
                    "Copy it again, or save the model again.",
                )
            self._fail("is not a permatch model: it is not JSON", foreign)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            self._fail(f"is not a permatch model: it does not say {FORMAT!r}", foreign)
        if depth(document) > MOST_DEPTH:
            self._damaged(f"values must be nested at most {MOST_DEPTH} deep")
        schema = document.get("schema")
        if type(schema) is not int or schema < 1:
            self._damaged(f"schema must be a whole number of at least 1, got {schema!r}")
        if schema > SCHEMA:
            self._fail(
                f"was written by permatch {document.get('version')} with schema {schema}; "
                f"this is permatch {__version__}, which reads schemas up to {SCHEMA}",
                "Install a newer permatch.",
            )
        return document

    def _kind(self, document: dict[str, Any]) -> type[Any]:
        name = document.get("class")
        if not isinstance(name, str) or name not in ESTIMATORS:
            self._fail(
                f"has a model of class {name!r}, unknown to permatch {__version__}, "
                f"which knows {', '.join(ESTIMATORS)}",
                "Use the version it was written with, "
                f"{document.get('version')}, or a later one.",
            )
        return ESTIMATORS[name].load()

    def _features(self, document: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
        """Return the attributes about features."""
        n_features = document.get("n_features")
        if type(n_features) is not int or n_features < 0:
            self._damaged(f"n_features must be a whole number, got {n_features!r}")
        found: dict[str, Any] = {"n_features_in_": n_features}
        for key in kind._by_feature:
            values = document.get(key)
            if not isinstance(values, list) or not all(map(_is_finite, values)):
                self._damaged(f"{key} must be a list of finite numbers")
            if len(values) != n_features:
                self._damaged(
                    f"{key} must have one number for each of the {n_features} features, "
                    f"got {len(values)}"
                )
            found[f"{key}_"] = np.array(values, dtype=np.float64)
        if "scale_" in found and not (found["scale_"] > 0).all():
            self._damaged("scale must be above 0")
        names = document.get("feature_names")
        if names is not None and not (
            isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and len(set(names)) == len(names) == n_features
        ):
            self._damaged(f"feature_names must be {n_features} different strings or null")
        return found | {"feature_names_": names}

    def _params(self, document: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
        encoded = document.get("params")
        if not isinstance(encoded, dict):
            self._damaged("params must be an object")
        unknown = set(encoded).difference(signature(kind).parameters)
        if unknown:
            self._damaged(f"{kind.__name__} has no parameter {sorted(unknown)[0]!r}")
        params = {}
        for name, value in encoded.items():
            if isinstance(value, dict) and "repr" in value:
                warn_caller(
                    f"the parameter {name}={value['repr']} of the model in {self.path} "
                    "cannot be saved and is reset to its default; set it before fitting "
                    "the model again."
                )
                continue
            params[name] = self._value(name, value, decode)
        return params

    def _fitted(self, document: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
        encoded = document.get("fitted")
        if not isinstance(encoded, dict):
            self._damaged("fitted must be an object")
        for name in encoded:
            is_attribute = name.isidentifier() and name.endswith("_")
            if not is_attribute or name.startswith("_") or name in _named(kind):
                self._damaged(f"{name!r} is not the name of a fitted attribute")
        readers = {name: own.from_json for name, own in kind._objects.items()}
        return {
            name: self._value(name, value, readers.get(name, decode))
            for name, value in encoded.items()
        }

    def _value(self, name: str, value: Any, read: Callable[[Any], Any]) -> Any:
        try:
            return read(value)
        except (ValueError, TypeError, KeyError, OverflowError, PermatchError) as err:
            self._damaged(f"the value of {name} cannot be read ({err})")


def _named(kind: type[Any]) -> tuple[str, ...]:
    """Return the attributes stored separately in the file."""
    return (*_NAMED, *(f"{name}_" for name in kind._by_feature))


def _is_finite(value: Any) -> bool:
    if type(value) not in (int, float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
