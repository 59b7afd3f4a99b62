// Now: one sentence of health, what is wrong and what helps, the quorum, the brokers.

import { h, ask, fill, count, many, state, panel, plainTable, num, as, span, when, empty, newest, failed } from "./kit.js";
import { Chart } from "./chart.js";
import { deeds } from "./changing.js";

const KEPT = 300;

export async function open(app, root) {
  const verdict = h("div", { class: "verdict", role: "status" });
  const faults = panel("What is wrong", "hidden");
  const figures = h("div", { class: "grid" });
  const quorum = panel("Quorum", "six"), brokers = panel("Brokers", "six"), lags = panel("Lag of each voter, records", "hidden"), nodes = panel("", "hidden");
  const chart = new Chart({ height: 150 });
  lags.append(chart.el);
  const seen = { leader: null, times: [], voters: new Map() };
  root.append(verdict, figures, h("div", { class: "grid" }, faults, quorum, brokers, lags, nodes));
  figures.style.marginTop = "16px";

  const load = newest(async (signal) => {
    const told = await ask("/now", { at: app.at }, { signal });
    verdict.className = `verdict ${told.well ? "" : "bad"}`;
    fill(verdict, h("i", { class: "large", "aria-hidden": "true" }, told.well ? "●" : "▲"), h("h1", {}, told.sentence));
    const { topics, partitions, under_replicated: short, leaderless } = told.counts;
    const figure = (value, words, bad, view, params) => h("a", { class: "panel three figure", href: app.link(view, params) }, h("span", { class: "large" }, count(value)), bad && value ? state(true, words) : h("span", { class: "soft" }, words));
    fill(figures, figure(topics, topics === 1 ? "topic" : "topics", false, "topics"), figure(partitions, partitions === 1 ? "partition" : "partitions", false, "partitions"),
      figure(short, "under-replicated", true, "partitions", { where: "under_replicated" }), figure(leaderless, "without a leader", true, "partitions", { where: "leader is null" }));
    showFaults(told.findings);
    showQuorum(told.quorum);
    showBrokers(told.brokers);
    if (app.isNow && app.about.has_nodes) await showNodes(signal);
    else nodes.className = "hidden";
  });

  const SHAPES = { serves: [false, "runs"], starts: [false, "starts", "◐"], frozen: [true, "frozen"], cut: [true, "cut off"], down: [true, "down"] };
  let drawn = "";
  /** What may be done to the nodes of a local cluster. It is drawn anew only when it has changed, so that keys keep their place. */
  async function showNodes(signal) {
    const told = await ask("/nodes", {}, { signal });
    const text = JSON.stringify(told);
    if (text === drawn) return;
    drawn = text;
    const key = document.activeElement?.dataset?.key;
    nodes.className = "panel";
    fill(nodes, h("h2", {}, "Faults, for demonstration"), h("p", { class: "soft" }, "This cluster is rayft up's own. See above and in Time what the others make of it."),
      plainTable(["node", h("span", { class: "wide" }, "roles"), "state", ""], told.nodes.map((one) => [one.ids.join(" and "), as(h("span", { class: "wide soft" }, one.roles.join(", "))), as(state(...SHAPES[one.state])), as(deeds(app, one))])));
    if (key) {
      const id = key.split("-")[1], found = [key, `thaw-${id}`, `start-${id}`, `reconnect-${id}`, `cut-${id}`].map((one) => nodes.querySelector(`[data-key="${one}"]`)).find(Boolean);
      found?.focus();
    }
  }

  function showFaults(found) {
    faults.className = found.length ? "panel" : "hidden";
    const title = found.some((one) => one.is_fault) ? "What is wrong" : "Worth a look";
    fill(faults, h("h2", {}, title), h("ul", { class: "faults" }, found.map((one) => h("li", { class: one.is_fault ? "" : "mild" }, h("i", { "aria-hidden": "true" }, one.is_fault ? "▲" : "◇"),
      h("strong", {}, one.sentence),
      h("div", {}, one.cause || (one.since_ms !== null ? `since ${when(one.since_ms)} UTC` : "")),
      one.command && h("div", { class: "soft" }, "What helps: ", one.command),
      one.where && h("div", {}, h("a", { href: app.link("partitions", { where: one.where }) }, "Show these partitions"))))));
  }

  function showQuorum(told) {
    if (!told.voters.length && told.leader < 0) return fill(quorum, h("h2", {}, "Quorum"), empty(told.problem || "The log names no controllers."));
    const live = told.source === "quorum";
    const moved = seen.leader !== null && seen.leader !== told.leader;
    seen.leader = told.leader;
    const line = told.leader >= 0 ? h("p", { class: moved ? "moved" : "" }, "Controller ", h("strong", {}, told.leader), " leads", told.epoch !== null && ` in epoch ${count(told.epoch)}`, told.high_watermark !== null && `; committed up to offset ${count(told.high_watermark)}`) : state(true, told.problem || "no controller leads");
    const head = ["controller", "role", h("span", { class: "wide" }, "address"), ...(live ? [num("lag"), num("caught up")] : [])];
    const rows = told.voters.map((one) => {
      const role = one.id === told.leader ? state(false, "leads", "◆") : live && (one.lag === null || one.caught_up_ms < 0) ? state(true, "away") : state(false, "follows", "○");
      const ago = one.caught_up_ms > 0 ? `${span(Math.max(0, Date.now() - one.caught_up_ms))} ago` : "–";
      return [String(one.id), as(role), as(h("span", { class: "wide soft" }, one.address ?? "–")), ...(live ? [num(count(one.lag)), num(one.id === told.leader ? "–" : ago)] : [])];
    });
    fill(quorum, h("h2", {}, "Quorum"), line, plainTable(head, rows), live && told.observers ? h("p", { class: "soft" }, many(told.observers, "observer")) : "");
    if (live && app.isNow) draw(told);
  }

  function draw(told) {
    seen.times.push(Date.now() / 1000);
    for (const one of told.voters) if (!seen.voters.has(one.id)) seen.voters.set(one.id, seen.times.slice(1).map(() => null));
    for (const [id, values] of seen.voters) values.push(told.voters.find((one) => one.id === id)?.lag ?? null);
    if (seen.times.length > KEPT) [seen.times, ...seen.voters.values()].forEach((one) => one.shift());
    lags.className = seen.times.length > 1 ? "panel" : "hidden";
    if (seen.times.length > 1) chart.draw([...seen.voters.keys()].map((id) => `controller ${id}`), [seen.times, ...seen.voters.values()]);
  }

  function showBrokers(told) {
    const at = Object.fromEntries(told.columns.map((name, index) => [name, index]));
    if (!told.rows.length) return fill(brokers, h("h2", {}, "Brokers"), empty("No broker has registered at this moment."));
    const rows = told.rows.map((row) => [
      String(row[at.broker]), as(row[at.epoch] === null ? state(true, "away") : row[at.fenced] ? state(true, "fenced") : row[at.leaving] ? state(true, "leaving") : state(false, "active")),
      as(h("span", { class: "wide soft" }, row[at.endpoints]?.[0] ? `${row[at.endpoints][0].host}:${row[at.endpoints][0].port}` : "–")),
      num(count(row[at.led])), num(count(row[at.in_isr])), num(count(row[at.replicas])),
    ]);
    const more = told.total > told.rows.length ? h("p", { class: "soft" }, `${count(told.total - told.rows.length)} more brokers are in the table of that name (Ask).`) : "";
    fill(brokers, h("h2", {}, "Brokers"), plainTable(["broker", "state", h("span", { class: "wide" }, "address"), num("leads"), num("in ISR"), num("replicas")], rows), more);
  }

  const reload = () => load().catch((error) => fill(verdict, failed(error)));
  await load();
  // What moves comes with the events, made once for all pages. Nodes of a local cluster have no events.
  const timer = setInterval(() => app.isNow && app.about.live && !document.hidden && reload(), app.about.has_nodes ? 2000 : 30000);
  return {
    update: reload,
    pulse: (told, changed) => (changed ? reload() : told.quorum && showQuorum(told.quorum)),
    close: () => { clearInterval(timer); load.end(); chart.close(); },
  };
}
