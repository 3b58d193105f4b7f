// Win rates per criterion and weighted overall, with intervals, beside the warnings that concern them.

import { run } from "./data.js";
import { bar, count, empty, field, h, interval, number, percent, table } from "./dom.js";
import { filters, ordersDisagree } from "./examples.js";
import { shareInterval } from "./numbers.js";

export const OVERALL = "overall";
const LEGEND = [
  ["win rate", "(wins + ties / 2) / (wins + ties + losses)"],
  ["interval", "95 % interval over rows"],
  ["wins", "pairs in which both orders choose this model's text"],
  ["ties", "pairs whose two orders disagree or are undecided"],
  ["unparsed", "pairs without a usable answer of the judge; not counted"],
  ["no text", "rows without a text by the model; not counted"],
];

// Points and trials of every model on every criterion, by row.
export function tally(pool, key) {
  const rows = pool.rows.length;
  const cells = key.systems.map(() => pool.criteria.map(() => ({
    points: new Float64Array(rows), trials: new Float64Array(rows), wins: 0, ties: 0, losses: 0, unparsed: 0,
  })));
  for (const [criterion, a, b, , , winner] of key.trials ?? []) {
    const row = pool.texts[a][0];
    [[a, 1], [b, -1]].forEach(([text, side]) => {
      const cell = cells[key.texts[text][0]][criterion];
      if (winner === null) cell.unparsed += 1;
      else {
        cell.trials[row] += 1;
        cell.points[row] += winner === 0 ? 0.5 : winner === side ? 1 : 0;
        cell[winner === 0 ? "ties" : winner === side ? "wins" : "losses"] += 1;
      }
    });
  }
  return cells;
}

// The terms of the tables, without those that count nothing in this run.
function legend(cells, key) {
  const all = cells.flat();
  const counts = { ties: all.some((cell) => cell.ties), unparsed: all.some((cell) => cell.unparsed), "no text": key.missing.length > 0 };
  return LEGEND.filter(([term]) => counts[term] ?? true);
}

// Weighted win rates, best first. Weights are scaled to a mean of 1, so equal weights give the plain win rate.
export function standings(cells, key, weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const scaled = weights.map((weight) => (total ? (weight * weights.length) / total : 0));
  const used = scaled.map((weight, criterion) => [weight, criterion]).filter(([weight]) => weight > 0);
  const factor = used.length === 1 ? 1 / used[0][0] : 1; // one criterion alone counts as itself
  return cells.map((byCriterion, system) => {
    const sum = (name) => byCriterion[0][name].map((_, row) => (
      used.reduce((value, [weight, criterion]) => value + factor * weight * byCriterion[criterion][name][row], 0)));
    const [points, trials] = [[...sum("points")], [...sum("trials")]];
    const [won, all] = [points, trials].map((each) => each.reduce((value, part) => value + part, 0));
    const plain = (name) => used.reduce((value, [, criterion]) => value + byCriterion[criterion][name], 0);
    return {
      system: key.systems[system],
      rate: all ? won / all : null,
      ends: shareInterval(points, trials),
      ...Object.fromEntries(["wins", "ties", "losses", "unparsed"].map((name) => [name, plain(name)])),
      failed: key.missing.filter(([, each]) => each === system).length,
    };
  }).sort((a, b) => (b.rate ?? -1) - (a.rate ?? -1));
}

export function standingTable(caption, rows, legend = []) {
  return table(caption, ["model", "win rate", "0 to 1", "interval", "wins", "ties", "losses", "unparsed", "no text"],
    rows.map((row) => [row.system, number(row.rate), bar(row.rate, row.ends), interval(row.ends),
      ...[row.wins, row.ties, row.losses, row.unparsed, row.failed].map(count)]), legend);
}

const only = (criteria, chosen) => criteria.map((_, criterion) => (criterion === chosen ? 1 : 0));

export function leaderboard() {
  const { pool, key } = run;
  const parts = [h("h1", {}, "Results"), h("p", { class: "subtitle" }, key.title), notices()];
  if (key.tables) return [...parts, key.tables.map((each) => table(each.caption, each.heads, each.rows, each.legend)), made()];
  if (!key.trials) {
    return [...parts, empty("This run has no comparisons between texts. See ", h("a", { href: "#scores" }, "Scores"), "."), made()];
  }
  const cells = tally(pool, key);
  const weights = pool.criteria.map((criterion) => criterion.weight);
  if (pool.criteria.length > 1) {
    const shown = h("div", { "aria-live": "polite" });
    const draw = () => shown.replaceChildren(standingTable(`${OVERALL}: weighted win rate over all criteria`, standings(cells, key, weights)));
    draw();
    parts.push(h("fieldset", { class: "weights" }, h("legend", {}, "Weights"), pool.criteria.map((criterion, index) => {
      const output = h("output", {}, number(weights[index], 1));
      const most = Math.max(3, ...weights);
      return field(criterion.name, h("input", { type: "range", min: 0, max: most, step: 0.1, value: weights[index],
        oninput: (event) => { weights[index] = Number(event.target.value); output.textContent = number(weights[index], 1); draw(); } }), output);
    })), shown);
  }
  pool.criteria.forEach((criterion, index) => {
    const last = index === pool.criteria.length - 1;
    parts.push(h("section", {}, h("h2", {}, criterion.name), described(criterion),
      standingTable("win rate over pairs of texts, each judged in both orders",
        standings(cells, key, only(pool.criteria, index)), last ? legend(cells, key) : []), faults(index)));
  });
  return [...parts, made()];
}

// What makes the numbers of a criterion unreliable, each with a link to its rows.
function faults(criterion) {
  const trials = run.key.trials.filter(([each]) => each === criterion);
  const kinds = [
    ["orders", "pairs whose two orders disagree; they are ties", trials.filter(ordersDisagree).length],
    ["mass", "pairs with low label mass: the judge would rather have said something else", trials.filter((trial) => (trial[6] ?? 1) < 0.5).length],
    ["unparsed", "pairs without a usable answer; they are not counted", trials.filter((trial) => trial[5] === null).length],
  ].filter(([, , found]) => found);
  const open = (only_) => () => Object.assign(filters, { only: only_, criterion: String(criterion), system: "", text: "", page: 0 });
  return kinds.length ? h("ul", { class: "warnings" }, kinds.map(([only_, words, found]) => h("li", {},
    h("a", { href: "#examples", onclick: open(only_) }, `${count(found)} of ${count(trials.length)} (${percent(found / trials.length)})`), ` ${words}`))) : null;
}

export const described = (criterion) => h("p", { class: "description" }, criterion.description);

// What is good to know, and in a box of its own what makes the numbers unreliable.
export function notices() {
  const list = (name, lines) => (lines?.length ? h("ul", { class: name }, lines.map((line) => h("li", {}, line))) : null);
  return [list("facts-box", run.key.facts), list("warnings", run.key.warnings)];
}

export function made() {
  const { cost, signature } = run.key;
  if (!cost.length && !signature) return null;
  return h("details", { class: "made" }, h("summary", {}, "Cost, and how it was made"),
    cost.length ? h("ul", {}, cost.map((line) => h("li", {}, line))) : null, h("p", { class: "signature" }, signature));
}
