// Nodes and words. Strings only ever become text: nothing here parses HTML.

const ATTRIBUTES = /^(id|class|role|for|scope|title|type|hidden|open|colspan|tabindex|aria-[a-z]+|data-[a-z-]+)$/;

/** Text without marks that turn the direction of writing: those are written out, as Python does. */
function unturned(text) {
  return String(text).replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** An element with attributes and children; strings and numbers become text. */
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : unturned(child))));
  return node;
}

/** The node that [tag, attributes, children] describes: how Python sends a part of the page. */
function build(part) {
  if (typeof part === "string") return document.createTextNode(unturned(part));
  const [tag, attributes, children] = part;
  if (/^(script|style|iframe|object|embed|link|meta|base)$/i.test(tag)) throw new Error("no such part: " + tag);
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (ATTRIBUTES.test(name)) node.setAttribute(name, value);
  }
  node.append(...children.map(build));
  return node;
}

/** Put a new version of a part in the place of the old one; what the reader did to it stays. */
function replacePart(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  for (const kept of fresh.querySelectorAll("[data-keep]")) {
    const before = document.getElementById(kept.id);
    if (before && old.contains(before)) {
      before.setAttribute("aria-label", kept.getAttribute("aria-label") || "");
      kept.replaceWith(before);
    }
  }
  for (const details of old.querySelectorAll("details[open][id]")) {
    const after = fresh.querySelector("#" + CSS.escape(details.id));
    if (after) after.open = true;
  }
  const places = focused ? path(old, focused) : null;
  old.replaceWith(fresh);
  if (focused) (document.contains(focused) ? focused : at(fresh, places))?.focus({ preventScroll: true });
}

function path(from, node) {
  const places = [];
  for (let at = node; at !== from; at = at.parentElement) places.unshift([...at.parentElement.children].indexOf(at));
  return places;
}

function at(from, places) {
  return places.reduce((node, place) => node && node.children[place], from);
}

/** A number with five significant digits, but never fewer than it is whole, as Python writes it on the page. */
function number(value, digits = 5) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(Number(value.toPrecision(digits)));
  if (size >= Math.min(1e4, 10 ** digits) && size < 1e9) return count(value.toFixed(0));
  return plainNumber(value, digits);
}

/** The same without groups of digits: what can be typed again. */
function plainNumber(value, digits = 5) {
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 10 ** digits) ? value.toExponential(digits - 1) : value.toPrecision(digits);
  return text.replace(/(\.\d*?)0+(?=e|$)/, "$1").replace(/\.(?=e|$)/, "").replace(/e([+-])(\d)$/, "e$10$2");
}

function estimate(value, stderr) {
  if (value === null || value === undefined) return "failed";
  return number(value, 4) + (stderr ? " ± " + number(stderr, 2) : "");
}

function short(text, longest = 400) {
  return text.length <= longest ? text : text.slice(0, longest) + " ... (" + text.length + " characters)";
}

/** A table in a frame that scrolls, by keyboard too. */
function table(label, columns, rows) {
  const head = make("thead", {}, make("tr", {}, columns.map((name) => make("th", { scope: "col" }, short(String(name))))));
  const body = make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => (cell instanceof Node ? cell : valueCell(cell))))));
  return make("div", { class: "frame", tabindex: "0", role: "region", "aria-label": short(String(label)) }, make("table", {}, head, body));
}

function valueCell(value) {
  if (typeof value === "number") return make("td", { class: "number" }, number(value));
  if (value === null || value === undefined) return make("td");
  return make("td", {}, parameter(value));
}

/** The value of a parameter, as Python writes it on the page. */
function parameter(value) {
  if (value === null) return "None";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : plainNumber(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  return short(typeof value === "object" ? JSON.stringify(value) : value);
}

/** A count with its thousands apart. */
function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Run something once the browser has a moment, however often it was asked for. */
function soon(action) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; action(); });
  };
}

/** Run something once what is on the page now has been painted; in a page that nobody sees, at once. */
function afterPainting(action) {
  if (document.hidden) action();
  else requestAnimationFrame(() => setTimeout(action));
}
