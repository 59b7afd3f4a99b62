// Topics: what there are; and of one topic its records, its partitions with their offsets, its settings.

import { h, ask, address, count, many, state, debouncedInput, fill, failed, empty, panel, plainTable, num, as, pairs, when, brief as short, size, drawer, newest } from "./kit.js";
import { Rows } from "./rows.js";
import * as changing from "./changing.js";

export async function open(app, root) {
  return app.route.rest.length ? one(app, root, app.route.rest[0]) : all(app, root);
}

async function all(app, root) {
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
    open: (row) => app.go(`topics/${encodeURIComponent(row.topic)}`),
    nothing: () => (param("q") ? "No topic has this name at this moment." : "There was no topic at this moment."),
  });
  const search = debouncedInput({ placeholder: "Find a topic", "aria-label": "Find a topic", value: param("q") }, (q) => app.set({ q }));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Topics")), h("div", { class: "tools" }, search, app.mayChange && h("button", { class: "main acts", onclick: () => changing.createTopic(app) }, "New topic")), rows.el);
  await rows.reload();
  return { update: () => rows.reload({ top: true }), pulse: (_, changed) => changed && rows.reload(), close: () => rows.close(), drawn: () => rows.lay() };
}

const TABS = { records: "Records", offsets: "Partitions", settings: "Settings" };

async function one(app, root, name) {
  const tab = Object.hasOwn(TABS, app.route.params.get("tab")) ? app.route.params.get("tab") : "records";
  const choose = (which) => h("button", { "aria-pressed": String(which === tab), onclick: () => { app.set({ tab: which === "records" ? "" : which }); app.navigate(); } }, TABS[which]);
  root.append(h("div", { class: "view-head" }, h("h1", {}, h("a", { href: app.link("topics") }, "Topics"), " / ", name), h("div", { class: "choice", role: "group", "aria-label": "What is shown" }, Object.keys(TABS).map(choose))));
  if (!app.about.live) {
    root.append(panel("", "", empty("These are files of a metadata log. The records of a topic can be read from a running cluster: rayft ui -b HOST:PORT. ", h("a", { href: app.link("partitions", { q: name }) }, "Its partitions are here."))));
    return {};
  }
  if (app.mayChange) {
    const act = (words, what, kind = "") => h("button", { class: kind, onclick: what }, words);
    root.append(h("div", { class: "tools acts" }, act("Write a record", () => changing.produce(app, name, app.route.params.get("partition") ?? "")), act("More partitions", async () => {
      const told = await ask(`/topics/${encodeURIComponent(name)}`).catch((error) => app.say(error));
      if (told) changing.growTopic(app, name, told.rows.length);
    }), act("Empty", () => changing.emptyTopic(app, name), "danger"), act("Delete", () => changing.deleteTopic(app, name), "danger")));
  }
  if (!app.isNow) root.append(h("div", { class: "note" }, "Records and offsets are those of now: the slider moves the metadata alone."));
  return { records, offsets, settings }[tab](app, root, name);
}

// ---- records

/** What a value says by its schema, as if that were its text. */
const by = (part, way) => (way === "schema" && part?.decoded !== undefined ? { size: part.size, text: part.decoded } : part);
const text = (part) => (part === null ? null : part.text ?? `${part.base64.slice(0, 400)}${part.base64.length > 400 ? "…" : ""}`);
const brief = (given, way, part = by(given, way)) => (part === null ? h("span", { class: "soft" }, "null") : part.text === undefined || way === "bytes" ? h("span", { class: "mono soft" }, hex(part, 24)) : part.text === "" ? h("span", { class: "soft" }, "empty") : part.text.slice(0, 300));

