// Changing things, where the page was started with --allow-changes: dialogs that say what will happen, and what came of it.

import { h, fill, failed, ask, post, plainTable, num, count, newest } from "./kit.js";

let numbered = 0;

/** A field of a dialog: {name, label, hint, value, kind: text, number, area, choice or check, options, needed, fixed}. */
function field(one) {
  const id = `field-${++numbered}`, given = { id, name: one.name, required: one.needed, disabled: one.fixed, autocomplete: "off", spellcheck: "false", placeholder: one.hint ?? "" };
  const input = one.kind === "area" ? h("textarea", { ...given, rows: one.rows ?? 4 })
    : one.kind === "choice" ? h("select", { id }, one.options.map(([value, words]) => h("option", { value }, words)))
      : one.kind === "check" ? h("input", { id, type: "checkbox" })
        : h("input", { ...given, inputmode: one.kind === "number" ? "numeric" : null });
  if (one.value !== undefined && one.kind !== "check") input.value = one.value;
  const label = h("label", { for: id }, one.label);
  return { input, el: one.kind === "check" ? h("div", { class: "check" }, input, label) : h("div", { class: "field" }, label, input), get: () => (one.kind === "check" ? input.checked : input.value) };
}

/** A dialog. `act(values)` returns the sentence that is said afterwards, or null to stay open; what it throws is shown. */
export function dialog(app, title, { words = "", fields = [], action, danger = false, typed = null, extra = null, act, then = null }) {
  const made = new Map(fields.map((one) => [one.name, field(one)]));
  const confirm = typed === null ? null : field({ name: "confirm", label: ["Type ", h("code", {}, typed), " to confirm"], needed: true });
  const said = h("div", { role: "status" }), id = `dialog-${++numbered}`;
  const go = h("button", { class: danger ? "main danger" : "main", type: "submit" }, action);
  const values = () => Object.fromEntries([...made].map(([name, one]) => [name, one.get()]));
  let acts = false;
  const fits = () => { go.disabled = acts || (confirm !== null && confirm.get() !== typed); };
  confirm?.input.addEventListener("input", fits);
  fits();
  const submit = async (event) => {
    event.preventDefault();
    if (acts) return;
    acts = true;
    fits();
    fill(said, h("p", { class: "soft" }, "…"));
    try {
      const sentence = await act(values(), confirm?.get());
      if (sentence === null) return fill(said);
      box.close();
      app.say(sentence, then !== null);
      then ? app.go(then) : (app.shown?.changed ?? app.shown?.update)?.();
    } catch (error) {
      box.open ? fill(said, failed(error)) : app.say(error); // it was closed before the answer came
    } finally {
      acts = false;
      fits();
    }
  };
  const inside = h("form", { onsubmit: submit }, h("h2", { class: "large", id }, title), words && h("p", {}, words), [...made.values()].map((one) => one.el), extra?.(values, said) ?? "", confirm?.el ?? "", said,
    h("div", { class: "dialog-foot" }, h("button", { type: "button", onclick: () => box.close() }, "Cancel"), go));
  const box = h("dialog", { class: "dialog", "aria-labelledby": id, onclose: () => box.remove() }, inside);
  document.body.append(box);
  box.showModal();
  (inside.querySelector("input:not(:disabled), select, textarea:not(:disabled)") ?? go).focus();
  return { box, made, said, inside };
}

const number = (text, name) => {
  const found = text.trim();
  if (!/^\d{1,9}$/.test(found)) throw new Error(`${name} has to be a number.`);
  return Number(found);
};
const whole = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined));
/** Lines NAME=VALUE as pairs. */
const pairs = (text) => text.split("\n").filter((line) => line.trim()).map((line) => {
  const at = line.indexOf("=");
  if (at < 1) throw new Error(`“${line.trim()}” has no value: write NAME=VALUE.`);
  return [line.slice(0, at).trim(), line.slice(at + 1)];
});
const change = async (what, body) => (await post(`/changes/${what}`, body)).said;

// ---- topics

