"""What a page of rankings says beside its figures: choices, measures, deviations."""

from collections import Counter
from collections.abc import Sequence

from permatch.pages.html import Page, table
from reproduce.experiments.ohsumed import Config
from reproduce.experiments.rows import Row


def alpha_table(summary: list[Row], labels: dict[str, str]) -> str:
    """Return the alphas chosen in every fold, and what was learned from."""
    learners = [line for line in summary if "alphas" in line]
    folds = sorted({fold for line in learners for fold in line["alphas"]})
    return table(
        ["method", *(f"fold {fold}" for fold in folds), "observations"],
        [
            [
                labels[line["method"]],
                *(_alphas(line["alphas"].get(fold, [])) for fold in folds),
                f"{line['n_observations']:,.0f}",
            ]
            for line in learners
        ],
        "Alpha chosen in every fold, with the number of repeats if more than one; "
        "observations per fit (mean over folds).",
        ids=True,
    )


def time_table(summary: list[Row], labels: dict[str, str]) -> str:
    """Return what the fits took."""
    return table(
        ["method", "fits per fold", "seconds per fit", "seconds, all folds"],
        [
            [
                labels[line["method"]],
                str(line["n_fits"]),
                _digits(line["fit_seconds"]),
                _digits(line["seconds"]),
            ]
            for line in summary
            if "fit_seconds" in line
        ],
        "Processor time: of one fit, mean over folds and repeats, and of all fits of one "
        "repeat. RankMatch, DORM and ridge start every fit from the last one along a path "
        "of alphas; their times include measuring the validation part.",
        ids=True,
    )


def add_choices(
    page: Page, config: Config, summary: list[Row], labels: dict[str, str]
) -> None:
    """Say what was chosen how, and where the grid ended too early."""
    text = (
        "All options were chosen by the mean of NDCG@1 to NDCG@10 on the validation part "
        "of each fold; in case of ties the simpler one: the strongest alpha, then the "
        "fewest rounds, then the usual value of an option. There is a fit for every "
        "setting tried; where a method learns in rounds, all rounds of a fit were measured."
    )
    if config.rival_values is not None or config.rival_rounds is not None:
        text += " This was a smaller experiment: rivals tried fewer settings and rounds."
    edges = [
        f"{line['n_edge']} of {_n_choices(line)} for {labels[line['method']]}"
        for line in summary
        if line.get("n_edge")
    ]
    if edges:
        text += (
            " Choices of the first or last alpha, or of the last round: "
            f"{'; '.join(edges)}; a wider grid might change these."
        )
    n_open = sum(line.get("n_open", 0) for line in summary)
    text += " All fits converged." if not n_open else f" {n_open} fits did not converge."
    page.add_text(text)


def add_variants(page: Page, summary: list[Row], labels: dict[str, str]) -> None:
    """Say which NDCG every curve shows, with the means by either."""
    page.add_text(
        "Unless noted otherwise, curves show the paper's NDCG: gain 2^grade - 1, discount "
        "1 / log(1 + position). LETOR's own script does not discount the first two "
        "positions and divides by log2(position) from the third on; at 1 the two agree. In "
        "both, documents with equal scores keep the order of the file, and a query without "
        "relevant documents counts as 0. Published RankBoost is recomputed from its "
        "predictions; of RankSVM only a table of means was published."
    )
    page.add_html(
        table(
            ["method", "discount shown", "mean, as shown", "mean, LETOR's discount"],
            [
                [
                    labels[line["method"]],
                    "paper's" if line["variant"] == "paper" else "LETOR's",
                    f"{line['mean']:.4f}",
                    f"{line['mean_letor']:.4f}",
                ]
                for line in summary
            ],
            "Mean of NDCG@1 to NDCG@10 with each discount.",
        )
    )


def add_deviations(page: Page, config: Config, summary: list[Row]) -> None:
    """Say what the paper leaves open and how it was decided."""
    size = next(line["subset_size"] for line in summary if line["subset_size"])
    page.add_text(
        f"As in the paper: subsets of M = {size} documents that contain every grade, "
        f"{config.n_subsets:g} times D M per query, c(j) = M - j, LETOR's folds. Not "
        "specified in the paper and chosen here: features are scaled to 0..1 within each "
        "query; a query that lacks a grade gives no subsets; alpha is chosen by the mean "
        "of NDCG@1 to NDCG@10, the strongest one in case of ties; the loss of DORM is 1 - "
        "NDCG; equal scores keep the order of the file. The paper takes the lines of its "
        "rivals from publications; here they are run, all but C-CRF, and what is published "
        "with the data stands beside them. Added: whole lists and query-centred ridge "
        "regression."
    )


def add_commands(page: Page, config: Config, name: str) -> None:
    """Say how to run all of it, or a part by hand."""
    page.add_code(f"python -m reproduce ohsumed --data DIR{_options(config)}")
    page.add_text("One fold in Python, with whole lists:")
    page.add_code(
        "\n".join(
            [
                "from permatch.datasets import load_letor",
                "from permatch.estimators import RankMatchCV",
                "",
                f'fold = load_letor("DIR/{name}").folds[0]',
                "train, validation, test = fold.train, fold.validation, fold.test",
                'model = RankMatchCV("all", scaling="minmax", scale_features=False)',
                "model.fit(train.X, train.y, qid=train.qid,",
                "          validation=(validation.X, validation.y, validation.qid))",
                "print(model.alpha_, model.score(test.X, test.y, qid=test.qid))",
            ]
        )
    )


def _options(config: Config) -> str:
    default = Config()
    text = ""
    if config.dataset.upper() != default.dataset:
        text += f" --dataset {config.dataset}"
    if config.subset_alphas == Config.quick().subset_alphas:
        text += " --quick"
    elif config.n_repeats != default.n_repeats:
        text += f" --repeats {config.n_repeats}"
    return text + (f" --seed {config.seed}" if config.seed else "")


def _alphas(chosen: Sequence[float]) -> str:
    """Return alphas from strong to weak, each once, with how often it was chosen."""
    counts = Counter(chosen)
    parts = []
    for alpha in sorted(counts, reverse=True):
        # A hyphen and a space that do not break keep a number on one line.
        text, times = f"{alpha:g}".replace("e-0", "e\u2011"), counts[alpha]
        parts.append(text if times == 1 else f"{text}\u00a0(\u00d7{times})")
    return ", ".join(parts)


def _n_choices(line: Row) -> int:
    if "chosen" in line:
        return len(line["chosen"])
    return sum(map(len, line["alphas"].values()))


def _digits(seconds: float) -> str:
    """Write a time with three digits, without powers of ten."""
    return f"{seconds:.0f}" if seconds >= 100 else f"{float(f'{seconds:.3g}'):.10g}"
