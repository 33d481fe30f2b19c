"""A newcomer's sensitive column: its capitals, its other name, and numbers that may mean either."""

import numpy as np
import pytest
import torch

import made_faces
import pfedfair as pff
from pfedfair.data.tables.aliases import select_sensitive
from pfedfair.runs import newcomer

TABLE, ARRAY = made_faces.people()
WORDS = np.where(TABLE["male"], "male", "female")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose groups are female and male in `gender`, as those of UTKFace and FairFace."""
    out = tmp_path_factory.mktemp("faces")
    table = TABLE.assign(gender=WORDS).drop(columns="male")
    data = pff.load(made_faces.write(out / "e.parquet", table, ARRAY), "smiling", "gender")
    sites = data.federate(pff.partition.by_column("site"))
    pff.train(sites, pff.methods.Transport(rounds=4, agree=1, alpha=0.02)).save(out / "run")
    return out / "run"


def rows(**columns):
    return TABLE[["file"]].assign(embedding=list(ARRAY), **columns)


@pytest.fixture(scope="module")
def usual(folder):
    return pff.personalise(folder, rows(gender=WORDS))


@pytest.mark.parametrize(
    "columns",
    [
        {"Gender": WORDS},
        {"male": TABLE["male"]},
        {"Male": TABLE["male"] == 1},
        {"male": TABLE["male"].astype(float)},
        {"gender": WORDS, "male": 1 - TABLE["male"]},  # its own name goes first
    ],
)
def test_the_column_is_found_by_other_names(folder, usual, columns):
    model = pff.personalise(folder, rows(**columns))
    assert torch.equal(model.predictor.rule.numbers, usual.predictor.rule.numbers)
    counted = newcomer.rates(model, rows(**columns), "gender")["rows"]
    assert counted.tolist() == [(group == WORDS).sum() for group in ("female", "male")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"Gender": TABLE["male"]}, "'Gender' has '1', which may mean either: write female or m"),
        ({"gender": TABLE["male"] == 1}, "'gender' has 'True', which may mean either"),
        ({"male": TABLE["male"] + 1}, "'male' has '2': write 1 for men and 0 for women"),
        ({"Gender": WORDS, "GENDER": WORDS}, "the columns Gender and GENDER: call"),
        ({"sex": WORDS}, "lack the column 'gender', the sensitive attribute"),
    ],
)
def test_what_may_mean_either_is_refused(folder, columns, message):
    with pytest.raises(pff.InputError, match=message):
        pff.personalise(folder, rows(**columns))


def test_numbers_that_the_run_itself_calls_gender_are_taken():
    given = select_sensitive(rows(Gender=TABLE["male"]), "gender", ("0", "1"))
    assert given["gender"].tolist() == TABLE["male"].tolist()
    both = select_sensitive(
        rows(male=TABLE["male"], race="a"), "race,gender", ("a x female", "a x male")
    )
    assert both["gender"].tolist() == WORDS.tolist()
