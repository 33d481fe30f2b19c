"""What the tests of plans ask of a partition."""

import numpy as np


def group_counts(part, rows):
    return [tuple(np.bincount(part.data.s[r], minlength=2)) for r in rows]


def assert_disjoint(part):
    used = np.concatenate([*part.train, *part.validation])
    assert len(used) == len(set(used))
    assert not set(used) & set(part.pool)
    tested = np.concatenate(part.test)
    assert len(tested) == len(set(tested))
    assert set(tested) <= set(part.pool)
