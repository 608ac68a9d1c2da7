// One graph: edges by probability, two matchings, marginals, the best matchings.
const { left, right } = data;
const size = left.length;
const d = data.features.length;
const coef = unpack(data.coef);
const chances = unpack(data.chances);
const errors = data.errors && unpack(data.errors);
const scores = unpack(data.scores);
const values = unpack(data.values);
const places = data.kept && new Map(Array.from(unpack(data.kept), (edge, k) => [edge, k]));
const DRAWN = 5000; // most lines: with more there is nothing to be seen
const LISTED = 200; // most rows of the table, as in match_explorer.py

// Edges of any probability, the most probable first; a threshold is then a number of them.
const ranked = Uint32Array.from({ length: size * size }, (_, edge) => edge)
  .filter((edge) => chances[edge] > 0)
  .sort((a, b) => chances[b] - chances[a] || a - b);
const kinds = new Uint8Array(size * size); // 1 mode, 2 Bayes, 4 labelled
data.mode.forEach((j, i) => { kinds[i * size + j] |= 1; });
data.bayes.forEach((j, i) => { kinds[i * size + j] |= 2; });
data.truth?.forEach((j, i) => { kinds[i * size + j] |= 4; });
const pairName = (edge) => [named(left[Math.floor(edge / size)]), " – ", named(right[edge % size])];
const kindWords = (edge) => {
  const words = [];
  if (kinds[edge] & 1) words.push("mode");
  if (kinds[edge] & 2) words.push("Bayes");
  if (kinds[edge] & 4) words.push("labelled");
  return words.join(", ");
};

// ---- what is pointed at: an edge and perhaps a whole matching; a click or the focus stays

let kept = { edge: null, matching: null };
let shown = kept;
const show = (choice, isKept) => {
  shown = choice ?? kept;
  if (isKept) kept = shown;
  markEdges();
  markHeat();
  describe();
  if (isKept && shown.edge !== null) {
    byId("left").value = Math.floor(shown.edge / size);
    byId("right").value = shown.edge % size;
  }
};
const showEdge = (edge, isKept) => show(edge === null ? null : { edge, matching: null }, isKept);

const describe = () => {
  const { edge, matching } = shown;
  if (edge !== null) return describeEdge(edge);
  if (matching === null) return;
  const others = data.best[matching].flatMap((j, i) => (j === data.best[0][i] ? [] : [i * size + j]));
  const list = make("ul", {}, ...others.slice(0, 50).map((other) =>
    make("li", {}, ...pairName(other), `: ${percent(chances[other])}`)));
  tell([others.length
    ? `Matching ${matching + 1} differs from the mode in ${count(others.length, "edge")} of ${size}:`
    : `Matching ${matching + 1} is the mode.`], list);
};

const describeEdge = (edge) => {
  const chance = percent(chances[edge]);
  const spread = errors && errors[edge] ? ` ± ${percent(errors[edge])}` : "";
  const words = [make("strong", {}, ...pairName(edge))];
  if (scores[edge] === -Infinity) return tell([...words, ": not allowed in this graph."]);
  const kind = kindWords(edge);
  words.push(`: probability ${chance}${spread}, score ${number(scores[edge])}${kind ? ` (${kind})` : ""}.`);
  const place = places ? places.get(edge) : edge;
  if (place === undefined) return tell(words, make("p", {}, `This page contains the features of only the ${places.size.toLocaleString("en")} most probable edges.`));
  const rows = data.features.map((name, k) => {
    const value = values[place * d + k];
    const share = value * coef[k];
    return { name, share, cells: [number(value, 3), number(coef[k], 3), signed(share)] };
  });
  return tell(words, contributionTable("Contribution of each feature to the score",
    ["feature", "value", "weight", "contribution"], rows));
};

// ---- the two sides and the edges between them

const canvas = byId("edges");
let layout = null;
let n_shown = 0;
const rowHeight = Math.max(4, Math.min(26, 1300 / size));
const yOf = (node) => 14 + rowHeight * (node + 0.5);
const lineOf = (pen, edge) => {
  pen.moveTo(layout.x0, yOf(Math.floor(edge / size)));
  pen.lineTo(layout.x1, yOf(edge % size));
};
const styleOf = (kind) => [
  [theme.other, []], [theme.vermilion, [7, 4]], [theme.green, [2, 3]], [theme.blue, []],
][kind & 3];

