"""Stubs of the message classes, for type checkers and editors: `python -m actors.wire.stubs` (`make schemas`).

This file alone decides what a type checker knows of a message. Beside each `X.schema` lies `X.pyi`, with the class, its
fields and its structs; the `__init__.pyi` of a folder names them all; `named.pyi` says which class `message("X")` is.
No node reads them: at run time a class is made from its schema on first use (`messages.py`). They are kept in the
repository, so that a change of a schema shows what it changes for the code; a test holds them equal to the schemas.

How a field is typed:

1. int, float, bool, str and bytes as they are decoded; a uuid is bytes. Bytes may be built from any buffer.
2. `records` are `Records`: a memoryview when decoded, any buffer or a list of buffers when encoded.
3. `| None` where null is a value in any version, where the default is null, and where a tagged struct may be absent.
4. Arrays are lists.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from actors.wire import schema as notation
from actors.wire.messages import FOLDERS, find, names
from actors.wire.schema import FOLDER, Field, Schema, Struct

NAMED = FOLDER.parent / "named.pyi"
PACKAGE = "actors.wire.schemas"
WIDTH = 120
_SCALARS = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "Records",
}
_MADE = '# Made from the schemas by "make schemas".'


def stubs() -> dict[Path, str]:
    """File -> its text, for every stub there should be."""
    made = {path.with_suffix(".pyi"): _module(path) for path in sorted(FOLDER.rglob("*.schema"))}
    folders = {above for path in made for above in path.parents if above == FOLDER or FOLDER in above.parents}
    for folder in folders:
        here = sorted(path.stem for path in made if path.parent == folder)
        lines = [f"from {_package(folder)}.{name} import {name} as {name}" for name in here]
        made[folder / "__init__.pyi"] = "\n".join([_MADE, *lines]) + "\n"
    made[NAMED] = _named()
    return made


def _package(folder: Path) -> str:
    return ".".join((PACKAGE, *folder.relative_to(FOLDER).parts))


def _named() -> str:
    """The overloads of `message`, one a name."""
    imports, overloads = set(), []
    for name in sorted({name for prefix in FOLDERS for name in names(prefix)}):
        path = find(name)
        known = "_".join((*path.parent.relative_to(FOLDER).parts, path.stem))
        imports.add(f"from {_package(path.parent)} import {path.stem} as {known}")
        overloads.append(_call("def message", [f'name: Literal["{name}"]'], f"type[{known}]", "@overload\n"))
    overloads.append("@overload\ndef message(name: str) -> type[Any]: ...")
    head = f"{_MADE}\nfrom typing import Any, Literal, overload\n"
    return "\n".join([head, *sorted(imports), "", *overloads]) + "\n"


def _module(path: Path) -> str:
    """The stub of one schema."""
    described = notation.parse(path.read_text(), str(path))
    text = "\n".join(_class(described, described.root, "")) + "\n"
    buffers = [word for word in ("Buffer", "Records") if word in text.replace("[", " ").replace("]", " ").split()]
    first, last = described.head.versions
    lines = [f"# Versions {first} to {last}. {_MADE.removeprefix('# ')}"]
    lines += [f"from actors.wire.messages import {', '.join(buffers)}"] if buffers else []
    return "\n".join([*lines, "from fastpath.messages.layout import Message", "", text])


def _class(described: Schema, struct: Struct, pad: str) -> Iterator[str]:
    """The lines of one class; those of a message's structs stand inside it."""
    root = described.root.name
    yield f"{pad}class {struct.name}(Message):"
    deeper = pad + "    "
    if struct is described.root:
        for child in described.structs.values():
            yield from _class(described, child, deeper)
            yield ""
    for one in struct.fields:
        yield f"{deeper}{one.attribute}: {_type(one, root)}"
    given = [f"{one.attribute}: {_type(one, root).replace('bytes', 'Buffer')} = ..." for one in struct.fields]
    yield _call(f"{deeper}def __init__", ["self", *(["*", *given] if given else [])], "None")


def _call(start: str, parameters: list[str], result: str, before: str = "") -> str:
    """A function's line, or one line a parameter where that is too long."""
    line = f"{start}({', '.join(parameters)}) -> {result}: ..."
    if len(line) <= WIDTH:
        return before + line
    pad = start[: len(start) - len(start.lstrip())]
    rows = "".join(f"\n{pad}    {one}," for one in parameters)
    return f"{before}{start}({rows}\n{pad}) -> {result}: ..."


def _type(one: Field, root: str) -> str:
    """What a type checker knows of a field."""
    kind = f"{root}.{one.struct.name}" if one.struct is not None else _SCALARS.get(one.type, "int")
    absent = one.struct is not None and not one.array and one.tag >= 0
    if one.array:
        kind = f"list[{kind}]"
    if one.type == "records" or not (one.nullable.last >= 0 or one.default == "null" or absent):
        return kind
    return f"{kind} | None"


def main() -> int:
    """Write what differs, and take away the stub of a schema that is gone."""
    wanted = stubs()
    for path in sorted({*FOLDER.rglob("*.pyi"), *wanted}):
        if path not in wanted:
            path.unlink()
        elif not path.exists() or path.read_text() != wanted[path]:
            path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
