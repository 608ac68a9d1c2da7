"""Linking tables larger than memory: part by part, each with whole components.

pass 1        the ids: which records are connected, by union-find over hashes
pass 2        the rows, dealt out to parts of whole components
some more     the constant that keeps the expected number of links: sums over parts
last          every part is linked, and written
"""

from contextlib import nullcontext
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

from permatch._progress import Stages
from permatch._shards import Shards
from permatch.distributed.dask_shards import DaskShards
from permatch.distributed.disk import DiskShards
from permatch.distributed.opening import is_on_disk
from permatch.errors import InvalidOptionError, TableError
from permatch.linking.checks import warn_of_one_table
from permatch.linking.constant import find_constant
from permatch.linking.dask_pairs import (
    as_dask_frame,
    first_rows,
    shuffle_pairs,
    take_census,
    used_frame,
)
from permatch.linking.ledger import Ledger, fingerprint
from permatch.linking.pairs import read_pairs
from permatch.linking.parted import (
    PartedTable,
    PartRules,
    build_part,
    figures_of_part,
    link_part,
    links_of_part,
    write_part,
)
from permatch.linking.parted_links import PartedLinks, links_on_disk
from permatch.linking.sources import as_dataset, check_sources
from permatch.linking.spill import PairStream, read_spilled, spill_pairs
from permatch.linking.survey import Census, survey_rows
from permatch.linking.table import Rules

Kind = TypeVar("Kind", bound=Shards)

#: Pairs of a part, about; a component with more has a part of its own.
PER_PART = 1_000_000


def link_dataset(source: Any, rules: Rules, out: str | Path) -> PartedLinks:
    """Link a folder of Parquet files, or an Arrow dataset, and write links to a folder.

    Parameters
    ----------
    source : path or pyarrow Dataset
        The pairs.
    rules : Rules
        How to link them.
    out : path
        A new or empty folder, or one where this was begun before.
    """
    if not is_on_disk(source):
        raise InvalidOptionError(
            "out= is for pairs on disk or on Dask, which are linked in parts; got "
            f"{type(source).__name__}. Leave it out, and write the links by links.write."
        )
    stream = PairStream(as_dataset(source), rules.roles)
    ledger = Ledger.open(out, fingerprint(rules, stream.identity, PER_PART))
    with ledger.given_up_on_error(), Stages("reading the pairs") as stages:
        if not ledger.has_pairs():
            _deal(stream, ledger, stages)
        state = ledger.state
        how = PartRules(rules, stream.name, state["highest"])
        files = ledger.pair_files(state["n_parts"])
        if "offset" not in state:
            ledger.note(offset=_constant(_shards(files, how, stages, "counting"), rules))
        missing = ledger.missing()
        shards = _shards([files[k] for k in missing], how, stages, "linking")
        shards.map(write_part, state["offset"], ledger.folder)
        ledger.clear_pairs()
    return links_on_disk(ledger, rules.costs, is_one_to_one=rules.is_one_to_one)


def link_frame(frame: Any, rules: Rules, out: str | Path | None = None) -> PartedLinks:
    """Link a Dask DataFrame.

    Parameters
    ----------
    frame : Dask DataFrame
        The pairs.
    rules : Rules
        How to link them.
    out : path, optional
        A folder that all workers see, to write links to; else Dask holds them.
    """
    frame = used_frame(frame, rules.roles)
    ledger = None
    if out is not None:
        ledger = Ledger.open(out, fingerprint(rules, frame._name, PER_PART))
    begun = nullcontext() if ledger is None else ledger.given_up_on_error()
    with begun, Stages("finding components") as stages:

        def note(n_done: int, n_all: int) -> None:
            stages.say(f"finding components: partition {n_done} of {n_all}")

        warn_of_one_table(read_pairs(first_rows(frame), rules.roles))
        census = take_census(frame, rules.roles, note)
        n_parts = _check(census, "the table").groups.deal(PER_PART)
        how = PartRules(rules, "the table", census.highest)
        stages.say(f"grouping {census.n_rows:,} pairs by component")
        parts = shuffle_pairs(frame, how, census, n_parts)
        del census
        if ledger is None:
            return _held_links(parts.persisted(), rules, stages)
        ledger.note(n_parts=n_parts)
        if "offset" not in ledger.state:
            parts = parts.persisted()
            ledger.note(offset=_constant(_shown(parts, stages, "counting"), rules))
        missing = _shown(parts.some(ledger.missing()), stages, "linking")
        missing.map(write_part, ledger.state["offset"], ledger.folder)
    return links_on_disk(ledger, rules.costs, is_one_to_one=rules.is_one_to_one)


def _held_links(parts: DaskShards, rules: Rules, stages: Stages) -> PartedLinks:
    """Return links that Dask holds."""
    offset = _constant(_shown(parts, stages, "counting"), rules)
    linked = _shown(parts, stages, "linking").derive(link_part, offset).persisted()
    figures = reduce(add, linked.map(figures_of_part))
    links = linked.derive(links_of_part)
    table = as_dask_frame(links)
    return PartedLinks(table, figures, offset, rules.costs, links, rules.is_one_to_one)


def _check(census: Census, name: str) -> Census:
    """Refuse pairs from other than two sources, and none at all."""
    check_sources(census.others)
    if not census.n_rows:
        raise TableError(f"at least one pair is required; {name} has no rows.")
    return census


def _deal(stream: PairStream, ledger: Ledger, stages: Stages) -> None:
    """Find components, and write the rows of every part to a file."""
    n_rows, census = len(stream), Census()
    for table in stream.tables():
        if not census.n_rows:
            warn_of_one_table(read_pairs(table, stream.roles))
        census.add(survey_rows(table, stream.roles))
        stages.say(f"finding components: {census.n_rows:,} of {n_rows:,} pairs")
    n_parts = _check(census, stream.name).groups.deal(PER_PART)
    ledger.clear_pairs()
    files = ledger.pair_files(n_parts)

    def note(n_done: int) -> None:
        stages.say(f"grouping pairs by component: {n_done:,} of {n_rows:,}")

    spill_pairs(stream, census.groups, files, note)
    ledger.note(n_parts=n_parts, highest=census.highest)


def _shards(files: list[Path], how: PartRules, stages: Stages, what: str) -> Shards:
    """Return the parts, each built anew in every pass."""
    readers = [partial(read_spilled, file) for file in files]
    return _shown(DiskShards(readers, files), stages, what).derive(build_part, how)


def _shown(shards: Kind, stages: Stages, what: str) -> Kind:
    """Show what the passes over shards are for, and how far they are."""
    shards.passes.show = lambda text: stages.say(f"{what} links: {text}")
    return shards


def _constant(shards: Shards, rules: Rules) -> float:
    return find_constant(PartedTable(shards, rules), rules.expected, rules.base)
