"""What we use of Flower beyond its documented modules: one list, checked when a program starts.

Another version of Flower may have moved or renamed any of these. Modules import them from here, so
that what is missing is named in one sentence.
"""

from importlib import import_module, metadata
from typing import Any

from pfedfair._util.errors import InputError

MODULES = {
    "Fab": "flwr.supercore.fab",
    "HEARTBEAT_DEFAULT_INTERVAL": "flwr.common.constant",
    "HttpGrid": "flwr.superlink.grid.http_grid",
    "InMemoryGrid": "flwr.superlink.grid.inmemory_grid",
    "LinkStateFactory": "flwr.server.superlink.linkstate",
    "NOOP_ACCOUNT_NAME": "flwr.common.constant",
    "NOOP_FEDERATION_ID": "flwr.supercore.constant",
    "NOOP_FLWR_AID": "flwr.common.constant",
    "NoOpFederationManager": "flwr.superlink.federation",
    "ObjectPullError": "flwr.supercore.inflatable.inflatable_utils",
    "ObjectStoreFactory": "flwr.supercore.object_store",
    "RuntimeHttpClient": "flwr.supercore.runtime.runtime_http_client",
    "StartRunRequest": "flwr.proto.control_pb2",
    "TaskType": "flwr.supercore.constant",
    "build_fab_from_disk": "flwr.cli.build",
    "combine_shares": "flwr.common.secure_aggregation.crypto.shamir",
    "create_message_to_sign": "flwr.supercore.primitives.asymmetric_ed25519",
    "create_shares": "flwr.common.secure_aggregation.crypto.shamir",
    "decrypt": "flwr.common.secure_aggregation.crypto.symmetric_encryption",
    "encrypt": "flwr.common.secure_aggregation.crypto.symmetric_encryption",
    "fab_to_proto": "flwr.common.serde",
    "generate_shared_key": "flwr.common.secure_aggregation.crypto.symmetric_encryption",
    "init_http_client_from_connection": "flwr.cli.utils",
    "parse_config_args": "flwr.common.config",
    "public_key_to_bytes": "flwr.supercore.primitives.asymmetric",
    "read_superlink_connection": "flwr.cli.flower_config",
    "start_stream": "flwr.cli.log",
    "user_config_to_proto": "flwr.common.serde",
}
ATTRIBUTES = (
    ("HttpGrid", "_runtime_client"),
    ("RuntimeHttpClient", "PullObject"),
    ("LinkStateFactory", "state"),
    ("TaskType", "SERVER_APP"),
)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(MODULES[name]), name)
    except (ImportError, AttributeError) as error:
        raise _missing([f"{MODULES[name]}.{name}"]) from error


def check() -> None:
    """Refuse a version of Flower that lacks what we use, and name all of it."""
    missing = []
    for name, module in MODULES.items():
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name}")
            continue
        missing += [
            f"{module}.{name}.{attribute}"
            for owner, attribute in ATTRIBUTES
            if owner == name and not hasattr(found, attribute)
        ]
    if missing:
        raise _missing(missing)


def _missing(names: list[str]) -> InputError:
    needed = next(
        (each.split(";")[0] for each in metadata.requires("pfedfair") or () if each[:4] == "flwr"),
        "flwr",
    )
    return InputError(
        f"Flower {metadata.version('flwr')} has no {', '.join(names)}, which pfedfair uses: "
        f"install {needed}."
    )
