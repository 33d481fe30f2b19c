"""From a folder of faces to a data set: rows, inputs and labels together."""

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
class Asked:
    """The label and the sensitive columns, as the user wrote them."""

    label: str
    sensitive: tuple[str, ...]

    @classmethod
    def of(cls, label: str, sensitive: str) -> Asked:
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


def read_rows(source: Source, labels: Labels, asked: Asked, options: Options) -> Rows:
    """Read the embeddings or pixels of a folder, and the labels of the same rows."""
    if options.pixels is not None:
        return _from_images(source, labels, asked, options)
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
        table, _, more_notes = _labelled(source, labels, asked, options, None)  # before long work
        file, notes = inputs.compute(source, table["file"].tolist(), options), more_notes
    columns, array, more = inputs.read(file, source)
    more = (*more, *stale(source, file.path, columns))
    table, disagree = describe(labels, columns["file"].tolist(), columns)
    names = asked.resolve(table, labels, source)
    known, unlabelled = missing_labels(table, names, source, labels, options.skip_missing)
    notes = (*notes, *more, *disagree, *unlabelled)
    if options.with_images:
        if not source.files:
            raise InputError(f"There are no images of {source.name} in {source.folder}.")
        known = known & table["file"].isin(source.files).to_numpy()
    if left := _without_row(source, labels, table["file"]):
        has = "has" if left == 1 else "have"
        message = f"{count(left, 'image')} in {source.images} {has} no row in {file.path.name}."
        notes = (*notes, message)
    return _kept(table, array, known, file.encoder, names, notes, source)


def _without_row(source: Source, labels: Labels, files: pd.Series[str]) -> int:
    """Count the images of the data set that an embeddings file does not have."""
    left = sorted(set(source.files) - set(files))
    if labels.in_names and left:
        return int(labels.of(left).notna().any(axis=1).sum())
    return len(left)


def _from_images(source: Source, labels: Labels, asked: Asked, options: Options) -> Rows:
    assert options.pixels is not None
    if not source.files:
        raise InputError(f"There are no images of {source.name} in {source.folder}.")
    assert source.images is not None
    assert source.home is not None
    columns = _beside(source)
    table, names, notes = _labelled(source, labels, asked, options, columns)
    side = options.pixels
    files = table["file"].tolist()
    array, whole, more_notes = read_pixels(source.images, files, side, source.home, options.on_work)
    if not len(whole):
        raise InputError(more_notes[-1])
    table = table.iloc[whole].reset_index(drop=True)
    known = np.ones(len(table), bool)
    return _kept(table, array, known, f"pixels {side}x{side}", names, (*notes, *more_notes), source)


def _labelled(
    source: Source, labels: Labels, asked: Asked, options: Options, columns: pd.DataFrame | None
) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """What is known of the images that are there, the columns that are asked for, and notes."""
    gone = absent(source, labels, options.skip_missing)
    table, disagree = describe(labels, source.files, columns)
    names = asked.resolve(table, labels, source)
    known, unlabelled = missing_labels(table, names, source, labels, options.skip_missing)
    return table[known].reset_index(drop=True), names, (*gone, *disagree, *unlabelled)


def _beside(source: Source) -> pd.DataFrame | None:
    """Columns of an embeddings file for the images that are there: all of them, if one has them."""
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


def _kept(
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
    held: Callable[[pd.DataFrame], Held] = by_split,
    plan: Callable[..., tuple[PaperPlan | None, tuple[str, ...]]] | None = None,
    settings: str = "images",
) -> Dataset:
    """Code labels and groups, and hold out the rows that are for the test."""
    y, label_names = label_codes(rows.table, rows.label, labels.words)
    s, group_names = group_codes(rows.table, rows.sensitive, labels.words, options.merge_groups)
    out, more_notes = held(rows.table)
    paper, scaled = plan(s, out) if plan and group_names == ("female", "male") else (None, ())
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
        held=out,
        aware=False,
        notes=(*rows.notes, *more_notes, *scaled),
    )
