// Ask: SQL over the tables of the moment, read-only.

import { h, ask, answered, count, many, failed, fill, empty, when, newest } from "./kit.js";
import { Rows } from "./rows.js";
import { Chart } from "./chart.js";

const EXAMPLES = [
  ["Leaders of each broker", "select leader, count(*) as partitions\nfrom partitions\ngroup by leader\norder by partitions desc"],
  ["Partitions without all replicas", "select topic, partition, leader, isr, replicas\nfrom partitions\nwhere under_replicated\norder by topic, partition"],
  ["Changes of leaders, by minute", "select date_trunc('minute', timestamp) as minute, count(*) as changes\nfrom changes\nwhere kind = 'leader'\ngroup by minute\norder by minute"],
  ["Topics that changed leaders most", "select topic, count(*) as changes, max(timestamp) as last\nfrom changes\nwhere kind = 'leader'\ngroup by topic\norder by changes desc\nlimit 20"],
  ["Settings that differ between topics", "select name, value, count(*) as topics\nfrom configs\nwhere resource_type = 'topic'\ngroup by name, value\norder by name, topics desc"],
];

export async function open(app, root) {
  const text = h("textarea", { rows: 6, class: "mono", spellcheck: "false", "aria-label": "Question in SQL", placeholder: "select …", onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && run() });
  text.value = app.route.params.get("sql") ?? EXAMPLES[0][1];
  const examples = h("select", { "aria-label": "Examples", onchange: () => { if (examples.value) text.value = EXAMPLES[Number(examples.value)][1]; run(); } }, h("option", { value: "" }, "Examples"), EXAMPLES.map(([title], at) => h("option", { value: String(at) }, title)));
  const go = h("button", { class: "main", onclick: () => run() }, "Ask"), saves = ["Arrow", "Parquet"].map((one) => h("button", { onclick: () => download(one.toLowerCase()) }, `Save as ${one}`));
  const said = h("span", { class: "soft", role: "status" }), unsaved = h("div", {}), out = h("div", {});
  const tables = h("details", {}, h("summary", {}, "Tables and columns"), h("p", { class: "soft" }, "…"));
  root.append(h("div", { class: "view-head" }, h("h1", {}, "Ask"), h("span", { class: "soft" }, "SQL (DuckDB) over the tables of the moment. It can only read them.")), text, h("div", { class: "tools" }, go, examples, saves, said), unsaved, out, tables);
  ask("/tables").then((told) => fill(tables, h("summary", {}, "Tables and columns"), h("dl", { class: "pairs" }, Object.entries(told).map(([name, columns]) => [h("dt", {}, h("code", {}, name)), h("dd", { class: "soft" }, Object.keys(columns).join(", "))]))), () => null);
  let rows = null, chart = null;

  const body = (format) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ sql: text.value, at: app.at, format }) });

  const answer = newest((signal) => ask("/ask", {}, { ...body("json"), signal }));

  async function run() {
    app.route.params.set("sql", text.value);
    history.replaceState(null, "", app.link("ask", { sql: text.value.length < 1500 ? text.value : "" }));
    said.textContent = "asking …";
    fill(unsaved);
    const begun = performance.now();
    try {
      const told = await answer();
      if (!told) return; // another question was asked meanwhile
      said.textContent = `${many(told.rows.length, "row")}${told.is_cut ? ", of more" : ""}, ${Math.round(performance.now() - begun)} ms`;
      draw(told);
    } catch (error) {
      said.textContent = "";
      shut();
      fill(out, failed(error));
    }
  }

  function shut() {
    rows?.close();
    chart?.close();
    rows = chart = null;
  }

  function draw(told) {
    shut();
    if (!told.rows.length) return fill(out, empty("The question gives no rows at this moment."));
    const isTime = (at) => told.types[at].startsWith("timestamp"), isNumber = (at) => /^(u?int|float|double|decimal)/.test(told.types[at]);
    const names = told.columns.map((_, at) => String(at)); // columns may have the same name, or any
    const show = (at) => (row) => {
      const value = row[names[at]];
      return value === null ? null : isTime(at) ? when(value, true) : isNumber(at) ? (typeof value === "number" ? count(value) : value) : typeof value === "object" ? JSON.stringify(value) : String(value);
    };
    rows = new Rows({
      label: "Answer", columns: names.map((name, at) => ({ name, title: told.columns[at], min: isNumber(at) ? 90 : 130, grow: isNumber(at) ? 0.4 : 1, number: isNumber(at), show: show(at) })),
      load: async (first, n) => ({ total: told.rows.length, columns: names, rows: told.rows.slice(first, first + n) }),
    });
    fill(out, rows.el);
    rows.reload();
    const time = told.types.findIndex((_, at) => isTime(at)), numbers = told.types.map((_, at) => at).filter(isNumber);
    if (time >= 0 && numbers.length && told.rows.length > 1 && told.rows.length < 5000) {
      const sorted = told.rows.filter((row) => row[time] !== null).sort((a, b) => a[time] - b[time]);
      chart = new Chart({ height: 180 });
      out.prepend(chart.el);
      chart.draw(numbers.map((at) => told.columns[at]), [sorted.map((row) => row[time] / 1000), ...numbers.map((at) => sorted.map((row) => (row[at] === null ? null : Number(row[at]))))]);
    }
  }

  async function download(format) {
    fill(unsaved);
    let link;
    try {
      const told = await answered("/ask", {}, body(format)), most = told.headers.get("rayft-cut-at");
      link = h("a", { href: URL.createObjectURL(await told.blob()), download: `answer${most ? `-first-${most}-rows` : ""}.${format}` });
      if (most) fill(unsaved, h("p", { class: "soft", role: "status" }, `${link.download} has the first ${many(Number(most), "row")} of more.`));
    } catch (error) {
      return fill(unsaved, failed(error)); // the answer that is shown stays
    }
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  run();
  return { update: run, close: () => (answer.end(), shut()), drawn: () => rows?.lay() };
}
