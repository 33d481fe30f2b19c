"""What commands say about images: where they are, what is missing, what is there twice."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pfedfair._util import terminal
from pfedfair._util.errors import InputError
from pfedfair.data import DATASETS, FACES, Dataset
from pfedfair.data.images.embed.checkpoints import SHORT
from pfedfair.experiments import Source, Spec, load_source
from pfedfair.partition import Partition, Plan
from pfedfair.studies import Study

BESIDE = (
    "for networks on pixels, and the linear layer beside them has embeddings of these images only."
)
NEAR = 0.97  # a cosine of two embeddings, less their mean: the same picture, or nearly
PAPERS = {name.split("/")[-1] for pair in SHORT.items() for name in pair}  # the paper's encoders


def usual(study: Study, folder: Path | None) -> list[str]:
    """The data sets of a study if none are asked for; those elsewhere if their folder is given."""
    return [*study.datasets, *(study.elsewhere if folder or not study.datasets else ())]


def source(name: str, folder: Path | None, encoder: str | None) -> Source:
    where = str(folder) if folder and name not in DATASETS else None
    return Source(name, folder=where, encoder=encoder if name in FACES else None)


def there(
    specs: Sequence[Spec], what: str, needed: bool = True
) -> tuple[list[Spec], tuple[str, ...]]:
    """Leave out runs whose data is missing; return the others, and what there is to say.

    Where nothing is left and it is `needed`, the first thing that is missing is an error.
    """
    missing: dict[tuple[Source, Plan], InputError] = {}
    notes: list[str] = []
    for one, plan in dict.fromkeys((spec.source, spec.plan) for spec in specs):
        try:
            with terminal.image_progress() as on_work:
                data = load_source(one, on_work)
            part = plan.split(data, 0)
        except InputError as error:
            missing[one, plan] = error
            continue
        if data.array is None:
            notes += [f"{data.name}: {note}" for note in data.notes]
        else:
            there = f"{data.name}: {len(data):,} images are there {BESIDE}"
            named = [there, *strange_encoder(data)]
            if not one.pixels and not one.with_images:
                named = notes_on(data, plan, part)
            notes += [note for note in named if note not in notes]
    rest = [spec for spec in specs if (spec.source, spec.plan) not in missing]
    if not rest and needed:
        raise next(iter(missing.values()))
    left = [f"{what} leaves out {_name(one)}. {error}" for (one, _), error in missing.items()]
    return rest, tuple(dict.fromkeys((*left, *notes)))


def notes_on(data: Dataset, plan: Plan, part: Partition) -> list[str]:
    """What a user has to know about images and how they are dealt."""
    if data.array is None:
        return list(data.notes)
    from pfedfair.data.images.faces import copies, words

    scaled = data.paper_plan.scaled if data.paper_plan and plan.of_paper else ""
    texts = [f"{data.name}: {note}" for note in (*data.notes, scaled) if note]
    texts += strange_encoder(data)
    hashes = data.frame["sha256"].tolist() if "sha256" in data.frame else None
    train = np.concatenate([*part.train, *part.validation])
    dealt = np.concatenate([train, part.pool])
    of_dealt = None if hashes is None else [hashes[row] for row in dealt]
    found = copies(data.array[dealt], NEAR, of_dealt, centre=True)
    if len(found.exact) or len(found.near) or (not found.looked and data.array.ndim == 2):
        places = np.arange(len(dealt))
        texts.append(words(found, data.name, places[: len(train)], places[len(train) :]))
    return texts


def strange_encoder(data: Dataset) -> list[str]:
    """Say that embeddings of faces are of another encoder than the paper's."""
    if data.name not in FACES or data.array is None or data.array.ndim != 2:
        return []
    if data.inputs.split("/")[-1] in PAPERS:
        return []
    return [f"{data.name}: the encoder is {data.inputs}, none of the paper's."]


def _name(one: Source) -> str:
    return f"{one.name} on pixels" if one.pixels else one.name
