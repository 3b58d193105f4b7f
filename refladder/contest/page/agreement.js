// How far the judge agrees with people, and people with each other. All figures are computed here, in the page.

import { run, scoresOf, systemOf, verdict } from "./data.js";
import { count, download, empty, h, interval, number, table } from "./dom.js";
import { disputes, filters } from "./examples.js";
import { alpha, jackknife, kappa, shareInterval, spearman } from "./numbers.js";
import { asLines, isPair, preferences } from "./ratings.js";

const WORDS = { 1: "A better", 0: "tie", "-1": "B better" };
const rowOf = (text) => run.pool.texts[text][0];

// Share of equal answers with its interval over rows, kappa and alpha of pairs of answers.
export function nominal(pairs, rows) {
  const names = [...new Set(rows)];
  const sums = names.map((name) => pairs.filter((_, index) => rows[index] === name));
  const equal = sums.map((list) => list.filter(([a, b]) => a === b).length);
  const coefficient = (items) => alpha(items, "nominal");
  return {
    count: pairs.length,
    accuracy: pairs.length ? equal.reduce((sum, each) => sum + each, 0) / pairs.length : null,
    accuracyEnds: shareInterval(equal, sums.map((list) => list.length)),
    kappa: kappa(pairs),
    kappaEnds: jackknife(pairs, rows, kappa),
    alpha: coefficient(pairs),
    alphaEnds: jackknife(pairs, rows, coefficient),
  };
}

export function ordered(pairs, rows, distance) {
  const coefficient = (items) => alpha(items, "interval");
  return {
    count: pairs.length,
    spearman: pairs.length > 1 ? spearman(pairs) : null,
    spearmanEnds: jackknife(pairs, rows, spearman),
    alpha: distance ? coefficient(pairs) : null,
    alphaEnds: distance ? jackknife(pairs, rows, coefficient) : null,
  };
}

function gradesOf(criterion) {
  const given = new Map();
  for (const [text, each, value, rater] of run.key.people ?? []) {
    if (each === criterion) given.set(`data/${rater}/${text}`, { rater: `${rater} (data)`, text, value });
  }
  for (const rating of run.stored.filter((each) => !isPair(each) && each.criterion === criterion)) {
    given.set(`page/${rating.rater}/${rating.text}`, { rater: rating.rater, text: rating.text, value: rating.value });
  }
  return [...given.values()];
}

// Pairs of answers of two people to the same thing, over all pairs of people.
function between(answers, keyOf) {
  const groups = new Map();
  answers.forEach((answer) => groups.set(keyOf(answer), [...(groups.get(keyOf(answer)) ?? []), answer]));
  return [...groups.values()].flatMap((group) => group.flatMap((one, index) => group.slice(index + 1)
    .map((other) => (one.rater < other.rater ? [one, other] : [other, one]))));
}

export function agreementOn(criterion) {
  const people = preferences().filter((each) => each.criterion === criterion);
  const judged = people.map((each) => [verdict(criterion, each.a, each.b), each]).filter(([value]) => value !== null);
  const pairs = judged.map(([value, each]) => [value, each.value]);
  const twice = between(people, (each) => `${each.a}/${each.b}`);
  const grades = gradesOf(criterion);
  const scores = scoresOf(criterion);
  const graded = scores ? grades.filter((each) => typeof scores[each.text] === "number") : [];
  const gradedTwice = between(grades, (each) => each.text);
  return {
    pairs, judge: nominal(pairs, judged.map(([, each]) => rowOf(each.a))),
    people: nominal(twice.map((both) => both.map((each) => each.value)), twice.map(([each]) => rowOf(each.a))),
    judgeGrades: ordered(graded.map((each) => [scores[each.text], each.value]), graded.map((each) => rowOf(each.text)), false),
    peopleGrades: ordered(gradedTwice.map((both) => both.map((each) => each.value)), gradedTwice.map(([each]) => rowOf(each.text)), true),
    raters: [...new Set([...people, ...grades].map((each) => each.rater))],
  };
}

const with_ = (value, ends) => [number(value), ends ? h("span", { class: "ends" }, ` ${interval(ends, 2)}`) : null];

