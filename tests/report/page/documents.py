"""Documents as the page gets them, of every kind, with numbers that could be real."""

import math
from functools import cache

import numpy as np

STATES = [
    "Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut", "Delaware",
    "Florida", "Georgia", "Hawaii", "Idaho", "Illinois", "Indiana", "Iowa", "Kansas", "Kentucky",
    "Louisiana", "Maine", "Maryland", "Massachusetts", "Michigan", "Minnesota", "Mississippi",
]  # fmt: skip
METHODS = [
    "local", "fedavg", "fedprox", "scaffold", "fednova", "fedadam", "fedbn", "fedrep", "perfedavg",
    "pfedme", "ditto", "apfl", "fairfed", "fedfb", "agnosticfair", "fcfl", "fedgft", "postproc",
    "pfedfair", "transport",
]  # fmt: skip
EVIL = [
    "<script>window.evil = 1</script>",
    '"><img src=x onerror="window.evil = 2">',
    'it\'s "quoted" & <b>bold</b> \\ </script><script>window.evil = 3</script>',
    "Zürich 🏥👩🏽‍⚕️ 東京",
    "مستشفى القدس ١٢٣",
    "a name of two hundred characters " + "x" * 167,
    "{{ 7 * 7 }}{% raw %}",
    "line\u2028break <!-- <script>",
]


def six(values):
    """Numbers as the page gets them: rounded, no NaN."""
    return [None if not math.isfinite(v) else round(float(v), 6) for v in values]


def arm(rng, n, method, level, gap, accuracy, target=0.05):
    """An arm whose sites have about this gap and this accuracy."""
    gaps = np.abs(rng.normal(gap, 0.25 * gap + 0.006, n))
    half = rng.uniform(0.008, 0.024, n)
    right = np.clip(rng.normal(accuracy, 0.018, n), 0.5, 0.99)
    low, high = np.maximum(gaps - half, 0), gaps + half
    number = [int(v) if v >= 5 else "few" for v in gaps * rng.uniform(200, 900, n)]
    verdict = [
        "within" if b <= target else "exceeds" if a > target else "not clear"
        for a, b in zip(low, high, strict=True)
    ]
    why = {"exceeds": "its gap is above the target, also at the lower end of the interval",
            "not clear": "the interval is wide: 212 rows of the smaller group"}  # fmt: skip
    return {
        "method": method, "level": level, "words": f"{method}, {level}", "target": target,
        "gap": six(gaps), "gap_low": six(low), "gap_high": six(high),
        "accuracy": six(right), "accuracy_low": six(right - 0.012),
        "accuracy_high": six(right + 0.012),
        "constant": six(np.full(n, 0.752)), "rows": number, "verdict": verdict,
        "why": [why.get(v) for v in verdict],
    }  # fmt: skip


def part(rng, names, arms, tradeoff=None, chosen=0, tables=(), name="adult, 5 clients, 1 seed"):
    n = len(names)
    sites = {
        "name": list(names), "role": None,
        "n_train": [int(v) for v in rng.integers(300, 9000, n)],
        "n_test": [int(v) for v in rng.integers(80, 2400, n)],
    }  # fmt: skip
    return {"name": name, "sites": sites, "arms": arms, "chosen": chosen, "tradeoff": tradeoff,
            "tables": list(tables)}  # fmt: skip


def document(kind, title, sentence, parts, **more):
    """A document with all keys; what is not given is as empty as it may be."""
    return {
        "version": 1, "kind": kind, "title": title, "sentence": sentence, "more": [],
        "gap": {"key": "ddp", "name": "DDP", "words": "the difference of demographic parity: "
                "how far apart the groups' chances of a positive decision are"},
        "target": 0.05, "confidence": 0.95, "groups": ["Female", "Male"],
        "labels": ["<=50K", ">50K"], "positive": ">50K", "live": None, "parts": parts,
        "slider": None, "details": None, "shapes": None, "sent": None, "warnings": [],
        "about": ABOUT, "glossary": GLOSSARY, "audit": None, "server": None, **more,
    }  # fmt: skip


