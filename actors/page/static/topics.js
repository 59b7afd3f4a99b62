// Topics: what there are.

import { h, ask, count, state, debouncedInput } from "./kit.js";
import { Rows } from "./rows.js";

export async function open(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const rows = new Rows({
    label: "Topics", sort: param("sort"), onSort: (sort) => app.set({ sort }),
    columns: [
      { name: "topic", min: 140, grow: 3 },
      { name: "partitions", min: 88, number: true, show: (row) => count(row.partitions) },
      { name: "deleting", title: "state", min: 110, grow: 1, show: (row) => (row.deleting ? state(true, "being deleted") : state(false, "there")) },
      { name: "topic_id", title: "id", min: 190, drop: 1, grow: 1, show: (row) => h("span", { class: "mono soft" }, row.topic_id) },
    ],
    load: (first, n, signal) => ask("/tables/topics", { at: app.at, first, n, q: param("q"), sort: param("sort") }, { signal }),
    open: (row) => app.go("partitions", { q: row.topic }),
    nothing: () => (param("q") ? "No topic has this name at this moment." : "There was no topic at this moment."),
  });
  const search = debouncedInput({ placeholder: "Find a topic", "aria-label": "Find a topic", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Topics")), h("div", { class: "tools" }, search), rows.el);
  await rows.reload();
  return { update: () => rows.reload({ top: true }), pulse: (_, changed) => changed && rows.reload(), close: () => rows.close(), drawn: () => rows.lay() };
}
