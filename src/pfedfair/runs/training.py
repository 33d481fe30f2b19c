"""Train a run: choose its network and method, measure the learning curve, call callbacks."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, known, option
from pfedfair._util.notebook import abbreviate
from pfedfair._util.scalars import to_int
from pfedfair.data import Dataset, with_model
from pfedfair.data.task import Task, outputs
from pfedfair.engines.collection import is_shared
from pfedfair.engines.local import fit
from pfedfair.federation import Federation
from pfedfair.methods import Method, State
from pfedfair.methods.defaults import make_for
from pfedfair.methods.phases import total_rounds
from pfedfair.models import MLP, PIXELS, Network, Pixels
from pfedfair.runs import certification, history
from pfedfair.runs.callbacks import Callback, Training
from pfedfair.runs.run import Run

NAMED = 20  # clients that a warning names


class CollapseWarning(UserWarning):
    """A personal model predicts one class for all rows."""


def default_network(inputs: int, hidden: Sequence[int], task: Task) -> Network:
    """Return the MLP for a number of inputs; S is an input unless the task is blind."""
    return MLP(inputs, hidden, outputs(task.classes), task.groups if task.aware else 0)


def check_model(data: Dataset) -> None:
    """Refuse an unknown network on pixels."""
    if data.model:
        known("model", data.model, PIXELS)


def network_of(federation: Federation) -> Network:
    """Return the network that the data set has by default."""
    data, shape, task = federation.data, federation.table.shape, federation.table.task
    if len(shape) > 1:
        check_model(data)
        if task.aware:
            given = option("aware", python="sensitive_as_input=True")
            raise InputError(f"A network on pixels does not look at S: leave out {given}.")
        return Pixels(data.model or "cnn", shape[-1], outputs(task.classes))
    return default_network(federation.encoder.width, data.hidden, task)


def choose_network(
    federation: Federation, algorithm: Method, network: Network | str | None = None
) -> Network:
    """Return the network to train: the given one, that of a model by name, or the data set's."""
    table = federation.table
    task, needed = table.task, outputs(table.task.classes)
    algorithm.check(task)
    if table.weight is not None and not algorithm.supports.weights:
        raise InputError(
            f"{type(algorithm).__name__} counts rows, and cannot weigh them: leave out "
            f"{option('weight')}, or take a method such as pfedfair, fedavg-kde or newton."
        )
    if isinstance(network, str):
        data = with_model(federation.data, network)
        if data.encoding != federation.data.encoding:
            raise InputError(f"These rows are encoded already: load them with model='{network}'.")
        network = network_of(replace(federation, data=data))
    network = network or network_of(federation)
    w, x = network.init(seeds.generator(0, seeds.INIT))[None], table.inputs(slice(2))[None]
    one, other = (network.logits(w, x, torch.full(x.shape[:2], s)) for s in (0, 1))
    if not task.aware and not torch.equal(one, other):
        raise InputError(f"The federation is blind, but this network looks at S: {network.words}.")
    if one.shape[-1] != needed:
        raise InputError(
            f"For {task.classes} classes a network needs {needed} outputs, this one has "
            f"{one.shape[-1]}."
        )
    return algorithm.network(network, task)


def named(federation: Federation, algorithm: Method | str, settings: Mapping[str, Any]) -> Method:
    """Return the method; a name with the settings tuned for the data and clients of this size."""
    if not isinstance(algorithm, str):
        if settings:
            raise InputError(
                f"{', '.join(settings)}: settings go with the name of a method; "
                f"{type(algorithm).__name__}(...) has its own."
            )
        return algorithm
    part = federation.partition
    sizes = {len(own) + len(held) for own, held in zip(part.train, part.validation, strict=True)}
    equal = len(sizes) == 1 and federation.data.paper_plan is not None
    return make_for(sizes.pop() if equal else None, algorithm, settings, federation.data)


