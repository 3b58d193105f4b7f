// Elements of the page. Text becomes text nodes only, so nothing in a run or a rating can become markup.

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return element;
}

export const number = (value, digits = 3) => (value === null || value === undefined || Number.isNaN(value)
  ? "—" : (Number(value.toFixed(digits)) + 0).toFixed(digits));
export const percent = (value) => (value === null ? "—" : `${(100 * value).toFixed(1)} %`);
export const count = (value) => value.toLocaleString("en");
export const interval = (ends, digits = 3) => (ends ? `[${number(ends[0], digits)}, ${number(ends[1], digits)}]` : "—");

export function table(caption, heads, rows, legend = []) {
  const hint = h("p", { class: "hint", hidden: true }, "Scroll sideways: the table is wider than the page.");
  const box = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
      h("table", {}, h("caption", {}, h("span", {}, caption)),
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, column) => (
          column ? h("td", {}, cell) : h("th", { scope: "row" }, cell))))))));
  new ResizeObserver(() => { hint.hidden = box.scrollWidth <= box.clientWidth; }).observe(box);
  return h("div", { class: "figure" }, hint, box,
    legend.length ? h("dl", { class: "legend" }, legend.map(([term, meaning]) => [h("dt", {}, term), h("dd", {}, meaning)]))
      : null);
}

let fields = 0;
export function field(label, control, hint = null) {
  fields += 1;
  control.id ||= `field-${fields}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint ? h("small", {}, hint) : null);
}

export function select(options, chosen, change) {
  const control = h("select", { onchange: (event) => change(event.target.value) },
    options.map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
  control.value = chosen;
  return control;
}

// A bar from 0 to 1 with its interval.
export function bar(value, ends) {
  if (value === null) return "";
  const width = 120;
  return s("svg", { class: "bar", viewBox: `0 0 ${width} 16`, "aria-hidden": "true", width, height: 16 },
    s("line", { x1: width / 2, x2: width / 2, y1: 0, y2: 16, class: "axis" }),
    s("rect", { x: 0, y: 4, width: width * value, height: 8, class: "fill" }),
    ends ? s("path", { class: "ends", d: `M${width * ends[0]} 3v10M${width * ends[0]} 8H${width * ends[1]}M${width * ends[1]} 3v10` })
      : null);
}

// The words of two texts, those that only one of them has marked: longest common subsequence over words.
export function marked(text, other, most = 600) {
  const [a, b] = [text, other].map((each) => each.split(/(\s+)/));
  if (a.length > most || b.length > most) return [text];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const parts = [];
  for (let i = 0, j = 0; i < a.length;) {
    if (j < b.length && a[i] === b[j]) { parts.push(a[i]); i += 1; j += 1; }
    else if (j < b.length && lengths[i][j + 1] > lengths[i + 1][j]) j += 1;
    else { parts.push(a[i].trim() ? h("mark", {}, a[i]) : a[i]); i += 1; }
  }
  return parts;
}

export function download(name, text, type = "application/jsonl") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export const lines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

export const empty = (...words) => h("p", { class: "empty" }, words);
export const problem = (error) => h("p", { class: "missing", role: "alert" }, error.message);
