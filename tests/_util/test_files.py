"""Errors of the system name the file that was to be written, not a temporary one."""

import errno

import pytest

from pfedfair._util.files import atomic


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left (os error 28)"),
    ],
)
def test_a_full_disk_names_the_file(tmp_path, error):
    path = tmp_path / "table.csv"
    with pytest.raises(OSError, match="No space left on device") as refusal, atomic(path):
        raise error
    assert refusal.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyError("x"), FileNotFoundError(2, "No such file", "other")])
def test_other_errors_stay_as_they_are(tmp_path, error):
    with pytest.raises(type(error)) as refusal, atomic(tmp_path / "table.csv"):
        raise error
    assert refusal.value is error
