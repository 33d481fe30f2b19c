"""A site's rows: read them, split them into training and test, encode them as all sites do."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, known
from pfedfair.data import Dataset, load
from pfedfair.data.tables.arrays import COLUMN, unfold
from pfedfair.data.tables.dates import base_of
from pfedfair.data.tables.encoder import ENCODINGS
from pfedfair.data.tables.formats import DateFormat, Formats
from pfedfair.data.tables.missing_groups import REFUSE
from pfedfair.data.tables.options import TableOptions, refuse_training_rows
from pfedfair.data.tables.piecewise import LEAST
from pfedfair.data.tables.reading import read_table
from pfedfair.data.tables.table import to_dataset
from pfedfair.engines.site.encodings import check_encoder, check_scales
from pfedfair.engines.site.rare_values import pool_rare_values, training_rows
from pfedfair.engines.site.schema import Schema, agree, describe
from pfedfair.engines.site.secrets import derive_row_keys, secret_of
from pfedfair.engines.site.settings import Config
from pfedfair.federation import Federation, encoded
from pfedfair.partition import Partition, Plan, choose

TEST_PART = 0.25
BESIDE_ROLES = ("encoding", "folder", "encoder")  # options of `load` that are no columns


@dataclass(frozen=True, eq=False)
class Site:
    """A site's table, and its rows for training and test; the column `client` is no input."""

    name: str
    place: int
    data: Dataset
    train: np.ndarray
    test: np.ndarray
    client: str = ""
    folder: Path = Path()

    @cached_property
    def row_keys(self) -> np.ndarray:
        """The secret keys of all rows, see `derive_row_keys`."""
        return derive_row_keys(self.data.frame, secret_of(self.folder))

    @cached_property
    def draw_keys(self) -> np.ndarray:
        """The secret keys by which random draws split rows: one for all rows of a person."""
        if self.data.person is None:
            return self.row_keys
        return derive_row_keys(self.data.frame[[self.data.person]], secret_of(self.folder))


def read_site(node: Config, run: Config) -> Site:
    """Read the rows of a site according to its settings.

    With a ``partition-id`` it is a simulated client of a public data set.
    """
    where = node if "data" in node else {**run, **node}
    if not where.get("data"):
        raise InputError(
            "This site has no data: say in its settings where they are, such as "
            "data='site.parquet' label='y' sensitive='sex'."
        )
    if "partition-id" in node:
        site, is_split = _partition(where, node, int(run["seed"])), True
    else:
        site, is_split = _own_table(where)
    name = str(node.get("site") or site.name)
    site = replace(site, name=name, folder=state_folder(node, where, name))
    return site if is_split else _hold_out(site, where)


def state_folder(node: Config, where: Config, name: str) -> Path:
    """Return the folder with the states, models and secret of the site of this name."""
    state = Path(str(where.get("state-dir") or "pfedfair-sites"))
    return state if "state-dir" in node else state / name


def _hold_out(site: Site, where: Config) -> Site:
    """Hold out random test rows, each by a random draw from its secret key.

    Adding or removing a row changes no other row's draw, and the draw is the same in every run.
    """
    part = float(where.get("test-part", TEST_PART))
    if not 0 <= part < 1:
        raise InputError(f"test-part must be at least 0 and less than 1, got {part:g}.")
    drawn = seeds.uniforms(site.draw_keys, 0, seeds.PARTITION) < part
    return replace(site, train=np.flatnonzero(~drawn), test=np.flatnonzero(drawn))


def _own_table(where: Config) -> tuple[Site, bool]:
    """Return the site with its table, and whether the table is split into training and test."""
    path, options = Path(str(where["data"])), TableOptions.of_config(where)
    label, sensitive = options.label, options.sensitive
    if not label or not sensitive:
        raise InputError(f"For {path}, say which column is the label and the sensitive one.")
    test_table = options.test
    if test_table:
        refuse_training_rows(Path(test_table), path)
    tables = [read_table(Path(name)) for name in (path, test_table) if name]
    frame = pd.concat(tables, ignore_index=True)
    options = replace(options, name=path.stem, test=None)
    images = COLUMN in frame
    if images:  # other columns than embeddings are no inputs
        needed = {label, COLUMN, *sensitive.split(",")}
        options = replace(options, drop=tuple(c for c in map(str, frame) if c not in needed))
        frame = unfold(frame)
    encoding = "standard" if images else str(where.get("encoding") or "piecewise")
    options = replace(options, missing_sensitive=REFUSE)  # rows are split by their positions
    known("encoding", encoding, ENCODINGS)
    data = replace(to_dataset(frame, options, part=True), encoding=encoding)
    is_test: np.ndarray | None = None
    if images:
        is_test, notes = (None, ()) if test_table else _read_split(tables[0], where)
        data = replace(data, hidden=(), notes=(*data.notes, *notes))
    train, test = np.split(np.arange(len(data)), [len(tables[0])])
    if is_test is not None:
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    return Site(path.stem, 0, data, train, test), bool(test_table) or is_test is not None


