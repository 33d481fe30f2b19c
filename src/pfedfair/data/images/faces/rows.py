"""Create a data set from a folder of faces: rows, inputs and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.images.faces import inputs
from pfedfair.data.images.faces.labels import (
    Labels,
    absent,
    describe,
    group_codes,
    label_codes,
    missing_labels,
    resolve,
    whole_numbers,
)
from pfedfair.data.images.faces.layout import Options, Source, count
from pfedfair.data.images.faces.pixels import read_pixels
from pfedfair.data.images.faces.split import by_split
from pfedfair.data.images.faces.staleness import stale

Held = tuple[np.ndarray | None, tuple[str, ...]]


class Rows(NamedTuple):
    """Rows of a folder, sorted by file."""

    table: pd.DataFrame
    array: np.ndarray
    inputs: str
    label: str
    sensitive: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """The label and the sensitive columns, as the user wrote them."""

    label: str
    sensitive: tuple[str, ...]

    @classmethod
    def of(cls, label: str, sensitive: str) -> Columns:
        return cls(label, tuple(sensitive.split(",")))

    def resolve(self, table: pd.DataFrame, labels: Labels, source: Source) -> tuple[str, ...]:
        label, *groups = (
            resolve(name, table, labels, source) for name in (self.label, *self.sensitive)
        )
        if label in groups:
            raise InputError(
                f"Column '{label}' cannot be both the label and the sensitive attribute."
            )
        return label, *groups


def read_rows(source: Source, labels: Labels, wanted: Columns, options: Options) -> Rows:
    """Read the embeddings or pixels of a folder, and the labels of the same rows."""
    if options.pixels is not None:
        return _from_images(source, labels, wanted, options)
    found = inputs.candidates(source)
    if options.with_images and source.files:
        found = inputs.by_images(found, source)
    if not found and not source.files:
        raise InputError(
            f"There are no images and no embeddings of {source.name} in {source.folder}: it needs "
            f"{labels.layout}, or a .parquet file with the columns file and embedding."
        )
    file, notes = inputs.choose(found, options.encoder)
    if file is None:
        if options.encoder is None or not source.files:
            raise inputs.no_embeddings(source, found, options.encoder)
        table, _, label_notes = _labelled(source, labels, wanted, options, None)  # before long work
        file, notes = inputs.compute(source, table["file"].tolist(), options), label_notes
    columns, array, reading = inputs.read(file, source)
    reading = (*reading, *stale(source, file.path, columns))
    table, disagree = describe(labels, columns["file"].tolist(), columns)
    names = wanted.resolve(table, labels, source)
    known, unlabelled = missing_labels(table, names, source, labels, options.skip_missing)
    notes = (*notes, *reading, *disagree, *unlabelled)
    if options.with_images:
        if not source.files:
            raise InputError(f"There are no images of {source.name} in {source.folder}.")
        known = known & table["file"].isin(source.files).to_numpy()
    if number := _without_row(source, labels, table["file"]):
        has = "has" if number == 1 else "have"
        message = f"{count(number, 'image')} in {source.images} {has} no row in {file.path.name}."
        notes = (*notes, message)
    return _make_rows(table, array, known, file.encoder, names, notes, source)


def _without_row(source: Source, labels: Labels, files: pd.Series[str]) -> int:
    """Count the images of the data set that are not in an embeddings file."""
    rest = sorted(set(source.files) - set(files))
    if labels.in_names and rest:
        return int(labels.of(rest).notna().any(axis=1).sum())
    return len(rest)


def _from_images(source: Source, labels: Labels, wanted: Columns, options: Options) -> Rows:
    assert options.pixels is not None
    if not source.files:
        raise InputError(f"There are no images of {source.name} in {source.folder}.")
    assert source.images is not None
    assert source.home is not None
    columns = _stored_columns(source)
    table, names, notes = _labelled(source, labels, wanted, options, columns)
    side = options.pixels
    files = table["file"].tolist()
    array, readable, unread = read_pixels(source.images, files, side, source.home, options.on_work)
    if not len(readable):
        raise InputError(unread[-1])
    table = table.iloc[readable].reset_index(drop=True)
    known = np.ones(len(table), bool)
    return _make_rows(
        table, array, known, f"pixels {side}x{side}", names, (*notes, *unread), source
    )


def _labelled(
    source: Source, labels: Labels, wanted: Columns, options: Options, columns: pd.DataFrame | None
) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Return the attributes of the images, the names of label and S, and notes."""
    gone = absent(source, labels, options.skip_missing)
    table, disagree = describe(labels, source.files, columns)
    names = wanted.resolve(table, labels, source)
    known, unlabelled = missing_labels(table, names, source, labels, options.skip_missing)
    return table[known].reset_index(drop=True), names, (*gone, *disagree, *unlabelled)


def _stored_columns(source: Source) -> pd.DataFrame | None:
    """Return the columns of an embeddings file for the images, if possible of all of them."""
    best: pd.DataFrame | None = None
    for file in inputs.candidates(source):
        names = [c for c in pq.read_schema(file.path).names if c != "embedding"]
        frame = pq.read_table(file.path, columns=names).to_pandas()
        frame.index = pd.Index(frame["file"].astype(str).map(source.key))
        if frame.index.duplicated().any():
            continue
        covers = frame.index.isin(source.files).sum() == len(source.files)
        if covers or best is None:
            best = frame.reindex(list(source.files))
        if covers:
            break
    return best


def _make_rows(
    table: pd.DataFrame,
    array: np.ndarray,
    known: np.ndarray,
    what: str,
    names: Sequence[str],
    notes: tuple[str, ...],
    source: Source,
) -> Rows:
    if not known.any():
        raise InputError(f"No row of {source.name} in {source.folder} has both a label and inputs.")
    if not known.all():
        table, array = table[known].reset_index(drop=True), array[known]
    return Rows(whole_numbers(table), array, what, names[0], tuple(names[1:]), notes)


def build(
    rows: Rows,
    name: str,
    labels: Labels,
    options: Options,
    hold_out: Callable[[pd.DataFrame], Held] = by_split,
    plan: Callable[..., tuple[PaperPlan | None, tuple[str, ...]]] | None = None,
    settings: str = "images",
) -> Dataset:
    """Encode labels and groups, and hold out the test rows."""
    y, label_names = label_codes(rows.table, rows.label, labels.words)
    s, group_names = group_codes(rows.table, rows.sensitive, labels.words, options.merge_groups)
    held, split_notes = hold_out(rows.table)
    paper, scaled = plan(s, held) if plan and group_names == ("female", "male") else (None, ())
    return Dataset(
        name=name,
        frame=rows.table,
        y=y,
        s=s,
        numeric=(),
        categorical={},
        label_names=label_names,
        group_names=group_names,
        label_column=rows.label,
        sensitive_column=",".join(rows.sensitive),
        hidden=(),
        paper_plan=paper,
        settings=settings,
        array=rows.array,
        inputs=rows.inputs,
        held=held,
        aware=False,
        notes=(*rows.notes, *split_notes, *scaled),
    )
