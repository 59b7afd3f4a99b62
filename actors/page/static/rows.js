// A table that scrolls over any number of rows: it asks for the slices that are visible, and drops late answers.

import { h, fill, count, failed, empty } from "./kit.js";

const ROW = 32;
const SLICE = 100;
const HEIGHT_MAX = 8e6; // what browsers can lay out; more rows than that move under a shorter scroll bar

export class Rows {
  /**
   * columns: {name, title, min px, grow, number, drop, show(row)}; the highest `drop` leaves first where there is no room.
   * load(first, n, signal) -> {total, columns, rows}. open(row): what a click or Enter does.
   */
  constructor({ columns, load, open = null, sort = "", onSort = null, nothing = "There is nothing here.", height = "", label = "" }) {
    Object.assign(this, { columns, load, open, sort, onSort, nothing, total: 0, slices: new Map(), waiting: new Map(), age: 0, chosen: -1 });
    this.spacer = h("div", {});
    this.head = h("div", { class: "rows-head", role: "row" });
    this.box = h("div", { class: "rows", role: "table", tabindex: "0", "aria-label": label, onscroll: () => this.soon(), onkeydown: (event) => this.key(event) },
      this.head, this.spacer);
    this.foot = h("p", { class: "rows-foot", "aria-live": "polite" });
    this.message = h("div", {});
    this.height = height;
    this.el = h("div", {}, this.box, this.message, this.foot);
    this.spacer.style.position = "relative";
    this.watch = new ResizeObserver(() => this.lay());
    this.watch.observe(this.box);
    this.resized = () => this.fit();
    addEventListener("resize", this.resized);
  }

  close() {
    this.watch.disconnect();
    removeEventListener("resize", this.resized);
    for (const one of this.waiting.values()) one.abort();
  }

  /** Ask anew: other rows are wanted. The old ones stay until the answer is there. */
  async reload({ top = false } = {}) {
    const age = ++this.age;
    for (const one of this.waiting.values()) one.abort();
    this.waiting.clear();
    if (top) this.box.scrollTop = 0;
    const first = Math.floor(this.first() / SLICE) * SLICE;
    const mine = new AbortController();
    this.waiting.set(first, mine);
    try {
      const told = await this.load(first, SLICE, mine.signal);
      if (age !== this.age) return;
      this.slices = new Map([[first, this.named(told)]]);
      this.waiting.delete(first);
      this.total = told.total;
      this.message.replaceChildren();
      this.extra = told;
      this.lay();
    } catch (error) {
      if (mine.signal.aborted) return;
      this.total = 0;
      this.slices.clear();
      this.lay();
      this.message.replaceChildren(failed(error));
    }
  }

  named(told) {
    return told.rows.map((row) => Object.fromEntries(told.columns.map((name, at) => [name, row[at]])));
  }

  first() {
    const over = Math.max(1, this.spacer.offsetHeight + ROW - this.box.clientHeight);
    const most = Math.max(0, this.total - this.visible());
    return this.total * ROW <= HEIGHT_MAX ? Math.floor(this.box.scrollTop / ROW) : Math.round(Math.min(1, this.box.scrollTop / over) * most);
  }

  visible() {
    return Math.max(1, Math.floor((this.box.clientHeight - ROW) / ROW));
  }

  fit() {
    const room = Math.max(240, innerHeight - this.box.getBoundingClientRect().top - 72);
    const most = this.height === "all" ? this.total * ROW : Math.min(this.total, Math.floor(room / ROW) - 1) * ROW;
    this.box.style.height = `${Math.max(most, 0) + ROW + 2}px`;
  }

  lay() {
    const width = this.box.clientWidth - 32;
    let shown = [...this.columns];
    const need = () => shown.reduce((sum, one) => sum + (one.min ?? 80) + 16, 0);
    while (need() > width && shown.length > 1 && shown.some((one) => one.drop)) {
      const leaves = shown.reduce((a, b) => ((b.drop ?? 0) > (a.drop ?? 0) ? b : a));
      shown = shown.filter((one) => one !== leaves);
    }
    this.shown = shown;
    this.grid = shown.map((one) => `minmax(${one.min ?? 80}px, ${one.grow ?? 0.001}fr)`).join(" ");
    this.head.style.gridTemplateColumns = this.grid;
    fill(this.head, shown.map((one) => this.heading(one)));
    this.box.classList.toggle("hidden", !this.total);
    this.spacer.style.height = `${Math.min(this.total * ROW, HEIGHT_MAX)}px`;
    this.fit();
    if (!this.total && !this.message.firstChild) this.message.replaceChildren(empty(typeof this.nothing === "function" ? this.nothing() : this.nothing));
    this.box.setAttribute("aria-rowcount", this.total + 1);
    this.draw();
  }