ABOUT = [
    {"heading": "Data", "rows": [["data set", "adult"], ["rows", "45,222"],
                                 ["clients", "5, fixed shares"], ["held out", "20 %"]]},
    {"heading": "Settings", "rows": [["method", "transport"], ["rounds", "40"],
                                     ["seed", "0"], ["model", "additive"]]},
    {"heading": "To make it again", "rows": [
        ["command", "pfedfair train adult --method transport --target-ddp 0.05 --out runs/adult"],
        ["pfedfair", "0.1.0"], ["torch", "2.13.0"],
        ["data hash", "sha256:9f2c4e1d0b7a6c5e8d3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d"]]},
]  # fmt: skip
GLOSSARY = [
    [
        "gap (DDP)",
        "The difference of demographic parity: how far apart the groups' chances of a "
        "positive decision are. 0 is equal; 0.05 is five in a hundred rows.",
    ],
    ["target", "The largest gap that a site allows."],
    ["interval", "Where the true number is with 95 % confidence, given how few rows there are."],
    ["within", "The whole interval is at or below the target."],
    ["not clear", "The interval reaches across the target."],
    ["exceeds", "The whole interval is above the target."],
    ["constant classifier", "The same decision for all rows: no gap, and no use."],
    ["frontier", "The least error that any rule on these scores can have at a gap."],
    ["site", "One client: a branch, a hospital, a state. Its rows never leave it."],
    ["random draw", "Some of the rows, drawn at random, get the decision."],
]


def frontier(base, best):
    gaps = np.linspace(0, 0.2, 21)
    errors = best + (base - best) * np.exp(-22 * gaps)
    return [{"arm": None, "level": "", "gap": round(float(g), 6), "gap_low": None, "gap_high": None,
             "error": round(float(e), 6), "error_low": None, "error_high": None}
            for g, e in zip(gaps, errors, strict=True)]  # fmt: skip


def curves(rng, methods, levels, per_level):
    """A trade-off's curves, and the arms behind their points."""
    arms, lines = [], []
    for k, method in enumerate(methods):
        worth = rng.uniform(0, 0.05)
        points = []
        for j, level in enumerate(levels):
            gap = max(0.19 * (1 - j / len(levels)) * rng.uniform(0.5, 1.15), 0.004)
            error = 0.155 + worth + 0.05 * math.exp(-18 * gap)
            arms.append(arm(rng, per_level, method, level, gap, 1 - error))
            points.append({
                "arm": len(arms) - 1, "level": level, "gap": round(gap, 6),
                "gap_low": round(max(gap - 0.011, 0), 6), "gap_high": round(gap + 0.011, 6),
                "error": round(error, 6), "error_low": round(error - 0.004, 6),
                "error_high": round(error + 0.004, 6),
            })  # fmt: skip
        lines.append({"method": method, "kind": "method", "colour": k % 7, "marker": k % 11,
                      "points": points})  # fmt: skip
    lines.append({"method": "constant", "kind": "constant", "colour": 6, "marker": 0, "points": [
        {"arm": None, "level": "", "gap": 0.0, "gap_low": None, "gap_high": None, "error": 0.248,
         "error_low": None, "error_high": None}]})  # fmt: skip
    lines.append({"method": "frontier", "kind": "frontier", "colour": 6, "marker": 0,
                  "points": frontier(0.19, 0.15)})  # fmt: skip
    return arms, {"who": "mean of clients", "x": "DDP", "y": "error %", "curves": lines}


def slider(rng, n, first):
    """What each target would give: a wider one costs less accuracy."""
    targets = [round(0.01 * k, 2) for k in range(21)]
    names = ("accuracy", "gap", "gap_low", "gap_high", "verdict")
    out = {name: [] for name in names} | {"within": [], "mean_accuracy": [], "worst_accuracy": []}
    thresholds = []
    ratio, reach = rng.uniform(0.5, 0.95, n), rng.uniform(0.1, 0.17, n)
    for target in targets:
        gaps = np.minimum(target * ratio, reach)
        low, high = np.maximum(gaps - 0.012, 0), gaps + 0.012
        right = 0.845 - 0.05 * np.exp(-18 * target) + np.linspace(-0.02, 0.02, n)
        verdict = ["within" if b <= target else "exceeds" if a > target else "not clear"
                   for a, b in zip(low, high, strict=True)]  # fmt: skip
        for name, values in zip(names[:4], (right, gaps, low, high), strict=True):
            out[name].append(six(values))
        out["verdict"].append(verdict)
        out["within"].append(verdict.count("within"))
        out["mean_accuracy"].append(round(float(right.mean()), 6))
        out["worst_accuracy"].append(round(float(right.min()), 6))
        shift = max(0.17 - target, 0)
        one, two = round(0.5 - 1.2 * shift, 3), round(0.5 + 0.6 * shift, 3)
        cuts = [{"low": one, "high": round(one + 0.02, 3), "chance": 0.4},
                {"low": two, "high": two, "chance": 0.0}]  # fmt: skip
        thresholds.append([cuts] * n)
    for name in ("gap", "gap_low", "gap_high", "accuracy", "verdict"):
        out[name][5] = first[name]  # the run's own
    out["within"][5] = first["verdict"].count("within")
    return {"targets": targets, "start": 5, **out, "thresholds": thresholds}


