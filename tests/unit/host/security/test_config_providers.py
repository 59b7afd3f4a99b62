"""Values of settings that stand in files and in the environment, as Apache Kafka's providers read them (KIP-421)."""

from pathlib import Path

import pytest

from actors.host.security.config_providers import PACKAGE, resolved
from actors.settings.keys import ConfigError


def given(**more: str) -> dict[str, str]:
    found = {"config.providers": "file,env, dir"}
    for name, kind in (("file", "File"), ("env", "EnvVar"), ("dir", "Directory")):
        found[f"config.providers.{name}.class"] = f"{PACKAGE}{kind}ConfigProvider"
    return found | {name.replace("__", "."): value for name, value in more.items()}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.properties").write_text("password = hidden:1\nother=two\n")
    (tmp_path / "token").write_text("hidden\n2")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.properties").write_text("password=hidden")
    monkeypatch.setenv("RAYFT_SECRET", "hidden=3")
    return tmp_path


def test_r421_01_a_reference_becomes_what_it_refers_to(secrets: Path) -> None:
    found = resolved(
        given(
            a=f"${{file:{secrets}/a.properties:password}}",
            b=f'x username="${{file:{secrets}/a.properties:other}}" password="${{env:RAYFT_SECRET}}";',
            c=f"${{dir:{secrets}:token}}",
            d="${nothing",
        )
    )
    assert found == {"a": "hidden:1", "b": 'x username="two" password="hidden=3";', "c": "hidden\n2", "d": "${nothing"}


def test_r421_01_without_providers_nothing_is_a_reference() -> None:
    assert resolved({"a": "${env:RAYFT_SECRET}"}) == {"a": "${env:RAYFT_SECRET}"}


def test_what_a_reference_stands_for_is_no_reference_again(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYFT_SECRET", f"${{file:{secrets}/a.properties:password}}")
    assert resolved(given(a="${env:RAYFT_SECRET}"))["a"].startswith("${file:")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${vault:/a:b}", "config.providers has file, env, dir: add vault"),
        ("${file:HERE/a.properties:missing}", "the file has no such key"),
        ("${file:HERE/missing:password}", "cannot be read"),
        ("${file:password}", "names no path"),
        ("${dir:HERE:missing}", "cannot be read"),
        ("${dir:HERE:elsewhere/b.properties}", "no name of a file in that directory"),
        ("${dir:HERE:..}", "no name of a file in that directory"),
        ("${env:RAYFT_NONE}", "no such variable"),
        ("${env:path:RAYFT_SECRET}", "has no path"),
    ],
)
def test_r421_02_a_reference_that_cannot_be_resolved_is_one_clear_error(secrets: Path, value: str, words: str) -> None:
    value = value.replace("HERE", str(secrets))
    with pytest.raises(ConfigError) as error:
        resolved(given(sasl__jaas__config=value))
    assert words in str(error.value) and str(error.value).startswith(f"sasl.jaas.config refers to {value}, and ")
    assert "hidden" not in str(error.value)


def test_r421_03_only_what_is_allowed_is_read(secrets: Path) -> None:
    allowed = {
        "config.providers.file.param.allowed.paths": f"/nowhere,{secrets / 'elsewhere'}",
        "config.providers.dir.param.allowed.paths": str(secrets / "elsewhere"),
        "config.providers.env.param.allowlist.pattern": "RAYFT_[A-Z]+",
    }
    assert resolved(given(a=f"${{file:{secrets}/elsewhere/b.properties:password}}") | allowed)["a"] == "hidden"
    (secrets / "elsewhere" / "link").symlink_to(secrets / "token")
    for value in (
        f"${{file:{secrets}/a.properties:password}}",
        f"${{file:{secrets}/elsewhere/../a.properties:password}}",
        f"${{dir:{secrets}:token}}",
        f"${{dir:{secrets}/elsewhere:link}}",
        "${env:HOME}",
        "${env:XRAYFT_SECRET}",
    ):
        with pytest.raises(ConfigError, match="does not allow that"):
            resolved(given(a=value) | allowed)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("config.providers.file.class", "com.example.Vault", "com.example.Vault is not a provider"),
        ("config.providers.file.class", "", "is not a provider"),
        ("config.providers.file.param.allowed.path", "/a", "is not a setting"),
        ("config.providers.file.param.allowed.paths", "a", "write absolute paths"),
        ("config.providers.env.param.allowlist.pattern", "(", "write a regular expression"),
    ],
)
def test_r421_02_a_provider_that_is_set_up_wrongly_is_one_clear_error(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolved(given() | {name: value})
