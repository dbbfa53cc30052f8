(function () {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const chart = byId("{{ div_id }}"), plain = byId("waterfall-plain"), showAll = byId("show-all");

  async function inflate(id) {
    const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function select(slice) {
    for (const row of byId("loss-table").tBodies[0].rows) {
      row.hidden = slice !== null && row.dataset.slice !== slice;
    }
    showAll.hidden = slice === null;
  }

  function hasLosses(item) {
    return [...document.querySelectorAll("[data-slice]")].some((row) => row.dataset.slice === item);
  }

  function choose(item) {
    const known = hasLosses(item);
    select(known ? item : null);
    if (known) byId("losses-title").scrollIntoView({ behavior: "smooth" });
  }

  function ink() {
    return getComputedStyle(document.body).color;
  }

  async function draw() {
    const figure = JSON.parse(byId("tracelens-figure").textContent);
    const library = document.createElement("script");
    library.textContent = await inflate("tracelens-plotly");
    document.head.appendChild(library);
    figure.layout.font.color = ink();
    chart.hidden = false;
    await Plotly.newPlot(chart, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    plain.hidden = true;
    chart.on("plotly_click", (event) => choose(event.points[0].customdata[0]));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      Plotly.relayout(chart, { "font.color": ink() });
    });
  }

  for (const bar of plain.children) {
    if (!hasLosses(bar.dataset.item)) continue;
    bar.tabIndex = 0;
    bar.addEventListener("click", () => choose(bar.dataset.item));
    bar.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(bar.dataset.item); });
  }
  showAll.addEventListener("click", () => select(null));

  // The plain list holds the same figures: it stays where the chart is too wide for the screen, and
  // where DecompressionStream is missing.
  const wide = matchMedia("(min-width: 700px)");
  let drawn = null;
  function show() {
    if (wide.matches && drawn === null) drawn = draw();
    Promise.resolve(drawn).then(() => {
      chart.hidden = drawn === null || !wide.matches;
      plain.hidden = !chart.hidden;
      if (!chart.hidden) Plotly.Plots.resize(chart);
    }).catch(() => { chart.hidden = true; plain.hidden = false; });
  }
  wide.addEventListener("change", show);
  show();
})();
