// One graph: edges by probability, two matchings, marginals, the best matchings.
// Who has no partner stands as an edge to the last name of the other side.
const { left, right } = data;
const [nLeft, nRight] = [left.length, right.length];
const d = data.features.length;
const coef = unpack(data.coef);
const rows = unpack(data.rows);
const cols = unpack(data.cols);
const chances = unpack(data.chances);
const errors = data.errors && unpack(data.errors);
const scores = unpack(data.scores);
const values = unpack(data.values);
const nEdges = rows.length;
const nPairs = data.n_pairs; // after them come the edges of unmatched nodes
const places = data.kept && new Map(Array.from(unpack(data.kept), (edge, k) => [edge, k]));
const DRAWN = 5000; // most lines: with more there is nothing to be seen
const LISTED = 200; // most rows of the table, as in match_explorer.py

// Edges of any probability, the most probable first; a threshold is then a number of them.
const ranked = Uint32Array.from({ length: nEdges }, (_, edge) => edge)
  .filter((edge) => chances[edge] > 0)
  .sort((a, b) => chances[b] - chances[a] || a - b);
const edgeOf = new Map(Array.from(rows, (row, edge) => [row * nRight + cols[edge], edge]));
const kinds = new Uint8Array(nEdges); // 1 mode, 2 Bayes, 4 labelled
data.mode.forEach((edge) => { kinds[edge] |= 1; });
data.bayes.forEach((edge) => { kinds[edge] |= 2; });
data.truth?.forEach((edge) => { kinds[edge] |= 4; });
const pairName = (edge) => [named(left[rows[edge]]), " – ", named(right[cols[edge]])];
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
    byId("left").value = rows[shown.edge];
    byId("right").value = cols[shown.edge];
  }
};
const showEdge = (edge, isKept) => show(edge === null ? null : { edge, matching: null }, isKept);

const describe = () => {
  const { edge, matching } = shown;
  if (edge !== null) return describeEdge(edge);
  if (matching === null) return;
  const first = new Set(data.best[0]);
  const others = data.best[matching].filter((other) => !first.has(other));
  const list = make("ul", {}, ...others.slice(0, 50).map((other) =>
    make("li", {}, ...pairName(other), `: ${percent(chances[other])}`)));
  tell([others.length
    ? `Matching ${matching + 1} differs from the mode in ${count(others.length, "edge")} of ${data.best[matching].length}:`
    : `Matching ${matching + 1} is the mode.`], list);
};

