// Groups: who reads, how far behind, whether they catch up; and of one group its members and its lag over time.

import { h, ask, count, many, short, state, debouncedInput, fill, failed, empty, panel, plainTable, num, as, span, when, newest } from "./kit.js";
import { Rows } from "./rows.js";
import { Chart } from "./chart.js";
import * as changing from "./changing.js";

const LINES = 4; // of partitions, that are drawn
const WELL = new Set(["Stable", "Reconciling", "Assigning"]);
const shape = (name) => (name === null ? "–" : WELL.has(name) ? state(false, name) : name === "Empty" ? state(false, name, "○") : name === "Dead" ? state(true, name) : state(false, name, "◐"));

function trend(per_s, left_s, lag) {
  if (lag === 0) return "up to date";
  if (per_s === null || lag === null) return "–";
  if (Math.abs(per_s) * 60 < Math.max(30, lag / 20)) return "steady";
  return per_s > 0 ? `falls behind by ${short(per_s)}/s` : left_s === null ? "catches up" : `caught up in ${span(left_s * 1000)}`;
}

export async function open(app, root) {
  if (!app.about.live) {
    root.append(h("h1", {}, "Groups"), panel("", "", empty("These are files of a metadata log, which has nothing of groups. A running cluster tells them: rayft ui -b HOST:PORT.")));
    return {};
  }
  return app.route.rest.length ? one(app, root, app.route.rest[0]) : all(app, root);
}

const past = (app) => (app.isNow ? null : h("div", { class: "note" }, "Groups are those of now, and their lag is known since this page was started: the metadata log has nothing of them."));

