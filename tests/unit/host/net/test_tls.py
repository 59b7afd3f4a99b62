"""Keystores: PEM and PKCS12 are read, a Java keystore is refused with the command that converts it."""

import contextlib
import datetime
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, load_pem_private_key, pkcs12

from actors.host.net.tls import Contexts, Tls
from actors.host.security.certificates import Issued, authority, issue, renewed_authority, write
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config
from actors.settings.tls import tls_settings

NOW = datetime.datetime.now(datetime.UTC)
BY = authority("test", NOW)
ISSUED = issue(BY, "node", NOW, ["localhost"])


def tls(**given: str) -> Tls:
    settings = {f"ssl.{name.replace('_', '.')}": value for name, value in given.items()}
    return Tls("NODES", tls_settings("NODES", settings.get))


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a handshake in memory. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (other, one):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return one, other


def named(peer: ssl.SSLObject) -> str:
    """The name in the certificate of the other end."""
    found = peer.getpeercert()
    assert found is not None
    return str(dict(part[0] for part in found["subject"])["commonName"])


def shaken(server: Tls, client: ssl.SSLContext) -> str:
    """The name in the server's certificate."""
    return named(handshake(server.server, client)[1])


def shows(server: Tls, client: ssl.SSLContext) -> str:
    """The name in the client's certificate."""
    return named(handshake(server.server, client)[0])


def trusting(pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem.decode())
    return context


def served_by(by: Issued, folder: Path) -> ssl.SSLContext:
    """A server whose certificate is of that authority."""
    path = folder / "other.pem"
    write(path, issue(by, "other", NOW, ["localhost"]).pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def p12(tmp_path: Path) -> Path:
    key, certificate = load_pem_private_key(ISSUED.key, None), x509.load_pem_x509_certificate(ISSUED.certificate)
    path = tmp_path / "node.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"node",
            key,  # type: ignore[arg-type]
            certificate,
            [x509.load_pem_x509_certificate(BY.certificate)],
            BestAvailableEncryption(b"right"),
        )
    )
    return path


@pytest.mark.parametrize("type_", ["PKCS12", ""])
def test_a_pkcs12_keystore_is_read_with_its_password(p12: Path, type_: str) -> None:
    server = tls(keystore_location=str(p12), keystore_password="right", keystore_type=type_)
    assert shaken(server, trusting(BY.certificate)) == "node"


def test_a_wrong_password_is_told_and_not_repeated(p12: Path) -> None:
    with pytest.raises(ConfigError, match="its password is another") as error:
        tls(keystore_location=str(p12), keystore_password="wrong-secret")
    assert "wrong-secret" not in str(error.value)


def test_a_java_keystore_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "node.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02" + bytes(40))
    with pytest.raises(ConfigError, match=rf"keytool -importkeystore -srckeystore {path} .*-deststoretype PKCS12"):
        tls(keystore_location=str(path), keystore_password="changeit", keystore_type="JKS")


def test_pem_may_stand_in_the_settings(tmp_path: Path) -> None:
    server = tls(keystore_key=ISSUED.key.decode(), keystore_certificate_chain=ISSUED.certificate.decode())
    assert shaken(server, trusting(BY.certificate)) == "node"


