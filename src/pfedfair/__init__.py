"""Train one model together, give every client its own fair version, show each what it got.

The public names stand in ``__init__.pyi``. Each is loaded when it is asked for: torch takes long.
"""

from importlib.util import find_spec

import lazy_loader

__version__ = "0.1.0"
__getattr__, _names, __all__ = lazy_loader.attach_stub(__name__, __file__)
if not find_spec("sklearn"):  # it is not installed with pfedfair
    __all__.remove("FairFederatedClassifier")


def __dir__() -> list[str]:
    return __all__
