// Matchings: components by uncertainty, one of them open with its nodes, pairs and best
// matchings.  Components, nodes and pairs are numbered as they are listed.
const names = [data.left, data.right];
const starts = [unpack(data.left_starts), unpack(data.right_starts)];
const edgeStarts = unpack(data.edge_starts);
const totals = data.totals.map(unpack); // left nodes, right nodes, pairs, shown or not
const sizes = unpack(data.sizes); // nodes of the component that this is a part of, or 0
const expected = unpack(data.errors);
const exact = unpack(data.is_exact);
const withInterval = unpack(data.with_interval);
const labelErrors = data.label_errors && unpack(data.label_errors);
const ends = [unpack(data.rows), unpack(data.cols)];
const chances = unpack(data.chances);
const scores = unpack(data.scores);
const decisions = unpack(data.decisions);
const [low, high] = [data.low && unpack(data.low), data.high && unpack(data.high)];
const pairChances = data.pair_chances && unpack(data.pair_chances);
const labels = data.labels && unpack(data.labels);
const alone = data.alone.map(unpack);
const aloneScores = data.alone_scores.map(unpack);
const coef = data.coef && unpack(data.coef);
const added = data.added && unpack(data.added); // without either, values are what is added
const values = unpack(data.values);
const nComponents = edgeStarts.length - 1;
const AT_ONCE = 100; // rows that a table shows at first, and more by each press of a button
const DRAWN = 60; // most nodes of a component that is drawn whole
const NEAR = 24; // nodes drawn of a larger one
const LINES = 150; // most lines of a drawing, beside those of links
const FAINT = 0.005; // less probable pairs are not drawn
const LABELS = ["no match", "match", ""];

const range = (first, last) => Array.from({ length: last - first }, (_, k) => first + k);
const edgesOf = (c) => range(edgeStarts[c], edgeStarts[c + 1]);
const doubt = (edge) => Math.min(chances[edge], 1 - chances[edge]);
const leastCertain = (c) => {
  let found = edgeStarts[c];
  for (let edge = found; edge < edgeStarts[c + 1]; edge++) {
    if (doubt(edge) > doubt(found)) found = edge;
  }
  return found;
};
const leftOrRight = (side) => `${["left", "right"][side]} ${data.node}`;
const pairName = (edge) => [named(names[0][ends[0][edge]]), " – ", named(names[1][ends[1][edge]])];
const interval = (edge) => `${percent(low[edge])} to ${percent(high[edge])}`;
const percentOfLog = (log) => {
  if (log >= Math.log(5e-6)) return percent(Math.min(1, Math.exp(log)));
  const exponent = log / Math.LN10 + 2;
  const whole = Math.floor(exponent);
  const lead = Math.round(10 ** (exponent - whole));
  return lead === 10 ? `1e${whole + 1} %` : `${lead}e${whole} %`;
};
// Where a node may not stay alone, nothing is said about it.
const mayBeAlone = (side, node) => aloneScores[side][node] > -Infinity;

// ---- what is selected: a pair, a node or a whole matching of the open component

let open = -1;
let around = []; // edges of every node of the open component: around[side].get(node)
let kept = {};
let shown = {};
const show = (choice, isKept) => {
  shown = choice ?? kept;
  if (isKept) kept = shown;
  if (isKept) moveDrawing();
  markNodes();
  drawEdges();
  describe();
};
const describe = () => {
  if (shown.edge !== undefined) describeEdge(shown.edge);
  else if (shown.node !== undefined) describeNode(shown.side, shown.node);
  else if (shown.matching !== undefined) describeMatching(shown.matching);
};

