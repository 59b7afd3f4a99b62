"""`python -m tests.integration.page.picture` takes docs/page.png anew: the page of a cluster that has lost a broker.

It needs Chromium and Playwright, as the tests of the browser do.
"""

import json
import random
import time
from pathlib import Path

from confluent_kafka import Producer

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from tests.integration.conftest import ROOT, everywhere
from tests.integration.page.opened import page, until
from tests.integration.page.walking import chromium

PICTURE = ROOT / "docs" / "page.png"
TOPICS = {"orders": 12, "payments": 6, "shipments": 6, "customers": 3}


def main(path: Path = PICTURE) -> None:
    """Take the picture."""
    with rayft.Cluster(controllers=3, brokers=3) as cluster:
        with connect(cluster.bootstrap_servers) as kafka:
            kafka.run(topics.create([topics.NewTopic(name, count, 3) for name, count in TOPICS.items()]))
        for name, count in TOPICS.items():
            everywhere(cluster, name, count)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for at in range(500):
            producer.produce("orders", json.dumps({"order": at}), key=f"c-{random.Random(at).randrange(90)}")
        producer.flush(30)
        with page("-b", cluster.bootstrap_servers) as opened, chromium() as browser:
            shown = browser.new_page(viewport={"width": 1120, "height": 640}, color_scheme="light")
            time.sleep(4)
            cluster.kill(2, restart=False)
            until(lambda: not opened.get("")["well"])
            shown.goto(opened.address)
            shown.wait_for_selector("text=What is wrong")
            shown.wait_for_timeout(1_500)
            shown.screenshot(path=str(path))


if __name__ == "__main__":
    main()
