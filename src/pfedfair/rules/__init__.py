"""Decision rules: from a row's scores and group to a decision.

A rule belongs to one client. It is `numbers`, a tensor that safetensors stores, and a few fields in
JSON. Logits are ``(n, outputs)``, groups ``(n,)``.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pfedfair._util.errors import known
from pfedfair.rules.base import Rule
from pfedfair.rules.likeliest import Likeliest
from pfedfair.rules.lookup import Lookup
from pfedfair.rules.thresholds import Thresholds

__all__ = ["RULES", "Likeliest", "Lookup", "Rule", "Thresholds", "from_dict"]


KINDS = (Likeliest, Thresholds, Lookup)
RULES: dict[str, Callable[..., Rule]] = {kind.__name__.lower(): kind for kind in KINDS}


def from_dict(about: dict[str, Any], numbers: Tensor) -> Rule:
    """Make a rule from its `to_dict` and its numbers."""
    rest = {key: value for key, value in about.items() if key != "kind"}
    return RULES[known("saved rule", about["kind"], RULES)](numbers, **rest)
