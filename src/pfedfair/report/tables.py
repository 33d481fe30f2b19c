"""Tables of results: over seeds with intervals, and differences between methods in pairs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from pfedfair import metrics, partition
from pfedfair.algorithms import FAIR, LIMIT
from pfedfair.experiment import FRONTIER
from pfedfair.model import PersonalModel
from pfedfair.networks import Thresholds

GAP = {
    "ddp": "DDP: |P(Yhat=1 | S=0) - P(Yhat=1 | S=1)|, the gap between the groups' rates of "
    "positive predictions, lower is better (↓).",
    "eo": "EO: the largest gap between the groups' rates of positive predictions among people of "
    "equal label (equalised odds), lower is better (↓).",
    "eopp": "EOPP: the gap between the groups' rates of positive predictions among people with the "
    "last label (equal opportunity), lower is better (↓).",
}
SUMMARY = {
    "underrepresented": "under.\nclients",
    "overrepresented": "over.\nclients",
    "worst": "worst of\nclients",
    "joint_worst": "joint\nworst",
    "mean": "mean of\nclients",
}
RULE = ("low", "high", "chance", "below")  # of `pfedfair.networks.Thresholds`
SHORT_ROLE = {"underrepresented": "under.", "overrepresented": "over."}


def legend(gap: str = "ddp") -> tuple[str, ...]:
    """What the numbers of a table are."""
    return (
        "accuracy: correct predictions in percent, higher is better (↑).",
        GAP[gap],
        "± : half of the 95 % interval of the mean over seeds (Student t); n/a with one seed.",
    )


def accuracy(mean: float, half: float | None = None) -> str:
    """Percent.

    >>> accuracy(0.8213, 0.0042)
    '82.1 ±0.4'
    """
    if mean != mean:
        return "n/a"
    known = half is not None and half == half
    return f"{100 * mean:.1f} ±{100 * half:.1f}" if known else f"{100 * mean:.1f}"  # type: ignore[operator]


def ddp(mean: float, half: float | None = None) -> str:
    """Three decimals; n/a where a client has no one of a group.

    >>> ddp(0.0523, 0.01), ddp(float("nan"))
    ('0.052 ±0.010', 'n/a')
    """
    if mean != mean:
        return "n/a"
    if half is None or half != half:
        return f"{mean:.3f}"
    return f"{mean:.3f} ±{half:.{2 if half >= 0.9995 else 3}f}"  # as wide as the others


def short(value: float) -> str:
    """Three digits without a leading zero, for narrow columns.

    >>> short(0.0523), short(1.0), short(float("nan"))
    ('.052', '1.00', 'n/a')
    """
    return f"{value:.2f}" if value >= 0.9995 else ddp(value).removeprefix("0")


def level(method: str, config: str) -> str:
    """Where on its trade-off curve a run is: its eta, or its own limit.

    >>> level("pfedfair", '{"eta": 0.9}'), level("fa", '{"tau": 0.1}'), level("fedavg", "{}")
    ('0.9', 'tau 0.1', '')
    """
    about = json.loads(config)
    if method == FRONTIER:
        return f"≤ {about['limit']:g}"
    if method == "transport":
        marks = {None: "", 0.0: " own", 1e9: " pool"}
        sure = f" {about['confidence']:.0%}" if about["confidence"] else ""
        return f"{about['target_ddp']:g}{marks.get(about['kappa'], ' kappa')}{sure}"
    if "method" in about:  # of a method with a target
        return f"≤ {about['target_ddp']:g}"
    if method in LIMIT:
        return f"{LIMIT[method].split('_')[0]} {about[LIMIT[method]]:g}"
    return f"{about['eta']:g}" if method in FAIR else ""


def n_clients(results: pd.DataFrame) -> int:
    """How many clients the runs of one partition have."""
    return results["client"].nunique()


def setting(results: pd.DataFrame) -> str:
    """Name the data set and the partition of some results."""
    plan = partition.from_dict(json.loads(results["partition"].iloc[0]))
    return f"{results['dataset'].iloc[0]}, {n_clients(results)} clients, {plan.words}"


def heading(results: pd.DataFrame) -> str:
    """Name the data set, the partition and the number of seeds of some results."""
    seeds = results["seed"].nunique()
    return f"{setting(results)}, {seeds} seed{'s' if seeds > 1 else ''}"


def over_seeds(frame: pd.DataFrame, keys: list[str], measures: Sequence[str]) -> pd.DataFrame:
    """Mean over seeds of each measure, and the half-width of its interval (``*_half``)."""
    rows = []
    for key, group in frame.groupby(keys, sort=False, dropna=False):
        row = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
        if group["seed"].duplicated().any():
            raise ValueError(f"two results for one seed: {key}")
        for name in measures:
            mean, low, _ = metrics.mean_interval(group[name].to_numpy())
            row |= {name: mean, f"{name}_half": mean - low}
        rows.append(row | {"seeds": group["seed"].nunique()})
    return pd.DataFrame(rows)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """One row per data set, method and eta: kinds of client, worst and mean, over seeds."""
    shown = ("accuracy", metrics.gap_of(results))
    measures = [f"{who}_{what}" for who in SUMMARY for what in shown]
    return over_seeds(metrics.over_clients(results), metrics.RUN, measures)


def by_client(results: pd.DataFrame) -> pd.DataFrame:
    """One row per data set, method, eta and client, over seeds."""
    keys = [*metrics.RUN, "client", "role"]
    gap = metrics.gap_of(results)
    return over_seeds(results, keys, ["accuracy", gap, "npr_s0", "npr_s1"])


def paired(
    results: pd.DataFrame, method: str, rival: str, measure: str
) -> tuple[float, float, float]:
    """Mean difference method - rival over seeds, and its interval; runs are paired by seed."""
    runs = metrics.over_clients(results)
    ours, theirs = (runs.loc[runs["method"] == m, ["seed", measure]] for m in (method, rival))
    pair = ours.merge(theirs, on="seed", validate="one_to_one")
    difference = pair[f"{measure}_x"] - pair[f"{measure}_y"]
    mean, low, high = metrics.mean_interval(difference.to_numpy())
    return mean, low, high


def verdict(results: pd.DataFrame, claim: tuple[str, str, str]) -> str:
    """Say in one line whether a claim of the paper holds on these results."""
    method, rival, measure = claim
    mean, low, high = paired(results, *claim)
    fair = measure.endswith("ddp")
    good, bad = (high < 0, low > 0) if fair else (low > 0, high < 0)
    word = "holds" if good else "does not hold" if bad else "open"
    what = measure.replace("_", " ").replace("ddp", "DDP")
    if fair:
        numbers = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    else:
        numbers = f"{100 * mean:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    than = "lower" if fair else "higher"
    return f"{word:>13}: {method} has {than} {what} than {rival}: {numbers}"


def client_grid(results: pd.DataFrame, title: str, printed: pd.DataFrame | None = None) -> Table:
    """Lay methods against clients: our figures, their intervals, and the paper's below."""
    rows = by_client(results[results["method"] != FRONTIER])
    table = grid(title)
    table.add_column("", no_wrap=True)
    for _, client in rows.drop_duplicates("client").iterrows():
        heading = f"client {client['client']}\n{SHORT_ROLE[client['role']]}"
        table.add_column(Text(heading), no_wrap=True)
    for method, group in rows.groupby("method", sort=False):
        cells = [Text.assemble((str(method), "bold"), ("\n ± seeds\n paper\n", "dim"))]
        for _, row in group.iterrows():
            ours = f"{accuracy(row['accuracy'])} {short(row['ddp'])}"
            seeds = f"±{100 * row['accuracy_half']:.1f} ±{short(row['ddp_half'])}"
            paper = _printed_cell(printed, str(method), row["client"])
            unsure = row["accuracy_half"] != row["accuracy_half"]
            lines = f"\n{'n/a' if unsure else seeds}\n{paper}"
            cells.append(Text.assemble((ours, "bold"), (lines, "dim")))
        table.add_row(*cells)
    return table


