"""The benchmark page, from the file that ``make bench`` wrote."""

import json
from pathlib import Path
from typing import Any

HOW_TO = """```sh
make bench                                # all benchmarks; several minutes
make bench BENCH_ARGS="--quick"           # fewer repeats, smaller sizes
make docs-refresh                         # put the results into this page
```"""

ABSENT = f"""No results yet: the file `benchmarks/results.json` is missing. To measure:

{HOW_TO}
"""


def page(results: Path, picture: Path | None = None) -> str:
    """Return the page's figures as Markdown; how to get some where there are none."""
    if not results.is_file():
        return ABSENT
    lines = tables(results)
    if picture is not None and picture.is_file():
        lines += [
            "## Error against time",
            "",
            "![Largest error of a marginal against time, one line per engine; the tables "
            f"above contain the same data.](../{picture.parent.name}/{picture.name})",
            "",
        ]
    lines += ["## Run them yourself", "", HOW_TO, ""]
    return "\n".join(lines)


def tables(results: Path) -> list[str]:
    """Return where and when a file was measured, and its figures, as lines."""
    content = json.loads(results.read_text(encoding="utf-8"))
    rows = [row for report in content["reports"] for row in report["rows"]]
    aims = [row["is_met"] for row in rows if row["is_met"] is not None]
    lines = [
        "## Machine and date",
        "",
        f"Measured on **{content['date']}** on **{content['machine']}** with Python "
        f"{content['python']}: {len(rows)} results, {sum(aims)} of {len(aims)} "
        "targets met.",
        "",
    ]
    for report in content["reports"]:
        lines += [f"## {report['title']}", "", *_table(report["rows"]), ""]
        lines += [
            f"- {row['what']}: {row['note']}" for row in report["rows"] if row["note"]
        ]
        lines.append("")
    return lines


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Return one report as a table, without columns that are empty throughout."""
    table = [
        {
            "what": row["what"],
            "ours": row["ours"],
            "rival": row["rival"],
            "theirs": row["theirs"],
            "figure": _figure(row),
            "target": _target(row),
            "accuracy": row["accuracy"],
            "spread": row["spread"],
        }
        for row in rows
    ]
    names = [name for name in table[0] if any(row[name] for row in table)] if table else []
    if not names:
        return ["No measurements."]
    return [
        "| " + " | ".join(names) + " |",
        "|" + "---|" * len(names),
        *(
            "| " + " | ".join(row[name].replace("|", "\\|") for name in names) + " |"
            for row in table
        ),
    ]


def _figure(row: dict[str, Any]) -> str:
    if row["figure"] is None:
        return ""
    digits = ",.0f" if abs(row["figure"]) >= 1000 else ".3g"
    return f"{row['figure']:{digits}} {row['unit']}"


def _target(row: dict[str, Any]) -> str:
    if row["target"] is None:
        return ""
    sign = "≤" if row["is_lower_better"] else "≥"
    return f"{sign} {row['target']:g}, {'met' if row['is_met'] else '**not met**'}"
