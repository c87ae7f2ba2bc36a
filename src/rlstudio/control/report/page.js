// The value below the pointer, in every chart; and whatever is folded comes along to the printer.
const tip = document.getElementById("tip");
for (const chart of document.querySelectorAll("svg.chart[data-lines]")) {
  const lines = JSON.parse(chart.dataset.lines), cursor = chart.querySelector(".cursor");
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect(), scale = chart.viewBox.baseVal.width / box.width;
    const at = (event.clientX - box.left) * scale;
    let nearest = null;
    const rows = lines.map((line) => {
      let best = 0;
      for (let i = 1; i < line.px.length; i++) if (Math.abs(line.px[i] - at) < Math.abs(line.px[best] - at)) best = i;
      if (nearest === null || Math.abs(line.px[best] - at) < Math.abs(nearest.px - at)) nearest = { px: line.px[best], x: line.x[best] };
      return [line, best];
    });
    cursor.setAttribute("x1", nearest.px);
    cursor.setAttribute("x2", nearest.px);
    cursor.style.opacity = 1;
    tip.replaceChildren();
    const head = tip.appendChild(document.createElement("b"));
    head.textContent = nearest.x.toLocaleString("en-US");
    for (const [line, best] of rows) {
      const row = tip.appendChild(document.createElement("div"));
      row.className = "s" + line.s;
      row.appendChild(document.createElement("i"));
      row.append((lines.length > 1 ? line.label + "  " : "") + line.y[best].toLocaleString("en-US"));
    }
    tip.style.opacity = 1;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.max(event.clientY - tip.offsetHeight - 10, 8) + "px";
  });
  chart.addEventListener("pointerleave", () => { tip.style.opacity = 0; cursor.style.opacity = 0; });
}
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.screen)").forEach((each) => { each.open = true; }));
