"""Theory: Proposition 1's bound, Proposition 2's rule, and what estimates need for them."""

from pfedfair.theory.bound import cost_of_one_model
from pfedfair.theory.frontier import frontier
from pfedfair.theory.rule import Rule, fair_rule

__all__ = ["Rule", "cost_of_one_model", "fair_rule", "frontier"]
