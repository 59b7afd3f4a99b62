"""JSON Schema as a tree of types, read from JSON that anybody may have registered.

This file alone decides which type a part of a schema has:

- `string`, `integer` (64 bits), `number` (a double), `boolean`; `object` with `properties` is a struct of them, one with a
  schema for `additionalProperties` alone is a map, `array` with a schema for `items` is a list. A list of types, `oneOf` or
  `anyOf` with null is the other one of them, and an `enum` of texts a string.
- What has no one type is a string that has the JSON as it was written: several types, `allOf`, an object without properties,
  tuples, no type at all, a schema that comes to itself again, and one that has properties beside a reference or another
  schema: a struct of either would leave out what the other has.
- Everything may be null, and be absent: a schema says so with words that this does not look at (`required`, `if`). Nor does
  it look at what values are allowed (`minimum`, `pattern`, `format`): reading is not validating.
- `$id` and `$anchor` name a part where JSON Schema has schemas, and nowhere else: values that stand in a schema
  (`examples`, `enum`, `default`) may have such words. Of several parts that give themselves one name, others find the first,
  and each finds itself by `#`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from actors.arrow.values.avro_schema import DEPTH_MAX, BadSchema, Field, Type

PARTS_MAX = 20_000
"""The most types and fields that a schema may have, with what it refers to."""
ANY = Type("string", logical="json")
"""The type of what is kept as the JSON that it is."""
PLAIN = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean"}
NULL = Type("null")
HOLD_ONE = frozenset(
    ("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items", "not",
     "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
)  # fmt: skip
"""The words of a schema behind which another one stands, or a list of them (drafts 4 to 2020-12)."""
HOLD_NAMED = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))
"""The words behind which others stand by their names."""
AMONG = ("oneOf", "anyOf", "allOf")
"""The words behind which a list of schemas stands."""


def parsed(text: str, others: Mapping[str, str]) -> Type:
    """The type that a schema says. `others`: schemas to which it refers, by the names that it has for them. Raises
    BadSchema."""
    try:
        documents = {"": json.loads(text), **{name: json.loads(one) for name, one in others.items()}}
        return _Schemas(documents).type(documents[""], "", (), 0)
    except BadSchema:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadSchema(f"is not JSON Schema ({type(error).__name__}: {error})"[:200]) from None


class _Schemas:
    """The documents of a schema."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents
        """The documents, and those that stand in others, by the names that they give themselves."""
        self._own: dict[int, str] = {}
        """id() of a document that stands in another -> its name here."""
        self._anchors: dict[tuple[str, str], Any] = {}
        """(document, name) -> the part of it that has this name."""
        self._places: dict[tuple[str, str], tuple[Any, str]] = {}
        """(document, reference in it) -> the part to which it leads, and its document."""
        self._kinds: dict[int, Any] = {}
        """id() of a part -> what `_kind` says of it: a part may be come to as often as there are references, and have a
        list of a million values."""
        self._left = PARTS_MAX
        for name in list(documents):
            self._name(documents[name], name)

    def _name(self, document: Any, name: str) -> None:
        """Find the parts of a document that have names."""
        below = [(document, name)]
        while below:
            one, inside = below.pop()
            if not isinstance(one, dict):
                continue
            own, anchor = one.get("$id"), one.get("$anchor")
            if isinstance(own, str) and own.startswith("#"):  # as an anchor was called in drafts 6 and 7
                anchor = own[1:]
            elif isinstance(own, str):
                inside = own.rstrip("#")
                if self._documents.setdefault(inside, one) is not one:
                    inside = f"{inside}#{id(one)}"  # no reference has such a name: what stands behind # is a place
                    self._documents[inside] = one
                self._own[id(one)] = inside
            if isinstance(anchor, str):
                self._anchors.setdefault((inside, anchor), one)
            below += reversed([(more, inside) for more in _held(one)])

    def type(self, schema: Any, document: str, under_way: tuple[int, ...], depth: int) -> Type:
        """The type of a part of a document. `under_way`: id() of the parts whose references led to it. Raises BadSchema, and
        others for what is no schema."""
        self._left -= 1
        if self._left < 0:
            raise BadSchema(f"has more than {PARTS_MAX} parts")
        if depth > DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        if isinstance(schema, bool):
            return ANY
        if not isinstance(schema, dict):
            raise BadSchema(f"is not JSON Schema: {str(schema)[:50]!r} stands where a schema is to be")
        document = self._own.get(id(schema), document)
        if "$ref" in schema:
            if not isinstance(schema["$ref"], str):
                raise BadSchema(f"is not JSON Schema: a $ref is a text, not {str(schema['$ref'])[:50]}")
            found = self._referred(schema["$ref"], document, under_way, depth)
            return ANY if schema.get("properties") else found
        if id(schema) not in self._kinds:
            self._kinds[id(schema)] = _kind(schema)
        kind = self._kinds[id(schema)]
        if isinstance(kind, Type):
            return kind
        if kind == "object":
            return self._object(schema, document, under_way, depth)
        if kind == "array":
            return Type("array", inner=(_nullable(self.type(schema["items"], document, under_way, depth + 1)),))
        return self.type(kind, document, under_way, depth + 1)

    def _object(self, schema: dict[str, Any], document: str, under_way: tuple[int, ...], depth: int) -> Type:
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        if properties:
            return Type(
                "record",
                fields=tuple(
                    Field(name, _nullable(self.type(one, document, under_way, depth + 1)), (), False, None)
                    for name, one in properties.items()
                ),
            )
        if isinstance(more, dict) and more and not schema.get("patternProperties"):
            return Type("map", inner=(_nullable(self.type(more, document, under_way, depth + 1)),))
        return ANY

    def _referred(self, reference: str, document: str, under_way: tuple[int, ...], depth: int) -> Type:
        """The type to which a reference leads."""
        key = document, reference
        if key not in self._places:
            self._places[key] = self._place(*key)
        found, target = self._places[key]
        if id(found) in under_way:
            return ANY
        return self.type(found, target, (*under_way, id(found)), depth + 1)

    def _place(self, document: str, reference: str) -> tuple[Any, str]:
        """(the part to which a reference leads, its document)."""
        named, _, place = reference.partition("#")
        target, place = named or document, unquote(place)
        if target not in self._documents:
            raise BadSchema(f"refers to {target[:100]!r}, which it does not have")
        found = self._documents[target]
        target = self._own.get(id(found), target)  # the registry may have another name for it
        if place and not place.startswith("/"):
            if (target, place) not in self._anchors:
                raise BadSchema(f"refers to {place[:100]!r}, which it does not have")
            found = self._anchors[target, place]
        for step in place.split("/")[1:] if place.startswith("/") else ():
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
            target = self._own.get(id(found), target)
        return found, target


