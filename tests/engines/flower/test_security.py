"""TLS and keys: who is not known is not let in."""

import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import time

import httpx
import pytest

from made_people import people
from pfedfair.engines.flower import certificates, membership, provision, trial
from pfedfair.engines.flower.processes import Processes, environment, free_ports, write_toml


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A server with a proxy; site-1 is admitted, site-2 not; beside them another consortium."""
    place = tmp_path_factory.mktemp("security")
    inside, port, *nodes = free_ports(4)
    ours = place / "ours"
    trial.set_up(ours, {"site-1": nodes[0]}, host="127.0.0.1", port=port, inside=inside)
    provision.join(ours / "site-2", ours / "server" / "consortium.json", "site-2", nodes[1])
    trial.set_up(place / "theirs", {"site-1": 9094})
    (place / "ports").write_text(f"{inside} {port}")
    return place


def test_private_keys_are_their_owners_and_public_files_have_none(folder):
    keys = list(folder.rglob("*.key"))
    assert len(keys) == 2 + 2 + 2 + 3  # two authorities, two servers, two apps, three sites
    for path in keys:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"PRIVATE KEY" in path.read_bytes()
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".key":
            assert b"PRIVATE" not in path.read_bytes(), path
    for name in ("start-superlink.sh", "run.sh"):
        script = (folder / "ours" / "server" / name).read_text()
        assert "FLWR_TELEMETRY_ENABLED=0" in script
        assert os.access(folder / "ours" / "server" / name, os.X_OK)


@pytest.fixture(scope="module")
def link(folder):
    """The SuperLink of the scripts, with the first site registered and the second not.

    The keys of the authority and of the app are off line.
    """
    inside, port = map(int, (folder / "ports").read_text().split())
    server = folder / "ours" / "server"
    (folder / "ours" / "offline").rename(folder / "offline")
    with Processes(folder / "flower") as processes:
        processes.listen(inside, processes.start("superlink", [str(server / "start-superlink.sh")]))
        yield processes, inside, port, server


def test_with_an_expired_certificate_the_scripts_stop_with_one_sentence(tmp_path):
    trial.set_up(tmp_path / "all", {"site-1": 9094})
    server, site = tmp_path / "all" / "server", tmp_path / "all" / "site-1"
    key = certificates.new_key()
    expired = certificates.certificate("x", key.public_key(), key, 0, [], [])
    for script, path in (
        (server / "start-superlink.sh", server / "tls" / "server.pem"),
        (server / "run.sh", server / "tls" / "server.pem"),
        (site / "start-supernode.sh", site / "ca.pem"),
    ):
        path.write_bytes(expired)
        done = subprocess.run([script], env=environment(tmp_path), capture_output=True, timeout=60)
        assert done.returncode == 2
        assert done.stdout == b""
        assert re.fullmatch(rf"Error: \S*{path.name} expired on .*\n", done.stderr.decode())


def node(processes, name, address, *, roots, key):
    """Start a SuperNode that gives up soon; return it."""
    (port,) = free_ports(1)
    command = ["flower-supernode", "--superlink", address, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--max-retries", "1"]
    command += ["--insecure"] if roots is None else ["--root-certificates", str(roots)]
    command += [] if key is None else ["--auth-supernode-private-key", str(key)]
    return processes.start(name, command)


def direct(site, inside):
    """Return a site's start script, which now goes past the proxy to the SuperLink."""
    script = site / "start-supernode.sh"
    text = re.sub(r"--superlink \S+ ", f"--superlink 127.0.0.1:{inside} ", script.read_text())
    script.write_text(text)
    return script