def detail(rng, groups=("Female", "Male")):
    rates, shares, changed, cuts = [], [], [], []
    edges = np.linspace(0, 1, 21)
    for k, group in enumerate(groups):
        number = int(rng.integers(120, 800))
        rate, before = 0.19 + 0.03 * k, 0.11 + 0.19 * k
        half = 1.96 * math.sqrt(rate * (1 - rate) / number)
        rates.append({
            "group": group, "train": 4 * number, "rows": number, "rate": rate,
            "low": round(rate - half, 6), "high": round(rate + half, 6), "before": before,
            "before_low": round(before - half, 6), "before_high": round(before + half, 6),
        })  # fmt: skip
        a, b = (1.0, 3.4) if k == 0 else (1.3, 2.1)
        density = (edges[:-1] + 0.025) ** (a - 1) * (1 - edges[:-1] - 0.02) ** (b - 1)
        shares.append(six(density / density.sum()))
        changed.append({"group": group, "to_positive": 31 if k == 0 else 0,
                        "to_negative": 0 if k == 0 else 54, "rows": number})  # fmt: skip
        cuts.append({"group": group, "low": (0.36, 0.57)[k], "high": (0.38, 0.57)[k],
                     "chance": 0.4 - 0.4 * k})  # fmt: skip
    return {
        "rates": rates, "changed": changed, "scores": {"edges": six(edges), "shares": shares},
        "thresholds": cuts, "cost": 0.0113,
        "rule": ["Decide >50K if the score is above the threshold of the row's group; between "
                 "two numbers some rows, drawn at random, get it.",
                 "Female: 0.360-0.380", "Male: 0.570"],
        "local": {"accuracy": 0.812, "gap": 0.081, "words": "Local training would give 81.2 %."},
        "facts": [["half-width", "±0.021"], ["rows behind the gap", "23"]],
    }  # fmt: skip


def shapes():
    age = np.arange(17, 91)
    hours = np.arange(1, 100, 2)
    work = ["Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc", "Federal-gov"]
    return [
        {"column": "age", "kind": "number", "label": ">50K", "values": age.tolist(),
         "added": six(1.1 - ((age - 52) / 22) ** 2),
         "rows": six(900 * np.exp(-((age - 36) / 15) ** 2)),
         "missing": None},
        {"column": "hours-per-week", "kind": "number", "label": ">50K", "values": hours.tolist(),
         "added": six(np.tanh((hours - 40) / 12)),
         "rows": six(2000 * np.exp(-((hours - 40) / 8) ** 2)), "missing": -0.2},
        {"column": "workclass", "kind": "category", "label": ">50K", "values": work,
         "added": [0.02, -0.31, 0.05, -0.12, 0.44, 0.38],
         "rows": [22286, 2499, 2067, 1278, 1116, 943], "missing": None},
        {"column": "capital-gain", "kind": "number", "label": ">50K",
         "values": list(range(0, 100000, 4000)),
         "added": six(3 * (1 - np.exp(-np.arange(25) / 2.5))), "rows": [9000] + [40] * 24,
         "missing": None},
    ]  # fmt: skip


SENT = {
    "words": ["Rows and their groups never left a site. Messages are of all rounds."],
    "rows": [{"what": "model updates", "messages": 200, "bytes": 1843200, "epsilon": None},
             {"what": "counts by group, with noise", "messages": 5, "bytes": 640, "epsilon": 0.5}],
}  # fmt: skip
WARNINGS = [
    {
        "kind": "few",
        "text": "Site 4 has 18 held-out rows of group Female: its gap is not known well.",
    },
    {"kind": "left out", "text": "Column fnlwgt was left out: it is a weight of the survey."},
    {"kind": "collapsed", "text": "fedadam decides the same for all rows at site 2."},
    {"kind": "random draws", "text": "3 % of the decisions are random draws at client 2."},
    {"kind": "note", "text": "The held-out rows were read as UTF-8."},
]


