"""Values that plain JSON cannot hold, as objects with reserved keys.

``{"float": "inf"}``, ``{"tuple": [...]}``, ``{"dict": {...}}``, ``{"engine": "glynn",
"options": {...}}``, ``{"splitter": "TimeSeriesSplit", "options": {...}}`` and ``{"array":
[...], "shape": [...], "dtype": "float64"}``.  Numbers are written with the digits that read
back to the same float64.
"""

import math
from dataclasses import asdict
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from permatch.inference import ENGINES
from permatch.metrics import Measure

#: Far deeper than any document, and far from Python's limit.
MOST_DEPTH = 64

# Splitters of scikit-learn whose options are plain values.
_SPLITTERS = ("GroupKFold", "GroupShuffleSplit", "KFold", "ShuffleSplit", "TimeSeriesSplit")

# Arrays of numbers and truth values, nothing else.
_ARRAY_KINDS = "fiub"


def encode(value: Any) -> Any:
    """Return a value in a form that JSON supports; TypeError if there is none."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Measure):
        return str(value)
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item) for key, item in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {
            "array": encode(value.ravel().tolist()),
            "shape": list(value.shape),
            "dtype": value.dtype.name,
        }
    if type(value) in ENGINES.values():
        return _encode_engine(value)
    if type(value).__name__ in _SPLITTERS and type(value) is _splitter(
        type(value).__name__
    ):
        options = {name: getattr(value, name) for name in signature(type(value)).parameters}
        plain = {name: encode(option) for name, option in options.items()}
        return {"splitter": type(value).__name__, "options": plain}
    raise TypeError(f"{type(value).__name__} cannot be written")


def _splitter(name: str) -> Any:
    from sklearn import model_selection

    return getattr(model_selection, name)


def _encode_engine(engine: Any) -> dict[str, Any]:
    """Return an engine as its name and options."""
    options = {key: encode(item) for key, item in asdict(engine).items()}
    return {"engine": engine.name, "options": options}


def decode(value: Any) -> Any:
    """Return what `encode` was given; ValueError, TypeError or KeyError if it was not."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"float": "inf" | "-inf" | "nan" as text}:
            return float(text)
        case {"tuple": list(items)}:
            return tuple(decode(item) for item in items)
        case {"dict": dict(items)}:
            return {key: decode(item) for key, item in items.items()}
        case {"array": list(items), "shape": list(shape), "dtype": str(name)}:
            dtype = np.dtype(name)
            if dtype.kind not in _ARRAY_KINDS:
                raise ValueError(f"an array of {name} is not allowed")
            return np.array(decode(items), dtype=dtype).reshape(shape)
        case {"engine": str(name), "options": dict(options)}:
            return ENGINES[name](**{key: decode(item) for key, item in options.items()})
        case {"splitter": str(name), "options": dict(options)} if name in _SPLITTERS:
            plain = {key: decode(item) for key, item in options.items()}
            return _splitter(name)(**plain)
    raise ValueError(f"{value!r} is not understood")


def depth(value: Any) -> int:
    """Return how deep lists and objects are nested, without recursion."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def refuse_constant(text: str) -> NoReturn:
    """Refuse what Python reads as JSON but is not: NaN and infinities."""
    raise ValueError(f"{text} is not JSON")
