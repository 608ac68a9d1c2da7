"""Measures as values: printed, compared, read from text, several on one sorted list."""

import copy
import pickle

import numpy as np
import pytest

from permatch import metrics
from permatch.errors import InvalidOptionError
from permatch.metrics import (
    ERR,
    MAP,
    MRR,
    NDCG,
    MeanNDCG,
    P,
    Tau,
    evaluate,
    find_measure,
    find_measures,
)
from permatch.metrics.measures import MEASURES

PRINTED = {
    "NDCG@10": NDCG(),
    "NDCG@3": NDCG @ 3,
    'NDCG(discount="letor")@10': NDCG(discount="letor") @ 10,
    'NDCG(ties="expected", no_relevant=nan, gain="linear")@None': NDCG(
        gain="linear", ties="expected", no_relevant=np.nan
    )
    @ None,
    "MeanNDCG@10": MeanNDCG(),
    "MAP": MAP(),
    "MAP(threshold=2)": MAP(threshold=2),
    "P(threshold=2)@5": P(threshold=2) @ 5,
    "ERR(max_grade=4)@10": ERR(max_grade=4),
    "MRR": MRR(),
    "MRR@10": MRR @ 10,
    "Tau": Tau(),
    "Tau(undefined=0.0)": Tau(undefined=0),
}
LETOR = NDCG(discount="letor", ties="expected")
Y, SCORE, QID = [2, 0, 1, 0, 1], [0.1, 0.5, 0.3, 0.2, 0.2], [1, 1, 1, 2, 2]


@pytest.mark.parametrize("text", PRINTED)
def test_a_measure_prints_as_typed_and_is_read_back(text):
    measure = PRINTED[text]
    assert str(measure) == repr(measure) == text
    assert find_measure(text) == measure
    assert eval(text.replace("@", " @ "), vars(metrics) | {"nan": np.nan}) in (
        measure,
        type(measure),  # a class without options stands for its defaults
    )


@pytest.mark.parametrize("text", PRINTED)
def test_equal_measures_are_one_key(text):
    measure = PRINTED[text]
    for other in (pickle.loads(pickle.dumps(measure)), copy.deepcopy(measure)):
        assert other == measure
        assert {measure: 1}[other] == 1
    assert len(set(PRINTED.values())) == len(PRINTED)
    assert NDCG() != MeanNDCG()


def test_a_measure_does_not_change():
    with pytest.raises(AttributeError):
        NDCG().k = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("ndcg@10", NDCG @ 10),
        ("map", MAP()),
        ("mean_ndcg", MeanNDCG @ 10),
        (" ndcg ( discount = letor , ties='expected' ) @ 5 ", LETOR @ 5),
        ("NDCG(k=7)", NDCG @ 7),
        ("MRR@None", MRR()),
    ],
)  # fmt: skip
def test_other_spellings(text, measure):
    assert find_measure(text) == measure


def test_classes_and_measures_stand_for_themselves():
    assert find_measure(MAP) == MAP()
    assert find_measure(NDCG @ 3) == NDCG @ 3
    assert find_measures([MAP, "p@2", MAP()]) == [MAP(), P @ 2]


def test_lists_of_measures():
    letor = NDCG(discount="letor", gain="linear")
    assert find_measures("NDCG(discount=letor, gain=linear)@1,3, 5,MAP,P@1,2") == [
        letor @ 1, letor @ 3, letor @ 5, MAP(), P @ 1, P @ 2
    ]  # fmt: skip
    with pytest.raises(InvalidOptionError, match="MAP measures whole lists; got @ 3"):
        find_measures("MAP,3")


BAD = {
    "nDCF@10": f"a measure must be one of {', '.join(MEASURES)}.*got 'nDCF@10'",
    "NDCG@": "such as NDCG.discount",
    "": "a measure must be one of",
    "NDCG(letor)@10": "options of NDCG are k, ties, no_relevant, discount, gain.*'letor'",
    "NDCG(threshold=1)": "options of NDCG are.*got 'threshold=1'",
    "NDCG(discount=log)@10": "'paper', 'letor'; got 'log'",
    "NDCG@0": "k must be a whole number of at least 1, got 0",
    "NDCG@1.5": "a measure must be one of",
    "NDCG@x": "k must be a whole number of at least 1, got 'x'",
    "MAP@3": "measures whole lists; got @ 3",
    "MAP(no_relevant=x)": "no_relevant must be a number; got 'x'",
    "P(threshold=0)": "threshold must be a whole number of at least 1, got 0",
}


@pytest.mark.parametrize("text", BAD)
def test_text_that_is_no_measure(text):
    with pytest.raises(InvalidOptionError, match=BAD[text]):
        find_measure(text)


def test_what_is_neither_text_nor_measure():
    with pytest.raises(InvalidOptionError, match="got 10"):
        find_measure(10)  # pyright: ignore[reportArgumentType]


def test_several_measures_are_what_each_is_alone(monkeypatch):
    from permatch.metrics import ranking

    measures = [measure for text, measure in PRINTED.items() if "max_grade" not in text]
    expected = {measure: measure(Y, SCORE, QID) for measure in measures}
    n_sorts = []
    rank = ranking.rank_lists
    monkeypatch.setattr(ranking, "rank_lists", lambda *a: n_sorts.append(1) or rank(*a))
    assert evaluate(measures, Y, SCORE, QID) == expected
    assert len(n_sorts) == 1
    found = evaluate("NDCG@1,3", Y, SCORE, group=[3, 2], per_query=True)
    assert list(map(str, found)) == ["NDCG@1", "NDCG@3"]
    np.testing.assert_array_equal(
        np.stack(list(found.values()), axis=1),
        metrics.ndcg(Y, SCORE, QID, [1, 3], per_query=True),
    )


def test_mean_ndcg_is_the_mean_of_its_cuts():
    values = metrics.ndcg(Y, SCORE, QID, range(1, 5), discount="letor")
    assert (MeanNDCG(discount="letor") @ 4)(Y, SCORE, QID) == values.mean()
