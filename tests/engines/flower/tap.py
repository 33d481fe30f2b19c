"""A wire tap: passes connections on to another port and keeps every byte."""

import socket
import threading
from contextlib import suppress


class Tap:
    """Listens on a free port of loopback; `heard` has all bytes, by connection and direction."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.heard: list[bytearray] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        kept = bytearray()
        self.heard.append(kept)
        with suppress(OSError):
            while data := a.recv(65536):
                kept += data
                b.sendall(data)
        for one in (a, b):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        self.listener.close()

    def everything(self) -> bytes:
        return b"\xff\x00tap\x00\xff".join(bytes(part) for part in self.heard)
