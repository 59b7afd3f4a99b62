"""The pages of the documentation: each is in the site's list, and the list names what there is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent


def pages(listed: Any) -> Iterator[str]:
    if isinstance(listed, str):
        yield listed
    for one in listed if isinstance(listed, list) else listed.values() if isinstance(listed, dict) else ():
        yield from pages(one)


def test_each_page_is_in_the_list_of_the_site_once() -> None:
    listed = sorted(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert listed == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_readme_names_each_page() -> None:
    named = set(re.findall(r"\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - named == {"index.md"}
