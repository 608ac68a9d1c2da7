// One list: scores, the probability of every rank, and what moved a document.
const n = data.documents.length;
const d = data.features.length;
const scores = unpack(data.scores);
const values = unpack(data.values);
const pushes = unpack(data.pushes);
const sizes = data.levels?.sizes;
const levels = data.levels && unpack(data.levels.chances);
const n_ranks = sizes ? sizes.reduce((a, b) => a + b, 0) : 0;
const chanceAt = (place, rank) => {
  let level = 0;
  for (let first = rank; first >= sizes[level]; level++) first -= sizes[level];
  return levels[place * sizes.length + level] / sizes[level];
};
const chanceWithin = (place, top) => {
  let sum = 0;
  for (let level = 0, left = top; left > 0; left -= sizes[level], level++) {
    sum += levels[place * sizes.length + level] * Math.min(1, left / sizes[level]);
  }
  return Math.min(1, sum);
};
const sumOf = (place) => {
  let sum = 0;
  for (let k = 0; k < d; k++) sum += pushes[place * d + k];
  return sum;
};
const gains = Array.from({ length: n }, (_, place) => sumOf(place));
const middle = scores[0] - gains[0]; // mean of the whole list

// ---- what is pointed at; a click or the focus stays

let kept = { place: null, rank: null };
let shown = kept;
const show = (choice, isKept) => {
  shown = choice ?? kept;
  if (isKept) kept = shown;
  markScores();
  markRanks();
  if (shown.place !== null) describe(shown);
};
const describe = ({ place, rank }) => {
  const words = [make("strong", {}, named(data.documents[place])),
    `: rank ${place + 1}, score ${number(scores[place])}, ${signed(gains[place])} relative to the mean of the list.`];
  if (rank !== null) words.push(` At rank ${rank + 1} with probability ${percent(chanceAt(place, rank))}.`);
  const rows = data.features.map((name, k) => {
    const share = pushes[place * d + k];
    return { name, share, cells: [number(values[place * d + k], 3), signed(share)] };
  });
  const parts = [contributionTable("Contribution of each feature, relative to the mean of the list", ["feature", "value", "contribution"], rows)];
  if (data.moves) {
    const splits = data.moves[place].map(([feature, threshold, isAbove, share]) => ({
      name: data.features[feature], share, cells: [`${isAbove ? "above" : "at most"} ${number(threshold, 3)}`, signed(share)] }));
    parts.push(contributionTable("Splits of the trees that moved it most, relative to the documents before each split", ["split by", "side", "moved by"], splits));
  }
  tell(words, ...parts);
};

const rowHeight = Math.max(3, Math.min(22, 1400 / n));
const isNamed = rowHeight >= 10;
const every = isNamed ? 1 : Math.ceil(12 / rowHeight);
const yOf = (place) => 18 + rowHeight * place;
const heightOf = () => 22 + rowHeight * n;
const nameRows = (pen, room) => {
  pen.textAlign = "right";
  pen.fillStyle = theme.ink;
  for (let place = 0; place < n; place += every) {
    pen.fillText(shorten(pen, data.documents[place], room - 6), room - 5, yOf(place) + rowHeight / 2);
  }
};
const placeAt = (y) => {
  const place = Math.floor((y - 18) / rowHeight);
  return place >= 0 && place < n ? place : null;
};
const frame = (name, x, width) => {
  const [pen] = prepare(byId(`${name}-mark`), heightOf());
  if (shown.place === null) return;
  pen.strokeStyle = theme.purple;
  pen.lineWidth = 2;
  pen.strokeRect(x, yOf(shown.place) - 1, width, rowHeight + 2);
};
const follow = (element, find) => {
  element.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const choice = find(...where(event));
    if (choice?.place !== shown.place || choice?.rank !== shown.rank) show(choice, false);
  });
  element.addEventListener("pointerleave", () => show(null, false));
  element.addEventListener("click", (event) => {
    const choice = find(...where(event));
    if (choice) show(choice, true);
  });
};

// ---- scores

const canvas = byId("scores");
let bars = null;
const drawScores = () => {
  const [pen, width] = prepare(canvas, heightOf());
  const x = widest(pen, data.documents, width * 0.3) + 10;
  const low = Math.min(...gains, 0);
  const high = Math.max(...gains, 0);
  const room = width - x - 8;
  const xOf = (gain) => x + 4 + ((gain - low) / (high - low || 1)) * (room - 8);
  bars = { x, width };
  pen.fillStyle = theme.soft;
  pen.textAlign = "left";
  pen.fillText(number(low + middle), xOf(low), 8);
  pen.textAlign = "right";
  pen.fillText(number(high + middle), xOf(high), 8);
  gains.forEach((gain, place) => {
    pen.fillStyle = gain > 0 ? theme.blue : theme.vermilion;
    const [from, to] = [xOf(Math.min(gain, 0)), xOf(Math.max(gain, 0))];
    const gap = rowHeight > 5 ? 1.5 : 0;
    if (gain > 0) pen.fillRect(from, yOf(place) + gap, Math.max(1, to - from), rowHeight - 2 * gap);
    else { // below the mean: hollow, for those who see no colours
      pen.strokeStyle = pen.fillStyle;
      pen.lineWidth = 1.5;
      pen.strokeRect(from, yOf(place) + gap + 0.5, Math.max(1, to - from), Math.max(1, rowHeight - 2 * gap - 1));
    }
  });
  pen.fillStyle = theme.ink;
  pen.fillRect(xOf(0) - 0.5, 16, 1, rowHeight * n + 4);
  nameRows(pen, x);
  markScores();
};
const markScores = () => bars && frame("scores", bars.x - 2, bars.width - bars.x);