def _printed_cell(printed: pd.DataFrame | None, method: str, client: str) -> str:
    if printed is None:
        return "-"
    same = printed[(printed["method"] == method) & (printed["client"] == client)]
    return f"{100 * same['accuracy'].item():.1f} {short(same['ddp'].item())}" if len(same) else "-"


def summary_grid(results: pd.DataFrame, title: str, printed: pd.DataFrame | None = None) -> Table:
    """Lay methods against kinds of client; the paper's figures, if any, below ours."""
    rows = summary(results)
    gap = metrics.gap_of(results)
    varied = rows["config"].map(lambda config: json.loads(config).get("lam"))
    table = grid(title)
    table.add_column("method", no_wrap=True)
    table.add_column("eta or\nlimit", no_wrap=True)
    for heading in SUMMARY.values():
        table.add_column(heading, no_wrap=True)
    for (_, row), lam in zip(rows.iterrows(), varied, strict=True):
        same = None
        if printed is not None and (printed["method"] == row["method"]).any():
            same = printed[printed["method"] == row["method"]].iloc[0]
        name = row["method"].replace("-target", "\n -target")  # 80 columns are few
        name += f"\n lam {lam:g}" if varied.nunique() > 1 and lam == lam else ""
        cells = [
            _summary_cell(
                row, who, gap, same if same is not None and f"{who}_ddp" in same else None
            )
            for who in SUMMARY
        ]
        label = Text.assemble(name, ("\n\n paper" if same is not None else "", "dim"))
        place = level(row["method"], row["config"])
        table.add_row(label, place if len(place) < 7 else place.replace(" ", "\n"), *cells)
    return table


