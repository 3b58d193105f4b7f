// Every row: its prompt, texts side by side, verdicts in both orders, scores, and where each text is on its ladder.

import { idOf, nameOf, run, systemOf, verdict } from "./data.js";
import { count, empty, field, h, marked, number, s, select, table } from "./dom.js";
import { mean } from "./numbers.js";
import { preferences } from "./ratings.js";

const PAGE = 10;
const WIDE = matchMedia("(min-width: 75rem)"); // as in style.css: the first ladder of a row is beside its texts
export const filters = { system: "", criterion: "", only: "", text: "", sort: "row", page: 0 };
const ONLY = [
  ["", "all rows"], ["orders", "orders disagree"], ["person", "judge and person disagree"], ["mass", "low label mass"],
  ["unparsed", "unparsed"], ["missing", "no text"],
];
const SORTS = [["row", "in the order of the run"], ["close", "closest verdicts first"], ["low", "lowest score first"], ["high", "highest score first"]];

// Answers of people with which the judge disagrees.
export const disputes = () => preferences().filter(({ criterion, a, b, value }) => ![null, value].includes(verdict(criterion, a, b)));

export const ordersDisagree = (trial) => trial[3] !== null && trial[4] !== null && (trial[3] - 0.5) * (trial[4] - 0.5) < 0;

// The numbers of the rows that the filters leave, in the order chosen.
export function matching(given = filters) {
  const { pool, key, index } = run;
  const criterion = given.criterion === "" ? null : Number(given.criterion);
  const system = given.system === "" ? null : Number(given.system);
  const words = given.text.toLowerCase();
  const disputed = new Set(given.only === "person" ? disputes().filter((each) => criterion === null || each.criterion === criterion)
    .map((each) => pool.texts[each.a][0]) : []);
  const lacking = new Set(given.only === "missing" ? key.missing.map(([row]) => row) : []);
  const about = (trial) => (criterion === null || trial[0] === criterion)
    && (system === null || [trial[1], trial[2]].some((text) => key.texts[text][0] === system));
  const tests = {
    orders: (row) => index.trialsOf[row].some((number_) => about(index.trials[number_]) && ordersDisagree(index.trials[number_])),
    person: (row) => disputed.has(row),
    mass: (row) => index.trialsOf[row].some((each) => about(index.trials[each]) && (index.trials[each][6] ?? 1) < 0.5)
      || index.textsOf[row].some((text) => (key.masses ?? []).some((masses) => (masses[text] ?? 1) < 0.5)),
    unparsed: (row) => index.trialsOf[row].some((each) => about(index.trials[each]) && index.trials[each][5] === null)
      || index.textsOf[row].some((text) => key.columns.some((column) => column.kind === "score" && column.values[text] === null)),
    missing: (row) => lacking.has(row),
  };
  const rows = pool.rows.map((_, row) => row).filter((row) => {
    if (given.only && !tests[given.only](row)) return false;
    if (system !== null && !index.textsOf[row].some((text) => key.texts[text][0] === system)) return false;
    if (!words) return true;
    return [pool.rows[row].prompt ?? "", key.rows[row].id, ...index.textsOf[row].map((text) => pool.texts[text][1])]
      .some((text) => text.toLowerCase().includes(words));
  });
  const scores = key.columns.find((column) => column.kind === "score" && (criterion === null || column.criterion === criterion))?.values ?? [];
  const best = (row, pick) => pick(...index.textsOf[row].map((text) => scores[text]).filter((value) => typeof value === "number"));
  const order = {
    close: (row) => Math.min(1, ...index.trialsOf[row].map((each) => index.trials[each]).filter(about)
      .map((trial) => Math.abs(((trial[3] ?? 1) + (trial[4] ?? 1)) / 2 - 0.5))),
    low: (row) => best(row, Math.min),
    high: (row) => -best(row, Math.max),
  }[given.sort];
  if (!order) return rows;
  const keys = new Map(rows.map((row) => [row, order(row)]));
  return rows.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
}

