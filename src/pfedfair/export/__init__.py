"""A client's model for other programs: an ONNX graph, or a scorecard on paper."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from pfedfair.export.onnx import write_onnx
from pfedfair.export.scorecard import write_scorecard
from pfedfair.runs import PersonalModel

__all__ = ["FORMATS", "default_output"]

# The formats of a model: the ending of the file, and the function that writes it. Its third
# argument is the run's shapes, which have the values of rows; it returns the paths written.
Write = Callable[[PersonalModel, Path, pd.DataFrame | None], list[Path]]
FORMATS: dict[str, tuple[str, Write]] = {
    "onnx": (".onnx", lambda model, path, shapes: write_onnx(model, path)),
    "scorecard": (".scorecard.csv", write_scorecard),
}


def default_output(folder: Path, client: str, ending: str) -> Path:
    """Return a path in the run's folder, named after the client.

    >>> default_output(Path("runs"), "St. Mary / west", ".onnx").name
    'St._Mary_west.onnx'
    """
    return folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', client).strip('_') or 'client'}{ending}"