export function agreement() {
  const parts = [h("h1", {}, "Agreement"), exports_()];
  let any = false;
  run.pool.criteria.forEach((criterion, index) => {
    const result = agreementOn(index);
    if (!result.raters.length) return;
    any = true;
    parts.push(h("section", {}, h("h2", {}, criterion.name), h("p", {}, `Rated by ${result.raters.slice(0, 12).join(", ")}${result.raters.length > 12 ? ` and ${result.raters.length - 12} more` : ""}.`),
      result.judge.count + result.people.count ? table("preferences: which of two texts is better", ["between", "answers", "accuracy", "kappa", "alpha"],
        [["judge and person", result.judge], ["person and person", result.people]].filter(([, each]) => each.count).map(([name_, each]) => [name_, count(each.count),
          with_(each.accuracy, each.accuracyEnds), with_(each.kappa, each.kappaEnds), with_(each.alpha, each.alphaEnds)])) : null,
      result.judge.count ? confusions(result.pairs) : null,
      result.judgeGrades.count + result.peopleGrades.count ? table("grades of single texts", ["between", "answers", "Spearman", "alpha"],
        [["judge and person", result.judgeGrades], ["person and person", result.peopleGrades]].filter(([, each]) => each.count).map(([name_, each]) => [name_, count(each.count),
          with_(each.spearman, each.spearmanEnds), with_(each.alpha, each.alphaEnds)])) : null));
  });
  if (!any) return [h("h1", {}, "Agreement"), empty("No ratings yet. Give some ratings in ", h("a", { href: "#blind" }, "Blind rating"), "; 20 are a start.")];
  parts.push(h("dl", { class: "legend" }, [
    ["accuracy", "share of pairs with the same answer, ties included; in brackets its 95 % interval over rows"],
    ["kappa", "Cohen's kappa: agreement beyond chance, 1 at most"],
    ["alpha", "Krippendorff's alpha: nominal for preferences, interval for grades"],
    ["Spearman", "rank correlation of the judge's score with the person's grade"],
    ["—", "not defined, for example because all answers are equal or of one row"],
  ].map(([term, meaning]) => [h("dt", {}, term), h("dd", {}, meaning)])));
  const disputed = disputes();
  if (run.stored.some(isPair)) parts.push(h("section", {}, h("h2", {}, "In dispute"), disputed.length
    ? [h("p", {}, h("a", { href: "#examples", onclick: () => Object.assign(filters, { only: "person", criterion: "", system: "", text: "", page: 0 }) },
      `Show the rows of the ${count(disputed.length)} answers on which judge and person disagree`)),
    table("answers in dispute, the first 50", ["row", "criterion", "A : B", "person", "judge"], disputed.slice(0, 50).map((rating) => [
      run.key.rows[rowOf(rating.a)].id, run.pool.criteria[rating.criterion].name, `${systemOf(rating.a)} : ${systemOf(rating.b)}`,
      `${rating.rater}: ${WORDS[rating.value]}`, WORDS[verdict(rating.criterion, rating.a, rating.b)]]))]
    : empty("Judge and people agree on every pair that was rated.")));
  return parts;
}

function confusions(pairs) {
  const answers = [1, 0, -1];
  return table("confusions: preferences of judge (rows) and person (columns)", ["judge", ...answers.map((each) => `person: ${WORDS[each]}`)],
    answers.map((judged) => [WORDS[judged], ...answers.map((said) => count(pairs.filter(([a, b]) => a === judged && b === said).length))]));
}

function exports_() {
  const grades = run.stored.filter((rating) => !isPair(rating)).length;
  const pairs = run.stored.length - grades;
  if (!run.stored.length) return null;
  return h("p", { class: "answers" },
    grades ? h("button", { onclick: () => download("ratings.jsonl", asLines.grades()) }, `Download ${count(grades)} grades`) : null,
    pairs ? h("button", { onclick: () => download("preferences.jsonl", asLines.pairs()) }, `Download ${count(pairs)} preferences`) : null,
    grades ? h("button", { onclick: () => download("rated-texts.jsonl", asLines.benchmark()) }, "Download a table for refladder evaluate table") : null);
}