export function examples() {
  const { pool, key } = run;
  const shown = h("div", { class: "rows" });
  const status = h("p", { role: "status" });
  const pager = h("nav", { class: "pager", "aria-label": "Pages of rows" });
  const draw = () => {
    const rows = matching();
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    filters.page = Math.min(filters.page, pages - 1);
    const first = filters.page * PAGE;
    const texts = rows.reduce((sum, row) => sum + run.index.textsOf[row].length, 0);
    const what = pool.kind === "compete" ? "rows" : `contexts, ${count(texts)} ${pool.kind === "score" ? "rows" : "texts"}`;
    status.textContent = rows.length ? `${count(rows.length)} of ${count(pool.rows.length)} ${what}, page ${count(filters.page + 1)} of ${count(pages)}`
      : "No row matches. Choose other filters, or clear the search.";
    shown.replaceChildren(...rows.slice(first, first + PAGE).map(rowCard));
    const go = (page) => { filters.page = page; draw(); status.scrollIntoView({ block: "nearest" }); };
    pager.replaceChildren(
      h("button", { disabled: filters.page === 0, onclick: () => go(0) }, "First"),
      h("button", { disabled: filters.page === 0, onclick: () => go(filters.page - 1) }, "Previous"),
      h("button", { disabled: filters.page >= pages - 1, onclick: () => go(filters.page + 1) }, "Next"),
      h("button", { disabled: filters.page >= pages - 1, onclick: () => go(pages - 1) }, "Last"));
  };
  const choose = (name) => (value) => { filters[name] = value; filters.page = 0; draw(); };
  let waiting = null;
  const search = h("input", { type: "search", value: filters.text, oninput: (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => choose("text")(event.target.value), 120);
  } });
  const systems = key.systems.map((system, index) => [String(index), system || "no system"]);
  // Only what leads to rows is offered, and the kind that another view has chosen.
  const kinds = ONLY.filter(([only]) => !only || only === filters.only || matching({ system: "", criterion: "", text: "", only }).length);
  const controls = h("div", { class: "controls" },
    field("Search", search),
    key.systems.length > 1 ? field("Model", select([["", "all models"], ...systems], filters.system, choose("system"))) : null,
    pool.criteria.length > 1 ? field("Criterion", select([["", "all criteria"], ...pool.criteria.map((each, index) => [String(index), each.name])], filters.criterion, choose("criterion"))) : null,
    kinds.length > 1 ? field("Show", select(kinds, filters.only, choose("only"))) : null,
    field("Sort", select(SORTS, filters.sort, choose("sort"))));
  draw();
  return [h("h1", {}, "Examples"), pool.rows.length ? null : empty("This run has no rows."), controls, status, shown, pager];
}

function rowCard(row) {
  const { pool, key, index } = run;
  const texts = [...index.textsOf[row]].sort((a, b) => key.texts[a][0] - key.texts[b][0]);
  const card = h("article", { class: "card" });
  let marks = false;
  const draw = () => card.replaceChildren(
    h("h2", {}, key.rows[row].name ?? key.rows[row].id),
    !pool.rows[row].prompt ? (key.rows[row].note ? h("p", { class: "missing" }, key.rows[row].note) : "")
      : h("details", { open: pool.rows[row].prompt.length < 1500 }, h("summary", {}, "Prompt"), h("p", { class: "text" }, pool.rows[row].prompt)),
    texts.length > 1 ? h("button", { "aria-pressed": String(marks), class: "small", onclick: () => { marks = !marks; draw(); } }, texts.length > 2 ? "Mark differences from the first text" : "Mark differences") : "",
    h("div", { class: "beside" }, h("div", { class: "texts" }, texts.map((text, position) => textCard(text,
      marks ? marked(pool.texts[text][1], pool.texts[texts[position ? 0 : 1]][1]) : pool.texts[text][1])),
    key.missing.filter(([each]) => each === row).map(([, system, note]) => h("section", { class: "output" },
      h("h3", {}, key.systems[system]), h("p", { class: "missing" }, note)))),
      h("div", {}, pool.criteria.map((_, criterion) => ladder(texts, criterion, WIDE.matches && !criterion)))),
    index.trialsOf[row].length ? verdicts(row) : "");
  draw();
  return card;
}