async function all(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const note = h("div", {});
  const rows = new Rows({
    label: "Groups", sort: param("sort"), onSort: (sort) => app.set({ sort }),
    columns: [
      { name: "group", min: 120, grow: 3 }, { name: "state", min: 110, grow: 1, show: (row) => shape(row.state) }, { name: "type", min: 84, grow: 0.5, drop: 3 },
      { name: "lag", min: 72, number: true, show: (row) => (row.lag === null ? "–" : count(row.lag)) },
      { name: "per_s", title: "trend", min: 170, grow: 1, drop: 1, show: (row) => trend(row.per_s, row.caught_up_s, row.lag) },
      { name: "partitions", title: "partitions", min: 84, number: true, drop: 2, show: (row) => count(row.partitions) }, { name: "coordinator", min: 96, number: true, drop: 4 },
    ],
    load: async (first, n, signal) => {
      const told = await ask("/groups", { first, n, q: param("q"), sort: param("sort") }, { signal });
      const words = [told.problem, told.left_out && `${many(told.left_out, "group")} more are listed without lag: this page samples 500.`, told.series_left_out && `The lag of ${many(told.series_left_out, "partition")} is not kept over time: there are too many.`].filter(Boolean);
      fill(note, words.map((words) => h("div", { class: "note" }, words)));
      return told;
    },
    open: (row) => app.go(`groups/${encodeURIComponent(row.group)}`),
    nothing: () => (param("q") ? "No group has this name." : "No group has committed an offset, or has members. One appears here as soon as a consumer joins."),
  });
  const search = debouncedInput({ placeholder: "Find a group", "aria-label": "Find a group", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Groups")), past(app) ?? "", note, h("div", { class: "tools" }, search), rows.el);
  await rows.reload();
  const timer = setInterval(() => !document.hidden && rows.reload(), 5000);
  return { update: () => rows.reload({ top: true }), close: () => (clearInterval(timer), rows.close()), drawn: () => rows.lay() };
}

async function one(app, root, name) {
  const param = (key) => app.route.params.get(key) ?? "";
  const figures = h("div", { class: "grid" }), lag = panel("", ""), members = panel("Members", ""), parts = panel("Partitions", "");
  const chart = new Chart({ height: 200 });
  const choice = h("div", { class: "choice", role: "group", "aria-label": "How far back" }, ["hour", "day"].map((one) => h("button", { "aria-pressed": String((param("span") || "hour") === one), onclick: (event) => { app.set({ span: one === "hour" ? "" : one }); for (const other of event.target.parentNode.children) other.setAttribute("aria-pressed", String(other === event.target)); } }, one === "hour" ? "An hour" : "A day")));
  const said = h("p", { class: "soft" });
  let behind = null;
  const tools = app.mayChange ? h("div", { class: "tools acts" }, h("button", { onclick: () => changing.resetGroup(app, name) }, "Reset offsets"), h("button", { class: "danger", onclick: () => changing.deleteGroup(app, name, behind) }, "Delete")) : null;
  lag.append(h("div", { class: "view-head" }, h("h2", {}, "Lag over time, records"), choice), chart.el, said);
  lag.firstChild.firstChild.style.flex = "1";
  root.append(h("div", { class: "view-head" }, h("h1", {}, h("a", { href: app.link("groups") }, "Groups"), " / ", name)), past(app) ?? "", tools ?? "", figures, h("div", { class: "grid" }, lag, parts, members));

  const load = newest(async (signal) => {
    const [told, over] = await Promise.all([ask("/group", { name }, { signal }), ask("/group/lag", { name, span: param("span"), lines: LINES }, { signal })]);
    const lags = told.rows.filter((row) => row[2] !== null).map((row) => row[4]); // of those that it has committed in
    behind = lags.length && !lags.includes(null) ? lags.reduce((all, one) => all + one, 0) : null;
    const figure = (value, words) => h("div", { class: "panel three figure" }, h("span", { class: "large" }, value), h("span", { class: "soft" }, words));
    fill(figures, figure(shape(told.state), `${told.type}${told.protocol ? `, ${told.protocol}` : ""}`), figure(count(behind), "records behind"), figure(trend(over.per_s, over.caught_up_s, behind), "trend"), figure(count(told.member_count), told.member_count === 1 ? "member" : "members"));
    draw(over);
    const names = new Map(told.members.map((one) => [one.id, one.client]));
    fill(parts, h("h2", {}, "Partitions"), told.rows.length ? plainTable(["partition", num("committed"), num("end"), num("lag"), h("span", { class: "wide" }, "read by")], told.rows.map(([topic, partition, committed, end, behind, owner]) => [as(h("a", { href: app.link(`topics/${encodeURIComponent(topic)}`, { partition }) }, `${topic}-${partition}`)), num(count(committed)), num(count(end)), num(count(behind)), as(h("span", { class: "wide soft" }, owner === null ? "nobody" : names.get(owner) ?? owner))])) : empty("It has committed no offset, and nothing is assigned."));
    fill(members, h("h2", {}, "Members"), told.members.length ? plainTable(["client", h("span", { class: "wide" }, "host"), "assigned", h("span", { class: "wide" }, "member id")], told.members.map((one) => [`${one.client}${one.instance ? ` (${one.instance})` : ""}`, as(h("span", { class: "wide soft" }, one.host)), Object.entries(one.assignment).map(([topic, list]) => `${topic}: ${list.join(" ")}`).join("; ") || "nothing", as(h("span", { class: "wide mono soft" }, one.id))])) : empty("It has no members now: nobody reads, and the lag grows with what is written."));
  });

  function draw(over) {
    if (over.times.length < 2) return (said.textContent = "The first samples are being taken: a cluster keeps no history of lag, so it begins when this page does.");
    const worst = Object.entries(over.partitions), more = worst.length + over.left_out;
    const labels = ["all partitions", ...(more > 1 ? worst.map(([label]) => label) : [])];
    chart.draw(labels, [over.times.map((ms) => ms / 1000), over.total, ...(labels.length > 1 ? worst.map(([, values]) => values) : [])]);
    said.textContent = `Since ${when(over.times[0])} UTC.${over.left_out ? " The four partitions with most lag are drawn." : ""}`;
  }

  const broken = (error) => fill(figures, h("div", { class: "panel" }, failed(error)));
  await load().catch(broken);
  const timer = setInterval(() => !document.hidden && load().catch(broken), 5000);
  return { update: () => load().catch(broken), close: () => (clearInterval(timer), load.end(), chart.close()) };
}
