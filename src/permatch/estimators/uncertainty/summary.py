"""A table of estimates, as text, HTML or a frame."""

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import FloatArray

_WIDTH = 78


@dataclass(frozen=True, eq=False)
class Summary:
    """A table with a row per parameter, made by `Posterior.summary`.

    ``str(summary)`` is text; notebooks show HTML.

    Attributes
    ----------
    title : str
        What the table is about.
    facts : dict of str
        Figures about the whole fit.
    names : tuple of str
        Names of the parameters.
    columns : dict of ndarray
        ``coef``, ``std err`` and the ends of the interval; without a penalty also ``z``
        and ``P>|z|``.
    notes : tuple of str
        What to keep in mind.
    """

    title: str
    facts: dict[str, str]
    names: tuple[str, ...]
    columns: dict[str, FloatArray]
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Return the table as text."""
        rows = [["", *self.columns], *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
            ).rstrip()
            for row in rows
        ]
        facts = ", ".join(f"{name}: {value}" for name, value in self.facts.items())
        notes = [
            line
            for note in self.notes
            for line in _wrap(f"* {note}", subsequent_indent="  ")
        ]
        return "\n".join([self.title, *_wrap(facts), *lines, *notes])

    def as_html(self) -> str:
        """Return the table as HTML."""

        def row(cells: list[str], kind: str) -> str:
            scope = ' scope="row"' if kind == "td" else ""
            first = f"<th{scope}>{escape(cells[0])}</th>"
            inner = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells[1:])
            return f"<tr>{first}{inner}</tr>"

        head = row(["", *self.columns], "th")
        body = "".join(row(cells, "td") for cells in self._cells())
        facts = ", ".join(f"{name}: {value}" for name, value in self.facts.items())
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title)}</caption><thead>{head}</thead>"
            f"<tbody>{body}</tbody></table><p>{escape(facts)}</p>"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row per parameter."""
        pandas = require("pandas", "tables", what="to_pandas")
        return pandas.DataFrame(self.columns, index=list(self.names))

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    def _cells(self) -> list[list[str]]:
        columns = [[_cell(name, v) for v in own] for name, own in self.columns.items()]
        return [list(row) for row in zip(self.names, *columns, strict=True)]


def summarise(posterior: Any, alpha: float) -> Summary:
    """Return the table of a posterior."""
    ends = posterior.conf_int(alpha)
    low, high = f"[{0.5 * alpha:.4g}", f"{1.0 - 0.5 * alpha:.4g}]"
    columns = {"coef": np.array(posterior.params), "std err": posterior.bse}
    if not posterior.has_penalty:
        columns |= {"z": posterior.zvalues, "P>|z|": posterior.pvalues}
    columns |= {low: ends[:, 0], high: ends[:, 1]}
    likelihood = "log-likelihood"
    if not posterior.has_likelihood:
        likelihood = f"composite {likelihood}"
    facts = {
        posterior.units: f"{posterior.nobs:g}",
        "clusters": f"{posterior.n_clusters}",
        "covariance": posterior.cov_type,
        "alpha": f"{posterior.penalty:g}",
        likelihood: f"{posterior.llf:.5g}",
    }
    if posterior.cov_type == "laplace":
        del facts["clusters"]
    if np.isfinite(posterior.log_evidence):
        facts["log-evidence"] = f"{posterior.log_evidence:.5g}"
    title = f"{posterior.model}: {100 * (1 - alpha):g} % {posterior.interval_name}s"
    return Summary(title, facts, posterior.names, columns, posterior.notes)


def _wrap(text: str, **options: Any) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_on_hyphens=False, **options)


def _cell(name: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    if name in ("z", "P>|z|"):
        return f"{value:.3f}"
    return f"{value:.4g}" if name != "std err" else f"{value:.3g}"