  heading(one) {
    const way = this.sort === one.name ? "ascending" : this.sort === `-${one.name}` ? "descending" : null;
    const arrow = way ? (way === "ascending" ? " ↑" : " ↓") : "";
    const props = { class: `rows-cell ${one.number ? "number" : ""}`, role: "columnheader", "aria-sort": way, title: one.help ?? null };
    if (!this.onSort || one.fixed) return h("div", props, one.title ?? one.name);
    const next = way === "ascending" ? `-${one.name}` : way === "descending" ? "" : one.number ? `-${one.name}` : one.name;
    return h("div", props, h("button", { onclick: () => this.onSort((this.sort = way === "ascending" && one.number ? "" : way === "descending" && one.number ? one.name : next)) }, `${one.title ?? one.name}${arrow}`));
  }

  soon() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.grid) return;
    const first = this.first();
    const last = Math.min(this.total, first + this.visible() + 2);
    const top = this.total * ROW <= HEIGHT_MAX ? first * ROW : this.box.scrollTop;
    const made = [];
    for (let at = first; at < last; at++) {
      const row = this.row(at);
      const open = row && this.open;
      const line = h("div", { class: `rows-row ${open ? "open" : ""} ${at === this.chosen ? "chosen" : ""}`, role: "row", "aria-rowindex": String(at + 2), onclick: open ? () => this.choose(at) : null },
        this.shown.map((one) => h("div", { class: `rows-cell ${one.number ? "number" : ""} ${row ? "" : "waits"}`, role: "cell" }, row ? this.cell(one, row) : "")));
      line.style.top = `${top + (at - first) * ROW}px`;
      line.style.gridTemplateColumns = this.grid;
      made.push(line);
    }
    this.spacer.replaceChildren(...made);
    const range = this.total ? `${count(first + 1)} to ${count(Math.min(this.total, first + this.visible()))} of ${count(this.total)}` : "";
    this.foot.replaceChildren(range);
    for (const slice of new Set([first, Math.max(first, last - 1)].map((at) => Math.floor(at / SLICE) * SLICE))) this.fetch(slice);
  }

  cell(one, row) {
    const value = one.show ? one.show(row) : row[one.name];
    return value === null || value === undefined ? "–" : value instanceof Node || Array.isArray(value) ? value : String(value);
  }

  row(at) {
    return this.slices.get(Math.floor(at / SLICE) * SLICE)?.[at % SLICE];
  }

  async fetch(first) {
    if (!this.total || this.slices.has(first) || this.waiting.has(first) || first >= this.total) return;
    const mine = new AbortController();
    for (const [other, one] of this.waiting) if (Math.abs(other - first) > SLICE) one.abort(), this.waiting.delete(other);
    this.waiting.set(first, mine);
    try {
      const told = await this.load(first, SLICE, mine.signal);
      if (mine.signal.aborted) return;
      this.slices.set(first, this.named(told));
      while (this.slices.size > 12) this.slices.delete(this.slices.keys().next().value);
      this.draw();
    } catch (error) {
      if (!mine.signal.aborted) this.message.replaceChildren(failed(error));
    } finally {
      if (this.waiting.get(first) === mine) this.waiting.delete(first);
    }
  }

  choose(at) {
    this.chosen = at;
    this.draw();
    const row = this.row(at);
    if (row && this.open) this.open(row);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: this.visible(), PageUp: -this.visible(), Home: -Infinity, End: Infinity }[event.key];
    if (event.target !== this.box) return;
    if (event.key === "Enter" && this.chosen >= 0) {
      event.preventDefault(); // else it would press what has the focus next
      this.choose(this.chosen);
    }
    if (step === undefined || !this.total) return;
    event.preventDefault();
    const from = this.chosen < 0 ? this.first() - (step > 0 ? 1 : 0) : this.chosen;
    this.chosen = Math.min(this.total - 1, Math.max(0, from + step));
    const first = this.first();
    if (this.chosen < first || this.chosen >= first + this.visible()) {
      const to = this.chosen < first ? this.chosen : this.chosen - this.visible() + 1;
      const over = this.spacer.offsetHeight + ROW - this.box.clientHeight;
      this.box.scrollTop = this.total * ROW <= HEIGHT_MAX ? to * ROW : (to / Math.max(1, this.total - this.visible())) * over;
    }
    this.draw();
  }
}
