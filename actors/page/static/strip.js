// The time under the head of every view: how much happened when, what happened, and the moment that is shown.

import { h, ask, when, clock, date, css, count, newest } from "./kit.js";

const STRETCHES = 400;
export const SHAPES = { election: "★", fencing: "▲", offline: "▲", shutdown: "▼", leader: "◇", isr: "△", replicas: "▭", topic: "●", registration: "○", config: "■", feature: "□", broker: "○", reassignment: "▭", setting: "■", security: "◆" };
export const shape = (mark) => (mark.is_bad ? "▲" : SHAPES[mark.kind] ?? "·");
const ROOM = 14; // for marks above the bars

export class Strip {
  constructor(onMove) {
    this.onMove = (at) => {
      this.waits = true; // until the moment that is asked for is shown
      onMove(at);
    };
    this.flow = null;
    this.ask = newest((signal) => ask("/timeline", { n: STRETCHES }, { signal }));
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.range = h("input", { type: "range", min: "0", max: String(STRETCHES), step: "1", "aria-label": "Moment that is shown", oninput: () => this.moved(), onmousemove: (event) => this.hint(event), onmouseleave: () => this.tip.classList.add("hidden"), onclick: (event) => this.snap(event) });
    this.tip = h("div", { class: "tip hidden" });
    this.at = h("span", { class: "at" });
    this.before = h("button", { "aria-label": "The mark before", title: "The mark before", onclick: () => this.step(-1) }, "◀");
    this.after = h("button", { "aria-label": "The next mark", title: "The next mark", onclick: () => this.step(1) }, "▶");
    this.play = h("button", { title: "Go through the marks", onclick: () => this.run() }, "Play");
    this.live = h("button", { onclick: () => this.onMove("") }, "Now");
    this.el = h("div", {},
      h("div", { class: "strip" }, this.canvas, this.range, h("div", { class: "ring" }), this.tip),
      (this.line = h("div", { class: "when" }, this.at, this.before, this.after, this.play, this.live)));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async load() {
    try {
      this.flow = (await this.ask()) ?? this.flow; // nothing: it was asked anew meanwhile
      this.hasFailed = false;
    } catch (error) {
      this.hasFailed = true;
      throw error;
    }
    this.draw();
  }

  show(moment, compared = null) {
    this.moment = moment;
    this.compared = compared;
    this.waits = false;
    this.draw();
  }

  stretch(offset) {
    const at = this.flow.ends.findIndex((end) => end >= offset);
    return at < 0 ? STRETCHES : at + 1;
  }

  moved() {
    if (!this.flow) return;
    const at = Number(this.range.value);
    this.onMove(at >= STRETCHES ? "" : String(at ? this.flow.ends[at - 1] : this.flow.extent.begin));
  }

  near(event) {
    const box = this.range.getBoundingClientRect();
    const x = event.clientX - box.left;
    let found = null;
    for (const mark of this.flow?.marks ?? []) {
      const away = Math.abs(this.x(mark.time_ms, box.width) - x);
      if (away < 6 && (!found || away < found.away)) found = { mark, away };
    }
    return { x, width: box.width, mark: found?.mark };
  }

  snap(event) {
    const { mark } = this.near(event);
    if (mark && event.detail) this.onMove(String(mark.offset + 1));
  }

  hint(event) {
    if (!this.flow) return;
    const { x, width, mark } = this.near(event);
    const ms = this.flow.begun_ms + ((x - 8) / Math.max(1, width - 16)) * (this.flow.ended_ms - this.flow.begun_ms);
    this.tip.textContent = mark ? `${clock(mark.time_ms)}  ${mark.sentence}` : when(ms);
    this.tip.classList.remove("hidden");
    this.tip.style.left = `${Math.max(0, Math.min(x + 8, width - this.tip.offsetWidth))}px`;
  }

  step(way) {
    if (!this.flow || !this.moment) return false;
    const here = this.moment.is_now ? Infinity : this.moment.offset;
    const places = [...new Set(this.flow.marks.map((one) => one.offset + 1))].sort((a, b) => a - b);
    const next = way < 0 ? places.filter((one) => one < here).at(-1) : places.find((one) => one > here);
    if (next !== undefined) this.onMove(String(next));
    else if (way > 0) this.onMove("");
    return next !== undefined;
  }

  run() {
    if (this.playing) return this.pause();
    if (!this.flow || !this.moment) return;
    if (this.moment.is_now) this.onMove(String(this.flow.extent.begin));
    this.play.textContent = "Stop";
    this.playing = setInterval(() => this.waits || this.step(1) || this.pause(), 900);
  }

  pause() {
    clearInterval(this.playing);
    this.playing = 0;
    this.play.textContent = "Play";
  }

  x(ms, width) {
    const { begun_ms, ended_ms } = this.flow;
    return 8 + ((ms - begun_ms) / Math.max(1, ended_ms - begun_ms)) * (width - 16);
  }

  draw() {
    const { flow, moment } = this;
    if (!flow || !moment) return;
    const ratio = devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width) return;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    const to = this.canvas.getContext("2d");
    to.scale(ratio, ratio);
    const most = Math.log1p(Math.max(...flow.records, 1)), step = (width - 16) / STRETCHES;
    const here = moment.is_now ? width - 8 : this.x(moment.time_ms, width);
    to.fillStyle = css("--faint");
    to.fillRect(8, height - 1, width - 16, 1);
    for (const [way, colour] of [["records", "--line"], ["changes", "--accent"]]) {
      to.fillStyle = css(colour);
      flow[way].forEach((value, at) => {
        const tall = (Math.log1p(value) / most) * (height - ROOM - 4);
        to.globalAlpha = 8 + (at + 0.5) * step > here ? 0.35 : 1;
        if (value) to.fillRect(8 + at * step, height - tall - 1, Math.max(step - 0.5, 1), tall);
      });
    }
    to.globalAlpha = 1;
    this.marks(to, width);
    if (this.compared) this.cursor(to, this.compared.is_now ? width - 8 : this.x(this.compared.time_ms, width), height, css("--soft"));
    this.cursor(to, here, height, css("--accent"));
    this.range.value = String(moment.is_now ? STRETCHES : this.stretch(moment.offset));
    this.range.setAttribute("aria-valuetext", moment.is_now ? "now" : `${when(moment.time_ms)}, offset ${moment.offset}`);
    this.line.classList.toggle("past", !moment.is_now);
    this.live.disabled = moment.is_now;
    this.at.replaceChildren(moment.is_now ? "Now" : h("span", {}, "As of ", h("span", { class: "long" }, `${date(moment.time_ms)} `), clock(moment.time_ms, true), h("span", { class: "long" }, " UTC")), h("span", { class: "soft long" }, `  ·  offset ${count(moment.offset)}  ·  log since ${when(flow.extent.begun_ms)} UTC`));
  }

  marks(to, width) {
    to.font = "10px system-ui, sans-serif";
    to.textAlign = "center";
    const taken = new Set();
    const rank = (one) => (one.is_bad ? 0 : one.kind === "election" ? 1 : 2);
    for (const mark of [...this.flow.marks].sort((a, b) => rank(a) - rank(b))) {
      const x = this.x(mark.time_ms, width), place = Math.round(x / 9);
      if (taken.has(place)) continue;
      taken.add(place);
      to.fillStyle = css(mark.is_bad ? "--bad" : "--soft");
      to.fillText(shape(mark), x, 9);
    }
  }

  cursor(to, x, height, colour) {
    to.fillStyle = colour;
    to.fillRect(x - 1, 2, 2, height - 2);
    to.beginPath();
    to.arc(x, height - 5, 5, 0, 7);
    to.fill();
  }
}
