"""Message classes, made from the schemas on first use, and their encoding to bytes and back.

This file alone decides what a message looks like in Python: a class with `__slots__`, whose attributes are named as
Kafka's fields in snake_case. It is built by keywords with the schema's defaults, and compares by value. Nested structs
are attributes of the class under Kafka's struct name. Arrays are lists. A uuid is 16 bytes. `records` are a memoryview
of the bytes when decoded, and any buffer, or a list of buffers, when encoded. null is None.

Rules:

1. A field that the version does not have is not encoded, and has its default when decoded.
2. A tagged field at its default is not written. A tagged struct that is absent (or all at its defaults) is None, unless
   null is a value of its own there.
3. Names: `CreateTopicsRequest` is the released RPC; `v19:`, `v28:` and `extensions:` the drafts' messages and records;
   `metadata:` released metadata records; `group:`, `transaction:` and `share:` the records of those topics. AlterIsr
   (KIP-497) and the control records of logs and snapshots need no prefix.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from actors.wire import schema as notation
from actors.wire.errors import WireError
from actors.wire.schema import FOLDER, Field, Head, Schema, Struct, Versions
from fastpath.messages import decoder, encoder
from fastpath.messages import plan as plans
from fastpath.messages.layout import Layout
from fastpath.messages.layout import Message as Message

if TYPE_CHECKING:
    from actors.wire.named import message as message

FOLDERS: dict[str, tuple[str, ...]] = {
    "": ("rpc", "storage", "kip631"),
    "rpc": ("rpc",),
    "v19": ("kip631/v19", "kip631"),
    "v28": ("kip631/v28", "kip631"),
    "extensions": ("kip631/extensions",),
    "metadata": ("metadata",),
    "group": ("group",),
    "transaction": ("transaction",),
    "share": ("share",),
    "storage": ("storage",),
}
"""Where the messages of each prefix lie, in the order of search."""

Buffer = bytes | bytearray | memoryview
"""What bytes may be given as, and what they are returned as."""

Records = Any
"""What a field of type `records` is: a memoryview when decoded; any buffer, or a list of buffers, when encoded."""

M = TypeVar("M")
"""The type of a message."""

ZERO_UUID = bytes(16)
_EMPTY: dict[str, Any] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": ZERO_UUID}


class Rpc(NamedTuple):
    """A remote procedure call: its request and its response."""

    name: str
    key: int
    versions: range
    """Versions that have a schema."""
    advertised: range
    """The versions that are offered: all that have a schema, without an unstable newest one."""
    flexible_from: int | None
    """First flexible version (KIP-482)."""

    def request_header(self, version: int) -> int:
        """Version of the request's header: 2 with the flexible versions, else 1."""
        return 2 if self.flexible_from is not None and version >= self.flexible_from else 1

    def response_header(self, version: int) -> int:
        """Version of the response's header. ApiVersions is always answered with 0, since the client does not know this
        node yet."""
        return 1 if self.key != API_VERSIONS and self.request_header(version) == 2 else 0


API_VERSIONS = 18


def find(name: str) -> Path:
    """The file of a message. Raises KeyError when there is none."""
    prefix, _, plain = name.rpartition(":")
    for folder in FOLDERS.get(prefix, ()):
        path = FOLDER / folder / f"{plain}.schema"
        if path.exists():
            return path
    raise KeyError(f"no message {name!r}")


def names(prefix: str = "") -> list[str]:
    """Names of all messages under a prefix, sorted, with the prefix."""
    found = {path.stem for folder in FOLDERS[prefix] for path in (FOLDER / folder).glob("*.schema")}
    return sorted(f"{prefix}:{name}" if prefix else name for name in found)


@cache  # type: ignore[no-redef]
def message(name: str) -> type[Any]:
    """The class of a message. Raises KeyError for an unknown name."""
    path = find(name)
    return _build(notation.parse(path.read_text(), str(path)), name)


@cache
def head(name: str) -> Head:
    """Kind, number and versions of a message, without building its class."""
    with find(name).open() as lines:
        return notation.parse_head(lines.readline())


@cache
def requests(name: str) -> Rpc:
    """The row of an RPC: `requests("CreateTopics")`, `requests("v28:BrokerHeartbeat")`."""
    found = head(f"{name}Request")
    first, last = found.versions
    flexible = max(found.flexible.first, first) if found.flexible.last >= first else None
    return Rpc(name, found.number, range(first, last + 1), range(first, last + (not found.unstable)), flexible)


@cache
def rpcs(prefix: str = "") -> dict[int, Rpc]:
    """All RPCs under a prefix by API key. The drafts' prefixes (`v19`, `v28`) hold theirs only."""
    released = [name for name in names(prefix) if name.endswith("Request") and (prefix or name != "AlterIsrRequest")]
    return {row.key: row for row in (requests(name.removesuffix("Request")) for name in released)}


# ---- classes ------------------------------------------------------------------------------------------------------


def _build(described: Schema, name: str) -> type[Any]:
    """The class of a message and those of its structs."""
    made: dict[Struct, type[Any]] = {}
    root = _class(described.root, made)
    for struct, cls in made.items():
        cls.__schema__ = described
        cls.__struct__ = struct
        cls.__plans__ = {}
        cls.__module__ = __name__
        if cls is not root:
            cls.__qualname__ = f"{described.head.name}.{struct.name}"
            setattr(root, struct.name, cls)
    root.__message__ = name
    return root


