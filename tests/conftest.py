"""Options of the whole suite."""

import pytest
from hypothesis import settings

settings.register_profile("rayft", deadline=None)  # a busy machine is no failure
settings.load_profile("rayft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the present output into the transcripts")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
