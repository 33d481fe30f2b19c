"""A site's rows: where they are, which of them are for training, and how all sites encode them."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data import Dataset, from_frame, load
from pfedfair.data.tables.arrays import COLUMN, unfold
from pfedfair.data.tables.dates import base_of
from pfedfair.data.tables.piecewise import EMPTY, LEAST, Piecewise
from pfedfair.data.tables.reading import read_table
from pfedfair.engines.site.missing_columns import is_empty, midnight
from pfedfair.engines.site.rare_values import blended, numbers, trained_on
from pfedfair.engines.site.schema import Schema, agree, describe
from pfedfair.engines.site.secrets import row_marks, secret_of
from pfedfair.engines.site.settings import Config
from pfedfair.federation import Federation, encoded
from pfedfair.partition import Partition, Plan, choose

TEST_PART = 0.25


@dataclass(frozen=True, eq=False)
class Site:
    """A site's table, and which of its rows are for training; `client` is no input."""

    name: str
    place: int
    data: Dataset
    train: np.ndarray
    test: np.ndarray
    client: str = ""
    folder: Path = Path()

    @cached_property
    def secret(self) -> bytes:
        """What only this site knows, see `secret`."""
        return secret_of(self.folder)

    @cached_property
    def marks(self) -> np.ndarray:
        """Secret numbers of all rows, see `row_marks`."""
        return row_marks(self.data.frame, self.secret)


def read_site(node: Config, run: Config) -> Site:
    """Read the rows of a site as its own settings say.

    With a ``partition-id`` it is one client of a data set that everybody has, for trying out.
    """
    where = node if "data" in node else {**run, **node}
    if not where.get("data"):
        raise InputError(
            "This site has no data: say in its settings where they are, such as "
            "data='site.parquet' label='y' sensitive='sex'."
        )
    trial = "partition-id" in node
    if trial:
        site, dealt = _partition(where, node, int(run["seed"])), True
    else:
        site, dealt = _own_table(where)
    name = str(node.get("site") or site.name)
    site = replace(site, name=name, folder=folder_of(node, where, name))
    return site if dealt else _held_out(site, where)


def folder_of(node: Config, where: Config, name: str) -> Path:
    """Where the site of this name keeps what is its own."""
    state = Path(str(where.get("state-dir") or "pfedfair-sites"))
    return state if "state-dir" in node else state / name


def _held_out(site: Site, where: Config) -> Site:
    """Hold out some rows for the test: each by a coin of its own, that only the site knows.

    One row more or less changes no other row's place, and a row has it in every run.
    """
    part = float(where.get("test-part", TEST_PART))
    if not 0 <= part < 1:
        raise InputError(f"test-part must be at least 0 and less than 1, got {part:g}.")
    coin = seeds.coins(site.marks, 0, seeds.PARTITION) < part
    return replace(site, train=np.flatnonzero(~coin), test=np.flatnonzero(coin))


def _own_table(where: Config) -> tuple[Site, bool]:
    """The table, and whether it says which rows are for training."""
    path = Path(str(where["data"]))
    label, sensitive = str(where.get("label") or ""), str(where.get("sensitive") or "")
    if not label or not sensitive:
        raise InputError(f"For {path}, say which column is the label and the sensitive one.")
    held = where.get("test")
    tables = [read_table(Path(str(name))) for name in (path, held) if name]
    frame = pd.concat(tables, ignore_index=True)
    drop, categorical, keep = (_words(where.get(k)) for k in ("drop", "categorical", "keep"))
    images = COLUMN in frame
    if images:  # what stands beside embeddings is not an input
        drop = tuple(c for c in map(str, frame) if c not in (label, COLUMN, *sensitive.split(",")))
        frame = unfold(frame)
    encoding = "standard" if images else str(where.get("encoding") or "piecewise")
    data = from_frame(
        frame, label, sensitive, path.stem, drop, categorical, part=True, keep=keep,
        encoding=encoding,
    )  # fmt: skip
    marked: np.ndarray | None = None
    if images:
        marked, notes = (None, ()) if held else _marked(tables[0], where)
        data = replace(data, hidden=(), notes=(*data.notes, *notes))
    train, test = np.split(np.arange(len(data)), [len(tables[0])])
    if marked is not None:
        train, test = np.flatnonzero(~marked), np.flatnonzero(marked)
    return Site(path.stem, 0, data, train, test), bool(held) or marked is not None


