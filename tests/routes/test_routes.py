"""The same row has the same decision, whatever the file and the route.

Each test trains on one kind of cells in one format and decides on the same rows by every route of
`ways`. ``-k "thousands"`` selects kinds by their names.
"""

import os
import warnings
from collections import Counter

import numpy as np
import pytest
import ways
import writers
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kinds import CONTRADICTIONS, KINDS, SAME
from ways import RefusedError, Run, Trainer, by_file, difference, failures, outcome

import pfedfair as pff

pytestmark = pytest.mark.filterwarnings("ignore")
both = [pytest.param(kind, trained, id=f"{kind.name}, trained on {trained}")
        for kind in KINDS for trained in kind.trained]  # fmt: skip


@pytest.fixture(scope="session")
def trainer(tmp_path_factory):
    return Trainer(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(("kind", "trained"), both)
def test_the_same_decision_by_every_route(kind, trained, trainer, tmp_path, pfedfair):
    wrong = failures(kind, trained, trainer, tmp_path, pfedfair)
    if wrong:
        pytest.fail("\n".join([f"{kind}, trained on {trained}", *wrong]), pytrace=False)


@pytest.mark.parametrize("route", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("kind", CONTRADICTIONS, ids=str)
def test_cells_that_contradict_training_are_refused_unless_forced(
    kind, route, trainer, tmp_path, pfedfair
):
    run = trainer.prepare(kind, "csv")
    with pytest.raises(RefusedError, match=r"\bk\b"):
        by_file(run, route, tmp_path, pfedfair)
    found = by_file(run, route, tmp_path, pfedfair, "--force")
    assert len(found) == (ways.SHEET if route == "xlsx" else len(run.rows))
    assert (found["decision"] != "").all()
    assert "k" in found.attrs["said"].replace("--keep", "")


INPUTS = [kind for kind in KINDS if kind.role == "input" and kind.method == "newton"
          and kind.new is None and not kind.dialect]  # fmt: skip
TABLES = max(int(os.environ.get("FUZZ_TABLES", "100")) // 10, 1)
PICKED = [route for route in ways.ROUTES["csv"] if route not in ("run", "few, comma")]


@settings(
    max_examples=TABLES,
    suppress_health_check=list(HealthCheck),
    phases=list(Phase) if "FUZZ_TABLES" in os.environ else [Phase.explicit, Phase.generate],
)
@given(
    kinds=st.lists(st.sampled_from(INPUTS), min_size=2, max_size=5, unique_by=str),
    trained=st.sampled_from(["csv", "parquet"]),
    routes=st.lists(st.sampled_from(PICKED), min_size=2, max_size=2, unique=True),
    gaps=st.sampled_from([0.0, 0.1]),
    encoding=st.sampled_from(["piecewise", "standard"]),
    seed=st.integers(0, 99),
)
def test_tables_of_several_kinds(
    kinds, trained, routes, gaps, encoding, seed, tmp_path_factory, pfedfair
):
    """Kinds that must agree by both routes do so beside others, and with missing values."""
    fine = [kind for kind in kinds if all(kind.expected(trained, r) == SAME for r in routes)]
    if not fine:
        return
    folder = tmp_path_factory.mktemp("several")
    rows = writers.join(fine, seed, gaps=gaps)
    names = [name for name in rows.columns if name.startswith("k")]
    options = {
        key: ",".join(name if len(fine) > 1 else "k" for name, kind in zip(names, fine, strict=True)
                      if key in kind.options)
        for key in ("categorical", "keep", "drop")
    }  # fmt: skip
    plain = writers.numbered(fine)
    plain = ways.replace(plain, options={key: text for key, text in options.items() if text})
    trainer = Trainer(folder)
    run = Run(trainer.run(rows, plain, trained, encoding=encoding), plain, trained, rows, True)
    truth = outcome(run, "run", folder, pfedfair, None)
    wrong = []
    for route in routes:
        try:
            found = outcome(run, route, folder, pfedfair, truth)
        except RefusedError as refusal:
            wrong.append(f"{route}: refused: {refusal}")
            continue
        if differs := difference(truth, found, route, rows):
            wrong.append(f"{route}: {differs}")
    if wrong:
        pytest.fail("\n".join([", ".join(map(str, fine)), *wrong]), pytrace=False)


typed = [kind for kind in INPUTS if kind.expected("parquet", "csv") == SAME
         and any(text != value for text, value in kind.cells)]  # fmt: skip


@pytest.mark.parametrize("kind", typed, ids=str)
def test_the_classifier_scores_texts_as_typed_values(kind):
    """`FairFederatedClassifier` is fitted on typed values; a frame of texts has the same scores."""
    rows = writers.make(kind)
    frame, texts = rows.frame("typed"), rows.frame("texts")
    names = ["x"] if "drop" in kind.options else ["x", "k"]
    given = {"sensitive_features": frame["s"], "clients": frame["site"]}
    clf = pff.FairFederatedClassifier(
        "newton", rounds=2, categorical=columns(kind, "categorical"), keep=columns(kind, "keep")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(frame[names], frame["y"], **given)
        right = clf.score_samples(frame[names], **given)
        found = clf.score_samples(texts[names], **given)
    differs = ~np.isclose(found, right, rtol=0, atol=ways.SCORE)
    differs = differs.reshape(len(frame), -1).any(1)
    if differs.any():
        k = int(differs.argmax())
        cells = texts.iloc[k].to_dict()
        pytest.fail(f"{differs.sum()} rows differ, such as {cells}", pytrace=False)


def columns(kind, option):
    return [kind.options[option]] if option in kind.options else []


def test_kinds_have_names_of_their_own_and_seldom_allow_a_refusal():
    names = Counter(kind.name for kind in [*KINDS, *CONTRADICTIONS])
    assert max(names.values()) == 1
    assert len(KINDS) >= 80
    expected = Counter(kind.expected(trained, route) for kind in KINDS
                       for trained in kind.trained for route in ways.ROUTES[trained])  # fmt: skip
    assert expected[SAME] > 0.8 * expected.total()
