// Build and run a contest with the command `refladder compete`, and compare two runs. Both need the server.

import { ask, chooseRun, otherRun, run } from "./data.js";
import { bar, count, empty, field, h, interval, number, problem, select, table } from "./dom.js";
import { described, standings, tally } from "./leaderboard.js";

const blank = () => ({ table: "", prompt: "", models: [{ name: "", backend: "" }, { name: "", backend: "" }], judge: "",
  criteria: [{ name: "", description: "", worst: "", best: "", weight: 1 }], out: "run-1", explain: false });
const form = Object.assign(blank(), JSON.parse(sessionStorageItem("refladder-form") ?? "{}"));
const BACKENDS = ["hf:Qwen/Qwen2.5-0.5B-Instruct", "openai:MODEL"]; // examples
let polling = null;

function sessionStorageItem(name_) {
  try { return sessionStorage.getItem(name_); } catch { return null; }
}

const save = () => sessionStorage.setItem("refladder-form", JSON.stringify(form));

export async function build() {
  const choices = await ask("/api/start");
  const filled = h("div", { "aria-live": "polite" });
  const preview = h("div");
  const planned = h("div", { role: "status" });
  const models = h("div");
  const criteria = h("div");
  const input = (object, name_, change = save, more = {}) => h("input", { value: object[name_] ?? "", autocomplete: "off", ...more,
    oninput: (event) => { object[name_] = event.target.value; change(); } });

  async function showTable() {
    preview.replaceChildren();
    if (!form.table) return;
    try {
      const shown = await ask(`/api/table?table=${encodeURIComponent(form.table)}`);
      prompt.placeholder = `Write about {${shown.columns.at(-1)}}.`;
      preview.replaceChildren(h("div", { class: "words" }, table(`${count(shown.count)} rows; the first are`, shown.columns, shown.rows)),
        h("p", { class: "answers" }, "Insert a column into the prompt: ", shown.columns.map((column) => h("button", { type: "button", class: "small", onclick: () => {
          prompt.setRangeText(`{${column}}`, prompt.selectionStart, prompt.selectionEnd, "end");
          form.prompt = prompt.value;
          prompt.focus();
          showFilled();
        } }, `{${column}}`))));
      showFilled();
    } catch (error) { preview.replaceChildren(problem(error)); }
  }

  let waiting = null;
  function showFilled() {
    save();
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      if (!form.table || !form.prompt) return filled.replaceChildren();
      try {
        const asked = { table: form.table, prompt: form.prompt };
        const shown = await ask("/api/fill", asked);
        if (asked.table !== form.table || asked.prompt !== form.prompt) return; // a later answer is on its way
        filled.replaceChildren(...(shown.unknown.length
          ? [h("p", { class: "missing" }, "No such column: ", shown.unknown.map((name_) => [h("mark", {}, `{${name_}}`), " "]), ` Columns: ${shown.columns.join(", ")}.`)]
          : [h("h3", {}, "The prompt of the first rows"), h("div", { class: "texts" }, shown.filled.slice(0, 3).map((text) => h("p", { class: "output text" }, text)))]));
      } catch (error) { filled.replaceChildren(problem(error)); }
    }, 250);
  }

  const drop = (list, item, draw) => h("button", { type: "button", class: "small", disabled: list.length < 2, onclick: () => { list.splice(list.indexOf(item), 1); save(); draw(); } }, "Remove");
  function drawModels() {
    models.replaceChildren(...form.models.map((model, index) => h("div", { class: "criterion", role: "group", "aria-label": `Model ${index + 1}` },
      field("Name", input(model, "name", save, { placeholder: ["small", "large"][index] })),
      h("div", { class: "grow" }, field("Backend", input(model, "backend", save, { list: "backends", placeholder: BACKENDS[index] }))), drop(form.models, model, drawModels))),
    h("button", { type: "button", onclick: () => { form.models.push({ name: "", backend: "" }); drawModels(); } }, "Add a model"));
  }
  function drawCriteria() {
    criteria.replaceChildren(...form.criteria.map((criterion, index) => h("div", { class: "criterion", role: "group", "aria-label": `Criterion ${index + 1}` },
      field("Name", input(criterion, "name", save, { placeholder: "clarity" })),
      [["Description", "Easy to understand?"], ["Worst", "-2: makes no sense"], ["Best", "2: clear at first reading"]].map(([label, placeholder]) => (
        h("div", { class: "grow" }, field(label, input(criterion, label.toLowerCase(), save, { placeholder }))))),
      field("Weight", h("input", { type: "number", min: 0, step: "any", value: criterion.weight, oninput: (event) => { criterion.weight = Number(event.target.value); save(); } })),
      drop(form.criteria, criterion, drawCriteria))),
    h("button", { type: "button", onclick: () => { form.criteria.push({ name: "", description: "", worst: "", best: "", weight: 1 }); drawCriteria(); } }, "Add a criterion"));
  }

  const prompt = h("textarea", { value: form.prompt, spellcheck: "false", placeholder: "Write about {topic}.", oninput: (event) => { form.prompt = event.target.value; showFilled(); } });
  let asked = null; // the form, as text, that the cost is of
  const cost = async () => {
    planned.replaceChildren(h("p", {}, "One moment …"));
    asked = JSON.stringify(form);
    try {
      const plan = await ask("/api/plan", form);
      planned.replaceChildren(h("h3", {}, "Cost of this run"), h("ul", {}, plan.cost.map((line) => h("li", {}, line)), plan.kept ? h("li", {}, `${count(plan.kept)} judgments exist already.`) : null),
        h("p", {}, h("button", { type: "button", class: "primary", onclick: begin }, "Run")), h("h3", {}, "The same in the shell"), h("code", { class: "command" }, plan.command));
    } catch (error) { asked = null; planned.replaceChildren(problem(error)); }
  };
  const watch = (state) => {
    planned.replaceChildren(...progress(state, planned, watch, begin).flat(9).filter(Boolean));
    clearTimeout(polling);
    if (state.state === "running") polling = setTimeout(() => { if (planned.isConnected) ask("/api/progress").then(watch, (error) => planned.replaceChildren(problem(error))); }, 500);
  };
  const begin = async () => {
    if (JSON.stringify(form) !== asked) return cost(); // it has changed since
    try { watch(await ask("/api/run", form)); } catch (error) { planned.replaceChildren(problem(error)); }
  };
  drawModels();
  drawCriteria();
  showTable();
  ask("/api/progress").then((state) => { if (state.state !== "none") watch(state); }, (error) => planned.replaceChildren(problem(error)));
  return [h("h1", {}, "Build and run"),
    choices.runs.length ? h("div", { class: "controls" }, field("Open a run", select([["", "choose"], ...choices.runs.map((each) => [each, each])], "", (value) => { if (value) { chooseRun(value); location.hash = ""; } }))) : null,
    h("div", { class: "two" }, h("section", {}, h("h2", {}, "1. Table"), choices.tables.length
      ? field("Table", select([["", "choose a table"], ...choices.tables.map((each) => [each, each])], form.table, (value) => { form.table = value; save(); showTable(); }), `JSON lines, CSV or Parquet under ${choices.folders.join(", ")}`)
      : empty(`There is no table under ${choices.folders.join(", ")}. Put a CSV file there and reload, or start with --folder FOLDER.`),
    preview), h("section", {}, h("h2", {}, "2. Prompt"), field("Prompt of every row", prompt, "{column} is replaced by the cell of the row."), filled)),
    h("h2", {}, "3. Models"), h("datalist", { id: "backends" }, choices.backends.map((each) => h("option", { value: each.name === "builtin" ? each.name : `${each.name}:` }, each.about))), models,
    h("details", {}, h("summary", {}, "Available backends"), h("dl", { class: "legend" }, choices.backends.map((each) => [h("dt", {}, each.name), h("dd", {}, each.about)])),
      h("p", {}, "Keys of servers come from the environment of the command; they never reach this page.")),
    h("div", { class: "controls" }, field("Judge", input(form, "judge", save, { list: "backends", placeholder: BACKENDS[1] }))),
    h("h2", {}, "4. Criteria"), criteria,
    h("h2", {}, "5. Run"), h("div", { class: "controls" }, field("Name of the run", input(form, "out")),
      h("label", {}, h("input", { type: "checkbox", checked: form.explain, onchange: (event) => { form.explain = event.target.checked; save(); } }), " Ask the judge why"),
      h("button", { type: "button", class: "primary", onclick: cost }, "Show the cost"), h("small", {}, "A dry run: no model is asked.")), planned];
}