def _marked(table: pd.DataFrame, where: Config) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Which rows beside embeddings a column `split` calls "test", if it calls some so."""
    from pfedfair.data.images.faces.split import by_split

    marked, notes = by_split(table)
    if marked is not None and "test-part" in where:
        raise InputError(
            f"The column 'split' of {where['data']} says which rows are for the test: leave out "
            "test-part, or the column."
        )
    return marked, notes


def _partition(where: Config, node: Config, seed: int) -> Site:
    number, total = int(node["partition-id"]), int(node.get("num-partitions", 0))
    columns: dict[str, Any] = {k: where[k] or None for k in ("label", "sensitive") if k in where}
    columns |= {k: _words(where[k]) for k in ("drop", "categorical", "keep") if where.get(k)}
    columns["encoding"] = where.get("encoding") or None
    if where.get("merge-groups"):
        columns["merge_groups"] = True
    if where.get("skip-missing"):
        columns["skip_missing"] = True
    columns |= {k: where[k] or None for k in ("folder", "encoder") if k in where}
    data = load(str(where["data"]), **columns).unfolded()
    plan = make_plan(where, total or None, data)
    part = plan.split(data, seed)
    if not 0 <= number < len(part.names):
        raise InputError(f"partition-id must be between 0 and {len(part.names) - 1}, got {number}.")
    rows = part.train[number], part.test[number]
    return Site(part.names[number], number, data, *rows, client=plan.column or "")


def make_plan(where: Config, clients: int | None, data: Dataset) -> Plan:
    """Return how a data set is dealt to sites: by the paper's own plan where it has as many."""
    way, rows = str(where.get("partition") or "fixed"), int(where.get("rows") or 0) or None
    own = data.client if way in ("fixed", "column") else ""  # clients that the data set has
    column = str(where.get("client") or own) or None
    paper = data.paper_plan
    usual = paper is not None and rows is None and clients == paper.n_under + paper.n_over
    if column is not None or way == "together" or (usual and way == "fixed"):
        clients = None
    return choose(way, data, clients, rows, column)


def federate_site(
    site: Site, schema: Schema, least: int = LEAST, alone: bool = False
) -> Federation:
    """Return a federation of one client: the site, encoded as all sites are.

    What fewer than `least` of its training rows have is put together first (`few`); or each row is
    taken `alone`, as it is, so that no row has a say in what another counts as.
    """
    _check_columns(site, schema)
    y, s = (
        _recoded(codes, own, agreed)
        for codes, own, agreed in (
            (site.data.y, site.data.label_names, schema.labels),
            (site.data.s, site.data.group_names, schema.groups),
        )
    )
    known = (y >= 0) & (s >= 0)  # of labels and groups that all sites have agreed on
    train, test = (rows[known[rows]] for rows in (site.train, site.test))
    data = site.data
    if not alone:
        train = trained_on(data, train, least)
        data = blended(data, [train], least, site.client)
    data = replace(
        data,
        y=np.where(known, y, 0),
        s=np.where(known, s, 0),
        label_names=schema.labels,
        group_names=schema.groups,
        hidden=schema.hidden,
    )
    nobody = np.zeros(0, dtype=np.int64)
    rows = (train,), (nobody,), (test,)
    part = Partition(data, *rows, pool=test, names=(site.name,), shared_conditional=False)
    found = encoded(data, part, schema.encoder, schema.aware)
    return found if alone else _placed(found, least)


def _check_columns(site: Site, schema: Schema) -> None:
    """Refuse columns that are no inputs here: a server could ask for what the site has dropped."""
    data = site.data
    columns = zip(schema.encoder.names, (data.numeric, data.categorical), strict=True)
    odd = [c for asked, own in columns for c in asked if c not in own or c == site.client]
    inputs = {*data.numeric, *data.categorical} - {site.client}
    odd = [c for c in odd if base_of(c)[0] not in inputs or not is_empty(data, base_of(c)[0])]
    odd = [c for c in odd if not midnight(c, data.categorical)]
    if odd:
        raise InputError(f"The run asks for the column '{odd[0]}', which is no such input here.")


def _placed(federation: Federation, least: int) -> Federation:
    """Put few people together once more, by the agreed knots: the server could choose such."""
    if not isinstance(federation.encoder, Piecewise) or least <= 1:
        return federation
    x = federation.table.x.clone()
    for rows in federation.partition.train:
        for k in range(len(federation.encoder.numbers)):
            places = x[rows, k].double().numpy()
            found = numbers(np.where(places == EMPTY, np.nan, places), least)
            x[rows, k] = torch.from_numpy(np.where(np.isnan(found), EMPTY, found)).float()
    return replace(federation, table=federation.table._replace(x=x))


def as_sites(federation: Federation, client: str = "", least: int = LEAST) -> Federation:
    """The same people, as sites train on them and encode them by what each of them tells.

    The column `client` is no input.
    """
    data, part = federation.data, federation.partition
    train = tuple(trained_on(data, rows, least) for rows in part.train)
    told = zip(train, part.names, strict=True)
    found = [describe(data, rows, name, i, client, least) for i, (rows, name) in enumerate(told)]
    schema, _ = agree(found)
    data = blended(data, train, least, client)
    part = replace(part, data=data, train=train)
    aware = federation.table.task.aware
    return _placed(encoded(data, part, schema.encoder, aware, federation.seed), least)


def _recoded(codes: np.ndarray, own: tuple[str, ...], agreed: tuple[str, ...]) -> np.ndarray:
    """Number a site's values as all sites do; -1 for those that were not agreed on."""
    places = [agreed.index(name) if name in agreed else -1 for name in own]
    return np.asarray(np.array(places, dtype=np.int64)[codes])


def _words(text: Any) -> tuple[str, ...]:
    return tuple(word.strip() for word in str(text or "").split(",") if word.strip())
