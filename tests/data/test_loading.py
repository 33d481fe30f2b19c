"""`load`: by name, by folder, by file; and what it refuses."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import made_faces
import pfedfair as pff
from pfedfair.data.tables.arrays import EmbeddingScaler, Pixels
from pfedfair.data.tables.encoder import Encoder, fit
from shared_faces import FACES, needs_faces

GENERATED = Path(__file__).parent / "images" / "faces" / "generated"


@pytest.fixture
def file(tmp_path):
    return made_faces.write(tmp_path / "staff.parquet", *made_faces.people())


def test_a_file_of_embeddings(file):
    data = pff.load(file, "smiling", "male")
    table, array = made_faces.people()
    np.testing.assert_array_equal(data.array, array)
    np.testing.assert_array_equal(data.y, table["smiling"])
    np.testing.assert_array_equal(data.s, table["male"])
    np.testing.assert_array_equal(data.held, table["split"] == "test")
    assert (data.name, data.settings, data.scaling) == ("staff", "images", "standard")
    assert data.raw_inputs is data.array
    assert pff.load(file, "smiling", "male", "whiten").scaling == "whiten"
    assert isinstance(fit(data, [np.arange(40)]), EmbeddingScaler)


def test_a_folder_of_images_as_pixels(tmp_path):
    folder = shutil.copytree(GENERATED, tmp_path / "generated")
    data = pff.load(folder, "bright", "side", pixels=16)
    assert data.array.shape == (48, 3, 16, 16)
    assert data.settings == "pixels"
    assert fit(data, [np.arange(40)]) == Pixels((3, 16, 16))


def test_faces_by_name(tmp_path):
    folder = made_faces.celeba(tmp_path)
    data = pff.load("celeba", folder=folder)
    assert (len(data), data.inputs, data.settings) == (240, "tiny", "celeba")
    shown = pff.load("celeba", folder=folder, with_images=True)
    np.testing.assert_array_equal(shown.array, data.array[:60])
    on_pixels = pff.load("celeba", folder=folder, pixels=8)
    np.testing.assert_array_equal(on_pixels.y, data.y[:60])
    assert on_pixels.settings == "pixels"


def test_a_table_has_columns_for_raw_inputs(table):
    assert table.raw_inputs is table.frame
    assert isinstance(fit(table, [np.arange(40), np.arange(40, 90)]), Encoder)


def test_models_of_images_do_not_get_s_unless_asked(file, table):
    plan = pff.partition.by_column("site")
    data = pff.load(file, "smiling", "male")
    assert not data.federate(plan).table.task.aware
    assert data.federate(plan, sensitive_as_input=True).table.task.aware
    assert table.federate(pff.partition.together()).table.task.aware


def test_a_digest_knows_the_array_the_labels_the_groups_and_who_is_held(file):
    data = pff.load(file, "smiling", "male")
    other = data.array.copy()
    other[5, 3] += 1
    changed = [
        replace(data, array=other),
        replace(data, y=1 - data.y),
        replace(data, s=1 - data.s),
        replace(data, held=None),
    ]
    assert replace(data, name="other", notes=("a note",)).digest == data.digest
    assert len({data.digest, *(one.digest for one in changed)}) == 5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("celebs", {}, r"Unknown data set 'celebs': did you mean 'celeba'\?"),
        ("celeba", {}, "Say where celeba is: folder=FOLDER"),
        ("celeba", {"folder": "f", "drop": ["x"]}, "'celeba' is made of images: leave out drop"),
        ("celeba", {"folder": "nowhere"}, "nowhere does not exist: name the folder"),
        ("adult", {"encoder": "clip"}, "'adult' has its own columns: leave out encoder"),
        ("adult", {"scaling": "whiten"}, "'adult' has no embeddings to scale: leave out scaling"),
        ("t.csv", {"pixels": 8}, r"t.csv is a table: leave out pixels"),
        ("t.csv", {"scaling": "whiten"}, "has no embeddings to scale"),
        ("staff.parquet", {"pixels": 8}, "staff.parquet holds embeddings: leave out pixels"),
        ("staff.parquet", {"drop": ["site"]}, "holds embeddings: leave out drop"),
        ("generated", {"folder": "f"}, "generated is a folder of images: leave out folder"),
        ("generated", {"categorical": ["f"]}, "is a folder of images: leave out categorical"),
        ("generated", {"pixels": 8, "scaling": "whiten"}, "has no embeddings to scale"),
        ("empty", {}, r"There is no .*manifest.csv: write one with a column 'file'"),
    ],
)
def test_refusals(name, options, message, tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [1, 2] * 9, "y": [0, 1] * 9, "s": [0, 0, 1] * 6}).to_csv("t.csv")
    shutil.copytree(GENERATED, "generated")
    Path("empty").mkdir()
    asked = {
        "generated": ("bright", "side"),
        "t.csv": ("y", "s"),
        "staff.parquet": ("smiling", "male"),
    }
    label, sensitive = asked.get(name, ("a", "b") if name == "empty" else (None, None))
    with pytest.raises(pff.InputError, match=message) as refusal:
        pff.load(name, label, sensitive, **options)
    assert "\n" not in str(refusal.value)


def test_a_file_without_a_label_asks_for_one(file):
    with pytest.raises(pff.InputError, match="say which column is the label"):
        pff.load(file)


@needs_faces
def test_the_shared_faces_have_the_rows_that_their_readme_counts():
    celeba, utkface, fairface = (
        pff.load(name, folder=FACES, encoder=encoder)
        for name, encoder in (
            ("celeba", "resnet50"), ("utkface", "facenet512"), ("fairface", "facenet512"),
        )
    )  # fmt: skip
    assert [d.array.shape for d in (celeba, utkface, fairface)] == [
        (18_000, 2048), (9_778, 512), (12_000, 512),
    ]  # fmt: skip
    held = celeba.held
    assert np.bincount(celeba.s[~held]).tolist() == [3600, 8400]
    assert np.bincount(celeba.s[held]).tolist() == [1800, 4200]
    assert (utkface.s.sum(), utkface.y.sum()) == (4372, 5265)
    assert fairface.s.sum() == 8700
    white = fairface.frame["White"] if "White" in fairface.frame else fairface.frame["white"]
    assert white.sum() == 2179
    for data in (celeba, utkface):  # the paper's clients, as many rows as there are
        part = pff.partition.fixed_shares().split(data, 0)
        assert len(part.names) == 10
        assert part.roles.count("underrepresented") == 2
    assert {len(rows) for rows in pff.partition.fixed_shares().split(celeba, 0).train} == {1200}
