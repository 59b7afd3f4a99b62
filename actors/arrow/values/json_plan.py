"""A JSON Schema as a plan that compiled code reads values by (`fastpath/arrow/value_columns.pyx`).

Values are read by the wanted schema, whatever version wrote them: fields by their names, what it does not know is left out,
and what is not there is null. A value whose parts have other types than that says cannot be read.
"""

from actors.arrow.values.avro_columns import Column, Layout
from actors.arrow.values.json_schema import ANY, parsed
from fastpath.arrow.value_columns import OPS

OF = {
    "string": "json string",
    "long": "json long",
    "double": "json double",
    "boolean": "json boolean",
    "null": "json null",
}

PARTS_A_BYTE = 16
"""How many parts a byte of a value may stand for, beyond those of a plan: `{}` leaves all fields out."""


class JsonPlan:
    """How values of JSON become the columns of a schema."""

    def __init__(self, text: str, others: dict[str, str]) -> None:
        """The plan of a schema, and of those that it refers to. Raises BadSchema."""
        self.layout = Layout(parsed(text, others))
        self.nodes: list[tuple[int, int, int, int, int, int]] = []
        self.kids: list[int] = []
        self.table: list[int] = []
        self.constants = b""
        self.places = 0
        """How many places compiled code needs to note which fields of an object came."""
        self._names = bytearray()
        self._node(self.layout.root)
        self.constants = bytes(self._names)

    def _node(self, column: Column) -> int:
        """The place of the node that fills a column, with those below it."""
        place = len(self.nodes)
        self.nodes.append((0, 0, 0, 0, 0, 0))
        kind = column.type.kind
        if kind not in ("record", "array", "map"):
            op = "json any" if column.type == ANY else OF[kind]
            self.nodes[place] = (OPS[op], column.place, 0, 0, 0, 0)
            return place
        noted, at = self.places, len(self.table)
        if kind == "record":
            self.places += len(column.inner)
            names = [field.name.encode() for field in column.type.fields]
            for name in names:
                self.table += [len(self._names), len(name)]
                self._names += name
            self.table += sorted(range(len(names)), key=names.__getitem__)
        below = [self._node(one) for one in column.inner]
        first = len(self.kids)
        self.kids += below
        op = {"record": "json object", "array": "json array", "map": "json map"}[kind]
        self.nodes[place] = (OPS[op], column.place, first, len(below), noted, at)
        return place
