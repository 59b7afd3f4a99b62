// What every view uses: elements without HTML texts, numbers and times as text, questions to the API.

export function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && name !== "list" && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false && one !== ""));
  return made;
}

/** What an element is called, though its text changes: a view that is drawn anew has another one of that name. */
const called = (one) => `${one.tagName} ${one.getAttribute("href") ?? one.ariaLabel ?? one.textContent.replace(/ [↑↓]$/, "")}`;
/** Replaces what an element holds. What has the focus gives it to what is called the same then. */
export function fill(to, ...children) {
  const focused = document.activeElement, name = focused !== to && to.contains(focused) ? called(focused) : "";
  to.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (name) [...to.querySelectorAll("a, button, input, select, summary")].find((one) => called(one) === name)?.focus({ preventScroll: true });
  return to;
}

// ---- as text

const grouped = new Intl.NumberFormat("en"), exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 15 });
export const count = (value) => (value === null || value === undefined ? "–" : (Number.isInteger(value) ? grouped : exact).format(value));
export const many = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
export const short = (value) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) < 1e4 ? grouped.format(Math.round(value * 10) / 10)
      : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
const two = (value) => String(value).padStart(2, "0");
export function clock(ms, exact = false) {
  const at = new Date(ms);
  const rest = exact ? `.${String(at.getUTCMilliseconds()).padStart(3, "0")}` : "";
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}${rest}`;
}
export function date(ms) {
  const at = new Date(ms);
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
}
export const when = (ms, exact = false) =>
  ms === null || ms === undefined || ms < 0 || Number.isNaN(new Date(ms).getTime()) ? "–" : `${date(ms)} ${clock(ms, exact)}`;
/** A time in few letters: without the day, if that is today. */
export function brief(ms) {
  if (ms === null || ms === undefined || Number.isNaN(new Date(ms).getTime())) return "–";
  return date(ms) === date(Date.now()) ? clock(ms, true) : `${date(ms).slice(5)} ${clock(ms)}`;
}
export function span(ms) {
  const s = Math.abs(ms) / 1000;
  if (s < 1) return `${Math.round(Math.abs(ms))} ms`;
  if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(s < 36000 ? 1 : 0)} h` : `${Math.round(s / 86400)} days`;
}
export function size(bytes) {
  if (bytes === null || bytes === undefined || bytes < 0) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < names.length - 1) (bytes /= 1024), at++;
  return `${at && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${names[at]}`;
}

// ---- states: a shape, a word, a colour

export const state = (bad, word, good = "●") =>
  h("span", { class: `state ${bad ? "bad" : "good"}` }, h("i", { "aria-hidden": "true" }, bad ? "▲" : good), word);

export const empty = (...sentence) => h("p", { class: "empty" }, ...sentence);
export const failed = (error) => h("div", { class: "failed", role: "alert" }, error.message ?? String(error));
export const panel = (title, kind, ...children) => h("section", { class: `panel ${kind}` }, title && h("h2", {}, title), ...children);
export const pairs = (rows) => h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
export function plainTable(head, rows) {
  const cell = (tag, one) => h(tag, { class: one?.number || (typeof one === "object" && one?.numeric) ? "number" : "" }, one?.node ?? one?.text ?? one ?? "–");
  return h("table", { class: "plain" }, h("tbody", {},
    h("tr", {}, head.map((one) => cell("th", one))), rows.map((row) => h("tr", {}, row.map((one) => cell("td", one))))));
}
export const num = (text) => ({ numeric: true, text: String(text) });
export const as = (node) => ({ node });

// ---- the API

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}
let cluster = "";
/** Which cluster is asked from now on, where the page shows several; empty: there is one. */
export const choose = (name) => { cluster = name; };
export function address(path, params = {}) {
  const query = new URLSearchParams(Object.entries({ ...params, cluster }).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  return `api/v1${path}${query.size ? `?${query}` : ""}`;
}
export const ask = async (path, params = {}, options = {}) => (await answered(path, params, options)).json();
/** The answer to a question, whatever it is made of. */
export async function answered(path, params = {}, options = {}) {
  let answer;
  try {
    answer = await fetch(address(path, params), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The page's own process does not answer: is rayft ui still running?", 0);
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(told.error ?? `The page's process answered with ${answer.status}.`, answer.status);
}

/** Asks for a change, or for what one would do. */
export const post = (path, body) => ask(path, {}, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** Calls a function with the last arguments, at most once in a while. */
export function later(ms, act) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), ms);
  };
}

/** What runs at most once at a time: a new call ends the one before, whose answer is dropped. */
export function newest(act) {
  let running = null;
  const call = async (...given) => {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      return await act(mine.signal, ...given);
    } catch (error) {
      if (!mine.signal.aborted) throw error;
    }
  };
  call.end = () => running?.abort();
  return call;
}

export function debouncedInput(props, act) {
  const soon = later(200, (input) => input.isConnected && act(input.value)); // the view may have been left meanwhile
  return h("input", { type: "search", autocomplete: "off", spellcheck: "false", ...props, oninput: (event) => soon(event.target) });
}

// ---- what opens beside

let drawn = null;
const escape = (event) => event.key === "Escape" && !document.querySelector("dialog[open]") && drawn.close();
/** Closes what is open beside, and leaves the focus where it is. */
export function shutDrawer() {
  drawn?.el.remove();
  drawn = null;
  document.removeEventListener("keydown", escape);
}
export function drawer(title, ...children) {
  const focused = document.activeElement, before = drawn?.el.contains(focused) ? drawn.before : focused;
  shutDrawer();
  const close = () => {
    shutDrawer();
    before?.focus?.();
  };
  const shut = h("button", { onclick: close, "aria-label": "Close" }, "Close");
  const body = h("div", {}, ...children);
  const el = h("aside", { class: "drawer", role: "dialog", "aria-label": title },
    h("div", { class: "drawer-head" }, h("h2", { class: "large" }, title), shut), body);
  drawn = { el, before, close };
  document.addEventListener("keydown", escape);
  document.body.append(el);
  shut.focus();
  return { body, close };
}
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
