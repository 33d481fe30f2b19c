"""What sites and server say goes where Flower's own messages go."""

import logging

log = logging.getLogger("pfedfair")
log.parent = logging.getLogger("flwr")
