// What the report's script adds to a page that says everything without it: tables that sort and
// filter, a list of contents that follows the reader, and the explorer of all cells.
"use strict";

/** An element with attributes and children; a child that is a string becomes text, never HTML. */
function make(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick" || key === "onchange") found[key] = value;
    else if (value !== false && value !== null) found.setAttribute(key, value);
  }
  found.append(...children.filter((child) => child !== null && child !== ""));
  return found;
}

function drawn(name, attributes) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
}

// ---------------------------------------------------------------- tables

/** What a field sorts by: a number where it is one; null where it is empty. */
function sortKey(field) {
  const text = field.dataset.key ?? field.textContent.trim();
  if (text === "") return null;
  const number = Number(text);
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

const SORT_FROM = 3; // rows

/** A button in every heading: ascending, descending, as it was. Empty fields stay at the end. */
function sortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  if (original.length < SORT_FROM) return;
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = make("button", { type: "button", class: "sort" });
    button.append(...heading.childNodes);
    heading.append(button);
    button.onclick = () => {
      const next = { ascending: "descending", descending: null }[heading.ariaSort];
      const order = next === undefined ? "ascending" : next;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      let rows = original;
      if (order) {
        heading.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const keyed = original.map((row) => [sortKey(row.cells[column]), row]);
        keyed.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return sign * compare(a, b);
        });
        rows = keyed.map(([, row]) => row);
      }
      body.append(...rows);
    };
  });
}

const FILTER_FROM = 12; // rows; a shorter table is seen at a glance

/** A row is shown if every one of its filters lets it through. */
function show(row, filter, passes) {
  row.filters = { ...row.filters, [filter]: passes };
  row.hidden = Object.values(row.filters).includes(false);
}

function filterable(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTER_FROM) return;
  const input = make("input", { type: "search", autocomplete: "off" });
  const said = make("span", { role: "status" });
  input.oninput = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      row.text ??= row.textContent.toLowerCase();
      show(row, "words", words.every((word) => row.text.includes(word)));
    }
    const left = rows.filter((row) => !row.hidden).length;
    said.textContent = words.length ? `${left} of ${rows.length} rows` : "";
  };
  const label = make("label", {}, "Filter rows ", input);
  table.parentElement.before(make("p", { class: "filter" }, label, " ", said));
}

// ---------------------------------------------------------------- contents

