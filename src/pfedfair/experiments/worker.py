"""A worker of a cluster: does one unit of work, from bytes to bytes."""

import hashlib
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import parquet
from pfedfair.engines.local import one_thread
from pfedfair.experiments.environment import difference, processor, software
from pfedfair.experiments.grid import results_of
from pfedfair.experiments.spec import Unit


def work(
    piece: bytes,
    digest: str,
    fetch: Callable[[], bytes],
    required: dict[str, str],
    here: str,
    report: Callable[[float], None],
) -> tuple[str, Any]:
    """Do the runs of a pickled unit on the rows with a digest.

    Returns the kind of an event and its content: "done" with the results of each run as a Parquet
    file, warnings and the kind of processor; "unready" if this machine cannot do it; "refused"
    with the message for the user; "broken" with a traceback.
    """
    mismatch = difference(required, software())
    if mismatch:
        return "unready", f"{here} {mismatch}"
    try:
        unit: Unit = pickle.loads(piece)
    except (ImportError, AttributeError) as error:  # a method of the user's own
        return "unready", f"{here} cannot load what describes the run ({error})"
    done = 0.0

    def on_work(part: float) -> None:
        nonlocal done
        done += part
        report(done)

    try:
        with warnings.catch_warnings(record=True) as caught, one_thread():
            warnings.simplefilter("always", UserWarning)
            content = fetch()
            if hashlib.sha256(content).hexdigest() != digest:
                raise InputError("The rows came to a machine of the cluster changed: try again.")
            results = results_of(unit, pickle.loads(content), on_work)
            files = [parquet(rows) for rows in results]
    except InputError as error:
        return "refused", str(error)
    except Exception:
        return "broken", traceback.format_exc()
    messages = list(dict.fromkeys(str(one.message) for one in caught))
    return "done", (files, messages, processor())