def says(processes, name, words, seconds=60, times=1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if processes.log(name).count(words) >= times:
            return True
        time.sleep(0.1)
    return False


def test_only_a_registered_key_with_the_right_authority_gets_in(link, folder):
    """At once: the good site; no authority; another one; an unknown key; plain text."""
    processes, inside, _, server = link
    address, ca = f"127.0.0.1:{inside}", server / "tls" / "ca.pem"
    sites = folder / "ours"
    others = folder / "theirs"
    node(processes, "good", address, roots=ca, key=sites / "site-1" / "site.key")
    node(processes, "unknown", address, roots=ca, key=sites / "site-2" / "site.key")
    node(processes, "stranger", address, roots=others / "site-1" / "ca.pem",
         key=sites / "site-1" / "site.key")  # fmt: skip
    node(processes, "plain", address, roots=None, key=None)
    node(processes, "keyless", address, roots=ca, key=None)
    assert says(processes, "good", "SuperNode ID: ")
    refused = {
        "unknown": "Failed to activate SuperNode",
        "stranger": "CERTIFICATE_VERIFY_FAILED",
        "plain": "Failed to initialize the connection",
        "keyless": "All SuperNodes must be registered",
    }
    for name, words in refused.items():
        assert says(processes, name, words), name
        assert "SuperNode ID: " not in processes.log(name), name
    assert "SuperNode ID: " in processes.log("good")
    processes.stop("good", "unknown", "stranger", "plain", "keyless")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_site_is_admitted_rotated_and_revoked_while_the_superlink_runs(link, folder):
    """A revoked key is refused at the next message, by a real SuperLink, and stays refused."""
    processes, inside, _, server = link
    address, ca, site = f"127.0.0.1:{inside}", server / "tls" / "ca.pem", folder / "ours" / "site-2"

    def admit(request):
        membership.register(server, membership.with_requests(server, [request], replacing=True))
        membership.update(site, membership.with_update(site, server / "consortium.json")[0])

    def refused(name, key):
        node(processes, name, address, roots=ca, key=key)
        assert says(processes, name, "Failed to activate SuperNode")
        assert "SuperNode ID: " not in processes.log(name)

    admit(site / "site-2.csr")
    processes.start("site-2", [str(direct(site, inside))])
    assert says(processes, "site-2", "SuperNode ID: ")
    assert "All keys together: " in processes.log("site-2")  # the script shows them
    shutil.copy(site / "site.key", folder / "old.key")
    admit(membership.rotate(site))
    assert says(processes, "site-2", "SuperNode ID: ", times=2)  # its loop takes the new key
    refused("old", folder / "old.key")
    membership.register(server, membership.without(server, "site-2"))
    assert says(processes, "site-2", "Failed to activate SuperNode")
    refused("revoked", site / "site.key")
    assert processes.log("site-2").count("SuperNode ID: ") == 2
    processes.stop("site-2", "old", "revoked")


def test_a_client_without_the_authority_or_without_tls_is_refused(link):
    _, inside, *_ = link
    with (
        socket.create_connection(("127.0.0.1", inside), timeout=10) as raw,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(raw, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", inside), timeout=10) as raw:
        raw.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = raw.recv(100)
        except ConnectionError:
            answer = b""
        assert b"HTTP" not in answer


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_site_runs_the_signed_app_and_no_other(link, folder):
    """The same app, unsigned and signed, at a site that trusts only the consortium's key."""
    processes, inside, _, server = link
    site = folder / "ours" / "site-1"
    people(sizes=(200,)).drop(columns="site").to_parquet(site / "site.parquet")
    text = (site / "site.toml").read_text()
    (site / "site.toml").write_text(text.replace('"y"', '"hired"').replace('"s"', '"sex"'))
    config = {"sites": 1, "wait": 60.0, "rounds": 1, "local-rounds": 1, "poll": 0.3}
    config |= {"method": "fedavg"}
    name = "trusting"
    processes.start(name, [str(direct(site, inside))])
    assert says(processes, name, "SuperNode ID: ")
    processes.connect(inside, server / "tls")
    status = processes.run(config | {"out": str(folder / "unsigned")})
    report = processes.wait(status, 120)
    assert report["done"] is False
    assert "none can take part" in report["error"]
    assert "The FAB could not be verified" in processes.log(name)
    write_toml(server / "run.toml", config | {"out": str(folder / "signed")})
    done = subprocess.run(
        [server / "run.sh"], env=environment(folder), capture_output=True, timeout=120, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes.wait(folder / "signed" / "status.json", 120)["done"]
    assert (site / "state" / "model" / "run.json").exists()
    processes.stop(name)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_through_the_proxy_there_is_no_way_to_control_and_runtime(link, folder):
    processes, inside, port, server = link
    proxy = server / "proxy"
    command = ["nginx", "-p", str(proxy), "-c", "nginx.conf", "-e", "error.log"]
    processes.listen(port, processes.start("nginx", command))
    context = ssl.create_default_context(cafile=str(server / "tls" / "ca.pem"))
    with httpx.Client(verify=context) as client:
        for path in ("/v1/control/start-run", "/v1/runtime/acquire-task", "/", "/docs"):
            assert client.post(f"https://127.0.0.1:{port}{path}").status_code == 403
        straight = client.post(f"https://127.0.0.1:{inside}/v1/control/start-run")
        assert straight.status_code != 403  # which is why the proxy is there
    key = folder / "ours" / "site-1" / "site.key"
    node(processes, "proxied", f"127.0.0.1:{port}", roots=server / "tls" / "ca.pem", key=key)
    assert says(processes, "proxied", "SuperNode ID: ")
    processes.stop("proxied", "nginx", how=signal.SIGTERM)
