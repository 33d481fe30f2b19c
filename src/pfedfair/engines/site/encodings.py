"""Check the encoding that a run asks for: a server could choose one that singles rows out.

The first check depends on no row; the second on no more than a site has described.
"""

from collections.abc import Iterable

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import LARGEST, floats
from pfedfair.data.tables.dates import base_of, require_column
from pfedfair.data.tables.encoder import Encoder
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.engines.site.bounds import FAR
from pfedfair.engines.site.missing_columns import is_absent_hour, is_empty

ROUNDING = 1e-14  # relative


def check_encoder(data: Dataset, client: str, encoder: Encoder | Piecewise) -> None:
    """Refuse an encoder of another kind, of dropped columns, or with impossible numbers."""
    if encoder.encoding != data.encoding:
        raise InputError(
            f"The run asks for the encoding {encoder.encoding}; this site's is {data.encoding}."
        )
    columns = zip(encoder.names, (data.numeric, data.categorical), strict=True)
    odd = [c for agreed, own in columns for c in agreed if c not in own or c == client]
    inputs = {*data.numeric, *data.categorical} - {client}
    odd = [c for c in odd if base_of(c)[0] not in inputs or not is_empty(data, base_of(c)[0])]
    odd = [c for c in odd if not is_absent_hour(c, data.categorical)]
    if odd:
        raise InputError(f"The run asks for the column '{odd[0]}', which is no such input here.")
    for name in encoder.names[0]:
        if not _is_sound(encoder, name):
            raise InputError(f"The run encodes the column '{name}' by numbers that cannot be.")


def check_scales(data: Dataset, rows: np.ndarray, encoder: Encoder | Piecewise) -> None:
    """Refuse means and scales that no rows like these can have been part of.

    All sites' rows together have a root mean square of 1, so a site's have at most the root of all
    rows over its own: `FAR` for one row in a million. Rounding apart: a column that is constant
    everywhere has scale 1, whatever its size.
    """
    if not isinstance(encoder, Encoder):
        return
    for name, mean in encoder.mean.items():
        values = floats(require_column(data.frame, name).iloc[rows])
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        with np.errstate(over="ignore"):
            away = float(np.sqrt(np.square(values - mean).mean()))
        if not away <= FAR * max(encoder.scale[name], ROUNDING * abs(mean)):
            raise InputError(
                f"The run encodes the column '{name}' by a mean of {mean:.3g} and a scale of "
                f"{encoder.scale[name]:.3g}; its numbers here are around {values.mean():.3g}, "
                f"spread by {values.std():.3g}."
            )


def _is_sound(encoder: Encoder | Piecewise, name: str) -> bool:
    """Whether a column's mean and scale, or knots and shares, can be those of some rows."""
    if isinstance(encoder, Encoder):
        scale = encoder.scale.get(name, 0.0)
        return _are_finite((encoder.mean[name], scale)) and scale > 0
    column = encoder.numbers[name]
    shares = *column.means, column.empty
    return (
        _are_finite((*column.knots, *shares))
        and bool((np.diff(column.knots) > 0).all())
        and all(-ROUNDING <= share <= 1 + ROUNDING for share in shares)
    )


def _are_finite(numbers: Iterable[float]) -> bool:
    """Whether they are finite numbers; they come from JSON, so that they may be anything."""
    return all(type(one) in (int, float) and abs(one) <= LARGEST for one in numbers)
