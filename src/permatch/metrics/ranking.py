"""Several measures at once, measures by name, and short forms."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from permatch.errors import InvalidOptionError
from permatch.metrics.base import Measure, means
from permatch.metrics.lists import rank_lists
from permatch.metrics.measures import ERR, MAP, MEASURES, MRR, NDCG, P, Tau

_SHAPE = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\w+))?\s*")
_OPTION = re.compile(r"\s*(\w+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\"'=\s]+))\s*")
_COMMA = re.compile(r",(?![^(]*\))")

#: A measure, its class, or its text.
MeasureLike = Measure | type[Measure] | str
#: A position to cut lists at, None for whole lists, or several of these.
Cut = int | None | Sequence[int | None]


def evaluate(
    measures: str | Iterable[MeasureLike],
    y: Any,
    score: Any,
    qid: Any = None,
    *,
    group: Any = None,
    per_query: bool = False,
) -> dict[Measure, Any]:
    """Compute several measures of the same lists, sorting them once.

    Parameters
    ----------
    measures : sequence of measures, or str
        Such as ``[NDCG @ 10, MAP]`` or ``"NDCG@1,5,10, MAP"``.
    y : array of shape (n,)
        Grades: whole numbers from 0 (not relevant), the best highest.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; default: one query.
    group : array of shape (q,), optional
        Instead of `qid`: the number of consecutive rows of each query.
    per_query : bool
        Return one value per query, in the order of their first rows.

    Returns
    -------
    dict
        By measure: the mean over queries, or with `per_query` an array of shape (q,).

    Examples
    --------
    >>> from permatch.metrics import MAP, MRR, NDCG
    >>> evaluate([NDCG @ 1, MRR, MAP(threshold=2)], [2, 0, 1], [0.1, 0.5, 0.3])
    {NDCG@1: 0.0, MRR: 0.5, MAP(threshold=2): 0.3333333333333333}
    """
    chosen = find_measures(measures)
    lists = rank_lists(y, score, qid, group)
    return {measure: measure.of(lists, per_query=per_query) for measure in chosen}


def find_measure(measure: MeasureLike) -> Measure:
    """Return a measure given as text, class or instance.

    Text is read regardless of case and of quotation marks around words.

    Parameters
    ----------
    measure : Measure, its class or str
        Such as ``"NDCG(discount=letor)@5"``.

    Examples
    --------
    >>> find_measure("ndcg(discount=letor)@5")
    NDCG(discount="letor")@5
    """
    if isinstance(measure, Measure):
        return measure
    if isinstance(measure, type) and measure in MEASURES.values():
        return measure()
    found = _SHAPE.fullmatch(measure) if isinstance(measure, str) else None
    known = {name.lower(): kind for name, kind in MEASURES.items()}
    if found is None or (kind := known.get(found[1].lower().replace("_", ""))) is None:
        raise InvalidOptionError(
            f"a measure must be one of {', '.join(MEASURES)}, with options in parentheses "
            "and a "
            f'position after @, such as NDCG(discount="letor")@10; got {measure!r}.'
        )
    options = {}
    for text in found[2].split(",") if found[2] else []:
        option = _OPTION.fullmatch(text)
        names = [field.name for field in fields(kind)]
        if option is None or option[1] not in names:
            raise InvalidOptionError(
                f"the options of {kind.__name__} are {', '.join(names)}, written as "
                f"name=value; got {text.strip()!r}."
            )
        options[option[1]] = option[2] or option[3] or _value(option[4] or "")
    chosen = kind(**options)
    return chosen if found[3] is None else chosen @ _value(found[3])


def find_measures(measures: str | Iterable[MeasureLike]) -> list[Measure]:
    """Return measures given as a list, or as text such as ``"NDCG@1,5,10, MAP"``.

    Parameters
    ----------
    measures : sequence of measures, or str
        In text, a position alone repeats the measure before it.

    Examples
    --------
    >>> find_measures("NDCG@1,5, P(threshold=2)@3, MAP")
    [NDCG@1, NDCG@5, P(threshold=2)@3, MAP]
    """
    if not isinstance(measures, str):
        return list(dict.fromkeys(map(find_measure, measures)))
    found: list[Measure] = []
    for text in _COMMA.split(measures):
        k = _value(text.strip())
        is_position = bool(found) and isinstance(k, int)
        found.append(found[-1] @ k if is_position else find_measure(text))
    return list(dict.fromkeys(found))


def _value(text: str) -> Any:
    """Return a word as None, a number, or itself."""
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def ndcg(y: Any, score: Any, qid: Any = None, k: Cut = 10, **options: Any) -> Any:
    """Return the normalised discounted cumulative gain: short for ``NDCG(...) @ k``.

    Parameters
    ----------
    y : array of shape (n,)
        Grades: whole numbers from 0 (not relevant), the best highest.
    score : array of shape (n,)
        Predicted scores; the highest comes first.
    qid : array of shape (n,), optional
        The query of every document, in any order; default: one query.
    k : int, None or sequence of them
        How many documents count; None for all.
    **options
        Those of `NDCG` (`discount`, `gain`, `ties`, `no_relevant`); `group` and `per_query`
        of `evaluate`.

    Returns
    -------
    float or ndarray
        The mean over queries, one per entry of a sequence `k`; with `per_query` an array of
        shape (q,) or (q, len(k)).

    Examples
    --------
    >>> ndcg([2, 0, 1], [0.1, 0.5, 0.3], k=[1, 3]).round(4)
    array([0.    , 0.5869])
    """
    return _measure(NDCG, k, y, score, qid, **options)


def precision_at(y: Any, score: Any, qid: Any = None, k: Cut = 10, **options: Any) -> Any:
    """Return the share of relevant documents among the first `k`: ``P(...) @ k``.

    The parameters are those of `ndcg`, the options those of `P`.

    Examples
    --------
    >>> precision_at([2, 0, 1], [0.1, 0.5, 0.3], k=2)
    0.5
    """
    return _measure(P, k, y, score, qid, **options)


def average_precision(y: Any, score: Any, qid: Any = None, **options: Any) -> Any:
    """Return the mean average precision: short for ``MAP(...)``.

    The parameters are those of `ndcg` without `k`, the options those of `MAP`.

    Examples
    --------
    >>> round(average_precision([2, 0, 1], [0.1, 0.5, 0.3]), 4)
    0.5833
    """
    return _measure(MAP, None, y, score, qid, **options)


def reciprocal_rank(
    y: Any, score: Any, qid: Any = None, k: Cut = None, **options: Any
) -> Any:
    """Return one over the position of the first relevant document: ``MRR(...) @ k``.

    The parameters are those of `ndcg`, the options those of `MRR`.

    Examples
    --------
    >>> reciprocal_rank([2, 0, 1], [0.1, 0.5, 0.3])
    0.5
    """
    return _measure(MRR, k, y, score, qid, **options)


def expected_reciprocal_rank(
    y: Any, score: Any, qid: Any = None, k: Cut = 10, **options: Any
) -> Any:
    """Return the mean of one over the position where a reader stops: ``ERR(...) @ k``.

    The parameters are those of `ndcg`, the options those of `ERR`.

    Examples
    --------
    >>> expected_reciprocal_rank([2, 0, 1], [0.1, 0.5, 0.3])
    0.3125
    """
    return _measure(ERR, k, y, score, qid, **options)


def kendall_tau(y: Any, score: Any, qid: Any = None, **options: Any) -> Any:
    """Return Kendall's tau-b between scores and grades: short for ``Tau(...)``.

    The parameters are those of `ndcg` without `k`, the options those of `Tau`.

    Examples
    --------
    >>> kendall_tau([2, 0, 1], [0.1, 0.5, 0.3])
    -1.0
    """
    return _measure(Tau, None, y, score, qid, **options)


def _measure(
    kind: type[Measure],
    k: Any,
    y: Any,
    score: Any,
    qid: Any,
    group: Any = None,
    per_query: bool = False,
    **options: Any,
) -> Any:
    """Return a measure of whole lists, at one position, or in columns at several."""
    measure = kind(**options)
    cuts: Any = k
    if not hasattr(measure, "k"):
        return measure(y, score, qid, group=group, per_query=per_query)
    if isinstance(k, str) or not hasattr(k, "__iter__"):
        return (measure @ cuts)(y, score, qid, group=group, per_query=per_query)
    measures = [measure @ cut for cut in cuts]
    if not measures:
        raise InvalidOptionError("k must have at least one position to cut at; got none.")
    lists = rank_lists(y, score, qid, group)
    values = np.column_stack([one.of(lists, per_query=True) for one in measures])
    return values if per_query else means(values)
