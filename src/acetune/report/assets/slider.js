// The limit slider: the best checkpoint under another limit, looked up in what Python computed.

const limits = new Map(); // place of the constraint -> the limit the reader chose

/** One slider a constraint; those that exist keep their position. */
function showSliders(content) {
  const holder = document.getElementById("sliders");
  document.getElementById("what-if").hidden = content.what_if.length === 0;
  const link = document.querySelector('nav a[href="#what-if"]');
  if (link) link.parentElement.hidden = content.what_if.length === 0;
  if (!holder.classList.contains("ready")) {
    holder.replaceChildren();
    holder.classList.add("ready");
  }
  content.what_if.forEach((item, place) => {
    const box = document.getElementById("slider-" + place) || newSlider(holder, item, place);
    const [range, field] = [box.querySelector("[type=range]"), box.querySelector("[type=number]")];
    range.min = item.low;
    range.max = item.high;
    range.step = item.step ?? "any";
    field.step = item.step ?? "any";
    if (!limits.has(place)) {
      range.value = item.limit;
      field.value = plainNumber(item.limit, 12);
    }
    answerSlider(place);
  });
}

function newSlider(holder, item, place) {
  const name = "limit of " + short(item.constraint, 80);
  const box = make("div", { class: "slider", id: "slider-" + place },
    make("div", { class: "slider-row" },
      make("label", { for: "range-" + place }, short(item.constraint, 80) + " " + sense(item)),
      make("input", { type: "range", id: "range-" + place, "aria-label": name, "aria-describedby": "result-" + place }),
      make("input", { type: "number", id: "field-" + place, "aria-label": name + ", as a number" }),
      make("button", { type: "button", class: "quiet" }, "Reset")),
    make("p", { class: "slider-result", id: "result-" + place, "aria-live": "polite" }),
    make("p", { class: "quiet-text" }, item.note || ""));
  const [range, field, reset] = [box.querySelector("[type=range]"), box.querySelector("[type=number]"), box.querySelector("button")];
  range.addEventListener("input", () => {
    field.value = plainNumber(Number(range.value), 12); // round, but for what floats add to it
    limits.set(place, Number(field.value)); // what is shown is what is asked
    answerSlider(place);
  });
  field.addEventListener("input", () => {
    if (field.value === "" || !Number.isFinite(field.valueAsNumber)) return;
    limits.set(place, field.valueAsNumber);
    range.value = field.valueAsNumber;
    answerSlider(place);
  });
  reset.addEventListener("click", () => {
    limits.delete(place);
    showSliders(page.content);
  });
  holder.append(box);
  return box;
}

function sense(item) {
  return item.sense === "<=" ? "≤" : "≥";
}

/** The answer that holds at a limit: the last one, from strict to loose, that the limit allows. */
function answerAt(item, limit) {
  let found = null;
  for (const point of item.breakpoints) {
    if (point.limit !== null && (item.sense === "<=" ? point.limit > limit : point.limit < limit)) break;
    found = point;
  }
  return found;
}

/** Better checkpoints that were never fully checked: under a looser limit more of them may qualify. */
function uncheckedAt(item, limit, now) {
  const looser = (than) => (item.sense === "<=" ? limit > than : limit < than);
  const beyond = looser(item.limit) && (now.limit === null || looser(now.limit));
  return beyond ? now.unchecked_looser : now.unchecked_better;
}

function answerSlider(place) {
  const item = page.content.what_if[place];
  const limit = limits.has(place) ? limits.get(place) : item.limit;
  const [now, own] = [answerAt(item, limit), answerAt(item, item.limit)];
  const result = document.getElementById("result-" + place);
  document.getElementById("range-" + place).setAttribute("aria-valuetext", sense(item) + " " + number(limit));
  result.replaceChildren(...slidWords(item, limit, now, own));
  result.dataset.value = now && now.value !== null ? now.value : "";
  result.dataset.unchecked = now ? uncheckedAt(item, limit, now) : "";
  markLimits();
}

function slidWords(item, limit, now, own) {
  const objective = page.content.study.objective;
  const others = page.content.what_if.filter((other) => other !== item).map((other) => short(other.constraint, 80) + " still " + sense(other) + " " + number(other.limit));
  const words = ["With " + [short(item.constraint, 80) + " " + sense(item) + " " + number(limit), ...others].join(", ") + ": "];
  if (!now || now.value === null) words.push(make("strong", {}, "nothing recorded qualifies"), ".");
  else {
    words.push(make("strong", {}, short(objective.name, 80) + " " + number(now.value)),
      " at " + short(item.constraint, 80) + " " + estimate(now.constraint_value, now.stderr) + " (", trialButton(now.trial, "trial " + now.trial), ", step " + now.step + ")");
    if (limit !== item.limit && own && own.value !== null) {
      const gain = (now.value - own.value) * (objective.mode === "max" ? 1 : -1);
      words.push(gain === 0 ? ", the same as under the limit of the study." : ", " + number(Math.abs(gain), 3) + (gain > 0 ? " better" : " worse") + " than under the limit of the study.");
    } else words.push(limit === item.limit ? ", under the limit of the study." : ".");
  }
  const unchecked = now ? uncheckedAt(item, limit, now) : null;
  if (unchecked) {
    const many = (unchecked === 1 ? "checkpoint was" : "checkpoints were") + " never fully checked";
    if (now.value === null) words.push(" " + count(unchecked) + " " + many + ".");
    else words.push(" " + count(unchecked) + " better " + many + ": it is at least this good.");
  }
  return words;
}

/** A line in the figure where each limit stands now. */
const markLimits = soon(() => {
  const colour = colours().accent;
  const shapes = page.content.what_if.flatMap((item, place) => {
    if (!limits.has(place)) return [];
    // two panels a constraint: the objective, and below it the unchecked checkpoints
    return [2 * place + 1, 2 * place + 2].map((panel) => {
      const axis = panel === 1 ? "" : String(panel);
      return { type: "line", xref: "x" + axis, yref: "y" + axis + " domain", x0: limits.get(place), x1: limits.get(place), y0: 0, y1: 1, line: { color: colour, width: 2 } };
    });
  });
  setShapes("plot-what_if", shapes);
});
