"""Many machines for many runs: work is spread over a Ray cluster, with its token or not at all.

Ray listens on the network and runs code for whoever asks, unless it asks for a secret. `gate` looks
at a cluster before we go in, `broker` is the one process of ours that speaks Ray, `crew` starts and
stops it. What the work is they do not know. Ray is an extra: ``pip install 'pfedfair[cluster]'``.
"""

import secrets

LOCAL = "local"  # in the place of an address: a cluster of our own, on this machine
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as later versions do: we use no such thing
    "RAY_gcs_server_request_timeout_seconds": "20",  # to be let in
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # then a lost cluster is lost
}


def secret() -> dict[str, str]:
    """Settings of a cluster that asks for a secret, a new one each time.

    Only the environment holds it: other users can read the command line of a process, but not that.
    """
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
