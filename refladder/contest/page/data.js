// The run. The pool (prompts, texts, criteria) may be seen before a rating; the key (systems, verdicts, scores) may not.
// Both are kept here, outside the document, and the blind view reads the pool only.

export const run = { pool: null, key: null, token: null, name: "", index: null, stored: [], error: null };

// From the file itself: the element with the data leaves the document before anything is drawn.
export function takeData() {
  const element = document.getElementById("data");
  if (!element) return false;
  const data = JSON.parse(element.textContent);
  element.remove();
  [run.pool, run.key, run.stored] = [data.pool, data.key, data.ratings];
  return true;
}

// The address that the command printed holds a token, which is kept for this tab and leaves the address bar.
export function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("refladder-token", given[1]);
    history.replaceState(null, "", location.pathname);
  }
  run.token = sessionStorage.getItem("refladder-token");
  return run.token !== null;
}

export const isServed = () => run.token !== null;

export async function ask(path, body = undefined) {
  const headers = { Authorization: `Bearer ${run.token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ?? `the server answered ${answer.status}`);
  return value;
}

// What the server says about the open run. Another run may be opened while it answers: the answer is then put aside.
async function askRun(part, more = "") {
  const { name } = run;
  const answer = await ask(`/api/${part}?run=${encodeURIComponent(name)}${more}`);
  if (name !== run.name) throw new Error("Another run was opened meanwhile.");
  return answer;
}

export async function loadPool(rater) {
  if (isServed() && !run.pool) run.pool = (await askRun("pool")).pool;
  if (isServed() && rater) run.stored = (await askRun("mine", `&rater=${encodeURIComponent(rater)}`)).ratings;
}

export async function loadKey() {
  if (isServed()) {
    if (!run.pool) run.pool = (await askRun("pool")).pool;
    const answer = await askRun("key");
    [run.key, run.stored, run.index] = [answer.key, answer.ratings, run.key ? run.index : null];
  }
  run.index ??= indexed(run.pool, run.key);
}

export function chooseRun(name) {
  Object.assign(run, { name, pool: null, key: null, index: null, stored: [] });
}

export async function otherRun(name) {
  const [{ pool }, { key }] = await Promise.all(["pool", "key"].map((part) => ask(`/api/${part}?run=${encodeURIComponent(name)}`)));
  return { pool, key, index: indexed(pool, key) };
}

function indexed(pool, key) {
  const textsOf = pool.rows.map(() => []);
  pool.texts.forEach(([row], text) => textsOf[row].push(text));
  const trialsOf = pool.rows.map(() => []);
  const trials = key.trials ?? [];
  trials.forEach((trial, index) => trialsOf[pool.texts[trial[1]][0]].push(index));
  let verdicts = null; // made when it is first needed: most views do without
  return { textsOf, trialsOf, trials,
    trialOf: (key_) => (verdicts ??= new Map(trials.map((trial) => [pairKey(trial[0], trial[1], trial[2]), trial]))).get(key_) };
}

export const pairKey = (criterion, a, b) => `${criterion}/${Math.min(a, b)}/${Math.max(a, b)}`;
export const systemOf = (text) => run.key.systems[run.key.texts[text][0]] || nameOf(text);
// What a row is called: its id, or its number where the table has none.
export const nameOf = (text) => run.key.names?.[text] ?? idOf(text);
export const idOf = (text) => run.key.texts[text][1];

// The first column of scores of a criterion; null where there is none.
export function scoresOf(criterion) {
  return run.key.columns.find((column) => column.kind === "score" && column.criterion === criterion)?.values ?? null;
}

// The judge's verdict on two texts, 1 for the first, -1 for the second, 0 for a tie; null where there is none.
export function verdict(criterion, first, second) {
  const trial = run.index.trialOf(pairKey(criterion, first, second));
  if (trial) return trial[5] === null ? null : trial[1] === first ? trial[5] : -trial[5] + 0;
  const scores = scoresOf(criterion);
  if (!scores || scores[first] === null || scores[second] === null) return null;
  return Math.sign(scores[first] - scores[second]);
}
