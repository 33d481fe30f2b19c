// All sites: which of them, in which order, by which method; the list and the picture follow.

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const WORST = ['exceeds', 'not clear', 'few', 'same', 'none', 'within', null];
const COLUMNS = [
  ['name', 'site', 'name'],
  ['gap', `gap (${gapName})`, 'gap'],
  ['accuracy', 'accuracy', 'accuracy'],
  ['rows', 'held-out rows', 'count'],
  ['randomised', 'random draws', 'randomised'],
  ['verdict', 'verdict', 'verdict'],
];

function stripSection(root) {
  let numbers; // as they are shown now
  let order = []; // the sites to show, sorted
  let top; // the largest gap that fits
  let lower = []; // names to search in
  let rank = []; // places of the names in the alphabet
  const now = () => ({ order, numbers, top });

  // The table
  const heads = new Map();
  const axis = svg('svg', { class: 'axis', 'aria-hidden': 'true' });
  const headCell = (kind, ...children) =>
    el('th', { role: 'columnheader', scope: 'col', class: kind }, children);
  const headRow = COLUMNS.map(([key, text, kind]) => {
    const press = el('button', { type: 'button', onclick: () => sortBy(key) }, el('span', { text }));
    heads.set(key, headCell(kind, press, el('span', { class: 'paper', 'aria-hidden': 'true', text })));
    return heads.get(key);
  });
  const interval = el('span', { class: 'quiet', text: 'interval, drawn' });
  headRow.splice(2, 0, headCell('chart', axis, interval));
  const caption = el('caption', { class: 'quiet' });
  const thead = el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, headRow));
  const body = el('tbody', { role: 'rowgroup' });
  const table = el('table', { role: 'table', class: 'sites' }, caption, thead, body);
  const words = 'All sites: arrow keys go from site to site';
  const box = el('div', { class: 'rows', role: 'region', 'aria-label': words, tabindex: 0 }, table);
  const rows = siteRows(box, table, body, now);

  // What stands around it
  const field = (id, text, node, kind = '') =>
    el('label', { for: id, class: `field ${kind}` }, el('span', { text }), node);
  const search = el('input', {
    type: 'search',
    id: 'find',
    placeholder: 'part of a name',
    autocomplete: 'off',
  });
  search.addEventListener('input', () => set({ text: search.value }));
  const arms = el('select', { id: 'arm' });
  arms.addEventListener('change', () => set({ arm: Number(arms.value), method: null }));
  const armField = field('arm', 'shown', arms);
  const sorts = el(
    'select',
    { id: 'sort' },
    COLUMNS.map(([key, text]) => el('option', { value: key, text })),
  );
  sorts.addEventListener('change', () => set({ sort: sorts.value, down: sorts.value !== 'name' }));
  const chips = el('div', {
    class: 'chips',
    role: 'group',
    'aria-label': 'Show only sites with this verdict',
  });
  const status = el('p', { class: 'status', role: 'status' });
  const marked = el('p', { class: 'marked' });
  const frame = el('div', { class: 'frame' });
  const drawOverview = overviewChart(frame, now, (place) => {
    set({ site: order[place] });
    rows.goTo(place, false);
  });
  const overviewSoon = framed(drawOverview);
  root.append(
    el(
      'div',
      { class: 'bar' },
      armField,
      field('find', 'find a site', search),
      field('sort', 'sort by', sorts, 'narrow'),
      chips,
    ),
    frame,
    box,
    el('div', { class: 'under' }, status, marked),
  );

  function sortBy(key) {
    set(state.sort === key ? { down: !state.down } : { sort: key, down: key !== 'name' });
  }

  // With another target the axis may grow, but it does not shrink.
  function limits() {
    const reach = (values) => {
      const found = (values ?? []).filter(known).sort((a, b) => a - b);
      return (found.length > 50 ? found[Math.floor(0.98 * (found.length - 1))] : found.at(-1)) ?? 0.1;
    };
    const { target } = numbers;
    const arm = part().arms[state.arm];
    top =
      1.04 *
      Math.max(
        reach(numbers.gap_high ?? numbers.gap),
        reach(arm.gap_high ?? arm.gap),
        1.5 * (target ?? 0),
        0.02,
      );
    const text = (v, kind, label) => svg('text', { x: `${(100 * v) / top}%`, y: 12, class: kind, text: label });
    const apart = ticks(0, top, 3).filter((v) => !known(target) || Math.abs(v - target) > 0.22 * top);
    const name = known(target)
      ? [text(target, target < 0.2 * top ? 'first on' : 'on', `target ${format.short(target)}`)]
      : [];
    axis.replaceChildren(...apart.map((v) => text(v, v === 0 ? 'first' : null, format.short(v))), ...name);
  }

  function reorder() {
    const { name, n_test: rows } = part().sites;
    const find = state.text.trim().toLowerCase();
    const { verdict } = numbers;
    order = [...name.keys()].filter(
      (i) => (!find || lower[i].includes(find)) && (!state.verdict || verdict?.[i] === state.verdict),
    );
    const by = {
      name: (i) => rank[i],
      gap: (i) => numbers.gap[i],
      accuracy: (i) => numbers.accuracy?.[i],
      rows: (i) => rows?.[i],
      randomised: (i) => numbers.randomised?.[i],
      verdict: (i) => -WORST.indexOf(verdict?.[i] ?? null),
    }[state.sort];
    const sign = state.down ? -1 : 1;
    const keys = [];
    for (const i of order) keys[i] = by(i);
    order.sort((a, b) => {
      const [x, y] = [keys[a], keys[b]];
      if (!known(x) || !known(y)) return known(y) - known(x) || rank[a] - rank[b]; // not known: last
      return sign * (x - y) || rank[a] - rank[b];
    });
    const way = state.down ? 'descending' : 'ascending';
    for (const [key, cell] of heads) cell.setAttribute('aria-sort', key === state.sort ? way : 'none');
    sorts.value = state.sort;
    table.setAttribute('aria-rowcount', order.length + 1);
    const n = format.count(name.length);
    status.textContent =
      order.length === name.length ? `${n} sites` : `${format.count(order.length)} of ${n} sites shown`;
  }

  function judge() {
    const found = counts(numbers.verdict);
    const chip = (verdict) => {
      const on = state.verdict === verdict;
      const more = { 'aria-pressed': String(on), title: texts.verdicts[verdict] };
      const press = el(
        'button',
        { type: 'button', class: 'chip', ...more },
        verdictMark(verdict),
        `${verdict} `,
      );
      press.append(el('b', { text: format.count(found.get(verdict) ?? 0) }));
      press.addEventListener('click', () => set({ verdict: on ? null : verdict }));
      return press;
    };
    const there = VERDICTS.filter((verdict) => found.has(verdict) || verdict === state.verdict);
    const at = [...chips.children].indexOf(document.activeElement);
    chips.replaceChildren(...there.map(chip));
    chips.children[at]?.focus();
    caption.textContent = `All sites: ${numbers.words}${known(numbers.target) ? `, target ${format.short(numbers.target)}` : ''}`;
  }

  function note() {
    if (state.site === null) {
      marked.textContent = 'Choose a site to see it everywhere on this page.';
      return;
    }
    const off = el('button', {
      type: 'button',
      class: 'link',
      text: 'unmark',
      onclick: () => set({ site: null }),
    });
    const link = el('a', { href: '#site', text: 'See this site' });
    marked.replaceChildren('Marked: ', own(siteName(state.site)), '. ', link, ' ', off);
  }

  function newPart() {
    const names = part().sites.name;
    lower = names.map((name) => String(name).toLowerCase());
    rank = [];
    const sorted = [...names.keys()].sort((a, b) => collator.compare(names[a], names[b]));
    sorted.forEach((i, k) => {
      rank[i] = k;
    });
    const groups = new Map();
    part().arms.forEach((arm, k) => {
      const option = el('option', { value: k, text: arm.words });
      groups.set(arm.method, [...(groups.get(arm.method) ?? []), option]);
    });
    const grouped = ([label, options]) =>
      options.length > 1 ? [el('optgroup', { label }, options)] : options;
    arms.replaceChildren(...[...groups].flatMap(grouped));
    armField.hidden = part().arms.length < 2;
    search.value = state.text;
  }
  function renew(up) {
    numbers = shown();
    arms.value = state.arm;
    const there = { accuracy: numbers.accuracy, count: part().sites.n_test, verdict: numbers.verdict };
    for (const key of Object.keys(there)) table.classList.toggle(`no-${key}`, !there[key]?.some(known));
    table.classList.toggle('no-randomised', !numbers.randomised?.some((v) => v > 0));
    limits();
    judge();
    reorder();
    rows.renew(up);
    overviewSoon();
  }

  watch(['part'], newPart);
  watch(['part', 'arm', 'sort', 'down', 'text', 'verdict'], () => renew(true));
  watch(['step'], () => renew(false));
  watch(['site', 'part'], () => {
    note();
    rows.renew(false);
    overviewSoon();
  });
  newPart();
  renew(true);
  note();
  rows.measure();
  onWidth(root, () => {
    rows.measure();
    drawOverview();
  });
  return { order: () => order };
}
