// A point that is clicked names its frame and a filter for Wireshark, below its picture, to be copied.
"use strict";
(() => {
  document.addEventListener("drawn", (event) => {
    const plot = event.target, view = event.detail;
    const place = document.createElement("div");
    place.className = "picked";
    place.setAttribute("role", "status");
    plot.after(place);
    view.addEventListener("click", (_, item) => {
      const told = item && item.datum && item.datum.filter;
      if (!told) return;
      const box = document.createElement("div"), pre = document.createElement("pre"), button = document.createElement("button");
      box.className = "copyable";
      pre.append(Object.assign(document.createElement("code"), { textContent: told }));
      Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
      button.dataset.copy = told;
      button.setAttribute("aria-label", "Copy the filter of this point");
      box.append(pre, button);
      place.replaceChildren(box);
    });
  });
})();
