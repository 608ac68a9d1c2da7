"""Options of several commands, their checks, and groups of options."""

import csv
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from permatch._estimators import Task, options_of

#: More threads than any machine has processors are a typo.
MAX_JOBS = 4096
#: What chooses alpha without data held out.
EVIDENCE = "evidence"


def spread(function: Callable[..., None], *, is_reader: bool = True) -> Callable[..., None]:
    """Return a command for typer, with the options that all commands have.

    These are ``--debug``, and ``--max-bytes`` for commands that read files.  A parameter
    whose type is a dataclass stands for a group of options, one per field.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += inspect.signature(groups[name]).parameters.values()
        else:
            parameters.append(parameter)
    everywhere = list(inspect.signature(_everywhere).parameters.values())[not is_reader :]
    parameters += everywhere

    @wraps(function)
    def run(**values: Any) -> None:
        for parameter in everywhere:
            del values[parameter.name]  # read by the class of all commands
        for name, group in groups.items():
            own = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**own)
        function(**values)

    named = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__dict__["__signature__"] = inspect.Signature(named)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return run


def check_engine(name: str | None) -> str | None:
    """Refuse unknown engines as wrong usage, listing the known ones."""
    from permatch.inference import ENGINES

    if name is not None and name not in ENGINES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(ENGINES)}.")
    return name


def check_jobs(jobs: int) -> int:
    """Refuse an impossible number of threads."""
    if jobs == 0:
        raise typer.BadParameter("must not be 0; -1 means all processors.")
    if jobs > MAX_JOBS:
        raise typer.BadParameter(f"must be at most {MAX_JOBS}; -1 means all processors.")
    return jobs


def check_alpha(alpha: float | None) -> float | None:
    """Refuse an invalid penalty."""
    if alpha is not None and not 0.0 <= alpha < math.inf:
        raise typer.BadParameter("must be a finite number of at least 0.")
    return alpha


def parse_alphas(text: str) -> list[float] | str:
    """Split ``1,0.1,0.01``; ``evidence`` is left as it is."""
    if text == EVIDENCE:
        return text
    try:
        alphas = [float(part) for part in text.split(",")]
    except ValueError:
        alphas = [math.nan]
    if not all(0.0 <= alpha < math.inf for alpha in alphas):
        raise typer.BadParameter(
            f"--alphas must be a list like 1,0.1,0.01, or evidence; got {text!r}."
        )
    return alphas


def alpha_values(alpha: float | None, alphas: str | None) -> dict[str, Any]:
    """Return ``--alpha`` or ``--alphas`` as a parameter of an estimator, if given."""
    given = {"alphas": parse_alphas(alphas)} if alphas is not None else {}
    return given | ({"alpha": alpha} if alpha is not None else {})


def split_names(text: str) -> list[str]:
    """Split ``a,b,c``, the value of ``--features``; a name with a comma can be quoted."""
    names = [name.strip() for name in next(csv.reader([text]), [])]
    if not names or not all(names):
        raise typer.BadParameter(f"--features must be a list like a,b,c; got {text!r}.")
    return names


def make_folder(folder: Path) -> Path:
    """Create the folder for results before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".permatch").touch()
        (folder / ".permatch").unlink()
    except OSError as err:
        raise typer.BadParameter(
            f"cannot write to {folder}: {err.strerror}. Choose another folder."
        ) from err
    return folder


def flag(*names: str, **more: Any) -> Any:
    """Return an option without a value; its type is not shown."""
    return typer.Option(*names, metavar="", **more)


def optional(*names: str, **more: Any) -> Any:
    """Return an option without a default to show."""
    return typer.Option(*names, show_default=False, **more)


