// The open component drawn: two columns of nodes, and lines between them.

const canvas = byId("edges");
const lists = [byId("left-nodes"), byId("right-nodes")];
let drawn = [new Map(), new Map()]; // node -> its button
let lines = []; // pairs drawn, the most probable last
let centre = null; // what a part of a large component is drawn around

// The selected nodes, then their neighbours, and theirs, until there is no more room.
const neighbourhood = (seeds) => {
  const found = [new Set(), new Set()];
  seeds.forEach(([side, node]) => found[side].add(node));
  let ring = seeds;
  while (ring.length) {
    const next = ring.flatMap(([side, node]) => around[side].get(node)
      .filter((edge) => chances[edge] >= FAINT)
      .map((edge) => [1 - side, ends[1 - side][edge], chances[edge]]));
    ring = [];
    for (const [side, node] of next.sort((a, b) => b[2] - a[2])) {
      if (found[0].size + found[1].size >= NEAR) return found;
      if (found[side].has(node)) continue;
      found[side].add(node);
      ring.push([side, node]);
    }
  }
  return found;
};
// Nodes stand where their likely partners stand, so that lines cross little.
const arrange = (sets) => {
  const orders = sets.map((nodes) => [...nodes].sort((a, b) => a - b));
  const places = orders.map((order) => new Map(order.map((node, k) => [node, k])));
  for (let round = 0; round < 6; round++) {
    const side = 1 - (round % 2);
    const scale = orders[side].length / Math.max(1, orders[1 - side].length);
    const means = new Map(orders[side].map((node) => {
      let [sum, weight] = [1e-9 * places[side].get(node), 1e-9];
      for (const edge of around[side].get(node)) {
        const other = places[1 - side].get(ends[1 - side][edge]);
        if (other === undefined) continue;
        sum += chances[edge] * other * scale;
        weight += chances[edge];
      }
      return [node, sum / weight];
    }));
    orders[side].sort((a, b) => means.get(a) - means.get(b) || a - b);
    orders[side].forEach((node, k) => places[side].set(node, k));
  }
  return orders;
};
const isDrawn = (edge) => drawn[0].has(ends[0][edge]) && drawn[1].has(ends[1][edge]);
const seedsOf = (choice) => {
  if (choice.edge !== undefined) return [[0, ends[0][choice.edge]], [1, ends[1][choice.edge]]];
  return choice.node !== undefined ? [[choice.side, choice.node]] : null;
};
const moveDrawing = () => {
  const isLarge = starts[0][open + 1] - starts[0][open] + starts[1][open + 1] - starts[1][open] > DRAWN;
  const seeds = seedsOf(kept);
  const isThere = centre && (!isLarge || !seeds
    || (kept.edge !== undefined && seeds.every(([side, node]) => drawn[side].has(node))));
  if (isThere) return;
  centre = seeds ?? centre ?? seedsOf({ edge: leastCertain(open) });
  const hadFocus = document.activeElement?.matches(".sides button");
  const orders = arrange(isLarge ? neighbourhood(centre)
    : [0, 1].map((side) => new Set(range(starts[side][open], starts[side][open + 1]))));
  drawn = orders.map((order, side) => new Map(order.map((node) => [node, nodeButton(side, node)])));
  lists.forEach((list, side) => list.replaceChildren(...[...drawn[side].values()].map((button) => make("li", {}, button))));
  const nodes = drawn[0].size + drawn[1].size;
  const there = edgesOf(open).filter(isDrawn).sort((a, b) => chances[b] - chances[a]);
  lines = there.filter((edge, k) => decisions[edge] || (k < LINES && chances[edge] >= FAINT)).reverse();
  const faint = there.length - lines.length;
  const words = isLarge ? [`The ${nodes} ${data.node}s nearest to what is selected, of ${(totals[0][open] + totals[1][open]).toLocaleString("en")}. Select another ${data.node} or pair to move there.`] : [];
  words.push("Thicker, darker lines are more probable pairs.");
  if (faint) words.push(`${count(faint, "less probable pair")} ${faint === 1 ? "is" : "are"} not drawn.`);
  byId("drawn").textContent = words.join(" ");
  if (hadFocus && kept.node !== undefined) drawn[kept.side].get(kept.node).focus();
};
const nodeButton = (side, node) => {
  const button = make("button", { type: "button", tabindex: -1, "aria-pressed": "false" }, named(names[side][node]));
  if (mayBeAlone(side, node)) {
    const bar = make("span", { class: "alone", "aria-hidden": "true" });
    bar.style.width = `${100 * alone[side][node]}%`;
    button.append(make("small", {}, `no partner ${percent(alone[side][node]).replace(/ /g, "\u00a0")}`));
    if (alone[side][node] > 0) button.append(bar);
  }
  Object.assign(button.dataset, { side, node });
  return button;
};
const markNodes = () => {
  const seeds = seedsOf(shown) ?? [];
  drawn.forEach((nodes, side) => {
    let hasStop = false;
    nodes.forEach((button, node) => {
      const isOn = seeds.some(([s, n]) => s === side && n === node);
      button.setAttribute("aria-pressed", String(isOn));
      button.tabIndex = isOn && !hasStop ? 0 : -1;
      hasStop ||= isOn;
    });
    const [first] = nodes.values();
    if (first && !hasStop) first.tabIndex = 0;
  });
};

