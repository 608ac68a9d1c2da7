"""C-CRF-style: a Gaussian over the grades of a whole list, tied by document similarity.

    p(y | x) proportional to exp( - sum_k alpha_k sum_i (y_i - x_ik)^2
                                  - beta/2 sum_ij S_ij (y_i - y_j)^2 )

with all alpha and beta above 0.  With a = sum_k alpha_k and the graph Laplacian L of the
similarities S this is a Gaussian of precision 2 A, ``A = a I + beta L``, and mean

    A^-1 X alpha,

by which a list is ranked.  The logarithms of alpha and beta maximise the likelihood of the
grades.  With L = U diag(l) U', e = a + beta l, t = U'y and m = U'X alpha, a list has

    - log p = sum_i [ e_i (t_i - m_i / e_i)^2 - 1/2 log(e_i / pi) ],

O(D d) after one decomposition.

References
----------
T. Qin, T.-Y. Liu, X.-D. Zhang, D.-S. Wang and H. Li, "Global ranking using continuous
conditional random fields", NIPS 2008.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.checks import check_number
from permatch.optimizers import minimize
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival

# Logarithms of alpha and beta stay within this: a feature without use has no best value.
_LARGEST_LOG = 15.0


class Potentials(NamedTuple):
    """The fitted parameters."""

    alpha: FloatArray  # one per feature, (d,)
    beta: float


@dataclass(eq=False, repr=False, kw_only=True)
class CCRF(Rival):
    """Learn how much grades follow features, and how much those of similar documents.

    Parameters
    ----------
    similarity : mapping from query id to array of shape (D, D)
        The similarities of the documents of every query, of training and new ones, in the
        order of their rows: symmetric and at least 0.
    tol : float
        Largest entry of the gradient to reach.
    max_iter : int
        Steps at most.
    n_rounds, qid, scaling, verbose
        As in `Rival`; there is a single round.

    Attributes
    ----------
    members_ : list of one Potentials
        The fitted parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> kinds = y.reshape(5, 8) > 0
    >>> alike = {k: np.equal.outer(kind, kind) for k, kind in enumerate(kinds)}
    >>> model = CCRF(similarity=alike).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    similarity: Mapping[Any, Any] | None = None
    tol: float = 1e-6
    max_iter: int = 500
    n_rounds: int = 1

    def _learn(self, queries: QuerySet) -> Iterator[Potentials]:
        rows = QueryRows(queries.starts, queries.ids, None)
        shares = queries.weights / queries.weights.sum()
        grades = queries.grades.astype(np.float64)
        spectra = [
            Spectrum.of(laplacian, queries.documents[own], grades[own], share)
            for (own, laplacian), share in zip(self._laplacians(rows), shares, strict=True)
        ]
        start = np.zeros(queries.n_features + 1)
        edge = np.full_like(start, _LARGEST_LOG)
        found = minimize(
            lambda logs: value_and_grad(logs, spectra),
            start,
            bounds=(-edge, edge),
            tol=check_number(self.tol, "tol", is_zero_allowed=False),
            max_iter=check_count(self.max_iter, "max_iter", 1),
        )
        yield Potentials(np.exp(found.coef[:-1]), float(np.exp(found.coef[-1])))

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        for alpha, beta in self.members_:
            scores = documents @ alpha
            for own, laplacian in self._laplacians(rows):
                precision = alpha.sum() * np.eye(len(laplacian)) + beta * laplacian
                scores[own] = np.linalg.solve(precision, scores[own])
            yield scores

    def _laplacians(self, rows: QueryRows) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows and the graph Laplacian of every query."""
        if self.similarity is None:
            raise InvalidOptionError(
                "C-CRF requires the similarities of documents, one matrix per query; got "
                "none. Give similarity={query id: matrix}, or use another ranker: without "
                "them this is no more than regression with positive weights."
            )
        ends = zip(rows.ids.tolist(), rows.starts[:-1], rows.starts[1:], strict=True)
        for query, first, last in ends:
            if query not in self.similarity:
                raise InvalidQueriesError(
                    "similarity must have a matrix for every query; got none for query "
                    f"{query!r}. Add it, or leave the query out."
                )
            matrix = check_similarity(self.similarity[query], query, last - first)
            yield slice(first, last), np.diag(matrix.sum(axis=1)) - matrix


class Spectrum(NamedTuple):
    """One list in the basis of its graph Laplacian: l, U'X, U'y and its weight."""

    levels: FloatArray  # (n,)
    documents: FloatArray  # (n, d)
    grades: FloatArray  # (n,)
    weight: float

    @classmethod
    def of(
        cls, laplacian: FloatArray, documents: FloatArray, grades: FloatArray, weight: float
    ) -> "Spectrum":
        """Decompose a list."""
        levels, basis = np.linalg.eigh(laplacian)
        # None is below 0 but by rounding.
        levels = np.maximum(levels, 0.0)
        return cls(levels, basis.T @ documents, basis.T @ grades, weight)


def value_and_grad(
    logs: FloatArray, spectra: Sequence[Spectrum]
) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood of lists, and its gradient.

    Parameters
    ----------
    logs : ndarray of shape (d + 1,)
        Logarithms of alpha and, last, of beta.
    spectra : sequence of Spectrum
        The lists; their weights multiply their log-likelihoods.
    """
    alpha, beta = np.exp(logs[:-1]), np.exp(logs[-1])
    value, grad = 0.0, np.zeros_like(logs)
    for levels, documents, grades, weight in spectra:
        precisions = alpha.sum() + beta * levels
        pulls = documents @ alpha
        residuals = grades - pulls / precisions
        value += weight * float(precisions @ residuals**2)
        value -= 0.5 * weight * float(np.log(precisions / np.pi).sum())
        slope = grades**2 - (pulls / precisions) ** 2 - 0.5 / precisions
        grad[:-1] += weight * (slope.sum() - 2.0 * residuals @ documents)
        grad[-1] += weight * float(slope @ levels)
    return value, grad * np.append(alpha, beta)


def check_similarity(matrix: Any, query: Any, n_documents: int) -> FloatArray:
    """Return the similarities of a query as float64."""
    required = (
        f"the similarities of query {query!r} must be a symmetric array of shape "
        f"({n_documents}, {n_documents}) of finite numbers of at least 0"
    )
    try:
        found = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidQueriesError(f"{required}; {err}. Check the matrix.") from err
    if found.shape != (n_documents, n_documents):
        raise InvalidQueriesError(
            f"{required}; got shape {found.shape}. Give one row and one column per "
            "document, in the order of the documents."
        )
    if not (np.isfinite(found) & (found >= 0.0)).all():
        raise InvalidQueriesError(
            f"{required}; got values from {found.min():g} to {found.max():g}. Use 0 for "
            "what is not alike."
        )
    if not np.allclose(found, found.T):
        raise InvalidQueriesError(
            f"{required}; this one is not symmetric. Use the mean of it and its transpose."
        )
    return found