function textCard(text, words) {
  const { pool, key } = run;
  const values = key.columns.filter((column) => column.values[text] !== null && column.values[text] !== undefined);
  return h("section", { class: "output" }, h("h3", {}, systemOf(text)), key.kind === "score" && systemOf(text) !== nameOf(text) ? h("p", { class: "signature" }, nameOf(text)) : null,
    h("p", { class: "text" }, words),
    values.length ? h("dl", { class: "values" }, values.map((column) => [h("dt", {}, column.name), h("dd", {}, number(column.values[text], 2))]),
      pool.criteria.map((criterion, index) => (climbOf(text, index) ? [h("dt", {}, `${criterion.name} by rung`), h("dd", {}, climb(text, index))] : null))) : null,
    (key.notes ?? []).map((notes, criterion) => (notes[text] ? h("p", { class: "missing" }, `${pool.criteria[criterion].name}: ${notes[text]}`) : null)));
}

// Of a shared set, the rungs of each anchor stand under its request; other sets have one ladder, without a request.
const requests = () => (run.key.anchors?.length ? run.key.anchors : [null]);
const byAnchor = (all) => requests().map((_, anchor, { length }) => all.slice((anchor * all.length) / length, ((anchor + 1) * all.length) / length));

// The probability that a text is better than each rung of its ladder (the mean over anchors), from worst to best, as bars.
const climbOf = (text, criterion) => run.key.climbs?.[criterion][text] ?? null;
export function climb(text, criterion) {
  const ladders = byAnchor(climbOf(text, criterion));
  const chances = ladders[0].map((_, rung) => mean(ladders.map((levels) => levels[rung]).filter((each) => each !== null)));
  const step = 150 / chances.length;
  return s("svg", { viewBox: "0 0 150 30", width: 150, height: 30, role: "img", "aria-label": `Better than the rungs from worst to best with probability ${chances.map((each) => number(each, 2)).join(", ")}` },
    chances.map((chance, rung) => [
      s("rect", { x: rung * step + 2, y: 0, width: step - 4, height: 30, class: "axis" }),
      s("rect", { x: rung * step + 2, y: 30 * (1 - (chance ?? 0)), width: step - 4, height: 30 * (chance ?? 0), class: "fill" })]));
}

// The rungs of a row from worst to best, with the probability that each of these texts is better. Without `open`, a ladder of short rungs is open.
export function ladder(texts, criterion, open = null) {
  const judged = texts.filter((text) => climbOf(text, criterion));
  if (!judged.length) return null;
  const rungs = run.key.rungs?.[criterion][requests()[0] === null ? run.pool.texts[texts[0]][0] : 0];
  const name = (text) => (run.key.systems.length > 1 ? systemOf(text) : nameOf(text));
  const item = (rung) => h("li", {}, judged.map((text) => h("b", {}, `${name(text)} better with ${number(climbOf(text, criterion)[rung], 2)}`)),
    rungs ? h("span", { class: "text" }, rungs[rung]) : null);
  return h("details", { class: "ladder", open: open ?? (rungs ?? []).join("").length < 3000 }, h("summary", {}, `Ladder of ${run.pool.criteria[criterion].name}`),
    byAnchor(climbOf(judged[0], criterion).map((_, rung) => item(rung))).map((items, anchor) => [
      requests()[anchor] ? h("p", { class: "request text" }, h("b", {}, "Request: "), requests()[anchor]) : null, h("ol", { class: "rungs" }, items)]));
}

function verdicts(row) {
  const { pool, index } = run;
  const people = preferences().filter((each) => pool.texts[each.a][0] === row);
  return table("verdicts of the judge in both orders", ["criterion", "A : B", "p(A), A first", "p(A), B first", "verdict", "people", "explanation"],
    index.trialsOf[row].map((each) => index.trials[each]).map(([criterion, a, b, forward, backward, winner, mass, note, explanation]) => [
      pool.criteria[criterion].name, `${systemOf(a)} : ${systemOf(b)}`, number(forward), number(backward),
      winner === null ? "unparsed" : winner === 0 ? "tie" : systemOf(winner > 0 ? a : b),
      people.filter((rating) => rating.criterion === criterion && [a, b].includes(rating.a) && [a, b].includes(rating.b))
        .map((rating) => `${rating.rater}: ${rating.value ? systemOf(rating.value > 0 ? rating.a : rating.b) : "tie"}`).join(", ") || "—",
      [explanation ?? "", note ? h("span", { class: "missing" }, ` ${note}`) : "", (mass ?? 1) < 0.5 ? h("span", { class: "missing" }, ` low label mass ${number(mass, 2)}`) : ""]]));
}
