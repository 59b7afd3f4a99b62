"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the present output into the transcripts")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