const describeEdge = (edge) => {
  const words = [make("strong", {}, ...pairName(edge)), `: probability ${percent(chances[edge])}`];
  if (low && withInterval[open]) words.push(` (${interval(edge)}, ${data.interval})`);
  if (pairChances) words.push(`, ${percent(pairChances[edge])} by itself`);
  words.push(`; ${data.words[decisions[edge]]}.`);
  if (labels && LABELS[labels[edge]]) words.push(` Labelled: ${LABELS[labels[edge]]}.`);
  const parts = [];
  const rows = data.features.map((name, k) => {
    const place = edge * data.features.length + k;
    const value = values[place];
    const share = coef ? value * coef[k] : added ? added[place] : value;
    const cells = coef ? [number(value, 3), number(coef[k], 3)] : added ? [number(value, 3)] : [];
    return { name, share, cells: [...cells, signed(share)] };
  });
  if (rows.length) {
    const heads = coef ? ["feature", "value", "weight"] : added ? ["feature", "value"] : ["part"];
    parts.push(contributionTable(coef || added ? "Contribution of each feature to the score" : "What the score is made of",
      [...heads, "adds"], rows));
  }
  const nodes = [ends[0][edge], ends[1][edge]];
  const free = [0, 1].filter((side) => mayBeAlone(side, nodes[side]));
  const told = [`Score of the pair: ${number(scores[edge])}.`];
  if (free.length) {
    told.push(" Score of having no partner: ");
    free.forEach((side, k) => told.push(k ? ", " : "", named(names[side][nodes[side]]),
      ` ${number(aloneScores[side][nodes[side]])}`));
    told.push(".");
  }
  tell(words, ...parts, make("p", {}, ...told));
};

const describeNode = (side, node) => {
  const own = [...around[side].get(node)].sort((a, b) => chances[b] - chances[a]);
  const words = [make("strong", {}, named(names[side][node])), ` (${leftOrRight(side)})`];
  words.push(mayBeAlone(side, node)
    ? `: no partner with probability ${percent(alone[side][node])}, at the score ${number(aloneScores[side][node])}.`
    : ": it must have a partner.");
  const body = make("tbody", {}, ...own.slice(0, 50).map((edge) => make("tr", {},
    make("th", { scope: "row" }, named(names[1 - side][ends[1 - side][edge]])),
    make("td", {}, percent(chances[edge])),
    make("td", { class: "words" }, data.words[decisions[edge]]))));
  const caption = own.length > 50 ? `The 50 most probable of ${count(own.length, "partner")}.` : "Possible partners.";
  tell(words, scrolling(make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {},
    ...["partner", "probability", "decision"].map((text) => make("th", { scope: "col" }, text)))), body)));
};

const describeMatching = (k) => {
  const links = [...matchingOf(k)];
  const list = make("ul", {}, ...links.slice(0, 50).map((edge) =>
    make("li", {}, ...pairName(edge), `: ${percent(chances[edge])}`)));
  if (links.length > 50) list.append(make("li", {}, `and ${links.length - 50} more`));
  tell([k ? `Alternative ${k + 1} has ${count(links.length, "link")}:`
    : `The most probable ${data.matchings[0]} has ${count(links.length, "link")}:`], list);
};
const matchingOf = (k) => {
  const best = data.best[open];
  const links = new Set(best.first);
  if (k) best.changes[k - 1].forEach((edge) => { if (!links.delete(edge)) links.add(edge); });
  return links;
};

// ---- the list of components