const STATES = { running: "Running", stopped: "Stopped", finished: "Finished", failed: "Failed" };

function progress(state, planned, watch, begin) {
  const part = (label, done, total) => h("div", {}, h("p", {}, `${label}: ${count(done)} of ${count(total)}`), h("progress", { max: total || 1, value: done, "aria-label": label }));
  const result = state.state === "finished" ? h("a", { href: "#results", onclick: () => chooseRun(state.run) }, "See the results") : null;
  return [h("h3", {}, `${STATES[state.state]}: ${state.run}`), part("Texts", state.written, state.texts), part("Judgments", state.judged, state.judgments),
    h("p", { class: "answers" }, state.state === "running" ? h("button", { type: "button", onclick: () => ask("/api/stop", {}).then(watch, (error) => planned.replaceChildren(problem(error))) }, "Stop") : null, result,
      state.state === "stopped" ? h("button", { type: "button", class: "primary", onclick: begin }, "Resume") : null),
    state.messages.length && state.state !== "running" ? h("ul", { class: state.state === "failed" ? "missing" : "" }, state.messages.map((line) => h("li", {}, line))) : null,
    h("code", { class: "command" }, state.command)];
}

// Two runs side by side: criteria that differ, and win rates with their change.
export async function compare() {
  const { runs } = await ask("/api/runs");
  if (runs.length < 2) return [h("h1", {}, "Two runs"), empty("There is only one run. Change a criterion in ", h("a", { href: "#build" }, "Build and run"), " and run again under another name.")];
  const chosen = [runs[0], runs[1]];
  const shown = h("div");
  const draw = async () => {
    const names = [...chosen];
    const show = (...body) => { if (names.every((name_, side) => name_ === chosen[side])) shown.replaceChildren(...body); };
    try {
      show(...sideBySide(await Promise.all(names.map(otherRun)), names).flat(9).filter(Boolean));
    } catch (error) { show(problem(error)); }
  };
  await draw();
  return [h("h1", {}, "Two runs"), h("div", { class: "controls" }, ["First run", "Second run"].map((label, side) => field(label,
    select(runs.map((each) => [each, each]), chosen[side], (value) => { chosen[side] = value; draw(); })))), shown];
}

