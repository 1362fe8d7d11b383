// SPDX-License-Identifier: Apache-2.0
// The page: filter, details, theme. Details are copies of what the page's tables and excerpts show.
"use strict";

(() => {
  const data = new Data(JSON.parse(document.getElementById("data").textContent));
  const details = document.getElementById("details");
  const shown = new Set(data.present);
  let opener = null;

  function copyOf(element) {
    const copy = element.cloneNode(true);
    copy.removeAttribute("id");
    for (const each of copy.querySelectorAll("[id], button")) {
      if (each.localName === "button") each.remove();
      else each.removeAttribute("id");
    }
    return copy;
  }

  /** The excerpts of the rules that an element of the page links to. */
  function excerptsIn(element) {
    return [...element.querySelectorAll("a.rule")].map((link) => copyOf(document.querySelector(link.hash)));
  }

  /** The cells of a row with the heads of their columns, and the excerpts of the rules in them. */
  function described(row) {
    const heads = [...row.closest("table").querySelectorAll("thead th")];
    const list = make("dl");
    [...row.cells].forEach((cell, at) => {
      const content = make("dd", {}, ...[...cell.childNodes].filter((node) => node.localName !== "button")
        .map((node) => node.cloneNode(true)), ...excerptsIn(cell));
      list.append(make("dt", {}, heads[at].textContent), content);
    });
    return list;
  }

  function members(name, end) {
    const box = make("details", {}, make("summary", {}, `${name}: ${end.name}`));
    const rest = end.n - end.members.length;
    const list = make("ul", {}, ...end.members.map((each) => make("li", {}, each)));
    if (rest > 0) list.append(make("li", {}, `and ${rest} more`));
    box.append(end.members.length ? list : make("p", {}, "No member is named."));
    return box;
  }

  function isolation(end, direction) {
    const row = document.getElementById(`exposure-${end}-${direction}`);
    return row ? [make("article", {}, described(row))] : [];
  }

  function open(title, parts, from) {
    opener = from;
    const close = make("button", { type: "button", class: "close" }, "Close");
    close.addEventListener("click", shut);
    details.replaceChildren(close, make("h2", {}, title), ...parts);
    details.hidden = false;
    document.body.classList.add("aside");
    details.scrollTop = 0;
    details.focus();
  }

  function shut() {
    details.hidden = true;
    document.body.classList.remove("aside");
    if (opener) opener.focus();
  }

  function proof() {
    const said = document.getElementById("proof");
    return make("p", { class: "faint" }, `Proof of the whole answer: ${said ? said.textContent : "none"}`);
  }

  function openCell(src, dst, from) {
    const [a, b] = [data.ends[src], data.ends[dst]];
    const regions = data.regionsAt(src, dst)
      .map((at) => make("article", {}, described(document.getElementById(`region-${at}`))));
    open(`From ${a.name} to ${b.name}: ${data.words(src, dst, new Set(STATES))}`, [
      members("From", a), members("To", b), ...regions,
      ...isolation(src, "egress"), ...isolation(dst, "ingress"), proof(),
    ], from);
  }

  function addDetailButtons() {
    for (const row of document.querySelectorAll("#regions tbody tr")) {
      const button = make("button", { type: "button", class: "details" }, "Details");
      const [, from, to] = row.cells;
      button.setAttribute("aria-label", `Details of ${from.textContent} to ${to.textContent}`);
      button.addEventListener("click", () =>
        open(`From ${from.textContent} to ${to.textContent}`, [described(row), proof()], button));
      row.cells[0].append(make("br"), button);
    }
  }

  function filterRows(sources, destinations) {
    const [from, to] = [new Set(sources), new Set(destinations)];
    data.regions.forEach((region, at) => {
      const isIn = region.from.some((end) => from.has(end)) && region.to.some((end) => to.has(end));
      document.getElementById(`region-${at}`).hidden = !(isIn && shown.has(Data.stateOf(region)));
    });
  }

  function drawings() {
    const [forMatrix, forGraph] = ["matrix-view", "graph-view"].map((id) => document.getElementById(id));
    if (!forMatrix) return;
    const [from, to] = ["filter-from", "filter-to"].map((id) => make("input", { type: "search", id }));
    const toolbar = make("div", { class: "toolbar" },
      make("label", {}, "Filter from", from), make("label", {}, "to", to));
    forMatrix.append(toolbar);
    const matrix = new Matrix(forMatrix, data, openCell);
    const graph = new Graph(forGraph, data, openCell);
    const update = () => {
      const ends = [data.matching(from.value), data.matching(to.value)];
      matrix.filter(...ends, shown);
      graph.show(...ends, shown);
      filterRows(...ends);
    };
    for (const box of [from, to]) box.addEventListener("input", update);
    for (const name of data.present) toolbar.append(stateBox(name, update));
    for (const [name, by] of [["Zoom out", -1], ["Zoom in", 1]]) {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => matrix.zoom(by));
      toolbar.append(button);
    }
    forMatrix.append(legend());
    new MutationObserver(() => { matrix.draw(); graph.redraw(); })
      .observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { matrix.draw(); graph.redraw(); });
    update();
  }

  function stateBox(name, update) {
    const box = make("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => {
      if (box.checked) shown.add(name);
      else shown.delete(name);
      update();
    });
    const badge = make("span", { class: `badge ${name}` }, `${data.signs[name]} ${name}`);
    return make("label", {}, box, badge);
  }

  function legend() {
    const said = [`An empty cell: ${data.unlisted}. A cell of two colours has regions of several kinds.`];
    if (data.overlap) said.push("Ends are described by conditions, and may overlap.");
    return make("p", { class: "faint" }, said.join(" "));
  }

  function themeButton() {
    const root = document.documentElement;
    const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const button = make("button", { type: "button", class: "theme" }, "Light or dark");
    button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; });
    document.querySelector("header").append(button);
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !details.hidden) shut();
  });
  themeButton();
  addDetailButtons();
  drawings();
})();
