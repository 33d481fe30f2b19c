"""Find and check an encoder's files, on this machine or on the Hugging Face hub."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from pfedfair._util.errors import InputError, near, option
from pfedfair._util.files import first_line, read_json
from pfedfair._util.limits import regular

SHORT = {"dinov2": "facebook/dinov2-base", "clip": "openai/clip-vit-base-patch16"}
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
WANTED = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    INDEX,
    "*.safetensors",
)
HUB = "https://huggingface.co"


@dataclass(frozen=True)
class Checkpoint:
    """A folder with config.json, preprocessor_config.json and weights as safetensors."""

    name: str  # as typed; of a folder, its last part
    folder: Path
    revision: str | None  # the hub's commit
    weights: tuple[Path, ...]
    keys: frozenset[str]  # the weights' names
    hash: str  # sha256 over the weights' files
    config: str  # sha256 of config.json


def find(encoder: str, revision: str | None = None) -> Checkpoint:
    """Find an encoder by its short name, its folder, or its name on the hub."""
    folder = Path(encoder).expanduser()
    if encoder not in SHORT and folder.exists():
        if revision is not None:
            revised = option("revision")
            raise InputError(f"{revised} is for encoders of the hub: {encoder} is a folder.")
        return _check(folder.resolve().name, folder, None)
    repository = SHORT.get(encoder, encoder)
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", repository):
        raise InputError(
            f"There is no encoder or folder '{encoder}': {near(encoder, SHORT)}{', '.join(SHORT)}, "
            "or say a folder or a name on the hub, such as facebook/dinov2-small."
        )
    snapshot = _snapshot(repository, revision)
    return _check(encoder, snapshot, snapshot.name, repository)


def _snapshot(repository: str, revision: str | None) -> Path:
    """Return the folder of a hub's repository: what is cached, else what can be downloaded."""
    from huggingface_hub import HfApi, errors, snapshot_download

    patterns = list(WANTED)
    try:
        cached = Path(
            snapshot_download(
                repository, revision=revision, allow_patterns=patterns, local_files_only=True
            )
        )
        if (cached / "config.json").exists() and any(cached.glob("*.safetensors")):
            return cached
    except Exception:  # nothing cached: the download says what is wrong
        pass
    at = f" at revision {revision}" if revision else ""
    try:
        HfApi().model_info(repository, revision=revision)  # else half a cache would be taken
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except errors.GatedRepoError as error:
        raise InputError(
            f"{repository} wants you to agree to its terms: do so at {HUB}/{repository}, then "
            "`hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"There is no {repository} on the hub, or it is not public: look at {HUB}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{repository} has no revision {revision}: look at {HUB}.") from error
    except Exception as error:  # no network has many kinds
        raise InputError(
            f"{repository}{at} is not on this machine and cannot be downloaded "
            f"({first_line(error)}): download config.json, preprocessor_config.json and {ONE} from "
            f"{HUB}/{repository}/tree/{revision or 'main'}, put them into one folder, and say "
            f"{option('encoder', 'FOLDER')}."
        ) from error


def _check(name: str, folder: Path, revision: str | None, hub: str | None = None) -> Checkpoint:
    if not folder.is_dir():
        raise InputError(f"{folder} is a file: name the folder with config.json and {ONE}.")
    config = folder / "config.json"
    if not config.is_file():
        raise InputError(f"{folder} has no config.json: name the folder of a transformers model.")
    if (folder / "adapter_config.json").exists():
        raise InputError(f"{folder} holds an adapter: merge it into its model and save that.")
    weights = _weights(folder, hub)
    keys = frozenset(key for path in weights for key in _keys(path))
    return Checkpoint(name, folder, revision, weights, keys, _hash(weights), _hash([config]))


def _weights(folder: Path, hub: str | None) -> tuple[Path, ...]:
    if (folder / ONE).is_file():
        return (folder / ONE,)
    if (folder / INDEX).is_file():
        named = read_json(folder / INDEX)
        parts = sorted(set(named["weight_map"].values()) if "weight_map" in named else ())
        for part in parts:
            if Path(part).name != part or not (folder / part).is_file():
                raise InputError(f"{folder / INDEX} names {part}, which is not there: download it.")
        if parts:
            return tuple(folder / part for part in parts)
    others = [
        each.name
        for end in ("bin", "pt", "pth", "h5", "msgpack")
        for each in folder.glob(f"*.{end}")
    ]
    if others or hub:
        source = hub or folder
        seen = f"only {', '.join(sorted(others))}" if others else "none at this revision"
        raise InputError(
            f"{source} has no {ONE} ({seen}), and other files of weights may run code when they "
            'are read: if you trust it, convert it once with `python -c "from transformers import '
            f"AutoModel; AutoModel.from_pretrained('{source}').save_pretrained('FOLDER')\"`, copy "
            f"its preprocessor_config.json there, and say {option('encoder', 'FOLDER')}."
        )
    raise InputError(f"{folder} has no weights: put the model's {ONE} there.")


def _keys(path: Path) -> list[str]:
    """Return the names in a safetensors file, and check that the file is complete."""
    with regular(path).open("rb") as file:
        if file.read(8).startswith(b"version "):
            raise InputError(
                f"{path} is a Git LFS pointer, not the weights: get the file itself with "
                "`git lfs pull` or from the model's page."
            )
    try:
        with safe_open(path, framework="np") as tensors:
            return list(tensors.keys())
    except SafetensorError as error:
        raise InputError(
            f"{path} is not a complete safetensors file: download it again."
        ) from error


def _hash(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        with regular(path).open("rb") as file:
            while part := file.read(1 << 20):
                total.update(part)
    return total.hexdigest()
