import pytest
import torch

from pfedfair.models.optimisers import OPTIMISERS

RIVALS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_ridge_is_a_part_of_what_is_minimised(name):
    """By autograd: the gradient of the objective + ridge/2 |w|^2."""
    torch.manual_seed(0)
    target, ridge = torch.randn(3, 5), 0.3
    ours, reference = torch.ones(3, 5), torch.ones(3, 5)
    with_ridge, baseline = OPTIMISERS[name](0.01, ridge), OPTIMISERS[name](0.01)
    for _ in range(20):
        leaf = reference.clone().requires_grad_()
        loss = ((leaf - target) ** 4).sum() + ridge / 2 * (leaf**2).sum()
        baseline(reference, torch.autograd.grad(loss, leaf)[0])
        grad = 4 * (ours - target) ** 3
        before = grad.clone()
        with_ridge(ours, grad)
        assert torch.equal(grad, before)  # no row's alias
    torch.testing.assert_close(ours, reference)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_torch_optims(name):
    torch.manual_seed(0)
    w = torch.randn(3, 5)
    reference = w.clone().requires_grad_()
    rival, step = RIVALS[name]([reference], lr=0.01), OPTIMISERS[name](0.01)
    for _ in range(20):
        grad = torch.randn(3, 5)
        reference.grad = grad.clone()
        rival.step()
        step(w, grad)
    torch.testing.assert_close(w, reference.detach())