const describeEdge = (edge) => {
  const chance = percent(chances[edge]);
  const spread = errors && errors[edge] ? ` ± ${percent(errors[edge])}` : "";
  const words = [make("strong", {}, ...pairName(edge))];
  const kind = kindWords(edge);
  words.push(`: probability ${chance}${spread}, score ${number(scores[edge])}${kind ? ` (${kind})` : ""}.`);
  if (edge >= nPairs) return tell(words);
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
const nRows = Math.max(nLeft, nRight);
const rowHeight = Math.max(4, Math.min(26, 1300 / nRows));
const yOf = (node) => 14 + rowHeight * (node + 0.5);
const lineOf = (pen, edge) => {
  pen.moveTo(layout.x0, yOf(rows[edge]));
  pen.lineTo(layout.x1, yOf(cols[edge]));
};
const styleOf = (kind) => [
  [theme.other, []], [theme.vermilion, [7, 4]], [theme.green, [2, 3]], [theme.blue, []],
][kind & 3];

const drawEdges = () => {
  const [pen, width] = prepare(canvas, 28 + rowHeight * nRows);
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
  for (let node = 0; node < nLeft; node++) {
    pen.fillRect(x0 - 2, yOf(node) - 1.5, 3, 3);
    pen.textAlign = "right";
    if (node % every === 0) pen.fillText(shorten(pen, left[node], x0 - 8), x0 - 6, yOf(node));
  }
  for (let node = 0; node < nRight; node++) {
    pen.fillRect(x1 - 1, yOf(node) - 1.5, 3, 3);
    pen.textAlign = "left";
    if (node % every === 0) pen.fillText(shorten(pen, right[node], width - x1 - 8), x1 + 6, yOf(node));
  }
  canvas.dataset.drawn = Math.min(n_shown, DRAWN);
  markEdges();
};

const markEdges = () => {
  if (!layout) return;
  const [pen] = prepare(byId("edges-mark"), 28 + rowHeight * nRows);
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 3;
  pen.beginPath();
  if (shown.matching !== null) data.best[shown.matching].forEach((edge) => lineOf(pen, edge));
  if (shown.edge !== null) lineOf(pen, shown.edge);
  pen.stroke();
};

// The line nearest to the pointer; beside a name, the most probable edge of that node.
const edgeAt = (x, y) => {
  const node = Math.max(0, Math.floor((y - 14) / rowHeight));
  if (x < layout.x0 || x > layout.x1) {
    const isOn = (edge) => (x < layout.x0 ? rows : cols)[edge] === node;
    return ranked.find(isOn) ?? null;
  }
  const share = (x - layout.x0) / (layout.x1 - layout.x0);
  let [found, least] = [null, 8];
  for (let k = 0; k < Math.min(n_shown, DRAWN); k++) {
    const [y0, y1] = [yOf(rows[ranked[k]]), yOf(cols[ranked[k]])];
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

const onlyMode = data.mode.filter((edge) => !(kinds[edge] & 2));
const onlyBayes = data.bayes.filter((edge) => !(kinds[edge] & 1));
const ends = (side) => [...new Set([...onlyMode, ...onlyBayes].map((edge) => side[edge]))].sort((a, b) => a - b);
const [someLeft, someRight] = [ends(rows), ends(cols)];
const drawMatching = (name, edges, kind) => {
  const element = byId(name);
  if (!element) return;
  const draw = () => {
    const [pen, width] = prepare(element, 24 * Math.max(someLeft.length, someRight.length) + 8);
    const y = (k) => 4 + 24 * (k + 0.5);
    const x0 = widest(pen, someLeft.map((i) => left[i]), width * 0.35) + 10;
    const x1 = width - widest(pen, someRight.map((j) => right[j]), width * 0.35) - 10;
    [pen.strokeStyle] = styleOf(kind);
    pen.setLineDash(styleOf(kind)[1]);
    pen.fillStyle = theme.ink;
    edges.forEach((edge) => {
      pen.lineWidth = 1 + 3 * chances[edge];
      pen.beginPath();
      pen.moveTo(x0, y(someLeft.indexOf(rows[edge])));
      pen.lineTo(x1, y(someRight.indexOf(cols[edge])));
      pen.stroke();
    });
    pen.textAlign = "right";
    someLeft.forEach((i, k) => pen.fillText(shorten(pen, left[i], x0 - 8), x0 - 5, y(k)));
    pen.textAlign = "left";
    someRight.forEach((j, k) => pen.fillText(shorten(pen, right[j], width - x1 - 8), x1 + 5, y(k)));
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
  const step = Math.max(1, Math.min(44, (wide - x) / nRight));
  const tops = step >= 13 ? widest(probe, right, 90) + 8 : 6;
  const [pen] = prepare(heat, tops + step * nLeft + 2);
  cell = { x, y: tops, step };
  const picture = make("canvas", { width: nRight, height: nLeft });
  const dots = new ImageData(nRight, nLeft);
  const [cold, hot, none] = [rgb(theme.cold), rgb(theme.hot), rgb(theme.void)];
  for (let at = 0; at < nLeft * nRight; at++) dots.data.set([...none, 255], 4 * at);
  for (let edge = 0; edge < nEdges; edge++) {
    const share = chances[edge] / most;
    const at = 4 * (rows[edge] * nRight + cols[edge]);
    for (let k = 0; k < 3; k++) dots.data[at + k] = cold[k] + share * (hot[k] - cold[k]);
  }
  picture.getContext("2d").putImageData(dots, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, x, tops, step * nRight, step * nLeft);
  pen.strokeStyle = theme.other;
  pen.strokeRect(x, tops, step * nRight, step * nLeft);
  const mark = Math.max(1, Math.min(2, step / 6));
  const at = (i, j) => [x + step * (j + 0.5), tops + step * (i + 0.5)];
  pen.strokeStyle = theme.vermilion;
  pen.lineWidth = mark;
  data.mode.forEach((edge) => pen.strokeRect(
    x + step * cols[edge] + mark / 2, tops + step * rows[edge] + mark / 2, step - mark, step - mark));
  pen.fillStyle = theme.green;
  data.bayes.forEach((edge) => {
    const [cx, cy] = at(rows[edge], cols[edge]);
    pen.beginPath();
    pen.arc(step > 20 ? cx + step * 0.3 : cx, step > 20 ? cy + step * 0.3 : cy, Math.max(1, Math.min(4, step / 5)), 0, 7);
    pen.fill();
  });
  pen.strokeStyle = theme.purple;
  data.truth?.forEach((edge) => {
    const [i, j] = [rows[edge], cols[edge]];
    const [cx, cy] = step > 20 ? [x + step * (j + 0.2), tops + step * (i + 0.8)] : at(i, j);
    const arm = Math.min(4, step / 3);
    pen.beginPath();
    pen.moveTo(cx - arm, cy - arm); pen.lineTo(cx + arm, cy + arm);
    pen.moveTo(cx + arm, cy - arm); pen.lineTo(cx - arm, cy + arm);
    pen.stroke();
  });
  pen.fillStyle = theme.ink;
  const every = Math.ceil(13 / step);
  pen.textAlign = "right";
  for (let node = 0; node < nLeft && step >= 8; node += every) {
    pen.fillText(shorten(pen, left[node], x - 6), x - 4, at(node, 0)[1]);
  }
  pen.textAlign = "left";
  for (let node = 0; node < nRight && step >= 13; node++) {
    pen.save();
    pen.translate(at(0, node)[0], tops - 4);
    pen.rotate(-Math.PI / 2);
    pen.fillText(shorten(pen, right[node], tops - 6), 0, 0);
    pen.restore();
  }
  if (step >= 34) {
    pen.textAlign = "center";
    for (let edge = 0; edge < nEdges; edge++) {
      const share = Math.round(100 * chances[edge]);
      pen.fillStyle = chances[edge] / most > 0.5 ? theme.paper : theme.ink;
      if (share) pen.fillText(share, ...at(rows[edge], cols[edge]));
    }
  }
  markHeat();
};
const markHeat = () => {
  if (!cell) return;
  const [pen] = prepare(byId("heat-mark"), cell.y + cell.step * nLeft + 2);
  const edges = shown.matching !== null ? [...data.best[shown.matching]] : [];
  if (shown.edge !== null) edges.push(shown.edge);
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 3;
  for (const edge of edges) {
    const [i, j] = [rows[edge], cols[edge]];
    pen.strokeRect(cell.x + cell.step * j - 1, cell.y + cell.step * i - 1, cell.step + 2, cell.step + 2);
  }
};
const cellAt = (x, y) => {
  const j = Math.floor((x - cell.x) / cell.step);
  const i = Math.floor((y - cell.y) / cell.step);
  return j >= 0 && j < nRight ? edgeOf.get(i * nRight + j) ?? null : null;
};

// ---- all together

const chooseEdge = (means, isKept) => showEdge(means ? Number(means.edge) : null, isKept);
for (const side of ["left", "right"]) {
  byId(side).addEventListener("change", () => {
    const [i, j] = [Number(byId("left").value), Number(byId("right").value)];
    const edge = edgeOf.get(i * nRight + j);
    if (edge !== undefined) return showEdge(edge, true);
    return tell([make("strong", {}, named(left[i]), " – ", named(right[j])), ": not allowed in this graph."]);
  });
}
onRows(byId("edge-table"), chooseEdge);
onRows(byId("difference-table"), chooseEdge);
onRows(byId("best-table"), (means, isKept) =>
  show(means ? { edge: null, matching: Number(means.matching) } : null, isKept));
follow(canvas, edgeAt);
if (heat) follow(heat, cellAt);
setThreshold();
listEdges();
keepDrawn(canvas, drawEdges);
if (heat) keepDrawn(heat, drawHeat);
drawMatching("mode", onlyMode, 1);
drawMatching("bayes", onlyBayes, 2);
byId("left").value = rows[data.mode[0]] ?? 0;
byId("right").value = cols[data.mode[0]] ?? 0;
