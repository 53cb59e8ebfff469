// Opens rows, copies filters, changes the colours, and draws the charts once the page has been painted.
"use strict";
(() => {
  const root = document.documentElement;
  const config = /*CONFIG*/null;
  const said = document.getElementById("said");

  // ---- colours ----
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  system.addEventListener("change", name);
  name();

  // ---- rows that open, and copying ----
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.hasAttribute("aria-controls")) {
      const row = document.getElementById(button.getAttribute("aria-controls"));
      row.hidden = !row.hidden;
      button.setAttribute("aria-expanded", String(!row.hidden));
    } else if (button.dataset.copy !== undefined) copy(button);
  });

  const copied = (button, done) => {
    button.dataset.name ||= button.textContent;
    button.textContent = done ? "Copied" : "Not copied";
    said.textContent = done ? "Copied" : "It could not be copied";
    setTimeout(() => { button.textContent = button.dataset.name; said.textContent = ""; }, 2000);
  };
  const copy = (button) => {
    const text = button.dataset.copy;
    const byHand = () => {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      button.focus();
      return done;
    };
    if (!navigator.clipboard) return copied(button, byHand());
    navigator.clipboard.writeText(text).then(() => copied(button, true), () => copied(button, byHand()));
  };

  // ---- charts ----
  const library = document.getElementById("library");
  const plots = new Map([...document.querySelectorAll(".plot")].map((plot) => [plot.dataset.chart, plot]));
  const specOf = (id) => JSON.parse(document.getElementById("spec-" + id).textContent);
  const drawn = new Map();
  const load = () => {
    if (window.vegaEmbed) return;
    performance.mark("nfslat-library");
    const script = document.createElement("script");
    script.textContent = library.textContent;
    document.head.append(script);
  };
  const draw = (id) => {
    if (!drawn.has(id)) {
      const plot = plots.get(id);
      load();
      // ast: expressions are interpreted, not compiled, so that the page can do without eval.
      const options = { actions: false, ast: true, renderer: "svg", config, tooltip: { disableDefaultStyle: false } };
      // Into an element of its own, for Vega gives it a role; the plot stays an image with our words for it.
      const inside = plot.appendChild(document.createElement("div"));
      drawn.set(id, window.vegaEmbed(inside, specOf(id), options).then(
        ({ view }) => {
          plot.style.minHeight = "";
          plot.dispatchEvent(new CustomEvent("drawn", { detail: view, bubbles: true }));
        },
        (problem) => {
          plot.classList.add("undrawn");
          plot.textContent = "This picture could not be drawn; its figures are in the tables.";
          console.error(id, problem);
        },
      ));
    }
    return drawn.get(id);
  };
  // What is folded away has no width yet; it is drawn when it is opened.
  const folded = (id) => plots.get(id).closest("details:not([open])") !== null;
  const open = () => [...plots.keys()].filter((id) => !folded(id));
  const drawAll = () => Promise.all(open().map(draw)).then(() => { root.dataset.charts = "drawn"; });
  const later = window.requestIdleCallback || ((call) => setTimeout(call, 1));
  const start = () => {
    // What is looked at comes first; the rest when nothing else is to do, so that a print has all of it.
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting && !folded(entry.target.dataset.chart)) draw(entry.target.dataset.chart);
    }, { rootMargin: "300px" });
    const rest = open();
    for (const plot of plots.values()) seen.observe(plot);
    const next = () => {
      const id = rest.shift();
      if (id === undefined) return drawAll();
      return draw(id).then(() => later(next));
    };
    later(next);
  };
  let begun = false;
  const begin = () => { if (!begun) { begun = true; start(); } };
  if (plots.size) {
    // Reported when it is on the screen; a page that nobody looks at is not painted.
    if (window.PerformanceObserver) new PerformanceObserver(begin).observe({ type: "paint", buffered: true });
    setTimeout(begin, 1000);
  } else root.dataset.charts = "drawn";
  addEventListener("beforeprint", drawAll);
  document.addEventListener("toggle", (event) => {
    if (event.target.open) for (const plot of event.target.querySelectorAll(".plot")) draw(plot.dataset.chart);
  }, true);

  // ---- the figures of a picture, as a table: made of the data that it is drawn from ----
  // Of the fields that the tooltips of these marks show, in their order; without any, of all that have one.
  const titles = (marks) => {
    const shown = {}, all = {};
    const walk = (node, inTip) => {
      if (!node || typeof node !== "object") return;
      if (typeof node.field === "string" && node.title) (inTip ? shown : all)[node.field] ||= node.title;
      for (const [key, value] of Object.entries(node)) if (key !== "values") walk(value, inTip || key === "tooltip");
    };
    walk(marks, false);
    return Object.keys(shown).length ? shown : all;
  };
  const tables = (spec) => {
    const found = [];
    const walk = (node) => {
      if (!node || typeof node !== "object") return;
      const values = node.data && node.data.values;
      if (Array.isArray(values) && values.length) {
        found.push({ name: node === spec ? "" : node.description || "", values: spoken(spec, values), named: titles(node) });
      }
      for (const [key, value] of Object.entries(node)) if (key !== "data" && key !== "usermeta") walk(value);
    };
    walk(spec);
    // A line and its dots have the same figures.
    return [...new Map(found.map((one) => [JSON.stringify(one), one])).values()];
  };
  // Cells of a heat map are [bin, class, ops], to keep the page small.
  const spoken = (spec, values) => {
    if (!Array.isArray(values[0])) return values;
    const { bin_s, bounds_ms } = spec.usermeta.cells;
    return values.map(([bin, row, ops]) => (
      { from: bin * bin_s, to: (bin + 1) * bin_s, above: bounds_ms[row], most: bounds_ms[row + 1], ops }
    ));
  };
  const MOST = 500;
  const tableOf = ({ name, values, named }) => {
    const columns = Object.keys(named).filter((key) => values.some((row) => row[key] !== undefined));
    if (!columns.length) return null;
    const box = document.createElement("div");
    box.className = "box";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", name || "figures");
    const table = document.createElement("table");
    if (name) table.createCaption().textContent = name;
    const line = (tag, cells, into) => {
      const row = into.insertRow();
      for (const cell of cells) {
        const made = document.createElement(tag);
        if (tag === "th") made.scope = "col";
        if (typeof cell === "number") made.className = "n";
        made.textContent = cell === null || cell === undefined ? "–"
          : typeof cell === "number" ? String(Number(cell.toPrecision(6))) : String(cell);
        row.append(made);
      }
    };
    line("th", columns.map((key) => named[key]), table.createTHead());
    const body = table.createTBody();
    for (const row of values.slice(0, MOST)) line("td", columns.map((key) => row[key]), body);
    box.append(table);
    if (values.length > MOST) {
      const more = document.createElement("p");
      more.textContent = `The first ${MOST} of ${values.length} rows; the JSON report has them all.`;
      box.append(more);
    }
    return box;
  };
  for (const details of document.querySelectorAll("details.figures")) {
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      details.append(...tables(specOf(details.dataset.figures)).map(tableOf).filter(Boolean));
    });
  }
})();
