"""``python -m reproduce neural``: a matching network next to a Sinkhorn loss."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.terminal import printing
from reproduce.commands.steps import Out, need, progress, quick_option, write_json


def neural(
    quick: Annotated[bool, quick_option("A few pairs and epochs, seconds.")] = False,
    out: Out = Path("results"),
    debug: Debug = False,
) -> None:
    """Train a network to match landmarks of silhouettes with outliers.

    The same network is trained by the exact likelihood of matchings, by
    permatch.nn, and by a Sinkhorn loss.  A linear model, MAPMatching, learns
    from the same pairs.  Options are chosen on validation pairs, and the test
    pairs have new landmarks.

    Needs no data, and the extra 'torch'; takes about two minutes on one
    processor.  Writes the results as data (neural.json).

    [bold]Examples[/bold]

      python -m reproduce neural
      python -m reproduce neural --quick --out neural
    """
    need("reproduce neural", torch="torch", skimage="vision")
    from permatch._optional import require
    from permatch._version import __version__
    from reproduce.experiments.neural import Config, run

    torch = require("torch", "torch")
    config = Config.quick() if quick else Config()
    path = make_folder(out) / ("neural-quick.json" if quick else "neural.json")
    start, threads = time.process_time(), torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: more threads would wait for each other
    try:
        with progress("networks") as show:
            rows = run(config, show)
    finally:
        torch.set_num_threads(threads)
    content = {
        "permatch": __version__,
        "is_quick": quick,
        "date": datetime.now(tz=UTC).date().isoformat(),
        "seconds": time.process_time() - start,
        "config": asdict(config),
        "rows": rows,
    }
    write_json(path, content)
    with printing() as console:
        _report(console, rows)
        console.print(f"Written: {path}", soft_wrap=True)


def _report(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print a line per method."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("method", no_wrap=True)
    for heading in ("Hamming loss", "Brier", "calibration error", "s / epoch"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        names = ("hamming", "brier", "calibration_error", "seconds_per_epoch")
        cells = (f"{row[name]:.4f}" for name in names)
        table.add_row(row["method"], *cells)
    console.print(table)
