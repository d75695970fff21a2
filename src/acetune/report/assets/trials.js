// The table of trials, a page at a time, and one trial in a dialog.

const PAGE = 25;
const view = { sort: 0, down: false, first: 0, filters: {}, words: "" };

function columnNames() {
  return page.content.trials.columns;
}

/** What the table shows of the columns; the others are found by text, sorted by, and in the dialog. */
function shownColumns() {
  return page.content.trials.shown;
}

/** Where the parameters begin; one may have the name of a column before. */
function firstParameter() {
  return columnNames().indexOf("reason") + 1;
}

/** Build the controls once; rows are filled in by fillTrials. */
function showTrials() {
  const holder = document.getElementById("trial-table");
  if (!holder.classList.contains("ready")) {
    holder.classList.add("ready");
    buildTrials(holder);
  }
  for (const select of holder.querySelectorAll("select[data-column]")) fillOptions(select);
  fillSorts(holder.querySelector("#trial-sort"));
  fillTrials();
}

function buildTrials(holder) {
  const head = shownColumns().map(({ name, rare }) => make("th", { scope: "col", class: rare && "rare", "data-column": columnNames().indexOf(name) },
    make("button", { type: "button", class: "sort" }, label(name))));
  holder.replaceChildren(
    make("div", { class: "controls" }, ["state", "stratum"].map(filterControl),
      make("label", {}, "Text", make("input", { type: "search", id: "trial-words", size: "16" })),
      make("label", {}, "Sort by", make("select", { id: "trial-sort" })),
      make("button", { type: "button", class: "quiet", id: "trial-reverse", "aria-pressed": "false" }, "Reverse")),
    make("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Trials" },
      make("table", {}, make("thead", {}, make("tr", {}, head, make("th", { scope: "col", class: "rare" }, "configuration"))), make("tbody", {}))),
    make("div", { class: "pager" },
      make("button", { type: "button", class: "quiet", id: "trials-back" }, "Back"),
      make("button", { type: "button", class: "quiet", id: "trials-on" }, "Next"),
      make("p", { role: "status", id: "trials-shown" })));
  const on = (id, name, action) => holder.querySelector(id).addEventListener(name, (event) => { action(event.target); fillTrials(); });
  for (const button of holder.querySelectorAll("button.sort")) {
    const column = Number(button.parentElement.dataset.column);
    button.addEventListener("click", () => { sortBy(column, view.sort === column && !view.down); fillTrials(); });
  }
  on("#trial-words", "input", (field) => { view.words = field.value.toLowerCase(); view.first = 0; });
  on("#trial-sort", "change", (select) => sortBy(Number(select.value), view.down));
  on("#trial-reverse", "click", () => sortBy(view.sort, !view.down));
  on("#trials-back", "click", () => { view.first = Math.max(0, view.first - PAGE); });
  on("#trials-on", "click", () => { view.first += PAGE; });
}

function label(name) {
  return short(name.replace(/_s$/, " (s)").replace(/_/g, " "), 60);
}

function filterControl(name) {
  const select = make("select", { id: "filter-" + name, "data-column": name });
  select.addEventListener("change", () => { view.filters[name] = select.value; view.first = 0; fillTrials(); });
  return make("label", {}, name[0].toUpperCase() + name.slice(1), select);
}

function fillOptions(select) {
  const index = columnNames().indexOf(select.dataset.column);
  const values = [...new Set(page.content.trials.rows.map((row) => row[index]).filter(Boolean))].sort();
  const chosen = view.filters[select.dataset.column] || "";
  if ([...select.options].map((option) => option.value).join("\n") === ["", ...values].join("\n")) return;
  select.replaceChildren(make("option", { value: "" }, "all"), ...values.map((value) => make("option", { value }, value)));
  select.value = chosen;
}