def run(names=("client 0", "client 1", "client 2", "client 3", "client 4"), seed=0):
    """A run of transport with a slider, details and shapes."""
    rng = np.random.default_rng(seed)
    n = len(names)
    own = arm(rng, n, "transport", "gap ≤ 0.05", 0.031, 0.829)
    lines = [
        {"method": "transport", "kind": "method", "colour": 1, "marker": 1, "points": [
            {"arm": 0, "level": "gap ≤ 0.05", "gap": 0.031, "gap_low": 0.022, "gap_high": 0.04,
             "error": 0.171, "error_low": 0.166, "error_high": 0.176}]},
        {"method": "constant", "kind": "constant", "colour": 6, "marker": 0, "points": [
            {"arm": None, "level": "", "gap": 0.0, "gap_low": None, "gap_high": None,
             "error": 0.248, "error_low": None, "error_high": None}]},
        {"method": "frontier", "kind": "frontier", "colour": 6, "marker": 0,
         "points": frontier(0.19, 0.15)},
    ]  # fmt: skip
    tradeoff = {"who": "worst client", "x": "DDP", "y": "error %", "curves": lines}
    kept = own["verdict"].count("within")
    return document(
        "run", "transport on adult",
        f"{kept} of {n} sites keep a gap of 0.05 with 95 % confidence; for the others it is not "
        "clear, because too few rows were held out.",
        [part(rng, names, [own], tradeoff)],
        more=["The mean accuracy is 82.9 %; the same decision for all rows gives 75.2 %."],
        slider=slider(rng, n, own), details=[detail(rng) for _ in names][:400] + [None] * (n - 400),
        shapes=shapes(), sent=SENT, warnings=WARNINGS,
    )  # fmt: skip


def study(n_methods=20, n_sites=12):
    """A study of two data sets with many methods."""
    rng = np.random.default_rng(1)
    table = {
        "heading": "Worst client", "heads": ["method", "eta", "accuracy %", "DDP"], "keys": 2,
        "cells": [[m, "0.9", f"{80 + k / 3:.1f} ± 0.4\n(83.0)", f"{0.2 - k / 120:.3f}"]
                  for k, m in enumerate(METHODS[:n_methods])],
        "lines_heading": "Against the paper", "lines": ["pfedfair is within the paper's range."],
        "detail": False,
    }  # fmt: skip
    parts = []
    for name, count in (("adult, 12 clients, 3 seeds", n_sites), ("compas, 5 clients, 3 seeds", 5)):
        levels = ["eta 0", "eta 0.3", "eta 0.6", "eta 0.9"]
        arms, tradeoff = curves(rng, METHODS[:n_methods], levels, count)
        named = STATES[:count]
        chosen = 4 * n_methods - 5
        parts.append(
            part(rng, named, arms, tradeoff, chosen, [table, table | {"detail": True}], name)
        )
    return document("study", "Scores: every method on two data sets",
                    "pfedfair and transport have the smallest gaps; no method is best everywhere.",
                    parts, sent=SENT, warnings=WARNINGS)  # fmt: skip


@cache
def many(n=2410):
    """A run with as many sites as there are counties."""
    names = [f"{STATES[k % 24]} county {k // 24 + 1:03d}" for k in range(n)]
    made = run(names, seed=2)
    made["title"] = f"transport on {n} sites"
    made["slider"]["thresholds"] = None
    return made


def evil():
    """A run with harmful names."""
    made = run(EVIL, seed=3)
    made["groups"] = [EVIL[0], EVIL[4]]
    made["title"], made["sentence"] = EVIL[0], EVIL[1] + EVIL[2]
    made["details"] = [detail(np.random.default_rng(k), EVIL[:2]) for k in range(len(EVIL))]
    made["warnings"] = [{"kind": "note", "text": text} for text in EVIL]
    made["about"] = [{"heading": EVIL[0], "rows": [["command", EVIL[2]], [EVIL[1], EVIL[5]]]}]
    made["shapes"] = [{**shapes()[2], "column": EVIL[0], "values": EVIL[:6]}]
    return made