let listed = range(0, nComponents);
let wanted = "";
let nListed = AT_ONCE;
const componentRow = (c, isFirst) => {
  const edge = leastCertain(c);
  const cells = [percent(chances[edge]), `${totals[0][c].toLocaleString("en")} + ${totals[1][c].toLocaleString("en")}`,
    totals[2][c].toLocaleString("en"), expected[c].toFixed(2)];
  if (labelErrors) cells.push(labelErrors[c]);
  const row = make("tr", {}, make("th", { scope: "row" }, rowButton({ component: c }, pairName(edge), isFirst)),
    ...cells.map((cell) => make("td", {}, cell)));
  if (data.graphs) row.append(make("td", { class: "words" }, named(data.graphs[c])));
  if (c === open) markRow(row, true);
  return row;
};
const markRow = (row, isOn) => {
  row.classList.toggle("is-on", isOn);
  const button = row.querySelector("button");
  if (isOn) button.setAttribute("aria-current", "true");
  else button.removeAttribute("aria-current");
};
const listComponents = () => {
  const some = listed.slice(0, nListed);
  const stop = some.includes(open) ? open : some[0];
  byId("component-table").tBodies[0].replaceChildren(...some.map((c) => componentRow(c, c === stop)));
  const order = listed.length > 1 ? ", the least certain first" : "";
  setCaption("component-table", wanted
    ? `${count(listed.length, "component")} with a ${data.node} like this${order}.`
    : `${count(listed.length, "component")}${order}.`);
  setMore("more-components", listed.length - nListed, "component");
};
const setCaption = (name, words) => { byId(`${name}-caption`).firstChild.textContent = words; };
const setMore = (name, nLeft, noun) => {
  byId(name).hidden = nLeft <= 0;
  byId(name).textContent = nLeft > AT_ONCE ? `Show ${AT_ONCE} more of ${count(nLeft, `other ${noun}`)}`
    : `Show the other ${count(nLeft, noun)}`;
};
// Nodes whose name contains what is searched for; those of the same name come first.
const nodesLike = (c) => {
  const found = [];
  for (const side of [0, 1]) {
    for (let node = starts[side][c]; node < starts[side][c + 1]; node++) {
      const name = names[side][node].toLowerCase();
      if (name === wanted) found.unshift([side, node]);
      else if (name.includes(wanted)) found.push([side, node]);
    }
  }
  return found;
};
const find = () => {
  wanted = byId("find").value.trim().toLowerCase();
  nListed = AT_ONCE;
  listed = range(0, nComponents);
  let nNodes = 0;
  if (wanted) {
    listed = listed.filter((c) => {
      const n = nodesLike(c).length;
      nNodes += n;
      return n > 0;
    });
  }
  byId("found").textContent = wanted ? `${count(nNodes, data.node)} in ${count(listed.length, "component")} of this page` : "";
  listComponents();
};

// ---- the open component

