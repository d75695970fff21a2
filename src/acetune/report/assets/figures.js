// Figures: drawn when they come near, in the colours of the page, drawn again when these change.

const figures = new Map(); // id of the plot -> {figure, key, drawn, shapes}
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false, scrollZoom: false };

const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting && figures.has(entry.target.id)) draw(entry.target.id);
  }
}, { rootMargin: "600px 0px" });

/** A figure that belongs to the element with this id; it is drawn when the element comes near. */
function setFigure(id, figure) {
  const key = JSON.stringify(figure);
  const known = figures.get(id);
  if (known && known.key === key) return;
  const place = document.getElementById(id);
  if (place && figure.layout && figure.layout.height) place.style.minHeight = figure.layout.height + "px"; // so that nothing jumps
  figures.set(id, { figure, key, drawn: Boolean(known && known.drawn), shapes: known ? known.shapes : [] });
  if (known && known.drawn) draw(id);
  else if (place) nearby.observe(place);
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
  if (!place || !window.Plotly) return;
  nearby.unobserve(place);
  if (!known.drawn) place.replaceChildren();
  known.drawn = true;
  const copy = structuredClone(known.figure);
  window.Plotly.react(place, copy.data, themed(copy.layout || {}, known.shapes, place.clientWidth), CONFIG);
}

function drawAll() {
  for (const [id, known] of figures) if (!known.drawn) draw(id);
}

function redrawAll() {
  for (const [id, known] of figures) if (known.drawn) draw(id);
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

function themed(layout, shapes, width) {
  const colour = colours();
  const narrow = width < 560;
  const axis = { gridcolor: colour.line, linecolor: colour["strong-line"], zerolinecolor: colour.line, tickcolor: colour["strong-line"] };
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
  // bold words inside a text are a style attribute, which the policy of the page forbids
  all.annotations = (all.annotations || []).map((note) => ({ ...note, text: String(note.text || "").replace(/<\/?b>/g, "") }));
  all.shapes = (all.shapes || []).concat(shapes);
  all.autosize = true;
  all.uirevision = "kept"; // zoom and hidden traces outlive an update
  all.dragmode = matchMedia("(pointer: coarse)").matches ? false : (all.dragmode || "zoom");
  return all;
}
