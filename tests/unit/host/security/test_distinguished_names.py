"""Names in certificates are those of Java: these were written by `X500Principal.getName()` of Java 17 and 25."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from actors.host.security.certificates import authority, issue
from actors.host.security.distinguished_names import java_name, subject
from actors.settings.keys import ConfigError
from actors.settings.tls import mapping_rules


@pytest.mark.parametrize(
    ("der", "name"),
    [
        ('3010310e300c06035504030c05616c696365',
         'CN=alice'),
        ('303f310b3009060355040613024445311b3019060355040a0c12612c202262222b633b643c653e5c66233d673113301106035504030c0a2023616c206963652020',
         'CN=\\ \\#al ice\\ \\ ,O=a\\, \\"b\\"\\+c\\;d\\<e\\>\\\\f\\#\\=g,C=DE'),
        ('3026310e300c06035504030c05616c6963653114301206092a864886f70d01090116056140622e63',
         '1.2.840.113549.1.9.1=#16056140622e63,CN=alice'),
        ('3072310a300806035504051301373111300f060a0992268993f22c6401010c017531123010060a0992268993f22c64011916026463310a3008060355040c0c0174310b300906035504090c027374310b300906035504080c026279310a300806035504070c016d310b3009060355040b0c026f75',
         'OU=ou,L=m,ST=by,STREET=st,2.5.4.12=#0c0174,DC=dc,UID=u,2.5.4.5=#130137'),
        ('30223114300806035504030c01613008060355040b0c0162310a3008060355040a0c0163',
         'O=c,CN=a+OU=b'),
        ('301e311c301a06035504030c134ac3bc7267656e20e697a5e69cac20f09f9880',
         'CN=Jürgen 日本 😀'),
        ('303a310c300a06035504030c03237823310a3008060355042a0c0167310a300806035504040c01733112301006092b06010401868d1f010c036f776e',
         '1.3.6.1.4.1.99999.1=#0c036f776e,2.5.4.4=#0c0173,2.5.4.42=#0c0167,CN=\\#x\\#'),
        ('300e310c300a06035504030c03202020',
         'CN=\\ \\ \\ '),
    ],
)  # fmt: skip
def test_a_name_is_as_java_writes_it(der: str, name: str) -> None:
    assert java_name(bytes.fromhex(der)) == name


@pytest.mark.parametrize(
    "der", ["", "30", "3005", "300531", "30063104300206", "3007310530030601", "308000", "30083106300406003000"]
)
def test_what_is_no_name_is_refused(der: str) -> None:
    with pytest.raises(ValueError):
        java_name(bytes.fromhex(der))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RULE:^CN=(.*)$/$2/,DEFAULT", r"\$2, and its pattern has 1 group"),
        ("RULE:^CN=.*$/$1/", r"\$1, and its pattern has no group"),
        ("RULE:^CN=(a)(b)$/$1-$12/L", r"\$12, and its pattern has 2 groups"),
    ],
)
def test_a_rule_whose_replacement_means_nothing_is_refused_at_the_start(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        mapping_rules(text)


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("RULE:^CN=(.*?),OU=(.*?)$/$2-$1/,DEFAULT", "CN=a,OU=b", "b-a"),
        ("RULE:^CN=([^,]+)$/$0/", "CN=a", "CN=a"),
        ("RULE:^CN=(x)?(.*)$/$1$2/U", "CN=y", "Y"),
        ("RULE:^CN=(.*)$/cost $/", "CN=y", "cost $"),
    ],
)
def test_a_rule_that_means_something_is_taken(text: str, name: str, found: str) -> None:
    assert mapping_rules(text)[0].applied(name) == found


def test_the_owner_of_a_certificate_is_read_out_of_it() -> None:
    now = datetime.datetime.now(datetime.UTC)
    found = x509.load_pem_x509_certificate(issue(authority("ca", now), "alice", now).certificate)
    whole = found.public_bytes(Encoding.DER)
    assert subject(whole) == java_name(found.subject.public_bytes()) == "CN=alice"
    for end in (0, 1, 3, 4, 10, 60, 100, len(whole) - 1):
        with pytest.raises(ValueError):
            subject(whole[:end])


@pytest.mark.parametrize("der", ["0500", "3000", "30023000", "3004300205003000", "30073005a003020102"])
def test_what_is_no_certificate_names_nobody(der: str) -> None:
    with pytest.raises(ValueError):
        subject(bytes.fromhex(der))
