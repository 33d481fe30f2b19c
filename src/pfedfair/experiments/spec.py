"""The specification of a run: all that determines it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import sha256
from pfedfair._util.scalars import to_scalars
from pfedfair.data import DATASETS, FACES, NATURAL, Dataset, load, with_model
from pfedfair.data.tables.options import TableOptions
from pfedfair.methods import Method
from pfedfair.methods.phases import total_rounds
from pfedfair.models import PIXELS
from pfedfair.partition import Plan

FRONTIER = "frontier"
# Left out of a description where they are not used.
LATER = ("positive", "bands", "test", "weight", "person", "missing_sensitive", "unknown")
FRONTIER_LIMITS = (1.0, 0.1, 0.05, 0.02, 0.0)  # on DDP, where the frontier is computed


@dataclass(frozen=True)
class Source(TableOptions):
    """The source of rows: a bundled data set, a file with the names of its columns, or images.

    `model` and `encoding` of columns, if not the default ones; `test` is a file. For images: the
    `folder` of them or of their embeddings, the `encoder` that embeds them, how embeddings are
    scaled; or the size of images in `pixels`, for networks on pixels.
    """

    folder: str | None = None
    encoder: str | None = None
    pixels: int | None = None
    scaling: str | None = None
    skip_missing: bool = False
    with_images: bool = False
    model: str | None = None
    encoding: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the name of a bundled data set, or a file's name, contents and columns."""
        if self == Source(self.name) and self.name in DATASETS:
            return {"name": self.name}
        about = asdict(self)
        about = {k: v for k, v in about.items() if k not in LATER or v not in (None, ())}
        if self.name in DATASETS:
            return about
        about |= {"name": Path(self.name).name}
        if self.test is not None:
            about |= {"test": Path(self.test).name, "test_sha256": _sha256(self.test)}
        if self.name in (*FACES, *NATURAL) or Path(self.name).is_dir():
            return about | {"folder": None, "sha256": load_source(self).digest}
        return about | {"sha256": _sha256(self.name)}


@dataclass(frozen=True)
class Spec:
    """All that determines a run.

    With `frontier`, not the algorithm is measured but the best thresholds on the scores of its
    global model, at each of `FRONTIER_LIMITS`; the results call this method `FRONTIER`. With
    `validated` the run is measured on the validation rows too, in separate rows of the results.
    """

    source: Source
    plan: Plan
    method: str
    algorithm: Method
    seed: int
    protocol: str | None = None
    sensitive_as_input: bool | None = None  # as the data set says
    validated: bool = False
    frontier: bool = False

    def __post_init__(self) -> None:
        to_scalars(self)

    def describe(self) -> dict[str, Any]:
        """Return a description for JSON: equal specs have equal text."""
        source, plan = self.source.describe(), self.plan.to_dict()
        algorithm = self.algorithm.to_dict()
        return vars(self) | {"source": source, "plan": plan, "algorithm": algorithm}

    @property
    def name(self) -> str:
        """The method's name in the results."""
        return FRONTIER if self.frontier else self.method

    @property
    def key(self) -> str:
        text = json.dumps(self.describe(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{Path(self.source.name).stem}-{self.name}-{self.seed}-{digest}"

    @property
    def trains(self) -> bool:
        """Whether there is any training to do."""
        cost = self.algorithm.cost()
        return cost.per_round + cost.at_end > 0

    @property
    def work(self) -> float:
        """An estimate of the amount of arithmetic, for estimates of time."""
        cost, rounds = self.algorithm.cost(), total_rounds(self.algorithm.phases)
        data = load_source(self.source)
        weights: float = sum(a * b for a, b in pairwise((64, *data.hidden, 1)))
        if data.array is not None:
            weights = size = data.array[0].size
            if self.source.pixels:
                weights = PIXELS[data.model or "cnn"].work * size / 12_288
        rows = data.paper_plan.rows if data.paper_plan else len(data)
        return (rounds * cost.per_round + cost.at_end) * (rows * (weights + 2e4) / 1e7) + 1.0


Unit = tuple[Spec, ...]  # runs that one training serves


def work_of(unit: Unit) -> float:
    """Return the work of all runs of a unit."""
    return sum(spec.work for spec in unit)


LOADED: dict[Source, Dataset] = {}  # the rows that this process has read


def load_source(
    source: Source, on_work: Callable[[int, int], None] = lambda done, total: None
) -> Dataset:
    """Return the rows of a source, read once per process for all models of them.

    `on_work` gets the progress on its images.
    """
    if source not in LOADED:
        if source.name in NATURAL and source.label:  # in Python that may be the folder
            raise InputError(f"'{source.name}' has its own label: leave it out.")
        of_images = {"on_work": on_work} if source.encoder or source.pixels else {}
        rows = replace(source, model=None, encoding=None)
        LOADED[source] = (
            load(**asdict(source) | of_images)
            if rows == source
            else with_model(load_source(rows, on_work), source.model, source.encoding)
        )
    return LOADED[source]


@lru_cache(maxsize=4)
def _sha256(path: str) -> str:
    return sha256(Path(path))
