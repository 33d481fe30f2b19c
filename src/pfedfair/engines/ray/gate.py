"""Check a cluster before it is joined: it must answer, require a token, and accept ours."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError, option
from pfedfair.engines.ray import LOCAL, token_settings

NEEDED = ("ray", "grpc")
CHECK = "/ray.rpc.NodeInfoGcsService/CheckAlive"  # without arguments or side effects
WAIT = 10.0  # seconds for an answer


def check_cluster(address: str) -> dict[str, str]:
    """Check a cluster before anything is sent; return the settings to join it.

    A cluster that answers without a token is refused: anyone who can reach it could run code on it,
    and read the rows that we would send.
    """
    for module in NEEDED:
        if find_spec(module) is None:
            raise InputError(
                f"{option('cluster')} needs the package '{module}': "
                "pip install 'pfedfair[cluster]'."
            )
    if address == LOCAL:
        return token_settings()
    _check_address(address)
    token = _token()
    if _answers(address, None):
        raise InputError(
            f"The cluster at {address} asks for no token, so whoever can reach it can run code on "
            "it: start it again with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN set."
        )
    if not _answers(address, token):
        raise InputError(
            f"The cluster at {address} does not take this token: RAY_AUTH_TOKEN (or the file "
            "RAY_AUTH_TOKEN_PATH) must hold the one that it was started with."
        )
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in address or not port.isdecimal():
        raise InputError(
            f"{option('cluster')} takes HOST:PORT, as ray start printed it (often port 6379), or "
            f"{LOCAL}; got '{address}'."
        )


def _token() -> str:
    """Return the cluster's token, from where Ray's own commands look for it."""
    given = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if given:
        return given
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        found = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        found = ""
    if not found:
        raise InputError(
            "The cluster's token is missing: set RAY_AUTH_TOKEN to the one that the cluster was "
            "started with, or RAY_AUTH_TOKEN_PATH to a file that holds it."
        )
    return found


def _answers(address: str, token: str | None) -> bool:
    """Whether a cluster answers a client with this token, or with none."""
    import grpc

    metadata: Any = None if token is None else (("authorization", f"Bearer {token}"),)
    with _channel(address) as channel:
        try:
            channel.unary_unary(CHECK)(b"", timeout=WAIT, metadata=metadata)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                return False
            raise InputError(
                f"No Ray cluster answers at {address} ({error.code().name.lower()}): is it "
                "running, and is this the address that ray start printed?"
            ) from None
    return True


def _channel(address: str) -> Any:
    """Return a channel to the cluster, with TLS if Ray's settings say so."""
    import grpc

    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return grpc.insecure_channel(address)
    names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")
    try:
        read = [Path(os.environ[name]).read_bytes() for name in names]
    except (KeyError, OSError) as error:
        raise InputError(f"RAY_USE_TLS is set, so {', '.join(names)} must name files.") from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*read))