def audit():
    """An audit of decisions: no method, no training."""
    rng = np.random.default_rng(4)
    names = ["Clinic North", "Clinic South", "Clinic West"]
    own = arm(rng, 3, "decisions", "column approved", 0.06, 0.8)
    own["constant"] = None
    measures = [("selection_rate", "selected"), ("true_positive_rate", "found (of those who are)"),
                ("false_positive_rate", "false alarms"), ("accuracy", "right")]  # fmt: skip
    rows = [
        {"client": client, "group": group, "measure": key, "name": name, "value": round(v, 6),
         "low": round(max(v - 0.04, 0), 6), "high": round(v + 0.04, 6), "rows": 240 + 31 * k}
        for k, client in enumerate(["", *names])
        for key, name in measures for group in ("Female", "Male")
        for v in [rng.uniform(0.1, 0.9)]
    ]  # fmt: skip
    return document("audit", "Audit of approved.csv", "1 of 3 sites keeps a gap of 0.05.",
                    [part(rng, names, [own], name="approved.csv")],
                    audit={"rows": rows})  # fmt: skip


def server():
    """What a Flower server knows: no number of any site."""
    sites = [{"name": "bank-a", "state": "present", "words": "answered in round 12"},
             {"name": "bank-b", "state": "missing", "words": "not heard of since round 9"},
             {"name": EVIL[0], "state": "refused", "words": "another table"}]  # fmt: skip
    return document(
        "server", "The server of three banks", "Round 12 of 20: 1 of 3 sites is here.", [],
        server={"rounds": 12, "of": 20, "sites": sites,
                "log": ["14:02 round 11 done", "14:03 bank-b did not answer"]},
        live={"done": 12, "of": 20, "words": "12 of 20 rounds", "refresh": 5, "finished": False},
        target=None, confidence=None, glossary=[], about=[],
    )  # fmt: skip


def live():
    """A comparison that is still running."""
    made = study(4, 5)
    made["kind"], made["title"] = "comparison", "4 methods on adult"
    made["live"] = {"done": 12, "of": 40, "words": "12 of 40 runs, about 3 min left", "refresh": 5,
                    "finished": False}  # fmt: skip
    return made


def sparse():
    """A comparison with as little as there may be: no target, no interval, three groups, a seed."""
    names = ["a", "b", "c"]
    arms = [{"method": method, "level": "", "words": method, "target": None,
             "gap": [0.1, None, 0.3],
             "gap_low": None, "gap_high": None, "accuracy": None, "accuracy_low": None,
             "accuracy_high": None, "constant": None, "rows": None, "verdict": None, "why": None}
            for method in ("local", "fedavg")]  # fmt: skip
    point = {"arm": 0, "level": "", "gap": 0.1, "gap_low": None, "gap_high": None, "error": 0.2,
             "error_low": None, "error_high": None}  # fmt: skip
    lines = [{"method": method, "kind": "method", "colour": k, "marker": k, "points": points}
             for k, (method, points) in enumerate([("local", [point]), ("fedavg", [])])
             ]  # fmt: skip
    rate = {"group": "x", "train": None, "rows": 12, "rate": 0.5, "low": None, "high": None,
            "before": None, "before_low": None, "before_high": None}  # fmt: skip
    why = {"rates": [rate, rate, rate], "changed": None, "scores": None, "thresholds": None,
            "rule": [], "cost": None, "local": None, "facts": []}  # fmt: skip
    return {
        "version": 1, "kind": "comparison", "title": "two methods",
        "sentence": "Nobody set a target.",
        "gap": {"key": "eo", "name": "DEO", "words": "the difference of equalised odds"},
        "groups": ["x", "y", "z"],
        "parts": [{"name": "part", "sites": {"name": names, "role": None, "n_train": None,
                                             "n_test": None},
                   "arms": arms, "chosen": 0, "tables": [],
                   "tradeoff": {"who": "mean of clients", "x": "DEO", "y": "error %",
                                "curves": lines}}],
        "details": [why, None, why],
    }  # fmt: skip


ALL = {"run": run, "study": study, "many": many, "evil": evil, "audit": audit, "server": server,
       "live": live, "sparse": sparse}  # fmt: skip