def argument(metavar: str, text: str) -> Any:
    """Return an argument without a default."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


_PENALTY = "Penalty"
_ELSEWHERE = "Data that do not fit in memory"


def alpha_option(text: str) -> Any:
    """Return the option ``--alpha``."""
    return optional(
        "--alpha", "-a", help=text, callback=check_alpha, rich_help_panel=_PENALTY
    )


#: Read by the class of all commands, see `permatch.cli.shared.terminal`.
Debug = Annotated[bool, flag("--debug", help="Show the traceback of a failure.")]
MaxBytes = Annotated[
    int | None,
    optional(
        "--max-bytes",
        min=1,
        metavar="N",
        help="Largest file, uncompressed; also raises the limits on lines and memory.",
    ),
]
AsJson = Annotated[bool, flag("--json", help="Print one JSON object and nothing else.")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Threads, -1 for all processors; results are the same, time limits apart.",
        callback=check_jobs,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        "-e",
        metavar="NAME",
        help="Algorithm; `permatch engines` lists them.",
        callback=check_engine,
    ),
]
Model = Annotated[Path, argument("MODEL", "Model file written by fit.")]
NewModel = Annotated[
    Path,
    optional("--model", "-m", metavar="MODEL", help="Output file for the model (JSON)."),
]
Page = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="Output file for the page.")
]
Inference = Annotated[
    Literal["sandwich", "laplace"] | None,
    optional(
        "--inference",
        help="Report how sure the weights are and store it in the model. sandwich: by "
        "differences between graphs or queries; laplace: by the model.",
    ),
]
MaxIter = Annotated[int | None, optional("--max-iter", min=1, help="Most steps.")]
Alpha = Annotated[
    float | None, alpha_option("Strength of the penalty. Default: that of the estimator.")
]
Alphas = Annotated[
    str | None,
    optional(
        "--alphas",
        metavar="A,B,...|evidence",
        help="Values to choose from; evidence: by the probability of the data, without "
        "folds.",
        rich_help_panel=_PENALTY,
    ),
]


#: The panel of the options that decide.
DECISION = "Decision"


def _cost(name: str, text: str) -> Any:
    help = f"Cost of {text}."
    return optional(name, metavar="COST", min=0.0, help=help, rich_help_panel=DECISION)


Missed = Annotated[
    float | None, _cost("--missed", "no link where there is one. Default: 1")
]
False_ = Annotated[float | None, _cost("--false", "a link where there is none. Default: 1")]
Wrong = Annotated[float | None, _cost("--wrong", "a link to the wrong partner. Default: 2")]
Abstain = Annotated[
    float | None, _cost("--abstain", "leaving it to a person. Default: never")
]


class Costs:
    """What groups of options with costs have in common."""

    @property
    def given(self) -> dict[str, float]:
        """The costs that are given."""
        names = ("missed", "false", "wrong", "abstain")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def costs(self) -> Any:
        """Return the costs as `LinkCosts`, None if none is given."""
        from permatch.decoding import LinkCosts

        return LinkCosts(**self.given) if self.given else None


@dataclass(frozen=True)
class Penalty:
    """The options of a fit for the penalty, given or chosen."""

    alpha: Alpha = None
    cv: Annotated[
        bool,
        flag(
            "--cv",
            help="Choose alpha by cross-validation, or on --valid.",
            rich_help_panel=_PENALTY,
        ),
    ] = False
    alphas: Alphas = None
    folds: Annotated[
        int | None,
        optional(
            "--folds", min=2, help="Folds of --cv. Default: 5.", rich_help_panel=_PENALTY
        ),
    ] = None

    @property
    def n_folds(self) -> int:
        """Number of folds, given or not."""
        return self.folds or 5

    @property
    def is_by_evidence(self) -> bool:
        """Whether alpha is chosen by evidence, without folds."""
        return self.alphas == EVIDENCE

    def check_evidence(self, estimator: str, able: str) -> None:
        """Refuse evidence beside other choices of alpha, or if the estimator has none."""
        if not self.is_by_evidence:
            return
        if self.cv or self.folds is not None or self.alpha is not None:
            raise typer.BadParameter(
                "--alphas evidence chooses alpha without folds; drop --alpha, --cv and "
                "--folds."
            )
        if estimator != able:
            raise typer.BadParameter(
                f"--alphas evidence needs a likelihood: --estimator {able}."
            )

    def values(self) -> dict[str, Any]:
        """Return what is given as parameters of an estimator."""
        return alpha_values(self.alpha, self.alphas)


@dataclass(frozen=True)
class Elsewhere:
    """The options of data that do not fit in memory."""

    from_disk: Annotated[
        bool,
        flag(
            "--from-disk",
            help="Read the data from disk in every pass instead of holding them in memory.",
            rich_help_panel=_ELSEWHERE,
        ),
    ] = False
    dask: Annotated[
        str | None,
        optional(
            "--dask",
            metavar="ADDRESS",
            help="Compute on the workers of a Dask cluster, such as tcp://10.0.0.1:8786.",
            rich_help_panel=_ELSEWHERE,
        ),
    ] = None

    @property
    def is_used(self) -> bool:
        """Whether the data stay where they are."""
        return self.from_disk or self.dask is not None

    def refuse(self, why: str) -> None:
        """Refuse data that are not held in memory."""
        if self.is_used:
            name = "--from-disk" if self.from_disk else "--dask"
            raise typer.BadParameter(f"{name} is not possible: {why}. Drop it.")

    def check(self, *sources: str | None) -> None:
        """Refuse folders that would have to be held in memory, and standard input."""
        if self.from_disk and self.dask is not None:
            raise typer.BadParameter("--from-disk and --dask exclude each other; drop one.")
        for source in filter(None, sources):
            if self.is_used and source == "-":
                raise typer.BadParameter(
                    "standard input can be read once, but training from disk or on Dask "
                    "reads the data in every pass; name a file or a folder."
                )
            if not self.is_used and Path(source).is_dir():
                raise typer.BadParameter(
                    f"{source} is a folder; add --from-disk to read it part by part, or "
                    "--dask ADDRESS to compute on a cluster."
                )

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Have Dask compute on the cluster named, if one is."""
        if self.dask is None:
            yield
            return
        from permatch.distributed.dask_shards import connect

        with connect(self.dask):
            yield


def _everywhere(max_bytes: MaxBytes = None, debug: Debug = False) -> None:
    """Declare the options that all commands have."""


def estimator_option(task: Task, **more: Any) -> Any:
    """Return the option ``--estimator`` of a task, with the choices there are."""
    names = options_of(task)

    def check(text: str) -> str:
        if text not in names:
            known = ", ".join(map(repr, names))
            raise typer.BadParameter(f"{text!r} is not one of {known}.")
        return text

    metavar = f"<{'|'.join(names)}>"
    return typer.Option("--estimator", metavar=metavar, callback=check, **more)
