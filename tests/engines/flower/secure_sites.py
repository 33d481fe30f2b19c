"""Sites of a secure sum without Flower: real keys, shares and masks, and numbers that are given."""

from types import SimpleNamespace

import torch
from flwr.app import ConfigRecord

import pfedfair as pff
from pfedfair.engines.flower.partner import Partner


class Site:
    """The site of a `Partner`, whose training gives the numbers that it is given."""

    def __init__(self, numbers, folder):
        self.source = SimpleNamespace(folder=folder)
        self.numbers, self.state_digest, self.n_rows = numbers, "state", 10
        self.phase, self.server = pff.methods.FedAvg(), {"w": torch.zeros(len(numbers))}

    def order_digest(self, weights):
        return "order"

    def train(self):
        return {"w": self.numbers}, 1


class Cohort:
    """Some sites and a server that passes on what they say; nothing is made up."""

    def __init__(self, each, folder, threshold, nodes=None):
        self.sites = [Site(w, folder / f"{i}") for i, w in enumerate(each)]
        self.partners = [Partner(ConfigRecord(), node) for node in nodes or [{}] * len(each)]
        self.session, self.threshold = "s", threshold
        asked = [self.order(number=i, sums=2) for i in range(len(each))]
        self.offers = {i: one.keys(asked[i]) for i, one in enumerate(self.partners)}
        about = self.order(members=self.offers, threshold=threshold)
        self.dealt = [partner.shares(about) for partner in self.partners]

    def order(self, **more):
        return {"session": self.session, **more}

    def masked(self, i, **more):
        shares = {str(j): one[str(i)] for j, one in enumerate(self.dealt) if j != i}
        weights = dict.fromkeys(map(str, range(len(self.sites))), 1)
        order = self.order(shares=shares, people=weights, sum=0) | more
        return self.partners[i].train_masked(order, self.sites[i])[0].numpy()

    def opened(self, within):
        """What the sites in a sum say, asked for signatures and then for shares."""
        asked = self.order(within=within)
        signed = {str(i): self.partners[i].sign(asked)["signature"] for i in within}
        return {i: self.partners[i].unmask(self.order(signatures=signed)) for i in within}
