"""Networks: scores of samples by models that are flat rows of numbers.

A network computes the scores of many models at once. ``w`` is ``(rows, p)``, one model per row;
``x`` is ``(rows, n, ...)``, the inputs of n samples for each; ``s`` is ``(rows, n)``, their groups,
which a network may use or not. Scores are logits: ``(rows, n, 1)``
for two classes, else one for each class.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from pfedfair._util.errors import known
from pfedfair.models.architectures import PIXELS
from pfedfair.models.auxiliary import Both
from pfedfair.models.base import Network
from pfedfair.models.bias import Bias
from pfedfair.models.cells import Cells, probabilities
from pfedfair.models.mlp import MLP, linear
from pfedfair.models.module import Module
from pfedfair.models.pixels import Pixels
from pfedfair.models.trees import Trees

__all__ = [
    "MLP", "NETWORKS", "PIXELS", "Bias", "Both", "Cells", "Module", "Network", "Pixels",
    "Trees", "from_dict", "linear", "probabilities",
]  # fmt: skip


# Makers of saved networks, from its description, its buffers, and a module if it needs one.
NETWORKS: dict[str, Callable[[dict[str, Any], dict[str, Tensor], nn.Module | None], Network]] = {
    "mlp": lambda about, buffers, module: MLP(**about),
    "bias": lambda about, buffers, module: Bias(**about),
    "both": lambda about, buffers, module: Both(
        from_dict(about["network"], buffers, module), from_dict(about["head"])
    ),
    "module": Module.restore,
    "pixels": lambda about, buffers, module: Pixels(**about),
    "trees": lambda about, buffers, module: Trees(**about),
}


def from_dict(
    about: dict[str, Any], buffers: dict[str, Tensor] | None = None, module: nn.Module | None = None
) -> Network:
    """Make a network from its `to_dict`.

    Parameters
    ----------
    module
        For a `Module`: the same ``torch.nn.Module``. A file names no code to run.
    """
    rest = {key: value for key, value in about.items() if key != "kind"}
    return NETWORKS[known("saved network", about["kind"], NETWORKS)](rest, buffers or {}, module)
