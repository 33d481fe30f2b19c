"""Made-up tables like well-known ones: their columns and kinds of cells, not their rows."""

import numpy as np
import pandas as pd

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def bank(n=3000, seed=0) -> pd.DataFrame:
    """Like bank marketing: words for unknown cells, -1 for no call before, a spike of balance 0."""
    rng = np.random.default_rng(seed)
    jobs = ["admin.", "blue-collar", "management", "student", "retired", "unknown"]
    frame = pd.DataFrame({"age": rng.integers(18, 95, n)})
    frame["job"] = rng.choice(jobs, n)
    frame["marital"] = rng.choice(["married", "single", "divorced"], n)
    frame["default"] = rng.choice(["yes", "no"], n, p=[0.02, 0.98])
    frame["balance"] = np.where(rng.random(n) < 0.1, 0, rng.lognormal(7, 1.5, n).round() - 500)
    frame["day"] = rng.integers(1, 32, n)
    frame["month"] = rng.choice(MONTHS, n)
    frame["duration"] = rng.exponential(250, n).round()
    frame["pdays"] = np.where(rng.random(n) < 0.8, -1, rng.integers(1, 800, n))
    odds = 0.004 * frame["duration"] + 0.5 * (frame["job"] == "student") - 2
    frame["y"] = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return frame


def kdd_census(n=4000, seed=0) -> pd.DataFrame:
    """Like the KDD census: codes of industry and occupation, "?" and blanks, many categories."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"AAGE": rng.integers(0, 91, n)})
    frame["ACLSWKR"] = rng.choice([" Not in universe", " Private", " Self-employed"], n)
    frame["ADTIND"] = rng.integers(0, 52, n)
    frame["ADTOCC"] = rng.integers(0, 47, n)
    frame["AHGA"] = rng.choice([" High school graduate", " Children", " Bachelors degree"], n)
    frame["AHRSPAY"] = np.where(rng.random(n) < 0.94, 0, rng.integers(400, 3000, n))
    frame["CAPGAIN"] = np.where(rng.random(n) < 0.96, 0, rng.integers(100, 99_999, n))
    frame["GRINST"] = rng.choice([" ?", " California", " Utah"], n)
    frame["MIGMTR1"] = pd.Series(rng.choice(["?", "Nonmover", "MSA to MSA"], n))
    frame["PEFNTVTY"] = rng.choice([f"country {i}" for i in range(43)], n)
    frame["town"] = [f"town {i}" for i in rng.zipf(1.3, n).clip(max=900)]
    frame["WKSWORK"] = pd.Series(rng.integers(0, 53, n)).astype("Int64").where(rng.random(n) < 0.97)
    frame["YEAR"] = rng.choice([94, 95], n)
    frame["SEX"] = rng.choice([" Female", " Male"], n)
    odds = 0.03 * (frame["AAGE"] - 40) + 0.8 * (frame["SEX"] == " Male") - 1
    frame["income"] = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), " 50000+.", "- 50000.")
    return frame
