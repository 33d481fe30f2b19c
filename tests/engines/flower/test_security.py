"""TLS and keys: who is not known is not let in."""

import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import time
import tomllib
from dataclasses import fields

import httpx
import pytest

from made_people import people
from pfedfair._util.errors import InputError
from pfedfair.engines.flower import provision
from pfedfair.engines.flower.processes import Processes, environment, free_ports, write_toml
from pfedfair.engines.site.policy import Policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sites' files, with a proxy; beside them another consortium's."""
    place = tmp_path_factory.mktemp("security")
    inside, port, *nodes = free_ports(4)
    provision.create(place / "ours", 2, "127.0.0.1", port, inside, node_ports=nodes)
    provision.create(place / "theirs", 1)
    (place / "ports").write_text(f"{inside} {port}")
    return place


def test_private_keys_are_their_owners_and_public_files_have_none(folder):
    keys = list(folder.rglob("*.key"))
    assert len(keys) == 2 + 2 + 2 + 1 + 2  # two authorities, two servers, three sites, two apps
    for path in keys:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"PRIVATE KEY" in path.read_bytes()
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".key":
            assert b"PRIVATE" not in path.read_bytes(), path
    for name in ("start-superlink.sh", "register-sites.sh", "run.sh"):
        script = (folder / "ours" / "server" / name).read_text()
        assert "FLWR_TELEMETRY_ENABLED=0" in script
        assert os.access(folder / "ours" / "server" / name, os.X_OK)
    site = (folder / "ours" / "site-1" / "start-supernode.sh").read_text()
    assert "FLWR_TELEMETRY_ENABLED=0" in site
    assert not list((folder / "ours" / "site-1").glob("*ca.key"))


def test_the_certificate_is_for_the_servers_name(folder, tmp_path):
    provision.create(tmp_path / "x", 1, "fl.example.org")
    text = ssl._ssl._test_decode_cert(str(tmp_path / "x" / "server" / "tls" / "server.pem"))
    names = {value for _, value in text["subjectAltName"]}
    assert {"fl.example.org", "localhost", "127.0.0.1"} <= names


def test_every_site_gets_the_default_policy_with_all_of_its_lines(folder):
    site = folder / "ours" / "site-1"
    policy = site / "policy.toml"
    assert Policy.read(policy) == Policy()
    assert set(tomllib.loads(policy.read_text())) == {
        field.name.replace("_", "-") for field in fields(Policy)
    }
    assert tomllib.loads((site / "site.toml").read_text())["policy"] == "policy.toml"


def test_with_secure_sums_every_site_insists_on_them_and_knows_the_others_keys(tmp_path):
    provision.create(tmp_path / "all", 3, secure_sum=True)
    assert tomllib.loads((tmp_path / "all" / "server" / "run.toml").read_text())["secure-sum"]
    public = {path.name: path.read_bytes() for path in (tmp_path / "all/server/sites").iterdir()}
    assert len(public) == 3
    for i in (1, 2, 3):
        site = tmp_path / "all" / f"site-{i}"
        assert Policy.read(site / "policy.toml") == Policy(secure_sum=True)
        assert {path.name: path.read_bytes() for path in (site / "peers").iterdir()} == public
        about = tomllib.loads((site / "site.toml").read_text())
        assert (about["key"], about["peers"]) == ("site.key", "peers")


def test_a_folder_with_something_in_it_is_left_alone(folder):
    with pytest.raises(InputError, match="exists and is not empty"):
        provision.create(folder / "ours", 2)
    with pytest.raises(InputError, match="sites must be at least 1"):
        provision.create(folder / "none", 0)


@pytest.fixture(scope="module")
def link(folder):
    """The SuperLink of the scripts, with the first site registered and the second not."""
    inside, port = map(int, (folder / "ports").read_text().split())
    server = folder / "ours" / "server"
    (server / "sites" / "site-2.pub").rename(server / "later.pub")
    with Processes(folder / "flower") as processes:
        processes.listen(inside, processes.start("superlink", [str(server / "start-superlink.sh")]))
        done = subprocess.run(
            [server / "register-sites.sh"], env=environment(folder), capture_output=True, timeout=90
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield processes, inside, port, server


def node(processes, name, address, *, roots, key):
    """Start a SuperNode that gives up soon; return it."""
    (port,) = free_ports(1)
    command = ["flower-supernode", "--superlink", address, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--max-retries", "1"]
    command += ["--insecure"] if roots is None else ["--root-certificates", str(roots)]
    command += [] if key is None else ["--auth-supernode-private-key", str(key)]
    return processes.start(name, command)


def says(processes, name, words, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if words in processes.log(name):
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
    processes, inside, port, server = link
    site = folder / "ours" / "site-1"
    script = site / "start-supernode.sh"  # without a proxy
    script.write_text(script.read_text().replace(f":{port} ", f":{inside} "))
    people(sizes=(200,)).drop(columns="site").to_parquet(site / "site.parquet")
    text = (site / "site.toml").read_text()
    (site / "site.toml").write_text(text.replace('"y"', '"hired"').replace('"s"', '"sex"'))
    config = {"sites": 1, "wait": 60.0, "rounds": 1, "local-rounds": 1, "poll": 0.3}
    config |= {"method": "fedavg"}
    name = "trusting"
    processes.start(name, [str(script)])
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
