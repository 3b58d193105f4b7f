// Ratings of people: sent to the server at once, or kept in this browser and downloaded.

import { ask, idOf, isServed, pairKey, run, systemOf } from "./data.js";
import { lines } from "./dom.js";
import { mean } from "./numbers.js";

const WINS = { first: 1, second: -1, tie: 0 };
const name = () => `refladder-ratings-${run.pool.texts.length}-${digest(run.pool.texts)}`;

function digest(texts) { // FNV-1a over the texts: another run has other ratings
  let value = 2166136261;
  for (const [, text] of texts) {
    for (let index = 0; index < text.length; index += 7) value = Math.imul(value ^ text.charCodeAt(index), 16777619);
  }
  return (value >>> 0).toString(16);
}

const local = { ratings: null, key: null };

export function restore() { // those in the file, and those given in this browser since
  if (isServed()) return;
  local.key = name();
  try {
    local.ratings = JSON.parse(localStorage.getItem(local.key) ?? "[]");
  } catch {
    local.ratings = []; // a browser that keeps nothing for files
  }
  run.stored = [...run.stored, ...local.ratings];
}

function keep() {
  try {
    localStorage.setItem(local.key, JSON.stringify(local.ratings));
  } catch { /* full, or not allowed: the download still has them */ }
}

export async function add(rating) {
  if (isServed()) await ask(`/api/ratings?run=${encodeURIComponent(run.name)}`, rating);
  else {
    local.ratings.push(rating);
    keep();
  }
  run.stored.push(rating);
}

export async function remove(rating) {
  if (isServed()) await ask(`/api/undo?run=${encodeURIComponent(run.name)}`, rating);
  const same = (each) => JSON.stringify(each) === JSON.stringify(rating);
  for (const list of [run.stored, local.ratings ?? []]) {
    const index = list.findLastIndex(same);
    if (index >= 0) list.splice(index, 1);
  }
  if (!isServed()) keep();
}

export const isPair = (rating) => rating.winner !== undefined;

// The last answer of each person to each pair: text a has the lower number, and `value` is as `verdict` says it.
export function preferences() {
  const given = new Map();
  for (const { first, second, criterion, rater, winner } of run.stored.filter(isPair)) {
    const [a, b] = [Math.min(first, second), Math.max(first, second)];
    given.set(`${rater}/${pairKey(criterion, a, b)}`, { rater, criterion, a, b, value: a === first ? WINS[winner] : -WINS[winner] + 0 });
  }
  return [...given.values()];
}

const names = () => run.pool.criteria.map((criterion) => criterion.name);
const TAKEN = ["output_id", "context_id", "system", "dimension", "value", "rater"];

// The rows of ratings.jsonl and preferences.jsonl, as the server writes them.
export function gradeRows() {
  return run.stored.filter((rating) => !isPair(rating)).map((rating) => ({
    output_id: idOf(rating.text),
    context_id: run.key.rows[run.pool.texts[rating.text][0]].id,
    system: run.key.systems[run.key.texts[rating.text][0]],
    dimension: names()[rating.criterion],
    value: rating.value,
    rater: rating.rater,
    ...Object.fromEntries(names().filter((each) => !TAKEN.includes(each))
      .map((each) => [each, each === names()[rating.criterion] ? rating.value : null])),
  }));
}

export function pairRows() {
  return run.stored.filter(isPair).map((rating) => ({
    context_id: run.key.rows[run.pool.texts[rating.first][0]].id,
    dimension: names()[rating.criterion],
    first: idOf(rating.first),
    second: idOf(rating.second),
    winner: rating.winner,
    rater: rating.rater,
  }));
}

// A table for `refladder evaluate table`: a row for each text with a grade, with the mean grade on each criterion.
export function benchmarkRows() {
  const given = new Map();
  for (const rating of run.stored.filter((each) => !isPair(each))) {
    if (!given.has(rating.text)) given.set(rating.text, names().map(() => []));
    given.get(rating.text)[rating.criterion].push(rating.value);
  }
  return [...given].map(([text, grades]) => ({
    context_id: run.key.rows[run.pool.texts[text][0]].id,
    context: run.pool.rows[run.pool.texts[text][0]].prompt,
    output_id: idOf(text),
    system: systemOf(text),
    output: run.pool.texts[text][1],
    ...Object.fromEntries(names().map((each, criterion) => [each, mean(grades[criterion])])),
  }));
}

export const asLines = { grades: () => lines(gradeRows()), pairs: () => lines(pairRows()), benchmark: () => lines(benchmarkRows()) };