def train(
    federation: Federation,
    algorithm: Method | str,
    seed: int = 0,
    network: Network | str | None = None,
    on_work: Callable[[float], None] = lambda work: None,
    callbacks: Sequence[Callback] = (),
    measure_every: int | None = None,
    certify: bool = False,
    **settings: Any,
) -> Run:
    """Train one method on a federation, all clients in this process.

    Parameters
    ----------
    algorithm
        A method, or the name of one, which is then made as tuned for the data, with `settings`
        such as ``eta=0.9`` on top; see `make`.
    network
        A network, or the name of a model, see `pfedfair.data.with_model`; the data set's by
        default.
    on_work
        Called with the share of the work that has just been done, for a progress bar.
    callbacks
        Observers of training, see `pfedfair.runs.callbacks`.
    measure_every
        Rounds between two measurements of the global model for `Run.history`; by default so many
        that measuring takes less than a tenth of the time; 0 is never.
    certify
        Whether to certify clients' gaps, see `pfedfair.runs.certification`.
    """
    training = prepare(federation, algorithm, seed, network, certify, **settings)
    return run_training(training, on_work, callbacks, measure_every)


def prepare(
    federation: Federation,
    algorithm: Method | str,
    seed: int = 0,
    network: Network | str | None = None,
    certify: bool = False,
    **settings: Any,
) -> Training:
    """Return what a training needs, or refuse incompatible arguments; see `train`."""
    algorithm, seed = named(federation, algorithm, settings), to_int("seed", seed)
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}.")
    if certify:
        federation = certification.fit_encoder(federation, algorithm)
    network = choose_network(federation, algorithm, network)
    return Training(federation, algorithm, network, seed, total_rounds(algorithm.phases), certify)


def run_training(
    training: Training,
    on_work: Callable[[float], None] = lambda work: None,
    callbacks: Sequence[Callback] = (),
    measure_every: int | None = None,
) -> Run:
    """Run a prepared training; for the parameters see `train`."""
    algorithm, network, seed = training.algorithm, training.network, training.seed
    federation = algorithm.encode(training.federation, seed)
    state = replace(training, federation=federation)
    curve: list[Mapping[str, float]] = []
    due, spent = history.measured_rounds(algorithm, measure_every), 0.0

    def on_round(t: int, server: State) -> None:
        nonlocal spent
        start, row = time.perf_counter(), {}
        if t + 1 in due:
            row = {"round": t + 1, **measure(server["w"])}
            curve.append(row)
        for one in callbacks:
            one.on_round_end(replace(state, round=t + 1, w=server["w"].clone()), row)
        spent += time.perf_counter() - start

    if due:  # the model before the first round, as `fit` draws it
        measure = history.Measure(federation, network, algorithm.criterion)
        w = network.init(seeds.generator(seed, seeds.INIT))
        curve.append({"round": 0, **measure(w)})
    try:
        for one in callbacks:
            one.on_train_begin(state)
        shared = 1.0 if not training.certify else 1 / (1 + certification.trainings(federation))

        def on_part(part: float) -> None:
            on_work(shared * part)

        run = _train(federation, algorithm, seed, network, on_part, on_round)
        if training.certify:
            run = certification.certify(run, lambda part: on_work((1 - shared) * part))
        run = replace(run, curve=tuple(curve), seconds=run.seconds - spent)
        _warn(run)
        for one in callbacks:
            one.on_train_end(run)
    except BaseException as error:
        for one in callbacks:
            one.on_train_fail(error)
        raise
    return run


def _train(
    federation: Federation,
    algorithm: Method,
    seed: int,
    network: Network,
    on_work: Callable[[float], None],
    on_round: Callable[[int, State], None],
) -> Run:
    """Train; refuse a run that diverged."""
    began = time.perf_counter()
    fitted = fit(federation, algorithm, network, seed, on_work=on_work, on_round=on_round)
    seconds = time.perf_counter() - began
    each = fitted.theta[:1] if is_shared(fitted.theta) else fitted.theta
    if not all(bool(torch.isfinite(part).all()) for part in torch.split(each, 64)):
        raise InputError(
            f"Training diverged: a weight is not finite after {algorithm.rounds} rounds; "
            "use a smaller alpha."
        )
    return Run(federation, algorithm, network, fitted, seed, seconds)


def _warn(run: Run) -> None:
    """Warn of clients whose models collapsed."""
    hint = run.algorithm.dial.hint
    if hint and run.collapsed.any():
        who = abbreviate(np.array(run.federation.partition.names)[run.collapsed].tolist(), NAMED)
        warnings.warn(
            f"The model of client {who} predicts one class for all rows: {hint}.",
            CollapseWarning,
            stacklevel=3,
        )
