"""Sites join, are admitted, revoked, and change their keys: by files, without a SuperLink."""

import os
import stat
import tomllib
from dataclasses import fields, replace

import pytest

from pfedfair import InputError
from pfedfair.engines.flower import certificates, membership, provision, signing, trial
from pfedfair.engines.flower.certificates import private_bytes
from pfedfair.engines.flower.consortium import Consortium, load_private, read_request, write_request
from pfedfair.engines.site.policy import Policy


@pytest.fixture
def place(tmp_path):
    """A consortium of sites a and b; c has a request and is not admitted."""
    trial.set_up(tmp_path, {"a": 9094, "b": 9095}, days=20)
    provision.join(tmp_path / "c", tmp_path / "server" / "consortium.json", "c")
    return tmp_path


def public(place):
    return place / "server" / "consortium.json"


def admit(place, *requests, replacing=False):
    server = place / "server"
    membership.register(server, membership.with_requests(server, requests, replacing))


def take_in(place, *sites):
    return [
        membership.update(place / site, membership.with_update(place / site, public(place))[0])
        for site in sites
    ]


def registered(place):
    """What Flower knows: the names of the keys that it lets in, and of those that it does not."""
    found = {}
    for node in signing.link_state(place / "server").get_node_info():
        found.setdefault(node.status != "unregistered", []).append(node.name)
    return sorted(found.get(True, [])), sorted(found.get(False, []))


def everything(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("link.db")
    }


def test_the_server_has_no_private_key_of_a_site(place):
    assert sorted(path.name for path in (place / "server").rglob("*.key")) == ["server.key"]
    for site in ("a", "b", "c"):
        path = place / site / "site.key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        body = path.read_bytes().split(b"\n")[-4]  # the first lines are alike
        assert [p for p, text in everything(place).items() if body in text] == [path]


def test_what_travels_is_not_secret(place):
    for path in (public(place), *place.glob("*/*.csr")):
        assert b"PRIVATE" not in path.read_bytes()


def test_a_site_has_its_settings_the_default_policy_and_a_start_script(place):
    site = place / "a"
    policy = site / "policy.toml"
    assert Policy.read(policy) == Policy()
    lines = {field.name.replace("_", "-") for field in fields(Policy)}
    assert set(tomllib.loads(policy.read_text())) == lines
    about = tomllib.loads((site / "site.toml").read_text())
    assert (about["site"], about["policy"]) == ("a", "policy.toml")
    assert (about["key"], about["peers"]) == ("site.key", "consortium.json")
    script = (site / "start-supernode.sh").read_text()
    assert "FLWR_TELEMETRY_ENABLED=0" in script
    assert "--superlink localhost:8443 " in script
    assert "--port 9094 " in script
    assert os.access(site / "start-supernode.sh", os.X_OK)


def test_with_secure_sums_every_site_insists_on_them_and_knows_the_others_keys(tmp_path):
    trial.set_up(tmp_path / "all", {f"site-{i}": 9094 for i in (1, 2, 3)}, secure_sum=True)
    assert tomllib.loads((tmp_path / "all" / "server" / "run.toml").read_text())["secure-sum"]
    keys = Consortium.read(public(tmp_path / "all")).sites
    assert len(keys) == 3
    for i in (1, 2, 3):
        site = tmp_path / "all" / f"site-{i}"
        assert Policy.read(site / "policy.toml") == Policy(secure_sum=True)
        assert Consortium.read(site / "consortium.json").sites == keys


def test_a_folder_with_something_in_it_is_left_alone(place):
    before = everything(place)
    for again in (
        lambda: provision.init(place),
        lambda: provision.join(place / "a", public(place), "a"),
    ):
        with pytest.raises(InputError, match="exists and is not empty"):
            again()
    assert everything(place) == before


