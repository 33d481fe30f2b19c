"""What can be computed before any training: Proposition 1's cost, Proposition 2's rule."""

from pfedfair.theory.bound import cost_of_one_model
from pfedfair.theory.frontier import frontier
from pfedfair.theory.rule import Rule, fair_rule

__all__ = ["Rule", "cost_of_one_model", "fair_rule", "frontier"]
