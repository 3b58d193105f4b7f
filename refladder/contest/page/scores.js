// A column of scores: its distribution by system, a threshold that can be moved, and the texts on either side of it.

import { idOf, nameOf, run, systemOf } from "./data.js";
import { count, download, empty, field, h, lines, number, percent, s, select } from "./dom.js";
import { made, notices } from "./leaderboard.js";
import { ladder } from "./examples.js";
import { exactLowerBound, mean } from "./numbers.js";
import { isPair } from "./ratings.js";

const SMALL = [320, 70, 40]; // width and height of a histogram, and its bars
const wide = () => (innerWidth < 700 ? [360, 140, 20] : [1200, 160, 40]); // of all texts: as wide as the page
const CONFIDENCE = 0.9;
const choice = { column: 0, label: "", bar: null, threshold: null };

// Mean grade of each text on the page, by criterion.
function rated(criterion) {
  const given = run.pool.texts.map(() => []);
  run.stored.filter((rating) => !isPair(rating) && rating.criterion === criterion).forEach((rating) => given[rating.text].push(rating.value));
  return given.map(mean);
}

function labels() {
  const sources = run.key.columns.filter((column) => column.kind === "label").map((column) => [column.name, column.values]);
  run.pool.criteria.forEach((criterion, index) => {
    const values = rated(index);
    if (values.some((value) => value !== null)) sources.push([`ratings on this page: ${criterion.name}`, values]);
  });
  return sources;
}

// What a threshold keeps. Labels count as a random sample; the bound holds for a threshold chosen without them.
export function kept(scores, threshold, label, bar) {
  const scored = scores.filter((value) => typeof value === "number");
  const above = scores.map((value, text) => (typeof value === "number" && value >= threshold ? text : null)).filter((text) => text !== null);
  const known = label ? above.map((text) => label[text]).filter((value) => typeof value === "number") : [];
  const good = known.filter((value) => value >= bar).length;
  return {
    kept: above.length, scored: scored.length, labels: known.length, good,
    precision: known.length ? good / known.length : null,
    bound: known.length ? exactLowerBound(good, known.length, CONFIDENCE) : null,
  };
}

export function scores() {
  const columns = run.key.columns.filter((column) => column.kind === "score" && column.values.some((value) => typeof value === "number"));
  if (!columns.length) return [h("h1", {}, "Scores"), empty("This run holds no scores. Score a table with ", h("code", {}, "refladder score"), " and open it with ", h("code", {}, "refladder review TABLE"), ".")];
  const sources = labels();
  const shown = h("div");
  const draw = () => shown.replaceChildren(...panel(columns[choice.column] ?? columns[0], sources).flat(9).filter(Boolean));
  draw();
  return [h("h1", {}, "Scores"), notices(), h("div", { class: "controls" },
    field("Score", select(columns.map((column, index) => [String(index), column.name]), String(choice.column), (value) => { Object.assign(choice, { column: Number(value), threshold: null }); draw(); })),
    sources.length ? field("Labels", select([["", "none"], ...sources.map(([name_], index) => [String(index), name_])], choice.label, (value) => {
      choice.label = value;
      choice.bar = value === "" ? null : middle(sources[Number(value)][1]);
      draw();
    })) : null), sources.length ? null : h("p", {}, "Grade single texts in ", h("a", { href: "#blind" }, "Blind rating"), " to see the precision of a threshold."), shown, run.pool.kind === "score" ? made() : null];
}

