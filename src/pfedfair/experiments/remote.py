"""What a worker of a cluster does: one run, from bytes to bytes."""

import hashlib
import pickle
import traceback
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import parquet
from pfedfair.data import Dataset
from pfedfair.engines.local import one_thread
from pfedfair.experiments.grid import trained
from pfedfair.experiments.results import rows_of
from pfedfair.experiments.sameness import difference, kind_of_cpu, software
from pfedfair.experiments.spec import Spec
from pfedfair.federation import Federation
from pfedfair.partition import Plan

_fetch: dict[str, Callable[[], bytes]] = {}  # where rows are to be had, by their digest


def work(
    piece: bytes,
    name: str,
    fetch: Callable[[], bytes],
    same: dict[str, str],
    here: str,
    tell: Callable[[float], None],
) -> tuple[str, Any]:
    """Do the run that a piece of bytes describes on the rows of a digest.

    Returns a word and what belongs to it: "done" with the rows of the results as a Parquet file,
    warnings and the kind of processor; "unready" if this machine cannot do it; "refused" with the
    sentence for the user; "broken" with a traceback.
    """
    other = difference(same, software())
    if other:
        return "unready", f"{here} {other}"
    try:
        spec: Spec = pickle.loads(piece)
    except (ImportError, AttributeError) as error:  # a method of the user's own
        return "unready", f"{here} cannot load what describes the run ({error})"
    done = 0.0

    def on_work(part: float) -> None:
        nonlocal done
        done += part
        tell(done)

    _fetch[name] = fetch
    try:
        with warnings.catch_warnings(record=True) as caught, one_thread():
            warnings.simplefilter("always", UserWarning)
            federation = _federation(name, spec.plan, spec.seed, spec.sensitive_as_input)
            rows = parquet(rows_of(trained(federation, spec, on_work), spec))
    except InputError as error:
        return "refused", str(error)
    except Exception:
        return "broken", traceback.format_exc()
    finally:
        _fetch.clear()
    said = list(dict.fromkeys(str(one.message) for one in caught))
    return "done", (rows, said, kind_of_cpu())


@lru_cache(maxsize=2)
def _federation(name: str, plan: Plan, seed: int, sensitive_as_input: bool | None) -> Federation:
    return _data(name).federate(plan, seed, sensitive_as_input)


@lru_cache(maxsize=2)
def _data(name: str) -> Dataset:
    content = _fetch[name]()
    if hashlib.sha256(content).hexdigest() != name:
        raise InputError("The rows came to a machine of the cluster changed: try again.")
    data: Dataset = pickle.loads(content)
    return data