def _held(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas that stand in one."""
    for word, found in schema.items():
        if word in HOLD_NAMED and isinstance(found, dict):
            yield from found.values()
        elif word in HOLD_ONE or word in HOLD_NAMED:
            yield from found if isinstance(found, list) else (found,)


def _kind(schema: dict[str, Any]) -> Any:
    """What a schema without a reference is: a type without parts, the one schema among others that it is, `object` or
    `array`. Raises BadSchema."""
    among = [_one_of(schema[word]) for word in AMONG if word in schema]
    if among:
        return among[0] if len(among) == 1 and not schema.get("properties") else ANY
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        if len(kinds) != 1:
            return ANY if kinds else NULL
        kind = kinds[0]
    if kind is None and "properties" in schema:
        kind = "object"
    if kind is None and all(isinstance(one, str) for one in schema.get("enum", [schema.get("const")])):
        kind = "string"
    if kind in PLAIN:
        return Type(PLAIN[kind])
    if kind == "null":
        return NULL
    if kind == "array":
        return kind if isinstance(schema.get("items"), dict) and not schema.get("prefixItems") else ANY
    if kind is None:
        return ANY
    if kind != "object":
        raise BadSchema(f"has a type {str(kind)[:50]!r}, which JSON Schema does not have")
    for name in schema.get("properties") or ():
        name.encode()  # half of a surrogate pair is no text
    return kind


def _one_of(among: Any) -> Any:
    """The one schema among these that is not null, or the type that stands for them."""
    if not isinstance(among, list) or not among:
        raise BadSchema("is not JSON Schema: oneOf, anyOf and allOf have lists of schemas")
    others = [one for one in among if not (isinstance(one, dict) and one.get("type") == "null")]
    if len(others) != 1:
        return ANY if others else NULL
    if not isinstance(others[0], dict | bool):
        raise BadSchema("is not JSON Schema: oneOf, anyOf and allOf have lists of schemas")
    return others[0]


def _nullable(of: Type) -> Type:
    return of if of.kind == "null" else Type("union", inner=(NULL, of))
