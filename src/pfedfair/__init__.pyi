"""The public names, and where each is: they are loaded when they are asked for."""

from . import methods as methods
from . import metrics as metrics
from . import partition as partition
from ._util.errors import InputError as InputError
from .auditing import Audit as Audit
from .auditing import audit as audit
from .data import DATASETS as DATASETS
from .data import Dataset as Dataset
from .data import from_frame as from_frame
from .data import load as load
from .estimator import FairFederatedClassifier as FairFederatedClassifier
from .experiments import Source as Source
from .experiments import Spec as Spec
from .experiments import read_results as read_results
from .experiments import run_experiment as run_experiment
from .federation import Federation as Federation
from .methods.defaults import make as make
from .models import MLP as MLP
from .models import Module as Module
from .models import linear as linear
from .penalties import PENALTIES as PENALTIES
from .penalties.objective import Objective as Objective
from .rules import Likeliest as Likeliest
from .rules import Lookup as Lookup
from .rules import Thresholds as Thresholds
from .runs import CollapseWarning as CollapseWarning
from .runs import PersonalModel as PersonalModel
from .runs import Run as Run
from .runs import callbacks as callbacks
from .runs import load_model as load_model
from .runs import load_run as load_run
from .runs import personalise as personalise
from .runs import train as train
from .runs.model import UnseenWarning as UnseenWarning

__version__: str
