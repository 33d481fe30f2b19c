"""Train one model together, give every client its own fair version, show each what it got."""

__version__ = "0.1.0"

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pfedfair import callbacks, metrics, partition
from pfedfair.algorithms import ALGORITHMS, Algorithm
from pfedfair.algorithms.constant import Constant
from pfedfair.algorithms.ditto import Ditto
from pfedfair.algorithms.dro import DRO
from pfedfair.algorithms.duan import Duan
from pfedfair.algorithms.fa import FA
from pfedfair.algorithms.fair_dummies import FairDummies
from pfedfair.algorithms.fairfed import FairFed
from pfedfair.algorithms.fcfl import FCFL
from pfedfair.algorithms.fedavg import FedAvg
from pfedfair.algorithms.fedfact import FedFACT
from pfedfair.algorithms.fedfact_in import FedFACTIn
from pfedfair.algorithms.fedprox import FedProx
from pfedfair.algorithms.gaussian_swap import GaussianSwap
from pfedfair.algorithms.irm import IRM
from pfedfair.algorithms.local import Local
from pfedfair.algorithms.logofair import LoGoFair
from pfedfair.algorithms.mmpf import MMPF
from pfedfair.algorithms.newton import Newton
from pfedfair.algorithms.perfedavg import PerFedAvg
from pfedfair.algorithms.pfedfair import PFedFair
from pfedfair.algorithms.pfedme import PFedMe
from pfedfair.algorithms.pooled import Pooled
from pfedfair.algorithms.reweigh import Reweigh
from pfedfair.algorithms.targeted import Targeted
from pfedfair.algorithms.threshold_local import ThresholdLocal
from pfedfair.algorithms.transport import Transport
from pfedfair.auditing import Audit, audit
from pfedfair.data import DATASETS, Dataset, from_frame, load
from pfedfair.defaults import make
from pfedfair.errors import InputError
from pfedfair.experiment import Source, Spec, read_results, run_experiment
from pfedfair.federation import Federation
from pfedfair.networks import MLP, Module, linear
from pfedfair.objectives import Objective
from pfedfair.penalties import PENALTIES
from pfedfair.rules import Likeliest, Lookup, Thresholds
from pfedfair.runs import CollapseWarning, PersonalModel, Run, load_model, personalise, train
from pfedfair.runs.model import UnseenWarning
from pfedfair.runs.whole import SavedRun, load_run

if TYPE_CHECKING:
    from pfedfair.estimator import FairFederatedClassifier as FairFederatedClassifier

__all__ = [
    "ALGORITHMS", "DATASETS", "DRO", "FA", "FCFL", "IRM", "MLP", "MMPF", "PENALTIES", "Algorithm",
    "Audit",
    "CollapseWarning", "Constant", "Dataset", "Ditto", "Duan", "FairDummies", "FairFed", "FedAvg",
    "FedFACT", "FedFACTIn", "FedProx", "Federation", "GaussianSwap", "InputError", "Likeliest",
    "LoGoFair", "Local", "Lookup", "Module", "Newton", "Objective", "PFedFair", "PFedMe",
    "PerFedAvg", "PersonalModel", "Pooled", "Reweigh", "Run", "SavedRun", "Source", "Spec",
    "Targeted", "ThresholdLocal", "Thresholds", "Transport", "UnseenWarning", "audit", "callbacks",
    "from_frame", "linear", "load", "load_model", "load_run", "make", "metrics", "partition",
    "personalise", "read_results", "run_experiment", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn, which is not installed with pfedfair, when it is asked for."""
    if name == "FairFederatedClassifier":
        from pfedfair.estimator import FairFederatedClassifier

        return FairFederatedClassifier
    raise AttributeError(f"module 'pfedfair' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *(["FairFederatedClassifier"] if find_spec("sklearn") else [])]
