"""Identifier columns, if every site sees only its rows."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.engines.site.identifiers import drop_columns
from pfedfair.engines.site.schema import Description, Schema, agree, describe, difference

N = 120


def site(number, ids, encoding="piecewise", n=N, **options):
    rng = np.random.default_rng(number)
    frame = pd.DataFrame({
        "x": rng.normal(size=n).round(3), "income": rng.integers(10_000, 90_000, n),
        "who": ids, "y": np.arange(n) % 2, "s": np.arange(n) // 2 % 2,
    })  # fmt: skip
    data = pff.from_frame(frame, "y", "s", part=True, encoding=encoding, **options)
    return describe(data, np.arange(n), f"site {number}", number, "")


@pytest.mark.parametrize("encoding", ["piecewise", "standard"])
@pytest.mark.parametrize("kind", [int, str], ids=["numbers", "words"])
def test_what_looks_like_a_name_to_most_is_nobodys_input(encoding, kind):
    counted = [list(map(kind, range(1000 * k, 1000 * k + N))) for k in range(3)]
    if kind is str:
        counted = [[f"person {i}" for i in each] for each in counted]
    found = [site(k, ids, encoding) for k, ids in enumerate(counted)]
    assert all(one.identifiers == ("who",) for one in found)
    schema, refused = agree(found)
    assert not refused
    assert schema.left == ("who",)
    assert set(schema.agreed[1]) == {"x", "income"}  # an income may be of one person
    assert Schema.from_json(schema.to_json()) == schema
    late = site(7, counted[0], encoding)
    assert difference(schema.agreed, drop_columns(late, schema.left)) is None


def test_one_site_does_not_decide_for_the_others():
    """In a small table a scale may look like an identifier; there it stays an input."""
    rng = np.random.default_rng(0)
    found = [site(0, np.arange(N)), *(site(k, rng.integers(0, 20, N)) for k in (1, 2))]
    schema, refused = agree(found)
    assert not refused
    assert schema.left == ()
    assert "who" in schema.agreed[1]
    found[0] = replace(found[0], identifiers=("who", "x") * 50)  # one site has one vote
    assert agree(found)[0].left == ()
    words = [
        site(0, [f"note {i}" for i in range(N)]),
        *(site(k, ["a", "b", "c"] * 40) for k in (1, 2)),
    ]
    schema, refused = agree(words)
    assert refused == {
        "site 0": "column 'who' has another value in nearly every row, like a name, it should be a "
        "column of categories"
    }


def test_what_a_site_keeps_it_does_not_vote_against():
    assert site(0, np.arange(N), keep=["who"]).identifiers == ()
    assert site(0, np.arange(50), n=50).identifiers == ()  # too few to say


def test_a_vote_must_be_of_names():
    given = json.loads(site(0, np.arange(N)).to_json())
    for lie in ([{}], [1], [["who"]], "x"):
        with pytest.raises(ValueError, match="a description must have"):
            Description.from_json(json.dumps(given | {"identifiers": lie}))


def test_a_liar_alone_drops_no_column():
    rng = np.random.default_rng(0)
    found = [site(k, rng.integers(0, 20, N)) for k in range(3)]
    found[0] = replace(found[0], identifiers=("x", "income", "who"))
    assert agree(found)[0].left == ()
