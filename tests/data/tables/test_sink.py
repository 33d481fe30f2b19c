"""Tables that are written part by part."""

import numpy as np
import pandas as pd

from pfedfair.data.tables.sink import sink


def test_decimal_numbers_of_all_kinds_have_six_digits(tmp_path):
    some = [1 / 3, None, 123456789.0]
    frame = pd.DataFrame({
        "numpy": np.array([1 / 3, np.nan, np.inf]),
        "nullable": pd.array(some, dtype="Float64"),
        "arrow": pd.array(some, dtype="double[pyarrow]"),
        4: np.array([0.1, 2, -1e-300], dtype=np.float64),
    })  # fmt: skip
    with sink(tmp_path / "out.csv") as write:
        write(frame)
        write(frame.iloc[:1])
    first = "0.333333,0.333333,0.333333,0.1"
    expected = ["numpy,nullable,arrow,4", first, ",,,2", "inf,1.23457e+08,1.23457e+08,-1e-300"]
    assert (tmp_path / "out.csv").read_text().splitlines() == [*expected, first]
    assert frame["numpy"].dtype == np.float64  # the caller's table is as it was
