"""The files of clients' models: ``model.safetensors`` and ``run.json``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save_file
from torch import Tensor, nn

from pfedfair import methods, models
from pfedfair import rules as rule_kinds
from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic, first_line, read_json, sha256, write_json
from pfedfair._util.limits import regular
from pfedfair.data.tables import encoder as inputs
from pfedfair.data.tables.bands import list_edges
from pfedfair.data.tables.formats import Formats
from pfedfair.data.task import Task
from pfedfair.engines.collection import is_shared
from pfedfair.federation import client_number
from pfedfair.methods import Method
from pfedfair.models import Network
from pfedfair.rules import Likeliest, Rule
from pfedfair.runs.draws import key_of, of_client
from pfedfair.runs.guards import Reference
from pfedfair.runs.personal_model import PersonalModel, UnseenWarning
from pfedfair.runs.predictor import Predictor

__all__ = [
    "FORMAT", "PersonalModel", "Saved", "UnseenWarning", "load_model", "read_model", "write_model",
]  # fmt: skip

FORMAT = 4  # of run.json
RUN_FORMATS = (3, FORMAT)  # of complete runs; from 4 on, one model for all may be stored once
READABLE = (2, *RUN_FORMATS)  # format 2 has models, but no card and no predictions
MAPPED = 2**28  # bytes of weights; larger files are mapped, not read
AT_ONCE = 2**22  # numbers that are checked
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError)


def write_model(
    folder: Path,
    network: Network,
    encoder: inputs.Inputs,
    task: Task,
    rules: Sequence[Rule],
    tensors: dict[str, Tensor],
    about: dict[str, Any],
) -> None:
    """Write ``model.safetensors`` and ``run.json``: all that `read_model` needs, and `about`.

    `rules` has a rule for each client, all of the same kind; it is empty if there are no clients.
    """
    is_one_model = "theta" in tensors and is_shared(tensors["theta"])
    stored = dict(tensors)
    if is_one_model:
        stored["theta"] = tensors["theta"][:1]
    stored |= {f"buffer.{name}": buffer for name, buffer in network.buffers().items()}
    stored |= {f"encoder.{name}": torch.from_numpy(a) for name, a in encoder.tensors().items()}
    if rules:
        stored["rule"] = torch.stack([rule.numbers for rule in rules])
    stored = {name: tensor.contiguous() for name, tensor in stored.items()}
    with atomic(folder / "model.safetensors") as file:
        file.touch()
        mode = file.stat().st_mode  # as all other files: `save_file` keeps others from reading
        save_file(stored, file)
        file.chmod(mode)
        written = sha256(file)
    what = {
        "format": FORMAT,
        "network": network.to_dict(),
        "rule": rules[0].to_dict() if rules else None,
        "encoder": encoder.to_dict(),
        "kinds": asdict(task),
        "one_model": is_one_model,  # for all clients: theta has one row
        "sha256": written,  # of the weights
    }
    write_json(folder / "run.json", about | what)


@dataclass(frozen=True, eq=False)
class Saved:
    """What `write_model` wrote."""

    folder: Path
    network: Network
    encoder: inputs.Inputs
    task: Task
    tensors: dict[str, Tensor]
    about: dict[str, Any]

    @property
    def algorithm(self) -> Method:
        with damage(self.folder / "run.json"):
            return methods.from_dict(self.about["algorithm"])

    @property
    def clients(self) -> list[str]:
        return list(self.about["clients"])

    def rules(self) -> list[Rule]:
        """Return every client's rule."""
        about = self.about["rule"]
        with damage(self.folder):
            return [rule_kinds.from_dict(about, numbers) for numbers in self.tensors["rule"]]

    def model(self, theta: Tensor, rule: Rule | None = None, name: str = "") -> PersonalModel:
        """Return a model with these parameters that decides by `rule`."""
        about = self.about
        return PersonalModel(
            Predictor(self.network, theta, rule or Likeliest(), of_client(self.key, name)),
            self.encoder, self.task,
            tuple(about["group_names"]), tuple(about["label_names"]),
            about.get("sensitive_column", ""), about.get("values", {}), name,
            list_edges(about.get("bands", {}), about.get("sensitive_column", "")),
            Formats.from_dict(about["formats"]) if "formats" in about else None,
        )  # fmt: skip

    @property
    def reference(self) -> Reference | None:
        """The training rows' values; older runs do not have them."""
        if "reference" not in self.tensors:
            return None
        with damage(self.folder / "run.json"):
            about, counts = self.about["reference"], self.tensors["reference"]
            return Reference.from_dict(about, counts, self.encoder)

    @property
    def key(self) -> bytes:
        """The key of random draws; older folders and a server's do not name it."""
        if "key" in self.about or "w" not in self.tensors:
            return bytes.fromhex(self.about.get("key", ""))
        return key_of(self.about.get("seed", 0), self.tensors["w"])

    def of_client(self, client: int | str, copy: bool = True) -> PersonalModel:
        """Return a client's model, by its name or position; it shares no memory if a `copy`."""
        number = client_number(self.about["clients"], client)
        theta = self.tensors["theta"][number]
        theta = theta.clone() if copy else theta
        with damage(self.folder):
            rule = rule_kinds.from_dict(self.about["rule"], self.tensors["rule"][number])
        return self.model(theta, rule, self.about["clients"][number])


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Raise errors in reading a file as an `InputError` that names the file."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else first_line(error)
        raise InputError(
            f"{path} is damaged, or was not written by pfedfair ({reason}): copy it again or train "
            "again."
        ) from error


