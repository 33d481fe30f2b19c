import torch

from pfedfair._util.last import Last


def test_made_once_for_the_same_tensors_and_again_for_others_or_when_written_to():
    asked = []

    def total(a, b):
        asked.append(1)
        return a + b

    last, a, b = Last(total), torch.ones(2), torch.ones(2)
    assert last.of(a, b) is last.of(a, b)
    assert len(asked) == 1
    assert last.of(a, b.clone()).tolist() == [2, 2]
    a.add_(1)
    assert last.of(a, b).tolist() == [3, 3]
    assert len(asked) == 3
