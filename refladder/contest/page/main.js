// Which view is shown. Blind rating shows nothing of the key: the document holds its own elements only.

import { agreement } from "./agreement.js";
import { blind, blindKey } from "./blind.js";
import { build, compare } from "./build.js";
import { ask, isServed, loadKey, loadPool, run, takeData, takeToken } from "./data.js";
import { empty, h, problem } from "./dom.js";
import { examples } from "./examples.js";
import { leaderboard } from "./leaderboard.js";
import { restore } from "./ratings.js";
import { scores } from "./scores.js";

const VIEWS = {
  results: ["Results", leaderboard], examples: ["Examples", examples], blind: ["Blind rating", blind],
  agreement: ["Agreement", agreement], scores: ["Scores", scores], compare: ["Two runs", compare], build: ["Build and run", build],
};
const SERVED = ["compare", "build"];
const root = document.getElementById("page");
const screen = h("main", { id: "main", tabindex: "-1" });
const links = h("nav", { class: "views", "aria-label": "Views" });

const current = () => (location.hash.slice(1) in VIEWS ? location.hash.slice(1) : run.name === null ? "build" : run.pool?.kind === "score" ? "scores" : "results");

// A view that would be empty has no tab. Before a blind rating only the pool is read.
function holds(name) {
  if (SERVED.includes(name)) return isServed();
  if (run.name === null || !run.pool) return true;
  if (name === "results") return run.pool.kind !== "score";
  return name !== "agreement" || run.pool.kind === "evaluate" || run.stored.length > 0;
}

function tabs(view) {
  links.replaceChildren(...Object.entries(VIEWS).filter(([name]) => name === view || holds(name))
    .map(([name, [label]]) => h("a", { href: `#${name}`, "aria-current": name === view ? "page" : null }, label)));
}

// `data-view` names the view that is drawn; while another one loads, nothing draws into the page.
let latest = 0;
async function show() {
  latest += 1;
  const turn = latest;
  if (!(location.hash.slice(1) in VIEWS) && run.name !== null) await loadPool().catch(() => null); // its kind chooses the view
  const view = current();
  const draw = (...body) => {
    if (turn !== latest) return;
    tabs(view);
    screen.replaceChildren(...body.flat(9).filter(Boolean));
    screen.dataset.view = view;
  };
  delete screen.dataset.view;
  tabs(view);
  screen.replaceChildren(h("p", { role: "status" }, "Loading …"));
  try {
    if (view === "blind") await loadPool();
    else if (!SERVED.includes(view) && run.name !== null) await loadKey();
    const body = run.name === null && !SERVED.includes(view)
      ? [h("h1", {}, VIEWS[view][0]), empty("No run is open. ", h("a", { href: "#build" }, "Build and run"), " makes one, or open one there.")]
      : await VIEWS[view][1](screen);
    draw(body);
  } catch (error) {
    draw(h("h1", {}, VIEWS[view][0]), problem(error));
  }
}

function open() {
  root.replaceChildren(h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); screen.focus(); } }, "Skip to the content"),
    h("header", {}, h("span", { class: "brand" }, "refladder"), links), screen);
  addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
  document.addEventListener("rated", () => tabs(current()));
  addEventListener("keydown", (event) => { if (current() === "blind") blindKey(screen, event); });
  show();
}

if (takeData()) {
  restore();
  open();
} else if (takeToken()) {
  ask("/api/start").then((start_) => {
    run.name = start_.run === null ? null : "";
    open();
  }).catch((error) => root.replaceChildren(h("main", {}, h("h1", {}, "refladder review"), problem(error))));
} else {
  root.replaceChildren(h("main", {}, h("h1", {}, "refladder review"), empty("Open the address that ", h("code", {}, "refladder review"), " printed: it holds the key to this page.")));
}
