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
    chart.on("plotly_click", (event) => {
      const item = event.points[0].customdata[0];
      const known = [...document.querySelectorAll("[data-slice]")].some((row) => row.dataset.slice === item);
      select(known ? item : null);
      if (known) byId("losses-title").scrollIntoView({ behavior: "smooth" });
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      Plotly.relayout(chart, { "font.color": ink() });
    });
  }

  showAll.addEventListener("click", () => select(null));
  // Without DecompressionStream the plain list stays: it holds the same figures.
  draw().catch(() => { chart.hidden = true; plain.hidden = false; });
})();
