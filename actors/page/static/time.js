// Time: how much happened when, what happened, and two moments compared.

import { h, ask, count, fill, panel, when, brief as short, span, empty, many, plainTable, num, failed, newest } from "./kit.js";
import { Chart } from "./chart.js";
import { shape } from "./strip.js";
import { Rows } from "./rows.js";
import { columns, show } from "./changes.js";

export async function open(app, root) {
  const chart = new Chart({ height: 220 });
  const marks = panel("Marks", ""), compared = panel("Two moments compared", "");
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Time"), h("span", { class: "soft" }, "Every view shows the moment of the slider. Its address can be sent to somebody else.")),
    h("div", { class: "grid" }, panel("Records and changes per second", "", chart.el), marks, compared));

  const rows = new Rows({
    label: "Changes between the two moments", columns: columns(), sort: "offset",
    load: (first, n, signal) => ask("/tables/changes", { at: later().at, since: earlier().offset, first, n, sort: "offset" }, { signal }),
    open: (row) => show(app, row), nothing: "Nothing changed between these two moments.",
  });
  let other = null;
  const ordered = () => [app.moment, other].sort((a, b) => a.offset - b.offset);
  const earlier = () => ordered()[0];
  const later = () => ({ ...ordered()[1], at: ordered()[1].is_now ? "" : ordered()[1].offset });

  function draw() {
    const flow = app.strip.flow;
    if (!flow) return; // it could not be had yet
    const step = Math.max(0.001, (flow.ended_ms - flow.begun_ms) / flow.records.length / 1000);
    const times = flow.records.map((_, at) => flow.begun_ms / 1000 + (at + 0.5) * step);
    chart.draw(["records", "changes"], [times, flow.records.map((one) => one / step), flow.changes.map((one) => one / step)]);
    const upTo = flow.marks.filter((one) => app.isNow || one.offset < app.moment.offset).slice(-200).reverse();
    const list = plainTable(["time, UTC", "what happened", num("offset")], upTo.slice(0, 60).map((one) => [{ node: h("a", { class: "once", href: app.link("time", { at: one.offset + 1 }), title: `${when(one.time_ms, true)} UTC` }, short(one.time_ms)) }, { node: h("span", {}, `${shape(one)}  ${one.sentence}`) }, num(count(one.offset))]));
    fill(marks, h("h2", {}, "What happened up to this moment"), upTo.length ? list : empty("Nothing that is worth a mark."), upTo.length > 60 ? h("p", { class: "soft" }, "Older ones are in Changes.") : "");
  }

  const compare = newest(async (signal) => {
    const from = app.route.params.get("with");
    const begin = h("button", { onclick: () => app.set({ with: String(app.moment.offset) }) }, "Compare from this moment");
    if (from === null) {
      app.compared = other = null;
      app.strip.show(app.moment, null);
      return fill(compared, h("h2", {}, "Two moments compared"), h("p", { class: "soft" }, "Keep the moment that is shown, then move the slider to another one: what changed in between is listed here."), h("p", {}, begin));
    }
    other = (await ask("/tables/features", { at: from, n: 1 }, { signal })).moment;
    app.compared = other;
    app.strip.show(app.moment, other);
    await rows.reload({ top: true });
    const [a, b] = ordered();
    const end = h("button", { onclick: () => app.set({ with: "" }) }, "End the comparison");
    fill(compared, h("h2", {}, "Two moments compared"), h("p", {}, `${when(a.time_ms, true)} and ${when(b.time_ms, true)} UTC, ${span(b.time_ms - a.time_ms)} and ${many(b.offset - a.offset, "record")} apart: ${many(rows.total, "change")}.`), h("p", { class: "tools" }, end, h("button", { onclick: () => app.set({ with: String(app.moment.offset), at: from }) }, "Swap")), rows.el);
    rows.lay();
  });

  const reload = () => (draw(), compare().catch((error) => fill(compared, failed(error))));
  await reload();
  return { update: reload, pulse: (_, changed) => changed && reload(), grown: draw, drawn: () => (draw(), rows.lay()), close: () => { compare.end(); chart.close(); rows.close(); app.compared = null; } };
}
