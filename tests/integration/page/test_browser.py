"""What a browser shows of a page and does with it, at a cluster that is well; and a smoke of the walk through every view,
which `test_walks.py` does as a whole."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from actors.page.routes.overview import STREAMS_MAX
from tests.integration.conftest import ROOT, everywhere
from tests.integration.page.opened import Page, page, until
from tests.integration.page.walking import Walker, by_keyboard, chromium, entered, look, views


@pytest.fixture(scope="module")
def live(cluster: rayft.Cluster) -> Iterator[Page]:
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic("t-walk", 6, 3)]))
    everywhere(cluster, "t-walk", 6)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(120):
        producer.produce("t-walk", json.dumps({"order": at, "html": "<b onclick=x>&amp;</b>"}), key=f"k-{at}")
    assert producer.flush(30) == 0
    with page("-b", cluster.bootstrap_servers) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def walker(browser: Any, live: Page) -> Iterator[Walker]:
    with entered(browser, live) as found:
        yield found
        assert found.wrong == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_view_is_shown_within_the_window(browser: Any, live: Page, width: int, scheme: str) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme) as context:
        walker = Walker(context, live)
        walker.enter()
        assert "token" not in walker.page.url
        for view, heading in views("t-walk").items():
            walker.go(view, heading)
            look(walker, view, width)
        if width == 1280:
            by_keyboard(walker)
        assert walker.wrong == []


def test_a_moment_is_chosen_with_the_keyboard_and_stays_in_the_address(walker: Walker) -> None:
    walker.go("partitions", "Partitions")
    walker.page.focus("input[type=range]")
    walker.page.keyboard.press("Home")
    walker.until("location.hash.includes('at=')")
    walker.until("document.querySelector('main').innerText.includes('no partition at this moment')")
    assert walker.text(".when .at").startswith("As of ")
    walker.page.reload()
    walker.until("document.querySelector('main')?.innerText.includes('no partition at this moment')")
    walker.page.click("nav >> text=Topics")
    walker.until("document.querySelector('main').innerText.includes('no topic at this moment')")
    walker.page.click(".when >> text=Now")
    walker.until("!document.querySelector('main').innerText.includes('no topic at this moment')")
    assert "at=" not in walker.page.url


def test_the_life_of_a_partition_opens_with_the_keyboard_and_closes_with_escape(walker: Walker) -> None:
    walker.go("partitions?q=t-walk", "Partitions")
    walker.page.focus(".rows")
    walker.page.keyboard.press("ArrowDown")
    walker.page.keyboard.press("ArrowDown")
    walker.page.keyboard.press("Enter")
    walker.page.wait_for_selector("aside.drawer >> text=Topic id")
    assert "t-walk-1" in walker.text("aside.drawer")
    walker.page.keyboard.press("Escape")
    walker.page.wait_for_selector("aside.drawer", state="detached")


def test_what_has_the_focus_keeps_it_when_the_view_is_drawn_anew(
    walker: Walker, cluster: rayft.Cluster, name: str
) -> None:
    walker.go("topics", "Topics")
    walker.page.focus(".rows-head button >> text=partitions")
    for arrow in ("↓", "↑"):
        walker.page.keyboard.press("Enter")
        walker.until(f"document.activeElement.innerText.trim() === 'partitions {arrow}'")
    walker.go("now", "Well")
    walker.page.focus("main .figure")
    before = walker.text("main .figure")
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 1, 1)]))
    walker.until(f"document.querySelector('main .figure').innerText !== {json.dumps(before)}")
    assert walker.page.evaluate("document.activeElement === document.querySelector('main .figure')")


def test_records_are_found_shown_and_obey_nothing(walker: Walker) -> None:
    walker.go("topics/t-walk", "t-walk")
    walker.page.fill("input[type=search]", '"order": 77,')
    walker.page.keyboard.press("Enter")
    walker.until("document.querySelectorAll('.rows-row').length === 1")
    walker.page.click(".rows-row")
    assert "<b onclick=x>&amp;</b>" in walker.text("aside.drawer")
    assert walker.page.query_selector("aside.drawer b") is None, "markup in a record stays text"
    walker.page.keyboard.press("Escape")
    walker.page.fill("input[type=search]", "no such text")
    walker.page.keyboard.press("Enter")
    walker.page.wait_for_selector("text=No record there holds this text.")


def test_a_question_is_asked_and_a_wrong_one_is_told(walker: Walker) -> None:
    walker.go("ask", "Ask")
    walker.page.fill("textarea", "select count(*) as parts from partitions where topic = 't-walk'")
    walker.page.keyboard.press("Control+Enter")
    walker.until("document.querySelector('.rows-row')?.innerText.trim() === '6'")
    walker.wrong.clear()
    walker.page.fill("textarea", "drop table partitions")
    walker.page.keyboard.press("Control+Enter")
    walker.page.wait_for_selector("[role=alert] >> text=Ask one question that reads")
    assert len(walker.wrong) <= 2 and all("400" in one for one in walker.wrong), "the browser notes the answer, no more"
    walker.wrong.clear()


def test_a_new_question_ends_the_one_before(walker: Walker) -> None:
    walker.go("ask", "Ask")
    walker.page.wait_for_selector(".rows-row")
    ended: list[str] = []
    walker.page.on("requestfailed", lambda one: ended.append(one.url.rpartition("/")[2]))
    walker.page.fill("textarea", "select count(*) from range(1000000000000)")
    walker.page.keyboard.press("Control+Enter")
    walker.page.wait_for_selector("text=asking")
    walker.page.fill("textarea", "select count(*) as parts from partitions where topic = 't-walk'")
    walker.page.keyboard.press("Control+Enter")
    walker.until("document.querySelector('.rows-row')?.innerText.trim() === '6'")
    assert ended == ["ask"]


def test_an_address_that_was_cut_off_shows_something(walker: Walker) -> None:
    walker.page.goto(f"{walker.base}#/topics/t%2")
    walker.page.reload()
    walker.until("document.querySelector('main h1')?.textContent.includes('t%2')")
    walker.until("document.querySelector('[role=alert]')")
    assert all("404" in one for one in walker.wrong)
    walker.wrong.clear()


@pytest.mark.slow
def test_a_group_of_any_name_is_shown(walker: Walker, cluster: rayft.Cluster) -> None:
    for name in ("..", "walk/lag"):
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": name})
        consumer.commit(offsets=[TopicPartition("t-walk", 0, 1)], asynchronous=False)
        consumer.close()
        walker.go("groups", "Groups")
        walker.page.click(f".rows-row >> text='{name}'")
        walker.until(f"document.querySelector('main h1')?.textContent.endsWith('/ {name}')")
        walker.page.wait_for_selector("text=It has no members now")


def test_a_page_that_nobody_sees_does_not_listen(walker: Walker) -> None:
    hide = "Object.defineProperty(document, 'hidden', {{ get: () => {}, configurable: true }}); 0"
    told = "document.dispatchEvent(new Event('visibilitychange')); 0"
    with walker.page.expect_event("requestfailed", lambda one: one.url.endswith("/events")):
        walker.page.evaluate(f"() => {{ {hide.format('true')}; {told}; }}")
    with walker.page.expect_request("**/events"):
        walker.page.evaluate(f"() => {{ {hide.format('false')}; {told}; }}")


def test_a_new_topic_appears_by_itself(walker: Walker, cluster: rayft.Cluster, name: str) -> None:
    walker.go(f"topics?q={name}", "Topics")
    walker.page.wait_for_selector("text=No topic has this name")
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 2, 1)]))
    walker.page.wait_for_selector(f".rows-row >> text={name}")


def test_a_quorum_that_is_gone_is_told_and_its_return_too(browser: Any) -> None:
    with rayft.Cluster(controllers=1, brokers=1) as own, page("-b", own.bootstrap_servers) as opened:
        until(lambda: opened.get("/now")["quorum"]["source"] == "quorum")
        with browser.new_context() as context:
            walker = Walker(context, opened)
            walker.enter()
            walker.page.wait_for_selector(".pill >> text=well")
            own.kill(1001, restart=False)
            walker.page.wait_for_selector(".pill >> text=1 fault")
            walker.until("document.querySelector('main h1').textContent.startsWith('Not well: the quorum')")
            own.start_node(1001)
            walker.until("document.querySelector('main h1').textContent.startsWith('Well: ')")
            assert walker.wrong == []


def test_a_page_whose_process_ended_says_so(browser: Any, live: Page) -> None:
    with browser.new_context() as context, page("-b", f"{live.printed[0].split()[3].rstrip('.')}") as opened:
        walker = Walker(context, opened)
        walker.enter()
        opened.process.terminate()
        opened.process.wait()
        walker.page.wait_for_selector("text=rayft ui does not answer")


def test_somebody_without_the_token_is_asked_for_it(browser: Any, live: Page) -> None:
    with browser.new_context() as context:
        walker = Walker(context, live)
        walker.page.goto(walker.base)
        walker.page.fill("#secret", "wrong")
        walker.page.keyboard.press("Enter")
        walker.page.wait_for_selector("text=That is not the token")
        walker.page.fill("#secret", live.token)
        walker.page.keyboard.press("Enter")
        walker.page.wait_for_selector("main h1")
        assert all("401" in one for one in walker.wrong)


def test_the_end_key_shows_the_last_row(walker: Walker) -> None:
    walker.go("changes?sort=offset", "Changes")
    walker.page.focus(".rows")
    walker.page.keyboard.press("End")
    total = walker.page.get_attribute(".rows", "aria-rowcount")
    walker.page.wait_for_selector(f".rows-row[aria-rowindex='{total}'] >> text=.")


def test_a_page_that_was_refused_its_stream_asks_again(browser: Any, live: Page) -> None:
    with ExitStack() as others, browser.new_context() as context:
        for _ in range(STREAMS_MAX):
            others.enter_context(live.events())
        walker = Walker(context, live)
        walker.enter()
        walker.page.wait_for_selector(".pill:has-text('not connected')")
        others.close()
        walker.page.wait_for_selector(".pill:has-text('well')")
        assert all("503" in one for one in walker.wrong)


def test_another_cluster_is_chosen_above_and_stays_in_the_address(
    browser: Any, cluster: rayft.Cluster, live: Page
) -> None:
    log = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
    with (
        page("-b", cluster.bootstrap_servers, str(log)) as opened,
        browser.new_context(viewport={"width": 390, "height": 844}) as context,
    ):
        walker = Walker(context, opened)
        walker.enter()
        walker.page.select_option("select[aria-label=Cluster]", cluster.bootstrap_servers)
        walker.until(
            f"new URLSearchParams(location.hash.split('?')[1]).get('cluster') === '{cluster.bootstrap_servers}'"
        )
        walker.until("document.querySelector('main h1')?.textContent.startsWith('Well: controller')")
        walker.page.click("text=Menu")
        walker.page.click("nav >> text=Topics")
        walker.page.fill("input[aria-label='Find a topic']", "t-walk")  # others' topics may fill the window
        walker.page.wait_for_selector("main >> text=t-walk")
        walker.page.select_option("select[aria-label=Cluster]", str(log))
        walker.until("document.querySelector('main h1')?.textContent === 'Topics'")
        walker.page.fill("input[aria-label='Find a topic']", "t-walk")
        walker.page.wait_for_selector("main >> text=No topic has this name")
        walker.page.fill("input[aria-label='Find a topic']", "")
        walker.page.wait_for_selector("main >> text=__consumer_offsets")
        assert walker.page.query_selector("main >> text=t-walk") is None
        walker.page.reload()
        walker.page.wait_for_selector("main >> text=__consumer_offsets")
        assert walker.page.evaluate("document.documentElement.scrollWidth") <= 390
        loads: list[Any] = []
        walker.page.on("load", lambda *_: loads.append(1))
        walker.page.evaluate("location.hash = '#/topics?cluster=gone'; location.reload()")
        walker.page.wait_for_selector("[role=alert] >> text=no cluster called gone")
        walker.until("new URLSearchParams(location.hash.split('?')[1]).get('cluster') !== 'gone'")
        assert len(loads) == 1, "an address of a cluster that is not shown is no reason to begin again and again"
        assert walker.wrong == []


# ---- changes


@pytest.fixture
def changer(browser: Any, cluster: rayft.Cluster, live: Page) -> Iterator[Walker]:
    size = {"width": 390, "height": 844}
    with (
        page("-b", cluster.bootstrap_servers, "--allow-changes") as opened,
        browser.new_context(viewport=size) as context,
    ):
        found = Walker(context, opened)
        found.enter()
        yield found
        assert found.wrong == []


def test_a_topic_is_made_written_to_and_deleted_with_the_keyboard(changer: Walker, name: str) -> None:
    keys = changer.page.keyboard
    changer.go("topics", "Topics")
    changer.page.focus("main >> text=New topic")
    keys.press("Enter")
    changer.page.wait_for_selector("dialog[open]")
    keys.type(name)
    keys.press("Tab")
    keys.type("2")
    keys.press("Enter")
    changer.page.wait_for_selector(f"[role=status] >> text=Topic {name} was created with 2 partitions.")
    changer.go(f"topics/{name}", name)
    changer.page.focus("main >> text=Write a record")
    keys.press("Enter")
    changer.page.wait_for_selector("dialog[open]")
    keys.type("a key")
    keys.press("Tab")
    keys.type('{"a": "<i>value</i>"}')
    changer.page.click("dialog >> text=Write >> nth=-1")
    changer.page.wait_for_selector(f"[role=status] >> text=The record was written to {name}-")
    changer.until("document.querySelectorAll('.rows-row').length === 1")
    changer.page.click("main >> text=Delete")
    changer.page.wait_for_selector("dialog >> text=with about 1 record")
    assert changer.page.is_disabled("dialog button[type=submit]")
    assert changer.page.evaluate("document.documentElement.scrollWidth") <= 390
    keys.press("Escape")
    changer.page.wait_for_selector("dialog", state="detached")
    changer.page.click("main >> text=Delete")
    changer.page.wait_for_selector("dialog[open]")
    keys.type(name)
    keys.press("Enter")
    changer.page.wait_for_selector(f"[role=status] >> text=Topic {name} was deleted.")
    assert "#/topics" in changer.page.url


def test_a_refusal_is_said_in_the_dialog_and_nothing_is_offered_in_the_past(changer: Walker) -> None:
    changer.go("topics/t-walk?tab=settings", "t-walk")
    changer.page.click("main >> text=Set another one")
    changer.page.fill("dialog input >> nth=0", "retention.ms")
    changer.page.fill("dialog input >> nth=1", "soon")
    changer.page.keyboard.press("Enter")
    changer.page.wait_for_selector("dialog [role=alert] >> text=retention.ms")
    assert all("409" in one for one in changer.wrong)
    changer.wrong.clear()
    changer.page.keyboard.press("Escape")
    changer.go("topics", "Topics")
    changer.page.focus("input[type=range]")
    changer.page.keyboard.press("Home")
    changer.page.wait_for_selector("main >> text=New topic", state="hidden")
    changer.page.click(".when >> text=Now")
    changer.page.wait_for_selector("main >> text=New topic", state="visible")


def test_without_the_option_no_change_is_offered(walker: Walker) -> None:
    for view, heading in (("topics", "Topics"), ("topics/t-walk", "t-walk"), ("settings", "Settings")):
        walker.go(view, heading)
        assert walker.page.query_selector(".acts") is None


def test_a_view_that_comes_late_does_not_take_the_place_of_the_one_that_was_chosen_after_it(walker: Walker) -> None:
    held: list[Any] = []
    walker.go("now", "ell")
    walker.page.route("**/api/v1/tables/topics?*", lambda one: held.append(one))
    walker.page.click("nav >> text=Topics")
    until(lambda: walker.page.wait_for_timeout(50) or held)
    walker.go("groups", "Groups")
    walker.page.unroute("**/api/v1/tables/topics?*")  # which lets it go on
    walker.page.wait_for_timeout(1_500)
    assert walker.text("main h1") == "Groups"
    walker.page.click("nav >> text=Topics")
    walker.until("document.querySelector('main h1')?.textContent === 'Topics'")