function middle(values) {
  const sorted = values.filter((value) => typeof value === "number").sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function panel(column, sources) {
  const { values } = column;
  const numbers = values.filter((value) => typeof value === "number");
  const [low, high] = numbers.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  choice.threshold ??= Number(middle(values).toFixed(4));
  const label = choice.label === "" ? null : sources[Number(choice.label)]?.[1];
  const facts = h("dl", { class: "facts" });
  const near = h("div");
  const whole = h("div", { class: "whole" });
  const plots = h("div", { class: "plots" });
  const command = h("code", { class: "command" });
  const draw = () => {
    const result = kept(values, choice.threshold, label, choice.bar);
    facts.replaceChildren(...[
      [[swatch("fill"), "kept"], `${count(result.kept)} of ${count(result.scored)} scored (${percent(result.scored ? result.kept / result.scored : null)})`],
      [[swatch("rest"), "not kept"], count(result.scored - result.kept)],
      ["without a score", count(values.length - result.scored + (run.key.without_text ?? 0))],
      label ? ["precision", result.labels ? `${percent(result.precision)}: ${count(result.good)} of ${count(result.labels)} labels above the threshold are good` : "no labels above the threshold"] : null,
      label ? ["lower bound", `${percent(result.bound)} with ${100 * CONFIDENCE} % confidence, for a threshold chosen before the labels were seen`] : null,
    ].filter(Boolean).flatMap(([term, meaning]) => [h("dt", {}, term), h("dd", {}, meaning)]));
    const own = run.key.systems.map((system, index) => [system || "all texts", values.filter((_, text_) => run.key.texts[text_][0] === index)]).slice(0, 24);
    whole.replaceChildren(histogram("all", values, low, high, move, wide(), true));
    plots.replaceChildren(...(own.length > 1 ? own.map(([system, some]) => histogram(system, some, low, high, move)) : []));
    near.replaceChildren(...around(column));
    command.textContent = `refladder filter ${run.key.table ?? "scored.jsonl"} --min ${quoted(`${column.name}=${choice.threshold}`)} --out passed.jsonl`;
  };
  const text = h("input", { type: "number", step: "any", value: choice.threshold, onchange: (event) => move(Number(event.target.value)) });
  const slider = h("input", { type: "range", min: low, max: high, step: "any", value: choice.threshold, oninput: (event) => move(Number(event.target.value)) });
  const move = (value) => {
    choice.threshold = Number(value.toFixed(4));
    [text.value, slider.value] = [choice.threshold, choice.threshold];
    draw();
  };
  draw();
  const calibrate = label ? h("p", {}, "A promise that holds although the labels choose the threshold: ", h("code", { class: "command" },
    `refladder calibrate ${run.key.table ?? "scored.jsonl"} --by ${quoted(column.name)} --labels ratings.jsonl --label ${quoted(run.pool.criteria[column.criterion ?? 0].name)} --good '>=${choice.bar}'`)) : null;
  return [
    h("div", { class: "controls wide" }, field("Threshold", slider), field("Value", text),
      label ? field("A label is good from", h("input", { type: "number", step: "any", value: choice.bar, onchange: (event) => { choice.bar = Number(event.target.value); draw(); } })) : null),
    h("div", { role: "status" }, facts), whole, plots, h("p", { class: "answers" }, h("button", { onclick: () => save_("passed.jsonl", column, choice.threshold) }, "Download what passes"),
      h("button", { onclick: () => save_("scored.jsonl", column, -Infinity) }, "Download all scores")),
    column.name.includes(": ") || run.key.kind === "compete" ? null : h("p", {}, "The same in the shell: ", command), calibrate, near];
}

const quoted = (word) => (/^[\w=.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

const swatch = (name) => s("svg", { width: 12, height: 12, "aria-hidden": "true", class: "swatch" }, s("rect", { width: 12, height: 12, class: name }));

function histogram(system, values, low, high, move, [width, height, bars] = SMALL, counted = false) {
  const numbers = values.filter((value) => typeof value === "number");
  const bins = new Array(bars).fill(0);
  const at = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  numbers.forEach((value) => { bins[Math.min(bars - 1, Math.floor(at(value) * bars))] += 1; });
  const most = Math.max(1, ...bins);
  const top = counted ? 14 : 0; // room for the counts
  const x = width * at(choice.threshold);
  return h("figure", {}, h("figcaption", {}, `${system}: ${count(numbers.filter((value) => value >= choice.threshold).length)} of ${count(numbers.length)} kept`),
    s("svg", { viewBox: `0 ${-top} ${width} ${height + top + 16}`, role: "img", onclick: (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      move(low + ((high - low) * (event.clientX - box.left)) / box.width);
    }, "aria-label": `Distribution of the scores of ${system}, from ${number(low, 2)} to ${number(high, 2)}` },
      bins.map((held, bin) => s("rect", { x: (bin * width) / bars + 0.5, width: width / bars - 1, y: height * (1 - held / most), height: (height * held) / most,
        class: (bin + 0.5) / bars >= at(choice.threshold) ? "fill" : "rest" })),
      top ? bins.map((held, bin) => (held ? s("text", { x: ((bin + 0.5) * width) / bars, y: height * (1 - held / most) - 3, "text-anchor": "middle" }, count(held)) : null)) : null,
      s("line", { x1: x, x2: x, y1: 0, y2: height, class: "cut" }),
      s("text", { x: 0, y: height + 13 }, number(low, 1)), s("text", { x: width, y: height + 13, "text-anchor": "end" }, number(high, 1))));
}

function prompt(text) {
  const words = run.pool.rows[run.pool.texts[text][0]].prompt;
  return words ? h("details", { open: words.length < 300 }, h("summary", {}, "Prompt"), h("p", { class: "text" }, words)) : null;
}

// The three texts just above the threshold and the three just below, each on its ladder.
function around({ values, criterion }) {
  const order = values.map((value, text) => [value, text]).filter(([value]) => typeof value === "number").sort((a, b) => a[0] - b[0]);
  let cut = order.findIndex(([value]) => value >= choice.threshold);
  if (cut < 0) cut = order.length;
  const cards = (list) => h("div", { class: "texts" }, list.map(([value, text]) => h("section", { class: "output" },
    h("h3", {}, number(value, 2), " ", systemOf(text)), systemOf(text) === nameOf(text) ? null : h("p", { class: "signature" }, nameOf(text)), prompt(text), h("p", { class: "text" }, run.pool.texts[text][1]), ladder([text], criterion ?? 0))));
  return [h("h2", {}, "Just above"), cut < order.length ? cards(order.slice(cut, cut + 3)) : empty("No text passes this threshold. Lower it."),
    h("h2", {}, "Just below"), cut > 0 ? cards(order.slice(Math.max(0, cut - 3), cut).reverse()) : empty("Every text passes this threshold. Raise it."), h("p", {}, h("a", { href: "#examples" }, "Examples"), " shows every text.")];
}

// The texts whose score reaches a threshold, as a table.
function save_(file, column, threshold) {
  const rows = run.pool.texts.map(([row, text], index) => ({
    output_id: idOf(index), context_id: run.key.rows[row].id, system: run.key.systems[run.key.texts[index][0]], output: text, [column.name]: column.values[index],
  }));
  download(file, lines(rows.filter((row) => typeof row[column.name] === "number" && row[column.name] >= threshold)));
}
