"""Distribute runs over a Ray cluster, which must require a token.

Ray listens on the network and runs the code of any client, unless it requires a token. `gate`
checks a cluster before it is joined, `broker` is the only process that imports Ray, `crew` starts
and stops it. None of them knows what the work is. Ray is an extra: ``pip install
'pfedfair[cluster]'``.
"""

import secrets

LOCAL = "local"  # as an address: start a cluster on this machine
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default of later versions
    "RAY_gcs_server_request_timeout_seconds": "20",  # to join
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # until a lost cluster is given up
}


def token_settings() -> dict[str, str]:
    """Return the settings of a cluster that requires a token, a new one each time.

    Only the environment holds it: other users can read the command line of a process, but not that.
    """
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