const drawEdges = () => {
  const [pen, width] = prepare(canvas, 28 + rowHeight * size);
  const room = width * 0.3;
  const isNamed = rowHeight >= 10;
  const every = isNamed ? 1 : Math.ceil(12 / rowHeight);
  const x0 = widest(pen, left, room) + 12;
  const x1 = width - widest(pen, right, room) - 12;
  layout = { x0, x1, width };
  // Faint ones first; lines of one kind and about one probability are one path.
  pen.lineCap = "butt";
  for (let kind = 0; kind < 4; kind++) {
    const [ink, dashes] = styleOf(kind);
    pen.strokeStyle = ink;
    pen.setLineDash(dashes);
    const steps = Array.from({ length: 20 }, () => []);
    for (let k = Math.min(n_shown, DRAWN) - 1; k >= 0; k--) {
      const edge = ranked[k];
      if ((kinds[edge] & 3) === kind) steps[Math.min(19, Math.floor(20 * chances[edge]))].push(edge);
    }
    steps.forEach((edges, step) => {
      if (!edges.length) return;
      const share = (step + 0.5) / 20;
      pen.globalAlpha = kind ? 0.45 + 0.55 * share : 0.12 + 0.88 * share;
      pen.lineWidth = 0.6 + 3.4 * share;
      pen.beginPath();
      edges.forEach((edge) => lineOf(pen, edge));
      pen.stroke();
    });
  }
  pen.globalAlpha = 1;
  pen.setLineDash([]);
  pen.fillStyle = theme.ink;
  for (let node = 0; node < size; node++) {
    const y = yOf(node);
    pen.fillRect(x0 - 2, y - 1.5, 3, 3);
    pen.fillRect(x1 - 1, y - 1.5, 3, 3);
    if (node % every) continue;
    pen.textAlign = "right";
    pen.fillText(shorten(pen, left[node], x0 - 8), x0 - 6, y);
    pen.textAlign = "left";
    pen.fillText(shorten(pen, right[node], width - x1 - 8), x1 + 6, y);
  }
  canvas.dataset.drawn = Math.min(n_shown, DRAWN);
  markEdges();
};

const markEdges = () => {
  if (!layout) return;
  const [pen] = prepare(byId("edges-mark"), 28 + rowHeight * size);
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 3;
  pen.beginPath();
  if (shown.matching !== null) data.best[shown.matching].forEach((j, i) => lineOf(pen, i * size + j));
  if (shown.edge !== null) lineOf(pen, shown.edge);
  pen.stroke();
};

// The line nearest to the pointer; beside a name, the most probable edge of that node.
const edgeAt = (x, y) => {
  const node = Math.max(0, Math.min(size - 1, Math.floor((y - 14) / rowHeight)));
  if (x < layout.x0 || x > layout.x1) {
    const isOn = (edge) => (x < layout.x0 ? Math.floor(edge / size) : edge % size) === node;
    return ranked.find(isOn) ?? null;
  }
  const share = (x - layout.x0) / (layout.x1 - layout.x0);
  let [found, least] = [null, 8];
  for (let k = 0; k < Math.min(n_shown, DRAWN); k++) {
    const [y0, y1] = [yOf(Math.floor(ranked[k] / size)), yOf(ranked[k] % size)];
    const slope = (y1 - y0) / (layout.x1 - layout.x0);
    const away = Math.abs(y0 + share * (y1 - y0) - y) / Math.hypot(1, slope);
    if (away < least) [found, least] = [ranked[k], away];
  }
  return found;
};
const follow = (element, find) => {
  element.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const edge = find(...where(event));
    if (edge !== shown.edge || shown.matching !== null) showEdge(edge, false);
  });
  element.addEventListener("pointerleave", () => show(null, false));
  element.addEventListener("click", (event) => {
    const edge = find(...where(event));
    if (edge !== null) showEdge(edge, true);
  });
};

// ---- the threshold; its scale is quadratic, since most probabilities are small

