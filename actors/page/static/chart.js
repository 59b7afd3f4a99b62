// Lines over time, drawn by uPlot in the page's colours.

import { h, css, short, clock, date } from "./kit.js";

/** A time below the lines, in as few letters as the stretch of time allows. */
const tick = (ms, span) => (span > 86400 ? `${date(ms).slice(5)} ${clock(ms).slice(0, 5)}` : span > 1800 ? clock(ms).slice(0, 5) : clock(ms));
// Steps below a second would have the same words, as they have in an hour those of less than a minute.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 7776000, 31536000];
const DASHES = [[], [6, 3], [2, 3], [10, 4, 2, 4]];
export class Chart {
  constructor({ height = 180, show = short, labels = [] } = {}) {
    Object.assign(this, { height, show, labels });
    this.box = h("div", { class: "chart" });
    this.legend = h("p", { class: "legend" });
    this.el = h("div", {}, this.box, this.legend);
    this.watch = new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height }));
    this.watch.observe(this.box);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", (this.redo = () => this.data && this.draw(this.labels, this.data, true)));
  }

  /** labels: of the lines; data: [times in s, values...]. */
  draw(labels, data, anew = false) {
    this.data = data;
    if (this.plot && !anew && labels.join() === this.labels.join()) return this.plot.setData(data);
    this.labels = labels;
    this.plot?.destroy();
    const line = css("--line"), soft = css("--soft"), font = "14px system-ui, sans-serif";
    const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    this.plot = new uPlot({
      width: this.box.clientWidth || 600, height: this.height, legend: { show: false }, tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "UTC"),
      padding: [8, 32, 0, 0], cursor: { y: false, points: { size: 6 } }, scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 32, space: 90, incrs: STEPS, values: (plot, ticks) => ticks.map((s) => tick(s * 1000, plot.scales.x.max - plot.scales.x.min)) }, { ...axis, size: 64, values: (_, ticks) => ticks.map(this.show) }],
      series: [{}, ...labels.map((label, at) => ({ label, stroke: at % 2 ? soft : css("--accent"), dash: DASHES[Math.floor(at / 2) % DASHES.length], width: 1.5, points: { show: false } }))],
    }, data, this.box);
    this.legend.replaceChildren(...labels.map((label, at) => {
      const dash = h("i", {});
      dash.style.borderTopColor = at % 2 ? soft : css("--accent");
      dash.style.borderTopStyle = ["solid", "dashed", "dotted", "double"][Math.floor(at / 2) % 4];
      return h("span", {}, dash, label);
    }));
  }

  close() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.redo);
    this.plot?.destroy();
  }
}