def read_model(folder: Path, module: nn.Module | None = None) -> Saved:
    """Read what `write_model` wrote; `module` is the network if it is a torch module."""
    card, weights = folder / "run.json", folder / "model.safetensors"
    if not card.exists():
        raise InputError(f"{folder} has no run.json: no run was saved there.")
    about = read_json(card)
    with damage(card):
        version = about.get("format")
    if version not in READABLE:
        raise InputError(f"{folder} was written by another version of pfedfair: train again.")
    try:
        large = weights.stat().st_size > MAPPED
        tensors = load_file(weights) if large else load(regular(weights).read_bytes())
    except FileNotFoundError:
        raise InputError(f"{folder} has no model.safetensors: copy the whole folder.") from None
    except (SafetensorError, *DAMAGE) as error:
        raise InputError(
            f"{weights} is damaged, or no file of models ({first_line(error)}): copy it again or "
            "train again."
        ) from error
    has_nan = any(not _all(tensor, lambda part: part == part)
                  for name, tensor in tensors.items() if name != "facts")  # fmt: skip
    with damage(card):
        scales = {name: tensor.numpy() for name, tensor in _taken(tensors, "encoder.").items()}
        encoder = inputs.from_dict(about["encoder"], scales)
        network = models.from_dict(about["network"], _taken(tensors, "buffer."), module)
        task = Task(*(about["kinds"][name] for name in ("groups", "classes", "aware")))
        saved = Saved(folder, network, encoder, task, tensors, about)
        _check_card(saved)
    with damage(weights):
        _check_numbers(saved)
        if has_nan:
            raise ValueError("it has values that are no numbers")
        if "sha256" in about and about["sha256"] != sha256(weights):
            raise ValueError("its checksum is not the one in run.json")
    return saved


def _all(tensor: Tensor, test: Callable[[Tensor], Tensor]) -> bool:
    """Return whether all numbers pass a test, which gets a part of them at a time."""
    return all(bool(test(part).all()) for part in torch.split(tensor.flatten(), AT_ONCE))


# The types of a card's optional fields; lists are of names.
CARD = {"dataset": str, "sensitive_column": str, "seed": int, "key": str, "command": str,
        "sha256": str, "shared_conditional": bool, "one_model": bool, "algorithm": dict,
        "columns": dict, "data": dict, "formats": dict, "reference": dict,
        "values": dict, "bands": dict, "group_names": list, "label_names": list, "clients": list,
        "facts": list}  # fmt: skip


def _check_card(saved: Saved) -> None:
    """Refuse what has another type, and names that are not as many as groups and labels."""
    task, about = saved.task, saved.about
    for name, kind in CARD.items():
        if name not in about:
            continue
        value = about[name]
        names = kind is not list or all(isinstance(one, str) for one in value or ())
        if not isinstance(value, kind) or not names or (kind is int and isinstance(value, bool)):
            what = "a list of names" if kind is list else f"of type {kind.__name__}"
            raise TypeError(f"{name} must be {what}")
    for name, number in (("group_names", task.groups), ("label_names", task.classes)):
        if len(about[name]) != number:
            raise ValueError(f"{name} has {len(about[name])} names for {number}")
    if len(set(about["clients"])) < len(about["clients"]):
        raise ValueError("two clients have one name")
    if not all(z in range(task.groups) for z in about.get("values", {}).values()):
        raise ValueError("values must name groups")
    if about.get("seed", 0) < 0:
        raise ValueError("seed must be 0 or more")
    bytes.fromhex(about.get("key", ""))
    Formats.from_dict(about.get("formats", {}))


def _check_numbers(saved: Saved) -> None:
    """Refuse models of another size, numbers that are none, and inputs that do not fit."""
    tensors, size, clients = saved.tensors, saved.network.size, len(saved.clients)
    shapes: dict[str, tuple[int, ...]] = {"w": (size,)} if "w" in tensors else {}
    if clients:
        shapes["theta"] = (1 if saved.about.get("one_model") else clients, size)
        if len(tensors["rule"]) != clients:
            raise ValueError(f"there are {len(tensors['rule'])} rules for {clients} clients")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"'{name}' has the shape {tuple(tensors[name].shape)}, not {shape}")
        if not _all(tensors[name], torch.isfinite):
            raise ValueError(f"'{name}' has values that are no finite numbers")
    for name in shapes:  # the encoder's output must fit the network
        two = torch.zeros(1, 2, *saved.encoder.shape)  # rows: batch normalisation needs two
        w = tensors[name].view(-1, size)[:1]
        s = torch.zeros(1, 2, dtype=torch.int64)
        logits = saved.network.logits(w, two, s)
        if name == "theta":  # and the network's output the rule
            rule = rule_kinds.from_dict(saved.about["rule"], tensors["rule"][0])
            rule.draw_chances(logits[0], s[0])
            tensors["theta"] = tensors["theta"].expand(clients, size)


def _taken(tensors: dict[str, Tensor], mark: str) -> dict[str, Tensor]:
    """Remove the tensors whose names begin with a mark; return them without it."""
    return {name[len(mark) :]: tensors.pop(name) for name in list(tensors) if name.startswith(mark)}


def load_model(
    folder: str | Path, client: int | str, module: nn.Module | None = None
) -> PersonalModel:
    """Read a client's model from a folder that `Run.save` wrote.

    `client` is its name (a text) or its position (an integer from 0).

    If the network is a custom ``torch.nn.Module``, pass the same `module`: a file names no code to
    run.
    """
    return read_model(Path(folder), module).of_client(client)
