// What both explorers share: data, numbers in words, canvases, tables with arrow keys.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// Arrays are base64 of little-endian numbers.
const unpack = ({ kind, bytes }) => {
  const raw = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
  return new { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array }[kind](raw.buffer);
};

// Never rounded to a false 0 or 100; explorer_page.percent writes them alike.
const percent = (chance) => {
  const share = 100 * chance;
  if (share === 0 || share === 100) return `${share} %`;
  if (share < 0.0005) return "< 0.001 %";
  if (share > 99.99) return "> 99.99 %";
  return `${share.toFixed(share >= 1 && share <= 99 ? 1 : share >= 0.01 ? 2 : 3)} %`;
};
const number = (x, digits = 4) => String(Number(x.toPrecision(digits))).replace("-", "−");
const signed = (x) => (x > 0 ? "+" : "") + number(x, 3);
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// Text goes in as text, never as markup.
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const LONG_WORD = 20;
// A name of words joined by underscores breaks after one of them, not within a word.
const nameCell = (name) => {
  const words = String(name).split(/(?<=_)/);
  const isLong = words.some((word) => word.length > LONG_WORD);
  return make("th", { scope: "row", ...(isLong ? {} : { class: "name" }) },
    make("bdi", {}, ...words.flatMap((word, k) => (k ? [make("wbr"), word] : [word]))));
};
const named = (text) => make("bdi", {}, String(text));

// ---- canvases

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
// As in style.css, but never the dark ones: what is printed stands on white paper.
const PRINTED = {
  ink: "#1c2024", soft: "#555f69", paper: "#ffffff", rule: "#d5dae0", blue: "#0072b2",
  vermilion: "#c65200", green: "#00795a", purple: "#a8457a", other: "#6b747d",
  cold: "#ffffff", hot: "#08406b",
};
let theme = {};
const readTheme = (isPrinted) => {
  for (const name of Object.keys(PRINTED)) theme[name] = isPrinted ? PRINTED[name] : colour(name);
};
const drawings = [];
const redraw = () => drawings.forEach((draw) => draw());
// Draw now, and again whenever width, colours or paper change.
const keepDrawn = (canvas, draw) => {
  drawings.push(draw);
  let width = 0;
  new ResizeObserver(() => {
    if (canvas.clientWidth !== width) {
      width = canvas.clientWidth;
      draw();
    }
  }).observe(canvas.parentElement);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readTheme(false);
  redraw();
});
addEventListener("beforeprint", () => { readTheme(true); redraw(); });
addEventListener("afterprint", () => { readTheme(false); redraw(); });
readTheme(false);

const FONT = "12px system-ui, sans-serif";
// Give a canvas its height, sharp on fine screens; return what to draw with.
const prepare = (canvas, height) => {
  const width = canvas.parentElement.clientWidth;
  const scale = Math.min(devicePixelRatio || 1, 30000 / Math.max(width, height, 1));
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = FONT;
  pen.textBaseline = "middle";
  return [pen, width];
};
const shorten = (pen, text, room) => {
  if (pen.measureText(text).width <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= room) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
};
const widest = (pen, texts, most) =>
  Math.min(most, Math.max(...texts.map((text) => pen.measureText(text.slice(0, 80)).width)));
const where = (event) => {
  const box = event.currentTarget.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// ---- tables whose rows begin with a button

const rowButton = (means, words, isFirst) => {
  const button = make("button", { type: "button", tabindex: isFirst ? 0 : -1 },
    make("span", { class: "clip" }, ...words));
  Object.assign(button.dataset, means);
  return button;
};
// Up, down, Home and End go through the rows; `choose` is told of focus, hover and click.
const onRows = (table, choose) => {
  if (!table) return;
  const buttons = () => [...table.querySelectorAll("tbody button")];
  const target = (event) => event.target.closest("tbody tr")?.querySelector("button");
  table.addEventListener("keydown", (event) => {
    const all = buttons();
    const here = all.indexOf(document.activeElement);
    const next = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (here < 0 || next === undefined) return;
    event.preventDefault();
    all[Math.max(0, Math.min(all.length - 1, next))].focus();
  });
  table.addEventListener("focusin", (event) => {
    const button = target(event);
    if (!button) return;
    buttons().forEach((other) => { other.tabIndex = other === button ? 0 : -1; });
    choose(button.dataset, true);
  });
  table.addEventListener("click", (event) => {
    const button = target(event);
    if (button) choose(button.dataset, true);
  });
  table.addEventListener("pointerover", (event) => {
    const button = target(event);
    if (button && event.pointerType !== "touch") choose(button.dataset, false);
  });
  table.addEventListener("pointerleave", () => choose(null, false));
};

// ---- details

// A table of the details, which scrolls if it is too wide.
const scrolling = (table) => make("div",
  { class: "scroll", tabindex: 0, role: "region", "aria-label": table.caption.textContent }, table);
// A table of what every feature adds; bars to both sides, the longest first.  Features that
// add nothing are folded away.
const contributionTable = (caption, heads, rows) => {
  const idle = rows.filter((row) => !row.share);
  const most = Math.max(...rows.map((row) => Math.abs(row.share)), 1e-300);
  const body = make("tbody");
  for (const row of rows.filter((row) => row.share).sort((a, b) => Math.abs(b.share) - Math.abs(a.share))) {
    const halves = [make("span", { class: "half" }), make("span", { class: "half" })];
    const bar = make("span", { class: `bar ${row.share > 0 ? "up" : "down"}` });
    bar.style.width = `${(100 * Math.abs(row.share)) / most}%`;
    halves[row.share > 0 ? 1 : 0].append(bar);
    body.append(make("tr", {},
      nameCell(row.name),
      ...row.cells.map((text) => make("td", {}, text)),
      make("td", { class: "bars", "aria-hidden": "true" }, ...halves)));
  }
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)),
    make("td", { "aria-hidden": "true" }));
  const table = scrolling(make("table", {}, make("caption", {}, caption), make("thead", {}, head), body));
  if (!idle.length) return make("div", {}, table);
  const words = `${count(idle.length, heads[0])} ${idle.length === 1 ? "adds" : "add"} nothing`;
  return make("div", {}, table, make("details", { class: "idle" }, make("summary", {}, words),
    make("p", {}, ...idle.flatMap((row, k) => [k ? ", " : "", named(row.name)]))));
};
// On narrow screens details are shut, but for their first words, until something is selected.
const panel = document.querySelector(".details");
const openDetails = (isOpen) => {
  panel.classList.toggle("is-shut", !isOpen);
  byId("details-switch").setAttribute("aria-expanded", String(isOpen));
  byId("details-switch").textContent = isOpen ? "Close" : "Open";
};
byId("details-switch").hidden = false;
byId("details-switch").addEventListener("click", () => openDetails(panel.classList.contains("is-shut")));
const onSelect = (event) => {
  const isByKey = event.type === "focusin" && event.target.matches(":focus-visible");
  const isOne = event.target.closest("tbody tr, .sides button, canvas");
  if (isOne && !event.target.closest("#component-table") && (isByKey || event.type === "click")) openDetails(true);
};
for (const kind of ["click", "focusin"]) document.querySelector(".charts").addEventListener(kind, onSelect);
openDetails(false);
const tell = (words, ...parts) => {
  byId("status").replaceChildren(...words);
  byId("details").replaceChildren(...parts);
};
