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
        for one in list(documents.values()):
            if isinstance(one, dict) and isinstance(one.get("$id"), str):
                documents.setdefault(one["$id"].rstrip("#"), one)
        return _Schemas(documents).type(documents[""], "", (), 0)
    except BadSchema:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadSchema(f"is not JSON Schema ({type(error).__name__}: {error})"[:200]) from None


class _Schemas:
    """The documents of a schema."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._left = PARTS_MAX

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
        named, _, place = str(reference).partition("#")
        target = named or document
        full = f"{target}#{place}"
        if full in under_way:
            return ANY
        if target not in self._documents:
            raise BadSchema(f"refers to {target[:100]!r}, which it does not have")
        found = self._documents[target]
        for step in unquote(place).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
        return self.type(found, target, (*under_way, full), depth + 1)


def _nullable(of: Type) -> Type:
    return of if of.kind == "null" else Type("union", inner=(NULL, of))
