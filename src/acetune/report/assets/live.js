// A live page: told of changes by server-sent events, it reads the content again.

async function fetchJson(address) {
  const answer = await fetch(address, { cache: "no-cache" }); // asked for, but sent only if it is new
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({}));
  throw new Error(short(said.problem || "the server answered " + answer.status, 300));
}

function sayConnection(state, text) {
  const place = document.getElementById("connection");
  place.hidden = false;
  place.dataset.state = state;
  if (place.textContent !== text) place.textContent = text;
}

const reader = { busy: false, again: false, held: false };

/** Read the content and show it; asked again meanwhile, it does so once more. */
async function refresh() {
  if (document.hidden) return; // told again once it is seen
  if (reader.busy || reader.held) { reader.again = true; return; }
  reader.busy = true;
  reader.again = false;
  try {
    showContent(await fetchJson("api/content"));
    sayLive();
    if (document.getElementById("trial-dialog").open) await refreshDialog();
  } catch (error) {
    sayConnection("lost", "Cannot read the study (" + error.message + "); trying again");
    setTimeout(refresh, 2000);
  } finally {
    reader.busy = false;
  }
  if (reader.again) refresh();
}

function sayLive() {
  sayConnection("live", page.content.study.running ? "Live" : "Up to date. The study " + (page.content.study.ended === null ? "is not running." : "has ended."));
}

let events = null; // the stream, while the page is in sight

/** Listen while the page can be seen: a browser has few connections for each server. */
function follow() {
  document.addEventListener("visibilitychange", listen);
  listen();
}

function listen() {
  if (document.hidden) {
    events?.close();
    events = null;
  } else if (events === null) connect();
}

function connect() {
  events = new EventSource("api/events");
  events.addEventListener("open", sayLive); // the latest edition is told at once
  events.addEventListener("changed", (event) => {
    if (JSON.parse(event.data).edition !== page.content.edition) refresh();
    else sayLive();
  });
  events.addEventListener("problem", (event) => sayConnection("lost", short(JSON.parse(event.data).problem, 300)));
  events.addEventListener("error", () => {
    sayConnection("lost", "Connection lost; trying again");
    if (events?.readyState !== EventSource.CLOSED) return; // the browser tries again itself
    events = null;
    setTimeout(listen, 2000);
  });
}

// a part that is replaced under a finger or a pressed mouse button would be let go: wait
addEventListener("pointerdown", () => { reader.held = true; });
for (const name of ["pointerup", "pointercancel", "blur"]) {
  addEventListener(name, () => { reader.held = false; if (page.live && reader.again) refresh(); });
}
