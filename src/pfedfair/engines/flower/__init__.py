"""The engine for many machines, on Flower: every site runs the rounds on its own rows.

Flower starts ``server_app`` and ``client_app``; all that does not depend on Flower is in
`pfedfair.engines.site`. It calls the method with one client each, so a run gives the same result as
`pfedfair.engines.local`. Flower is an extra: ``pip install 'pfedfair[flower]'``.
"""

import logging
from importlib.util import find_spec

from pfedfair._util.errors import InputError
from pfedfair._util.text import sanitise

log = logging.getLogger("pfedfair")  # handled like Flower's own messages
log.parent = logging.getLogger("flwr")


def one_line(record: logging.LogRecord) -> bool:
    """Escape line ends and terminal codes in a message, which may contain names from sites."""
    record.msg, record.args = sanitise(record.getMessage()).replace("\n", "\\n"), ()
    return True


log.addFilter(one_line)
NEEDED = ("flwr", "filelock", "psutil", "tomli_w")


def require(*modules: str) -> None:
    """Raise with what to install if Flower, or another package that a command needs, is missing."""
    for module in (*NEEDED, *modules):
        if find_spec(module) is None:
            extra = "simulation" if module == "ray" else "flower"
            raise InputError(
                f"This command needs the package '{module}': pip install 'pfedfair[{extra}]'."
            )