const slider = byId("threshold");
const listEdges = () => {
  const body = make("tbody");
  for (let k = 0; k < Math.min(n_shown, LISTED); k++) {
    const edge = ranked[k];
    body.append(make("tr", {},
      make("th", { scope: "row" }, rowButton({ edge }, pairName(edge), k === 0)),
      make("td", {}, percent(chances[edge])),
      make("td", {}, number(scores[edge])),
      make("td", { class: "words" }, kindWords(edge))));
  }
  byId("edge-table").tBodies[0].replaceWith(body);
  byId("edge-table").dataset.listed = n_shown;
  byId("edge-table").caption.textContent = n_shown > LISTED
    ? `The ${LISTED} most probable of the ${n_shown.toLocaleString("en")} edges shown.`
    : `${count(n_shown, "edge")} shown, most probable first.`;
};
const setThreshold = () => {
  const threshold = (Number(slider.value) / 100) ** 2;
  let [low, high] = [0, ranked.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (chances[ranked[middle]] >= threshold) low = middle + 1;
    else high = middle;
  }
  n_shown = low;
  const words = `${percent(threshold)}: ${count(low, "edge")}${low > DRAWN ? `, the ${DRAWN.toLocaleString("en")} most probable drawn` : ""}`;
  byId("threshold-now").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  drawEdges();
};
// One drawing per frame, however fast the slider goes; the table follows when it rests.
let isAsked = false;
let later = 0;
slider.addEventListener("input", () => {
  if (!isAsked) requestAnimationFrame(() => { isAsked = false; setThreshold(); });
  isAsked = true;
  clearTimeout(later);
  later = setTimeout(listEdges, 150);
});

// ---- the mode and the Bayes matching, where they differ

const differing = data.mode.flatMap((j, i) => (j === data.bayes[i] ? [] : [i]));
const drawMatching = (name, matching, kind) => {
  const element = byId(name);
  if (!element) return;
  const rights = differing.map((i) => data.mode[i]).sort((a, b) => a - b);
  const rows = rights.length;
  const draw = () => {
    const [pen, width] = prepare(element, 24 * rows + 8);
    const y = (k) => 4 + 24 * (k + 0.5);
    const x0 = widest(pen, differing.map((i) => left[i]), width * 0.35) + 10;
    const x1 = width - widest(pen, rights.map((j) => right[j]), width * 0.35) - 10;
    [pen.strokeStyle] = styleOf(kind);
    pen.setLineDash(styleOf(kind)[1]);
    pen.fillStyle = theme.ink;
    differing.forEach((i, k) => {
      const j = matching[i];
      pen.lineWidth = 1 + 3 * chances[i * size + j];
      pen.beginPath();
      pen.moveTo(x0, y(k));
      pen.lineTo(x1, y(rights.indexOf(j)));
      pen.stroke();
      pen.textAlign = "right";
      pen.fillText(shorten(pen, left[i], x0 - 8), x0 - 5, y(k));
      pen.textAlign = "left";
      pen.fillText(shorten(pen, right[rights[k]], width - x1 - 8), x1 + 5, y(k));
    });
  };
  keepDrawn(element, draw);
};

// ---- the marginals as a heat map

