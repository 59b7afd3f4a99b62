"""Plays stories as tests: commands, and exactly the output that they give.

A story is a text file. It opens with `#` lines that say what happens and why. Then come blocks, with an empty line
between them: one or more commands, `----`, the output. `pytest --rewrite` writes the present output into the files;
commit only what you understand.

    # A broker registers.
    heartbeat 1
    ----
    ACTIVE epoch=1

A command is a word, followed by plain words and `name=value` fields. Each kind of story has a table of functions for
its commands.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

Command = Callable[..., str]
"""(*words, **fields) -> output"""


def stories(folder: str) -> list[Path]:
    """The stories in a folder beside this file."""
    return sorted((Path(__file__).parent / folder).glob("*.txt"))


def play(story: Path, commands: Mapping[str, Command], rewrite: bool) -> None:
    """Run the commands of a story. Fails at the first block whose output differs, unless `rewrite`."""
    text = story.read_text()
    told = "\n\n".join(_block(block, commands, story.name, rewrite) for block in text.rstrip("\n").split("\n\n")) + "\n"
    if rewrite and told != text:
        story.write_text(told)


def _block(block: str, commands: Mapping[str, Command], name: str, rewrite: bool) -> str:
    lines = block.split("\n")
    if all(line.startswith("#") or not line for line in lines):
        return block
    assert "----" in lines, f"{name}: a block without ----:\n{block}"
    cut = lines.index("----")
    output: list[str] = []
    for line in lines[:cut]:
        if not line.startswith("#"):
            output += [row for row in _run(line, commands, name).split("\n") if row]
    if not rewrite:
        assert output == lines[cut + 1 :], f"{name}:\n{block}\n---- is now\n" + "\n".join(output)
    return "\n".join([*lines[: cut + 1], *output])


def _run(line: str, commands: Mapping[str, Command], name: str) -> str:
    word, *rest = line.split()
    assert word in commands, f"{name}: no command {word}, only {', '.join(sorted(commands))}"
    words = [part for part in rest if "=" not in part]
    fields = dict(part.split("=", 1) for part in rest if "=" in part)
    return commands[word](*words, **fields)
