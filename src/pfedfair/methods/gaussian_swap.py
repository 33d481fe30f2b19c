r"""Gaussian swap: generative augmentation in embedding space, inspired by DiGA, uses S; not DiGA.

DiGA (Zhang et al., "Distributionally Generative Augmentation for Fair Facial Attribute
Classification", CVPR 2024) edits faces with a generator. This edits embeddings: every row is
trained on twice, unchanged and mapped to the other group with the same label,

.. math::
    \min_w \frac1n \sum_j (1 - a) \, \ell(w; x_j, s_j, y_j)
    + a \, \ell(w; T_{y_j, s_j}(x_j), 1 - s_j, y_j) ,

with a the `share`. For each label, T takes one group's Gaussian N(m, C) to the other's N(m', C') by
the shortest way (optimal transport):

.. math::
    T(x) = m' + A (x - m), \qquad
    A = C^{-1/2} \bigl( C^{1/2} C' C^{1/2} \bigr)^{1/2} C^{-1/2}

With a = 1/2 label and S are independent among what the model sees. Covariances are Ledoit and
Wolf's, :math:`(1 - \delta) \hat C + \delta \, \mathrm{tr}(\hat C) / d \; I`, which can be inverted
with fewer rows than inputs. Then all differences from the means lie in a space of as many
dimensions as there are rows, and T is computed there: exact, without a matrix of d times d.

Each client has its own maps, from its training rows, made once. A label with fewer than two rows
of one of the groups has no map: its rows are used unchanged. S = 1 - s goes to the model too,
where S is an input. There is no paper to differ from; DiGA itself needs StyleGAN2, inversion of
images and a second training, and does not use S.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.federation import Batch
from pfedfair.methods.base import ANY_TASK, Clients, Cost, Dial, State
from pfedfair.methods.checks import no_eta, share
from pfedfair.methods.local import Gradient, Local
from pfedfair.penalties.objective import Objective

LEAST = 2  # rows in a cell that has a covariance
RIDGE = 1e-6  # of the mean variance, so that constant inputs do no harm


@dataclass(frozen=True, kw_only=True)
class GaussianSwap(Local):
    """Local training on rows, and on the same rows mapped to the other group.

    Attributes
    ----------
    share
        How much the swapped rows count; 0 is training without them; 0.5 weights both versions
        equally.
    """

    share: float = 0.5

    supports = replace(ANY_TASK, many_groups=False)
    place = "centralised"
    dial = Dial(
        setting="share",
        levels=({"share": 0.0}, {"share": 0.1}, {"share": 0.25}, {"share": 0.5}),
        hint="train longer, lower share or raise alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        no_eta(self)
        share(self, "share")

    def cost(self) -> Cost:
        return Cost(0.0, 2 * self.rounds * self.epochs)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        """Train with a row's number instead of S, by which the gradient finds the swapped row."""
        numbers = torch.zeros_like(clients.table.s)  # of padding, the first
        numbers[_all_rows(clients)] = torch.arange(sum(map(len, clients.rows)))
        numbered = replace(clients, table=clients.table._replace(s=numbers))
        return self.descend(clients.replicate(server["w"]), numbered, self.gradients(clients))

    def gradients(self, clients: Clients) -> Gradient:
        table, shape = clients.table, clients.table.shape
        if len(shape) != 1:
            raise InputError(
                f"GaussianSwap needs flat inputs such as embeddings, these have the shape {shape}: "
                "embed the images first, or choose another method."
            )
        groups = table.s[_all_rows(clients)]
        each = [
            swap(table.inputs(rows).to(table.x.dtype), table.y[rows], table.s[rows])
            for rows in clients.rows
        ]
        swapped, new_groups = (torch.cat(parts) for parts in zip(*each, strict=True))

        def gradient(theta: Tensor, batch: Batch) -> Tensor:
            number, part = batch.s, self.share
            both = Batch(
                x=torch.cat([batch.x, swapped[number].to(batch.x)], 1),
                y=torch.cat([batch.y, batch.y], 1),
                s=torch.cat([groups[number], new_groups[number]], 1),
                weight=torch.cat([(1 - part) * batch.weight, part * batch.weight], 1),
            )
            return clients.gradient(Objective(), theta, both)

        return gradient


def _all_rows(clients: Clients) -> Tensor:
    """Return the rows of all clients, one after the other."""
    return torch.cat([torch.as_tensor(rows) for rows in clients.rows])


def swap(x: Tensor, y: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Map every row to the other group with the same label; return rows and new groups.

    Where there is no map, both are unchanged.
    """
    found, group = x.clone(), s.clone()
    for label in sorted(set(y.tolist())):
        cells = [((y == label) & (s == z)).nonzero()[:, 0] for z in (0, 1)]
        if min(map(len, cells)) < LEAST:
            continue
        rows = [x[cell].double() for cell in cells]
        means = [part.mean(0) for part in rows]
        centred = [part - mean for part, mean in zip(rows, means, strict=True)]
        basis = _basis(torch.cat(centred))
        flat = centred if basis is None else [part @ basis for part in centred]
        forward, back = monge(*(shrink(part, x.shape[1]) for part in flat))
        for z, linear in ((0, forward), (1, back)):
            moved = flat[z] @ linear
            found[cells[z]] = (means[1 - z] + (moved if basis is None else moved @ basis.T)).to(x)
            group[cells[z]] = 1 - z
    return found, group


def _basis(rows: Tensor) -> Tensor | None:
    """Return columns that span the rows ``(n, d)``; None if n is at least d."""
    n, d = rows.shape
    return None if n >= d else torch.linalg.qr(rows.T).Q


def shrink(rows: Tensor, width: int) -> Tensor:
    """Return Ledoit and Wolf's covariance of centred rows, ``(r, r)``.

    The rows may be given in a basis of r of their `width` dimensions.
    """
    n = len(rows)
    sample = rows.T @ rows / n
    mean = sample.trace() / width
    size = sample.square().sum()
    off = size - width * mean**2  # squared distance from the spherical one
    noise = (rows.square().sum(1).square().sum() / n - size) / n
    delta = float((noise / off).clamp(0, 1)) if off > 0 else 1.0
    return (1 - delta) * sample + delta * mean * torch.eye(len(sample)).to(sample)


def monge(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return the linear parts of the maps between centred Gaussians, forward and back."""
    most = max(float(one.diagonal().mean()), float(other.diagonal().mean()))
    ridge = (RIDGE * most or 1.0) * torch.eye(len(one)).to(one)
    one, other = one + ridge, other + ridge
    # With one = L L' the map is L'^-1 (L' other L)^(1/2) L^-1: the same with one root fewer.
    low = torch.linalg.cholesky(one)
    values, vectors = torch.linalg.eigh(low.T @ other @ low)
    roots = values.clamp(min=torch.finfo(values.dtype).tiny).sqrt()
    outer = torch.linalg.solve_triangular(low.T, vectors, upper=True)
    inner = low @ vectors
    return (outer * roots) @ outer.T, (inner / roots) @ inner.T
