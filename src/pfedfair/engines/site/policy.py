"""A site's policy: limits in a file that belongs to the site, and that no server can change.

A run that exceeds them is refused. The refusal names the line of the policy, and may be sent: it
depends on the policy and on the run's settings, never on a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError, known
from pfedfair._util.files import first_line
from pfedfair._util.limits import parse_json, parse_toml, read_text
from pfedfair.engines.site.schema import Schema
from pfedfair.engines.site.settings import Config, Order, make_algorithm
from pfedfair.methods import METHODS, Method
from pfedfair.methods.phases import adds_noise, sends_models_only

MAX_SCHEMA = 20_000_000  # characters of an agreed table, in JSON: more is not even parsed


class PolicyError(InputError):
    """A violation of the policy; the message may be sent to the server."""


@dataclass(frozen=True)
class Policy:
    """A site's limits, by default those of a careful data protection officer; docs/flower.md."""

    methods: tuple[str, ...] = ()  # none: all that satisfy the rest
    exact_counts: bool = False
    hidden: int = 128
    layers: int = 3
    inputs: int = 5000
    rounds: int = 200
    epochs: int = 50
    largest_setting: int = 1000
    least_batch: int = 20
    messages_per_day: int = 250
    runs_per_day: int = 5
    sketches_per_month: int = 2
    cohorts_per_day: int = 2
    least_people: int = 10
    repeat_description: bool = False
    secure_sum: bool = False
    max_change: float = 1.0
    epsilon: float = 4.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in self.methods:
            known("method in the policy", name, METHODS)
        for field in fields(self):
            value, name = getattr(self, field.name), field.name.replace("_", "-")
            if isinstance(value, int | float) and not value >= 0:
                raise InputError(f"{name} in the policy must be 0 or more, got {value}.")
        if not 0 < self.delta < 1:
            raise InputError(f"delta in the policy must be between 0 and 1, got {self.delta:g}.")

    @classmethod
    def of(cls, node: Config) -> Policy:
        """Return the policy that a site's settings name, or the default.

        A simulated client of a public data set has nothing to hide.
        """
        if node.get("policy"):
            return cls.read(Path(str(node["policy"])))
        return OPEN if "partition-id" in node else cls()

    @classmethod
    def read(cls, path: Path) -> Policy:
        try:
            given = parse_toml(read_text(path))
        except (OSError, ValueError) as error:
            raise InputError(
                f"The policy {path} cannot be read ({first_line(error)}): nothing is answered."
            ) from error
        kinds: dict[str, Any] = {
            field.name.replace("_", "-"): type(field.default) for field in fields(cls)
        }
        made: dict[str, Any] = {}
        for name, value in given.items():
            kind = kinds[known("line of a policy", name, kinds)]
            wanted: Any = {tuple: list, float: (int, float)}.get(kind, kind)
            if not isinstance(value, wanted) or (kind is not bool and isinstance(value, bool)):
                words = {tuple: "a list", bool: "true or false", int: "a whole number"}
                raise InputError(
                    f"{name} in {path} must be {words.get(kind, 'a number')}, got {value!r}."
                )
            made[name.replace("-", "_")] = kind(value)
        return cls(**made)

    def refuse(self, key: str, requested: object) -> PolicyError:
        """Return the error for a request that exceeds the limit `key`."""
        value = getattr(self, key)
        limit = str(value).lower() if isinstance(value, bool) else f"{value:g}"
        return PolicyError(
            f"This site's policy has {key.replace('_', '-')} = {limit}; "
            f"the run asks for {requested}."
        )

    def check_method(self, algorithm: Method) -> None:
        """Refuse a method that the policy does not name, or whose settings exceed its limits."""
        names = {method.kind: method.name for method in METHODS.values()}
        allowed = {METHODS[name].kind for name in self.methods}
        for each in _wrapped(algorithm):
            if allowed and type(each) in names and type(each) not in allowed:
                raise PolicyError(
                    f"This site's policy has methods = {list(self.methods)}; the run asks for "
                    f"{names[type(each)]}."
                )
            for field in fields(each):
                value = getattr(each, field.name)
                if isinstance(value, int) and not isinstance(value, bool) and field.name != "batch":
                    self._check_number(field.name, value)
            if each.batch < self.least_batch:
                raise self.refuse("least_batch", f"batch = {each.batch}")
        if not (
            self.exact_counts or sends_models_only(algorithm.phases) or adds_noise(algorithm.phases)
        ):
            raise self.refuse(
                "exact_counts",
                f"a method that sends numbers of rows without noise, {type(algorithm).__name__}",
            )

    def _check_number(self, name: str, value: int) -> None:
        key = "rounds" if name == "rounds" else "largest_setting"
        key = "epochs" if name.endswith("epochs") else key
        if value > getattr(self, key):
            raise self.refuse(key, f"{name} = {value}")

    def check_run(self, run: Config) -> None:
        """Refuse a run without a secure sum, if the policy requires one."""
        if self.secure_sum and not run.get("secure-sum"):
            raise self.refuse("secure_sum", "this site's numbers outside a secure sum")

    def check_order(self, order: Order) -> None:
        """Refuse an order with impossible numbers."""
        if len(order.schema) > MAX_SCHEMA:
            raise PolicyError("This site does not read so large a table of columns.")
        parse_json(order.schema)  # refuses deep nesting
        for name, value in (("round", order.round), ("local-rounds", order.local_rounds)):
            if value > self.rounds:
                raise self.refuse("rounds", f"{name} = {value}")

    def check_schema(self, schema: Schema) -> None:
        if len(schema.hidden) > self.layers:
            raise self.refuse("layers", len(schema.hidden))
        if max(schema.hidden, default=0) > self.hidden:
            raise self.refuse("hidden", max(schema.hidden))
        if schema.encoder.width > self.inputs:
            raise self.refuse("inputs", schema.encoder.width)


def permitted(node: Config, run: Config) -> tuple[Policy, Method]:
    """Return the site's policy and the run's method, if the policy allows the run."""
    policy, algorithm = Policy.of(node), make_algorithm(run)
    policy.check_run(run)
    policy.check_method(algorithm)
    return policy, algorithm


def _wrapped(algorithm: Method) -> Iterator[Method]:
    """Yield a method, and those that it wraps."""
    yield algorithm
    for field in fields(algorithm):
        value = getattr(algorithm, field.name)
        if isinstance(value, Method):
            yield from _wrapped(value)


MANY = 10**6
OPEN = Policy(
    exact_counts=True, hidden=MANY, layers=MANY, inputs=MANY, rounds=MANY, epochs=MANY,
    largest_setting=MANY, least_batch=1, messages_per_day=MANY, runs_per_day=MANY,
    cohorts_per_day=MANY, sketches_per_month=MANY, repeat_description=True, epsilon=float(MANY),
)  # fmt: skip