def test_an_authority_that_is_taken_out_is_not_trusted_any_more(tmp_path: Path) -> None:
    """docs/security.md: at the end of a replacement the old authority goes. Its sessions go with it."""
    old, new = authority("old authority", NOW), authority("new authority", NOW)
    mine, others = tmp_path / "node.pem", tmp_path / "ca.pem"
    write(mine, issue(new, "node", NOW, ["localhost"]).pem)
    others.write_bytes(old.certificate + new.certificate)
    server = tls(keystore_location=str(mine), truststore_location=str(others), client_auth="required")
    clients = {}
    for name, by in (("old", old), ("new", new)):
        path = tmp_path / f"{name}.pem"
        write(path, issue(by, name, NOW).pem)
        clients[name] = trusting(new.certificate)
        clients[name].load_cert_chain(path)
    assert [shows(server, clients[name]) for name in ("old", "new")] == ["old", "new"]
    others.write_bytes(b"-----BEGIN NONSENSE-----")
    with pytest.raises(ConfigError):
        server.renew()
    assert shows(server, clients["old"]) == "old", "what was read before stays in use"
    others.write_bytes(new.certificate)
    assert server.renew() and not server.renew()
    assert shows(server, clients["new"]) == "new"
    with pytest.raises(ssl.SSLCertVerificationError):
        shows(server, clients["old"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served_by(old, tmp_path), server.client)


class Lines:
    def __init__(self) -> None:
        self.told: list[str] = []

    def info(self, text: str) -> None:
        self.told.append(text)

    warning = error = info


def test_a_certificate_that_ends_soon_is_told_once_a_day(tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    config = node_config(
        {
            "process.roles": "broker",
            "broker.id": "1",
            "listeners": "SSL://127.0.0.1:9092",
            "security.inter.broker.protocol": "SSL",
            "controller.connect": "127.0.0.1:9093",
            "log.dirs": str(tmp_path),
            "ssl.keystore.location": str(path),
        }
    )
    for days, times in ((40, 0), (20, 1)):
        write(path, issue(BY, "node", NOW, ["localhost"], days=days).pem)
        lines = Lines()
        contexts = Contexts(config, lines)
        for hours in (0, 1, 2):
            contexts.tell_ends(NOW.replace(hour=3) + datetime.timedelta(hours=hours))
        assert sum(f"the certificate {path} is good until" in line for line in lines.told) == times
        contexts.tell_ends(NOW + datetime.timedelta(days=15))
        assert sum("is good until" in line for line in lines.told) == times + 1, "and again on another day"


def test_an_authority_that_is_taken_out_is_told_also_if_sessions_were_forgotten_meanwhile(tmp_path: Path) -> None:
    """Whoever comes with a session of a certificate that is over has them forgotten: at a time of its own choice."""
    write(tmp_path / "ca.pem", BY.certificate)
    write(tmp_path / "node.pem", issue(BY, "node", NOW, ["localhost"]).pem)
    config = node_config(
        {
            "process.roles": "broker",
            "broker.id": "1",
            "listeners": "SSL://127.0.0.1:9092",
            "security.inter.broker.protocol": "SSL",
            "controller.connect": "127.0.0.1:9093",
            "log.dirs": str(tmp_path),
            "ssl.keystore.location": str(tmp_path / "node.pem"),
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
    )
    contexts = Contexts(config, Lines())
    served = contexts.get("SSL")
    assert served is not None and contexts.renew() == []
    served.forget_sessions()
    assert contexts.renew() == []
    write(tmp_path / "ca.pem", authority("another", NOW).certificate)
    served.forget_sessions()
    assert contexts.renew() == [served]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_session_that_goes_on_is_as_good_as_its_certificate(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL looks at no certificate when a session is resumed."""
    write(tmp_path / "ca.pem", BY.certificate)
    for name in ("node", "alice"):
        write(tmp_path / f"{name}.pem", issue(BY, name, NOW, ["localhost"], days=1).pem)

    def made(name: str) -> Tls:
        return tls(
            keystore_location=str(tmp_path / f"{name}.pem"), keystore_type="PEM", client_auth="required",
            truststore_location=str(tmp_path / "ca.pem"), truststore_type="PEM", enabled_protocols=version,
        )  # fmt: skip

    server, client = made("node"), made("alice").client
    first, other = handshake(server.server, client)
    first.write(b"x")
    assert other.read(1) == b"x"  # with the ticket of TLS 1.3 before it
    found = server.peer(first)
    assert found is not None and found.principal == "User:CN=alice" and 23 * 3_600_000 < found.good_for_ms < 86_400_000
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    again = server.server.wrap_bio(to_server, to_client, server_side=True)
    resumed = client.wrap_bio(to_client, to_server, server_hostname="localhost", session=other.session)
    for _ in range(4):
        for side in (resumed, again):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert resumed.session_reused

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Later":
            return super().now(tz) + datetime.timedelta(days=1)

    monkeypatch.setattr("actors.host.net.tls.datetime", SimpleNamespace(datetime=Later, UTC=datetime.UTC))
    late = server.peer(again)
    assert late is not None and late.principal == "User:CN=alice" and late.good_for_ms <= 0
    server.forget_sessions()
    fresh = client.wrap_bio(to_client := ssl.MemoryBIO(), to_server := ssl.MemoryBIO(), server_hostname="localhost",
                            session=resumed.session)  # fmt: skip
    anew = server.server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (fresh, anew):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert not fresh.session_reused, "it is asked for its certificate again, and hears from TLS what is wrong with it"


def with_old_letters(issued: Issued, by: Issued) -> bytes:
    """PEM of a key and a certificate whose owner is J?rgen, `?` being the letter of T61 that is no UTF-8: signed anew."""
    der = x509.load_pem_x509_certificate(issued.certificate)
    name = bytes([0x0C, 6]) + b"Jxrgen"
    assert der.tbs_certificate_bytes.count(name) == 1
    content = der.tbs_certificate_bytes.replace(name, bytes([0x14, 6]) + b"J\xfcrgen")
    signed_by = load_pem_private_key(by.key, None)
    assert isinstance(signed_by, ec.EllipticCurvePrivateKey) and der.signature_hash_algorithm is not None
    signature = signed_by.sign(content, ec.ECDSA(der.signature_hash_algorithm))
    whole = der.public_bytes(Encoding.DER)
    kind = whole[whole.index(der.tbs_certificate_bytes) + len(der.tbs_certificate_bytes) : -len(der.signature) - 3]
    behind = content + kind + bytes([3, len(signature) + 1, 0]) + signature
    found = bytes([0x30, 0x82]) + len(behind).to_bytes(2, "big") + behind
    return issued.key + ssl.DER_cert_to_PEM_cert(found).encode()


def test_a_name_in_the_letters_of_old_authorities_is_a_principal(tmp_path: Path) -> None:
    """Java reads it; the library that reads other parts of certificates here does not."""
    write(tmp_path / "ca.pem", BY.certificate)
    write(tmp_path / "node.pem", ISSUED.pem)
    write(tmp_path / "old.pem", with_old_letters(issue(BY, "Jxrgen", NOW), BY))
    server = tls(
        keystore_location=str(tmp_path / "node.pem"), truststore_location=str(tmp_path / "ca.pem"), client_auth="required"
    )  # fmt: skip
    client = trusting(BY.certificate)
    client.load_cert_chain(tmp_path / "old.pem")
    found = server.peer(handshake(server.server, client)[0])
    assert found is not None and found.principal == "User:CN=J\xfcrgen"


def test_a_name_that_no_rule_is_for_is_nobodys(tmp_path: Path) -> None:
    """Without DEFAULT the rules say who is let in at all."""
    write(tmp_path / "ca.pem", BY.certificate)
    write(tmp_path / "node.pem", ISSUED.pem)
    for name in ("node-7", "alice"):
        write(tmp_path / f"{name}.pem", issue(BY, name, NOW).pem)

    def found(name: str, rules: str, *, logs_in: bool = False) -> str:
        server = tls(
            keystore_location=str(tmp_path / "node.pem"), truststore_location=str(tmp_path / "ca.pem"),
            client_auth="required", principal_mapping_rules=rules,
        )  # fmt: skip
        client = trusting(BY.certificate)
        client.load_cert_chain(tmp_path / f"{name}.pem")
        peer = server.peer(handshake(server.server, client)[0], logs_in=logs_in)
        assert peer is not None
        return peer.principal

    only = "RULE:^CN=node-([0-9]+)$/rayft-node-$1/"
    assert found("node-7", only) == "User:rayft-node-7"
    with pytest.raises(ValueError, match=r"no rule of ssl\.principal\.mapping\.rules is for CN=alice: add one"):
        found("alice", only)
    assert found("alice", f"{only},DEFAULT") == "User:CN=alice"
    assert found("alice", only, logs_in=True) == "User:CN=alice", "it says who it is otherwise"
    assert found("alice", "") == "User:CN=alice"


def test_which_certificates_an_authority_of_now_has_issued(tmp_path: Path) -> None:
    """By these the loop closes what is open when an authority is taken out; one that was renewed keeps its key."""
    others = [authority("old", NOW), authority("new", NOW), authority("old", NOW)]
    der = [ssl.PEM_cert_to_DER_cert(issue(by, "alice", NOW).certificate.decode()) for by in others]
    path = tmp_path / "ca.pem"
    write(tmp_path / "node.pem", ISSUED.pem)
    path.write_bytes(others[0].certificate + others[1].certificate)
    server = tls(keystore_location=str(tmp_path / "node.pem"), truststore_location=str(path), client_auth="required")
    assert server.issued([*der, b"nonsense"]) == {der[0], der[1]}, "a name is no key"
    path.write_bytes(renewed_authority(others[0], NOW + datetime.timedelta(days=1)).certificate)
    assert server.renew()
    assert server.issued(der) == {der[0]}
    path.write_bytes(others[1].certificate)
    assert server.renew()
    assert server.issued(der) == {der[1]}


def test_who_trusts_others_than_before_is_told_and_a_new_key_of_its_own_is_no_such_change(tmp_path: Path) -> None:
    old, new = authority("old authority", NOW), authority("new authority", NOW)
    for name in ("node.pem", "ca.pem"):
        write(tmp_path / name, issue(old, "node", NOW, ["localhost"]).pem if name == "node.pem" else old.certificate)
    config = node_config(
        {
            "process.roles": "broker",
            "broker.id": "1",
            "listeners": "SSL://127.0.0.1:9092",
            "security.inter.broker.protocol": "SSL",
            "controller.connect": "127.0.0.1:9093",
            "log.dirs": str(tmp_path),
            "ssl.keystore.location": str(tmp_path / "node.pem"),
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
    )
    contexts = Contexts(config, Lines())
    assert contexts.renew() == []
    write(tmp_path / "node.pem", issue(old, "node", NOW, ["localhost", "127.0.0.1"]).pem)
    assert contexts.renew() == []
    (tmp_path / "ca.pem").write_bytes(b"-----BEGIN NONSENSE-----")
    assert contexts.renew() == [], "what was read before stays"
    (tmp_path / "ca.pem").write_bytes(old.certificate + new.certificate)
    assert [one.listener for one in contexts.renew()] == ["SSL"]
    assert contexts.renew() == []
