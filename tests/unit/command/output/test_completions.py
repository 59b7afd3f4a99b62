"""What the Tab key of a shell offers: the real shells read the text, as far as they are here."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("shtab", reason="shtab is not installed")

from actors.command import cli
from actors.command.output import completions

WORDS = [
    ("rayft to", {"top", "topic"}),
    ("rayft topic ", {"list", "describe", "create", "delete", "config", "partitions"}),
    ("rayft topic partitions ", {"grow", "elect", "move", "moves", "cancel"}),
    ("rayft topic list -o ", {"table", "json", "jsonl", "arrow"}),
    ("rayft topic list --prof", {"--profile"}),
    ("rayft acl add --operation des", {"describe", "describe_configs", "describe_tokens"}),
    ("rayft completion ", {"bash", "zsh", "fish"}),
]
BASH = """
source {file}
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_shtab_rayft rayft "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSHRC = """
autoload -Uz compinit; compinit -u -d {folder}/dump; PS1=
eval "$(cat {folder}/rayft.zsh)"
"""
ZSH = """
zmodload zsh/zpty
export ZDOTDIR={folder}
zpty z zsh -d -i
for turn in {{0..600}}; do
  (( turn % 60 )) || zpty -w -n z $'\\x15'{line}$'\\t\\t'
  if zpty -r -t z seen; then shown+=$seen; else sleep 0.05; fi
  missing=()
  for word in {offered}; do [[ $shown == *$word* ]] || missing+=$word; done
  (( $#missing )) || {{ zpty -d z; exit 0 }}
done
print -r -- "missing: $missing, shown: $shown"
exit 1
"""
"""A terminal of its own, in which a list of words appears behind what was typed. It is typed anew every few seconds: what
comes before the shell is ready may be lost."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("completions")
    completions.write(found)
    return found


def shell(name: str, *arguments: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize(("line", "offered"), WORDS)
def test_bash_offers_the_words(folder: Path, line: str, offered: set[str]) -> None:
    words = line.split(" ")
    script = BASH.format(file=folder / "rayft.bash", words=" ".join(map(shlex.quote, words)), count=len(words))
    assert set(shell("bash", "-c", script).split()) == offered


@pytest.mark.parametrize(("line", "offered"), WORDS)
def test_fish_offers_the_words(folder: Path, line: str, offered: set[str]) -> None:
    found = shell("fish", "-N", "-c", f"source {folder}/rayft.fish; complete -C {shlex.quote(line)}")
    assert {one.partition("\t")[0] for one in found.splitlines()} == offered


@pytest.mark.parametrize(("line", "offered"), [one for one in WORDS if len(one[1]) > 1])
def test_zsh_offers_the_words(folder: Path, line: str, offered: set[str]) -> None:
    (folder / ".zshrc").write_text(ZSHRC.format(folder=folder))
    shell("zsh", "-f", "-c", ZSH.format(folder=folder, line=shlex.quote(line), offered=" ".join(offered)))


def test_the_words_of_every_command_are_there(folder: Path) -> None:
    text = (folder / "rayft.bash").read_text()
    for name in cli.COMMANDS:
        assert f"_shtab_rayft_{name.replace('-', '_')}_" in text or name in ("random-id",), name


def test_the_files_of_a_wheel_are_printed_and_shtab_is_not_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "zsh"]) == 1
    assert capsys.readouterr().err == "rayft: this build has no completion: pip install shtab, which makes it.\n"
    monkeypatch.setattr(completions, "__file__", str(folder / "completions.py"))
    assert cli.main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == (folder / "rayft.zsh").read_text()
