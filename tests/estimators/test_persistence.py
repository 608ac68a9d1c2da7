"""Model files: exact, complete or absent, and refused with a reason when they are not."""

import json
import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

import permatch as pm
from permatch.errors import ModelFileError
from permatch.estimators import MAPMatching, MAPMatchingCV, load, save
from permatch.estimators.json_values import decode, encode
from permatch.estimators.persistence import SCHEMA
from tests.estimators import planted


@pytest.fixture
def data(rng):
    return planted(rng, 12, sizes=(3, 4))


@pytest.fixture
def model(data):
    return MAPMatching(alpha=0.1).fit(*data, feature_names=["a", "b", "ü", "d e"])


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model.json")
    return tmp_path / "model.json"


def same_attributes(a, b):
    """Whether two fitted models have equal parameters and fitted attributes, all bits."""
    np.testing.assert_equal(a.get_params(), b.get_params())
    fitted = {name for name in vars(a) if name.endswith("_")}
    assert fitted == {name for name in vars(b) if name.endswith("_")}
    for name in fitted:
        x, y = getattr(a, name), getattr(b, name)
        assert type(x) is type(y)
        np.testing.assert_equal(x, y)


# ---- what survives ---------------------------------------------------------------------


def test_everything_survives(model, path, data):
    again = load(path)
    assert isinstance(again, MAPMatching)
    same_attributes(model, again)
    assert again.coef_.tobytes() == model.coef_.tobytes()
    assert again.log_likelihood(*data) == model.log_likelihood(*data)
    assert again.fit(*data).is_converged_


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_float_survives_to_the_last_bit(values):
    values = np.array(values)
    text = json.dumps(encode(values), allow_nan=False)
    assert decode(json.loads(text)).tobytes() == values.tobytes()


