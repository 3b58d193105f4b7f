// Blind rating: a random pair or a single text of the pool. The key is not read here.
import { isServed, loadPool, run } from "./data.js";
import { count, empty, field, h, problem, select } from "./dom.js";
import { add, isPair, remove } from "./ratings.js";

const setting = { rater: "", what: "pair", criterion: 0, started: false };
const turns = { left: null, given: [], queue: [], shown: null };

function shuffle(list) {
  for (let index = list.length - 1; index > 0; index -= 1) {
    const other = crypto.getRandomValues(new Uint32Array(1))[0] % (index + 1);
    [list[index], list[other]] = [list[other], list[index]];
  }
  return list;
}

// What this person may still rate, shuffled; a pair is as likely either way round. A copy is rated with the first.
function remaining() {
  const { pool } = run;
  const copies = new Set(pool.copies);
  const mine = run.stored.filter((rating) => rating.rater === setting.rater && rating.criterion === setting.criterion);
  if (setting.what === "text") {
    const rated = new Set(mine.filter((rating) => !isPair(rating)).map((rating) => rating.text));
    return shuffle(pool.texts.map((_, text) => [text]).filter(([text]) => !rated.has(text) && !copies.has(text)));
  }
  const rated = new Set(mine.filter(isPair).flatMap(({ first, second }) => [`${first}/${second}`, `${second}/${first}`]));
  const byRow = new Map();
  pool.texts.forEach(([row], text) => copies.has(text) || byRow.set(row, [...(byRow.get(row) ?? []), text]));
  const pairs = [];
  byRow.forEach((texts) => texts.forEach((first, index) => texts.slice(index + 1).forEach((second) => {
    if (!rated.has(`${first}/${second}`)) pairs.push(shuffle([first, second]));
  })));
  return shuffle(pairs);
}

export async function blind(screen) {
  const { pool } = run;
  const without = new Set(pool.texts.filter(([row]) => pool.kind === "score" && pool.rows[row].prompt === null).map(([row]) => row)).size;
  if (without) {
    return [h("h1", {}, "Blind rating"), empty(`${count(without)} of ${count(pool.rows.length)} contexts have no prompt here, and a text cannot be rated without its prompt. Open the table with `,
      h("code", {}, "--column context=NAME"), ", or keep the ladder set where it was.")];
  }
  if (!run.pool.texts.length) return [h("h1", {}, "Blind rating"), empty("There are no texts to rate in this run.")];
  return setting.started ? started(screen) : nameForm(screen);
}

// The page may show another view by the time the server has answered.
function redraw(screen, body) {
  if (screen.dataset.view === "blind") screen.replaceChildren(...body.flat(9).filter(Boolean));
}

function nameForm(screen) {
  const { pool } = run;
  const name = h("input", { required: true, maxlength: 80, autocomplete: "off", value: setting.rater });
  const multiple = new Set(pool.texts.map(([row]) => row)).size < pool.texts.length - pool.copies.length;
  if (!multiple) setting.what = "text";
  return [h("h1", {}, "Blind rating"),
    h("p", {}, "You see texts without their models, scores and verdicts. The order is random. Your answers are compared with the judge's in Agreement."),
    h("form", { class: "controls", onsubmit: async (event) => {
      event.preventDefault();
      setting.rater = name.value.trim();
      if (!setting.rater) return;
      setting.started = true;
      redraw(screen, await started(screen));
    } },
    field("Your name", name, "Names keep the ratings of several people apart."),
    field("Criterion", select(pool.criteria.map((criterion, index) => [String(index), criterion.name]), String(setting.criterion), (value) => { setting.criterion = Number(value); })),
    multiple ? field("Rate", select([["pair", "pairs: which text is better"], ["text", "single texts: a grade"]], setting.what, (value) => { setting.what = value; })) : null,
    h("button", { class: "primary" }, "Start"))];
}

function stop(screen) {
  setting.started = false;
  turns.shown = null;
  redraw(screen, nameForm(screen));
}

const failed = (screen, error) => [h("h1", {}, "Blind rating"), problem(error),
  h("button", { onclick: () => stop(screen) }, "Back")];

async function started(screen) {
  try {
    await loadPool(setting.rater);
    Object.assign(turns, { queue: remaining(), given: [], shown: null });
    return next(screen);
  } catch (error) {
    return failed(screen, error);
  }
}

export const turnsLeft = () => turns.queue.length + (turns.shown ? 1 : 0);

function next(screen) {
  turns.shown = turns.queue.shift() ?? null;
  return turn(screen);
}