/** All columns, the parameters too; a study that goes on may get new ones. */
function fillSorts(select) {
  const columns = columnNames();
  for (let place = select.options.length; place < columns.length; place += 1) {
    select.append(make("option", { value: place }, place < firstParameter() ? label(columns[place]) : short(columns[place], 60)));
  }
}

function sortBy(index, down) {
  Object.assign(view, { sort: index, down, first: 0 });
}

function chosenRows() {
  const columns = columnNames();
  let rows = page.content.trials.rows;
  for (const [name, value] of Object.entries(view.filters)) {
    const index = columns.indexOf(name);
    if (value) rows = rows.filter((row) => row[index] === value);
  }
  if (view.words) rows = rows.filter((row) => row.some((value) => value !== null && String(value).toLowerCase().includes(view.words)));
  const at = view.sort;
  const way = view.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[at], b[at]];
    if (x === y) return 0;
    if (x === null || y === null) return x === null ? 1 : -1; // what is unknown comes last both ways
    return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true })) * way; // large whole numbers come as text
  });
}

function fillTrials() {
  const holder = document.getElementById("trial-table");
  const columns = columnNames();
  const rows = chosenRows();
  view.first = Math.min(view.first, Math.max(0, Math.floor((rows.length - 1) / PAGE) * PAGE));
  for (const cell of holder.querySelectorAll("th[data-column]")) {
    cell.setAttribute("aria-sort", Number(cell.dataset.column) === view.sort ? (view.down ? "descending" : "ascending") : "none");
  }
  holder.querySelector("#trial-sort").value = view.sort;
  holder.querySelector("#trial-reverse").setAttribute("aria-pressed", view.down);
  const body = holder.querySelector("tbody");
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.trial : null;
  const shown = rows.slice(view.first, view.first + PAGE);
  body.replaceChildren(...shown.map((row) => trialRow(columns, row)));
  if (focused) body.querySelector('[data-trial="' + CSS.escape(focused) + '"]')?.focus({ preventScroll: true });
  holder.querySelector("#trials-shown").textContent = rows.length === 0 ? "No trial is like that."
    : (view.first + 1) + " to " + (view.first + shown.length) + " of " + rows.length + (rows.length < page.content.trials.rows.length ? " (" + page.content.trials.rows.length + " in all)" : "");
  holder.querySelector("#trials-back").disabled = view.first === 0;
  holder.querySelector("#trials-on").disabled = view.first + PAGE >= rows.length;
}

function trialButton(trial, text) {
  return make("button", { type: "button", class: "link", "data-action": "trial", "data-trial": trial, "aria-label": "Open trial " + trial }, text);
}

function trialRow(columns, row) {
  const field = (name) => row[columns.indexOf(name)];
  const cells = shownColumns().map(({ name, rare }) => {
    const cell = trialCell(name, field);
    if (rare) cell.classList.add("rare");
    return cell;
  });
  return make("tr", {}, cells, make("td", { class: "rare" }, make("span", { class: "clamp" }, configuration(columns, row))));
}

function trialCell(name, field) {
  const value = field(name);
  if (name === "trial") return make("th", { scope: "row" }, trialButton(value, value));
  if (name === "state") return make("td", { class: "state" }, value, field("trial") === page.content.trials.answer ? make("div", {}, "holds the answer") : null, make("div", { class: "quiet-text" }, short(field("reason") || "")));
  if (name === "stratum" && value) return make("td", { class: "nowrap" }, make("span", { class: "mark mark-" + value }, value));
  if (name === "steps") return make("td", { class: "number" }, field("total_steps") === null ? String(value) : value + " of " + field("total_steps"));
  if (name === "training_s") return make("td", { class: "number" }, number(value, 3));
  return valueCell(value);
}

function configuration(columns, row) {
  const known = columns.map((name, index) => [name, row[index]]).slice(firstParameter()).filter(([, value]) => value !== null);
  return short(known.map(([name, value]) => name + " = " + parameter(value)).join(", "), 200);
}

// -- one trial -----------------------------------------------------------------------------------

let opened = null; // the number of the trial in the dialog

