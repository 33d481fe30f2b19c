"""Reading embeddings files of anybody."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfedfair._util.errors import InputError
from pfedfair.data.images.embed import read_embeddings

KINDS = {np.float16: pa.float16(), np.float32: pa.float32(), np.float64: pa.float64()}
ROWS = np.arange(12, dtype=np.float16).reshape(4, 3)


def column(rows, fixed=True, kind=np.float16):
    values = pa.array(rows.reshape(-1).astype(kind), KINDS[kind])
    if fixed:
        return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    return pa.ListArray.from_arrays(np.arange(0, rows.size + 1, rows.shape[1]), values)


def written(path, embedding, meta=None, group=2, **columns):
    table = pa.table({**columns, "embedding": embedding})
    if meta is not None:
        table = table.replace_schema_metadata({b"pfedfair": json.dumps(meta).encode()})
    pq.write_table(table, path, row_group_size=group, write_page_checksum=True)
    return path


@given(
    rows=arrays(
        np.float16,
        st.tuples(st.integers(1, 9), st.integers(1, 5)),
        elements=st.floats(-65504, 65504, width=16),
    ),
    fixed=st.booleans(),
    kind=st.sampled_from(list(KINDS)),
    group=st.integers(1, 9),
)
def test_any_kind_of_list_is_read(tmp_path_factory, rows, fixed, kind, group):
    path = tmp_path_factory.mktemp("it") / "e.parquet"
    written(path, column(rows, fixed, kind), group=group, male=list(range(len(rows))))
    frame, array, meta = read_embeddings(path)
    assert array.dtype == np.float16
    assert np.array_equal(array, rows)
    assert frame["male"].tolist() == list(range(len(rows)))
    assert list(frame) == ["male"]
    assert meta is None


def spoilt(value, kind=np.float16):
    rows = ROWS.astype(kind)
    rows[2, 1] = value
    return column(rows, kind=kind)


NAMES = ["a", "b", "c", "d"]
RAGGED = pa.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0]])
BAD = {
    "width": (RAGGED, None, {}, "embeddings of 2 numbers, but row 2 has 3.*two encoders"),
    "inf": (spoilt(np.inf), None, {}, "Row 2 of .* not finite or too large"),
    "nan": (spoilt(np.nan), None, {}, "Row 2 of .* not finite"),
    "large": (spoilt(1e6, np.float32), None, {}, "Row 2 of .* too large for float16"),
    "null": (pa.array([[1.0], None, [2.0], [1.0]]), None, {}, "no embedding in some row"),
    "null inside": (pa.array([[1.0], [None], [2.0], [1.0]]), None, {}, "lacks numbers"),
    "numbers": (pa.array([1.0, 2.0]), None, {}, "is double: it must have a list of float16"),
    "texts": (pa.array([["a"]] * 4), None, {}, "it must have a list of float16"),
    "twice": (column(ROWS), None, {"file": ["a", "b", "a", "d"]}, "has 1 images more than once: a"),
    "column": (
        column(ROWS),
        None,
        {"encoder": ["dinov2", "clip", "clip", "clip"]},
        r"two encoders are mixed in one file.*\(dinov2, clip\)",
    ),
    "list": (column(ROWS), [{"encoder": "a"}, {"encoder": "b"}], {}, "two encoders are mixed"),
    "names": (column(ROWS), {"encoder": ["a", "b"]}, {}, "two encoders are mixed"),
    "added": (column(ROWS), {"images": 3}, {}, "has 4 rows, but pfedfair embed wrote 3"),
    "said": (column(ROWS), {"width": 768}, {}, "says that embeddings have 768 numbers, but .* 3"),
    "meta": (column(ROWS), 3, {}, "metadata that cannot be read"),
    "none": (column(ROWS[:0]), None, {}, "has no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_have_their_sentence(tmp_path, case):
    embedding, meta, columns, sentence = BAD[case]
    path = written(tmp_path / "e.parquet", embedding, meta, **columns)
    with pytest.raises(InputError, match=sentence):
        read_embeddings(path)


def test_no_file_no_column_no_parquet(tmp_path):
    with pytest.raises(InputError, match="does not exist: make it with pfedfair embed"):
        read_embeddings(tmp_path / "absent.parquet")
    pq.write_table(pa.table({"embeding": [1]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"no column 'embedding' in .*did you mean 'embeding'"):
        read_embeddings(tmp_path / "e.parquet")
    (tmp_path / "e.parquet").write_text("file,embedding")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_embeddings(tmp_path / "e.parquet")
    noise = np.random.default_rng(0).standard_normal((1000, 50)).astype(np.float16)
    path = written(tmp_path / "cut.parquet", column(noise), group=500)
    content = bytearray(path.read_bytes())
    content[100:900] = bytes(800)
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read to its end"):
        read_embeddings(path)


def test_memory_is_little_more_than_the_embeddings(tmp_path):
    """60,000 x 512 float16 are 59 MB; one row group, as pandas writes them."""
    rows = np.random.default_rng(0).standard_normal((60_000, 512), np.float32).astype(np.float16)
    written(tmp_path / "e.parquet", column(rows), group=60_000)
    script = textwrap.dedent(f"""
        import resource
        from pathlib import Path
        from pfedfair.data.images.embed import read_embeddings
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        before = peak()
        _, array, _ = read_embeddings(Path({str(tmp_path / "e.parquet")!r}))
        print(peak() - before)
    """)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert float(found.stdout) < 59 + 60
