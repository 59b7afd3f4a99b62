// Security: rules, users, quotas and tokens at a moment. Secrets are in none of the tables.

import { h, ask, count, when, debouncedInput, state } from "./kit.js";
import { Rows } from "./rows.js";

const KINDS = {
  acls: ["Rules", "There is no access rule at this moment.", [
    { name: "principal", min: 120, grow: 2 }, { name: "permission", min: 84, show: (row) => state(row.permission === "deny", row.permission) }, { name: "operation", min: 96, grow: 1 },
    { name: "resource_type", title: "of", min: 90, grow: 0.5, drop: 2 }, { name: "resource", min: 110, grow: 2, drop: 1 }, { name: "pattern", min: 80, drop: 4 }, { name: "host", min: 80, grow: 0.5, drop: 3 }]],
  scram: ["Users", "No user has a password (SCRAM) at this moment.", [{ name: "user", min: 140, grow: 2 }, { name: "mechanism", min: 140, grow: 1 }, { name: "iterations", min: 90, number: true, show: (row) => count(row.iterations) }]],
  quotas: ["Quotas", "No client has a quota at this moment.", [
    { name: "entity", min: 160, grow: 2, fixed: true, show: (row) => row.entity.map((one) => `${one.type} ${one.name ?? "(default)"}`).join(", ") }, { name: "quota", min: 150, grow: 1 }, { name: "value", min: 100, number: true, show: (row) => count(row.value) }]],
  tokens: ["Tokens", "There is no delegation token at this moment.", [
    { name: "token", min: 140, grow: 1 }, { name: "owner", min: 120, grow: 1 }, { name: "renewers", min: 120, grow: 1, drop: 2, show: (row) => row.renewers.join(", ") || "–" }, { name: "expires", title: "expires, UTC", min: 150, show: (row) => when(row.expires) }]],
};

export async function open(app, root) {
  const param = (name) => app.route.params.get(name) ?? "";
  const kind = Object.hasOwn(KINDS, param("kind")) ? param("kind") : "acls";
  const choose = (name) => h("button", { "aria-pressed": String(name === kind), onclick: () => { app.set({ kind: name === "acls" ? "" : name, q: "", sort: "" }); app.navigate(); } }, KINDS[name][0]);
  const rows = new Rows({
    label: KINDS[kind][0], columns: KINDS[kind][2], sort: param("sort"), onSort: (sort) => app.set({ sort }),
    load: (first, n, signal) => ask(`/tables/${kind}`, { at: app.at, first, n, q: param("q"), sort: param("sort") }, { signal }),
    nothing: () => (param("q") ? "Nothing here has this text in it." : KINDS[kind][1]),
  });
  const search = debouncedInput({ placeholder: "Find", "aria-label": "Find", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Security"), h("span", { class: "soft" }, "Without secrets.")), h("div", { class: "tools" }, h("div", { class: "choice", role: "group", "aria-label": "What is listed" }, Object.keys(KINDS).map(choose)), search), rows.el);
  await rows.reload();
  return { update: () => rows.reload({ top: true }), pulse: (_, changed) => changed && rows.reload(), close: () => rows.close(), drawn: () => rows.lay() };
}
