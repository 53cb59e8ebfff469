
// The fleet's page: a table that is sorted by any of its columns, and shows some of its rows.
(() => {
  const table = document.querySelector("table.sortable");
  if (!table) return;
  const said = document.getElementById("said");
  const heads = [...table.tHead.rows[0].cells];
  const bodies = [...table.tBodies];
  // A number is what the JSON has, not what is shown of it; what is not known comes last, whichever way is sorted.
  const keyOf = (body, column) => {
    const cell = body.rows[0].cells[column];
    const data = cell.querySelector("data");
    if (data) return Number(data.value);
    const text = cell.textContent.trim();
    if (text === "–" || text === "-" || text === "") return null;
    const number = Number(text.replace(/[%!,]/g, ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (one, other) => {
    if (typeof one === typeof other) return typeof one === "number" ? one - other : one.localeCompare(other, undefined, { numeric: true });
    return typeof one === "number" ? -1 : 1;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      // The largest figures are what is looked for; ranks and words begin with the first.
      const now = head.getAttribute("aria-sort");
      const first = head.classList.contains("n") && column > 0 ? "descending" : "ascending";
      const way = now === null ? first : now === "ascending" ? "descending" : "ascending";
      for (const one of heads) one.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const keyed = bodies.map((body, place) => ({ body, place, key: keyOf(body, column) }));
      keyed.sort((a, b) => (a.key === null || b.key === null
        ? (a.key === null) - (b.key === null) : sign * compare(a.key, b.key)) || a.place - b.place);
      table.append(...keyed.map((one) => one.body));
      said.textContent = `Sorted by ${button.textContent}, ${way}`;
    });
  });
  const filter = document.getElementById("filter");
  const left = document.getElementById("left");
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const body of bodies) {
      body.hidden = !body.rows[0].cells[1].textContent.toLowerCase().includes(wanted);
      shown += !body.hidden;
    }
    left.textContent = wanted ? `${shown} of ${bodies.length}` : "";
  });
})();
