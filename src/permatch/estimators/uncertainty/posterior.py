"""What is known about the coefficients of a fitted model: estimates and covariance."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import stats

from permatch._files import Gauge, whole_file
from permatch._types import BoolArray, FloatArray, Seed
from permatch._validation import check_count, check_rng
from permatch._version import __version__
from permatch.errors import InvalidOptionError, ModelFileError
from permatch.estimators.checks import check_number
from permatch.estimators.json_values import (
    MOST_DEPTH,
    decode,
    depth,
    encode,
    refuse_constant,
)
from permatch.estimators.uncertainty.summary import Summary, summarise

FORMAT, SCHEMA = "permatch-posterior", 1

# Added to correlations that are singular.
_RIDGE = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """The estimated coefficients of a model and how sure they are.

    Made by `MAPMatching.inference` and `RankMatch.inference`.  The distribution is normal,
    in the units of the features.  With a penalty it is a posterior, the penalty being the
    logarithm of the prior; intervals are posterior intervals, and there are no p-values.
    Without one, intervals are confidence intervals, and there are Wald tests.

    Attributes
    ----------
    names : tuple of str
        Name of every parameter: features of edges or documents, then features of left and
        right nodes and the intercept of staying unmatched, where the model has them.
    params : ndarray of shape (p,)
        The estimates.
    covariance : ndarray of shape (p, p)
        Their covariance; 0 for parameters at a bound.
    is_fixed : ndarray of shape (p,)
        Whether the parameter is at a bound, and the others are judged given that.
    cov_type : {"sandwich", "laplace"}
        How the covariance was found.
    model : str
        Class of the model.
    units : str
        What the likelihood is a product over: "graphs", "components" (of a single graph) or
        "queries".
    nobs : float
        Their number, or the sum of their weights.
    n_clusters : int
        Number of clusters that are independent of each other.
    penalty : float
        Strength of the penalty, `alpha` of the model.
    llf : float
        Log-likelihood, summed over graphs or queries.
    has_likelihood : bool
        Whether it is one: of pairs or subsets of documents, which overlap, it is a
        composite log-likelihood.
    log_evidence : float
        Laplace's approximation of the logarithm of the probability of the data, the
        coefficients integrated out; NaN without a penalty, or where there is no likelihood.
    hessian_method : str
        How second derivatives were found: "exact" for rankings; for matchings those of
        `permatch.inference.tangents`, or differences where inference is approximate.
    notes : tuple of str
        What to keep in mind.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(240, 2))
    >>> y = np.digitize(X[:, 0] + rng.normal(size=240), [0.0, 1.0])
    >>> qid = np.repeat(np.arange(30), 8)
    >>> model = pm.RankMatch(alpha=0.01).fit(X, y, qid=qid, feature_names=["clicks", "age"])
    >>> posterior = model.inference(X, y, qid=qid)
    >>> low, high = posterior.conf_int().T
    >>> bool(low[0] > 0.0), bool(low[1] < 0.0 < high[1])
    (True, True)
    """

    names: tuple[str, ...]
    params: FloatArray
    covariance: FloatArray
    is_fixed: BoolArray
    cov_type: str
    model: str
    units: str
    nobs: float
    n_clusters: int
    penalty: float
    llf: float
    log_evidence: float = np.nan
    hessian_method: str = "exact"
    notes: tuple[str, ...] = field(default=())
    has_likelihood: bool = True

    def __post_init__(self) -> None:
        for values in (self.params, self.covariance, self.is_fixed):
            values.flags.writeable = False

    @property
    def has_penalty(self) -> bool:
        """Whether there is a penalty, so that this is a posterior."""
        return self.penalty > 0.0

    @property
    def interval_name(self) -> str:
        """What intervals are called."""
        return "posterior interval" if self.has_penalty else "confidence interval"

    @property
    def bse(self) -> FloatArray:
        """Standard errors, (p,); NaN for parameters at a bound."""
        return np.where(self.is_fixed, np.nan, np.sqrt(np.diag(self.covariance)))

    @property
    def zvalues(self) -> FloatArray:
        """Estimates divided by their standard errors, (p,); only without a penalty."""
        self._require_no_penalty("z-values")
        return self.params / self.bse

    @property
    def tvalues(self) -> FloatArray:
        """The same as `zvalues`, by the name statsmodels gives them."""
        return self.zvalues

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values of Wald tests of 0, (p,); only without a penalty."""
        self._require_no_penalty("p-values")
        return 2.0 * stats.norm.sf(np.abs(self.zvalues))

    def cov_params(self) -> FloatArray:
        """Return the covariance of the parameters, (p, p)."""
        return self.covariance.copy()

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return an interval per parameter.

        Parameters
        ----------
        alpha : float
            Probability outside; 0.05 gives 95 % intervals.

        Returns
        -------
        ndarray of shape (p, 2)
            Lower and upper ends; NaN for parameters at a bound.
        """
        reach = normal_reach(alpha) * self.bse
        return np.stack([self.params - reach, self.params + reach], axis=1)

    def wald_test(self, contrasts: Any) -> tuple[float, int, float]:
        """Test whether some linear functions of the parameters are all 0.

        Parameters
        ----------
        contrasts : sequence of str, or array of shape (k, p)
            Names of parameters, or the functions as rows.

        Returns
        -------
        tuple of float, int and float
            Wald's chi-squared statistic, its degrees of freedom and its p-value.
        """
        self._require_no_penalty("Wald tests")
        rows = self._contrasts(contrasts)
        spread = rows @ self.covariance @ rows.T
        # Parameters may differ by many orders of magnitude: correlations are compared.
        sizes = np.sqrt(np.maximum(np.diag(spread), 0.0))
        sizes[sizes == 0.0] = 1.0
        spread = spread / np.outer(sizes, sizes)
        rank = int(np.linalg.matrix_rank(spread, hermitian=True))
        if rank < len(rows):
            raise InvalidOptionError(
                "contrasts must be independent and touch no parameter at a bound; the "
                f"{len(rows)} given have a covariance of rank {rank}. Drop some."
            )
        means = rows @ self.params / sizes
        statistic = float(means @ np.linalg.solve(spread, means))
        return statistic, rank, float(stats.chi2.sf(statistic, rank))

    def sample(self, n: int, rng: Seed = None) -> FloatArray:
        """Draw parameters.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : int, numpy.random.Generator or None
            Seed or generator; None uses fresh entropy.

        Returns
        -------
        ndarray of shape (n, p)
            One vector of parameters per row.
        """
        n = check_count(n, "n", 0)
        root = self.root()
        return self.params + check_rng(rng).normal(size=(n, root.shape[1])) @ root.T

    def root(self) -> FloatArray:
        """Return a matrix (p, r) whose product with its transpose is the covariance."""
        sizes = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        (free,) = np.nonzero(sizes > 0.0)
        # Correlations first: parameters may differ by many orders of magnitude.
        own = self.covariance[np.ix_(free, free)] / np.outer(sizes[free], sizes[free])
        root = np.zeros((len(sizes), len(free)))
        # By Cholesky, which rounding hardly changes: equal seeds give nearly equal draws.
        try:
            factor = np.linalg.cholesky(own)
        except np.linalg.LinAlgError:  # singular, as with few clusters
            factor = np.linalg.cholesky(own + _RIDGE * np.eye(len(free)))
        root[free] = sizes[free, None] * factor
        return root

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return a table of the parameters.

        Parameters
        ----------
        alpha : float
            Probability outside the intervals; 0.05 gives 95 % intervals.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in notebooks; `Summary.to_pandas` makes a frame.
        """
        return summarise(self, alpha)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the posterior to a JSON file; `Posterior.load` reads it.

        Parameters
        ----------
        path : str or path
            An existing file is replaced, never left half-written.
        """
        document = {"format": FORMAT, "schema": SCHEMA, "version": __version__}
        text = json.dumps(document | self.to_json(), allow_nan=False, indent=1) + "\n"
        with whole_file(path) as file:
            file.write(text)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a posterior from a file written by `save`.

        Parameters
        ----------
        path : str or path
            The JSON file.

        Returns
        -------
        Posterior
            The same to the last bit.
        """
        with Path(path).open("rb") as file:
            data = Gauge(str(path), ModelFileError, None).whole(file)
        try:
            document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise ValueError(f"it does not say {FORMAT!r}")
            if document.get("schema") != SCHEMA or depth(document) > MOST_DEPTH:
                raise ValueError(f"its schema is not {SCHEMA}")
            return cls.from_json(document)
        except (ValueError, TypeError, KeyError, RecursionError) as err:
            raise ModelFileError(
                f"{path} must be a posterior saved by this version of permatch; it is "
                f"damaged or something else ({err}). Save the posterior again."
            ) from err

    def to_json(self) -> dict[str, Any]:
        """Return the fields under the key "posterior", for JSON."""
        own = {one.name: encode(getattr(self, one.name)) for one in fields(self)}
        return {"posterior": own}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return what `to_json` was called on; ValueError if it is damaged."""
        found = {name: decode(item) for name, item in value["posterior"].items()}
        n = len(found["names"])
        shapes = {"params": (n,), "covariance": (n, n), "is_fixed": (n,)}
        for name, shape in shapes.items():
            if not isinstance(found[name], np.ndarray) or found[name].shape != shape:
                raise ValueError(f"{name} of a posterior must have the shape {shape}")
        return cls(**found)

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        return (
            f"<Posterior of {self.model}: {len(self.params)} parameters, {self.cov_type}, "
            f"{self.nobs:g} {self.units}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _contrasts(self, contrasts: Any) -> FloatArray:
        if isinstance(contrasts, str):
            contrasts = [contrasts]
        is_listed = isinstance(contrasts, Sequence) and len(contrasts) > 0
        if is_listed and all(isinstance(c, str) for c in contrasts):
            unknown = [name for name in contrasts if name not in self.names]
            if unknown:
                raise InvalidOptionError(
                    f"contrasts must be among {', '.join(self.names)}; got {unknown[0]!r}."
                )
            return np.eye(len(self.names))[[self.names.index(name) for name in contrasts]]
        try:
            rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidOptionError(
                f"contrasts must be names, or rows of {len(self.names)} numbers; got "
                f"{contrasts!r}."
            ) from None
        if rows.ndim != 2 or rows.shape[1] != len(self.names) or not len(rows):
            raise InvalidOptionError(
                f"contrasts must be names, or rows of {len(self.names)} numbers; got shape "
                f"{rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise InvalidOptionError(
                f"contrasts must be finite numbers; got {rows[~np.isfinite(rows)][0]}."
            )
        return rows

    def _require_no_penalty(self, what: str) -> None:
        if self.has_penalty:
            raise InvalidOptionError(
                f"{what} need a fit without a penalty; this one has alpha="
                f"{self.penalty:g}, which pulls coefficients to 0. Read the posterior "
                "intervals of conf_int(), or fit with alpha=0."
            )


def normal_reach(alpha: Any) -> float:
    """Return how many standard errors an interval reaches to either side."""
    outside = check_number(alpha, "alpha", is_zero_allowed=False)
    if outside >= 1.0:
        raise InvalidOptionError(
            f"alpha must be below 1: 0.05 gives 95 % intervals; got {alpha!r}."
        )
    return float(stats.norm.isf(0.5 * outside))
