// Joins the page with the libraries inlined before this: DataTables sorts and filters its tables,
// Vega-Lite draws the explorer of all cells. The page says everything without them.

/** An element with attributes and children; a child that is a string becomes text, never HTML. */
function make(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

// ---------------------------------------------------------------- tables

const SORT_FROM = 3; // rows
const FILTER_FROM = 12; // rows; a shorter table is seen at a glance

/** Numbers before words, and empty fields always last. */
function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a !== typeof b) return sign * (typeof a === "number" ? -1 : 1);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
}
DataTable.type("field", {
  order: {
    pre: (field) => {
      const text = DataTable.util.stripHtml(`${field}`).trim();
      return text === "" || Number.isNaN(Number(text)) ? text.toLowerCase() : Number(text);
    },
    asc: (a, b) => compare(a, b, 1),
    desc: (a, b) => compare(a, b, -1),
  },
});

function enhance(table) {
  const rows = table.tBodies[0].rows.length;
  if (rows < SORT_FROM && table.id !== "all-cells") return null;
  const searching = rows >= FILTER_FROM;
  const made = new DataTable(table, {
    paging: false,
    autoWidth: false,
    searching: searching || table.id === "all-cells",
    order: [],
    columnDefs: [{ targets: "_all", type: "field" }],
    layout: { topStart: searching ? "search" : null, topEnd: null, bottomStart: searching ? "info" : null, bottomEnd: null },
    language: { search: "Filter rows", info: "_TOTAL_ rows", infoEmpty: "0 rows", infoFiltered: "of _MAX_", zeroRecords: "No row matches" },
  });
  // the table scrolls sideways in its box, what filters it stays above
  const above = table.closest(".dt-container").querySelectorAll(".dt-search, .dt-info");
  if (searching) table.closest(".scroll").before(make("div", { class: "filter" }, ...above));
  return made;
}

// ---------------------------------------------------------------- explorer

const STEP = 28; // px a line
const NARROW = matchMedia("(max-width: 40rem)");
const number = (value) => (value && Math.abs(value) < 0.1 ? value.toPrecision(3) : value.toFixed(2));
const words = (cell, key) => (key === "batch" ? `batch ${cell.batch} a device` : cell[key]);

/** The plot of one group: lines of {name, low, high, median, said, facts, runs}. */
function plot(lines, unit, description) {
  const x = (field, more) => ({ field, type: "quantitative", scale: { zero: true }, ...more });
  const tooltip = { field: "facts" };
  const label = { title: null, domain: false, ticks: false, labelLimit: 230, labelPadding: 8 };
  const above = { align: "left", baseline: "bottom", dy: -8, fontSize: 12, fill: "var(--ink)" };
  return {
    description,
    width: "container",
    height: lines.length * (NARROW.matches ? 1.7 * STEP : STEP),
    autosize: { type: "fit-x", contains: "padding" },
    data: { values: lines },
    encoding: { y: { field: "name", type: "nominal", sort: null, axis: NARROW.matches ? null : label } },
    layer: [
      {
        mark: { type: "rule", stroke: "var(--ink)", aria: false },
        encoding: { x: x("low", { axis: { title: unit } }), x2: { field: "high" }, tooltip },
      },
      {
        transform: [{ flatten: ["runs"] }],
        mark: { type: "circle", size: 75, strokeWidth: 1.5, opacity: 0.85, aria: false },
        encoding: {
          x: x("runs.value"),
          fill: { field: "fill", scale: null },
          stroke: { field: "colour", scale: null },
          href: { field: "runs.record" },
          tooltip: { field: "runs.facts" },
        },
      },
      {
        mark: { type: "tick", thickness: 2.6, size: 18, color: "var(--ink)", opacity: 1, aria: false },
        encoding: { x: x("median"), tooltip },
      },
      {
        mark: { type: "text", align: "left", dx: 8, fontSize: 12, fill: "var(--ink)", aria: false },
        encoding: { x: { value: { expr: "width" } }, text: { field: "said" }, tooltip },
      },
      ...(NARROW.matches ? [{ mark: { type: "text", ...above, aria: false }, encoding: { x: { value: 0 }, text: { field: "name" } } }] : []),
    ],
    config: {
      background: null,
      font: "system-ui, sans-serif",
      view: { stroke: null },
      axis: { labelColor: "var(--ink)", titleColor: "var(--muted)", titleFontWeight: "normal", gridColor: "var(--line)", domainColor: "var(--line)", tickColor: "var(--line)", labelFontSize: 12 },
      axisY: { grid: false },
      axisX: { orient: "top", tickCount: 5, titleAnchor: "start" },
    },
  };
}

/** What the plot shows of a cell. */
function line(cell, name, measure, best) {
  const [median, low, high] = cell.values[measure] ?? [];
  const shown = median === undefined ? cell.status || "–" : `${number(median)} (${Math.round((100 * median) / best)} %)`;
  const runs = cell.runs
    .filter(([, , , , , values]) => measure in values)
    .map(([rep, , start, recorded, outlier, values]) => ({
      value: values[measure],
      record: recorded ? `${cell.folder}/rep${rep}.json` : null,
      facts: { ...cell.facts, repetition: `${rep}: ${number(values[measure])}, ${start} UTC${outlier && `, outlier, ${outlier}`}` },
    }));
  const fill = cell.equal === "yes" ? cell.colour : "var(--paper)";
  const { facts, colour, doubts } = cell;
  return { name: doubts ? `${name} (${doubts})` : name, median, low, high, said: shown, facts, runs, fill, colour };
}

