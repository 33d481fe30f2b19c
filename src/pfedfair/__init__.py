"""Train one model together, give every client its own fair version, show each what it got."""

__version__ = "0.1.0"

from pfedfair import partition
from pfedfair.algorithms import (
    ALGORITHMS,
    FA,
    FCFL,
    MMPF,
    Algorithm,
    Constant,
    Ditto,
    FairFed,
    FedAvg,
    FedProx,
    Local,
    LoGoFair,
    PerFedAvg,
    PFedFair,
    PFedMe,
    Transport,
    make,
)
from pfedfair.data import DATASETS, Dataset, from_frame, load
from pfedfair.errors import InputError
from pfedfair.experiment import Source, Spec, read_results, run_experiment
from pfedfair.federation import Federation
from pfedfair.model import PersonalModel, load_model
from pfedfair.networks import MLP, Module, linear
from pfedfair.newcomer import personalise
from pfedfair.objectives import Objective
from pfedfair.penalties import PENALTIES
from pfedfair.run import CollapseWarning, Run, train

__all__ = [
    "ALGORITHMS",
    "DATASETS",
    "FA",
    "FCFL",
    "MLP",
    "MMPF",
    "PENALTIES",
    "Algorithm",
    "CollapseWarning",
    "Constant",
    "Dataset",
    "Ditto",
    "FairFed",
    "FedAvg",
    "FedProx",
    "Federation",
    "InputError",
    "LoGoFair",
    "Local",
    "Module",
    "Objective",
    "PFedFair",
    "PFedMe",
    "PerFedAvg",
    "PersonalModel",
    "Run",
    "Source",
    "Spec",
    "Transport",
    "from_frame",
    "linear",
    "load",
    "load_model",
    "make",
    "partition",
    "personalise",
    "read_results",
    "run_experiment",
    "train",
]
