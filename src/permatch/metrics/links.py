"""Links: how many of those found are right, and how many of the right ones are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch.decoding.bayes import ABSTAINED
from permatch.labels import UNKNOWN
from permatch.metrics.matching import check_lists, check_matching, read_labels


@dataclass(frozen=True)
class LinkQuality:
    """Precision and recall of links.

    Attributes
    ----------
    n_true : int
        Links that are known.
    n_found : int
        Links found, where it is known whether they are right.
    n_correct : int
        Those of them that are right.

    Examples
    --------
    >>> from permatch.metrics import LinkQuality
    >>> LinkQuality(n_true=4, n_found=2, n_correct=2).recall
    0.5
    """

    n_true: int
    n_found: int
    n_correct: int

    @property
    def precision(self) -> float:
        """Share of the links found that are right; 1 if none was found."""
        return self.n_correct / self.n_found if self.n_found else 1.0

    @property
    def recall(self) -> float:
        """Share of the true links that were found; 1 if there are none."""
        return self.n_correct / self.n_true if self.n_true else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.n_true + self.n_found
        return 2.0 * self.n_correct / total if total else 1.0


def link_quality(
    true: Sequence[Any], predicted: Sequence[Any], *, graphs: Sequence[Any] | None = None
) -> LinkQuality:
    """Return precision, recall and F1 of links, pooled over graphs.

    Parameters
    ----------
    true, predicted : sequences of matchings
        One integer array per graph: the right node of every left node, -1 if it has none.
        Links of nodes whose true partner is -2, unknown, are left out, unless they are
        known to be wrong: their right node belongs elsewhere.  A predicted -2
        (``pm.ABSTAINED``) is no link.
    graphs : sequence of (n, k, d) arrays or BipartiteGraph, optional
        The graphs; required if `true` has `Known` or `EdgeLabels`.

    Returns
    -------
    LinkQuality
        The counts, and the measures made of them.

    Examples
    --------
    >>> quality = link_quality([[0, 1, -1]], [[0, -1, 2]])
    >>> quality.precision, quality.recall, quality.f1
    (0.5, 0.5, 0.5)
    """
    check_lists(true, predicted)
    labels = read_labels(true, graphs)
    n_true = n_found = n_correct = 0
    for k, answer in enumerate(predicted):
        label = None if labels is None else labels[k]
        known = check_matching(true[k], k, UNKNOWN) if label is None else label.matching
        n_right = None if label is None else label.structure.n_right
        found = check_matching(answer, k, ABSTAINED, len(known), n_right)
        is_link = found >= 0
        is_judged = is_link & ((known != UNKNOWN) | np.isin(found, known[known >= 0]))
        if label is not None:  # of some pairs it is known that they do not match
            left = np.flatnonzero(is_link)
            edges = label.structure.find(left, found[left])
            is_judged[left[edges >= 0]] = ~label.is_open[edges[edges >= 0]]
        n_true += int((known >= 0).sum())
        n_found += int(is_judged.sum())
        n_correct += int((is_link & (known == found)).sum())
    return LinkQuality(n_true, n_found, n_correct)