async function openTrial(trial) {
  const dialog = document.getElementById("trial-dialog");
  opened = trial;
  fillDialog(trial, page.content.details?.[trial] || null, page.live ? "Reading ..." : null);
  if (!dialog.open) dialog.showModal();
  if (page.live) await refreshDialog();
}

/** Read the open trial again; what comes too late, for another trial, is dropped. */
async function refreshDialog() {
  const trial = opened;
  if (trial === null) return;
  try {
    const detail = await fetchJson("api/trials/" + trial);
    if (opened === trial) fillDialog(trial, detail, null);
  } catch (error) {
    if (opened === trial) fillDialog(trial, null, "This trial could not be read: " + error.message);
  }
}

function fillDialog(trial, detail, notice) {
  const dialog = document.getElementById("trial-dialog");
  const columns = columnNames();
  const row = page.content.trials.rows.find((one) => String(one[columns.indexOf("trial")]) === String(trial));
  const field = (name) => (row ? row[columns.indexOf(name)] : null);
  const again = dialog.open && dialog.dataset.trial === String(trial);
  const [top, open] = [dialog.scrollTop, again && dialog.querySelector("details")?.open];
  dialog.dataset.trial = trial;
  const state = (detail && detail.state) || field("state") || "";
  const why = detail ? detail.why : [field("reason") || (state === "running" ? "It is running." : "Nothing was written down.")];
  const close = make("button", { type: "button", class: "quiet", "data-action": "close" }, "Close");
  const parts = [
    make("div", { class: "title-row" }, make("h2", { id: "trial-dialog-title" }, "Trial " + trial), make("span", { class: "badge badge-quiet" }, state), close),
    ...why.map((line, place) => make("p", { class: place === 0 ? "why" : "why-more" }, short(line, 6000))),
  ];
  if (notice) parts.push(make("p", { class: "quiet-text", role: "status" }, notice));
  if (detail) parts.push(...detailParts(detail));
  else if (row) {
    const rest = columns.map((name, index) => [label(name), row[index]]).filter(([name]) => !["trial", "state", "reason"].includes(name));
    parts.push(make("h3", {}, "What is known"), table("Trial " + trial, ["what", "value"], rest));
  }
  const plot = again ? document.getElementById("plot-trial") : null;
  if (!plot) forgetFigure("plot-trial");
  dialog.replaceChildren(...parts);
  const fresh = document.getElementById("plot-trial");
  if (plot && fresh) fresh.replaceWith(plot);
  if (open && dialog.querySelector("details")) dialog.querySelector("details").open = true;
  dialog.scrollTop = again ? top : 0;
  if (detail && detail.figure && fresh) setFigure("plot-trial", detail.figure);
  if (again) close.focus({ preventScroll: true });
}

function detailParts(detail) {
  const parts = [];
  if (detail.figure) parts.push(make("div", { id: "plot-trial", class: "plot", role: "img", "aria-label": short(detail.alt || "Learning curve of this trial", 1000) }));
  const params = Object.entries(detail.params || {}).map(([name, value]) => [name, parameter(value)]);
  if (params.length) parts.push(make("h3", {}, "Parameters"), table("Parameters", ["parameter", "value"], params));
  if (detail.reports) parts.push(...reportsTable("Its reports", "Reports of this trial", detail.reports));
  const earlier = detail.earlier; // an attempt that holds the answer
  if (earlier) {
    parts.push(...earlier.why.map((line) => make("p", { class: "why-more" }, short(line, 6000))),
      ...reportsTable("Reports of its attempt " + earlier.attempt, "Reports of the attempt that holds the answer", earlier.reports));
  }
  return parts;
}

function reportsTable(summary, title, reports) {
  if (!reports.rows || !reports.rows.length) return [];
  return [make("details", {}, make("summary", {}, summary), reports.note ? make("p", { class: "quiet-text" }, reports.note) : null, table(title, reports.columns, reports.rows))];
}
