"""Every table and figure of the paper that can be redone: its runs, its pictures, its claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pandas as pd
from matplotlib.figure import Figure
from rich.table import Table

from pfedfair import metrics
from pfedfair.algorithms import FAIR
from pfedfair.experiment import Source, Spec
from pfedfair.paper import curves, many_clients, table1, tuned
from pfedfair.paper import scores as score_runs
from pfedfair.paper import stress as stress_runs
from pfedfair.paper import targets as target_runs
from pfedfair.report import figures, paper_figures, scores, stress, tables, targets

Claim = tuple[str, str, str]
Draw = Callable[[pd.DataFrame], Figure]


@dataclass(frozen=True, kw_only=True)
class View:
    """How results are shown.

    `grid` lays out the results of one data set and one partition, with a title that ends with what
    is `shown`; `draw` has a picture and `texts` a text per file name; `claims` are looked at one by
    one, or `judge` says in a line what came out.
    """

    title: str
    grid: Callable[[pd.DataFrame, str], Table]
    draw: dict[str, Draw] = field(default_factory=dict)
    texts: dict[str, Callable[[pd.DataFrame], str]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    judge: Callable[[pd.DataFrame], str] | None = None
    shown: str = ": accuracy % ↑ and DDP ↓"
    legend: tuple[str, ...] = tables.legend()


@dataclass(frozen=True, kw_only=True)
class Reproduction(View):
    """A part of the paper; `specs` gives its runs for data sets, seeds and a protocol."""

    specs: Callable[[tuple[str, ...], int, str | None], list[Spec]]
    datasets: tuple[str, ...] = ("adult", "compas")


def _printed_table1(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {name: table1.printed(name) for name in dict.fromkeys(results["dataset"])}


def _table1_grid(results: pd.DataFrame, title: str) -> Table:
    return tables.client_grid(results, title, table1.printed(results["dataset"].iloc[0]))


def _many_grid(what: str, results: pd.DataFrame, title: str) -> Table:
    printed = None
    if results["dataset"].iloc[0] == "adult":
        printed = many_clients.printed(what, tables.n_clients(results))
    return tables.summary_grid(results, title, printed)


def _share_specs(datasets: tuple[str, ...], seeds: int, protocol: str | None) -> list[Spec]:
    """The constant classifier is enough: the figure shows the partition."""
    plans = [many_clients.plan("table3", n) for n in many_clients.CLIENTS]
    return [
        Spec(Source(name), plan, "constant", tuned(name, "constant"), seed, protocol)
        for name in datasets
        for plan in plans
        for seed in range(seeds)
    ]


def _many(what: str, shares: str) -> Reproduction:
    return Reproduction(
        title=f"Table {what[-1]}: 20 and 50 clients, {shares} shares",
        specs=partial(many_clients.specs, what),
        grid=partial(_many_grid, what),
        draw={"tradeoff": figures.trade_off},
        claims=many_clients.CLAIMS,
        datasets=("adult",),
    )


def _curve(
    what: str, title: str, draw: dict[str, Draw], grid: Callable[..., Table]
) -> Reproduction:
    return Reproduction(
        title=f"Figure {what[-1]}: {title}",
        specs=partial(curves.specs, what),
        grid=grid,
        draw=draw,
        claims=curves.CLAIMS[what],
        shown="" if what == "figure3" else Reproduction.shown,
    )


SCORE_TEXTS: dict[str, Callable[[pd.DataFrame], str]] = {
    "scores.md": scores.markdown,
    "scores.csv": lambda results: scores.summary(results).to_csv(index=False),
    "points.csv": lambda results: scores.points(results).to_csv(index=False),
}
REPRODUCTIONS: dict[str, Reproduction] = {
    "table1": Reproduction(
        title="Table 1: every client, eta = 0.9",
        specs=table1.specs,
        grid=_table1_grid,
        draw={"tradeoff": lambda r: figures.trade_off(r, _printed_table1(r))},
        claims=table1.CLAIMS,
    ),
    "table2": _many("table2", "fixed"),
    "table3": _many("table3", "Dirichlet"),
    "figure3": _curve(
        "figure3",
        "negative prediction rates over eta",
        {"figure3": paper_figures.negative_rates},
        tables.rate_grid,
    ),
    "figure4": _curve(
        "figure4",
        "worst client's trade-off over eta, and the effect of lambda",
        {
            "figure4b": partial(paper_figures.trade_off, who="worst"),
            "figure4c": paper_figures.effect_of_lambda,
        },
        tables.summary_grid,
    ),
    "figure5": _curve(
        "figure5",
        "every client of every method",
        {"figure5": paper_figures.client_scatter},
        tables.summary_grid,
    ),
    "figure6": Reproduction(
        title="Figure 6: shares of S, drawn from the Dirichlet mixture",
        specs=_share_specs,
        grid=tables.share_grid,
        draw={"figure6": paper_figures.shares},
        datasets=("adult",),
        shown="",
    ),
    "figure7": _curve(
        "figure7",
        "mean trade-off over eta",
        {"figure7": partial(paper_figures.trade_off, who="mean")},
        tables.summary_grid,
    ),
    "scores": Reproduction(
        title="Trade-off scores of all methods",
        specs=score_runs.specs,
        grid=scores.grid,
        draw={"scores": partial(paper_figures.trade_off, who="worst")},
        shown="",
        legend=scores.legend(),
        texts=SCORE_TEXTS,
        judge=scores.verdict,
    ),
    "targets": Reproduction(
        title="Targets: asked for and reached",
        specs=target_runs.specs,
        grid=targets.grid,
        judge=targets.verdict,
        texts={"targets.md": targets.markdown},
        legend=targets.LEGEND,
        shown="",
    ),
    "stress": Reproduction(
        title="Clients whose people differ",
        specs=stress_runs.specs,
        grid=stress.grid,
        judge=stress.verdict,
        legend=stress.LEGEND,
        shown="",
        datasets=("adult",),
    ),
}


def comparison(results: pd.DataFrame) -> View:
    """What `compare` shows, without and with validation rows."""
    gap, protocols = metrics.gap_of(results), set(results["protocol"])
    draw: dict[str, Draw] = {"tradeoff": figures.trade_off}
    if "validation" not in protocols or len(protocols) == 1:
        return View(
            title="Comparison",
            grid=tables.summary_grid,
            draw=draw,
            shown=f": accuracy % ↑ and {gap.upper()} ↓",
            legend=tables.legend(gap),
        )
    return View(
        title="Trade-off scores",
        grid=scores.grid,
        draw=draw,
        shown="",
        legend=scores.legend(gap),
        texts=SCORE_TEXTS,
        judge=scores.verdict,
    )


def verdicts(view: View, results: pd.DataFrame) -> list[str]:
    """Say of each claim whether it holds on the results of one data set and partition."""
    if view.judge:
        return [view.judge(results)]
    if results.loc[results["method"] == "pfedfair", "lam"].nunique() > 1:
        results = paper_figures.tuned_lambda(results)
    fair = results["method"].isin(FAIR)
    strongest = results[~fair | (results["eta"] == results["eta"].max())]
    there = set(strongest["method"])
    return [tables.verdict(strongest, c) for c in view.claims if {c[0], c[1]} <= there]
