"""The engine for many machines: every site runs the same rounds on its own rows, on Flower.

``server_app`` and ``client_app`` are what Flower starts; all that is not Flower's is in
`pfedfair.engines.site`. It calls the algorithm's own methods with one client each, so a run gives
what `pfedfair.engines.local` gives.
Flower is an extra: ``pip install 'pfedfair[flower]'``.
"""

import logging
from importlib.util import find_spec

from pfedfair._util.errors import InputError
from pfedfair._util.text import plain

log = logging.getLogger("pfedfair")  # it goes where Flower's own messages go
log.parent = logging.getLogger("flwr")


def one_line(record: logging.LogRecord) -> bool:
    """What others say, names above all, stays within its line, and is no code for a terminal."""
    record.msg, record.args = plain(record.getMessage()).replace("\n", "\\n"), ()
    return True


log.addFilter(one_line)
NEEDED = ("flwr", "filelock", "psutil", "tomli_w")


def require(*modules: str) -> None:
    """Say what to install if Flower, or what else a command needs, is not there."""
    for module in (*NEEDED, *modules):
        if find_spec(module) is None:
            extra = "simulation" if module == "ray" else "flower"
            raise InputError(
                f"This command needs the package '{module}': pip install 'pfedfair[{extra}]'."
            )
