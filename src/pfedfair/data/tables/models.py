"""Choose the model for a data set: the encoding of its columns, and the network's layers."""

from dataclasses import replace

from pfedfair._util.errors import InputError, known, option
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.encoder import ENCODINGS

PIECEWISE, STANDARD = "piecewise", "standard"
ADDITIVE, LINEAR, MLP = MODELS = ("additive", "linear", "mlp")
PERCEPTRONS = ("adult", "compas")  # data sets with a perceptron by default, the paper's
ADDITIVES = ("own", "acs")  # sections of settings that are those of additive models
HIDDEN = (64, 64)  # layers of a perceptron, where the data set does not say


def with_model(data: Dataset, model: str | None = None, encoding: str | None = None) -> Dataset:
    """Return the same rows for another model, or another encoding of their columns.

    "additive" is a sum of shapes, one of each column: linear in a piecewise-linear basis. "linear"
    is linear in the encoded inputs, and "mlp" a perceptron on them. A network on pixels has another
    name.
    """
    if data.array is not None and data.array.ndim > 2:
        _refuse_encoding(encoding, data)
        return replace(data, model=model or "")
    if model is not None:
        able = MODELS if data.array is None else (LINEAR, MLP)
        known("model", model, able)
    if data.array is not None:
        _refuse_encoding(encoding, data)
    if encoding is not None:
        known("encoding", encoding, ENCODINGS)
    if model == ADDITIVE:
        if encoding == STANDARD:
            no = option("encoding", STANDARD)
            raise InputError(f"An additive model has a piecewise-linear basis: leave out {no}.")
        encoding = PIECEWISE
    hidden = {None: data.hidden, MLP: data.hidden or HIDDEN}.get(model, ())
    if encoding is None or encoding == data.encoding:
        return replace(data, hidden=hidden, settings=_section(data, data.settings, hidden))
    if encoding == PIECEWISE and model is None:
        hidden = ()
    piecewise = encoding == PIECEWISE
    name = f"{data.name}-{ADDITIVE}" if piecewise and not hidden else f"{data.name}-{encoding}"
    settings = f"{data.settings}-{ADDITIVE}" if piecewise and not hidden else data.settings
    return replace(
        data, name=name, encoding=encoding, hidden=hidden,
        settings=_section(data, settings, hidden),
    )  # fmt: skip


def settings_of(name: str, model: str | None) -> str:
    """Return the section of tuned settings of a model; "own", for your tables, is additive."""
    is_own = name not in PERCEPTRONS
    if model == ADDITIVE:
        return "own" if is_own else f"{name}-{ADDITIVE}"
    return f"own-{MLP}" if is_own and model == MLP else name


def _section(data: Dataset, settings: str, hidden: tuple[int, ...]) -> str:
    if settings in ADDITIVES and data.array is None and hidden:
        return settings_of(settings, MLP)
    return settings


def _refuse_encoding(encoding: str | None, data: Dataset) -> None:
    if encoding is not None:
        raise InputError(f"'{data.name}' has no columns to encode: leave out {option('encoding')}.")
