"""Avro's schemas as trees of types (Avro 1.12), read from JSON that anybody may have registered.

This file alone decides which schemas are taken. One that refers to itself is refused, since an Arrow column has a shape that
ends; so is one that is nested deeper than DEPTH_MAX. A logical type that Avro does not define for its kind, or whose
numbers make no sense, counts as not there, as the specification has it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DEPTH_MAX = 48
PARTS_MAX = 20_000
"""The most types and fields that a schema may spell out."""
PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = frozenset(
    {
        ("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis"),
        ("long", "timestamp-micros"), ("long", "timestamp-nanos"), ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"), ("long", "local-timestamp-nanos"), ("bytes", "decimal"), ("fixed", "decimal"),
    }
)  # fmt: skip
"""(kind, logical type) of those that become another Arrow type."""
PRECISION_MAX = 76
"""The most digits of a decimal in Arrow."""


class BadSchema(ValueError):
    """A schema that is none, or that cannot be used. The text is one sentence without its subject; of the names in it, which
    are anybody's, no terminal obeys a character."""

    def __init__(self, text: str) -> None:
        super().__init__(text if text.isprintable() else ascii(text)[1:-1])


class Field(NamedTuple):
    """A field of a record."""

    name: str
    type: "Type"
    aliases: tuple[str, ...]
    has_default: bool
    default: Any


class Type(NamedTuple):
    """A type of a schema. What does not belong to its kind is empty."""

    kind: str
    """One of PRIMITIVE, or fixed, enum, array, map, record, union."""
    name: str = ""
    """With its namespace."""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    """Bytes of a fixed."""
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """The symbol for those of a writer that this enum does not have."""
    fields: tuple[Field, ...] = ()
    inner: "tuple[Type, ...]" = ()
    """What an array or a map holds, or the branches of a union."""


def parsed(text: str, others: Iterable[str] = ()) -> Type:
    """The type that a schema says. `others`: schemas to which it refers by name, in order. Raises BadSchema."""
    schemas = _Schemas()
    try:
        for one in others:
            schemas.type(json.loads(one), "", 0)
        return schemas.type(json.loads(text), "", 0)
    except BadSchema:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise BadSchema(f"is not Avro's ({type(error).__name__}: {error})"[:200]) from None


class _Schemas:
    """The named types so far."""

    def __init__(self) -> None:
        self._named: dict[str, Type | None] = {}
        """A name that has None is being read."""
        self._left = PARTS_MAX

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadSchema(f"has more than {PARTS_MAX} parts")

    def type(self, schema: Any, space: str, depth: int) -> Type:
        """The type of a schema; `space`: the namespace around it. Raises BadSchema, and others for what is no schema."""
        self._spend()
        if depth > DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        if isinstance(schema, list):
            return Type("union", inner=tuple(self.type(one, space, depth + 1) for one in schema))
        if isinstance(schema, str):
            return Type(schema) if schema in PRIMITIVE else self._known(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, space, depth + 1)
        if kind == "array":
            return Type(kind, inner=(self.type(schema["items"], space, depth + 1),))
        if kind == "map":
            return Type(kind, inner=(self.type(schema["values"], space, depth + 1),))
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_name(kind, schema, space, depth)
        if kind in PRIMITIVE:
            return _logical(Type(kind), schema)
        return self._known(kind, space)

    def _known(self, name: str, space: str) -> Type:
        full = _full(name, space)
        full = full if full in self._named else name
        if full not in self._named:
            raise BadSchema(f"has no type {name[:100]!r}")
        found = self._named[full]
        if found is None:
            raise BadSchema(f"refers to itself ({name[:100]}), and an Arrow column cannot")
        return found

    def _of_name(self, kind: str, schema: Mapping[str, Any], space: str, depth: int) -> Type:
        name = _text(schema["name"])
        space = name.rpartition(".")[0] if "." in name else _text(schema.get("namespace") or space)
        full = _full(name, space)
        if full in self._named:
            raise BadSchema(f"has two types {full[:100]!r}")
        aliases = tuple(_full(_text(one), space) for one in schema.get("aliases") or ())
        self._named[full] = None
        if kind == "fixed":
            size = schema["size"]
            if type(size) is not int or not 0 <= size < 1 << 31:
                raise BadSchema(f"has a fixed of {str(size)[:20]} bytes")
            found = _logical(Type(kind, full, aliases, size=size), schema)
        elif kind == "enum":
            symbols = tuple(_text(one) for one in schema["symbols"])
            if not symbols or len(set(symbols)) < len(symbols):
                raise BadSchema(f"has an enum {full[:100]!r} without symbols, or with one of them twice")
            default = schema.get("default")
            found = Type(kind, full, aliases, symbols=symbols, default=default if default in symbols else None)
        else:
            fields = tuple(self._field(one, space, depth) for one in schema["fields"])
            if len({one.name for one in fields}) < len(fields):
                raise BadSchema(f"has two fields of one name in {full[:100]!r}")
            found = Type("record", full, aliases, fields=fields)
        self._named[full] = found
        return found

    def _field(self, field: Mapping[str, Any], space: str, depth: int) -> Field:
        self._spend()
        aliases = tuple(_text(one) for one in field.get("aliases") or ())
        made = self.type(field["type"], space, depth + 1)
        return Field(_text(field["name"]), made, aliases, "default" in field, field.get("default"))


def _text(one: Any) -> str:
    if not isinstance(one, str):
        raise BadSchema(f"has a {type(one).__name__} where a name should be")
    one.encode()  # half of a surrogate pair is no text
    return one


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _logical(found: Type, schema: Mapping[str, Any]) -> Type:
    """A type with its logical type, if that counts."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or (found.kind, logical) not in LOGICAL:
        return found
    if logical != "decimal":
        return found._replace(logical=logical)
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= PRECISION_MAX:
        return found
    if precision == 0 or (
        found.kind == "fixed" and (found.size == 0 or 10**precision > 1 << 8 * min(found.size, 64) - 1)
    ):
        return found
    return found._replace(logical=logical, precision=precision, scale=scale)
