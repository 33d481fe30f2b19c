"""Cells of a network's outputs, in which rows can be counted.

Probabilities of two classes fall into bins of equal width. Those of more classes are rounded to the
nearest of a lattice of points: k / steps for whole numbers k that add up to `steps`.
"""

from itertools import combinations
from math import comb

import numpy as np
import torch
from torch import Tensor

from pfedfair.data.task import outputs


class Simplex:
    """Cells for the probabilities of `classes` classes, at most `most` of them."""

    def __init__(self, classes: int, most: int) -> None:
        self.classes = classes
        if classes == 2:
            self.number = self.steps = most
            upper = (np.arange(most) + 0.5) / most
            self.centres = np.stack([1 - upper, upper], axis=1)
            return
        self.steps = 1
        while comb(self.steps + classes, classes - 1) <= most:
            self.steps += 1
        bars = np.array(list(combinations(range(self.steps + classes - 1), classes - 1)))
        ends = np.full((len(bars), 1), self.steps + classes - 1)
        points = np.diff(np.concatenate([np.full_like(ends, -1), bars, ends], axis=1)) - 1
        codes = self._code(torch.from_numpy(points)).numpy()
        order = np.argsort(codes)
        self.codes = torch.from_numpy(codes[order])
        self.number = len(codes)
        self.centres = (points[order] + 1 / classes) / (self.steps + 1)  # never 0

    def locate(self, p: Tensor) -> Tensor:
        """Return the cell of each vector of probabilities, ``(..., classes)`` to ``(...)``."""
        if self.classes == 2:
            return (p[..., 1] * self.steps).long().clamp(max=self.steps - 1)
        scaled = p * self.steps
        floor = scaled.floor()
        # The classes with the largest remainders get what is missing to `steps`.
        rank = (scaled - floor).argsort(dim=-1, descending=True, stable=True).argsort(-1)
        missing = (self.steps - floor.sum(-1, keepdim=True)).round()
        return torch.searchsorted(self.codes, self._code((floor + (rank < missing)).long()))

    def _code(self, points: Tensor) -> Tensor:
        base = (self.steps + 1) ** torch.arange(self.classes)
        return (points.long() * base).sum(-1)


class Cells:
    """Cells of the classes' probabilities, and of the groups' where a head guesses S."""

    def __init__(self, classes: int, bins: int, groups: int = 0, group_bins: int = 1) -> None:
        self.classes, self.groups = classes, groups
        self.settings = (classes, bins, groups, group_bins)
        self.label = Simplex(classes, bins)
        self.group = Simplex(groups, group_bins) if groups else None
        self.number = self.label.number * (self.group.number if self.group else 1)

    def locate(self, logits: Tensor) -> Tensor:
        """Return the cell of each row by a network's logits, then its head's."""
        width = outputs(self.classes)
        cell = self.label.locate(probabilities(logits[..., :width].double()))
        if self.group is None:
            return cell
        guess = probabilities(logits[..., width:].double())
        return cell * self.group.number + self.group.locate(guess)


def probabilities(logits: Tensor) -> Tensor:
    """Return the classes' probabilities from one log-odds or a logit for each class."""
    if logits.shape[-1] > 1:
        return logits.softmax(-1)
    positive = torch.sigmoid(logits)
    return torch.cat([1 - positive, positive], dim=-1)
