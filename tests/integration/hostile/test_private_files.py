"""Other users of the machine can read nothing of a running cluster."""

import stat
from pathlib import Path

from tests.integration.files import looked_at
from tests.integration.hostile.produced import PRODUCE, asked, bomb, create, produce_request
from tests.integration.hostile.scene import Peer, Scene

TOPIC = "private"


def test_files_and_directories_are_closed_to_others(small: Scene) -> None:
    address = small.brokers()[0]
    create(address, TOPIC, 2)
    with Peer(address) as peer:
        asked(peer, "Produce", PRODUCE, produce_request(TOPIC, [(0, bomb(0, 10, 1))]))
    home = Path(small.cluster.dir)
    found = {path: stat.S_IMODE(about.st_mode) for path, about in looked_at((home, *home.rglob("*")))}
    assert len(found) > 20
    assert {str(path): oct(mode) for path, mode in found.items() if mode & 0o007} == {}
