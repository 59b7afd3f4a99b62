"""Protobuf's language: what a registry has of a schema, and the messages in it (proto2 and proto3).

This file alone decides how much of the language is read: messages, enums, fields, oneofs, maps and imports. Options,
services, extensions and reserved numbers say nothing about how a message is read, and are passed over.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.arrow.values.budget import DEPTH_MAX, Unreadable

TOKEN = re.compile(
    r"""(?P<gap>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|(?P<word>[\w.+-]+)|"""
    r"""(?P<sign>.)""",
    re.DOTALL,
)
"""The words of the language. What is opened and not closed is one word to the end: no character is looked at twice."""
TEXT_MAX = 1 << 20
TOKENS_MAX = 200_000
NAME_MAX, NAME_PARTS_MAX = 1_000, 100
"""How many characters and parts the whole name of a type may have: each of those in a package has the name of that again."""
TOLD_MAX = 100
"""How many characters of a name are told."""
LABELS = ("optional", "required", "repeated")
WELL_KNOWN = {
    "google/protobuf/timestamp.proto": "package google.protobuf; message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/duration.proto": "package google.protobuf; message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/descriptor.proto": "package google.protobuf;",
    "google/protobuf/empty.proto": "package google.protobuf; message Empty {}",
    "google/protobuf/any.proto": "package google.protobuf; message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/field_mask.proto": "package google.protobuf; message FieldMask { repeated string paths = 1; }",
    "google/protobuf/struct.proto": "package google.protobuf; message Struct { map<string, Value> fields = 1; } "
    "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; "
    "bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } } enum NullValue { NULL_VALUE = 0; } "
    "message ListValue { repeated Value values = 1; }",
    "google/protobuf/wrappers.proto": "package google.protobuf; "
    + " ".join(
        f"message {kind.capitalize().replace('int', 'Int')}Value {{ {kind} value = 1; }}"
        for kind in ("double", "float", "int64", "uint64", "int32", "uint32", "bool", "string", "bytes")
    ),
    "confluent/meta.proto": "package confluent; message Meta { string doc = 1; map<string, string> params = 2; "
    "repeated string tags = 3; }",
    "confluent/type/decimal.proto": "package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; "
    "int32 scale = 3; }",
    "google/type/date.proto": "package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/money.proto": "package google.type; message Money { string currency_code = 1; int64 units = 2; "
    "int32 nanos = 3; }",
    "google/type/timeofday.proto": "package google.type; message TimeOfDay { int32 hours = 1; int32 minutes = 2; "
    "int32 seconds = 3; int32 nanos = 4; }",
}  # fmt: skip
"""What every compiler of the language brings along, and what Confluent's registry knows beside it without being told."""
PROTO3 = 'syntax = "proto3"; '
"""The syntax in which those are written."""


class Field(NamedTuple):
    """A field of a message."""

    name: str
    kind: str
    """The name of its type; of another message or enum the whole name."""
    is_repeated: bool = False
    key: str = ""
    """The type of the keys of a map; empty: it is none."""
    has_presence: bool = False
    """Whether a value that is not there differs from one that has the default. Of messages it always does."""
    oneof: str = ""
    """The oneof that it is in."""


class Schema(NamedTuple):
    """The messages and enums of some files, by whole name."""

    messages: dict[str, dict[int, Field]]
    enums: dict[str, dict[int, str]]
    tops: list[str]
    """The messages at the top of the file itself, in their order: a value begins with the number of its message."""
    inner: dict[str, list[str]]
    """The messages in a message, in their order."""

    def named(self, path: Iterable[int]) -> str:
        """The message at a place: the number of the one at the top, that of the one in it, and so on. Raises Unreadable."""
        found, among = "", self.tops
        for at in path:
            if not 0 <= at < len(among):
                raise Unreadable("its schema has no message with the number that it names")
            found = among[at]
            among = self.inner.get(found, [])
        return found


class _Parser:
    """The words of one file, one after the other."""

    def __init__(self, text: str, schema: Schema) -> None:
        if len(text) > TEXT_MAX:
            raise Unreadable("its Protobuf schema is too long")
        found = (one for one in TOKEN.finditer(text) if one.lastgroup != "gap")
        self._words = [one[0] for one in found]
        if len(self._words) > TOKENS_MAX:
            raise Unreadable("its Protobuf schema is too long")
        self._at = 0
        self._schema = schema
        self._package = ""
        self._is_explicit = True  # proto2, and editions
        self.imports: list[str] = []
        self.tops: list[str] = []
        self._used: list[tuple[str, int, str]] = []
        """(message, number of a field, the name of its type as it is written), to be looked up in the end."""

    def file(self) -> None:
        """Read all of it."""
        while self._at < len(self._words):
            word = self._next()
            if word == "package":
                self._package = self._next()
                self._to(";")
            elif word == "syntax":
                self._want("=")
                self._is_explicit = "proto3" not in self._next()
                self._to(";")
            elif word == "import":
                name = self._next()
                self.imports.append((self._next() if name in ("public", "weak") else name).strip("\"'"))
                self._to(";")
            elif word == "message":
                self.tops.append(self._message(self._package, 1))
            elif word == "enum":
                self._enum(self._package)
            elif word in ("service", "extend"):
                self._next()
                self._block()
            elif word != ";":
                self._to(";")

    def resolve(self) -> None:
        """Replace the names of types by whole ones. Raises Unreadable."""
        for message, number, name in self._used:
            whole = self._found(name, message)
            field = self._schema.messages[message][number]
            self._schema.messages[message][number] = field._replace(kind=whole)

    def _found(self, name: str, scope: str) -> str:
        messages, enums = self._schema.messages, self._schema.enums
        if name.startswith("."):
            return name[1:] if name[1:] in messages or name[1:] in enums else self._unknown(name)
        while True:
            whole = f"{scope}.{name}" if scope else name
            if whole in messages or whole in enums:
                return whole
            if not scope:
                return self._unknown(name)
            scope = scope.rpartition(".")[0]

    def _unknown(self, name: str) -> str:
        raise Unreadable(f"its schema knows no {name[:TOLD_MAX]}")

    # ---- parts

    def _message(self, scope: str, depth: int) -> str:
        if depth > DEPTH_MAX:
            raise Unreadable("its Protobuf schema is nested too deep")
        whole = _whole(scope, self._next())
        fields: dict[int, Field] = self._schema.messages.setdefault(whole, {})
        inner: list[str] = self._schema.inner.setdefault(whole, [])
        self._want("{")
        while (word := self._next()) != "}":
            if word == "message":
                inner.append(self._message(whole, depth + 1))
            elif word == "enum":
                self._enum(whole)
            elif word == "oneof":
                oneof = self._next()
                self._want("{")
                while (kind := self._next()) != "}":
                    self._to(";") if kind == "option" else self._field(whole, fields, kind, oneof)
            elif word == "extend":
                self._next()
                self._block()
            elif word in ("option", "reserved", "extensions"):
                self._to(";")
            elif word != ";":
                self._field(whole, fields, word)
        return whole

    def _field(self, message: str, fields: dict[int, Field], word: str, oneof: str = "") -> None:
        label = word if word in LABELS else ""
        kind = self._next() if label else word
        if kind == "group":
            raise Unreadable("its schema has groups, which are not read")
        is_map = kind == "map" and self._words[self._at : self._at + 1] == ["<"]
        key = ""
        if is_map:
            self._next()
            key = self._next()
            self._want(",")
            kind = self._next()
            self._want(">")
        name = self._next()
        self._want("=")
        try:
            number = int(self._next(), 0)
        except ValueError:
            raise Unreadable("its Protobuf schema has a field without a number") from None
        self._to(";")
        is_repeated = label == "repeated" or is_map
        has_presence = not is_repeated and (self._is_explicit or bool(label or oneof))
        fields[number] = Field(name, kind, is_repeated, key, has_presence, oneof)
        if kind not in SCALARS:
            self._used.append((message, number, kind))

    def _enum(self, scope: str) -> None:
        values = self._schema.enums.setdefault(_whole(scope, self._next()), {})
        self._want("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved"):
                self._to(";")
            elif word != ";":
                self._want("=")
                sign = self._next()
                try:
                    number = int(sign if sign not in "+-" else sign + self._next(), 0)
                except ValueError:
                    raise Unreadable("its Protobuf schema has an enum without numbers") from None
                values.setdefault(number, word)
                self._to(";")

    # ---- words

    def _next(self) -> str:
        if self._at == len(self._words):
            raise Unreadable("its Protobuf schema ends in the middle")
        self._at += 1
        return self._words[self._at - 1]

    def _want(self, word: str) -> None:
        found = self._next()
        if found != word:
            raise Unreadable(f"its Protobuf schema has {found[:20]!r} where {word!r} belongs")

    def _to(self, end: str) -> None:
        """Pass over everything up to a word, with the blocks in it."""
        while (word := self._next()) != end:
            if word == "{":
                self._at -= 1
                self._block()

    def _block(self) -> None:
        self._want("{")
        open = 1
        while open:
            word = self._next()
            open += (word == "{") - (word == "}")


def _whole(scope: str, name: str) -> str:
    """The whole name of a type. Raises Unreadable for one that is longer than anybody's."""
    if len(scope) + len(name) > NAME_MAX or scope.count(".") + name.count(".") > NAME_PARTS_MAX:
        raise Unreadable(f"its schema has a name of more than {NAME_MAX} characters or {NAME_PARTS_MAX} parts")
    return f"{scope}.{name}" if scope else name


SCALARS = frozenset({
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
})  # fmt: skip


def parsed(text: str, others: Mapping[str, str] = {}) -> Schema:
    """The schema of a file. `others`: the files that it imports, by the names under which it does. Raises Unreadable."""
    schema = Schema({}, {}, [], {})
    parsers: dict[str, _Parser] = {}
    wanted = [("", text)]
    while wanted:
        name, own = wanted.pop()
        if name in parsers:
            continue
        parsers[name] = _Parser(own, schema)
        parsers[name].file()
        for one in parsers[name].imports:
            found = others.get(one) or PROTO3 + WELL_KNOWN.get(one, "")
            if found == PROTO3:
                raise Unreadable(f"its schema imports {one[:TOLD_MAX]}, which the registry does not name")
            wanted.append((one, found))
    for parser in parsers.values():
        parser.resolve()
    schema.tops.extend(parsers[""].tops)
    return schema
