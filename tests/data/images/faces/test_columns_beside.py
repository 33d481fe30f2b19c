"""Columns of an embeddings file that cannot be read are refused by name."""

import numpy as np
import pandas as pd
import pytest

import face_folders
from pfedfair._util.errors import InputError
from pfedfair.data.images import faces
from pfedfair.data.images.faces import demographics

FILES = [f"{n}.jpg" for n in range(4)]
GOOD = {"gender": ["male", "Female", "male", "female"], "white": [1, 0, 0, 1]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"gender": [0, 1, 1, 0]}, "'gender' of the embeddings file has '0', .*male or female"),
        ({"gender": ["male", "1", "0", "male"]}, "'gender' of the embeddings file has '1'"),
        ({"gender": [True, False, True, False]}, "'gender' of the embeddings file has 'True'"),
        ({"gender": None, "Male": ["1", "0", "yes", "no"]}, "'Male' .* has 'yes', .*1 or 0"),
        ({"white": [None, "x", "0", "1"]}, "'white' .* has 'x'"),
        ({"white": None, "race": [0, 1, 2, 0]}, "'race' .* has '0', .*such as White"),
    ],
)
def test_values_of_people_that_cannot_be_read(tmp_path, columns, message):
    given = {name: values for name, values in (GOOD | columns).items() if values is not None}
    face_folders.embeddings(tmp_path / "e.parquet", FILES, given)
    with pytest.raises(InputError, match=message):
        faces.load("fairface", tmp_path)


def test_text_in_an_attribute_of_celeba(tmp_path):
    columns = {"male": [1, 0, 1, 0], "Smiling": ["1", "-1", "smile", "1"]}
    face_folders.embeddings(tmp_path / "e.parquet", FILES, columns)
    with pytest.raises(InputError, match=r"'Smiling' .* has 'smile', which cannot be read"):
        faces.load("celeba", tmp_path)


def test_empty_cells_are_empty_not_female():
    frame = pd.DataFrame({"male": ["1", "", None, "-1"], "race": ["white"] * 4})
    table = demographics.read_columns(frame)
    assert table["gender"].fillna("?").tolist() == ["male", "?", "?", "female"]
    assert table["White"].tolist() == [1, 1, 1, 1]
    flags = demographics.read_columns(pd.DataFrame({"male": [True, False], "white": [1, np.nan]}))
    assert flags["gender"].tolist() == ["male", "female"]
    assert flags["White"].fillna(-1).tolist() == [1, -1]
