// Partitions: how they are spread over brokers, a table over all of them, and the life of each.

import { h, ask, count, many, state, drawer, fill, pairs, when, empty, failed, debouncedInput, css, newest } from "./kit.js";
import { Rows } from "./rows.js";

const ids = (list) => (list?.length ? list.join(" ") : "–");

export async function open(app, root) {
  const params = app.route.params;
  const search = debouncedInput({ placeholder: "Find a topic", "aria-label": "Find a topic", value: params.get("q") ?? "" }, (q) => app.set({ q }));
  const where = debouncedInput({ placeholder: "Filter, as in: leader = 5 and isr contains 3", "aria-label": "Filter", class: "grow", value: params.get("where") ?? "" }, (text) => app.set({ where: text }));
  const as = (name) => h("button", { "aria-pressed": String((params.get("as") ?? "table") === name), onclick: () => { app.set({ as: name === "table" ? "" : name, sort: "" }); app.navigate(); } }, name === "table" ? "Table" : "Heat map");
  const head = h("div", { class: "view-head" }, h("h1", {}, "Partitions"), h("div", { class: "choice", role: "group", "aria-label": "Shown as" }, as("table"), as("heat")));
  const heat = params.get("as") === "heat";
  const tools = h("div", { class: "tools" }, search, heat ? null : where);
  const rows = heat ? heatMap(app) : table(app);
  root.append(head, tools, ...(heat ? [key(), rows.rest] : []), rows.el);
  await rows.begin();
  const reload = (top) => (rows.beside?.(), rows.reload({ top }));
  return { update: () => reload(true), pulse: (_, changed) => changed && reload(false), close: () => rows.close(), drawn: () => rows.lay() };
}

function table(app) {
  const params = app.route.params;
  const rows = new Rows({
    label: "Partitions", sort: params.get("sort") ?? "", onSort: (sort) => app.set({ sort }),
    columns: [
      { name: "topic", min: 120, grow: 3, show: (row) => [row.leader === null || row.under_replicated ? h("span", { class: "lost", title: "not as it should be" }, "▲ ") : "", row.topic] },
      { name: "partition", title: "no.", min: 48, number: true },
      { name: "leader", min: 72, number: true, show: (row) => (row.leader === null ? state(true, "none") : row.leader) },
      { name: "under_replicated", title: "state", min: 136, grow: 1, drop: 1, show: (row) => (row.leader === null ? state(true, "no leader") : row.under_replicated ? state(true, "under-replicated") : state(false, "in sync")) },
      { name: "replicas", min: 80, grow: 1, drop: 3, show: (row) => ids(row.replicas) },
      { name: "isr", title: "ISR", min: 80, grow: 1, drop: 2, show: (row) => isr(row) },
      { name: "leader_epoch", title: "epoch", min: 64, number: true, drop: 5 },
      { name: "adding", title: "moving", min: 72, drop: 6, show: (row) => (row.adding.length || row.removing.length ? `+${row.adding.length} −${row.removing.length}` : "–") },
    ],
    load: (first, n, signal) => ask("/tables/partitions", { at: app.at, first, n, q: app.route.params.get("q"), where: app.route.params.get("where"), sort: app.route.params.get("sort"), columns: "topic,partition,leader,under_replicated,replicas,isr,leader_epoch,adding,removing" }, { signal }),
    open: (row) => (rows.beside = life(app, row.topic, row.partition)),
    nothing: () => (app.route.params.get("q") || app.route.params.get("where") ? "No partition is like that at this moment. Change the filter, or move in time." : "There was no partition at this moment."),
  });
  rows.begin = () => rows.reload();
  return rows;
}

function isr(row) {
  const lost = row.replicas.filter((one) => !row.isr.includes(one));
  return [ids(row.isr), lost.length ? h("span", { class: "lost" }, `  without ${lost.join(" ")}`) : ""];
}

function heatMap(app) {
  const rows = new Rows({
    label: "Partitions of each topic on each broker", sort: app.route.params.get("sort") ?? "", onSort: (sort) => app.set({ sort }), columns: [],
    load: (first, n, signal) => ask("/heat", { at: app.at, first, n, q: app.route.params.get("q"), sort: app.route.params.get("sort") }, { signal }),
    open: (row) => app.go("partitions", { q: row.topic }),
    nothing: "There was no partition at this moment, or no topic has this name.",
  });
  rows.rest = h("p", { class: "soft hidden" });
  const named = rows.named.bind(rows);
  rows.named = (told) => {
    rows.rest.classList.toggle("hidden", !told.left_out);
    rows.rest.textContent = `${many(told.left_out, "broker")} with a higher number ${told.left_out === 1 ? "has" : "have"} no column here: all and missing count them too, and the table and Ask show them.`;
    const most = Math.max(1, ...told.rows.flatMap((row) => row.slice(4).map((cell) => cell[1] + cell[2])));
    rows.columns = [
      { name: "topic", min: 84, grow: 2 },
      { name: "partitions", title: "all", min: 48, number: true, drop: 999, show: (row) => count(row.partitions) },
      { name: "missing", title: "missing", min: 72, number: true, show: (row) => (row.missing ? h("span", { class: "lost" }, `▲ ${count(row.missing)}`) : "0"), drop: 1000 },
      ...told.brokers.map((id, at) => ({ name: `b${id}`, title: `broker ${id}`, min: 70, grow: 1, number: true, fixed: true, drop: at > 2 ? at : 0, show: (row) => cell(row[`b${id}`], most) })),
    ];
    return named(told);
  };
  rows.begin = () => rows.reload();
  return rows;
}

