// Changes: everything that changed in the metadata, searchable, each with the moment in which it did.

import { h, ask, count, drawer, pairs, when, brief, debouncedInput } from "./kit.js";
import { Rows } from "./rows.js";

const KINDS = ["leader", "isr", "replicas", "topic", "registration", "fencing", "shutdown", "config", "feature"];
const about = (row) => row.topic !== null ? (row.partition !== null ? `${row.topic}-${row.partition}` : row.topic) : row.broker !== null ? `broker ${row.broker}` : row.resource !== null ? `${row.resource} ${row.name}` : row.name;
const told = (row, value) => (row.kind === "registration" && value ? "registered" : value);

export function columns() {
  return [
    { name: "timestamp", title: "time, UTC", min: 108, show: (row) => brief(row.timestamp) },
    { name: "kind", min: 82, grow: 0.6 },
    { name: "topic", title: "of", min: 96, grow: 2, fixed: true, show: about },
    { name: "old", title: "before", min: 90, grow: 1, drop: 2, fixed: true, show: (row) => told(row, row.old) },
    { name: "new", title: "after", min: 90, grow: 1, drop: 1, fixed: true, show: (row) => told(row, row.new) },
    { name: "offset", min: 84, number: true, drop: 3, show: (row) => count(row.offset) },
  ];
}

export async function open(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const search = debouncedInput({ placeholder: "Find a topic, broker, setting or value", "aria-label": "Find", class: "grow", value: param("q") }, (q) => app.set({ q }));
  const kind = h("select", { "aria-label": "Kind of change", onchange: () => app.set({ kind: kind.value }) }, h("option", { value: "" }, "All kinds"), KINDS.map((one) => h("option", { value: one, selected: param("kind") === one }, one)));
  const rows = new Rows({
    label: "Changes", columns: columns(), sort: param("sort") || "-offset", onSort: (sort) => app.set({ sort }),
    load: (first, n, signal) => ask("/tables/changes", { at: app.at, first, n, q: param("q"), where: param("kind") ? `kind = ${param("kind")}` : "", sort: param("sort") || "-offset" }, { signal }),
    open: (row) => show(app, row),
    nothing: () => (param("q") || param("kind") ? "No change is like that up to this moment." : "Nothing has changed up to this moment."),
  });
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Changes"), h("span", { class: "soft" }, "The log does not say who made a change.")), h("div", { class: "tools" }, search, kind), rows.el);
  await rows.reload();
  return { update: () => rows.reload({ top: true }), pulse: (_, changed) => changed && rows.reload(), close: () => rows.close(), drawn: () => rows.lay() };
}

export function show(app, row) {
  const text = (value) => (value === null ? "–" : h("pre", { class: "value" }, pretty(value)));
  const { body } = drawer(`${row.kind}: ${about(row)}`,
    pairs([["Time", `${when(row.timestamp, true)} UTC`], ["Offset", count(row.offset)]]),
    h("div", { class: "tools" }, h("a", { class: "button", href: app.link("now", { at: row.offset }) }, "Just before"), h("a", { class: "button", href: app.link("now", { at: row.offset + 1 }) }, "Just after")),
    h("h3", {}, "Before"), text(row.old), h("h3", {}, "After"), text(row.new));
  body.style.display = "grid";
  body.style.gap = "12px";
}

function pretty(value) {
  try {
    return value.startsWith("{") ? JSON.stringify(JSON.parse(value), null, 2) : value;
  } catch {
    return value;
  }
}
