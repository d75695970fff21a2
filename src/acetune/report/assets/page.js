// The page: what it shows, what its buttons do, and how it begins.

const page = { content: null, parts: new Map(), live: false };

const PLACES = { "figure-progress": "first-figure", "figure-what_if": "what-if-figure" };

/** Show a content: parts whose data is the same as before are left alone. */
function showContent(content) {
  page.content = content;
  for (const [id, part] of Object.entries(content.parts || {})) {
    const key = JSON.stringify(part);
    if (page.parts.get(id) === key) continue;
    page.parts.set(id, key);
    const old = document.getElementById(id);
    const fresh = build(part);
    if (old) replacePart(old, fresh);
    else if (id.startsWith("figure-")) document.getElementById(PLACES[id] || "figure-list").append(fresh);
  }
  for (const { id, figure } of content.figures) setFigure("plot-" + id, figure);
  showSliders(content);
  showTrials();
}

const ACTIONS = {
  theme() {
    const theme = isDark() ? "light" : "dark";
    setTheme(theme);
    remember("acetune-theme", theme);
  },
  trial(button) { openTrial(button.dataset.trial); },
  close() { document.getElementById("trial-dialog").close(); },
  async copy(button) {
    const { params, step, total_steps, trial } = page.content.answer.best; // the parameters alone do not make the model
    const text = JSON.stringify({ params, step, total_steps, trial }, null, 2);
    button.textContent = (await copied(text)) ? "Copied" : "Copying is not allowed here";
    setTimeout(() => { button.textContent = "Copy as JSON"; }, 2000);
  },
};

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { readonly: true, "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// -- light and dark ------------------------------------------------------------------------------

const preference = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : preference.matches;
}

/** Light or dark; nothing leaves it to the system. */
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  themeChanged();
}

/** Paper is white, and shows what nobody has scrolled to. */
function beforePrint() {
  const chosen = document.documentElement.dataset.theme;
  if (isDark()) {
    setTheme("light");
    addEventListener("afterprint", () => setTheme(chosen), { once: true });
  }
  drawAll();
}

function themeChanged() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  redrawAll();
}

function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* a file may not be allowed to */ }
}

function recall(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

// -- the beginning -------------------------------------------------------------------------------

/** The content of the file with its table of trials as it was: words instead of their numbers. */
function unpacked(content) {
  for (const [place, words] of Object.entries(content.trials.words)) {
    for (const row of content.trials.rows) row[place] = row[place] === null ? null : words[row[place]];
  }
  return content;
}

function begin() {
  document.documentElement.classList.add("scripted");
  page.live = document.body.dataset.live !== undefined;
  const theme = recall("acetune-theme");
  preference.addEventListener("change", themeChanged);
  setTheme(theme === "light" || theme === "dark" ? theme : null);
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
    if (button && Object.hasOwn(ACTIONS, button.dataset.action)) ACTIONS[button.dataset.action](button);
  });
  const dialog = document.getElementById("trial-dialog");
  dialog.addEventListener("close", () => { opened = null; });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  addEventListener("beforeprint", beforePrint);
  showContent(unpacked(JSON.parse(document.getElementById("content").textContent)));
  if (page.live) {
    follow();
    afterPainting(loadPlotly);
  } else addEventListener("DOMContentLoaded", drawWaiting); // plotly.js is in the file, after this script
}

/** Load plotly.js: it keeps the browser busy for a second or two, so this comes after all that can be seen without it. */
function loadPlotly() {
  const script = make("script", { src: "static/plotly.js" });
  script.addEventListener("load", drawWaiting);
  document.head.append(script);
}

begin(); // this script stands at the end: everything is there but plotly.js
