// Joins the page with the libraries inlined before this: DataTables sorts and filters its tables,
// Vega-Lite draws the explorer of all cells. The page says everything without them.

/** An element with attributes and children; a child that is a string becomes text, never HTML. */
function make(name, attributes, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

/** Acts once, when the element comes near the screen or its <details> opens. */
function whenNear(element, act) {
  const look = ([seen]) => {
    if (!seen.isIntersecting) return;
    near.disconnect();
    act();
  };
  const near = new IntersectionObserver(look, { rootMargin: "50%" });
  near.observe(element);
}

// ---------------------------------------------------------------- tables

const SORT_FROM = 3; // rows
const FILTER_FROM = 12; // rows; a shorter table is seen at a glance
const WAIT_FROM = 200; // rows; such a table takes long, so it waits until it comes near

/** Numbers before words, and empty fields last in either direction. */
const order = (sign) => (a, b) => {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a !== typeof b) return sign * (typeof a === "number" ? -1 : 1);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
};
const sortKey = (field) => {
  const text = DataTable.util.stripHtml(`${field}`).trim();
  return text === "" || Number.isNaN(Number(text)) ? text.toLowerCase() : Number(text);
};
DataTable.type("field", { order: { pre: sortKey, asc: order(1), desc: order(-1) } });

function enhance(table) {
  const rows = table.tBodies[0].rows.length;
  const filters = rows >= FILTER_FROM || null;
  if (rows < SORT_FROM && table.id !== "all-cells") return null;
  const made = new DataTable(table, {
    paging: false,
    autoWidth: false,
    order: [],
    columnDefs: [{ targets: "_all", type: "field" }],
    layout: { topStart: filters && "search", topEnd: filters && "info", bottomStart: null, bottomEnd: null },
    language: { search: "Filter rows", info: "_TOTAL_ of _MAX_ rows", infoFiltered: "", zeroRecords: "" },
  });
  // The table scrolls sideways in its box; what filters it stays above.
  const above = made.table().container().querySelectorAll(".dt-search, .dt-info");
  if (filters) table.closest(".scroll").before(make("div", { class: "filter" }, ...above));
  return made;
}

// ---------------------------------------------------------------- explorer

const STEP = 28; // px a line
const NARROW = matchMedia("(max-width: 40rem)"); // a phone: names stand above their lines
const number = (value) => (value && Math.abs(value) < 0.1 ? value.toPrecision(3) : value.toFixed(2));
const words = (cell, key) => (key === "batch" ? `batch ${cell.batch} per device` : cell[key]);

/** Vega-Lite's specification of one group's plot. */
function plot(lines, description) {
  const spec = JSON.parse(document.getElementById("explorer-plot").textContent);
  if (NARROW.matches) spec.encoding.y.axis = null;
  const height = lines.length * (NARROW.matches ? 1.7 * STEP : STEP);
  return { ...spec, description, height, data: { values: lines } };
}

/** What the plot shows of a cell; a dot is filled where the cell may be ranked. */
function line(cell, compared, measure, best) {
  const [median, low, high] = cell.values[measure] ?? [];
  const name = cell.doubts ? `${compared} (${cell.doubts})` : compared;
  const ranked = cell.ranked && low !== undefined && Number.isFinite(best);
  const share = ranked ? ` (${Math.round((100 * median) / best)} %)` : "";
  const said = low === undefined ? cell.status || "–" : number(median) + share;
  const beside = ranked ? `${said} of the best` : said;
  const spoken = low === undefined ? said : `${beside}, interval ${number(low)} to ${number(high)}`;
  const runs = cell.runs.flatMap(([rep, , start, recorded, outlier, { [measure]: value }]) => {
    if (value === undefined) return [];
    const record = recorded ? `${cell.folder}/rep${rep}.json` : null;
    const repetition = `${rep}: ${number(value)}, ${start} UTC${outlier && `, outlier, ${outlier}`}`;
    return { value, record, facts: { ...cell.facts, repetition } };
  });
  const fill = cell.ranked ? cell.colour : "var(--paper)";
  const above = NARROW.matches ? name : "";
  return { ...cell, name, above, median, low, high, said, spoken, runs, fill };
}

/** The section of cells that differ only in what is compared. */
function group(cells, fixed, free, measure, { unit, lower }, sorted) {
  const [worst, sign] = lower ? [Infinity, 1] : [-Infinity, -1];
  const value = (cell) => sign * (cell.values[measure]?.[0] ?? worst);
  const best = Math.abs(Math.min(...cells.filter((cell) => cell.ranked).map(value)));
  // what is excluded from ranks stands behind all others
  const order = (a, b) => b.ranked - a.ranked || (value(a) === value(b) ? 0 : value(a) - value(b));
  if (sorted) cells.sort(order);
  const name = (cell, keys, between) => keys.map((key) => words(cell, key)).join(between);
  const lines = cells.map((cell) => line(cell, name(cell, free, ", "), measure, best));
  const heading = name(cells[0], fixed, " · ");
  const of = unit.replace("{}", cells[0].unit);
  const said = lines.map((each) => `${each.name}: ${each.spoken}`).join("; ");
  const place = make("div", { class: "plot", style: `min-height: ${STEP * (lines.length + 1)}px` });
  const look = { ast: true, renderer: "svg", actions: false, defaultStyle: false }; // ast: no eval
  whenNear(place, async () => {
    await vegaEmbed(place, plot(lines, `${heading}, in ${of}. ${said}`), look);
    performance.mark("plot"); // benchmarks/report.py asks when the first one was there
  });
  const title = make("h3", {}, `${heading} `, make("small", {}, of));
  return make("section", { "aria-label": heading }, title, place);
}

