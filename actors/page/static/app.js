// The frame: which view is shown, of which moment; what is new. The address holds view, moment and filters, so that it can be
// sent to somebody else.

import { h, ask, address, choose, fill, many, state, shutDrawer, Refused, failed } from "./kit.js";
import { Strip } from "./strip.js";

const VIEWS = [["now", "Now"], ["time", "Time"], ["partitions", "Partitions"], ["topics", "Topics"], ["groups", "Groups"], ["changes", "Changes"], ["ask", "Ask"], ["security", "Security"], ["settings", "Settings"]];

const AGAIN_MS = 3000, SURVEY_MS = 15000;
const SILENT_MS = 15000; // the page's process says something every 5 s

/** A part of the address; one that somebody cut off in the middle of an escape stays as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class App {
  constructor() {
    this.route = this.read();
    this.shown = null;
    this.pulse = null;
    this.changes = 0; // how often something has changed
    this.strip = new Strip((at) => this.set({ at }));
    this.health = h("a", { class: "state pill", href: "#/now" });
    this.what = h("span", { class: "what" });
    this.chooser = h("select", { class: "hidden", "aria-label": "Cluster", onchange: () => this.enter(this.chooser.value) });
    this.notes = h("div", { class: "notes" });
    this.said = h("div", { class: "notes", role: "status" });
    this.view = h("main", { class: "view", tabindex: "-1" });
    this.links = new Map(VIEWS.map(([name, title]) => [name, h("a", { href: `#/${name}` }, title)]));
    this.menu = h("button", { class: "menu", "aria-expanded": "false", onclick: () => this.fold(!this.side.classList.contains("opened")) }, "Menu");
    this.side = h("header", { class: "side" }, h("div", { class: "brand" }, h("img", { src: "icon.svg", alt: "" }), "rayft"), this.menu,
      h("nav", { "aria-label": "Views" }, h("ul", { class: "views" }, [...this.links.values()].map((link) => h("li", {}, link)))));
    this.el = h("div", { class: "frame" }, this.side, h("div", { class: "top" }, h("div", { class: "top-line" }, this.chooser, this.what, this.health), this.strip.el), this.view);
    addEventListener("hashchange", () => this.navigate());
  }

  /** Whether this page may change things. What does that has the class `acts`: it is not shown in the past. */
  get mayChange() {
    return Boolean(this.about.may_change);
  }

  /** Say what came of a change: a sentence, or an error. `stays`: until the view after the next one. */
  say(what, stays = false) {
    fill(this.said, what instanceof Error ? failed(what) : h("div", { class: "note done" }, h("span", {}, what), h("button", { class: "plain", "aria-label": "Close this message", onclick: () => fill(this.said) }, "✕")));
    this.saidStays = stays;
    scrollTo(0, 0);
  }

  fold(open) {
    this.side.classList.toggle("opened", open);
    this.menu.setAttribute("aria-expanded", String(open));
  }

  read() {
    const [path, query] = (location.hash.slice(1) || "/now").split("?");
    const [view, ...rest] = path.split("/").filter(Boolean).map(decoded);
    return { view: this.links && !this.links.has(view) ? "now" : view ?? "now", rest, params: new URLSearchParams(query) };
  }

  get at() {
    return this.route.params.get("at") ?? "";
  }

  get isNow() {
    return !this.at;
  }

  /** An address of the page: the moment goes along. */
  link(view, params = {}) {
    const found = new URLSearchParams();
    if (this.cluster) found.set("cluster", this.cluster);
    if (this.at) found.set("at", this.at);
    for (const [name, value] of Object.entries(params)) value === "" || value === null ? found.delete(name) : found.set(name, value);
    return `#/${view}${found.size ? `?${found}` : ""}`;
  }

  go(view, params) {
    location.hash = this.link(view, params);
  }

  /** Write the address anew, with the cluster that is shown. */
  replace() {
    if (this.cluster) this.route.params.set("cluster", this.cluster);
    const path = [this.route.view, ...this.route.rest].map(encodeURIComponent).join("/");
    history.replaceState(null, "", `#/${path}${this.route.params.size ? `?${this.route.params}` : ""}`);
  }

  /** Change parameters of the address, without a step in the browser's history. */
  set(params) {
    for (const [name, value] of Object.entries(params)) value === "" || value === null ? this.route.params.delete(name) : this.route.params.set(name, value);
    this.replace();
    if ("at" in params) return this.moved();
    this.shown?.update?.();
  }

  async start() {
    document.body.replaceChildren(this.el);
    try {
      await this.survey();
      this.about = await ask("");
    } catch (error) {
      return error.status === 502 && this.cluster ? this.unopened(error) : this.outside(error);
    }
    this.listen();
    document.addEventListener("visibilitychange", () => this.listen());
    this.take(this.about);
    await this.strip.load().catch((error) => fill(this.notes, failed(error)));
    await this.navigate();
  }

  /** Find out which clusters there are, how they are, and which one the address means. */
  async survey() {
    const { clusters } = await ask("/clusters");
    if (clusters.length < 2) return;
    this.clusters = new Set(clusters.map((one) => one.name));
    const wanted = this.cluster || this.route.params.get("cluster");
    this.cluster = clusters.some((one) => one.name === wanted) ? wanted : (clusters.find((one) => one.open) ?? clusters[0]).name;
    choose(this.cluster);
    const words = (one) => `${one.well ? "●" : "▲"} ${one.name}${one.open ? "" : " (not open)"}`;
    if (document.activeElement !== this.chooser) fill(this.chooser, clusters.map((one) => h("option", { value: one.name, title: one.sentence, selected: one.name === this.cluster }, words(one))));
    this.chooser.className = "chooser";
    clearTimeout(this.surveyed);
    this.surveyed = setTimeout(() => this.survey().catch(() => null), SURVEY_MS);
  }

  /** Show another cluster: its now, in the same view. Everything that is known is of the one before, so the page begins anew. */
  enter(name) {
    const found = new URLSearchParams({ cluster: name });
    location.hash = `#/${this.route.view}?${found}`;
    location.reload();
  }

  /** The chosen cluster cannot be shown: the others can be chosen, and it is tried again. */
  unopened(error) {
    this.what.textContent = "";
    fill(this.health, h("i", { "aria-hidden": "true" }, "▲"), "not open");
    this.health.className = "state pill bad";
    fill(this.view, h("h1", {}, this.cluster), failed(error), h("p", { class: "soft" }, "It is tried again. The clusters above can be chosen meanwhile."));
    setTimeout(() => ask("").then(() => location.reload(), (again) => this.unopened(again)), AGAIN_MS);
  }

  async navigate() {
    this.route = this.read();
    const named = this.route.params.get("cluster");
    if (this.cluster && named && named !== this.cluster) {
      if (this.clusters.has(named)) return location.reload();
      this.replace();
      this.say(new Error(`This page shows no cluster called ${named}: this is ${this.cluster}.`), true);
    }
    this.fold(false);
    shutDrawer();
    for (const one of document.querySelectorAll("dialog[open]")) one.close();
    for (const [name, link] of this.links) {
      name === this.route.view ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
      link.href = this.link(name);
    }
    this.health.href = this.link("now");
    document.title = `${VIEWS.find(([name]) => name === this.route.view)[1]} – ${this.about.name} – rayft`;
    this.shown?.close?.();
    const mine = (this.shown = {});
    if (!this.saidStays) fill(this.said);
    this.saidStays = false;
    fill(this.view, this.notes, this.said, h("p", { class: "soft" }, "…"));
    scrollTo(0, 0);
    await this.resolve();
    const { open } = await import(`./${this.route.view}.js`);
    if (this.shown !== mine) return;
    const body = h("div", {});
    body.className = "contents";
    const { at, changes } = this;
    try {
      const opened = await open(this, body);
      if (this.shown !== mine) return opened.close?.(); // another view was chosen meanwhile
      this.shown = opened;
      this.view.replaceChildren(this.notes, this.said, ...body.childNodes);
      this.shown.drawn?.();
      if (this.at !== at || this.changes !== changes) this.shown.update?.(); // it was told too late for a view that was not there
    } catch (error) {
      if (this.shown === mine) fill(this.view, this.notes, this.said, [...body.childNodes], failed(error));
    }
  }

  async moved() {
    for (const [name, link] of this.links) link.href = this.link(name);
    this.health.href = this.link("now");
    if (await this.resolve()) this.shown?.update?.();
  }

  /** Find out which moment the address means. Returns whether it is still that one: a late answer is dropped. */
  async resolve() {
    const mine = (this.resolving = {});
    if (this.isNow) {
      this.moment = { ...this.about.moment, is_now: true };
    } else {
      try {
        const { moment } = await ask("/tables/features", { at: this.at, n: 1 });
        if (this.resolving !== mine) return false;
        this.moment = moment;
      } catch (error) {
        if (this.resolving !== mine) return false;
        if (error instanceof Refused && error.status === 400) {
          this.say(error);
          await this.set({ at: "" });
          return true;
        }
      }
    }
    this.el.classList.toggle("in-past", !this.isNow);
    this.strip.show(this.moment, this.compared);
    return true;
  }

  // ---- what is new

  /** A page that nobody sees does not listen: a browser has six connections for all pages of one address. */
  listen() {
    this.source?.close();
    clearTimeout(this.silent);
    if (document.hidden) return;
    const source = (this.source = new EventSource(address("/events")));
    source.onmessage = (event) => {
      this.expect();
      this.take(JSON.parse(event.data));
    };
    source.onerror = () => {
      this.lost();
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.silent);
      setTimeout(() => source === this.source && this.again(), AGAIN_MS);
    };
    this.expect();
  }

  /** A connection stays open though nobody is at its other end, as through a tunnel or behind a sleep: silence is told too. */
  expect() {
    clearTimeout(this.silent);
    this.silent = setTimeout(() => {
      this.lost();
      this.listen();
    }, SILENT_MS);
  }

  /** A browser tries again by itself where nothing answers; after an answer that is no stream, as 503, it does not. */
  async again() {
    try {
      await ask("");
    } catch (error) {
      if (error.status === 401) return this.outside(error);
    }
    this.listen();
  }

  lost() {
    this.health.className = "state pill bad";
    fill(this.health, h("i", { "aria-hidden": "true" }, "▲"), "not connected");
    fill(this.notes, h("div", { class: "note bad", role: "alert" }, "rayft ui does not answer: what is shown is what it said last. It is tried again."));
    this.away = true;
  }

  take(pulse) {
    const isFirst = !this.pulse, anew = isFirst || pulse.extent.reading !== this.pulse.extent.reading;
    const grown = anew || pulse.extent.end !== this.pulse.extent.end;
    const changed = anew || pulse.extent.touched !== this.pulse.extent.touched || pulse.sentence !== this.pulse.sentence || pulse.findings !== this.pulse.findings || this.away;
    this.away = false;
    this.pulse = pulse;
    if (changed && this.isNow) this.changes++;
    this.about = { ...this.about, ...pulse };
    this.what.textContent = this.cluster ? (this.about.live ? "" : "files") : `${this.about.live ? "Cluster" : "Files in"} ${this.about.name}`;
    this.what.title = this.about.name;
    this.health.className = `state pill ${pulse.well ? "good" : "bad"}`;
    fill(this.health, h("i", { "aria-hidden": "true" }, pulse.well ? "●" : "▲"), pulse.well ? "well" : many(pulse.faults, "fault"));
    this.health.title = pulse.sentence;
    fill(this.notes, pulse.notes.map((one) => h("div", { class: "note" }, one)));
    if (this.strip.flow ? grown : this.strip.hasFailed) this.regrow(changed || !this.strip.flow ? 300 : 30000);
    if (this.isNow) {
      this.moment = { ...pulse.moment, is_now: true };
      if (this.strip.flow) this.strip.show(this.moment, this.compared);
      this.shown?.pulse?.(pulse, changed);
    } else if (anew && !isFirst) this.moved(); // another log: the same moment of it is another one
  }

  /** Draw the time anew, soon: an active controller writes records that change nothing twice a second. */
  regrow(ms) {
    if (this.growing && ms > 1000) return;
    clearTimeout(this.growing);
    this.growing = setTimeout(() => {
      this.growing = 0;
      this.strip.load().then(() => this.shown?.grown?.(), () => null);
    }, ms);
  }

  /** The page is not let in: ask for the token or the password. */
  outside(error) {
    if (error.status !== 401) return fill(document.body, h("div", { class: "door" }, h("h1", {}, "rayft"), failed(error), h("button", { onclick: () => location.reload() }, "Try again")));
    const secret = h("input", { type: "password", id: "secret", autocomplete: "current-password", required: true });
    const said = h("div", {});
    const enter = async (event) => {
      event.preventDefault();
      const answer = await fetch("api/v1/login", { method: "POST", body: secret.value });
      if (answer.ok) return location.reload();
      fill(said, failed(new Error((await answer.json()).error)));
    };
    fill(document.body, h("div", { class: "door" }, h("h1", {}, "rayft"), h("p", {}, "This page is for those who have its token or password. rayft ui prints the address with the token when it starts."),
      h("form", { onsubmit: enter }, h("label", { for: "secret" }, "Token or password"), secret, h("button", { class: "main" }, "Enter")), said));
    secret.focus();
  }
}

export { state };
new App().start();
