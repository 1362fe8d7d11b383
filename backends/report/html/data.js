// SPDX-License-Identifier: Apache-2.0
// The data of the page: ends, regions between them, and what each cell of the matrix holds.
"use strict";

/** What a cell may hold, each a bit. The last of those that a cell holds gives its colour. */
const STATES = ["latent", "allowed", "changed", "closed", "opened", "undecided"];

class Data {
  constructor(given) {
    this.ends = given.ends || [];
    this.regions = given.regions || [];
    this.unlisted = given.unlisted;
    this.overlap = given.overlap;
    this.signs = { undecided: "?", ...given.signs };
    this.n = this.ends.length;
    this.cells = new Uint8Array(this.n * this.n);
    for (const region of this.regions) this.fill(region);
    const found = this.cells.reduce((all, bits) => all | bits, 0);
    this.present = STATES.filter((_, at) => found & (1 << at));
  }

  fill(region) {
    const bit = 1 << STATES.indexOf(Data.stateOf(region));
    for (const src of region.from) {
      for (const dst of region.to) this.cells[src * this.n + dst] |= bit;
    }
  }

  static stateOf(region) {
    return region.certain ? region.state : "undecided";
  }

  /** The states of a cell among those that are shown (a set of names). */
  at(src, dst, shown) {
    const bits = this.cells[src * this.n + dst];
    return STATES.filter((name, at) => bits & (1 << at) && shown.has(name));
  }

  /** A cell in words, also if it holds nothing. */
  words(src, dst, shown) {
    const states = this.at(src, dst, shown).map((name) => (name === "undecided" ? "not decided" : name));
    return states.reverse().join(" and ") || this.empty(src, dst);
  }

  empty(src, dst) {
    const isOne = src === dst && this.ends[src].n === 1 && this.ends[src].kind === "cluster";
    return isOne && this.unlisted === "not allowed" ? "itself" : this.unlisted;
  }

  /** The numbers of the regions that a cell is part of. */
  regionsAt(src, dst) {
    return this.regions.flatMap((region, at) =>
      region.from.includes(src) && region.to.includes(dst) ? [at] : []);
  }

  /** The ends for rows ("from") or columns ("to"). Ends that overlap are only where they have regions. */
  along(side, ends) {
    if (!this.overlap) return ends;
    const has = new Set(this.regions.flatMap((region) => region[side]));
    return ends.filter((end) => has.has(end));
  }

  /** The numbers of the ends with a text in their name or members; all for no text. */
  matching(text) {
    const wanted = text.trim().toLowerCase();
    const has = (end) => [end.name, ...end.members].some((name) => name.toLowerCase().includes(wanted));
    return this.ends.flatMap((end, at) => (!wanted || has(end) ? [at] : []));
  }

  /** The pairs of ends with a region, at most `most`: [source, destination, states]. */
  pairs(shown, sources, destinations, most) {
    const found = [];
    for (const src of sources) {
      for (const dst of destinations) {
        const states = this.cells[src * this.n + dst] ? this.at(src, dst, shown) : [];
        if (states.length) found.push([src, dst, states]);
        if (found.length >= most) return found;
      }
    }
    return found;
  }
}

/** An element with attributes and children; strings are text, never markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The colour that a CSS variable of the page has in the theme that is shown. */
function colour(variable) {
  const probe = make("span");
  probe.style.color = `var(--${variable})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
