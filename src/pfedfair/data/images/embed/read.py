"""Read a file of embeddings, in little more memory than the embeddings need."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from pfedfair._util.errors import InputError, has_column
from pfedfair._util.files import first_line
from pfedfair._util.limits import check_parquet, parse_json, regular
from pfedfair.data.images.embed.listing import SHOWN, printable
from pfedfair.data.images.embed.write import KEY

COLUMN = "embedding"
AT_ONCE = 16_384  # rows
MIXED = "two encoders are mixed in one file: embed all images with one of them"


def read_embeddings(path: Path) -> tuple[pd.DataFrame, np.ndarray, dict[str, Any] | None]:
    """Return the other columns, the embeddings (n, width) as float16, and the metadata if any."""
    path = Path(path)
    with _opened(path) as file:
        schema = file.schema_arrow
        has_column(COLUMN, schema.names, f"in {path}")
        width = _width(path, schema.field(COLUMN).type)
        meta = metadata(path)
        frame = read_columns(path, [name for name in schema.names if name != COLUMN])
        _check_one_encoder(path, frame, meta)
        _check_names(path, frame)
        array = _filled(path, file, width)
    if meta is not None and meta.get("width", array.shape[1]) != array.shape[1]:
        raise InputError(
            f"{path} says that embeddings have {meta['width']} numbers, but they have "
            f"{array.shape[1]}: write it again with pfedfair embed."
        )
    return frame, array, meta


def metadata(path: Path) -> dict[str, Any] | None:
    """Return what `embed` wrote about a file, or None if it did not write it."""
    with _opened(path) as file:
        found = (file.schema_arrow.metadata or {}).get(KEY)
    if found is None:
        return None
    try:
        about = parse_json(found)
    except ValueError as error:
        raise InputError(f"{path} has metadata that cannot be read: write it again.") from error
    if isinstance(about, list) and len({_encoder(one) for one in about}) > 1:
        raise InputError(f"{path}: {MIXED}.")
    about = about[0] if isinstance(about, list) and about else about
    if not isinstance(about, dict):
        raise InputError(f"{path} has metadata that cannot be read: write it again.")
    return about


def read_columns(path: Path, columns: list[str]) -> pd.DataFrame:
    with _opened(path) as file:
        frame: pd.DataFrame = file.read(columns=columns).to_pandas()
        return frame


def _opened(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(
            regular(path), buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
        )
        check_parquet(path, file.metadata)
        return file
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: make it with pfedfair embed.") from error
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} is not a readable Parquet file ({first_line(error)}).") from error


def _encoder(about: Any) -> Any:
    return about.get("hash", about.get("encoder")) if isinstance(about, dict) else str(about)


def _check_one_encoder(path: Path, frame: pd.DataFrame, meta: dict[str, Any] | None) -> None:
    if "encoder" in frame and frame["encoder"].nunique(dropna=False) > 1:
        raise InputError(f"{path}: {MIXED} ({', '.join(map(str, frame['encoder'].unique()[:3]))}).")
    if meta is None:
        return
    if isinstance(meta.get("encoder"), list) or isinstance(meta.get("hash"), list):
        raise InputError(f"{path}: {MIXED}.")
    if len(frame) > meta.get("images", len(frame)):
        raise InputError(
            f"{path} has {len(frame)} rows, but pfedfair embed wrote {meta['images']}: rows of "
            "other files were added, perhaps of another encoder; embed all images at once."
        )


def _check_names(path: Path, frame: pd.DataFrame) -> None:
    if "file" not in frame:
        return
    twice = frame["file"][frame["file"].duplicated()]
    if len(twice):
        first = ", ".join(printable(str(name)) for name in twice.unique()[:SHOWN])
        raise InputError(
            f"{path} has {len(twice)} images more than once: {first}; leave one row of each."
        )


def _width(path: Path, kind: pa.DataType) -> int | None:
    """Return the width if the type says it; refuse what is not a list of numbers."""
    listed = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    if not listed or not kinds.is_floating(kind.value_type):
        raise InputError(
            f"The column '{COLUMN}' of {path} is {kind}: it must have a list of float16, float32 "
            "or float64 in each row."
        )
    return kind.list_size if kinds.is_fixed_size_list(kind) else None


def _filled(path: Path, file: pq.ParquetFile, width: int | None) -> np.ndarray:
    rows, at, array = file.metadata.num_rows, 0, None
    try:
        for batch in file.iter_batches(AT_ONCE, columns=[COLUMN], use_threads=False):
            lists = batch.column(0)
            if lists.null_count:
                raise InputError(f"{path} has no embedding in some row from {at} on: embed again.")
            width = _same_width(path, lists, width, at)
            if array is None:
                array = np.empty((rows, width), np.float16)
            array[at : at + len(lists)] = _numbers(path, lists, width, at)
            at += len(lists)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read to its end ({first_line(error)}).") from error
    if array is None:
        raise InputError(f"{path} has no rows: embed a folder with images.")
    return array


def _same_width(path: Path, lists: Any, width: int | None, at: int) -> int:
    if kinds.is_fixed_size_list(lists.type):
        return int(lists.type.list_size)
    widths = lists.value_lengths().to_numpy()
    wanted = int(widths[0]) if width is None else width
    if (widths != wanted).any():
        row = int(np.argmax(widths != wanted))
        raise InputError(
            f"{path} has embeddings of {wanted} numbers, but row {at + row} has {widths[row]}: "
            "perhaps two encoders are mixed in one file."
        )
    return wanted


def _numbers(path: Path, lists: Any, width: int, at: int) -> np.ndarray:
    values = lists.flatten()
    if values.null_count:
        raise InputError(f"{path} lacks numbers in embeddings from row {at} on: embed again.")
    with np.errstate(over="ignore"):
        numbers = values.to_numpy(zero_copy_only=False).reshape(len(lists), width)
        halves: np.ndarray = numbers.astype(np.float16)
    bad = (halves.view(np.uint16) & 0x7C00 == 0x7C00).any(1)  # infinite or not a number
    if bad.any():
        raise InputError(
            f"Row {at + int(np.argmax(bad))} of {path} has numbers that are not finite or too "
            "large for float16: embed that image again, or scale the embeddings."
        )
    return halves
