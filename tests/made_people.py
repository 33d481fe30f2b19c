"""Small tables of people, for tests of all rooms."""

import numpy as np
import pandas as pd


def people(sizes=(90, 40, 130), seed=0) -> pd.DataFrame:
    """Clients of the given sizes; the label depends on x, on S and on chance."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    site = np.repeat([f"site {i}" for i in range(len(sizes))], sizes)
    s = rng.random(n) < np.repeat(np.linspace(0.2, 0.8, len(sizes)), sizes)
    x = rng.normal(size=(n, 3)) + 0.7 * s[:, None]
    y = rng.random(n) < 1 / (1 + np.exp(-(x.sum(1) - 1)))
    colour = rng.choice(["red", "green", "blue"], n)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    return frame.assign(colour=colour, site=site, sex=np.where(s, "m", "f"), hired=y.astype(int))
