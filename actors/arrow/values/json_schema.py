"""JSON Schema as a tree of types, read from JSON that anybody may have registered.

This file alone decides which type a part of a schema has:

- `string`, `integer` (64 bits), `number` (a double), `boolean`; `object` with `properties` is a struct of them, one with a
  schema for `additionalProperties` alone is a map, `array` with a schema for `items` is a list. A list of types, `oneOf` or
  `anyOf` with null is the other one of them, and an `enum` of texts a string.
- What has no one type is a string that has the JSON as it was written: several types, `allOf`, an object without properties,
  tuples, no type at all, and a schema that comes to itself again.
- Everything may be null, and be absent: a schema says so with words that this does not look at (`required`, `if`). Nor does
  it look at what values are allowed (`minimum`, `pattern`, `format`): reading is not validating.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from actors.arrow.values.avro_schema import DEPTH_MAX, BadSchema, Field, Type

PARTS_MAX = 20_000
"""The most types and fields that a schema may have, with what it refers to."""
ANY = Type("string", logical="json")
"""The type of what is kept as the JSON that it is."""
PLAIN = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean"}
NULL = Type("null")


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
        """id() of a document -> that name."""
        self._anchors: dict[tuple[str, str], Any] = {}
        """(document, name) -> the part of it that has this name."""
        self._places: dict[tuple[str, str], tuple[Any, str, str]] = {}
        """(document, reference in it) -> the part to which it leads, its document, and its whole name."""
        self._left = PARTS_MAX
        for name in list(documents):
            self._name(documents[name], name)

    def _name(self, document: Any, name: str) -> None:
        """Find the parts of a document that have names."""
        below = [(document, name)]
        while below:
            one, inside = below.pop()
            if isinstance(one, dict):
                own, anchor = one.get("$id"), one.get("$anchor")
                if isinstance(own, str) and own.startswith("#"):  # as an anchor was called in drafts 6 and 7
                    anchor = own[1:]
                elif isinstance(own, str):
                    inside = own.rstrip("#")
                    if self._documents.setdefault(inside, one) is one:
                        self._own[id(one)] = inside
                if isinstance(anchor, str):
                    self._anchors.setdefault((inside, anchor), one)
            if isinstance(one, dict | list):
                below += [(more, inside) for more in (one.values() if isinstance(one, dict) else one)]

    def type(self, schema: Any, document: str, under_way: tuple[str, ...], depth: int) -> Type:
        """The type of a part of a document. `under_way`: the references that led to it. Raises BadSchema, and others for
        what is no schema."""
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
            return self._referred(schema["$ref"], document, under_way, depth)
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema:
                return self._one_of(schema[word], document, under_way, depth)
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
        if kind == "object":
            return self._object(schema, document, under_way, depth)
        if kind == "array" and isinstance(schema.get("items"), dict) and not schema.get("prefixItems"):
            return Type("array", inner=(_nullable(self.type(schema["items"], document, under_way, depth + 1)),))
        if kind is None or kind == "array":
            return ANY
        raise BadSchema(f"has a type {str(kind)[:50]!r}, which JSON Schema does not have")

    def _object(self, schema: dict[str, Any], document: str, under_way: tuple[str, ...], depth: int) -> Type:
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        if properties:
            for name in properties:
                name.encode()  # half of a surrogate pair is no text
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

    def _one_of(self, among: Any, document: str, under_way: tuple[str, ...], depth: int) -> Type:
        """The type of the one schema among these that is not null."""
        if not isinstance(among, list) or not among:
            raise BadSchema("is not JSON Schema: oneOf, anyOf and allOf have lists of schemas")
        if sum(not (isinstance(one, dict) and one.get("type") == "null") for one in among) > 1:
            return ANY
        kinds = [self.type(one, document, under_way, depth + 1) for one in among]
        kinds = [one for one in kinds if one.kind != "null"]
        return kinds[0] if kinds else NULL

    def _referred(self, reference: Any, document: str, under_way: tuple[str, ...], depth: int) -> Type:
        """The type to which a reference leads."""
        key = document, str(reference)
        if key not in self._places:
            self._places[key] = self._place(*key)
        found, target, full = self._places[key]
        if full in under_way:
            return ANY
        return self.type(found, target, (*under_way, full), depth + 1)

    def _place(self, document: str, reference: str) -> tuple[Any, str, str]:
        """(the part to which a reference leads, its document, its whole name)."""
        named, _, place = reference.partition("#")
        target, place = named or document, unquote(place)
        if target not in self._documents:
            raise BadSchema(f"refers to {target[:100]!r}, which it does not have")
        found = self._documents[target]
        if place and not place.startswith("/"):
            if (target, place) not in self._anchors:
                raise BadSchema(f"refers to {place[:100]!r}, which it does not have")
            found = self._anchors[target, place]
        for step in place.split("/")[1:] if place.startswith("/") else ():
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found, target, f"{target}#{place}"


def _nullable(of: Type) -> Type:
    return of if of.kind == "null" else Type("union", inner=(NULL, of))