def _summary_cell(row: pd.Series, who: str, gap: str, printed: pd.Series | None) -> Text:
    ours = accuracy(row[f"{who}_accuracy"], row[f"{who}_accuracy_half"])
    reached = ddp(row[f"{who}_{gap}"], row[f"{who}_{gap}_half"]).replace("0.", ".")
    paper = ""
    if printed is not None:
        paper = f"\n{100 * printed[f'{who}_accuracy']:.1f} {short(printed[f'{who}_ddp'])}"
    return Text.assemble(f"{ours}\n{reached}", (paper, "dim"))


def rate_grid(results: pd.DataFrame, title: str) -> Table:
    """Lay methods and eta against the negative prediction rates of both groups."""
    runs = metrics.over_clients(results)
    roles = [role for role in SHORT_ROLE if role in set(results["role"])]
    measures = [f"{role}_{rate}" for role in roles for rate in ("npr_s0", "npr_s1")]
    table = grid(title)
    for column in ("method", "eta"):
        table.add_column(column, no_wrap=True)
    for role in roles:
        for z in (0, 1):
            table.add_column(f"{SHORT_ROLE[role]} clients\nNPR(S={z})", no_wrap=True)
    for _, row in over_seeds(runs, metrics.RUN, measures).iterrows():
        cells = [ddp(row[m], row[f"{m}_half"]) for m in measures]
        table.add_row(row["method"], level(row["method"], row["config"]), *cells)
    return table


def share_grid(results: pd.DataFrame, title: str) -> Table:
    """List how the clients' shares of S = 1 are spread, by role."""
    table = grid(title)
    for column in ("role", "clients", "mean share S=1", "smallest", "largest"):
        table.add_column(column)
    for role, rows in results[results["seed"] == results["seed"].min()].groupby("role"):
        share = rows["share_s1"]
        numbers = (f"{v:.3f}" for v in (share.mean(), share.min(), share.max()))
        table.add_row(str(role), str(len(rows)), *numbers)
    return table


