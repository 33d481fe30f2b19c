// The document, the state, elements, numbers. Text is only ever set as text, never as markup.

const doc = JSON.parse(document.getElementById('data').textContent);
const texts = JSON.parse(document.getElementById('texts').textContent);
const VERDICTS = Object.keys(texts.verdicts);
const parts = doc.parts ?? [];
const slider = doc.slider ?? null;
const gapName = doc.gap?.name ?? 'gap';
const SVG = 'http://www.w3.org/2000/svg'; // a name, not an address
const $ = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'text') node.textContent = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Text that came from the data: its direction is its own.
const own = (text, tag = 'bdi') => el(tag, { dir: tag === 'bdi' ? null : 'auto', text });

const UNKNOWN = '–';
const known = (value) => value !== null && value !== undefined;
const format = {
  gap: (v) => (known(v) ? v.toFixed(3) : UNKNOWN),
  percent: (v) => (known(v) ? `${(100 * v).toFixed(1)}\u00a0%` : UNKNOWN),
  count: (v) => (typeof v === 'number' ? v.toLocaleString('en') : (v ?? UNKNOWN)),
  short: (v) => (known(v) ? String(Number(v.toPrecision(4))) : UNKNOWN),
  range: (low, high, how) => (known(low) && known(high) ? `${how(low)} to ${how(high)}` : ''),
};

// The state. `set` calls every watcher of one of the names that changed.
const state = {
  part: 0,
  arm: parts[0]?.chosen ?? 0,
  site: null,
  method: null,
  hover: null,
  hidden: new Set(),
  sort: 'gap',
  down: true,
  text: '',
  verdict: null,
  step: slider?.start ?? 0,
};
const watchers = [];
function watch(names, update) {
  watchers.push([names, update]);
}
function set(change) {
  const changed = Object.keys(change).filter((name) => state[name] !== change[name]);
  if (!changed.length) return;
  Object.assign(state, change);
  for (const [names, update] of watchers) if (names.some((name) => changed.includes(name))) update();
}

const part = () => parts[state.part];
// A name that is only a number gets the word before it.
const siteName = (i) => {
  const name = String(part().sites.name[i]);
  return /^\d+$/.test(name) ? `site ${name}` : name;
};
const methodOf = (arm) => part().arms[arm]?.method ?? null;
const slides = () => slider !== null && state.part === 0 && state.arm === (parts[0].chosen ?? 0);
const moved = () => slides() && state.step !== slider.start;

// The numbers of all sites as they are shown now: those of an arm, or of another target.
function shown() {
  const arm = part().arms[state.arm];
  if (!moved()) return { ...arm, target: arm.target ?? doc.target ?? null };
  const at = (name) => slider[name]?.[state.step] ?? null;
  return {
    ...arm,
    target: slider.targets[state.step],
    gap: at('gap'),
    gap_low: at('gap_low'),
    gap_high: at('gap_high'),
    accuracy: at('accuracy'),
    accuracy_low: null,
    accuracy_high: null,
    verdict: at('verdict'),
    randomised: at('randomised'),
    rows: null,
    why: null,
  };
}

function counts(verdicts) {
  const found = new Map();
  for (const verdict of verdicts ?? []) found.set(verdict, (found.get(verdict) ?? 0) + 1);
  return found;
}

// At most once in a frame, however often it is asked for.
function framed(work) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      work();
    });
  };
}

function onWidth(node, work) {
  let before = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width && width !== before) {
      before = width;
      work(width);
    }
  }).observe(node);
}

// One window's storage may be closed to us (a frame, a strict setting): then nothing is stored.
const storage = {
  get(store, key) {
    try {
      return window[store].getItem(`pfedfair-${key}`);
    } catch {
      return null;
    }
  },
  set(store, key, value) {
    try {
      window[store].setItem(`pfedfair-${key}`, value);
    } catch {
      // nothing to be done
    }
  },
};
