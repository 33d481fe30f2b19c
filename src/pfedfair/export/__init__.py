"""A client's model for other programs: an ONNX graph, or a scorecard on paper."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pfedfair.errors import InputError
from pfedfair.export.onnx import write_onnx
from pfedfair.export.scorecard import write_scorecard
from pfedfair.files import first_line
from pfedfair.runs import PersonalModel
from pfedfair.runs.run import SHAPES

__all__ = ["FORMATS", "default_output", "shapes_of"]

# What a model can be written as: the ending of its file, and how it is written. The third argument
# is the run's shapes, which say what values people have; what is returned is what was written.
Write = Callable[[PersonalModel, Path, pd.DataFrame | None], list[Path]]
FORMATS: dict[str, tuple[str, Write]] = {
    "onnx": (".onnx", lambda model, path, shapes: write_onnx(model, path)),
    "scorecard": (".scorecard.csv", write_scorecard),
}


def default_output(folder: Path, client: str, ending: str) -> Path:
    """A file in the run's folder, called after the client.

    >>> default_output(Path("runs"), "St. Mary / west", ".onnx").name
    'St._Mary_west.onnx'
    """
    return folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', client).strip('_') or 'client'}{ending}"


def shapes_of(folder: Path) -> pd.DataFrame | None:
    """The shapes that a run kept, if it has such."""
    path = folder / SHAPES
    if not path.exists():
        return None
    try:
        text = {"column": str, "kind": str, "level": str, "label": str}
        return pd.read_csv(path, dtype=text, keep_default_na=False, na_values={"value": [""]})
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({first_line(error)}).") from error