function cell([led, inSync, missing], most) {
  if (!inSync && !missing) return h("div", { class: "heat soft" }, "·");
  const made = h("div", { class: "heat", title: `leads ${led}, in sync ${inSync}, missing ${missing}` }, h("b", {}, count(led)), `/${count(inSync)}`, missing ? h("span", { class: "lost" }, ` ▲${count(missing)}`) : "");
  made.style.background = `color-mix(in srgb, ${css("--accent")} ${Math.round(4 + 20 * ((inSync + missing) / most))}%, transparent)`;
  return made;
}

const key = () => h("p", { class: "key" }, h("span", {}, h("b", {}, "4"), "/12: leads 4, has 12 in sync"), h("span", {}, h("span", { class: "lost" }, "▲2"), ": 2 replicas out of the ISR"), h("span", {}, "the darker, the more replicas"));

const WORDS = {
  leader: (row) => (row.new === null ? `broker ${row.old} no longer leads; nobody does` : row.old === null ? `broker ${row.new} leads again` : `broker ${row.new} leads instead of ${row.old}`),
  isr: (row) => {
    const gone = row.old_ids.filter((one) => !row.new_ids.includes(one)), back = row.new_ids.filter((one) => !row.old_ids.includes(one));
    return [gone.length && `${gone.join(", ")} left the ISR`, back.length && `${back.join(", ")} came into the ISR`].filter(Boolean).join("; ") + `: ${ids(row.new_ids)}`;
  },
  replicas: (row) => `replicas became ${ids(row.new_ids)} instead of ${ids(row.old_ids)}`,
  topic: (row) => (row.new === null ? "the topic was deleted" : "the topic was created"),
};

/** Opens what is known of a partition at the moment that is shown. Returns what tells it anew, if it is still open. */
export function life(app, topic, partition) {
  const { body } = drawer(`${topic}-${partition}`, h("p", { class: "soft" }, "…"));
  const load = newest(async (signal) => {
    const told = await ask(`/partitions/${encodeURIComponent(topic)}/${partition}`, { at: app.at }, { signal });
    const one = told.state, { moment } = told;
    const rows = told.rows.map((row) => Object.fromEntries(told.columns.map((name, at) => [name, row[at]]))).reverse();
    fill(body,
      pairs([
        ["As of", `${moment.is_now ? "now" : `${when(moment.time_ms, true)} UTC`}, offset ${count(moment.offset)}`],
        ["Leader", one.leader === null ? state(true, "none") : `broker ${one.leader}, epoch ${count(one.leader_epoch)}`],
        ["Replicas", ids(one.replicas)], ["ISR", one.under_replicated ? state(true, ids(one.isr)) : ids(one.isr)],
        ...(one.elr.length ? [["Eligible leaders", ids(one.elr)]] : []),
        ...(one.adding.length ? [["Being added", ids(one.adding)]] : []), ...(one.removing.length ? [["Being removed", ids(one.removing)]] : []),
        ["Topic id", h("span", { class: "mono" }, one.topic_id)],
      ]),
      h("p", {}, h("a", { href: app.link(`topics/${encodeURIComponent(topic)}`, { partition }) }, "Messages of this partition")),
      h("h3", {}, "Its life, newest first"),
      rows.length ? h("ol", { class: "story" }, rows.map((row) => h("li", { class: row.kind === "leader" && row.new === null ? "bad" : "" }, WORDS[row.kind]?.(row) ?? row.kind, h("div", { class: "soft" }, h("a", { href: app.link("partitions", { at: row.offset + 1 }) }, `${when(row.timestamp, true)} UTC`), `, offset ${count(row.offset)}`)))) : empty("Nothing has changed since it was created, as far as the log reaches back."),
      told.total > rows.length ? h("p", { class: "soft" }, `${count(told.total - rows.length)} older changes are in Changes.`) : "");
    body.style.display = "grid";
    body.style.gap = "16px";
  });
  const tell = () => body.isConnected && load().catch((error) => fill(body, failed(error)));
  tell();
  return tell;
}
