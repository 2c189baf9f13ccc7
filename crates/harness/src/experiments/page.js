"use strict";
for (const place of document.querySelectorAll("div.plot")) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  vegaEmbed(place, spec, { actions: false, renderer: "svg", mode: "vega-lite" }).catch((error) => {
    place.textContent = "this plot cannot be drawn: " + error.message;
  });
}
