// SPDX-License-Identifier: Apache-2.0
// The matrix: sources by destinations on a canvas that draws only what is visible. A grid of one cell
// is over it, for the keyboard and for screen readers.
"use strict";

const SIZES = [2, 3, 4, 6, 8, 11, 14, 18, 24, 32];
const LABEL_FONT = "system-ui, sans-serif";
const MOST_ROW_LABEL = 330;
const MOST_COLUMN_LABEL = 210;
const LABELLED = 11; // the size of a cell from which on labels and signs fit

class Matrix {
  constructor(root, data, onOpen) {
    this.data = data;
    this.onOpen = onOpen;
    this.rows = this.columns = [];
    this.shown = new Set(data.present);
    this.active = [0, 0];
    this.build(root);
    const all = data.ends.map((_, at) => at);
    this.filter(all, all, this.shown);
    new ResizeObserver(() => this.layOut()).observe(this.scroller);
  }

  build(root) {
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.cell = make("div", { role: "gridcell", id: "matrix-cell" });
    this.head = make("div", { role: "rowheader" });
    this.row = make("div", { role: "row", class: "unseen" }, this.head, this.cell);
    this.grid = make("div", {
      role: "grid", tabindex: "0", "aria-activedescendant": "matrix-cell",
      "aria-label": "Matrix of sources (rows) and destinations (columns). Arrow keys move, Enter shows details.",
    }, this.row);
    this.stage = make("div", { class: "stage" }, this.canvas, this.grid);
    this.extent = make("div", {}, this.stage);
    this.scroller = make("div", { class: "scroller" }, this.extent);
    this.under = make("p", { class: "under" });
    root.append(this.scroller, this.under);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    this.grid.addEventListener("focus", () => this.move(...this.active));
    this.grid.addEventListener("mousemove", (event) => this.onHover(event));
    this.grid.addEventListener("click", (event) => this.onClick(event));
  }

  /** The room for the longest label of rows and columns, within limits and the width of the page. */
  measure() {
    const context = this.canvas.getContext("2d");
    context.font = `12px ${LABEL_FONT}`;
    const longest = (ends) =>
      ends.reduce((most, at) => Math.max(most, context.measureText(this.data.ends[at].name).width), 90);
    this.left = Math.min(longest(this.rows) + 18, MOST_ROW_LABEL, 0.45 * (this.scroller.clientWidth || 1000));
    this.top = Math.min(longest(this.columns) + 18, MOST_COLUMN_LABEL);
  }

  /** The largest size, up to 24, at which all columns are visible. */
  fitting() {
    const room = (this.scroller.clientWidth || 1000) - this.left;
    const fits = SIZES.filter((size) => size <= 24 && size * this.columns.length <= room);
    return fits.length ? fits[fits.length - 1] : SIZES[0];
  }

  /** Show only these ends and states. */
  filter(sources, destinations, shown) {
    this.rows = this.data.along("from", sources);
    this.columns = this.data.along("to", destinations);
    this.shown = shown;
    this.measure();
    this.size = this.fitting();
    this.layOut();
    this.move(0, 0, false);
  }

