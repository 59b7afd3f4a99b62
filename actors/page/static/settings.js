// Settings: what is set in the metadata at a moment, the levels of features, and what differs between running brokers.

import { h, ask, panel, plainTable, num, as, empty, fill, failed, debouncedInput, many, newest } from "./kit.js";
import { Rows } from "./rows.js";
import { brokerSetting } from "./changing.js";

export async function open(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const rows = new Rows({
    label: "Settings", sort: param("sort"), onSort: (sort) => app.set({ sort }),
    columns: [{ name: "resource_type", title: "of", min: 90, grow: 0.5, drop: 2 }, { name: "resource", title: "which", min: 80, grow: 2, show: (row) => row.resource || "(all of them)" }, { name: "name", title: "setting", min: 110, grow: 3 }, { name: "value", min: 70, grow: 2, drop: 1 }],
    load: (first, n, signal) => ask("/tables/configs", { at: app.at, first, n, q: param("q"), sort: param("sort") }, { signal }),
    nothing: () => (param("q") ? "No setting has this text in it." : "Nothing is set in the metadata at this moment: what counts are the files of the nodes, and defaults."),
  });
  const features = panel("Features", "six"), differing = panel("What differs between brokers", "six");
  const search = debouncedInput({ placeholder: "Find", "aria-label": "Find", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Settings"), h("span", { class: "soft" }, "Values that are secret are hidden.")), h("div", { class: "tools" }, search, app.about.may_change && h("button", { class: "acts", onclick: () => brokerSetting(app) }, "Change a setting of brokers")), rows.el, h("div", { class: "grid" }, features, differing));

  const load = newest(async (signal) => {
    const told = await ask("/tables/features", { at: app.at, n: 200 }, { signal });
    fill(features, h("h2", {}, "Features"), told.rows.length ? plainTable(["feature", num("level")], told.rows.map(([name, level]) => [as(h("span", { class: "mono" }, name)), num(level)])) : empty("No feature is finalized at this moment."));
  });
  const tell = () => load().catch((error) => fill(features, h("h2", {}, "Features"), failed(error)));
  const compare = async () => {
    const title = h("h2", {}, "What differs between brokers");
    if (!app.about.live) return fill(differing, title, empty("Files of nodes' settings are not in the log: a running cluster tells them."));
    try {
      const told = await ask("/settings/brokers");
      const silent = Object.entries(told.silent).map(([broker, why]) => h("p", { class: "soft" }, `broker ${broker} did not tell: ${why}`));
      const values = (one) => h("div", {}, Object.entries(one.values).map(([broker, value]) => h("div", {}, h("span", { class: "soft" }, `broker ${broker}: `), value ?? "it has none")));
      fill(differing, title, app.isNow ? "" : h("p", { class: "soft" }, "As it is now: the log has nothing of the nodes' files."),
        told.differing.length ? plainTable(["setting", "values"], told.differing.map((one) => [as(h("span", { class: "mono" }, one.name)), as(values(one))])) : empty(`Nothing: ${many(told.brokers.length, "broker")} ${told.brokers.length === 1 ? "has" : "have"} the same settings, apart from ids, listeners and directories.`), silent);
    } catch (error) {
      fill(differing, title, failed(error));
    }
  };
  compare();
  await Promise.all([rows.reload(), tell()]);
  return { update: () => (rows.reload({ top: true }), tell(), compare()), pulse: (_, changed) => changed && (rows.reload(), tell()), close: () => (load.end(), rows.close()), drawn: () => rows.lay() };
}
