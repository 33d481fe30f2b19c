"""Every table and figure, from results that nobody trained for, on every renderer."""

import io
import re

import pytest
from rich.console import Console

import made_faces
import pfedfair as pff
from made_up import results
from pfedfair import report
from pfedfair.experiments import FRONTIER, Source
from pfedfair.methods.defaults import make
from pfedfair.methods.target import Targeted
from pfedfair.studies import STUDIES, central, scores, table1
from pfedfair.studies.rows import METHOD, WITH_TARGET, levels

CLAIMS = {"table1": 6, "table2": 6, "table3": 6, "figure4": 4, "figure5": 10, "figure7": 3}
FORBIDDEN = ("not to be told", "less pfedfair", "not above", "…")


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.datasets])
def test_every_study_is_shown_by_every_renderer(name, tmp_path):
    first, *_, last = STUDIES[name].datasets * 2
    both = dict.fromkeys((first, last))
    # Scores are of all methods, and of three federations with each data set: one is enough.
    shown_everywhere(name, (last,) if name == "scores" else both, tmp_path)


@pytest.mark.parametrize("name", ["states", "models"])
def test_studies_of_natural_clients_are_shown_by_every_renderer(name, tmp_path, monkeypatch):
    rows = [",".join(["63", str(i % 2), "1", "145", "?", "1", "2", "150", "0", "2.3", "3", "?", "6",
                      str(i % 5)]) for i in range(40)]  # fmt: skip
    for hospital in ("cleveland", "va"):
        (tmp_path / f"processed.{hospital}.data").write_text("\n".join(rows))
    view = shown_everywhere(name, [Source("heart", folder=str(tmp_path))], tmp_path / "out")
    assert all("heart, 2 clients" in table.heading for table in view.tables)
    if name == "states":
        assert [picture.kind for picture in view.pictures] == ["tiles"]
        said = " ".join(line for table in view.tables for line in table.lines)
        assert "on average over seeds" in said
        assert "one decision for all" in said


def test_states_have_all_methods_with_any_number_of_rows():
    study, source = STUDIES["states"], Source("acs", folder="not read")

    def methods(rows, **named):
        specs = study.specs([source], seeds=1, **named)
        return {spec.method for spec in specs if spec.plan.rows == rows}

    assert methods(None) == methods(250) == methods(1125)
    assert methods(None) >= {"transport", "pooled", "fedfact-in", "pfedfair-target", "constant"}
    assert methods(None, methods=["pfedfair-target"]) == {"pfedfair-target", "constant"}


OF_FACES = [name for name, study in STUDIES.items() if "celeba" in study.elsewhere]


@pytest.mark.parametrize("name", OF_FACES)
def test_every_study_of_faces_is_shown_by_every_renderer(name, tmp_path, monkeypatch):
    monkeypatch.setattr(central, "SIZE", 8)
    source = Source("celeba", folder=str(made_faces.celeba(tmp_path / "faces")))
    view = shown_everywhere(name, [source], tmp_path / "out")
    assert all("celeba (tiny" in table.heading for table in view.tables if not table.detail)


def shown_everywhere(name, sources, folder):
    study = STUDIES[name]
    view = study.view(results(study.specs(sources, seeds=2)))
    console = Console(width=80, file=io.StringIO())
    report.terminal.show(view, console)
    screen, text = console.file.getvalue(), report.markdown.text(view)
    assert max(map(len, screen.splitlines())) <= 80
    for shown in (screen, text):
        assert view.title in shown
        assert not [words for words in FORBIDDEN if words in shown]
    flat = re.sub(r"\s+", "", screen)
    for table in view.tables:
        assert table.detail or len(table.lines) >= CLAIMS.get(name, 0)
        cells = [cell for row in table.cells() for cell in row]
        for row in table.cells():
            for cell, column in zip(row, table.columns, strict=True):
                lines = [line.strip() for line in cell.replace("-\n", "-").split("\n")]
                assert column.between.join(filter(None, lines)) in text
        if not table.detail:
            numbers = {n for cell in cells for n in re.findall(r"[\d.±]{3,}", cell)}
            assert not [n for n in numbers if n not in flat]
            assert all(re.sub(r"\s+", "", line) in flat for line in table.lines)
    paths = {path.name for path in report.write(view, folder)}
    assert {"report.md", "summary.csv", "clients.csv"} <= paths
    for picture in view.pictures:
        for ending in ("png", "svg"):
            assert (folder / f"{picture.name}.{ending}").stat().st_size > 5000
    assert all((folder / path).stat().st_size > 200 for path in paths)
    return view