const heat = byId("heat");
const most = chances.reduce((a, b) => Math.max(a, b), 0);
let cell = null;
const drawHeat = () => {
  const probe = heat.getContext("2d");
  probe.font = FONT;
  const wide = heat.parentElement.clientWidth;
  const x = Math.round(widest(probe, left, wide * 0.25) + 8);
  const step = Math.max(1, Math.min(44, (wide - x) / size));
  const tops = step >= 13 ? widest(probe, right, 90) + 8 : 6;
  const [pen] = prepare(heat, tops + step * size + 2);
  cell = { x, y: tops, step };
  const picture = make("canvas", { width: size, height: size });
  const dots = new ImageData(size, size);
  const [cold, hot, none] = [rgb(theme.cold), rgb(theme.hot), rgb(theme.void)];
  for (let edge = 0; edge < size * size; edge++) {
    const share = chances[edge] / most;
    for (let k = 0; k < 3; k++) {
      dots.data[4 * edge + k] = scores[edge] === -Infinity ? none[k] : cold[k] + share * (hot[k] - cold[k]);
    }
    dots.data[4 * edge + 3] = 255;
  }
  picture.getContext("2d").putImageData(dots, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, x, tops, step * size, step * size);
  pen.strokeStyle = theme.other;
  pen.strokeRect(x, tops, step * size, step * size);
  const mark = Math.max(1, Math.min(2, step / 6));
  const at = (i, j) => [x + step * (j + 0.5), tops + step * (i + 0.5)];
  pen.strokeStyle = theme.vermilion;
  pen.lineWidth = mark;
  data.mode.forEach((j, i) => pen.strokeRect(x + step * j + mark / 2, tops + step * i + mark / 2, step - mark, step - mark));
  pen.fillStyle = theme.green;
  data.bayes.forEach((j, i) => {
    const [cx, cy] = at(i, j);
    pen.beginPath();
    pen.arc(step > 20 ? cx + step * 0.3 : cx, step > 20 ? cy + step * 0.3 : cy, Math.max(1, Math.min(4, step / 5)), 0, 7);
    pen.fill();
  });
  pen.strokeStyle = theme.purple;
  data.truth?.forEach((j, i) => {
    const [cx, cy] = step > 20 ? [x + step * (j + 0.2), tops + step * (i + 0.8)] : at(i, j);
    const arm = Math.min(4, step / 3);
    pen.beginPath();
    pen.moveTo(cx - arm, cy - arm); pen.lineTo(cx + arm, cy + arm);
    pen.moveTo(cx + arm, cy - arm); pen.lineTo(cx - arm, cy + arm);
    pen.stroke();
  });
  for (let node = 0; node < size && step >= 8; node++) {
    if (node % Math.ceil(13 / step)) continue;
    pen.fillStyle = theme.ink;
    pen.textAlign = "right";
    pen.fillText(shorten(pen, left[node], x - 6), x - 4, at(node, 0)[1]);
    if (step < 13) continue;
    pen.save();
    pen.translate(at(0, node)[0], tops - 4);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(shorten(pen, right[node], tops - 6), 0, 0);
    pen.restore();
  }
  if (step >= 34) {
    pen.textAlign = "center";
    for (let edge = 0; edge < size * size; edge++) {
      const share = Math.round(100 * chances[edge]);
      pen.fillStyle = chances[edge] / most > 0.5 ? theme.paper : theme.ink;
      if (share) pen.fillText(share, ...at(Math.floor(edge / size), edge % size));
    }
  }
  markHeat();
};
const markHeat = () => {
  if (!cell) return;
  const [pen] = prepare(byId("heat-mark"), cell.y + cell.step * size + 2);
  const edges = shown.matching !== null ? data.best[shown.matching].map((j, i) => i * size + j) : [];
  if (shown.edge !== null) edges.push(shown.edge);
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 3;
  for (const edge of edges) {
    const [i, j] = [Math.floor(edge / size), edge % size];
    pen.strokeRect(cell.x + cell.step * j - 1, cell.y + cell.step * i - 1, cell.step + 2, cell.step + 2);
  }
};
const cellAt = (x, y) => {
  const j = Math.floor((x - cell.x) / cell.step);
  const i = Math.floor((y - cell.y) / cell.step);
  return i >= 0 && i < size && j >= 0 && j < size ? i * size + j : null;
};

// ---- all together

const chooseEdge = (means, isKept) => showEdge(means ? Number(means.edge) : null, isKept);
for (const side of ["left", "right"]) {
  byId(side).addEventListener("change", () =>
    showEdge(Number(byId("left").value) * size + Number(byId("right").value), true));
}
onRows(byId("edge-table"), chooseEdge);
onRows(byId("difference-table"), chooseEdge);
onRows(byId("best-table"), (means, isKept) =>
  show(means ? { edge: null, matching: Number(means.matching) } : null, isKept));
follow(canvas, edgeAt);
follow(heat, cellAt);
setThreshold();
listEdges();
keepDrawn(canvas, drawEdges);
keepDrawn(heat, drawHeat);
drawMatching("mode", data.mode, 1);
drawMatching("bayes", data.bayes, 2);
byId("left").value = 0;
byId("right").value = data.mode[0];