function followReader() {
  const links = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]),
  );
  const headings = [...document.querySelectorAll("h2[id]")];
  let waiting = false;
  const mark = () => {
    waiting = false;
    const passed = headings.filter((each) => each.getBoundingClientRect().top < 160);
    const here = (passed.at(-1) ?? headings[0])?.id;
    for (const [id, link] of links) {
      if (id === here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener(
    "scroll",
    () => {
      if (!waiting) requestAnimationFrame(mark);
      waiting = true;
    },
    { passive: true },
  );
  mark();
}

/** A link into something folded away opens it. */
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
}

// ---------------------------------------------------------------- explorer

const DIMENSIONS = [
  ["workload", "Workload"],
  ["scenario", "Scenario"],
  ["framework", "Framework"],
  ["precision", "Precision"],
  ["topology", "Nodes and devices"],
  ["batch", "Batch a device"],
  ["compiler", "Compiler"],
  ["data", "Data"],
];
const MEASURES = {
  throughput: {
    title: "throughput",
    of: (cell) => cell.value,
    run: (run) => run[1],
    unit: (cell) => cell.unit,
  },
  per_device: {
    title: "throughput a device",
    of: (cell) => cell.value?.map((each) => each / cell.devices),
    run: (run, cell) => (run[1] === null ? null : run[1] / cell.devices),
    unit: (cell) => `${cell.unit} a device`,
  },
  efficiency: {
    title: "scaling efficiency",
    of: (cell) => cell.efficiency?.map((each) => 100 * each),
    run: () => null,
    unit: () => "%",
  },
};
// the other metrics that the round has
const OTHERS = JSON.parse(document.getElementById("explorer-measures")?.textContent ?? "{}");
for (const [name, { title, unit, better }] of Object.entries(OTHERS)) {
  MEASURES[name] = {
    title,
    lower: better === "lower",
    of: (cell) => cell.metrics[name],
    run: (run) => run[6][name] ?? null,
    unit: () => unit,
  };
}
const AT_ONCE = 48; // lines; more are drawn when asked for
const WORDS = { batch: (value) => `batch ${value} a device`, compiler: (value) => `[${value}]` };

const implementation = (cell) =>
  cell.compiler === "none" ? cell.framework : `${cell.framework} [${cell.compiler}]`;
const distinct = (values) => [...new Set(values)];
const percent = (share, digits = 1) => `${Number((100 * share).toFixed(digits))} %`;
const range = (three, form) => `${form(three[1])} – ${form(three[2])}`;
const spelled = (value) => (value && Math.abs(value) < 0.1 ? value.toPrecision(3) : value.toFixed(2));

/** Dimensions worth a filter: several values, which do not follow from another dimension. */
function varying(cells) {
  const found = [];
  for (const [key, title] of DIMENSIONS) {
    if (distinct(cells.map((cell) => cell[key])).length < 2) continue;
    const follows = found.some(([other]) => {
      const pairs = distinct(cells.map((cell) => JSON.stringify([cell[other], cell[key]])));
      return pairs.length === distinct(cells.map((cell) => cell[other])).length;
    });
    if (!follows) found.push([key, title]);
  }
  return found;
}

/** Round numbers from 0 to at most `high`, three to six of them. */
function ticks(high) {
  const rough = high / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const count = Math.floor(high / step + 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

/** The line of a cell: grid, interval, repetitions, median; x in percent of its width. */
function strip(cell, measure, high, marks) {
  const svg = drawn("svg", { class: "strip-plot", "aria-hidden": "true", focusable: "false" });
  const x = (value) => `${(100 * value) / high}%`;
  const line = (value, top, bottom, name) =>
    svg.append(drawn("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: name }));
  for (const mark of marks) line(mark, 0, "100%", "grid");
  const three = measure.of(cell);
  if (!three) return svg;
  const [value, least, most] = three;
  svg.append(drawn("line", { x1: x(least), x2: x(most), y1: 14, y2: 14, class: "whisker" }));
  for (const end of [least, most]) line(end, 10, 18, "whisker");
  for (const run of cell.runs) {
    const shown = measure.run(run, cell);
    if (shown === null) continue;
    const dot = drawn("circle", { cx: x(shown), cy: 14, r: 4.5, class: "dot" });
    dot.style[cell.certificate === "passed" ? "fill" : "stroke"] = cell.colour;
    svg.append(dot);
  }
  line(value, 5, 23, "median");
  return svg;
}

/** Everything that is known of a cell, with a link to each record. */
function details(cell) {
  const facts = [];
  if (cell.value) {
    facts.push(["median", `${spelled(cell.value[0])} ${cell.unit}`]);
    facts.push(["interval", range(cell.value, spelled)], ["coverage", percent(cell.coverage)]);
    if (cell.cv !== null) facts.push(["CV", percent(cell.cv, 2)]);
    if (cell.ratio && cell.devices > 1) {
      facts.push(["speed-up", `${spelled(cell.ratio[0])} (${range(cell.ratio, spelled)})`]);
    }
    if (cell.efficiency && cell.devices > 1) {
      const efficiency = percent(cell.efficiency[0]);
      facts.push(["efficiency", `${efficiency} (${range(cell.efficiency, percent)})`]);
    }
    for (const [name, { title, unit }] of Object.entries(OTHERS)) {
      const three = cell.metrics[name];
      if (three) facts.push([title, `${spelled(three[0])} ${unit} (${range(three, spelled)})`]);
    }
  } else facts.push([cell.status, cell.reason]);
  for (const [peak, share] of Object.entries(cell.mfu)) facts.push([`MFU, ${peak} peak`, percent(share)]);
  facts.push(["ok", `${cell.ok} repetitions`]);
  if (cell.certificate) facts.push(["equal work", `certificate ${cell.certificate}`]);
  facts.push(["data", cell.data]);
  const list = make("dl");
  for (const [key, value] of facts) list.append(make("dt", {}, key), make("dd", {}, value));
  const found = [list];
  if (cell.flags.length) {
    const flags = cell.flags.map((flag) => make("li", {}, flag));
    found.push(make("ul", { class: "flags" }, ...flags));
  }
  const lines = cell.runs.map(([number, value, status, start, recorded, outlier]) => {
    const path = `${cell.folder}/rep${number}`;
    const link = (kind, words) =>
      make("a", { href: `${path}.${kind}`, "aria-label": `${words} of repetition ${number}` }, words);
    const files = recorded ? [link("json", "record"), " ", link("log", "log")] : [];
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, `${number}`),
      make("td", { class: "number" }, value === null ? status : spelled(value), outlier ? ` outlier, ${outlier}` : ""),
      make("td", {}, start.slice(5, 16)),
      make("td", {}, ...files),
    );
  });
  if (lines.length) {
    const head = ["Rep.", cell.unit, "Start, UTC", "Files"].map((each, column) =>
      make("th", { scope: "col", class: column === 1 ? "number" : null }, each),
    );
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)));
    table.append(make("tbody", {}, ...lines));
    found.push(table);
  }
  return found;
}

