"""A run judged by its rows: joint intervals, and what its rules change."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from made_people import people
from pfedfair import metrics
from pfedfair.runs.predictor import count
from pfedfair.studies import judgement, one_run, page
from pfedfair.studies.page.run import results_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("judged") / "people.csv"
    people((400, 300, 260, 180), seed=1).to_csv(path, index=False)
    federation = pff.load(path, "hired", "sex").federate("site")
    return pff.train(federation, "transport", target_ddp=0.1).record


def config(results, **settings):
    about = json.loads(results["config"].iloc[0]) | settings
    return results.assign(config=json.dumps(about))


def test_a_joint_claim_is_judged_by_joint_intervals(run):
    """By Bonferroni's intervals, from the counts of the decisions."""
    results, rules = results_of(run), run.rules()
    each = judgement.of_run(run, results, rules)
    assert each.results["ddp_high"].to_list() == results["ddp_high"].to_list()
    joint = judgement.of_run(run, config(results, confidence=0.95, jointly=True), rules)
    rows = run.federation.partition.test
    counts = count(run.predictors, run.federation.table, rows, run.draws)
    ends = metrics.confidence_intervals(counts, level=1 - 0.05 / 4)
    np.testing.assert_array_equal(joint.results["ddp_low"], ends["ddp_low"])
    np.testing.assert_array_equal(joint.results["ddp_high"], ends["ddp_high"])
    assert (joint.results["ddp_high"] > results["ddp_high"]).all()
    assert joint.results["accuracy_high"].to_list() == results["accuracy_high"].to_list()
    certified = judgement.of_run(run, results, rules.assign(certified=[True, False, True, True]))
    assert certified.results["ddp_high"].to_list() == joint.results["ddp_high"].to_list()


def test_what_the_rules_change_is_counted_by_group(run):
    found = judgement.of_run(run, results_of(run), run.rules()).changes
    part, data = run.federation.partition, run.federation.data
    likeliest = [replace(one, rule=pff.rules.Likeliest()) for one in run.predictors]
    after, before = (
        count(each, run.federation.table, part.test, run.draws)
        for each in (run.predictors, likeliest)
    )
    after, before = (counts[..., 1].sum(-1) for counts in (after, before))
    np.testing.assert_array_equal(found.positive, before)
    np.testing.assert_array_equal(found.positive + found.gained - found.lost, after)
    assert (found.gained.sum(), found.lost.sum()) > (0, 0)
    rows = [np.bincount(data.s[own], minlength=2) for own in part.test]
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.total.rows[0], np.sum(rows, 0))


def test_facts_of_an_unknown_column_are_unknown(run):
    judged = judgement.of_frames(results_of(run), pd.DataFrame(index=range(4)))
    assert "too small" not in judged.sentence
    assert judged.changes is None


def test_other_targets_are_counted_by_the_same_intervals(run):
    results, rules = results_of(run), run.rules()
    judged = judgement.of_run(run, config(results, confidence=0.95, jointly=True), rules)
    found = page.of_run(run, judged, one_run.of_run(run, judged)).to_json()
    shown, (arm,) = found["slider"], found["parts"][0]["arms"]
    assert shown["verdict"][shown["start"]] == arm["verdict"]
    assert shown["sentence"][shown["start"]] == found["sentence"]