def _class(struct: Struct, made: dict[Struct, type[Any]]) -> type[Any]:
    """The class of one struct, after those of the structs inside."""
    if struct in made:
        return made[struct]
    children = tuple(_class(one.struct, made).__layout__ if one.struct else None for one in struct.fields)
    attributes = tuple(one.attribute for one in struct.fields)
    cls: Any = type(struct.name, (Message,), {"__slots__": attributes})
    defaults = tuple(_default(one, child) for one, child in zip(struct.fields, children, strict=True))
    cls.__layout__ = Layout(cls, attributes, defaults, children)
    made[struct] = cls
    return cls  # type: ignore[no-any-return]


def _default(one: Field, child: Layout | None) -> Any:
    """The default of a field, in the form that `Layout` wants."""
    text = one.default
    if text == "null":
        return None
    if one.array:
        return list
    if one.type == "struct":
        return child if one.tag < 0 or one.nullable.last >= 0 else None
    if one.type == "records":
        return None if one.nullable.last >= 0 else b""
    if text is None:
        return _EMPTY.get(one.type, 0)
    if one.type == "bool":
        return text == "true"
    if one.type == "string":
        return text
    if one.type == "float64":
        return float(text)
    return int(text)


# ---- plans --------------------------------------------------------------------------------------------------------


def plan(cls: type[Any], version: int) -> plans.Plan:
    """How `cls` lies in bytes in `version`. Raises WireError for a version that the message does not have."""
    found = cls.__plans__.get(version)
    if found is not None:
        return found  # type: ignore[no-any-return]
    described: Schema = cls.__schema__
    if version not in described.head.versions:
        raise WireError(cls.__qualname__, f"has no version {version}, only {_range(described.head.versions)}", 0)
    made = cls.__plans__[version] = _compile(cls, version, version in described.head.flexible)
    return made


def _range(versions: Versions) -> str:
    return f"{versions.first} to {versions.last}"


def _compile(cls: type[Any], version: int, flexible: bool) -> plans.Plan:
    """Fields in the order of the wire, tagged ones apart; the plans of nested structs are made with it."""
    fields, tags = [], []
    for index, one in enumerate(cls.__struct__.fields):
        tagged = flexible and version in one.tagged
        if version not in one.versions and not tagged:
            continue
        forms = plans.COMPACT if flexible and not one.plain else plans.PLAIN
        element = forms[one.type] if one.array else -1
        child = None
        if one.struct is not None:
            child = plan(cls.__layout__.children[index].cls, version)
        nullable = version in one.nullable
        code = forms["array" if one.array else one.type]
        if tagged:
            tags.append((code, element, nullable, index, one.tag, child))
        else:
            fields.append((code, element, nullable, index, 0, child))
    tags.sort(key=lambda step: step[4])
    return plans.Plan(cls.__layout__, flexible, tuple(fields), tuple(tags))


# ---- bytes --------------------------------------------------------------------------------------------------------


def encode(value: Any, version: int, prefix: bytes = b"") -> bytes:
    """`prefix`, then the message in `version`. Raises WireError."""
    cls = type(value)
    return encoder.encode(cls.__plans__.get(version) or plan(cls, version), value, prefix)


def encode_parts(value: Any, version: int, prefix: bytes = b"", framed: bool = False) -> list[Buffer]:
    """`prefix`, then the message in `version`, as a list of buffers in which large `records` stand by reference.
    `framed`: with an int32 length in front. Raises WireError."""
    cls = type(value)
    return encoder.encode_parts(cls.__plans__.get(version) or plan(cls, version), value, prefix, framed)


@overload
def decode(cls: type[M], version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> tuple[M, int]: ...
@overload
def decode(cls: str, version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> tuple[Any, int]: ...
def decode(cls: type[Any] | str, version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> tuple[Any, int]:
    """(message, position behind it). `entries_max`: how many array elements and tagged fields it may have, counted
    together; -1: any number. Raises WireError."""
    if isinstance(cls, str):
        cls = message(cls)
    return decoder.decode(cls.__plans__.get(version) or plan(cls, version), data, pos, entries_max)


@overload
def decode_exact(cls: type[M], version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> M: ...
@overload
def decode_exact(cls: str, version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> Any: ...
def decode_exact(cls: type[Any] | str, version: int, data: Buffer, pos: int = 0, entries_max: int = -1) -> Any:
    """The message that fills `data` from `pos` to its end. Raises WireError when bytes are left over."""
    if isinstance(cls, str):
        cls = message(cls)
    return decode_counted(cls, version, data, pos, entries_max, True)[0]


def decode_counted(
    cls: type[Any], version: int, data: Buffer, pos: int, entries_max: int, whole: bool
) -> tuple[Any, int]:
    """The message at `pos`, and how many entries it has: elements of arrays and tagged fields. `whole`: it fills `data`.
    Raises WireError."""
    decoded, end, entries = decoder.decode_counted(
        cls.__plans__.get(version) or plan(cls, version), data, pos, entries_max
    )
    left = memoryview(data).nbytes - end if whole else 0
    if left:
        raise WireError(type(decoded).__qualname__, f"{left} bytes left over", end)
    return decoded, entries


def changed(request: M, **fields: Any) -> M:
    """A copy of a request with some fields changed."""
    names = request.__layout__.names  # type: ignore[attr-defined]
    return type(request)(**{name: getattr(request, name) for name in names} | fields)