def run_grid(clients: pd.DataFrame, title: str, gaps: Sequence[str] = ("ddp",)) -> Table:
    """Lay the clients of one run out, with their bootstrap intervals.

    Shares and negative prediction rates are for two groups and one gap.
    """
    table = grid(title)
    rates = len(gaps) == 1
    for heading in ("client", "role", "rows", *(["share\nS=1"] if rates else [])):
        table.add_column(heading, no_wrap=True)
    names = [f"{gap.upper()} ↓" for gap in gaps]
    for heading in ("accuracy % ↑", *names, *(["NPR\nS=0", "NPR\nS=1"] if rates else [])):
        table.add_column(heading, no_wrap=True)
    for _, row in clients.iterrows():
        table.add_row(
            Text(str(row["client"])),
            SHORT_ROLE[row["role"]],
            str(row["n_train"]),
            *([f"{row['share_s1']:.2f}"] if rates else []),
            f"{accuracy(row['accuracy'])}{' ' if rates else chr(10)}"
            f"\\[{accuracy(row['accuracy_low'])}, {accuracy(row['accuracy_high'])}]",
            *(_with_interval(row, gap, "\n" if len(gaps) > 1 else " ") for gap in gaps),
            *([short(row["npr_s0"]), short(row["npr_s1"])] if rates else []),
        )
    return table


def _with_interval(row: pd.Series, gap: str, between: str = " ") -> Text:
    interval = f"[{short(row[f'{gap}_low'])}, {short(row[f'{gap}_high'])}]"
    return Text(f"{short(row[gap])}{between}{interval}")


def rule_grid(rules: pd.DataFrame, groups: Sequence[str], title: str, gap: str = "ddp") -> Table:
    """Lay clients against the gap that their rule reached, what it cost, and the rule.

    Rules that are no thresholds are not shown, nor are thresholds of more than three groups:
    `threshold_grid` lists them.
    """
    table = grid(title)
    for heading in ("client", f"{gap.upper()} reached", "accuracy\n%", "cost\npoints"):
        table.add_column(heading, no_wrap=True)
    shown = [z for z in range(len(groups)) if f"low_s{z}" in rules and len(groups) <= 3]
    for z in shown:
        table.add_column(Text(f"threshold\n{groups[z]}"), no_wrap=True)
    for _, row in rules.iterrows():
        table.add_row(
            Text(str(row["client"])),
            _with_interval(row, gap),
            accuracy(row["accuracy"]),
            f"{100 * row['cost']:+.1f}",
            *(_threshold(*(row[f"{end}_s{z}"] for end in RULE)) for z in shown),
        )
    return table


def threshold_grid(rules: pd.DataFrame, groups: Sequence[str], title: str) -> Table:
    """List every group's threshold, a column for each client."""
    table = grid(title)
    table.add_column("group", no_wrap=True)
    for client in rules["client"]:
        table.add_column(Text(f"client\n{client}"), no_wrap=True)
    for z, name in enumerate(groups):
        ends = rules[[f"{end}_s{z}" for end in RULE]].itertuples(index=False)
        table.add_row(Text(name), *(_threshold(*row) for row in ends))
    return table


def _threshold(low: float, high: float, chance: float, below: float) -> str:
    """A threshold on the score, or the two ends of a bin in which lots are drawn.

    >>> _threshold(0.5, 0.5, 0.0, 0.0), _threshold(0.5, 0.502, 0.3, 0.125)
    ('0.500', '0.500-0.502, or lot 12 %')
    """
    lot = f", or lot {100 * below:.0f} %" if below > 0 else ""
    if min(low, high) > 0.999:
        return lot.removeprefix(", or ") or "nobody"
    if max(low, high) < 0.001:
        return "everybody"
    if low < 0.001 and chance > 0:
        return f"{high:.3f}, or lot {100 * chance:.0f} %"
    return f"{low:.3f}{lot}" if high == low else f"{low:.3f}-{high:.3f}{lot}"


