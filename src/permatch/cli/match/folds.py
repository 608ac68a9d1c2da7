"""``permatch match cv``: the quality of links on graphs that were not fitted on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from permatch._estimators import Kind, find_estimator
from permatch.cli.match.options import Columns, Decision, Edges, Learner, NoProbabilities
from permatch.cli.match.report import describe_evaluation
from permatch.cli.match.steps import (
    decide,
    divide,
    note_parts,
    pair_probabilities,
    read_table,
)
from permatch.cli.shared.folds import (
    Folds,
    Split,
    describe_fold,
    forward_splits,
    report_folds,
    run_folds,
    show_folds,
    shuffled_splits,
)
from permatch.cli.shared.options import AsJson
from permatch.cli.shared.steps import (
    check_target,
    fit_model,
    nothing_written_if_interrupted,
)
from permatch.cli.shared.trees import TreeOptions

if TYPE_CHECKING:
    from permatch.datasets import EdgeTable

#: What is kept of an evaluation, and the head of its column if it is printed.
MEASURES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "hamming_loss": "Hamming",
    "exact_share": None,
    "log_likelihood": "log-lik.",
    "expected_calibration_error": "ECE",
    "confidence": None,
    "accuracy": None,
    "node_calibration_error": None,
}

#: Those of them that need probabilities.
NEED_PROBABILITIES = (
    "log_likelihood",
    "expected_calibration_error",
    "confidence",
    "accuracy",
    "node_calibration_error",
)


def cv(
    edges: Edges,
    learner: Learner,
    folds: Folds,
    no_probabilities: NoProbabilities = False,
    *,
    trees: TreeOptions,
    decision: Decision,
    columns: Columns,
    as_json: AsJson = False,
) -> None:
    """Measure a method on graphs it has not seen, by cross-validation.

    The graphs of a labelled table are split at random; a table with fewer
    graphs than folds is split by connected component.  Each part is the test
    part once, the next one chooses alpha (for trees, leaves and their number),
    the others train; with --alpha all others train.  With --in-order the parts
    keep the order of the table, and only graphs before the test part train and
    choose.  The test part is measured as by permatch match evaluate: precision,
    recall and F1 of the links, Hamming loss, log-likelihood per graph, the
    expected calibration error (ECE) over pairs of probability 0.05 or more, and
    how sure the most probable partners are next to how often they are right.  No
    model is written: that is for fit, on the whole table.  Ctrl-C reports the
    folds that are finished.

    [bold]Examples[/bold]

      permatch match cv train.csv
      permatch match cv train.csv --folds 4 --jobs -1 --out folds.csv
      permatch match cv train.csv --estimator max-margin --alphas 10,1,0.1
      permatch match cv train.csv --model-kind trees --leaves 4,8,16
      permatch match cv train.csv --alpha 0.01 --decode bayes --false 5
      permatch match cv frames.csv --in-order --prior-coef -1
      permatch match cv train.csv --alpha 0.01 --json | python -m json.tool
    """
    decision.check(has_probabilities=not no_probabilities)
    options = learner.options(folds.penalty(), trees)
    with nothing_written_if_interrupted():
        if folds.out is not None:
            check_target(folds.out, "--out", edges)
        table = _labelled(read_table(edges, columns.read_as("required")))
        things = "graphs"
        if not learner.in_order:
            table, things = divide(table, folds.folds)
        table = _labelled(table)
        told = len(table.graphs), f"labelled {things}", folds.folds
        if learner.in_order:
            splits = forward_splits(*told, is_search=folds.is_search)
        else:
            splits = shuffled_splits(*told, learner.seed, is_search=folds.is_search)
        note_parts(table, things)
        options["unmatched"] = _find_unmatched(table, learner.unmatched)
        how = learner.estimator, trees.kind, options
        method = Method(*how, decision, not no_probabilities)
        rows = run_folds(splits, lambda split: method.run(table, split))
        report_folds(
            {
                "edges": edges,
                "estimator": trees.name(learner.estimator),
                "is_search": folds.is_search,
                "split_by": things,
                "decode": decision.words,
            },
            rows,
            len(splits),
            folds.out,
            as_json=as_json,
            show=_show,
        )


@dataclass(frozen=True)
class Method:
    """A way to learn and to decide."""

    estimator: str
    made_by: Kind
    options: dict[str, Any]
    decision: Decision
    has_probabilities: bool

    def run(self, table: "EdgeTable", split: Split) -> dict[str, Any]:
        """Fit and test on one fold; return the results as plain numbers."""
        train, test = table.take(split.train), table.take(split.test)
        more: dict[str, Any] = {"feature_names": table.feature_names}
        is_search = len(split.validation) > 0
        if is_search:
            held_out = table.take(split.validation)
            more["validation"] = (held_out.graphs, held_out.matchings)
        how = {"is_search": is_search, "kind": self.made_by}
        model = find_estimator("match", self.estimator, **how)(**self.options)
        told = {"is_shown": False, "is_told": split.name == "1"}  # the others are alike
        if fit_model(model, train.graphs, train.matchings, **told, **more):
            raise KeyboardInterrupt
        chances = pair_probabilities(model, test) if self.has_probabilities else None
        matchings = decide(model, test, chances, self.decision)
        found = describe_evaluation(model, test, matchings, chances)
        is_kept = {
            name: chances is not None or name not in NEED_PROBABILITIES for name in MEASURES
        }
        measures = {name: found[name] for name in MEASURES if is_kept[name]}
        sizes = len(split.train), len(split.validation), len(split.test)
        return describe_fold(split.name, sizes, model, measures)


def _labelled(table: "EdgeTable") -> "EdgeTable":
    """Return the graphs of which anything is known; others would teach and test nothing."""
    from permatch.labels import check_known

    known = check_known(table.graphs, table.matchings)
    return table.take([k for k, label in enumerate(known) if not label.is_open.all()])


def _find_unmatched(table: "EdgeTable", unmatched: str) -> str:
    """Return which nodes may stay unmatched, as the labels of all folds show."""
    from permatch.labels import check_known

    known = check_known(table.graphs, table.matchings)
    is_any = unmatched == "auto" and any(label.leaves_spare for label in known)
    return "any" if is_any else unmatched


def _show(console: Console, summary: dict[str, Any]) -> None:
    """Print the folds for people."""
    names = {
        name: head for name, head in MEASURES.items() if head and name in summary["mean"]
    }
    things = "graphs" if summary["split_by"] == "graphs" else "parts"
    show_folds(console, summary, things, names)
    if summary["mean"].get("confidence") is not None:
        confidence, accuracy = (
            summary["mean"][name] for name in ("confidence", "accuracy")
        )
        console.print(
            f"Confidence: the likeliest answer for a left node has probability "
            f"{confidence:.4f} on average; {accuracy:.4f} of these are right."
        )