function turn(screen) {
  const { pool } = run;
  const criterion = pool.criteria[setting.criterion];
  const mine = run.stored.filter((rating) => rating.rater === setting.rater && rating.criterion === setting.criterion
    && isPair(rating) === (setting.what === "pair")).length;
  const total = mine + turnsLeft();
  const undo = h("button", { disabled: !turns.given.length, onclick: () => act(screen, "undo") }, "Undo ", h("kbd", {}, "u"));
  const end = h("button", { onclick: () => stop(screen) }, "Stop");
  const top = [h("h1", {}, "Blind rating"),
    h("p", { role: "status" }, `${count(mine)} of ${count(total)} rated by ${setting.rater}`),
    h("progress", { max: Math.max(total, 1), value: mine, "aria-label": "Ratings given" })];
  if (!turns.shown) {
    return [...top, empty("All is rated. See ", h("a", { href: "#agreement" }, "Agreement"), ", or rate on another criterion."), h("p", { class: "answers" }, undo, end)];
  }
  const prompt = pool.rows[pool.texts[turns.shown[0]][0]].prompt;
  const names = setting.what === "pair" ? ["Left", "Right"] : ["Text"];
  const answer = (value, label, key) => h("button", { class: "answer", onclick: () => act(screen, value) }, label, " ", h("kbd", {}, key));
  const answers = setting.what === "pair"
    ? [answer("left", "Left is better", "←"), answer("tie", "Tie", "t"), answer("right", "Right is better", "→")]
    : grades(criterion).map((grade, index, all) => answer(grade,
      `${grade}${index === 0 ? " worst" : index === all.length - 1 ? " best" : ""}`, String(index + 1)));
  return [...top,
    h("p", { class: "description" }, h("b", {}, criterion.name), ` ${criterion.description}`),
    !prompt ? "" : h("details", { open: true }, h("summary", {}, "Prompt"), h("p", { class: "text" }, prompt)),
    h("div", { class: "texts" }, turns.shown.map((text, side) => h("section", { class: "output" },
      h("h2", {}, names[side]), h("p", { class: "text" }, pool.texts[text][1])))),
    setting.what === "text" && (criterion.worst || criterion.best) ? h("div", { class: "scale" },
      h("span", {}, `${criterion.low}: ${criterion.worst || "worst"}`), h("span", {}, `${criterion.high}: ${criterion.best || "best"}`)) : "",
    h("p", { class: "answers", role: "group", "aria-label": setting.what === "pair" ? "Which text is better" : "Grade" }, answers),
    h("p", { class: "answers" }, h("button", { onclick: () => act(screen, "skip") }, "Skip ", h("kbd", {}, "s")), undo, end)];
}

// Up to nine grades from the low end to the high end: whole numbers where the scale has that many.
export function grades({ low, high }) {
  const steps = Number.isInteger(low) && Number.isInteger(high) && high - low <= 8 ? high - low : 4;
  return Array.from({ length: steps + 1 }, (_, step) => Number((low + ((high - low) * step) / steps).toFixed(4)));
}

let busy = false;
async function act(screen, what) {
  if (busy || (!turns.shown && what !== "undo")) return;
  busy = true;
  try {
    if (what === "skip") turns.queue.push(turns.shown);
    else if (what === "undo") {
      const last = turns.given.pop();
      if (!last) return;
      await remove(last.rating);
      if (turns.shown) turns.queue.unshift(turns.shown);
      turns.queue.unshift(last.shown);
    } else {
      const common = { criterion: setting.criterion, rater: setting.rater };
      const rating = setting.what === "text" ? { text: turns.shown[0], value: what, ...common }
        : { first: turns.shown[0], second: turns.shown[1], winner: { left: "first", right: "second", tie: "tie" }[what], ...common };
      await add(rating);
      document.dispatchEvent(new Event("rated"));
      turns.given.push({ rating, shown: turns.shown });
    }
    redraw(screen, next(screen));
  } catch (error) {
    redraw(screen, failed(screen, error));
  } finally {
    busy = false;
  }
}

const KEYS = { ArrowLeft: "left", l: "left", ArrowRight: "right", r: "right", t: "tie", ArrowDown: "tie", s: "skip", u: "undo" };
export function blindKey(screen, event) {
  if (!setting.started || event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  let what = KEYS[event.key];
  if (["left", "right", "tie"].includes(what) && setting.what === "text") return;
  if (setting.what === "text" && /^[1-9]$/.test(event.key)) what = grades(run.pool.criteria[setting.criterion])[Number(event.key) - 1];
  if (what === undefined) return;
  event.preventDefault();
  act(screen, what);
}