def test_a_site_that_cannot_be_set_up_leaves_nothing(place, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(provision, "write_request", full)
    with pytest.raises(OSError, match="No space"):
        provision.join(place / "d", public(place), "d")
    assert not list((place / "d").iterdir())


def test_flower_knows_the_admitted_sites(place):
    assert registered(place) == (["a", "b"], [])
    admit(place, place / "c" / "c.csr")
    admit(place, place / "c" / "c.csr", place / "a" / "a.csr")  # again: nothing happens
    assert registered(place) == (["a", "b", "c"], [])
    assert list(Consortium.read(public(place)).sites) == ["a", "b", "c"]


def test_a_name_or_a_key_that_is_taken_is_refused(place, tmp_path):
    before = everything(place)
    named = provision.join(tmp_path / "x", public(place), "a")
    cased = provision.join(tmp_path / "y", public(place), "A")
    key = load_private(place / "a" / "site.key")
    write_request(tmp_path / "z.csr", "z", key)
    for path, replacing, message in (
        (named, False, "there is a site 'a' with another key. .* replace"),
        (cased, False, "there is a site 'a' with another key"),
        (cased, True, "there is a site 'a' with another key"),
        (tmp_path / "z.csr", False, "has the key of site 'a'"),
        (tmp_path / "z.csr", True, "has the key of site 'a'"),
    ):
        with pytest.raises(InputError, match=message):
            membership.with_requests(place / "server", [place / "c" / "c.csr", path], replacing)
    assert {path: before[path] for path in before} == {p: p.read_bytes() for p in before}
    assert registered(place) == (["a", "b"], [])
    two = [place / "c" / "c.csr", provision.join(tmp_path / "c2", public(place), "c")]
    with pytest.raises(InputError, match="there is a site 'c' with another key"):
        membership.with_requests(place / "server", two)


def test_a_revoked_key_does_not_come_back(place):
    """Neither by its old request nor by another name; the site may come back with a new key."""
    server, request = place / "server", place / "b" / "b.csr"
    membership.register(server, membership.without(server, "b"))
    assert list(Consortium.read(public(place)).sites) == ["a"]
    assert registered(place) == (["a"], ["b"])
    other = place / "other.csr"
    write_request(other, "other", load_private(place / "b" / "site.key"))
    for path in (request, other):
        with pytest.raises(InputError, match=r"was revoked. Make a new one .* rotate"):
            admit(place, path)
    with pytest.raises(InputError, match="Unknown site 'b': choose one of a"):
        membership.without(server, "b")
    with pytest.raises(InputError, match=r"lacks 'b': send .*b.csr to the server's operator"):
        take_in(place, "b")
    admit(place, membership.rotate(place / "b"))
    assert take_in(place, "a", "b") == [False, True]
    assert registered(place) == (["a", "b"], ["b"])


def test_other_sites_see_who_is_revoked_or_new(place):
    server = place / "server"
    admit(place, place / "c" / "c.csr")
    membership.register(server, membership.without(server, "b"))
    _, lines = membership.with_update(place / "a", public(place))
    assert [line.rsplit("  ", 1)[0] for line in lines] == ["revoked: b", "new: c"]
    take_in(place, "a")
    assert membership.with_update(place / "a", public(place))[1] == []
    totals = [membership.status(place / who)[3] for who in ("a", "server")]
    assert totals[0].startswith("All keys together: ")
    assert totals[0] == totals[1]


def test_a_list_of_sites_is_registered_even_if_flower_lost_its_own(place):
    for path in (place / "server").glob("link.db*"):
        path.unlink()
    membership.register(place / "server")
    assert registered(place) == (["a", "b"], [])


def test_rotation_keeps_the_old_key_until_the_new_one_is_admitted(place):
    site = place / "a"
    old, others = (site / "site.key").read_bytes(), Consortium.read(public(place)).sites["b"]
    request = membership.rotate(site)
    first = read_request(request)
    assert stat.S_IMODE((site / "next.key").stat().st_mode) == 0o600
    assert read_request(membership.rotate(site)) == first  # asked again: the same key
    assert take_in(place, "a") == [False]
    assert (site / "site.key").read_bytes() == old
    with pytest.raises(InputError, match="there is a site 'a' with another key"):
        admit(place, request)
    admit(place, request, replacing=True)
    assert registered(place) == (["a", "b"], ["a"])
    assert Consortium.read(public(place)).sites == {"a": first[1], "b": others}
    assert take_in(place, "a") == [True]
    assert (site / "site.key").read_bytes() != old
    assert stat.S_IMODE((site / "site.key").stat().st_mode) == 0o600
    assert not (site / "next.key").exists()
    (line,) = membership.with_update(place / "b", public(place))[1]
    assert line.startswith("new key: a  SHA256:")


def test_a_site_takes_in_only_what_has_its_key_and_its_consortium(place, tmp_path):
    site, path = place / "a", tmp_path / "other.json"
    before, found = everything(site), Consortium.read(public(place))
    trial.set_up(tmp_path / "theirs", {"a": 9094})
    wrong = replace(found, sites=found.sites | {"a": found.sites["b"]} | {"b": found.sites["a"]})
    for other, message in (
        (Consortium.read(public(tmp_path / "theirs")), "is of another consortium"),
        (wrong, "has another key for 'a', SHA256:.* your key, SHA256:"),
        (replace(found, sites={}), "lacks 'a'"),
    ):
        other.write(path)
        with pytest.raises(InputError, match=message):
            membership.with_update(site, path)
    assert everything(site) == before


def test_renewed_certificates_reach_the_sites(place):
    server, site = place / "server", place / "a"
    old = (site / "ca.pem").read_bytes()
    membership.renew(server, place / "offline" / "ca.key", 365)
    assert membership.with_update(site, public(place))[1] == []  # no key is another
    take_in(place, "a")
    assert (site / "ca.pem").read_bytes() == (server / "tls" / "ca.pem").read_bytes() != old


def test_status_reports_sites_fingerprints_and_days(place):
    first, a, b, total, server, ca = membership.status(place / "server")
    assert first == "2 sites of localhost:8443:"
    assert a.startswith("SHA256:")
    assert (a[-3:], b[-3:]) == ("  a", "  b")
    assert Consortium.read(public(place)).fingerprint() in total
    assert server.startswith("Warning: server.pem is valid until ")
    assert "(days left: 19): pfedfair flower renew " in server
    assert ca.startswith("ca.pem is valid until ")
    assert membership.status(place / "a")[-1] == ca
    with pytest.raises(InputError, match=r"Site 'c' is not admitted: send .*c.csr"):
        membership.status(place / "c")
    with pytest.raises(InputError, match="There is no file"):
        membership.status(place / "offline")


def test_an_expired_certificate_is_one_sentence(place):
    key = certificates.new_key()
    expired = certificates.certificate("x", key.public_key(), key, 0, [], [])
    (place / "server" / "tls" / "server.pem").write_bytes(expired)
    (place / "a" / "ca.pem").write_bytes(expired)
    with pytest.raises(InputError, match=r"server.pem expired on .*: pfedfair flower renew .*\.$"):
        membership.status(place / "server")
    with pytest.raises(InputError, match=r"ca.pem expired on .*: ask the server's operator .*\.$"):
        membership.status(place / "a")


def test_what_is_no_servers_or_sites_folder_is_named(place, tmp_path):
    with pytest.raises(InputError, match=r"is not a server's folder: name the folder 'server'"):
        membership.with_requests(place / "a", [])
    with pytest.raises(InputError, match="is not the folder of a site"):
        membership.rotate(tmp_path)
    (place / "a" / "next.key").write_text("half")
    with pytest.raises(InputError, match=r"next.key is no readable private key"):
        membership.rotate(place / "a")
    (place / "a" / "next.key").write_bytes(private_bytes_of_another_kind())
    with pytest.raises(InputError, match=r"next.key must be an elliptic curve key"):
        membership.rotate(place / "a")


def private_bytes_of_another_kind():
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    return private_bytes(key, forms.PrivateFormat.OpenSSH)


def test_a_run_needs_sites_and_a_superlink(tmp_path, place, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", "")
    provision.init(tmp_path / "empty")
    with pytest.raises(InputError, match="has no sites: admit them first"):
        signing.start_run(tmp_path / "empty" / "server")
    with pytest.raises(InputError, match=r"does not run: start start-superlink.sh"):
        signing.start_run(place / "server")
