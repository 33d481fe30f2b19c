"""Small pieces of work for a cluster, which needs none of our packages to do them."""

import os
import time
from pathlib import Path


def do(piece, name, fetch, same, here, tell):
    """A piece is a word and the path of a file where who does it leaves a mark."""
    word, _, path = piece.decode().partition(" ")
    with Path(path).open("a") as marks:
        marks.write(f"{os.getpid()}\n")
    if word == "dies":
        time.sleep(1.5)
    if word == "dies" or (word == "dies-once" and len(Path(path).read_text().split()) == 1):
        os._exit(9)
    if word == "waits":
        tell(0.25)
        time.sleep(0.6)
        tell(0.75)
        time.sleep(3.0)
    return "done", (word, fetch(), same, here)
