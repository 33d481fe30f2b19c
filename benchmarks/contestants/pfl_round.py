"""pfl-research's own federated averaging on its simulated backend."""

import numpy as np
import task
import torch
from loop import layers_of, sequential
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

torch.set_num_threads(1)


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = sequential()

    def loss(self, x, y, eval=False):
        return cross_entropy(self.layers(x)[:, 0], y)

    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


def make(x, y):
    clients = len(x)
    people = [Dataset(raw_data=[torch.from_numpy(a), torch.from_numpy(b)])
              for a, b in zip(x, y, strict=True)]  # fmt: skip
    settings = NNAlgorithmParams(1, evaluation_frequency=2, train_cohort_size=clients,
                                 val_cohort_size=0)  # fmt: skip
    training = NNTrainHyperParams(task.BATCH, local_num_epochs=task.EPOCHS,
                                  local_learning_rate=task.LR)  # fmt: skip

    def fedavg():
        np.random.seed(0)  # noqa: NPY002  (what pfl draws from)
        sampler = get_user_sampler("minimize_reuse", list(range(clients)))
        backend = SimulatedBackend(FederatedDataset(people.__getitem__, sampler), None)
        module = Perceptron()
        model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
        FederatedAveraging().run(settings, backend, model, training, send_metrics_to_platform=False)
        return layers_of(module.layers), task.EPOCHS * -(-task.ROWS // task.BATCH)

    return {"fedavg": fedavg}


if __name__ == "__main__":
    task.answer(make)