function group(place, cells, { common, free, measure, known, order }) {
  const heading = common.filter((key) => !free.includes(key)).map((key) => words(cells[0], key)).join(" · ");
  const unit = known.unit.replace("{}", cells[0].unit);
  const value = (cell) => cell.values[measure]?.[0] ?? (known.lower ? Infinity : -Infinity);
  const values = cells.map(value).filter(Number.isFinite);
  const best = known.lower ? Math.min(...values) : Math.max(...values);
  if (order === "best") cells.sort((a, b) => (value(a) === value(b) ? 0 : (value(a) < value(b)) === known.lower ? -1 : 1));
  const lines = cells.map((cell) => line(cell, free.map((key) => words(cell, key)).join(", "), measure, best));
  const said = lines.map(({ name, median, low, high, said }) => `${name}: ${said}${median === undefined ? "" : ` of the best, interval ${number(low)} to ${number(high)}`}`);
  const canvas = make("div", { class: "plot", style: `min-height: ${STEP * (lines.length + 1.5)}px` });
  canvas.draw = () => vegaEmbed(canvas, plot(lines, unit, `${heading}, in ${unit}. ${said.join("; ")}`), { ast: true, renderer: "svg", actions: false, defaultStyle: false });
  place.append(make("section", { "aria-label": heading }, make("h3", {}, heading), canvas));
  return canvas;
}

/** The repetitions of a cell, with links to their records and logs. */
function repetitions(cell) {
  const head = ["Rep.", cell.unit, "Start, UTC", "Files"].map((each) => make("th", { scope: "col" }, each));
  const rows = cell.runs.map(([rep, status, start, recorded, outlier, { own }]) => {
    const link = (kind, said) => make("a", { href: `${cell.folder}/rep${rep}.${kind}`, "aria-label": `${said} of repetition ${rep}` }, said);
    const files = recorded ? [link("json", "record"), " ", link("log", "log")] : [];
    const fields = [own === undefined ? status : number(own) + (outlier && ` outlier, ${outlier}`), start.slice(5, 16)];
    return make("tr", {}, make("th", { scope: "row" }, `${rep}`), ...fields.map((each) => make("td", {}, each)), make("td", {}, ...files));
  });
  return make("table", { class: "runs" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function explore(place, table, { common, measures, cells }) {
  const form = place.querySelector("form");
  const groups = place.querySelector(".groups");
  const nearby = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) nearby.unobserve(target), target.draw();
    },
    { rootMargin: "50%" },
  );
  const draw = () => {
    const asked = new FormData(form);
    const [compared, measure] = [asked.get("-compare"), asked.get("-measure")];
    const free = compared === "all" ? common.slice(1) : [compared];
    const rows = table.rows({ search: "applied", order: "applied" }).indexes().toArray();
    const grouped = Map.groupBy(rows.map((row) => cells[row]), (cell) =>
      JSON.stringify(common.filter((key) => !free.includes(key)).map((key) => cell[key])),
    );
    const look = { common, free, measure, known: measures[measure], order: asked.get("-order") };
    nearby.disconnect();
    groups.replaceChildren();
    for (const own of grouped.values()) nearby.observe(group(groups, own, look));
    const count = grouped.size === 1 ? "1 group" : `${grouped.size} groups`;
    place.querySelector(".said").textContent = `${rows.length} of ${cells.length} cells, in ${count}`;
  };
  table.search.fixed("chosen", (text, data, row) => {
    const asked = new FormData(form);
    return [...new Set(asked.keys())].every((key) => key[0] === "-" || asked.getAll(key).includes(cells[row][key]));
  });
  for (const row of table.rows().indexes().toArray()) {
    const button = make("button", { type: "button", class: "cell", "aria-expanded": "false" });
    const heading = table.cell(row, 0).node();
    button.append(...heading.childNodes);
    heading.append(button);
    button.onclick = () => {
      const child = table.row(row).child;
      child.isShown() ? child.hide() : child(repetitions(cells[row])).show();
      button.setAttribute("aria-expanded", child.isShown());
    };
  }
  form.onchange = () => table.draw();
  form.onreset = () => setTimeout(() => table.search("").draw());
  form.onsubmit = (event) => event.preventDefault();
  table.on("draw", draw);
  place.hidden = false;
  // On a phone the choices would push the figure off the screen, so they fold away there.
  place.querySelector(".filters").open = !NARROW.matches;
  table.draw();
}

// ---------------------------------------------------------------- contents

function followReader() {
  const headings = [...document.querySelectorAll("h2[id]")];
  const here = headings.findLast((each) => each.getBoundingClientRect().top < 160) ?? headings[0];
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.hash === `#${here.id}`);
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
const tables = [...document.querySelectorAll("table.sortable")].map((each) => [each.id, enhance(each)]);
const known = JSON.parse(document.getElementById("explorer-data").textContent);
const all = new Map(tables).get("all-cells");
if (all) explore(document.getElementById("explorer"), all, known);
document.documentElement.dataset.ready = `${Math.round(performance.now())}`;