let nPairs = AT_ONCE;
const openComponent = (c) => {
  if (c !== open) {
    const before = byId("component-table").querySelector("tr.is-on");
    if (before) markRow(before, false);
    open = c;
    const button = byId("component-table").querySelector(`[data-component="${c}"]`);
    if (button) markRow(button.closest("tr"), true);
    around = [0, 1].map((side) => {
      const own = new Map();
      for (const edge of edgesOf(c)) {
        const node = ends[side][edge];
        if (own.has(node)) own.get(node).push(edge);
        else own.set(node, [edge]);
      }
      return own;
    });
    nPairs = AT_ONCE;
    centre = null;
    sayOpen(c);
    listPairs();
    listBest();
  }
  const [like] = wanted ? nodesLike(c) : [];
  show(like ? { side: like[0], node: like[1] } : { edge: leastCertain(c) }, true);
};
const sayOpen = (c) => {
  byId("open-title").replaceChildren("Component of ", ...pairName(leastCertain(c)));
  const nShown = edgeStarts[c + 1] - edgeStarts[c];
  const cut = nShown < totals[2][c]
    ? ` This page has the ${count(nShown, "pair")} of it that ${nShown === 1 ? "is" : "are"} least certain or most probable.` : "";
  const of = data.graphs ? [" of graph ", named(data.graphs[c])] : [];
  byId("open-words").replaceChildren(`${count(totals[0][c], leftOrRight(0))} and ${count(totals[1][c], leftOrRight(1))}`, ...of,
    `, ${count(totals[2][c], "pair")}, ${expected[c].toFixed(2)} expected to be decided wrongly; `,
    `${exact[c] ? "exact" : "approximate"} probabilities.${cut}`,
    sizes[c] ? ` Part of a component of ${count(sizes[c], data.node)}: less probable pairs are left out.` : "");
};
const listPairs = () => {
  const edges = edgesOf(open).sort((a, b) => chances[b] - chances[a] || a - b);
  byId("pair-table").tBodies[0].replaceChildren(...edges.slice(0, nPairs).map((edge, k) => {
    const row = make("tr", {}, make("th", { scope: "row" }, rowButton({ edge }, pairName(edge), k === 0)),
      make("td", {}, percent(chances[edge])));
    if (low) row.append(make("td", {}, withInterval[open] ? interval(edge) : "exact"));
    if (pairChances) row.append(make("td", {}, percent(pairChances[edge])));
    row.append(make("td", { class: "words" }, data.words[decisions[edge]]));
    if (labels) row.append(make("td", { class: "words" }, LABELS[labels[edge]]));
    return row;
  }));
  setCaption("pair-table", `${count(edges.length, "pair")}, the most probable first.`);
  setMore("more-pairs", edges.length - nPairs, "pair");
};
const listBest = () => {
  const best = data.best[open];
  const body = byId("best-table").tBodies[0];
  byId("best-table").parentElement.hidden = !best;
  if (!best) {
    body.replaceChildren();
    const isLarge = Math.max(totals[0][open], totals[1][open]) > data.most_nodes;
    byId("best-words").textContent = data.why_missing[isLarge ? 0 : 1];
    return;
  }
  body.replaceChildren(...best.losses.map((loss, k) => make("tr", {},
    make("th", { scope: "row" }, rowButton({ matching: k }, [String(k + 1)], k === 0)),
    make("td", {}, percentOfLog(best.logs ? best.logs[k] : -loss)),
    make("td", { class: "words" }, ...(k ? changesOf(k) : firstLinks())))));
  byId("best-table").tHead.rows[0].cells[1].textContent = best.logs ? "probability" : "relative to the first";
  const words = [];
  if (best.losses.length > 1) {
    words.push(`The decision need not be the most probable ${data.matchings[0]}: it follows from the probability that every pair has over all of them, so that the fewest errors are expected.`);
  }
  if (best.logs && sizes[open]) words.push("Probabilities are those within this part.");
  if (best.logs && !exact[open]) words.push("Probabilities are approximate; the order is exact.");
  byId("best-words").textContent = words.join(" ");
  setCaption("best-table", best.losses.length === 1 ? `The only ${data.matchings[0]}.`
    : `The ${best.losses.length} most probable ${data.matchings[1]} of the component.`);
};
const listOf = (parts) => {
  const words = parts.slice(0, 6).flatMap((part, at) => (at ? [", ", ...part] : part));
  return parts.length > 6 ? [...words, ` and ${parts.length - 6} more`] : words;
};
const firstLinks = () => {
  const { first } = data.best[open];
  return first.length ? listOf(first.map(pairName)) : ["no link"];
};
// Where a matching differs from the first: its own links, and left nodes that lose theirs.
const changesOf = (k) => {
  const first = new Set(data.best[open].first);
  const changes = data.best[open].changes[k - 1];
  const added = changes.filter((edge) => !first.has(edge));
  const linked = new Set(added.map((edge) => ends[0][edge]));
  const parts = added.map(pairName);
  changes.filter((edge) => first.has(edge) && !linked.has(ends[0][edge]))
    .forEach((edge) => parts.push([named(names[0][ends[0][edge]]), " without a partner"]));
  return listOf(parts);
};

// ---- all together

const choose = (key) => (means, isKept) => show(means ? { [key]: Number(means[key]) } : null, isKept);
if (nComponents) {
  onRows(byId("component-table"), (means, isKept) => { if (means && isKept) openComponent(Number(means.component)); });
  onRows(byId("pair-table"), choose("edge"));
  onRows(byId("best-table"), choose("matching"));
  onNodes();
  let later = 0;
  byId("find").addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(find, 120);
  });
  byId("find").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(later);
    find();
    if (listed.length) openComponent(listed[0]);
  });
  byId("more-components").addEventListener("click", () => { nListed += AT_ONCE; listComponents(); });
  byId("more-pairs").addEventListener("click", () => { nPairs += AT_ONCE; listPairs(); });
  listComponents();
  openComponent(0);
  keepDrawn(canvas, drawEdges);
}
