// Draw every chart; what went wrong is written into the page, where people and tests find it.
(async () => {
  const root = document.documentElement;
  const failures = [];
  window.addEventListener("error", (event) => failures.push(String(event.message)));
  const figures = [...document.querySelectorAll("figure")];
  const views = [];
  for (const figure of figures) {
    const place = figure.querySelector(".chart");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    try {
      // ast: expressions are interpreted, so that the page needs no right to evaluate code.
      const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };
      const { view } = await vegaEmbed(place, spec, options);
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", spec.description || "chart");
      views.push({ view, columns: figure.parentElement.className });
    } catch (error) {
      failures.push(String(error));
      place.textContent = "This chart could not be drawn: " + error;
    }
  }
  // On paper a chart is drawn for the width it gets there; scaled down, its type would be too small.
  const onPaper = { "charts one": 710, "charts two": 345, "charts many": 170 };
  const folded = [...document.querySelectorAll("details")];
  for (const part of folded)  // a hidden chart has no width to fill
    part.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")));
  window.addEventListener("beforeprint", () => {
    for (const part of folded) part.open = true;
    for (const { view, columns } of views) view.width(onPaper[columns]).run();
  });
  window.addEventListener("afterprint", () => window.dispatchEvent(new Event("resize")));
  root.dataset.charts = views.length + " of " + figures.length;
  root.dataset.failures = JSON.stringify(failures);
})();
