"""Schemas as data: the files of `schemas/`, read and parsed.

This file alone decides the notation. One file a message:

    request 19 CreateTopicsRequest 2-7 flexible 5+
      Topics []CreatableTopic 2+
        Name string 2+ key
      TimeoutMs int32 2+ = 60000

First line: kind (request, response, record, key, value, data, header), number (API key, record type or `-`), name,
versions, and optionally `flexible VERSIONS` (KIP-482) and `unstable` (the newest version is not offered). Then a field
a line: name, type, versions, and optionally `key` (unique within its array), `null VERSIONS`, `tag NUMBER VERSIONS`,
`plain` (never in the compact form) and, last, `= DEFAULT`. Indented below a field of struct type stand the struct's own
fields; a struct that is used twice is written once, under `struct NAME VERSIONS`. Versions: `3`, `2-7` or `5+`.

Types: bool, int8, int16, uint16, int32, uint32, int64, float64, string, bytes, records, uuid, a struct, `[]` of one.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "schemas"
NEWEST = 32767
"""Stands for the open end of a range of versions such as `5+`."""

SCALARS = frozenset(
    "bool int8 int16 uint16 int32 uint32 int64 float64 string bytes records uuid".split()  # noqa: SIM905
)
_WORD_ENDS = (re.compile(r"([A-Z]+)([A-Z][a-z])"), re.compile(r"([a-z0-9])([A-Z])"))


class Versions(NamedTuple):
    """Versions `first` to `last`, both included; `last < first` means none."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NONE = Versions(0, -1)


@dataclass(eq=False)
class Struct:
    """A group of fields under a name."""

    name: str
    fields: list["Field"] = field(default_factory=list)


@dataclass(eq=False)
class Field:
    """A field of a message. `type` is the name of a scalar type or "struct". `array`: the field is a list of that type."""

    name: str
    attribute: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions = NONE
    tag: int = -1
    tagged: Versions = NONE
    key: bool = False
    plain: bool = False
    default: str | None = None
    struct: Struct | None = None


class Head(NamedTuple):
    """The first line of a schema file. `number` is -1 where the file has `-`."""

    kind: str
    number: int
    name: str
    versions: Versions
    flexible: Versions
    unstable: bool


@dataclass(eq=False)
class Schema:
    """A message as its schema file describes it."""

    head: Head
    root: Struct
    structs: dict[str, Struct]
    """The structs of the message by name, except the root."""


class SchemaError(ValueError):
    """A schema file does not follow the notation. The message names the file and the line."""


def snake_case(name: str) -> str:
    """`TopicData` -> `topic_data`, `ISRNodes` -> `isr_nodes`."""
    for ends in _WORD_ENDS:
        name = ends.sub(r"\1_\2", name)
    return name.lower()


def parse_versions(text: str) -> Versions:
    """The range that a text such as `3`, `2-7` or `5+` means."""
    if text.endswith("+"):
        return Versions(int(text[:-1]), NEWEST)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def parse_head(line: str) -> Head:
    """The first line of a file."""
    kind, number, name, versions, *rest = line.split()
    flexible = parse_versions(rest[rest.index("flexible") + 1]) if "flexible" in rest else NONE
    return Head(
        kind, -1 if number == "-" else int(number), name, parse_versions(versions), flexible, "unstable" in rest
    )


def parse_field(text: str) -> Field:
    """One field line, without its indentation."""
    text, _, default = text.partition(" = ")
    name, kind, versions, *flags = text.split()
    array = kind.startswith("[]")
    made = Field(name, snake_case(name), kind.removeprefix("[]"), array, parse_versions(versions))
    made.default = default.strip() or None
    words = iter(flags)
    for word in words:
        if word == "key":
            made.key = True
        elif word == "plain":
            made.plain = True
        elif word == "null":
            made.nullable = parse_versions(next(words))
        elif word == "tag":
            made.tag = int(next(words))
            made.tagged = parse_versions(next(words))
        else:
            raise ValueError(f"unknown flag {word}")
    return made


def parse(text: str, source: str = "schema") -> Schema:
    """The message that `text` describes. Raises SchemaError."""
    lines = text.split("\n")
    number = 1
    try:
        head = parse_head(lines[0])
        root = Struct(head.name)
        structs: dict[str, Struct] = {}
        open_structs = [root]  # by depth: where the next field of that depth goes
        for number, line in enumerate(lines[1:], 2):  # noqa: B007
            depth = (len(line) - len(line.lstrip(" "))) // 2
            if not line.strip():
                continue
            if not 1 <= depth <= len(open_structs):
                raise ValueError("indentation does not follow from the line before")
            del open_structs[depth:]
            open_structs.append(_add(line.strip(), open_structs[depth - 1], structs))
        _resolve(root, structs)
        return Schema(head, root, structs)
    except (ValueError, StopIteration, IndexError) as error:
        raise SchemaError(f"{source}, line {number}: {error}") from error


def _add(text: str, parent: Struct, structs: dict[str, Struct]) -> Struct:
    """Add one line to its struct. Returns the struct to which deeper lines belong."""
    if text.startswith("struct "):
        name = text.split()[1]
        return structs.setdefault(name, Struct(name))
    made = parse_field(text)
    parent.fields.append(made)
    if made.type in SCALARS:
        return Struct("")
    return structs.setdefault(made.type, Struct(made.type))


def _resolve(root: Struct, structs: dict[str, Struct]) -> None:
    """Link fields of struct type with their structs. Raises ValueError when a struct has a field twice or contains
    itself."""
    for struct in (root, *structs.values()):
        names = [one.name for one in struct.fields]
        if len(set(names)) != len(names):
            raise ValueError(f"{struct.name} has a field twice")
        for one in struct.fields:
            if one.type not in SCALARS:
                one.struct = structs[one.type]
                one.type = "struct"
    _check_depth(root, ())


def _check_depth(struct: Struct, above: tuple[Struct, ...]) -> None:
    if struct in above:
        raise ValueError(f"{struct.name} contains itself")
    for one in struct.fields:
        if one.struct is not None:
            _check_depth(one.struct, (*above, struct))
