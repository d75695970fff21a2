// Figures: drawn when they come near, in the colours of the page, drawn again when these change.

const figures = new Map(); // id of the plot -> {figure, key, drawn: once at least, due: to be drawn, shapes}
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false, scrollZoom: false };

const waiting = new Set(); // ids of plots that are near and not drawn yet

const nearby = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting && figures.has(target.id)) waiting.add(target.id);
    else waiting.delete(target.id);
  }
  drawWaiting();
}, { rootMargin: "600px 0px" });

/** Draw what is near, one figure a frame, those in sight first: so that the first is soon seen. */
const drawWaiting = soon(() => {
  if (!window.Plotly || waiting.size === 0) return; // the page calls again when plotly.js is there
  const inSight = (id) => {
    const box = document.getElementById(id)?.getBoundingClientRect();
    return box && box.bottom > 0 && box.top < innerHeight;
  };
  const ids = [...waiting];
  drawWaiting(); // before drawing: a figure that goes wrong must not hold up the others
  draw(ids.find(inSight) || ids[0]);
});

/** A figure that belongs to the element with this id; it is drawn when the element is near. */
function setFigure(id, figure) {
  const key = JSON.stringify(figure);
  const known = figures.get(id);
  if (known && known.key === key) return;
  const place = document.getElementById(id);
  if (place && figure.layout && figure.layout.height) place.style.minHeight = figure.layout.height + "px"; // so that nothing jumps
  figures.set(id, { figure, key, drawn: Boolean(known?.drawn), due: true, shapes: known ? known.shapes : [] });
  lookFor(id);
}

/** Be told whether the place of a figure is near, now and later. */
function lookFor(id) {
  const place = document.getElementById(id);
  if (!place) return;
  nearby.unobserve(place);
  nearby.observe(place);
}

/** Lines drawn over a figure: where the reader has put the limit. */
function setShapes(id, shapes) {
  const known = figures.get(id);
  if (!known) return;
  known.shapes = shapes;
  const place = document.getElementById(id);
  if (known.drawn && place) {
    const own = (known.figure.layout.shapes || []).map((shape) => ({ ...shape }));
    window.Plotly.relayout(place, { shapes: own.concat(shapes) });
  }
}

function forgetFigure(id) {
  const place = document.getElementById(id);
  if (place && figures.get(id)?.drawn) window.Plotly.purge(place);
  figures.delete(id);
}

function draw(id) {
  const place = document.getElementById(id);
  const known = figures.get(id);
  waiting.delete(id);
  if (!place || !known) return;
  nearby.unobserve(place);
  if (!known.drawn) place.replaceChildren();
  known.drawn = true;
  known.due = false;
  const copy = structuredClone(known.figure);
  window.Plotly.react(place, copy.data, themed(copy.layout || {}, known, place.clientWidth), CONFIG);
}

/** Draw everything now: it will be printed. */
function drawAll() {
  for (const [id, known] of figures) if (window.Plotly && known.due) draw(id);
}

/** The colours have changed. */
function redrawAll() {
  for (const [id, known] of figures) {
    known.due = true;
    lookFor(id);
  }
}

/** The colours of the page as the browser resolves them. */
function colours() {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  const found = {};
  for (const name of ["page", "raised", "text", "soft", "line", "strong-line", "accent"]) {
    probe.style.color = "var(--" + name + ")";
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

// beyond what k, M or p stand for plotly.js writes powers with a style attribute, which the policy of the page forbids
const FAR = /\de[+-]?\d\d|(?<![.\d])\d{16}/;

function themed(layout, { key, shapes }, width) {
  const colour = colours();
  const narrow = width < 560;
  const axis = { gridcolor: colour.line, linecolor: colour["strong-line"], zerolinecolor: colour.line, tickcolor: colour["strong-line"], exponentformat: FAR.test(key) ? "e" : "B" };
  const all = { ...layout };
  delete all.width;
  for (const name of Object.keys(all)) {
    if (/^[xy]axis\d*$/.test(name)) {
      all[name] = { ...axis, ...all[name], automargin: true };
      all[name].tickfont = { ...all[name].tickfont, color: colour.soft };
    }
  }
  for (const name of ["xaxis", "yaxis"]) all[name] ??= { ...axis, automargin: true };
  all.font = { ...all.font, family: getComputedStyle(document.body).fontFamily, color: colour.text, size: narrow ? 12 : 13 };
  all.paper_bgcolor = all.plot_bgcolor = "rgba(0,0,0,0)";
  all.hoverlabel = { ...all.hoverlabel, bgcolor: colour.raised, bordercolor: colour["strong-line"], font: { color: colour.text, family: all.font.family } };
  all.margin = { t: 12, r: 12, l: 8, b: 8, ...all.margin };
  all.legend = { ...all.legend, bgcolor: "rgba(0,0,0,0)" };
  // bold and slanted words inside a text are style attributes, which the policy of the page forbids
  all.annotations = (all.annotations || []).map((note) => ({ ...note, text: String(note.text || "").replace(/<\/?[bi]>/g, "") }));
  all.shapes = (all.shapes || []).concat(shapes);
  all.autosize = true;
  all.uirevision = "kept"; // zoom and hidden traces outlive an update
  all.dragmode = matchMedia("(pointer: coarse)").matches ? false : (all.dragmode || "zoom");
  return all;
}