function explore(place, cells) {
  cells.forEach((cell, index) => (cell.index = index));
  const dimensions = varying(cells);
  const state = { compare: "framework", measure: "throughput", sorted: true, lines: AT_ONCE };
  const chosen = Object.fromEntries(dimensions.map(([key]) => [key, new Set()]));
  const wanted = { equal: false, sound: false };
  if (!chosen.framework && dimensions.length) state.compare = dimensions[0][0];

  const change = () => {
    state.lines = AT_ONCE;
    draw();
  };
  const box = (words, checked) => {
    const input = make("input", { type: "checkbox", onchange: () => checked(input.checked) });
    return make("label", { class: "choice" }, input, ` ${words}`);
  };
  const fields = dimensions.map(([key, title]) => {
    const values = distinct(cells.map((cell) => cell[key]));
    const boxes = values.map((value) =>
      box(`${value}`, (on) => {
        chosen[key][on ? "add" : "delete"](value);
        change();
      }),
    );
    return make("fieldset", {}, make("legend", {}, title), ...boxes);
  });
  const only = ([key, words]) => box(words, (on) => ((wanted[key] = on), change()));
  const flags = [
    ["equal", "only with a certificate of equal work"],
    ["sound", "without suspects"],
  ].map(only);
  fields.push(make("fieldset", {}, make("legend", {}, "Trust"), ...flags));

  const select = (title, key, options) => {
    const input = make("select", { onchange: () => ((state[key] = input.value), change()) });
    for (const [value, words] of options) input.append(make("option", { value }, words));
    return make("label", { class: "select" }, `${title} `, input);
  };
  const selects = [
    select("Compare", "compare", [
      ...dimensions
        .filter(([key]) => key !== "compiler")
        .sort(([a], [b]) => (b === state.compare) - (a === state.compare))
        .map(([key, title]) => [key, title.toLowerCase()]),
      ["all", "everything of a workload"],
    ]),
    select("by", "measure", Object.entries(MEASURES).map(([key, each]) => [key, each.title])),
    select("in the order", "order", [
      ["best", "best first"],
      ["plan", "of the plan"],
    ]),
  ];
  const form = make("form", { class: "choices", "aria-label": "Choose cells" });
  form.onsubmit = (event) => event.preventDefault();
  form.onreset = () => {
    Object.values(chosen).forEach((each) => each.clear());
    Object.assign(wanted, { equal: false, sound: false });
    Object.assign(state, { measure: "throughput", order: "best" });
    state.compare = selects[0].querySelector("option").value;
    setTimeout(change);
  };
  const said = make("span", { role: "status" });
  const reset = make("button", { type: "reset" }, "Show all");
  // On a phone the choices would push the figure off the screen, so they fold away there.
  const folded = make("details", { class: "filters" }, make("summary", {}, "Filters"));
  folded.open = matchMedia("(min-width: 48rem)").matches;
  folded.append(make("div", { class: "fields" }, ...fields));
  form.append(folded, make("p", { class: "selects" }, ...selects, reset));
  const groups = make("div", { class: "groups" });
  const panel = make("div", { class: "panel", role: "region", "aria-label": "The cell pointed at" });
  const more = make("button", { type: "button", class: "more" });
  more.onclick = () => {
    const next = groups.querySelectorAll("button.cell").length;
    state.lines += 4 * AT_ONCE;
    draw();
    groups.querySelectorAll("button.cell")[next]?.focus();
  };
  place.append(form, make("p", { class: "said" }, said), make("div", { class: "stage" }, groups, panel), more);

  function point(button, cell) {
    if (groups.querySelector(".pointed") === button) return;
    groups.querySelector(".pointed")?.classList.remove("pointed");
    button.classList.add("pointed");
    const where = `${cell.workload}, ${cell.precision}, batch ${cell.batch}, ${cell.topology}`;
    panel.replaceChildren(
      make("p", { class: "pointed-at" }, make("strong", {}, implementation(cell)), ` ${where}`),
      ...details(cell),
    );
    const room = groups.offsetHeight - panel.offsetHeight;
    const top = button.getBoundingClientRect().top - groups.getBoundingClientRect().top;
    panel.style.top = `${Math.max(0, Math.min(top, room))}px`;
  }

  function line(cell, name, measure, high, marks, best) {
    const three = measure.of(cell);
    const value = three ? spelled(three[0]) : "";
    const share = three && best ? percent(three[0] / best, 0) : "";
    const doubts = [
      cell.suspect ? "suspect" : "",
      cell.value && cell.certificate !== "passed" ? "not equivalent" : "",
    ].filter(Boolean);
    const spoken = three
      ? ` ${measure.unit(cell)}, interval ${range(three, spelled)}, ${cell.ok} ok, ${share} of the best`
      : ` ${cell.value ? "no " + measure.title : cell.status + ": " + cell.reason}`;
    const id = `cell-${cell.index}`;
    const below = make("div", { id, class: "details", hidden: "" });
    const button = make(
      "button",
      { type: "button", class: "cell", "aria-expanded": "false", "aria-controls": id },
      make("span", { class: "name" }, name, doubts.length ? make("em", {}, ` ${doubts.join(", ")}`) : ""),
      three
        ? strip(cell, measure, high, marks)
        : make("span", { class: "none", "aria-hidden": "true" }, cell.value ? "–" : cell.status),
      make("span", { class: "value" }, value),
      make("span", { class: "share", "aria-hidden": "true" }, share),
      make("span", { class: "unseen" }, spoken),
    );
    button.onclick = () => {
      below.hidden = !below.hidden;
      button.setAttribute("aria-expanded", String(!below.hidden));
      if (!below.firstChild) below.append(...details(cell));
    };
    button.onmouseenter = button.onfocus = () => point(button, cell);
    return make("li", {}, button, below);
  }

  function draw() {
    const measure = MEASURES[state.measure];
    const passes = (cell) =>
      Object.entries(chosen).every(([key, set]) => !set.size || set.has(cell[key])) &&
      (!wanted.equal || cell.certificate === "passed") &&
      (!wanted.sound || !cell.suspect);
    const found = cells.filter(passes);
    const free = { framework: ["framework", "compiler"], all: DIMENSIONS.map(([key]) => key).slice(1) };
    const compared = new Set(free[state.compare] ?? [state.compare]);
    const fixed = DIMENSIONS.map(([key]) => key).filter((key) => !compared.has(key));
    const grouped = new Map();
    for (const cell of found) {
      const key = JSON.stringify([...fixed.map((each) => cell[each]), cell.unit]);
      if (!grouped.has(key)) grouped.set(key, []);
      grouped.get(key).push(cell);
    }
    groups.replaceChildren();
    panel.replaceChildren();
    let lines = 0;
    for (const own of grouped.values()) {
      if (lines >= state.lines) break;
      lines += own.length;
      groups.append(group(own, fixed, measure));
    }
    const count = grouped.size === 1 ? "1 group" : `${grouped.size} groups`;
    said.textContent = `${found.length} of ${cells.length} cells, in ${count}`;
    more.hidden = lines >= found.length;
    more.textContent = `Draw more: ${found.length - lines} cells are not drawn yet`;
    const shown = new Set(found.map((cell) => `${cell.index}`));
    for (const row of document.querySelectorAll("#all-cells tbody tr")) {
      show(row, "chosen", shown.has(row.dataset.cell));
    }
    const first = groups.querySelector("button.cell");
    if (first && matchMedia("(min-width: 60rem)").matches) first.onmouseenter();
  }

  function group(own, fixed, measure) {
    const first = own[0];
    const several = new Set(dimensions.map(([key]) => key));
    const words = fixed
      .filter((key) => ["workload", "precision", "batch", "topology", "framework"].includes(key) || several.has(key))
      .map((key) => (key === "framework" ? implementation(first) : (WORDS[key]?.(first[key]) ?? first[key])))
      .filter((each, place, all) => each !== "[none]" && all.indexOf(each) === place);
    const heights = own.map((cell) => measure.of(cell)).filter(Boolean);
    const speeds = own.flatMap((cell) => cell.runs.map((run) => measure.run(run, cell)));
    const most = Math.max(...heights.map((each) => each[2]), ...speeds.filter((each) => each !== null), 1e-9);
    const high = most * 1.03;
    const marks = ticks(high);
    const medians = heights.map((each) => each[0]);
    const best = measure.lower && medians.length ? Math.min(...medians) : Math.max(...medians, 0);
    const ordered = [...own];
    if (state.order !== "plan") {
      const place = (cell) => {
        const value = measure.of(cell)?.[0];
        return value === undefined ? Infinity : measure.lower ? value : -value;
      };
      ordered.sort((a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0));
    }
    const name = (cell) => {
      if (state.compare === "framework") return implementation(cell);
      if (state.compare !== "all") return WORDS[state.compare]?.(cell[state.compare]) ?? `${cell[state.compare]}`;
      return `${implementation(cell)}, ${cell.precision} b${cell.batch} ${cell.topology}`;
    };
    const axis = make("div", { class: "axis", "aria-hidden": "true" }, make("span", { class: "name" }, measure.unit(first)));
    const scale = make("span", { class: "scale" });
    for (const mark of marks) {
      const label = make("span", {}, `${mark}`);
      label.style.left = `${(100 * mark) / high}%`;
      scale.append(label);
    }
    axis.append(scale, make("span", { class: "value" }, "median"), make("span", { class: "share" }, "of best"));
    const list = make("ul", {}, ...ordered.map((cell) => line(cell, name(cell), measure, high, marks, best)));
    return make("section", { "aria-label": words.join(", ") }, make("h3", {}, words.join(" · ")), axis, list);
  }

  draw();
}

// ---------------------------------------------------------------- start

for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const table of document.querySelectorAll("table.sortable")) filterable(table);
followReader();
addEventListener("hashchange", openTarget);
openTarget();
const known = JSON.parse(document.getElementById("explorer-data")?.textContent ?? "[]");
if (known.length) {
  for (const each of document.querySelectorAll(".explorer-only")) each.hidden = false;
  explore(document.getElementById("explorer"), known);
}
document.documentElement.dataset.ready = `${Math.round(performance.now())}`;