/** The repetitions of a cell, with links to their records and logs. */
function repetitions({ folder, unit, runs }) {
  const row = (kind, ...fields) => make("tr", {}, ...fields.map((each) => make(kind, {}, ...[each].flat())));
  const lines = runs.map(([rep, status, start, recorded, outlier, { own }]) => {
    const link = (kind, said) =>
      make("a", { href: `${folder}/rep${rep}.${kind}`, "aria-label": `${said} of repetition ${rep}` }, said);
    const value = own === undefined ? status : number(own) + (outlier && ` outlier, ${outlier}`);
    const files = recorded ? [link("json", "record"), " ", link("log", "log")] : "";
    return row("td", `${rep}`, value, start.slice(5, 16), files);
  });
  const head = make("thead", {}, row("th", "Rep.", unit, "Start, UTC", "Files"));
  return make("table", { class: "runs" }, head, make("tbody", {}, ...lines));
}

function explore(place, table, { common, measures, cells }) {
  const [form, groups, said] = ["form", ".groups", ".said"].map((each) => place.querySelector(each));
  const draw = () => {
    const asked = Object.fromEntries(new FormData(form));
    const free = asked.compare_by === "all" ? common.slice(1) : [asked.compare_by];
    const fixed = common.filter((key) => !free.includes(key));
    const shown = table.rows({ search: "applied", order: "applied" }).indexes().toArray();
    const grouped = new Map();
    for (const cell of shown.map((row) => cells[row])) {
      const key = JSON.stringify(fixed.map((each) => cell[each]));
      grouped.set(key, [...(grouped.get(key) ?? []), cell]);
    }
    const look = [fixed, free, asked.measure, measures[asked.measure], asked.order === "best"];
    groups.replaceChildren(...[...grouped.values()].map((own) => group(own, ...look)));
    const count = grouped.size === 1 ? "1 group" : `${grouped.size} groups`;
    said.textContent = `${shown.length} of ${cells.length} cells, in ${count}`;
  };
  table.search.fixed("chosen", (text, data, row) => {
    const asked = new FormData(form);
    const keys = [...asked.keys()].filter((key) => key in cells[row]);
    return keys.every((key) => asked.getAll(key).includes(cells[row][key]));
  });
  for (const row of table.rows().nodes().toArray()) {
    const closed = { type: "button", class: "cell", "aria-expanded": "false" };
    row.cells[0].append(make("button", closed, ...row.cells[0].childNodes));
  }
  table.on("click", "button.cell", ({ currentTarget }) => {
    const row = table.row(currentTarget.closest("tr"));
    if (row.child.isShown()) row.child.hide();
    else row.child(repetitions(cells[row.index()])).show();
    currentTarget.setAttribute("aria-expanded", row.child.isShown());
  });
  form.onchange = () => table.draw();
  form.onreset = () => setTimeout(() => table.search("").draw()); // after the form's own reset
  form.onsubmit = (event) => event.preventDefault();
  NARROW.onchange = draw;
  table.on("draw", draw);
  table.draw();
}

// ---------------------------------------------------------------- contents

function followReader() {
  const headings = [...document.querySelectorAll("h2[id]")];
  const here = headings.findLast((each) => each.getBoundingClientRect().top < 160) ?? headings[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${here.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** A link into something folded away opens it. */
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
}

addEventListener("scroll", () => requestAnimationFrame(followReader), { passive: true });
followReader();
addEventListener("hashchange", openTarget);
openTarget();
for (const table of document.querySelectorAll("table.sortable:not(#all-cells)")) {
  if (table.tBodies[0].rows.length < WAIT_FROM) enhance(table);
  else whenNear(table, () => enhance(table));
}
const all = document.getElementById("all-cells");
const place = document.getElementById("explorer");
const start = () => {
  const data = document.getElementById("explorer-data").textContent;
  if (!DataTable.isDataTable(all)) explore(place, enhance(all), JSON.parse(data));
};
place.hidden = !all.tBodies[0].rows.length;
place.querySelector(".filters").open = !NARROW.matches; // it would push plots off a phone's screen
if (all.tBodies[0].rows.length < WAIT_FROM) start();
else [place, all].forEach((each) => whenNear(each, start));
