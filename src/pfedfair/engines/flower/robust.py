"""Robust aggregation by Flower's strategies."""

import numpy as np
import torch
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedTrimmedAvg, Krum
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.engines.flower.records import pack


def robust(rows: Tensor, how: str, malicious: int) -> Tensor:
    """Combine the sites' models ``(sites, p)`` into one; up to `malicious` of them may be bad.

    "trimmed-mean" leaves out as many of the largest and smallest values of each weight; "krum"
    takes the model that is closest to the others.
    """
    n = len(rows)
    needed = 2 * malicious + 1 if how == "trimmed-mean" else 2 * malicious + 3
    if n < needed:
        raise InputError(
            f"{how} with malicious = {malicious} needs {needed} answers of sites, there are {n}."
        )
    replies, one = [], MetricRecord({"num-examples": 1})
    for row in rows:
        content = RecordDict({"arrays": pack({"w": row.contiguous()}), "metrics": one})
        replies.append(Message(content, dst_node_id=0, message_type="train"))
    strategy: FedAvg = Krum(num_malicious_nodes=malicious)
    if how == "trimmed-mean":
        strategy = FedTrimmedAvg(beta=(malicious + 0.25) / n)
    arrays, _ = strategy.aggregate_train(0, replies)
    if arrays is None:
        raise InputError(f"{how} made no model of {n} answers.")
    return torch.from_numpy(np.array(arrays["w"].numpy())).to(rows)