const yOf = (side, node) => {
  const item = drawn[side].get(node).parentElement;
  return item.offsetTop + item.offsetHeight / 2;
};
const STYLES = () => [
  [theme.other, []], [theme.blue, []], [theme.green, [8, 3, 2, 3]], [theme.vermilion, [7, 4]], [theme.green, [2, 3]],
];
const drawEdges = () => {
  if (open < 0) return;
  const [pen, width] = prepare(canvas, byId("drawing").clientHeight);
  const links = shown.matching === undefined ? null : matchingOf(shown.matching);
  const stroke = (edge) => {
    pen.beginPath();
    pen.moveTo(0, yOf(0, ends[0][edge]));
    pen.lineTo(width, yOf(1, ends[1][edge]));
    pen.stroke();
  };
  const styles = STYLES();
  for (const edge of lines) {
    const kind = decisions[edge];
    [pen.strokeStyle] = styles[kind];
    pen.setLineDash(styles[kind][1]);
    pen.globalAlpha = (kind ? 0.5 + 0.5 * chances[edge] : 0.25 + 0.75 * chances[edge]) * (links ? 0.35 : 1);
    pen.lineWidth = 0.8 + 4 * chances[edge];
    stroke(edge);
  }
  pen.globalAlpha = 1;
  pen.setLineDash([]);
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 3;
  const marked = links ? [...links] : [shown.edge].filter((edge) => edge !== undefined);
  marked.filter(isDrawn).forEach(stroke);
};
const edgeAt = (x, y) => {
  const width = canvas.clientWidth;
  let [found, least] = [null, 8];
  for (const edge of lines) {
    const [y0, y1] = [yOf(0, ends[0][edge]), yOf(1, ends[1][edge])];
    const away = Math.abs(y0 + (x / width) * (y1 - y0) - y) / Math.hypot(1, (y1 - y0) / width);
    if (away < least) [found, least] = [edge, away];
  }
  return found;
};


// ---- the pointer and the keyboard on it

const onNodes = () => {
  const drawing = byId("drawing");
  const chosen = (button) => ({ side: Number(button.dataset.side), node: Number(button.dataset.node) });
  drawing.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) show(chosen(button), true);
  });
  drawing.addEventListener("keydown", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const own = lists.map((list) => [...list.querySelectorAll("button")]);
    const side = Number(button.dataset.side);
    const here = own[side].indexOf(button);
    const last = own[side].length - 1;
    const across = (to) => (side === to ? own[1 - to][Math.min(here, own[1 - to].length - 1)] : undefined);
    const next = {
      ArrowDown: own[side][Math.min(last, here + 1)], ArrowUp: own[side][Math.max(0, here - 1)],
      Home: own[side][0], End: own[side][last], ArrowRight: across(0), ArrowLeft: across(1),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    next.focus();
    show(chosen(next), false);
  });
  // A drawing that moves under the pointer is not pointed at until the pointer moves.
  drawing.addEventListener("pointermove", (event) => {
    const button = event.target.closest("button");
    if (!button || event.pointerType === "touch") return;
    const choice = chosen(button);
    if (choice.side !== shown.side || choice.node !== shown.node) show(choice, false);
  });
  drawing.addEventListener("pointerleave", () => show(null, false));
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const edge = edgeAt(...where(event));
    if (edge !== (shown.edge ?? null)) show(edge === null ? null : { edge }, false);
  });
  canvas.addEventListener("click", (event) => {
    const edge = edgeAt(...where(event));
    if (edge !== null) show({ edge }, true);
  });
};
