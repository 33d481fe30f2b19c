"""A scikit-learn classifier: fair decisions for every client, behind `fit` and `predict`.

scikit-learn is not installed with pfedfair: ``pip install 'pfedfair[sklearn]'``. This is the one
module that needs it to be imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import partition
from pfedfair._util.errors import InputError
from pfedfair.data import Dataset, with_model
from pfedfair.data.tables.cells import canonical
from pfedfair.data.tables.options import TableOptions
from pfedfair.engines.local import one_thread
from pfedfair.methods import Method
from pfedfair.methods.defaults import make
from pfedfair.runs import PersonalModel, columns, train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.metrics import accuracy_score
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise InputError(
        "FairFederatedClassifier needs the package scikit-learn, 1.6 or later: "
        "pip install 'pfedfair[sklearn]'."
    ) from error

SETTINGS = ("target_ddp", "eta", "confidence", "rounds", "criterion")
Compute = Callable[[PersonalModel, Tensor, Tensor], np.ndarray]


class NotFairWarning(UserWarning):
    """A fair method was asked for, and nothing says who is in which group."""


class FairFederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train one model together, and give every client its own fair decisions.

    All rows of `fit` are training rows. Without `clients` all are of one client. Without
    `sensitive_features` all rows are of one group: then nothing is made fair, and a warning
    says so if the method would.

    Parameters
    ----------
    method
        The name of a method, see ``pff.methods.METHODS``, with the settings for tables of your own.
    target_ddp, eta, confidence, rounds, criterion
        Its settings, where they are given; transport's target is 0.05 by default.
    model
        "additive" (usual), "linear" or "mlp".
    settings
        Other settings of the method by name, such as ``{"lam": 0.2}``.
    sensitive_as_input
        Whether the group is an input of the model. Then `predict` needs it, too.
    categorical
        Columns of numbers that are codes.
    keep
        Columns to take even if they look like identifiers, or like copies of the label or of S.
        Others that do are left out, and a warning names them.
    merge_groups
        Whether groups of fewer than 30 rows are put together; else they are refused.
    random_state
        Where random numbers come from, those of training and of randomised decisions.

    Attributes
    ----------
    classes_
        The labels, in the order of `predict_proba`'s columns.
    clients_, groups_
        Names of the clients and of the groups.
    models_
        The model of each client, see `PersonalModel`.
    run_
        The run, with its training rows; ``run_.save(folder)`` keeps it without them. A pickle of
        the classifier does not hold it, nor any row.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X, s = pd.DataFrame({"x": np.arange(80.0)}), np.repeat(["a", "b"], 40)
    >>> clf = FairFederatedClassifier(method="fedavg").fit(X, np.arange(80) > 30, s)
    >>> clf.predict(X.iloc[[0, -1]], ["a", "b"])
    array([False,  True])
    """

    def __init__(
        self,
        method: str = "transport",
        *,
        target_ddp: float | None = None,
        eta: float | None = None,
        confidence: float | None = None,
        model: str | None = None,
        rounds: int | None = None,
        criterion: str | None = None,
        settings: Mapping[str, Any] | None = None,
        sensitive_as_input: bool = True,
        categorical: Sequence[str] = (),
        keep: Sequence[str] = (),
        merge_groups: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.target_ddp = target_ddp
        self.eta = eta
        self.confidence = confidence
        self.model = model
        self.rounds = rounds
        self.criterion = criterion
        self.settings = settings
        self.sensitive_as_input = sensitive_as_input
        self.categorical = categorical
        self.keep = keep
        self.merge_groups = merge_groups
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "run_"}  # no rows

    def fit(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any = None,
        clients: Any = None,
        persons: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X
            A data frame of any library, or an array, whose columns are then x0, x1, ...
        y
            The labels, of any type; of two the later one in order counts as positive.
        sensitive_features
            The group of every row: values, a frame with several columns, or names of columns of X.
            A column of X with the same name and values is no input.
        clients
            The client of each row: values, or the name of a column of X. It is no input.
        persons
            Whose each row is, as for `clients`, where persons have several rows: those that a
            method holds out are all of a person's rows, or none.
        """
        frame = self._checked(X, reset=True)
        y = self._labels(y, len(frame))
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has one class only, {self.classes_[0]!r}: two are needed.")
        groups = columns.per_row(sensitive_features, frame, "sensitive_features")
        owners = columns.one_per_row(clients, frame, "clients")
        people = columns.one_per_row(persons, frame, "persons")
        same, self._client, named = (
            columns.within(frame, given) for given in (groups, owners, people)
        )
        self._sensitive = same if groups is not None and len(same) == groups.shape[1] else []
        if owners is not None:
            owners = owners.map(canonical)
        seed = self._seed()
        inputs = frame.drop(columns=[*same, *self._client, *named])
        given = {name: getattr(self, name) for name in ("categorical", "keep", "merge_groups")}
        options = TableOptions.parse(name="X", **given)
        names = tuple(map(str, self.classes_))
        data, client = columns.dataset(inputs, codes, names, groups, owners, people, options)
        data = with_model(data, self.model)
        algorithm = self._algorithm(data, fair=groups is not None)
        plan: partition.Plan = partition.together(test=0.0)
        if client is not None:
            plan = partition.by_column(client, test=0.0, min_rows=1)
        with one_thread():
            federation = data.federate(plan, seed, self.sensitive_as_input or groups is None)
            columns.warn_few_rows(federation.partition.names, federation.sizes)
            self.run_ = train(federation, algorithm, seed)
        names = federation.partition.names
        self.models_ = {name: self.run_.personal_model(name) for name in names}
        self.clients_, self.groups_ = names, data.group_names if groups is not None else ()
        self._alike = all(one.same(self.run_.predictors[0]) for one in self.run_.predictors)
        return self

    def predict(self, X: Any, sensitive_features: Any = None, clients: Any = None) -> np.ndarray:
        """Return the label of every row.

        Random draws of a rule come from the model and the row itself: the same row gets the same
        draw in every table.

        Parameters
        ----------
        sensitive_features, clients
            As in `fit`. They are taken from X if it had them in `fit`, under the same names. Whose
            a row is need not be given where all clients decide alike. Rows of clients that were
            not there in `fit` are refused otherwise: `pff.personalise` makes a model for them.
        """
        codes = self._each(X, sensitive_features, clients, lambda m, x, s: m.outcomes(x, s).code)
        return np.asarray(self.classes_[codes])

    def predict_proba(
        self, X: Any, sensitive_features: Any = None, clients: Any = None
    ) -> np.ndarray:
        """Return the chance that `predict` decides for each of `classes_`, ``(n, classes)``.

        For a method with a rule, such as transport, that is 0 or 1 where nothing is randomised; for
        others it is the probability of each label.
        """
        return self._each(X, sensitive_features, clients, PersonalModel.chances)

    def decision_function(
        self, X: Any, sensitive_features: Any = None, clients: Any = None
    ) -> np.ndarray:
        """Return the score before any rule: the log-odds of the second label.

        Of more than two labels, a logit for each. It ranks rows, as for scikit-learn's scorers
        "roc_auc" and "average_precision". Where each group has a threshold, 0 is not where
        decisions change.
        """
        return self._each(X, sensitive_features, clients, PersonalModel.log_odds)

    def score_samples(
        self, X: Any, sensitive_features: Any = None, clients: Any = None
    ) -> np.ndarray:
        """Return the probability of the second label by the model, before any rule.

        Of more than two labels, that of each.
        """
        return self._each(X, sensitive_features, clients, PersonalModel.scores)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        sensitive_features: Any = None,
        clients: Any = None,
    ) -> float:
        """Return the accuracy of `predict`."""
        decided = self.predict(X, sensitive_features, clients)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    # --- what fit and predict share -------------------------------------------------------------

    def _checked(self, X: Any, reset: bool = False) -> pd.DataFrame:
        """Return X as a data frame, with scikit-learn's checks of its shape and names."""
        if not reset:
            check_is_fitted(self)
        X = columns.to_pandas(X)
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                check_array(np.empty(X.shape), input_name="X", estimator=self)  # refuses it
            return X.rename(columns=str).reset_index(drop=True)
        X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])

    def _labels(self, y: Any, n: int) -> np.ndarray:
        if y is None:
            raise ValueError("This classifier requires y to be passed, but the target y is None.")
        y = column_or_1d(columns.to_pandas(y), warn=True)
        if len(y) != n:
            raise InputError(f"X has {n} rows, y has {len(y)}.")
        if pd.isna(y).any():
            raise InputError(f"y has {pd.isna(y).sum()} missing values (NaN): fill or drop them.")
        check_classification_targets(y)
        return np.asarray(y)

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, int | np.integer) and state >= 0:
            return int(state)
        return int(check_random_state(state).randint(2**31))

    def _algorithm(self, data: Dataset, fair: bool) -> Method:
        given = {name: getattr(self, name) for name in SETTINGS}
        given = {name: value for name, value in given.items() if value is not None}
        algorithm = make(self.method, given | dict(self.settings or {}), data)
        asked = algorithm.eta > 0 or algorithm.dial.setting not in ("", "eta")
        if asked and not fair:
            warnings.warn(
                "Without sensitive_features everybody is in one group: nothing is made fair.",
                NotFairWarning,
                stacklevel=3,
            )
        return algorithm

    def _each(self, X: Any, sensitive: Any, clients: Any, compute: Compute) -> np.ndarray:
        """Compute something for every row by the model of its client."""
        frame = self._checked(X)
        model = next(iter(self.models_.values()))
        s = np.zeros(len(frame), np.int64)
        groups = columns.per_row(sensitive, frame, "sensitive_features", self._sensitive)
        if self.groups_ and groups is not None:
            s = model.codes(groups)
        elif self.groups_ and model.task.aware:
            raise InputError("S is an input of the model: give sensitive_features.")
        x, groups_of = torch.from_numpy(model.pack(frame)), torch.from_numpy(s)
        found = np.zeros(0)
        for name, rows in self._owners(frame, clients).items():
            some = compute(self.models_[name], x[rows], groups_of[rows])
            if not len(found):
                found = np.zeros((len(frame), *some.shape[1:]), dtype=some.dtype)
            found[rows] = some
        return found

    def _owners(self, frame: pd.DataFrame, clients: Any) -> dict[str, np.ndarray]:
        """Return the rows of every client."""
        if self._alike:  # one model for all, and so for new ones
            return {self.clients_[0]: np.arange(len(frame))}
        owners = columns.per_row(clients, frame, "clients", self._client)
        if owners is None:
            some = ", ".join(self.clients_[:3]) + (", ..." if len(self.clients_) > 3 else "")
            raise InputError(f"Every client has a model of its own ({some}): give clients.")
        names = owners.iloc[:, 0].map(canonical).to_numpy(object)
        new = sorted(map(str, set(names) - set(self.clients_)))
        if new:
            raise InputError(
                f"Client {', '.join(new[:3])}{' and others' if len(new) > 3 else ''} was not there "
                "in fit: save the run (run_.save) and let pfedfair.personalise make a model for it."
            )
        return {name: np.flatnonzero(names == name) for name in sorted(set(names))}
