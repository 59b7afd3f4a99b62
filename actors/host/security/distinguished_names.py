"""The name in a certificate as Java writes it, which is what rules for principals and `super.users` are written for.

This file alone decides the text of a distinguished name: that of RFC 2253 as `X500Principal.getName()` has it. The parts
come in reverse order; nine kinds have a keyword, and any other is the number of its kind with its value's bytes in
hexadecimal. A value has a backslash before `,=+<>#;"\\` wherever they stand and before blanks at its ends. Other libraries
differ in each of these, and cannot read names that Java reads, as those of old authorities with umlauts: so the name is
taken out of the certificate here too.
"""

from collections.abc import Iterator

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
ESCAPED = ',=+<>#;"\\'
CHARSETS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x16: "ascii",
    0x14: "latin-1",
    0x1B: "ascii",
    0x1E: "utf-16-be",
    0x1C: "utf-32-be",
}
"""The encoding of each kind of text in DER, by its tag."""


CONSTRUCTED, VERSION = 0x30, 0xA0
"""The tags in DER of a list of values, and of the version number before the fields of a certificate, which those of
version 1 do not have."""
SUBJECT = 4
"""The place of its owner's name among the fields of a certificate: behind number, algorithm, issuer and validity."""


def subject(certificate: bytes) -> str:
    """The name of the owner of a certificate in DER. Raises ValueError if it is no certificate."""
    ((tag, content, _),) = _parts(certificate)
    fields = [] if tag != CONSTRUCTED else list(_parts(next(_parts(content), (0, b"", b""))[1]))
    if fields and fields[0][0] == VERSION:
        del fields[0]
    if len(fields) <= SUBJECT:
        raise ValueError("a certificate ends before the name of its owner")
    return java_name(fields[SUBJECT][2])


def java_name(der: bytes) -> str:
    """The text of a Name in DER. Raises ValueError if it is no Name."""
    ((_, names, _),) = _parts(der)
    return ",".join(reversed(["+".join(map(_one, _parts(one))) for _, one, _ in _parts(names)]))


def _one(part: tuple[int, bytes, bytes]) -> str:
    (_, oid, _), (tag, value, whole) = _parts(part[1])
    number = _oid(oid)
    keyword = KEYWORDS.get(number)
    charset = CHARSETS.get(tag)
    if keyword is None or charset is None:
        return f"{keyword or number}=#{whole.hex()}"
    text = value.decode(charset, "replace")
    return f"{keyword}={_escaped(text)}"


def _escaped(text: str) -> str:
    begin = len(text) - len(text.lstrip(" \r"))
    end = max(begin, len(text.rstrip(" \r")))
    blanks = "".join(f"\\{one}" for one in text[:begin]), "".join(f"\\{one}" for one in text[end:])
    inner = "".join(f"\\{one}" if one in ESCAPED else "\\00" if one == "\0" else one for one in text[begin:end])
    return f"{blanks[0]}{inner}{blanks[1]}"


def _parts(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, the whole) of each value in DER that stands behind another one."""
    at = 0
    while at < len(data):
        if len(data) - at < 2:
            raise ValueError("a value in DER ends too early")
        tag, length, begin = data[at], data[at + 1], at + 2
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) - begin < count:
                raise ValueError("a length in DER that means nothing")
            length, begin = int.from_bytes(data[begin : begin + count], "big"), begin + count
        if length > len(data) - begin:
            raise ValueError("a value in DER ends too early")
        yield tag, data[begin : begin + length], data[at : begin + length]
        at = begin + length


def _oid(data: bytes) -> str:
    numbers, number = list[int](), 0
    for one in data:
        number = number << 7 | one & 0x7F
        if one < 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("the kind of a name's part is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