  zoom(by) {
    const at = Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(this.size) + by));
    this.size = SIZES[at];
    this.layOut();
    this.reveal();
  }

  layOut() {
    const width = this.left + this.size * this.columns.length;
    const height = this.top + this.size * this.rows.length;
    this.extent.style.width = `${width + 4}px`;
    this.extent.style.height = `${height + 4}px`;
    this.stage.style.width = `${Math.min(width + 4, this.scroller.clientWidth)}px`;
    this.stage.style.height = `${Math.min(height + 4, this.scroller.clientHeight)}px`;
    this.draw();
  }

  draw() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.paint();
    });
  }

  /** The first and the last row or column that is visible. */
  range(scrolled, room, length) {
    const first = Math.floor(scrolled / this.size);
    return [first, Math.min(length - 1, first + Math.ceil(room / this.size))];
  }

  paint() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    this.colours = Object.fromEntries(STATES.map((name) => [name, colour(`${name}-fill`)]));
    for (const name of ["page", "raised", "text", "line", "link"]) this.colours[name] = colour(name);
    context.fillStyle = this.colours.page;
    context.fillRect(0, 0, width, height);
    const rows = this.range(this.scroller.scrollTop, height - this.top, this.rows.length);
    const columns = this.range(this.scroller.scrollLeft, width - this.left, this.columns.length);
    this.paintCells(context, rows, columns, [width, height]);
    this.paintLabels(context, rows, columns);
  }

  x(column) {
    return this.left + column * this.size - this.scroller.scrollLeft;
  }

  y(row) {
    return this.top + row * this.size - this.scroller.scrollTop;
  }

  paintCells(context, [top, bottom], [left, right], [width, height]) {
    context.save();
    context.beginPath();
    context.rect(this.left, this.top, width, height);
    context.clip();
    const gap = this.size > 5 ? 1 : 0;
    if (!gap) {
      context.fillStyle = this.colours.raised;
      const [x, y] = [this.x(0), this.y(0)];
      context.fillRect(x, y, this.columns.length * this.size, this.rows.length * this.size);
    }
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) this.paintCell(context, row, column, gap);
    }
    const [row, column] = this.active;
    context.strokeStyle = this.colours.link;
    context.lineWidth = 2;
    context.strokeRect(this.x(column), this.y(row), this.size, this.size);
    context.restore();
  }

  paintCell(context, row, column, gap) {
    const states = this.data.at(this.rows[row], this.columns[column], this.shown);
    if (!states.length && !gap) return;
    const [x, y, side] = [this.x(column), this.y(row), this.size - gap];
    const last = states[states.length - 1];
    context.fillStyle = last ? this.colours[last] : this.colours.raised;
    context.fillRect(x, y, side, side);
    if (states.length > 1) this.paintSecond(context, states[states.length - 2], x, y, side);
    if (last && this.size >= LABELLED) this.paintSign(context, states, x, y);
  }

  /** The lower half of a cell in the colour of its second state, along the diagonal. */
  paintSecond(context, state, x, y, side) {
    context.fillStyle = this.colours[state];
    context.beginPath();
    context.moveTo(x + side, y);
    context.lineTo(x + side, y + side);
    context.lineTo(x, y + side);
    context.fill();
  }

  paintSign(context, states, x, y) {
    const isMixed = states.length > 1 && !states.includes("undecided");
    const sign = isMixed ? "±" : this.data.signs[states[states.length - 1]];
    context.fillStyle = this.colours.page;
    context.font = `bold ${Math.min(16, this.size - 2)}px ${LABEL_FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(sign, x + this.size / 2, y + this.size / 2);
  }

  paintLabels(context, [top, bottom], [left, right]) {
    context.fillStyle = this.colours.text;
    context.textBaseline = "middle";
    context.font = `12px ${LABEL_FONT}`;
    context.textAlign = "left";
    context.fillText("from ↓   to →", 8, this.top - 12);
    if (this.size < LABELLED) return;
    context.font = `${Math.min(12, this.size)}px ${LABEL_FONT}`;
    this.clipped(context, 0, this.top, this.left, 1e5, () => {
      for (let row = top; row <= bottom; row++) {
        const name = this.cut(context, this.data.ends[this.rows[row]].name, this.left - 14);
        context.fillText(name, 8, this.y(row) + this.size / 2);
      }
    });
    this.clipped(context, this.left, 0, 1e5, this.top, () => {
      for (let column = left; column <= right; column++) {
        const name = this.cut(context, this.data.ends[this.columns[column]].name, this.top - 12);
        context.save();
        context.translate(this.x(column) + this.size / 2, this.top - 6);
        context.rotate(-Math.PI / 2);
        context.fillText(name, 0, 0);
        context.restore();
      }
    });
  }

  clipped(context, x, y, width, height, paint) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    paint();
    context.restore();
  }

  /** A name that fits; the middle of a longer one is left out, as its end tells it from others. */
  cut(context, name, room) {
    if (context.measureText(name).width <= room) return name;
    let half = Math.floor(name.length / 2);
    const short = () => `${name.slice(0, half)}…${name.slice(name.length - half)}`;
    while (half > 1 && context.measureText(short()).width > room) half--;
    return short();
  }

  cellOf(event) {
    const box = this.stage.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left + this.scroller.scrollLeft) / this.size);
    const row = Math.floor((event.clientY - box.top - this.top + this.scroller.scrollTop) / this.size);
    const isIn = event.clientX - box.left >= this.left && event.clientY - box.top >= this.top;
    return isIn && row < this.rows.length && column < this.columns.length ? [row, column] : null;
  }

  onHover(event) {
    const found = this.cellOf(event);
    this.under.textContent = found ? this.words(...found) : "";
  }

  onClick(event) {
    const found = this.cellOf(event);
    if (!found) return;
    this.move(...found);
    this.open();
  }

  open() {
    if (!this.rows.length || !this.columns.length) return;
    this.onOpen(this.rows[this.active[0]], this.columns[this.active[1]], this.grid);
  }

  words(row, column) {
    const [src, dst] = [this.rows[row], this.columns[column]];
    const [from, to] = [this.data.ends[src].name, this.data.ends[dst].name];
    return `from ${from} to ${to}: ${this.data.words(src, dst, this.shown)}`;
  }

  /** Make a cell the active one, inside the matrix. */
  move(row, column, isSeen = true) {
    this.grid.setAttribute("aria-rowcount", this.rows.length);
    this.grid.setAttribute("aria-colcount", this.columns.length);
    if (!this.rows.length || !this.columns.length) {
      this.cell.textContent = this.under.textContent = "no end matches the filter";
      this.draw();
      return;
    }
    const inside = (at, length) => Math.max(0, Math.min(length - 1, at));
    this.active = [inside(row, this.rows.length), inside(column, this.columns.length)];
    this.row.setAttribute("aria-rowindex", this.active[0] + 1);
    this.cell.setAttribute("aria-colindex", this.active[1] + 1);
    this.head.textContent = this.data.ends[this.rows[this.active[0]]].name;
    this.cell.textContent = this.words(...this.active);
    if (isSeen) {
      this.under.textContent = this.words(...this.active);
      this.reveal();
    }
    this.draw();
  }

  /** Scroll so that the active cell is visible. */
  reveal() {
    const [row, column] = this.active;
    const within = (scrolled, at, room) =>
      Math.min(at * this.size, Math.max(scrolled, (at + 1) * this.size - room));
    const { scrollTop, scrollLeft } = this.scroller;
    this.scroller.scrollTop = within(scrollTop, row, this.stage.clientHeight - this.top);
    this.scroller.scrollLeft = within(scrollLeft, column, this.stage.clientWidth - this.left);
  }

  onKey(event) {
    const [row, column] = this.active;
    const [lastRow, lastColumn] = [this.rows.length - 1, this.columns.length - 1];
    const isFar = event.ctrlKey;
    const moves = {
      ArrowUp: [isFar ? 0 : row - 1, column], ArrowDown: [isFar ? lastRow : row + 1, column],
      ArrowLeft: [row, isFar ? 0 : column - 1], ArrowRight: [row, isFar ? lastColumn : column + 1],
      Home: [isFar ? 0 : row, 0], End: [isFar ? lastRow : row, lastColumn],
      PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    const acts = {
      Enter: () => this.open(), " ": () => this.open(), "+": () => this.zoom(1), "-": () => this.zoom(-1),
    };
    const act = moves[event.key] ? () => this.move(...moves[event.key]) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