@pytest.mark.parametrize("shape", [(0,), (0, 2, 3), (2, 0), (2, 3), ()])
@pytest.mark.parametrize("dtype", [float, int, bool, np.float32])
def test_arrays_keep_shape_and_type(shape, dtype):
    array = np.ones(shape, dtype=dtype)
    again = decode(json.loads(json.dumps(encode(array), allow_nan=False)))
    assert (again.shape, again.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(again, array)


ENGINES = [
    "glynn",
    pm.Glynn(max_size=12, tol=1e-9),
    pm.SubsetDP(max_size=3 + 4),
    pm.AutoEngine(),
    pm.SmallBatch(max_size=5),
]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_engines_survive_with_their_options(engine, data, tmp_path):
    MAPMatching(engine=engine).fit(*data).save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").engine == engine


BOUNDS = [
    "non-negative",
    (0.0, np.inf),
    (-np.inf, None),
    (np.array([-np.inf, 0.0, 0.0, 0.0]), np.float64(3.0)),
    [0, 1],
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_bounds_survive_infinite_ones_included(bounds, data, tmp_path):
    model = MAPMatching(bounds=bounds).fit(*data)
    model.save(tmp_path / "model.json")
    same_attributes(model, load(tmp_path / "model.json"))


def test_parameters_that_are_not_numbers_survive(model, tmp_path):
    model.set_params(alpha=np.nan, tol=np.float32(0.1), max_iter=np.int64(7))
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert np.isnan(again.alpha)
    assert (again.tol, again.max_iter) == (float(np.float32(0.1)), 7)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_the_path_of_a_cross_validation_survives(data, tmp_path):
    model = MAPMatchingCV(np.geomspace(1e-3, 1, 4), cv=3, random_state=0).fit(*data)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert isinstance(again, MAPMatchingCV)
    same_attributes(model, again)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize(
    "splitter",
    [
        KFold(3, shuffle=True, random_state=1),
        TimeSeriesSplit(3, gap=1),
        ShuffleSplit(2, test_size=0.3),
    ],
    ids=str,
)
def test_splitters_survive_with_their_options(splitter, data, tmp_path):
    MAPMatchingCV([1e-2, 1.0], cv=splitter).fit(*data).save(tmp_path / "model.json")
    assert repr(load(tmp_path / "model.json").cv) == repr(splitter)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_a_list_of_splits_is_not_kept_and_that_is_said(data, tmp_path):
    class Halves(KFold):
        pass

    MAPMatchingCV([1e-2, 1.0], cv=Halves(2)).fit(*data).save(tmp_path / "model.json")
    words = r"cv=Halves\(n_splits=2.*reset to its default"
    with pytest.warns(UserWarning, match=words) as caught:
        assert load(tmp_path / "model.json").cv == 5
    assert [warning.filename for warning in caught] == [__file__]


# ---- the file --------------------------------------------------------------------------


def test_the_file_is_plain_json_that_says_what_it_is(path):
    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert document["format"] == "permatch-model"
    assert document["schema"] == SCHEMA
    assert document["version"] == pm.__version__
    assert document["class"] == "MAPMatching"
    assert document["feature_names"] == ["a", "b", "ü", "d e"]
    assert document["params"]["alpha"] == 0.1
    assert len(document["coef"]) == len(document["scale"]) == document["n_features"] == 4


def test_engines_are_written_by_name_and_options(data, tmp_path):
    MAPMatching(engine=pm.Glynn(tol=1e-9)).fit(*data).save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["params"]["engine"] == {
        "engine": "glynn",
        "options": {"max_size": 30, "tol": 1e-9, "device": "cpu"},
    }


def test_saving_replaces_in_one_step(model, path, monkeypatch):
    before = path.read_bytes()

    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="No space left.*model.json'"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]
    monkeypatch.undo()
    model.set_params(alpha=0.7).save(str(path))
    assert load(str(path)).alpha == 0.7


def test_saving_where_nothing_can_be_saved(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/model.json'"):
        model.save(tmp_path / "nowhere" / "model.json")
    with pytest.raises(OSError, match=str(tmp_path)):
        model.save(tmp_path)
    assert not [p for p in tmp_path.parent.iterdir() if p.name.endswith(".tmp")]


def test_classes_of_others_cannot_be_saved(data, tmp_path):
    class Custom(MAPMatching):
        pass

    with pytest.raises(ModelFileError, match="MAPMatching, .*could not be loaded"):
        save(Custom().fit(*data), tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


# ---- refusals --------------------------------------------------------------------------


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        load("no-such-model.json")


def test_every_truncation_is_refused(path):
    data = path.read_bytes()
    target = path.with_name("cut.json")
    for length in {*range(0, 300, 7), *range(300, len(data) - 2, 97), len(data) - 2}:
        target.write_bytes(data[:length])
        with pytest.raises(ModelFileError, match="cut.json is .*"):
            load(target)
    target.write_bytes(data[: len(data) // 2])
    with pytest.raises(
        ModelFileError, match="truncated or damaged.*Copy it again, or save"
    ):
        load(target)


FOREIGN = {
    "empty": (b"", "is empty, not a model. Copy it again"),
    "text": (b"coef: 1, 2, 3", "not a permatch model: it is not JSON. Use a file"),
    "binary": (bytes(range(256)), "it is not JSON"),
    "pickle": (b"\x80\x04\x95\x10\x00", "it is not JSON"),
    "a list": (b"[1, 2]", "does not say 'permatch-model'"),
    "another object": (b'{"coef": [1.0]}', "does not say 'permatch-model'"),
    "another format": (b'{"format": "sklearn"}', "does not say 'permatch-model'"),
    "deep": (b"[" * 100_000, "it is not JSON"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files(name, tmp_path):
    content, message = FOREIGN[name]
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load(path)


CHANGES = {
    "newer": (
        {"schema": SCHEMA + 1, "version": "9.9"},
        rf"permatch 9.9 with schema {SCHEMA + 1}; this is.*up to {SCHEMA}. Install a newer",
    ),
    "schema text": ({"schema": "1"}, "schema must be a whole number.*got '1'"),
    "schema zero": ({"schema": 0}, "got 0"),
    "no schema": ({"schema": None}, "got None"),
    "unknown class": ({"class": "Forest"}, "class 'Forest', unknown to.*knows MAPMatching"),
    "no class": ({"class": None}, "class None"),
    "dangerous class": ({"class": "os.system"}, "unknown to permatch"),
    "coef too short": ({"coef": [1.0, 2.0]}, "coef must have.*each of the 4.*got 2"),
    "coef too long": ({"coef": [1.0] * 5}, "coef must have.*got 5"),
    "scale too short": ({"scale": [1.0]}, "scale must have.*got 1"),
    "coef text": ({"coef": ["1"] * 4}, "coef must be a list of finite numbers"),
    "coef boolean": ({"coef": [True] * 4}, "coef must be a list"),
    "coef overflow": ({"coef": [10**400] * 4}, "coef must be a list"),
    "coef none": ({"coef": None}, "coef must be a list"),
    "scale zero": ({"scale": [1.0, 0.0, 1.0, 1.0]}, "scale must be above 0"),
    "n_features": ({"n_features": "4"}, "n_features must be a whole number"),
    "names too few": ({"feature_names": ["a"]}, "4 different strings or null"),
    "names twice": ({"feature_names": ["a"] * 4}, "4 different strings"),
    "params none": ({"params": None}, "params must be an object"),
    "unknown param": ({"params": {"depth": 3}}, "MAPMatching has no parameter 'depth'"),
    "bad param": ({"params": {"alpha": {"float": "big"}}}, "value of alpha cannot be read"),
    "unknown engine": (
        {"params": {"engine": {"engine": "gauss", "options": {}}}},
        "value of engine cannot be read",
    ),
    "bad engine option": (
        {"params": {"engine": {"engine": "glynn", "options": {"max_size": -1}}}},
        "value of engine cannot be read",
    ),
    "unknown engine option": (
        {"params": {"engine": {"engine": "glynn", "options": {"speed": 1}}}},
        "value of engine cannot be read",
    ),
    "bad array": (
        {"fitted": {"history_": {"array": [1, 2], "shape": [3], "dtype": "f8"}}},
        "value of history_ cannot be read",
    ),
    "object array": (
        {"fitted": {"history_": {"array": [1], "shape": [1], "dtype": "O"}}},
        "value of history_ cannot be read",
    ),
    "fitted none": ({"fitted": None}, "fitted must be an object"),
    "private attribute": ({"fitted": {"__class__": 1}}, "'__class__' is not the name"),
    "method": (
        {"fitted": {"predict": 1}},
        "'predict' is not the name of a fitted attribute",
    ),
}


def nested(depth):
    """Return lists within lists; 900 of them are JSON, and too many for Python's stack."""
    value = 1.0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("key", ["version", "class", "params", "fitted", "coef", "schema"])
@pytest.mark.parametrize("depth", [65, 900])
def test_values_nested_too_deep(key, depth, path):
    document = json.loads(path.read_text())
    value = nested(depth)
    document[key] = {"alpha": value} if key in ("params", "fitted") else value
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="is damaged: .* nested at most 64 deep. Copy"):
        load(path)


def test_nesting_beyond_what_json_reads(path):
    path.write_text('{"format": "permatch-model", "coef": ' + "[" * 10**6)
    with pytest.raises(ModelFileError, match="a truncated or damaged permatch model"):
        load(path)


@pytest.mark.parametrize("name", CHANGES)
def test_changed_files(name, path):
    changes, message = CHANGES[name]
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changes}))
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_nan_among_the_coefficients(path):
    text = path.read_text()
    document = json.loads(text)
    document["coef"][0] = float("nan")
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="NaN is not JSON"):
        load(path)


def test_an_older_file_may_lack_parameters(path):
    document = json.loads(path.read_text())
    document["params"] = {"alpha": 3.0}
    document["version"] = "0.0.1"
    path.write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(path).get_params() == {**MAPMatching(3.0).get_params()}