export const createTopic = (app) => dialog(app, "A new topic", {
  action: "Create", fields: [
    { name: "topic", label: "Name", needed: true }, { name: "partitions", label: "Partitions", kind: "number", hint: "the cluster's default" },
    { name: "replicas", label: "Replicas of each", kind: "number", hint: "the cluster's default" },
    { name: "settings", label: "Settings, one a line", kind: "area", hint: "retention.ms=3600000", rows: 3 },
  ],
  act: (given) => change("topics/create", whole({
    topic: given.topic.trim(), partitions: given.partitions.trim() && number(given.partitions, "Partitions"), replicas: given.replicas.trim() && number(given.replicas, "Replicas"),
    settings: Object.fromEntries(pairs(given.settings)),
  })),
});

export const growTopic = (app, topic, now) => dialog(app, `More partitions of ${topic}`, {
  words: `It has ${now}. Records with a key go to other partitions from then on, and their number can never be made smaller.`, action: "Grow",
  fields: [{ name: "partitions", label: "Partitions in all", kind: "number", value: String(now + 1), needed: true }],
  act: (given) => change("topics/grow", { topic, partitions: number(given.partitions, "Partitions") }),
});

/** The sentence that says what is lost comes from the page's process: it asks the cluster. */
async function losing(app, topic, title, part, what, more) {
  try {
    const told = await ask(`/topics/${encodeURIComponent(topic)}/lost`);
    dialog(app, title, { words: told[part], danger: true, typed: topic, act: (_, confirm) => change(what, whole({ topic, confirm, id: told.id })), ...more });
  } catch (error) {
    app.say(error);
  }
}
export const emptyTopic = (app, topic) => losing(app, topic, `Empty ${topic}?`, "emptying", "topics/empty", { action: "Remove all records" });
export const deleteTopic = (app, topic) => losing(app, topic, `Delete ${topic}?`, "deleting", "topics/delete", { action: "Delete the topic", then: "topics" });

export const setSetting = (app, topic, name = "", value = "", names = []) => dialog(app, `A setting of ${topic}`, {
  action: "Set", fields: [{ name: "name", label: "Setting", value: name, fixed: name !== "", needed: true, hint: names[0] ?? "retention.ms" }, { name: "value", label: "Value", value: value ?? "" }],
  act: (given) => change("topics/settings", { topic, set: { [given.name.trim()]: given.value } }),
});
export const unsetSetting = (app, topic, name) => dialog(app, `${name} of ${topic}`, {
  words: "It goes back to what the brokers have.", action: "Back to the default", act: () => change("topics/settings", { topic, unset: [name] }),
});

export const brokerSetting = (app) => dialog(app, "A setting of brokers", {
  words: "It counts at once and outlives restarts. Settings that need a restart are refused.", action: "Set", fields: [
    { name: "broker", label: "Broker", kind: "number", hint: "all of them" }, { name: "name", label: "Setting", needed: true, hint: "log.cleaner.threads" },
    { name: "value", label: "Value" }, { name: "unset", label: "Take it back to what the file or the default says", kind: "check" },
  ],
  act: (given) => change("brokers/settings", whole({
    broker: given.broker.trim() && number(given.broker, "Broker"),
    ...(given.unset ? { unset: [given.name.trim()] } : { set: { [given.name.trim()]: given.value } }),
  })),
});

export const produce = (app, topic, partition = "") => dialog(app, `A record for ${topic}`, {
  action: "Write", fields: [
    { name: "key", label: "Key", hint: "none" }, { name: "value", label: "Value", kind: "area", rows: 6 }, { name: "tombstone", label: "No value: a tombstone, which removes the key where the topic is compacted", kind: "check" },
    { name: "headers", label: "Headers, one a line", kind: "area", hint: "NAME=VALUE", rows: 2 }, { name: "partition", label: "Partition", kind: "number", hint: "by the key", value: partition },
  ],
  act: (given) => change("records/produce", {
    topic, key: given.key === "" ? null : given.key, value: given.tombstone ? null : given.value, headers: pairs(given.headers),
    ...(given.partition.trim() ? { partition: number(given.partition, "Partition") } : {}),
  }),
});

