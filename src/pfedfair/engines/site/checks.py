"""Checks of a site's answers: by the site before it sends them, and again by the server."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.methods import State
from pfedfair.methods.phases import Phase

FAR = 100.0  # times the median norm of the sites' updates: refused
LONG = 3.0  # times the median norm: shortened to it
AGAINST = 1.5  # times the median norm, of an update against the others': shortened to it
MIN_SITES = 3  # for a median that one site cannot move
OPPOSED = -0.25  # cosine of an update with the typical direction: the sites are asked about it
APART = 3.0  # times the typical distance from the median of statistics: the sites are asked
MIN_NUMBERS = 32  # in a tensor, for distances to say something


def check_model(what: str, weights: Tensor) -> None:
    if not bool(torch.isfinite(weights).all()):
        raise InputError(
            f"Training failed: the {what} model has weights that are infinite or NaN; use a "
            "smaller step size, alpha."
        )


def refusal(message: State, server: State, models: Sequence[str], max_change: float) -> str | None:
    """Return what is wrong with a site's answer to the `server`'s state, or None.

    A tensor whose name is in `models` may differ from the server's by at most `max_change` (root
    mean square over its weights).
    """
    for name, tensor in message.items():
        if not bool(torch.isfinite(tensor).all()):
            bad = int((~torch.isfinite(tensor)).sum())
            return f"'{name}' has {bad} number{'s' * (bad > 1)} that cannot be (infinite, or NaN)"
        if name not in server:
            continue
        before = server[name]
        if tensor.shape != before.shape:
            return f"'{name}' has shape {tuple(tensor.shape)}, not {tuple(before.shape)}"
        if tensor.dtype != before.dtype:
            return f"'{name}' has numbers of kind {tensor.dtype}, not {before.dtype}"
        if name not in models:
            continue
        change = float((tensor.double() - before.double()).square().mean().sqrt())
        if change > max_change:
            return f"'{name}' moved by {change:.3g} on average, more than {max_change:g}"
    return None


def cannot_be(
    phase: Phase, message: State, state: Checkpoint, numbers: Iterable[int]
) -> str | None:
    """Return why these sites cannot have sent a message, or the sum of theirs; or None."""
    sizes = [state.sites[number].rows for number in numbers]
    try:
        return phase.impossible(message, state.server, sizes) or None
    except Exception as error:  # other names, shapes or kinds of numbers
        return f"it cannot be checked ({first_line(error)})"


def find_outliers(
    messages: Mapping[int, State], server: State, models: Sequence[str]
) -> dict[int, str]:
    """Return the answers unlike the others', and why: other names or shapes, or a distant model."""
    forms = {
        number: tuple(sorted((name, tuple(t.shape), str(t.dtype)) for name, t in message.items()))
        for number, message in messages.items()
    }
    if not forms:
        return {}
    often = Counter(forms.values())
    usual = max(often, key=lambda form: (often[form], any(name == "w" for name, *_ in form)))
    odd = {
        number: f"it has {_words(form)}, the others have {_words(usual)}"
        for number, form in forms.items()
        if form != usual
    }
    for name in models:
        moved = {
            number: float((message[name] - server[name]).norm())
            for number, message in messages.items()
            if number not in odd and name in message
        }
        middle = median(moved.values()) if moved else 0.0
        odd |= {
            number: f"'{name}' moved {way / middle:.3g} times as far as the others' did"
            for number, way in moved.items()
            if middle > 0 and way > FAR * middle
        }
    return odd


def shorten_updates(
    messages: Mapping[int, State], server: State, models: Sequence[str], rows: Mapping[int, int]
) -> tuple[dict[int, State], dict[int, str]]:
    """Shorten updates of `LONG` times the median norm to the median; return reasons, too.

    A site with more rows takes more steps, so its limit is proportionally higher. An update that
    points against the others is shortened from `AGAINST` times the median on, so that one site
    cannot outweigh two, and is not used at all if it is `LONG` as well: the site then counts with
    the server's model. All other updates are unchanged.
    """
    made, reasons = dict(messages), {}
    for name in models:
        update = {
            number: message[name].double() - server[name].double()
            for number, message in messages.items()
            if name in message and name in server
        }
        norm = {number: float(one.norm()) for number, one in update.items()}
        middle = median(norm.values()) if norm else 0.0
        if len(norm) < MIN_SITES or middle == 0:
            continue
        typical_rows = median(rows[number] for number in norm)
        for number, way in norm.items():
            if way <= AGAINST * middle:
                continue
            others = sum(one * min(1.0, middle / norm[k]) for k, one in update.items()
                         if k != number and norm[k] > 0)  # fmt: skip
            against = float((update[number] * others).sum()) < 0
            due = middle * max(1.0, rows[number] / typical_rows)
            far = against and way > LONG * middle
            if not far and way <= (AGAINST if against else LONG) * due:
                continue
            part = 0.0 if far else due / way
            short = server[name].double() + part * update[number]
            made[number] = made[number] | {name: short.to(server[name].dtype)}
            what = "is shortened" if part else "is not used"
            what += ", as it points against the others'" if against else " to theirs"
            reasons[number] = f"'{name}' moved {way / middle:.3g} times the median way and {what}"
    return made, reasons


def find_suspects(
    messages: Mapping[int, State],
    server: State,
    models: Sequence[str],
    sums: Sequence[str],
    rows: Mapping[int, int],
) -> dict[int, str]:
    """Return the sites whose answers are unlike most, and how: the others should vote on these.

    An update of a model that points against the typical direction, or a statistic that is far from
    the median of all. Neither is a proof, since honest sites may differ. Statistics in `sums` grow
    with a site's rows.
    """
    numbers = list(messages)
    found: dict[int, str] = {}
    if len(numbers) < MIN_SITES:
        return found
    for name in messages[numbers[0]]:
        each = torch.stack([messages[number][name].double().flatten() for number in numbers])
        if each.shape[1] < MIN_NUMBERS:
            continue
        if name in models:
            each -= server[name].double().flatten()
            each /= each.norm(dim=1, keepdim=True).clamp(min=1e-30)
            middle = each.median(0).values
            cosine = each @ middle / middle.norm().clamp(min=1e-30)
            odd = {
                k: f"'{name}' points against the others' (cosine {c:.2f})"
                for k, c in zip(numbers, cosine.tolist(), strict=True)
                if c < OPPOSED
            }
        else:
            if name in sums:
                each /= torch.tensor([[max(1, rows[k])] for k in numbers], dtype=torch.float64)
            apart = (each - each.median(0).values).norm(dim=1)
            usual = float(apart.median())
            odd = {
                k: f"'{name}' is {far / (usual or 1e-30):.3g} times as far from the median as usual"
                for k, far in zip(numbers, apart.tolist(), strict=True)
                if far > APART * usual
            }
        found = odd | found
    return found


def _words(form: tuple[tuple[str, tuple[int, ...], str], ...]) -> str:
    return ", ".join(f"'{name}' {shape} {kind}" for name, shape, kind in form) or "nothing"
