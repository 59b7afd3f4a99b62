"""What an authority of rayft's issues, as other software reads it."""

import datetime
import ipaddress

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from actors.host.security.certificates import (
    AUTHORITY_DAYS,
    BEFORE,
    DAYS,
    Issued,
    authority,
    belong,
    is_of,
    issue,
    renewed_authority,
    said,
)

NOW = datetime.datetime(2026, 11, 29, 14, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def root() -> Issued:
    return authority("rayft of tests", NOW)


def certificate(one: Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(one.certificate)


def uses(one: Issued) -> set[x509.ObjectIdentifier]:
    return set(certificate(one).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_node_is_named_by_its_hosts_and_is_one_on_both_sides(root: Issued) -> None:
    node = issue(root, "node-1", NOW, ["localhost", "127.0.0.1", "::1", "kafka.example"], "rayft node")
    told = said(node.pem)
    assert told[:3] == ("node-1", "rayft node", ("localhost", "127.0.0.1", "::1", "kafka.example")) and not told.signs
    places = certificate(node).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert places.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]
    assert uses(node) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    user = issue(root, "alice", NOW)
    assert uses(user) == {ExtendedKeyUsageOID.CLIENT_AUTH} and said(user.pem)[:3] == ("alice", "", ())
    assert is_of(root, node.pem) and belong(node) and belong(user)


def test_no_certificate_is_good_for_longer_than_its_authority(root: Issued) -> None:
    assert said(root.certificate).signs and said(root.certificate).until == NOW + AUTHORITY_DAYS * DAY
    assert said(issue(root, "a", NOW).certificate).until == NOW + DAYS * DAY
    late = NOW + (AUTHORITY_DAYS - 10) * DAY
    found = issue(root, "a", late)
    assert said(found.certificate).until == said(root.certificate).until
    assert certificate(found).not_valid_before_utc == late - BEFORE, "clocks of others may be late"


def test_what_an_authority_has_issued_stays_good_when_it_is_renewed(root: Issued) -> None:
    node = issue(root, "a", NOW, ["h"])
    newer = renewed_authority(root, NOW + 3000 * DAY)
    assert is_of(newer, node.certificate) and belong(newer) and newer.certificate != root.certificate
    assert said(newer.certificate).until == NOW + (3000 + AUTHORITY_DAYS) * DAY and said(newer.certificate).signs
    kinds = [[one.oid for one in certificate(each).extensions] for each in (root, newer)]
    assert kinds[0] == kinds[1]


def test_another_authority_of_the_same_name_has_not_issued_it(root: Issued) -> None:
    other, node = authority("rayft of tests", NOW), issue(root, "a", NOW)
    assert not is_of(other, node.certificate) and not is_of(root, b"no certificate")
    assert not belong(Issued(other.key, root.certificate))


def test_a_key_that_is_not_ours_is_told(root: Issued) -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="not made by rayft certificate"):
        issue(Issued(key, root.certificate), "a", NOW)
    with pytest.raises(ValueError, match="PEM"):
        belong(Issued(b"", root.certificate))


def test_a_certificate_without_a_name_is_told(root: Issued) -> None:
    with pytest.raises(ValueError, match="has no common name"):
        said(issue_without_name(root))


def issue_without_name(root: Issued) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([])).public_key(key.public_key())
    )
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + DAY)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
