// Draw every chart; what went wrong is written into the page, where people and tests find it.
(async () => {
  const root = document.documentElement;
  const failures = [];
  window.addEventListener("error", (event) => failures.push(String(event.message)));
  const figures = [...document.querySelectorAll("figure")];
  let drawn = 0;
  for (const figure of figures) {
    const place = figure.querySelector(".chart");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    try {
      await vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: false });
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", spec.description || "chart");
      drawn += 1;
    } catch (error) {
      failures.push(String(error));
      place.textContent = "This chart could not be drawn: " + error;
    }
  }
  root.dataset.charts = drawn + " of " + figures.length;
  root.dataset.failures = JSON.stringify(failures);
})();