def _read_split(table: pd.DataFrame, where: Config) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return which rows the column `split` of a table of embeddings calls "test", if any."""
    from pfedfair.data.images.faces.split import by_split

    is_test, notes = by_split(table)
    if is_test is not None and "test-part" in where:
        raise InputError(
            f"The column 'split' of {where['data']} says which rows are for the test: leave out "
            "test-part, or the column."
        )
    return is_test, notes


def _partition(where: Config, node: Config, seed: int) -> Site:
    number, total = int(node["partition-id"]), int(node.get("num-partitions", 0))
    given: dict[str, Any] = {k: where.get(k) or None for k in BESIDE_ROLES}
    given |= {"skip_missing": bool(where.get("skip-missing"))}
    data = load(**vars(TableOptions.of_config(where)) | given).unfold()
    plan = make_plan(where, total or None, data)
    part = plan.split(data, seed)
    if not 0 <= number < len(part.names):
        raise InputError(f"partition-id must be between 0 and {len(part.names) - 1}, got {number}.")
    rows = part.train[number], part.test[number]
    return Site(part.names[number], number, data, *rows, client=plan.column or "")


def make_plan(where: Config, clients: int | None, data: Dataset) -> Plan:
    """Return how a data set is split among sites: by the paper's plan if it has as many."""
    way, rows = str(where.get("partition") or "fixed"), int(where.get("rows") or 0) or None
    own = data.client if way in ("fixed", "column") else ""  # the data set's own clients
    column = str(where.get("client") or own) or None
    paper = data.paper_plan
    usual = paper is not None and rows is None and clients == paper.n_under + paper.n_over
    if column is not None or way == "together" or (usual and way == "fixed"):
        clients = None
    return choose(way, data, clients, rows, column)


def federate_site(
    site: Site, schema: Schema, least: int = LEAST, independent: bool = False
) -> Federation:
    """Return a federation of one client: the site, encoded as all sites are.

    Values of fewer than `least` training rows are pooled first, see `rare_values`. With
    `independent` they are not, so that no row affects how another one is encoded, or whether.
    """
    check_encoder(site.data, site.client, schema.encoder)
    y, s = (
        _recode(codes, names, agreed)
        for codes, names, agreed in (
            (site.data.y, site.data.label_names, schema.labels),
            (site.data.s, site.data.group_names, schema.groups),
        )
    )
    known = (y >= 0) & (s >= 0)  # labels and groups that were agreed on
    train, test = (rows[known[rows]] for rows in (site.train, site.test))
    data = site.data
    if not independent:
        train = training_rows(data, train, least)
        data = pool_rare_values(data, [train], least, schema.encoder.names)
        check_scales(data, train, schema.encoder)
    data = replace(
        data,
        y=np.where(known, y, 0),
        s=np.where(known, s, 0),
        label_names=schema.labels,
        group_names=schema.groups,
        hidden=schema.hidden,
        formats=_with_empty_dates(site.data, schema),
    )
    none = np.zeros(0, dtype=np.int64)
    rows = (train,), (none,), (test,)
    part = Partition(data, *rows, pool=test, names=(site.name,), shared_conditional=False)
    return encoded(data, part, schema.encoder, schema.aware)


def _with_empty_dates(data: Dataset, schema: Schema) -> Formats:
    """Return the formats with those of columns that are dates elsewhere, and empty here."""
    names = [c for each in getattr(schema.encoder, "names", ()) for c in each]
    dates = {base_of(c)[0] for c in names if c not in data.frame} - {*data.formats.columns}
    return Formats({**dict.fromkeys(sorted(dates & {*data.frame}), DateFormat()),
                    **data.formats.columns})  # fmt: skip


def as_sites(federation: Federation, client: str = "", least: int = LEAST) -> Federation:
    """Return a federation as its clients would train on it as sites; `client` is no input."""
    data, part = federation.data, federation.partition
    train = tuple(training_rows(data, rows, least) for rows in part.train)
    named = enumerate(zip(train, part.names, strict=True))
    found = [describe(data, rows, name, i, client, least) for i, (rows, name) in named]
    schema, _ = agree(found)
    data = pool_rare_values(data, train, least, schema.encoder.names)
    part = replace(part, data=data, train=train)
    aware = federation.table.task.aware
    return encoded(data, part, schema.encoder, aware, federation.seed)


def _recode(codes: np.ndarray, names: tuple[str, ...], agreed: tuple[str, ...]) -> np.ndarray:
    """Translate a site's codes to the agreed ones; -1 for values that were not agreed on."""
    new = [agreed.index(name) if name in agreed else -1 for name in names]
    return np.asarray(np.array(new, dtype=np.int64)[codes])
