(function () {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = (id) => { const found = byId(id); return found ? JSON.parse(found.textContent) : null; };
  const chart = byId("{{ div_id }}"), plain = byId("waterfall-plain"), showAll = byId("show-all");
  const losses = byId("loss-table").tBodies[0], search = byId("loss-search"), grade = byId("loss-grade");
  const drill = byId("drill");
  let slice = null;

  // Losses: a slice of the waterfall, words, and a least confidence.
  function filter() {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const least = { low: 0, medium: 1, high: 2 }[grade.value];
    let shown = 0;
    for (const row of losses.rows) {
      if (!row.dataset.slice) continue;
      const text = row.textContent.toLowerCase();
      const fits = (slice === null || row.dataset.slice === slice)
        && { low: 0, medium: 1, high: 2 }[row.dataset.grade] >= least
        && words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    showAll.hidden = slice === null && !words.length && least === 0;
    byId("loss-count").textContent = showAll.hidden ? "" : shown + " of " + losses.querySelectorAll("[data-slice]").length + " shown";
  }
  search.addEventListener("input", filter);
  grade.addEventListener("change", filter);
  showAll.addEventListener("click", () => { search.value = ""; grade.value = "low"; close(); });

  // Drill-down: the parts of a bar, each leading to its row.
  function close() { slice = null; drill.hidden = true; filter(); }
  function choose(item) {
    const bar = plain.querySelector('[data-item="' + CSS.escape(item) + '"]');
    if (!bar || !bar.dataset.parts) { close(); return; }
    const parts = JSON.parse(bar.dataset.parts);
    slice = item;
    byId("drill-title").textContent = bar.querySelector(".label").textContent + " " + bar.querySelector(".num").textContent;
    const most = Math.max(...parts.map((part) => Math.abs(part[2])), 1);
    byId("drill-parts").replaceChildren(...parts.map(([id, label, tenths]) => {
      const line = document.createElement("li"), go = document.createElement("button");
      const track = document.createElement("span"), fill = document.createElement("i"), num = document.createElement("b");
      go.type = "button"; go.textContent = label;
      go.addEventListener("click", () => reveal(id));
      track.className = "track"; fill.style.width = 100 * Math.abs(tenths) / most + "%"; fill.style.background = bar.dataset.color;
      num.textContent = (Math.abs(tenths) / 10).toFixed(1);
      track.append(fill); line.append(go, track, num);
      return line;
    }));
    drill.hidden = false;
    filter();
    drill.scrollIntoView({ block: "nearest" });
  }
  function reveal(id) {
    const row = losses.querySelector('[data-loss="' + CSS.escape(id) + '"]');
    if (!row) return;
    row.hidden = false;
    for (const more of row.querySelectorAll("details")) more.open = true;
    row.tabIndex = -1; row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
  }
  byId("drill-close").addEventListener("click", close);
  for (const bar of plain.children) {
    if (!bar.dataset.parts) continue;
    bar.tabIndex = 0; bar.setAttribute("role", "button");
    bar.addEventListener("click", () => choose(bar.dataset.item));
    bar.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(bar.dataset.item); }
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !drill.hidden) close(); });

  // Tables that can be sorted by their heads.
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const sort = document.createElement("button");
      sort.type = "button"; sort.className = "sort"; sort.textContent = head.textContent;
      head.replaceChildren(sort);
      sort.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => { const cell = row.cells[column]; const number = Number(cell.dataset.value); return cell.dataset.value !== undefined && !Number.isNaN(number) ? number : cell.textContent.trim(); };
        const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
        rows.sort(([a], [b]) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))) * (down ? -1 : 1));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  // Pivots: one table at a time.
  for (const tab of document.querySelectorAll("#pivots [role=tab]")) {
    tab.addEventListener("click", () => {
      for (const other of document.querySelectorAll("#pivots [role=tab]")) {
        const chosen = other === tab;
        other.setAttribute("aria-selected", chosen);
        byId(other.getAttribute("aria-controls")).hidden = !chosen;
      }
      resize();
    });
  }

  // Figures: the library travels packed inside of the page.
  async function inflate(id) {
    const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }
  const ink = () => getComputedStyle(document.body).color;
  const dark = matchMedia("(prefers-color-scheme: dark)"), wide = matchMedia("(min-width: 700px)");
  const drawn = [];
  async function draw() {
    const library = document.createElement("script");
    library.textContent = await inflate("tracelens-plotly");
    document.head.appendChild(library);
    const figures = data("tracelens-figures");
    for (const id of Object.keys(figures)) {
      const place = byId(id), figure = figures[id];
      if (!place) continue;
      figure.layout.font.color = ink();
      if (place !== chart) place.hidden = false;
      if (place === chart) chart.hidden = !wide.matches;
      await Plotly.newPlot(place, figure.data, figure.layout, { displayModeBar: false, responsive: true });
      drawn.push(place);
    }
    chart.on("plotly_click", (event) => choose(event.points[0].customdata[0]));
    show();
  }
  function resize() { for (const place of drawn) if (place.offsetWidth) Plotly.Plots.resize(place); }
  // The plain list holds the same figures: it stays where the chart is too wide for the screen, and
  // where DecompressionStream is missing.
  function show() {
    const ready = drawn.includes(chart);
    chart.hidden = !ready || !wide.matches;
    plain.hidden = !chart.hidden;
    resize();
  }
  wide.addEventListener("change", show);
  dark.addEventListener("change", () => {
    for (const place of drawn) Plotly.relayout(place, { "font.color": ink() });
    if (lanes) lanes.draw();
  });
  // On paper everything is open, but for further instances: the first of a loss is in its row.
  window.addEventListener("beforeprint", () => { for (const more of document.querySelectorAll("details:not(.evidence details)")) more.open = true; });

{% include "timeline.js" %}

  const lanes = timeline(byId("timeline"), data("tracelens-timeline"));
  filter();
  draw().then(() => { document.documentElement.dataset.ready = "yes"; })
    .catch((error) => { chart.hidden = true; plain.hidden = false; document.documentElement.dataset.ready = "no: " + error; });
})();