def test_figure4_judges_at_the_usual_lambda_and_shows_the_others():
    study = STUDIES["figure4"]
    view = study.view(results(study.specs(("compas",), seeds=2)))
    labels = [row[0] for row in view.tables[0].cells()]
    assert {f"pfedfair\n lam {lam:g}" for lam in (0.0, 0.2, 0.4, 0.8)} <= set(labels)
    curves, effect = view.pictures
    drawn = curves.frames["curves"]
    assert (drawn["method"] == "pfedfair").sum() == 4  # etas, at one lambda
    assert list(effect.frames["curves"]["x"]) == 2 * [0.0, 0.2, 0.4, 0.8]  # error, and DDP


def test_table1_uses_eta_09_and_the_papers_plan():
    specs = STUDIES["table1"].specs(("compas",), seeds=2)
    assert len(specs) == 2 * len(table1.METHODS)
    assert {spec.algorithm.eta for spec in specs} == {0.0, 0.9}
    assert {spec.plan for spec in specs} == {pff.partition.fixed_shares()}


def test_figure6_shows_one_partition_and_trains_nothing():
    specs = STUDIES["figure6"].specs(("adult",), seeds=5)
    assert [(spec.seed, spec.trains) for spec in specs] == [(0, False)] * 2


def test_rounds_can_be_cut():
    for study in STUDIES.values():
        for spec in study.specs(study.datasets or study.elsewhere, 1, rounds=2):
            assert spec.algorithm.rounds <= 8  # some have rounds after training


def test_a_study_can_be_cut_to_some_rows():
    study = STUDIES["targets"]
    every = study.specs(("compas",), 2)
    some = study.specs(("compas",), 2, methods=["transport", "pfedfair-target"])
    wanted = {"constant", "transport", "pfedfair-target"}
    assert some == [spec for spec in every if spec.method in wanted]
    with pytest.raises(pff.InputError, match="Unknown row of this study 'transprot': did you mean"):
        study.specs(("compas",), 1, methods=["transprot"])


def test_a_target_is_put_on_a_methods_settings():
    for method in WITH_TARGET.values():
        found = make(method, {"target_ddp": 0.03, "confidence": 0.9, "rounds": 4}, "adult")
        assert isinstance(found, Targeted)
        assert found.method == make(method, {"rounds": 4}, "adult")
        assert (found.target_ddp, found.confidence) == (0.03, 0.9)


def test_scores_cover_every_method_for_clients_and_walk_from_accurate_to_fair():
    specs = STUDIES["scores"].specs(("adult", "compas"), seeds=1)
    for_clients = {
        name for name, method in pff.methods.METHODS.items() if method.kind.place != "centralised"
    }
    assert {spec.name for spec in specs} == {*for_clients, *WITH_TARGET, FRONTIER}
    assert {spec.plan.clients for spec in specs} == {None, 20, 50}
    assert all(spec.validated and spec.plan.validation for spec in specs)
    for row in {spec.name for spec in specs}:
        each = levels(row, scores.FEWER_ETAS)
        for name in each[0]:
            values = [level[name] for level in each]
            assert values == sorted(values, reverse=name != "eta")


def test_rows_are_methods_or_say_which_they_are():
    every = {spec.name for s in STUDIES.values()
             for spec in s.specs((*s.datasets, *s.elsewhere), 1)}  # fmt: skip
    assert {METHOD.get(row, row) for row in every - {FRONTIER}} == set(pff.methods.METHODS)