function bytes(part) {
  if (part.base64 === undefined) return new TextEncoder().encode(part.text);
  return Uint8Array.from(atob(part.base64), (one) => one.charCodeAt(0));
}
function hex(part, most) {
  const found = bytes(part);
  return [...found.slice(0, most)].map((one) => one.toString(16).padStart(2, "0")).join(" ") + (found.length > most || part.size > found.length ? " …" : "");
}
function dump(part) {
  const found = bytes(part), lines = [];
  for (let at = 0; at < found.length; at += 16) {
    const some = [...found.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, "0")}  ${some.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(48)}  ${some.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n");
}
function pretty(given, way) {
  const part = by(given, way);
  if (part === null) return "null";
  if (way === "bytes" || part.text === undefined) return dump(part);
  if (way === "text") return part.text;
  try {
    return JSON.stringify(JSON.parse(part.text), null, 2);
  } catch {
    return part.text;
  }
}

async function records(app, root, name) {
  const param = (key, otherwise = "") => app.route.params.get(key) ?? otherwise;
  const from = h("select", { "aria-label": "From where", onchange: () => (place.classList.toggle("hidden", !["offset", "time"].includes(from.value)), place.focus()) },
    [["latest", "The last records"], ["earliest", "From the beginning"], ["offset", "From an offset"], ["time", "From a time, UTC"]].map(([value, words]) => h("option", { value, selected: kindOf(param("from", "latest")) === value }, words)));
  const place = h("input", { "aria-label": "Offset or time", placeholder: "1200 or 2026-11-29T14:02", value: ["latest", "earliest"].includes(param("from", "latest")) ? "" : param("from"), class: ["offset", "time"].includes(kindOf(param("from", "latest"))) ? "" : "hidden" });
  const partition = h("input", { "aria-label": "Partitions", placeholder: "All partitions", class: "narrow", value: param("partition"), inputmode: "numeric" });
  const field = h("select", { "aria-label": "Where the text is" }, ["any", "key", "value", "headers"].map((one) => h("option", { value: one, selected: param("field") === one }, one === "any" ? "anywhere" : `in ${one === "key" ? "the key" : one === "value" ? "the value" : "headers"}`)));
  const search = h("input", { type: "search", "aria-label": "Text that a record must hold", placeholder: "Records that hold this text", class: "grow", value: param("q") });
  const n = h("select", { "aria-label": "How many" }, [50, 200, 1000].map((one) => h("option", { value: String(one), selected: param("n") === String(one) }, `${one} records`)));
  const go = h("button", { class: "main", type: "submit" }, "Read"), live = h("button", { type: "button", onclick: () => begin(true) }, "Live"), stop = h("button", { type: "button", onclick: () => end("stopped") }, "Stop");
  const keeps = { jsonl: h("a", { download: "" }, "JSON lines"), parquet: h("a", { download: "" }, "Parquet") };
  const keep = h("span", { class: "export", title: "At most 100,000 records, from the same place and with the same text" }, "Export ", keeps.jsonl, keeps.parquet);
  const form = h("form", { class: "tools", onsubmit: (event) => (event.preventDefault(), begin(false)) }, from, place, partition, search, field, n, go, live, stop, keep);
  const said = h("span", { class: "soft", role: "status" }), bar = h("div", {}), progress = h("div", { class: "progress" }, bar);
  const box = h("div", {});
  let way = param("as", app.about.has_registry ? "schema" : "text"), found = [], source = null, rows = null;
  const ways = h("div", { class: "choice", role: "group", "aria-label": "Values as" }, [...(app.about.has_registry ? ["schema"] : []), "text", "JSON", "bytes"].map((one) => h("button", { "aria-pressed": String(one === way), onclick: (event) => { way = one; app.set({ as: one === (app.about.has_registry ? "schema" : "text") ? "" : one }); for (const other of event.target.parentNode.children) other.setAttribute("aria-pressed", String(other === event.target)); rows?.draw(); } }, one)));
  root.append(form, h("div", { class: "view-head" }, said, ways), progress, box);

  rows = new Rows({
    label: `Records of ${name}`, columns: [
      { name: "timestamp", title: "time, UTC", min: 108, drop: 2, show: (row) => short(row.timestamp) },
      { name: "partition", title: "part.", min: 44, number: true, drop: 1 },
      { name: "offset", min: 72, number: true, show: (row) => count(row.offset) },
      { name: "key", min: 80, grow: 1, show: (row) => brief(row.key, way) },
      { name: "value", min: 140, grow: 4, show: (row) => brief(row.value, way) },
      { name: "size", min: 72, number: true, drop: 3, show: (row) => size(row.value?.size ?? 0) },
    ],
    load: async (first, n) => ({ total: found.length, first, columns: ["record"], rows: found.slice(first, first + n).map((one) => [one]) }),
    open: (row) => show(row), nothing: "",
  });
  rows.named = (told) => told.rows.map(([one]) => one);
  box.append(rows.el);

  function wish(tail) {
    const at = ["offset", "time"].includes(from.value) ? place.value.trim() || "0" : from.value;
    return { from: at, partition: partition.value.trim(), q: search.value, field: field.value === "any" ? "" : field.value, n: n.value, ...(tail ? { tail: "1" } : {}) };
  }

  function end(words) {
    source?.close();
    source = null;
    stop.classList.add("hidden");
    progress.classList.add("hidden");
    if (words) said.textContent = `${words}: ${many(found.length, "record")}`;
  }

  function begin(tail) {
    end("");
    const given = wish(tail);
    app.set({ from: given.from === "latest" ? "" : given.from, partition: given.partition, q: given.q, field: given.field, n: given.n === "50" ? "" : given.n });
    for (const [format, link] of Object.entries(keeps)) link.href = address(`/topics/${encodeURIComponent(name)}/export`, { ...given, n: "100000", format });
    found = [];
    rows.reload({ top: true });
    rows.message.replaceChildren();
    stop.classList.remove("hidden");
    progress.classList.remove("hidden");
    bar.style.width = "0";
    said.textContent = "reading …";
    source = new EventSource(address(`/topics/${encodeURIComponent(name)}/records`, given));
    source.addEventListener("progress", (event) => {
      const told = JSON.parse(event.data);
      bar.style.width = told.of > 0 ? `${(100 * told.scanned) / told.of}%` : "0";
      said.textContent = tail ? `waiting for more: ${many(found.length, "record")} so far` : `looked at ${count(told.scanned)} of ${count(told.of)} offsets`;
    });
    source.addEventListener("records", (event) => {
      const some = JSON.parse(event.data);
      found = tail ? [...some.reverse(), ...found].slice(0, 1000) : [...found, ...some];
      rows.reload();
    });
    source.addEventListener("end", () => {
      end(given.q ? "found" : "read");
      if (!found.length) rows.message.replaceChildren(empty(given.q ? "No record there holds this text." : "There are no records here."));
    });
    source.addEventListener("failed", (event) => (end("failed"), rows.message.replaceChildren(failed(new Error(JSON.parse(event.data).error)))));
    source.onerror = async () => {
      if (!source) return;
      end("failed");
      const mine = found, answer = await ask(`/topics/${encodeURIComponent(name)}`).then(() => null, (error) => error);
      if (mine !== found) return; // it was read anew meanwhile
      rows.message.replaceChildren(failed(answer ?? new Error("The reading ended before it was done: read again. If too many readings are under way, stop one.")));
    };
  }

  async function show(row) {
    const { body } = drawer(`${name}-${row.partition}, offset ${count(row.offset)}`, "");
    const draw = (one) => fill(body,
      pairs([["Time", `${when(one.timestamp, true)} UTC`], ["Key", one.key === null ? "null" : size(one.key.size)], ["Value", one.value === null ? "null (a tombstone)" : size(one.value.size)],
        ...[["Key", one.key], ["Value", one.value]].filter(([, part]) => part?.schema).map(([words, part]) => [`${words}’s schema`, part.decoded === undefined ? h("span", { class: "bad" }, part.schema) : part.schema])]),
      h("h3", {}, "Key"), h("pre", { class: "value" }, pretty(one.key, way)), h("h3", {}, "Value"), h("pre", { class: "value" }, pretty(one.value, way)),
      one.value && one.value.size > bytes(one.value).length ? h("p", { class: "soft" }, `The first ${size(bytes(one.value).length)} of ${size(one.value.size)}.`) : "",
      h("h3", {}, "Headers"), one.headers.length ? plainTable(["name", "value"], one.headers.map(([key, value]) => [key, text(value) ?? "null"])) : empty("It has no headers."),
      one.more_headers ? h("p", { class: "soft" }, `And ${count(one.more_headers)} more.`) : "");
    body.style.display = "grid";
    body.style.gap = "12px";
    draw(row);
    if (row.value && (row.value.size > bytes(row.value).length || (row.value.schema && row.value.decoded === undefined))) whole(name, row).then((one) => one && draw(one));
  }

  await rows.reload();
  begin(false);
  return { changed: () => begin(false), close: () => (end(""), rows.close()), drawn: () => rows.lay() };
}

const kindOf = (from) => (["latest", "earliest"].includes(from) ? from : /^\d+$/.test(from) ? "offset" : "time");

/** A record with all of its value. */
function whole(name, row) {
  return new Promise((done) => {
    const source = new EventSource(address(`/topics/${encodeURIComponent(name)}/records`, { partition: row.partition, from: row.offset, n: "1", bytes: String(1 << 20) }));
    source.addEventListener("records", (event) => (source.close(), done(JSON.parse(event.data)[0])));
    source.addEventListener("end", () => (source.close(), done(null)));
    source.addEventListener("failed", () => (source.close(), done(null)));
    source.onerror = () => (source.close(), done(null));
  });
}

// ---- partitions and settings

async function offsets(app, root, name) {
  const box = panel("", "");
  root.append(box);
  const load = newest(async (signal) => {
    const told = await ask(`/topics/${encodeURIComponent(name)}`, {}, { signal });
    const sum = told.rows.reduce((all, row) => all + (row[4] === null || row[5] === null ? 0 : row[5] - row[4]), 0);
    const wide = (text) => ({ numeric: true, node: h("span", { class: "wide" }, text) });
    fill(box, h("p", { class: "soft" }, `${many(told.rows.length, "partition")}, about ${many(sum, "record")}${told.internal ? ", internal" : ""}`),
      plainTable(["part.", num("leader"), h("span", { class: "wide" }, "replicas"), "ISR", wide("begins at"), num("ends at"), num("records")],
        told.rows.map(([partition, leader, replicas, isr, begin, finish]) => [as(h("a", { class: "once", href: app.link(`topics/${encodeURIComponent(name)}`, { partition }) }, String(partition))), leader < 0 ? as(state(true, "none")) : num(leader), as(h("span", { class: "wide" }, replicas.join(" "))),
          as(isr.length < replicas.length ? state(true, isr.join(" ")) : isr.join(" ")), wide(count(begin)), num(count(finish)), num(begin === null || finish === null ? "–" : count(finish - begin))])));
  });
  const reload = () => load().catch((error) => fill(box, failed(error)));
  await reload();
  const timer = setInterval(() => !document.hidden && reload(), 3000);
  return { update: reload, close: () => (clearInterval(timer), load.end()) };
}

async function settings(app, root, name) {
  const box = panel("", "");
  root.append(box);
  const load = newest(async (signal) => {
    const told = (await ask(`/topics/${encodeURIComponent(name)}`, {}, { signal })).settings;
    if (!told) return fill(box, empty("The cluster does not tell this topic's settings: DESCRIBE_CONFIGS may not be granted."));
    const own = told.filter((one) => one[2] === "topic"), others = told.filter((one) => one[2] !== "topic");
    const may = app.mayChange;
    const acts = (key, value, source) => (may ? [as(h("div", { class: "deeds acts" }, h("button", { "aria-label": `Change ${key}`, onclick: () => changing.setSetting(app, name, key, value) }, "Change"), source === "topic" && h("button", { "aria-label": `Take ${key} back to the default`, onclick: () => changing.unsetSetting(app, name, key) }, "Default")))] : []);
    const table = (some) => plainTable(["setting", "value", h("span", { class: "wide" }, "from"), ...(may ? [""] : [])], some.map(([key, value, source]) => [as(h("span", { class: "mono setting" }, key)), as(h("span", { class: "word" }, value === null || value === "" ? "–" : value)), as(h("span", { class: "wide" }, source)), ...acts(key, value, source)]));
    const add = may && h("div", { class: "tools acts" }, h("button", { onclick: () => changing.setSetting(app, name) }, "Set another one"));
    fill(box, add, h("h2", {}, "Set for this topic"), own.length ? table(own) : empty("Nothing: it has what the brokers have."), h("h2", {}, "From the brokers and defaults"), table(others));
  });
  await load();
  return { update: () => load().catch((error) => fill(box, failed(error))), close: () => load.end() };
}
