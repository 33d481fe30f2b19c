import pytest
import torch

from pfedfair.optimisers import OPTIMISERS

RIVALS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_torch_optims(name):
    torch.manual_seed(0)
    w = torch.randn(3, 5)
    theirs = w.clone().requires_grad_()
    rival, step = RIVALS[name]([theirs], lr=0.01), OPTIMISERS[name](0.01)
    for _ in range(20):
        grad = torch.randn(3, 5)
        theirs.grad = grad.clone()
        rival.step()
        step(w, grad)
    torch.testing.assert_close(w, theirs.detach())
