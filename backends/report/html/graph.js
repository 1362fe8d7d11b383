// SPDX-License-Identifier: Apache-2.0
// The graph: ends as nodes and pairs with a region as arrows, drawn by Cytoscape.js.
"use strict";

const MOST_NODES = 120;
const MOST_ARROWS = 400;
/** Arrows differ by head and line as well as by colour. */
const HEADS = {
  latent: "circle", allowed: "triangle", changed: "diamond", closed: "tee", opened: "triangle", undecided: "vee",
};
const DASHES = { latent: "dotted", undecided: "dashed" };

class Graph {
  constructor(root, data, onOpen) {
    this.data = data;
    this.onOpen = onOpen;
    this.said = make("p", { class: "under" });
    this.box = make("div", { class: "network", role: "img" });
    const buttons = make("div", { class: "toolbar" },
      this.button("Zoom in", () => this.zoom(1.3)),
      this.button("Zoom out", () => this.zoom(1 / 1.3)),
      this.button("Fit", () => this.view && this.view.fit(undefined, 30)));
    root.append(buttons, this.box, this.said);
  }

  button(name, onClick) {
    const made = make("button", { type: "button" }, name);
    made.addEventListener("click", onClick);
    return made;
  }

  zoom(by) {
    if (!this.view) return;
    const middle = { x: this.box.clientWidth / 2, y: this.box.clientHeight / 2 };
    this.view.zoom({ level: this.view.zoom() * by, renderedPosition: middle });
  }

  /** Draw these ends and states, if they are few enough to be read. */
  show(sources, destinations, shown) {
    this.given = [sources, destinations, shown];
    if (this.view) this.view.destroy();
    this.view = null;
    const pairs = this.data.pairs(shown, sources, destinations, MOST_ARROWS + 1);
    const nodes = [...new Set(pairs.flatMap(([src, dst]) => [src, dst]))];
    const isMany = pairs.length > MOST_ARROWS || nodes.length > MOST_NODES;
    this.said.textContent = isMany
      ? `Too many pairs for a graph: filter to at most ${MOST_NODES} ends and ${MOST_ARROWS} pairs.`
      : `${nodes.length} ends, ${pairs.length} pairs. Click an arrow for its details.`;
    this.box.hidden = isMany;
    this.box.setAttribute("aria-label",
      `Graph of ${nodes.length} ends and ${pairs.length} pairs. The matrix has the same content for the keyboard.`);
    if (!isMany && pairs.length) this.draw(nodes, pairs);
  }

  redraw() {
    if (this.given) this.show(...this.given);
  }

  draw(nodes, pairs) {
    const elements = nodes.map((at) => ({ data: { id: `end-${at}`, label: this.data.ends[at].name } }));
    for (const [src, dst, states] of pairs) {
      const state = states[states.length - 1];
      const data = { id: `pair-${src}-${dst}`, source: `end-${src}`, target: `end-${dst}`, src, dst };
      elements.push({ data: { ...data, line: colour(`${state}-fill`), head: HEADS[state], dash: DASHES[state] || "solid" } });
    }
    this.view = cytoscape({
      container: this.box, elements, style: this.style(), userZoomingEnabled: false,
      layout: this.layout(nodes), autoungrabify: false,
    });
    this.view.on("tap", "edge", (event) => {
      this.onOpen(event.target.data("src"), event.target.data("dst"), this.box);
    });
  }

  /** Few ends are on a circle, so that no arrow hides a name; of many, those with most pairs are inside. */
  layout(nodes) {
    const base = { animate: false, fit: true, padding: 40, avoidOverlap: true };
    if (nodes.length > 40) return { ...base, name: "concentric", minNodeSpacing: 40, concentric: (node) => node.degree() };
    return { ...base, name: "circle", spacingFactor: 1.2 };
  }

  style() {
    const font = { color: colour("text"), "font-size": 12, "font-family": "system-ui, sans-serif" };
    return [
      { selector: "node", style: {
        ...font, label: "data(label)", "text-wrap": "ellipsis", "text-max-width": 170, "text-valign": "bottom",
        "text-margin-y": 4, width: 16, height: 16, "background-color": colour("latent"),
        "text-background-color": colour("page"), "text-background-opacity": 0.8,
      } },
      { selector: "edge", style: {
        width: 2, "curve-style": "bezier", "line-color": "data(line)", "target-arrow-color": "data(line)",
        "target-arrow-shape": "data(head)", "line-style": "data(dash)", "loop-direction": "-45deg",
      } },
      { selector: "edge:active", style: { width: 4 } },
    ];
  }
}
