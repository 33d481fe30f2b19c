"""What decisions do to rows of known chances, and the tilt of rows whose S is not known."""

import numpy as np


def accuracy(positive: np.ndarray, eta: np.ndarray, mass: np.ndarray) -> float:
    """Expected accuracy when eta is P(Y=1)."""
    return float((mass * (positive * eta + (1 - positive) * (1 - eta))).sum())


def blind_tilt(p_s1: np.ndarray, share_s1: float) -> np.ndarray:
    """Tilt of each row when only P(S=1 | x) is known."""
    return p_s1 / share_s1 - (1 - p_s1) / (1 - share_s1)