// ---- groups

/** How a place of each kind is written: an offset that is meant as a year would be an offset of each partition. */
const FORMS = { time: [/^\d{4}-\d\d-\d\d/, "Write a time, as"], ago: [/^\d+[smhd]$/, "Write so long ago, as"], offset: [/^\d+$/, "Write an offset, as"], last: [/^\d+$/, "Write how many records, as"] };
const PLACES = [["beginning", "The beginning"], ["end", "The end"], ["time", "A time, UTC"], ["ago", "So long ago"], ["offset", "An offset"], ["last", "The last records of each partition"]];
const EXAMPLES = { time: "2026-11-29T14:02", ago: "15m, 2h or 7d", offset: "1200", last: "100" };

export function resetGroup(app, group) {
  const placed = (given) => {
    if (!(given.place in EXAMPLES)) return given.place;
    const which = given.which.trim(), [form, words] = FORMS[given.place];
    if (!form.test(which)) throw new Error(`${words} ${EXAMPLES[given.place]}.`);
    return given.place === "last" ? `-${which}` : which;
  };
  const body = (given) => ({ group, to: placed(given), topics: given.topics.split(/[\s,]+/).filter(Boolean) });
  const tried = newest((signal, given) => ask("/tried/groups/reset", {}, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body(given)), signal }));
  const preview = (values, said) => h("div", {}, h("button", { type: "button", onclick: async () => {
    fill(said, h("p", { class: "soft" }, "…"));
    try {
      const told = await tried(values());
      if (!told) return; // it was asked anew, or something else is in the fields
      fill(said, h("div", { class: "dialog-table" }, plainTable(["partition", num("reads on at"), num("would read on at")], told.rows.map(([topic, part, before, after]) => [`${topic}-${part}`, num(count(before)), num(count(after))]))));
    } catch (error) {
      fill(said, failed(error));
    }
  } }, "What would it do?"));
  const { made, said, inside } = dialog(app, `Where ${group} reads on`, {
    words: "It must have no members: they would commit over it.", action: "Reset", extra: preview, fields: [
      { name: "place", label: "To", kind: "choice", options: PLACES }, { name: "which", label: "Which", hint: "" }, { name: "topics", label: "Topics or partitions", hint: "all that it has offsets for; else orders or orders:3" },
    ],
    act: (given) => (tried.end(), change("groups/reset", body(given))),
  });
  const place = made.get("place"), which = made.get("which");
  const fits = () => { which.el.classList.toggle("hidden", !(place.get() in EXAMPLES)); which.input.placeholder = EXAMPLES[place.get()] ?? ""; };
  place.input.addEventListener("change", fits);
  fits();
  inside.addEventListener("input", () => (tried.end(), fill(said))); // what was told is of other fields
}

export const deleteGroup = (app, group, lag) => dialog(app, `Delete ${group}?`, {
  words: `Deleting ${group} removes where it reads on in every partition for good${lag === null ? "" : `; it is ${count(lag)} records behind`}. A consumer that comes back under this name begins where its auto.offset.reset says.`,
  danger: true, typed: group, action: "Delete the group", then: "groups", act: (_, confirm) => change("groups/delete", { group, confirm }),
});

// ---- nodes of a local cluster

const WORDS = { kill: "Kill", freeze: "Freeze", thaw: "Thaw", cut: "Cut off", reconnect: "Reconnect", restart: "Restart", start: "Start" };

/** The buttons for what may be done to a node. */
export const deeds = (app, node) => h("div", { class: "deeds" }, node.deeds.map((deed) => h("button", { "data-key": `${deed}-${node.ids[0]}`, "aria-label": `${WORDS[deed]} node ${node.ids.join(" and ")}`, onclick: async (event) => {
  const button = event.target;
  if (button.ariaBusy) return; // it stays enabled: a disabled one loses the keys
  button.ariaBusy = "true";
  await change(`nodes/${deed}`, { node: node.ids[0] }).then((said) => app.say(said), (error) => app.say(error));
  button.ariaBusy = null;
  app.shown?.update?.();
} }, WORDS[deed])));
