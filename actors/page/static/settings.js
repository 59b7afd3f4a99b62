// Settings: what is set in the metadata at a moment, and the levels of features.

import { h, ask, panel, plainTable, num, empty, fill, debouncedInput } from "./kit.js";
import { Rows } from "./rows.js";

export async function open(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const rows = new Rows({
    label: "Settings", sort: param("sort"), onSort: (sort) => app.set({ sort }),
    columns: [{ name: "resource_type", title: "of", min: 90, grow: 0.5 }, { name: "resource", title: "which", min: 110, grow: 2, show: (row) => row.resource || "(all of them)" }, { name: "name", title: "setting", min: 140, grow: 3 }, { name: "value", min: 90, grow: 2, drop: 1 }],
    load: (first, n, signal) => ask("/tables/configs", { at: app.at, first, n, q: param("q"), sort: param("sort") }, { signal }),
    nothing: () => (param("q") ? "No setting has this text in it." : "Nothing is set in the metadata at this moment: what counts are the files of the nodes, and defaults."),
  });
  const features = panel("Features", "");
  const search = debouncedInput({ placeholder: "Find", "aria-label": "Find", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Settings")), h("div", { class: "tools" }, search), rows.el, features);
  const load = async () => {
    const told = await ask("/tables/features", { at: app.at, n: 200 });
    fill(features, h("h2", {}, "Features"), told.rows.length ? plainTable(["feature", num("level")], told.rows.map(([name, level]) => [name, num(level)])) : empty("No feature is finalized at this moment."));
  };
  await Promise.all([rows.reload(), load()]);
  return { update: () => (rows.reload({ top: true }), load()), pulse: (_, changed) => changed && (rows.reload(), load()), close: () => rows.close(), drawn: () => rows.lay() };
}
