"""The options that several commands share.

A command names a group of options as the type of one of its arguments, and `unfold` lets a user
type them one by one.
"""

import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, wraps
from inspect import Parameter, signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_type_hints

from typer import Argument, Option

from pfedfair import partition
from pfedfair._util import terminal
from pfedfair._util.errors import InputError, known
from pfedfair.data import DATASETS, FACES, MODELS, NATURAL, Dataset
from pfedfair.data.tables.reading import ENDINGS
from pfedfair.experiments import Source, load_source
from pfedfair.federation import Federation
from pfedfair.methods import METHODS, Method
from pfedfair.methods.defaults import make_for
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.models import PIXELS
from pfedfair.partition import Plan
from pfedfair.penalties import PENALTIES

T = TypeVar("T")
Text = str | None
Real = float | None
Seed = Annotated[int, "Where all random numbers come from: 0, 1, ..."]
Seeds = Annotated[int, "How many seeds: 0, 1, ..."]
Jobs = Annotated[int | None, "Processes; by default one per core. With --cluster: runs at once."]
Cluster = Annotated[
    Text,
    "Do the runs on a Ray cluster: its address HOST:PORT, with its token in RAY_AUTH_TOKEN; local "
    "starts one on this machine. The results are the same bytes.",
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Rounds = Annotated[int | None, "Rounds of communication; as tuned if left out."]
Protocol = Annotated[
    Text,
    "Which rows measure a client. pool: the held-out rows of all clients, weighted to the client's "
    "shares of the groups; own: its own held-out rows.",
]
TargetDDP = Annotated[
    Real, "The largest gap between groups that a client's decisions may have, instead of --eta."
]
PIXEL_SIZE = 64
OWN_METHOD, PAPER_METHOD = "transport", "pfedfair"  # if none is typed
Confidence = Annotated[
    Real, "The confidence level of the target, 0.95 if left out; 0 is a target on average."
]
Jointly = Annotated[bool, "All clients meet the target jointly at this confidence level."]
MaxRandomised = Annotated[
    Real,
    "The largest part of a client's rows whose decision may be a random draw; 0.05 if left out.",
]
Prefer = Annotated[
    Text, "up: no group gets fewer positive decisions than without a target; any if left out."
]


def unfold(command: Callable[..., T]) -> Callable[..., T]:
    """Let a command be called with the fields of its groups of options, one by one."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flat: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        inner, each = hints, [parameter]
        if name in groups:
            inner = get_type_hints(groups[name], include_extras=True)
            each = [*signature(groups[name]).parameters.values()]
        for one in each:
            hint = _option(one.name, inner[one.name])
            flat.append(one.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def unfolded(**given: Any) -> T:
        for name, group in groups.items():
            own = {field.name: given.pop(field.name) for field in fields(group)}
            given[name] = group(**own)
        return command(**given)

    flat.sort(key=lambda one: one.default is not Parameter.empty)
    unfolded.__signature__ = signature(unfolded).replace(parameters=flat)  # type: ignore[attr-defined]
    unfolded.__annotations__ = {one.name: one.annotation for one in flat}
    return unfolded


def _option(name: str, hint: Any) -> Any:
    """A text beside a type is the help of an option; what is true or false is a flag."""
    (text,) = getattr(hint, "__metadata__", (None,))
    if not isinstance(text, str):
        return hint
    flag = [f"--{name.replace('_', '-')}"] if hint.__origin__ is bool else []
    return Annotated[hint.__origin__, Option(*flag, help=text)]


@dataclass(frozen=True)
class DataOptions:
    """Which rows, and which client holds them."""

    data: Annotated[
        str,
        Argument(
            help=f"{', '.join(DATASETS)}; {', '.join((*NATURAL, *FACES))} (with --data); the path "
            f"of a table ({', '.join(ENDINGS)}), or of a folder of images with manifest.csv."
        ),
    ]
    label: Annotated[Text, "Your file: the column to predict."] = None
    sensitive: Annotated[
        Text,
        "The column with the groups to compare, S; several columns with commas between make a "
        "group of every combination.",
    ] = None
    client: Annotated[Text, "The column that says which client a row belongs to."] = None
    drop: Annotated[Text, "Your file: columns that the model shall not see."] = None
    categorical: Annotated[Text, "Your file: columns of numbers that are codes, like zip."] = None
    keep: Annotated[
        Text, "Your file: columns to take even if they look like identifiers or copies."
    ] = None
    encoding: Annotated[
        Text,
        "How columns become inputs: standard (numbers standardised; usual for bundled data sets) "
        "or piecewise (piecewise-linear between quantiles; usual for your file).",
    ] = None
    merge_groups: Annotated[bool, "Make one group of those with too few rows."] = False
    positive: Annotated[Text, "Your file: the label that counts as positive."] = None
    bands: Annotated[
        list[str] | None,
        "Make groups of a sensitive number: age:25,45,65 are those under 25, from 25 to under 45, "
        "and so on; may come repeatedly.",
    ] = None
    test: Annotated[
        Text, "Your file: another one with rows for the test; then all of yours train."
    ] = None
    weight: Annotated[Text, "Your file: the column that says how much a row counts; no input."] = (
        None
    )
    person: Annotated[
        Text,
        "Your file: the column that says whose a row is; no input, and no person has rows on both "
        "sides of a split.",
    ] = None
    missing_sensitive: Annotated[
        Text,
        "Your file: rows whose S is missing are left out of training and measurement (exclude, the "
        "default), a group of their own (group), or an error (refuse).",
    ] = None
    unknown: Annotated[
        Text, "Your file: further words for a missing S, with commas between: Unknown,not stated."
    ] = None
    partition: Annotated[
        str,
        "How clients are made: fixed (the paper's shares of the groups), dirichlet (drawn shares), "
        "column (see --client), together (one client with all rows).",
    ] = "fixed"
    clients: Annotated[int | None, "How many clients; the paper's plan if left out."] = None
    rows: Annotated[int | None, "Training rows of each client, with --clients or --client."] = None
    min_rows: Annotated[
        int | None, "With --client: leave out clients with fewer rows; without it, 20 are needed."
    ] = None
    folder: Annotated[
        Path | None,
        Option(
            "--data",
            help="Where a data set is that is not bundled: a folder, or a file.",
        ),
    ] = None
    encoder: Annotated[
        Text, "Images: the encoder whose embeddings to take, or to make if there are none."
    ] = None
    pixels: Annotated[
        int | None, "Images: train a network on pixels, of images so many pixels wide."
    ] = None
    scaling: Annotated[
        Text, "Embeddings: standard (each number by itself) or whiten (no correlations)."
    ] = None
    skip_missing: Annotated[bool, "Images: leave out those that are listed but absent."] = False
    model: Annotated[
        Text,
        f"{', '.join(MODELS)}; on pixels one of {', '.join(PIXELS)}. If left out, your own "
        "tables and transport have an additive model, bundled data the paper's perceptron.",
    ] = None

    @cached_property
    def source(self) -> Source:
        of_images = self.data in FACES or Path(self.data).is_dir()
        images = self.pixels is not None or (of_images and self.model in set(PIXELS) - set(MODELS))
        size = PIXEL_SIZE if self.pixels is None else self.pixels
        typed = {field.name: getattr(self, field.name, None) for field in fields(Source)}
        folder = str(self.folder) if self.folder else None
        where = {"name": self.data, "folder": folder, "pixels": size if images else None}
        return Source.parse(**typed | where | {"with_images": False})

    def suited(self, method: str) -> Self:
        """Return the same people with the model that a method likes best, if nothing was typed."""
        liked = METHODS[known("method", method, METHODS)].kind.tuning.model
        typed = self.model is not None or self.encoding is not None
        return self if typed or not liked or self.dataset.array is not None else (
            replace(self, model=liked))  # fmt: skip

    @property
    def dataset(self) -> Dataset:
        with terminal.image_progress() as on_work:
            return load_source(self.source, on_work)

    def plan(self, validation: float = 0.0) -> Plan:
        return partition.choose(
            self.partition, self.dataset, self.clients, self.rows, self.client, validation,
            self.min_rows,
        )  # fmt: skip

    def make(self, plan: Plan, method: str, given: dict[str, Any]) -> Method:
        """Return a method as tuned for these people, with what was given."""
        return make_for(plan.rows_each(self.dataset), method, given, self.dataset)

    def aware(self, blind: bool | None) -> bool:
        """Return whether S is an input: as asked, or as is usual for the data set."""
        if blind is False and set(self.source.drop) & set(names(self.sensitive or "")):
            raise InputError(f"--drop {self.drop} has S, --aware makes it an input: leave one out.")
        return self.dataset.aware if blind is None else not blind

    def federate(self, plan: Plan, seed: int, blind: bool | None = None) -> Federation:
        return self.dataset.federate(plan, at_least("--seed", seed, 0), self.aware(blind))


@dataclass(frozen=True)
class Settings:
    """Settings of any method."""

    penalty: Annotated[
        Text, f"How fair methods measure unfairness in training: {', '.join(PENALTIES)}."
    ] = None
    criterion: Annotated[
        Text,
        "What fairness means. dp: groups have equal rates of decisions; eo: so have people of "
        "equal label (equalised odds); eopp: so have those with the last label (equal "
        "opportunity). dp if left out.",
    ] = None
    rounds: Rounds = None
    set: Annotated[
        list[str] | None, "Any other setting of a method, as key=value; may come repeatedly."
    ] = None
    blind: Annotated[
        bool | None,
        Option(
            "--blind/--aware",
            help="Whether the group S is no input of the model, or is one; if left out, it is one "
            "of every model but those of images.",
        ),
    ] = None

    def given(self, **more: Any) -> dict[str, Any]:
        """Return what was typed, by the settings' names."""
        if self.criterion is not None:
            known("criterion", self.criterion, CRITERIA)
        found = typed(penalty=self.penalty, criterion=self.criterion, rounds=self.rounds, **more)
        for pair in self.set or []:
            key, equals, value = pair.partition("=")
            key = key.strip().replace("-", "_")
            if not equals or not key:
                raise InputError(f"--set takes key=value, such as --set gamma=0.01; got '{pair}'.")
            if key in found:
                raise InputError(f"{key} is given twice.")
            found[key] = value.strip()
        return found


@dataclass(frozen=True)
class OneMethod:
    """One method, and how fair it shall be."""

    method: Annotated[
        Text,
        f"One of {', '.join(METHODS)}. If left out, {OWN_METHOD} for your own table and "
        f"{PAPER_METHOD} for the paper's data.",
    ] = None
    eta: Annotated[
        Real,
        "How much fairness counts in training, for methods with a penalty: 0 not at all, near 1 "
        "most; 0.9 if left out.",
    ] = None
    target_ddp: TargetDDP = None
    confidence: Confidence = None
    jointly: Jointly = False
    max_randomised: MaxRandomised = None
    prefer: Prefer = None

    def name(self, data: DataOptions) -> str:
        """Return the method's name: as typed, or the usual one for the data."""
        if self.method is not None:
            return known("method", self.method, METHODS)
        own = data.data not in (*DATASETS, *FACES) and data.dataset.array is None
        able = data.weight is None or METHODS[OWN_METHOD].kind().supports.weights
        return OWN_METHOD if own and able and self.eta is None else PAPER_METHOD

    def reason(self, data: DataOptions) -> str:
        """Return why the method is the usual one for the data, in a line; "" if it was typed."""
        if self.method is not None:
            return ""
        if self.name(data) == OWN_METHOD:
            return (
                f"Method: {OWN_METHOD}, usual for your own table, as it has a target for every "
                f"client and nothing to tune. The paper's is --method {PAPER_METHOD}."
            )
        of = "the paper's data" if data.data in (*DATASETS, *FACES) else "--eta, --weight or images"
        return f"Method: {PAPER_METHOD}, usual for {of}. With a target: --method {OWN_METHOD}."

    def make(self, data: DataOptions, plan: Plan, settings: Settings, **more: Any) -> Method:
        """Return the method, as tuned for these rows, with what was typed."""
        given = settings.given(
            eta=self.eta, target_ddp=self.target_ddp, confidence=self.confidence,
            jointly=self.jointly or None, max_randomised=self.max_randomised, prefer=self.prefer,
        )  # fmt: skip
        return data.make(plan, self.name(data), more | given)


def typed(**options: Any) -> dict[str, Any]:
    """The options that a user typed."""
    return {name: value for name, value in options.items() if value is not None}


def unique(values: Iterable[T]) -> list[T]:
    """Drop what came before."""
    return list(dict.fromkeys(values))


def names(text: str) -> list[str]:
    """Names with commas between."""
    return unique(name.strip() for name in text.split(",")) if text else []


def at_least(option: str, number: int, least: int = 1) -> int:
    if number < least:
        raise InputError(f"{option} must be at least {least}, got {number}.")
    return number


def command_line() -> str:
    """What was typed, without what changes no number: where it is done and written, and --live."""
    words, kept = ["pfedfair", *sys.argv[1:]], []
    for before, word in pairwise(["", *words]):
        where = {before, word.partition("=")[0]} & {"--out", "--cluster"}
        if not where and word not in ("--live", "--open"):
            kept.append(word)
    return shlex.join(kept)


def new_folder(out: Path) -> Path:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not empty: choose another --out.")
    return out


def checked_protocol(protocol: str | None) -> str | None:
    return None if protocol is None else known("protocol", protocol, ["pool", "own"])