// ---- ranks

const ranks = byId("ranks");
const slider = byId("top");
let grid = null;
const drawRanks = () => {
  if (!ranks) return;
  const [pen, width] = prepare(ranks, heightOf());
  const x = widest(pen, data.documents, width * 0.3) + 10;
  const step = (width - x - 4) / n_ranks;
  grid = { x, step };
  const [cold, hot] = [rgb(theme.cold), rgb(theme.hot)];
  let most = 0;
  levels.forEach((chance, k) => { most = Math.max(most, chance / sizes[k % sizes.length]); });
  for (let place = 0; place < n; place++) {
    let first = 0;
    sizes.forEach((size, level) => {
      const share = levels[place * sizes.length + level] / size / most;
      pen.fillStyle = `rgb(${cold.map((c, k) => Math.round(c + share * (hot[k] - c))).join(" ")})`;
      pen.fillRect(x + step * first, yOf(place), step * size + 0.3, rowHeight + 0.3);
      first += size;
    });
  }
  pen.strokeStyle = theme.other;
  pen.strokeRect(x, yOf(0), step * n_ranks, rowHeight * n);
  pen.fillStyle = theme.soft;
  pen.textAlign = "center";
  const gap = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((g) => g * step >= 26) ?? n_ranks;
  for (let rank = 1; rank <= n_ranks; rank += rank === 1 && gap > 1 ? gap - 1 : gap) {
    pen.fillText(rank, x + step * (rank - 0.5), 8);
  }
  nameRows(pen, x);
  markRanks();
};
const markRanks = () => {
  if (!grid) return;
  const [pen] = prepare(byId("ranks-mark"), heightOf());
  pen.strokeStyle = theme.vermilion;
  pen.lineWidth = 2;
  pen.setLineDash([7, 4]);
  pen.beginPath();
  pen.moveTo(grid.x + grid.step * Number(slider.value), yOf(0) - 3);
  pen.lineTo(grid.x + grid.step * Number(slider.value), yOf(n) + 3);
  pen.stroke();
  pen.setLineDash([]);
  if (shown.place === null) return;
  pen.strokeStyle = theme.purple;
  pen.strokeRect(grid.x - 1, yOf(shown.place) - 1, grid.step * n_ranks + 2, rowHeight + 2);
  if (shown.rank === null) return;
  pen.lineWidth = 3;
  pen.strokeRect(grid.x + grid.step * shown.rank - 1, yOf(shown.place) - 1, grid.step + 2, rowHeight + 2);
};
const setTop = () => {
  const top = Number(slider.value);
  const table = byId("document-table");
  table.tHead.rows[0].cells[4].textContent = `in the top ${top}`;
  let relevant = 0;
  for (let place = 0; place < n; place++) {
    const chance = chanceWithin(place, top);
    if (data.grades[place] > 0) relevant += chance;
    table.tBodies[0].rows[place].cells[4].textContent = percent(chance);
  }
  const words = count(top, "rank") + (n === n_ranks && data.grades.some((grade) => grade > 0)
    ? `; ${relevant.toFixed(2)} documents of grade 1 or more expected among them` : "");
  byId("top-now").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  markRanks();
};

// ---- all together

onRows(byId("document-table"), (means, isKept) =>
  show(means ? { place: Number(means.document), rank: null } : null, isKept));
follow(canvas, (x, y) => {
  const place = placeAt(y);
  return place === null ? null : { place, rank: null };
});
keepDrawn(canvas, drawScores);
if (ranks) {
  let isAsked = false; // once per frame, however fast the slider goes
  slider.addEventListener("input", () => {
    if (!isAsked) requestAnimationFrame(() => { isAsked = false; setTop(); });
    isAsked = true;
  });
  follow(ranks, (x, y) => {
    const place = placeAt(y);
    const rank = Math.floor((x - grid.x) / grid.step);
    if (place === null) return null;
    return { place, rank: rank >= 0 && rank < n_ranks ? rank : null };
  });
  keepDrawn(ranks, drawRanks);
  setTop();
}
