// Marks, scales and the note beside the pointer: what all charts share.

// Eleven marks, in matplotlib's order of the figures: a method has the same one everywhere.
const turn = (n, start) =>
  Array.from({ length: n }, (_, k) => {
    const angle = start + (2 * Math.PI * k) / n;
    return [Math.cos(angle), Math.sin(angle)];
  });
const UP = -Math.PI / 2;
const SHAPES = [
  null,
  [
    [-0.8, -0.8],
    [0.8, -0.8],
    [0.8, 0.8],
    [-0.8, 0.8],
  ],
  turn(3, UP),
  turn(4, UP),
  turn(3, -UP),
  [
    [-0.35, -1],
    [0.35, -1],
    [0.35, -0.35],
    [1, -0.35],
    [1, 0.35],
    [0.35, 0.35],
    [0.35, 1],
    [-0.35, 1],
    [-0.35, 0.35],
    [-1, 0.35],
    [-1, -0.35],
    [-0.35, -0.35],
  ],
  [
    [-1, -0.6],
    [-0.6, -1],
    [0, -0.4],
    [0.6, -1],
    [1, -0.6],
    [0.4, 0],
    [1, 0.6],
    [0.6, 1],
    [0, 0.4],
    [-0.6, 1],
    [-1, 0.6],
    [-0.4, 0],
  ],
  turn(3, Math.PI),
  turn(3, 0),
  turn(5, UP),
  turn(6, UP),
];
const DASHES = [null, '7 3', '2 3', '9 3 2 3'];

function mark(kind, size, x = 0, y = 0) {
  const corners = SHAPES[kind % SHAPES.length];
  if (!corners) {
    const r = size * 0.9;
    return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  }
  const at = ([dx, dy]) => `${(x + size * dx).toFixed(2)} ${(y + size * dy).toFixed(2)}`;
  return `M${corners.map(at).join('L')}z`;
}

// A verdict is a shape as well as a colour.
const VERDICT_MARKS = { within: 0, 'not clear': 3, exceeds: 2, few: 6, same: 1, none: 6 };
const verdictClass = (verdict) => `v-${(verdict ?? 'unknown').replace(' ', '-')}`;

function verdictMark(verdict) {
  const path = svg('path', { d: mark(VERDICT_MARKS[verdict] ?? 0, 5), class: 'mark' });
  return svg(
    'svg',
    { class: `sign ${verdictClass(verdict)}`, viewBox: '-6 -6 12 12', 'aria-hidden': 'true' },
    path,
  );
}

function swatch(curve) {
  const line = svg('line', { x1: 0, x2: 30, y1: 7, y2: 7, 'stroke-dasharray': dash(curve) });
  const dot = svg('path', { d: mark(markOf(curve), 5, 15, 7), class: 'mark' });
  const shape = curve.kind === 'frontier' ? [line] : curve.kind === 'constant' ? [dot] : [line, dot];
  return svg(
    'svg',
    { class: `swatch ${curveClass(curve)}`, viewBox: '0 0 30 14', 'aria-hidden': 'true' },
    shape,
  );
}
const markOf = (curve) => (curve.kind === 'constant' ? 6 : curve.marker);
const curveClass = (curve) => (curve.kind === 'method' ? `c${curve.colour % 7}` : curve.kind);
const dash = (curve) =>
  curve.kind === 'frontier' ? '5 4' : DASHES[Math.floor(curve.marker / 3) % DASHES.length];

function scale(low, high, from, to) {
  const span = high - low || 1;
  const at = (v) => from + ((v - low) / span) * (to - from);
  at.low = low;
  at.high = high;
  return at;
}

// Round numbers between two ends, about `n` of them.
function ticks(low, high, n) {
  const raw = (high - low) / Math.max(n, 1) || 1;
  const ten = 10 ** Math.floor(Math.log10(raw));
  const step = ten * ([1, 2, 2.5, 5, 10].find((k) => k * ten >= raw * 0.999) ?? 10);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k += 1) {
    found.push(Number((k * step).toPrecision(10)));
  }
  return found;
}

// Text that stands to the right, one line under the other, as near to where it belongs as it can.
function spread(items, gap, top, bottom) {
  items.sort((a, b) => a.y - b.y);
  let last = top - gap;
  for (const item of items) {
    item.at = Math.max(item.y, last + gap);
    last = item.at;
  }
  let next = bottom + gap;
  for (const item of [...items].reverse()) {
    item.at = Math.min(item.at, next - gap);
    next = item.at;
  }
}

const tip = el('div', { class: 'tip', 'aria-hidden': 'true', hidden: true });
document.body.append(tip);
function showTip(x, y, lines) {
  tip.replaceChildren(
    ...lines.filter(Boolean).map((line, k) => el(k ? 'p' : 'b', { dir: 'auto', text: line })),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + 14), window.innerWidth - width - 8);
  const over = y - height - 14;
  tip.style.transform = `translate(${left}px, ${over > 8 ? over : y + 18}px)`;
}
const hideTip = () => {
  tip.hidden = true;
};
window.addEventListener('scroll', () => document.activeElement?.matches('.stage') || hideTip(), {
  passive: true,
});
window.addEventListener('keydown', (event) => event.key === 'Escape' && hideTip());