function sideBySide(both, names_) {
  const criteria = [...new Set(both.flatMap(({ pool }) => pool.criteria.map((each) => each.name)))];
  const results = criteria.map((name_) => both.map(({ pool, key }) => {
    const index = pool.criteria.findIndex((each) => each.name === name_);
    if (index < 0 || !key.trials) return null;
    return { criterion: pool.criteria[index], rows: standings(tally(pool, key), key, pool.criteria.map((_, each) => (each === index ? 1 : 0))) };
  }));
  return criteria.map((name_, index) => {
    const [first, second] = results[index];
    const systems = [...new Set(results[index].flatMap((each) => each?.rows.map((row) => row.system) ?? []))];
    const find = (side, system) => side?.rows.find((row) => row.system === system) ?? null;
    return h("section", {}, h("h2", {}, name_),
      h("div", { class: "two" }, [first, second].map((side, each) => h("div", {}, h("h3", {}, names_[each]),
        side ? described(side.criterion) : empty("This run has no comparisons on this criterion.")))),
      first && second ? h("p", {}, first.criterion.description === second.criterion.description ? "Both runs use the same description." : "The descriptions differ.") : null,
      table(`win rates on ${name_}`, ["model", names_[0], "0 to 1", "interval", names_[1], "0 to 1", "interval", "change"], systems.map((system) => {
        const [a, b] = [find(first, system), find(second, system)];
        const cells = (row) => (row ? [number(row.rate), bar(row.rate, row.ends), interval(row.ends)] : ["—", "", "—"]);
        const change = a?.rate != null && b?.rate != null ? b.rate - a.rate : null;
        return [system, ...cells(a), ...cells(b), change === null ? "—" : `${change > 0 ? "+" : ""}${number(change)}`];
      })));
  });
}
