"""The server's state after every round, in one file that is replaced atomically."""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair.engines.site import checksums
from pfedfair.engines.site.schema import Schema
from pfedfair.methods import State

NAME = "checkpoint.safetensors"


@dataclass
class Participant:
    """A site of a run; its number is its position in the list of sites."""

    name: str
    rows: int


@dataclass
class Checkpoint:
    """All that the server needs to resume; `last_answers` are by the sites' numbers."""

    key: str
    schema: Schema
    sites: list[Participant]
    server: State
    done: int = 0
    last_answers: dict[int, State] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def name(self) -> str:
        """The name of the run's states at the sites; no other run with the same settings has it."""
        return f"{self.key}-{self.token}"

    def save(self, folder: Path) -> None:
        about = {name: getattr(self, name) for name in ("key", "done", "seconds", "token")}
        about |= {"schema": self.schema.to_json(), "places": [vars(one) for one in self.sites]}
        tensors = {f"server.{name}": tensor for name, tensor in self.server.items()}
        for number, message in self.last_answers.items():
            tensors |= {f"last.{number}.{name}": tensor for name, tensor in message.items()}
        checksums.write(folder / NAME, tensors, about)

    @classmethod
    def load(cls, folder: Path) -> Checkpoint | None:
        path = folder / NAME
        if not path.exists():
            return None
        try:
            tensors, about = checksums.read(path)
            about["schema"] = Schema.from_json(about["schema"])
        except Exception as error:
            raise InputError(
                f"{path} cannot be read ({first_line(error)}): delete it to start anew."
            ) from error
        states: dict[str, State] = defaultdict(dict)
        for name, tensor in tensors.items():
            owner, _, own_name = name.removeprefix("last.").partition(".")
            states[owner][own_name] = tensor
        server = states.pop("server")
        last = {int(number): state for number, state in states.items()}
        sites = [Participant(**site) for site in about.pop("places")]
        return cls(**about, sites=sites, server=server, last_answers=last)