def rule_words(labels: Sequence[str], thresholds: bool = True) -> list[str]:
    """Explain `rule_grid`."""
    if not thresholds:
        return [
            "The rule is a table: the chance of every decision for each combination of scores",
            "(Run.network.rule(Run.fitted.theta)); it has no thresholds to show.",
        ]
    return [
        f"Predict {labels[1]} if the score is above the threshold of the person's group;",
        "between two numbers, by lot; below a threshold with a lot, for so many of a hundred.",
    ]


def target_words(clients: pd.DataFrame, target: float, gap: str = "ddp") -> str:
    """Say whether the target was reached, client by client."""
    known = clients[clients[gap].notna()]
    within = (known[gap] <= target).sum()
    above = list(known.loc[known[f"{gap}_low"] > target, "client"].astype(str))
    what = f"Target, {gap.upper()} at most {target:g}"
    text = f"{what}: {within} of {len(known)} clients are within it"
    if not above:
        return text + ", and none is surely above it (95 % interval)."
    return f"{text}; surely above it (95 % interval): {', '.join(above)}."


def newcomer_grid(model: PersonalModel, rates: pd.DataFrame, title: str) -> Table:
    """Lay groups against their numbers, thresholds and rates of decisions."""
    table = grid(title)
    rules = isinstance(model.network, Thresholds)
    decisions = rates.columns[2:]
    shown = decisions[1:] if len(decisions) == 2 else decisions
    for heading in ("group", "rows", *(["threshold"] if rules else [])):
        table.add_column(heading, no_wrap=True)
    for label in shown:
        table.add_column(Text(f"{label} %"), no_wrap=True)
    for z, (_, row) in enumerate(rates.iterrows()):
        cells = [f"{100 * row[label]:.1f}" if row["rows"] else "n/a" for label in shown]
        if isinstance(model.network, Thresholds):
            rule = model.network.rule(model.theta[None])[0, z]
            low, high = torch.sigmoid(rule[:2]).tolist()
            cells.insert(0, _threshold(low, high, *rule[2:].tolist()))
        table.add_row(Text(str(row["group"])), f"{row['rows']:g}", *cells)
    return table


def theory_grid(rows: pd.DataFrame, title: str) -> Table:
    """Lay clients against the cost of one fair model and the frontier's accuracies."""
    table = grid(title)
    limits = [c for c in rows.columns if c not in ("client", "role", "share_s1", "cost")]
    for heading in ("client", "role", "share\nS=1", "cost\npoints"):
        table.add_column(heading, no_wrap=True)
    for limit in limits:
        heading = "any\nDDP" if float(limit) >= 1 else f"DDP\n≤ {float(limit):g}"
        table.add_column(heading, no_wrap=True)
    for _, row in rows.iterrows():
        best = [accuracy(row[limit]) for limit in limits]
        about = (SHORT_ROLE[row["role"]], f"{row['share_s1']:.2f}", f"{100 * row['cost']:.1f}")
        table.add_row(Text(str(row["client"])), *about, *best)
    return table


def grid(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def markdown(frame: pd.DataFrame) -> str:
    """Write a frame as a Markdown table, measures with their intervals in one cell."""
    hidden = ("config", "partition", "protocol")
    shown = [c for c in frame.columns if not c.endswith("_half") and c not in hidden]
    lines = ["| " + " | ".join(c.replace("_", " ") for c in shown) + " |"]
    lines.append("|" + "---|" * len(shown))
    for _, row in frame.iterrows():
        cells = [_cell(row, column) for column in shown]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: pd.Series, column: str) -> str:
    half = row.get(f"{column}_half")
    if column.endswith("accuracy"):
        return accuracy(row[column], half)
    if half is not None:
        return ddp(row[column], half)
    return f"{row[column]:g}" if isinstance(row[column], float) else str(row[column])
