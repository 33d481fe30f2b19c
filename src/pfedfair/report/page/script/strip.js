// All sites: a list in which only the rows that are seen exist.

const FEW = 60; // up to so many sites all rows exist, and nothing scrolls
const SPARE = 6; // rows beyond each edge
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const COLUMNS = [
  ['name', 'site', 'name'], ['gap', `gap (${gapName})`, 'gap'], ['accuracy', 'accuracy', 'accuracy'],
  ['rows', 'held-out rows', 'people'], ['verdict', 'verdict', 'verdict'],
];

function stripSection(root) {
  let numbers; // as they are shown now
  let order = []; // the sites to show, sorted
  let top; // the largest gap that fits
  let all = false; // whether every row exists: for the printer
  let active = 0; // the row that the keyboard is at
  let lower = [];
  let rank = [];
  const body = el('tbody', { role: 'rowgroup' });
  const heads = new Map();
  const axis = svg('svg', { class: 'axis', 'aria-hidden': 'true' });
  const headRow = el('tr', { role: 'row' }, COLUMNS.map(([key, text, kind]) => {
    const press = el('button', { type: 'button', onclick: () => sortBy(key) }, el('span', { text }));
    const cell = el('th', { role: 'columnheader', scope: 'col', class: kind }, press, el('span', { class: 'paper', 'aria-hidden': 'true', text }));
    heads.set(key, cell);
    return key === 'gap' ? [cell, el('th', { role: 'columnheader', scope: 'col', class: 'chart' }, axis, el('span', { class: 'quiet', text: 'interval, drawn' }))] : cell;
  }));
  const caption = el('caption', { class: 'quiet' });
  const table = el('table', { role: 'table', class: 'sites' }, caption, el('thead', { role: 'rowgroup' }, headRow), body);
  const box = el('div', { class: 'rows', role: 'region', 'aria-label': 'All sites: arrow keys go from site to site', tabindex: 0 }, table);
  const status = el('p', { class: 'status', role: 'status' });
  const marked = el('p', { class: 'marked' });
  const search = el('input', {
    type: 'search', id: 'find', placeholder: 'part of a name', autocomplete: 'off', spellcheck: 'false',
    oninput: () => set({ text: search.value }),
  });
  const arms = el('select', { id: 'arm', onchange: () => set({ arm: Number(arms.value), method: null }) });
  const armLabel = el('label', { for: 'arm', class: 'field' }, el('span', { text: 'shown' }), arms);
  const sorts = el('select', { id: 'sort', onchange: () => set({ sort: sorts.value, down: sorts.value !== 'name' }) },
    COLUMNS.map(([key, text]) => el('option', { value: key, text })));
  const chips = el('div', { class: 'chips', role: 'group', 'aria-label': 'Show only sites with this verdict' });
  const frame = el('div', { class: 'frame' });
  root.append(
    el('div', { class: 'bar' }, armLabel,
      el('label', { for: 'find', class: 'field' }, el('span', { text: 'find a site' }), search),
      el('label', { for: 'sort', class: 'field narrow' }, el('span', { text: 'sort by' }), sorts), chips),
    frame, box, el('div', { class: 'under' }, status, marked));

  function sortBy(key) {
    set(state.sort === key ? { down: !state.down } : { sort: key, down: key !== 'name' });
  }

  // Rows: the same elements again and again, filled with another site.
  function makeRow() {
    const name = el('bdi');
    const press = el('button', { type: 'button', class: 'pick', tabindex: -1 }, name);
    const target = svg('line', { class: 'target', y1: 0, y2: '100%' });
    const span = svg('line', { class: 'span', y1: '50%', y2: '50%' });
    const path = svg('path', { class: 'mark' });
    const dot = svg('svg', { y: '50%', class: 'dot' }, path);
    const cells = Object.fromEntries(['gap', 'accuracy', 'people'].map((key) => [key, el('td', { role: 'cell', class: key })]));
    const word = el('span');
    const verdict = el('td', { role: 'cell', class: 'verdict' });
    const row = el('tr', { role: 'row' },
      el('th', { role: 'rowheader', scope: 'row', class: 'name' }, press), cells.gap,
      el('td', { role: 'cell', class: 'chart' }, svg('svg', { class: 'line', 'aria-hidden': 'true' }, target, span, dot), el('span', { class: 'quiet' })),
      cells.accuracy, cells.people, verdict);
    row.parts = { name, press, target, span, path, dot, cells, word, verdict, quiet: row.querySelector('.chart .quiet') };
    return row;
  }
  const percent = (v) => `${Math.min(100, (100 * v) / top).toFixed(2)}%`;
  function fillRow(row, place) {
    const i = order[place];
    const { name, press, target, span, path, dot, cells, verdict, quiet } = row.parts;
    const sites = part().sites;
    if (row.contains(document.activeElement) && row.site !== i) box.focus({ preventScroll: true });
    row.site = i;
    row.place = place;
    row.setAttribute('aria-rowindex', place + 2);
    name.textContent = sites.name[i];
    press.title = sites.name[i];
    press.tabIndex = place === active ? 0 : -1;
    press.setAttribute('aria-pressed', state.site === i);
    row.classList.toggle('on', state.site === i);
    const judged = numbers.verdict?.[i] ?? null;
    const said = verdictClass(judged);
    if (row.said !== said) {
      row.classList.remove(row.said);
      row.classList.add(said);
      row.said = said;
      path.setAttribute('d', mark(VERDICT_MARKS[judged] ?? 0, 5));
      verdict.replaceChildren(...(judged ? [verdictMark(judged), el('span', { text: judged })] : []));
    }
    const gap = numbers.gap[i];
    dot.setAttribute('visibility', known(gap) ? 'visible' : 'hidden');
    if (known(gap)) dot.setAttribute('x', percent(gap));
    const low = numbers.gap_low?.[i];
    const high = numbers.gap_high?.[i];
    span.setAttribute('visibility', known(low) ? 'visible' : 'hidden');
    if (known(low) && known(high)) {
      span.setAttribute('x1', percent(low));
      span.setAttribute('x2', percent(high));
    }
    quiet.textContent = say.range(low, high, say.gap);
    target.setAttribute('visibility', known(numbers.target) ? 'visible' : 'hidden');
    if (known(numbers.target)) {
      target.setAttribute('x1', percent(numbers.target));
      target.setAttribute('x2', percent(numbers.target));
    }
    cells.gap.textContent = say.gap(gap);
    cells.accuracy.textContent = say.percent(numbers.accuracy?.[i]);
    cells.people.textContent = say.count(sites.n_test?.[i]);
  }

  function draw() {
    const n = order.length;
    const whole = all || n <= FEW;
    box.classList.toggle('scrolls', !whole);
    const height = parseFloat(getComputedStyle(box).getPropertyValue('--row')) || 36;
    const room = box.clientHeight || 600;
    const first = whole ? 0 : Math.max(0, Math.min(Math.floor(box.scrollTop / height), n - 1) - SPARE);
    const last = whole ? n : Math.min(n, first + Math.ceil(room / height) + 2 * SPARE);
    body.style.paddingTop = `${whole ? 0 : first * height}px`;
    body.style.paddingBottom = `${whole ? 0 : (n - last) * height}px`;
    const need = last - first;
    while (body.children.length > need) body.lastElementChild.remove();
    while (body.children.length < need) body.append(makeRow());
    if (!need) return;
    // A place keeps its element while it is seen: what has the focus stays.
    const rows = [...body.children];
    const byPlace = new Map(rows.map((row) => [row.place, row]));
    const free = rows.filter((row) => !(row.place >= first && row.place < last && byPlace.get(row.place) === row));
    let moved = false;
    const line = [];
    for (let place = first; place < last; place += 1) {
      const there = byPlace.get(place);
      const row = there && !free.includes(there) ? there : free.shift();
      if (row !== body.children[place - first]) moved = true;
      fillRow(row, place);
      line.push(row);
    }
    if (moved) line.forEach((row, k) => body.children[k] !== row && body.insertBefore(row, body.children[k] ?? null));
  }
  const drawSoon = framed(draw);
  box.addEventListener('scroll', drawSoon, { passive: true });

  function limits() {
    const highs = (values) => (values ?? []).filter(known);
    const reach = (values) => {
      const found = highs(values).sort((a, b) => a - b);
      return (found.length > 50 ? found[Math.floor(0.98 * (found.length - 1))] : found.at(-1)) ?? 0.1;
    };
    const arm = part().arms[state.arm]; // with another target the axis may grow, not shrink
    top = 1.04 * Math.max(reach(numbers.gap_high ?? numbers.gap), reach(arm.gap_high ?? arm.gap), 1.5 * (numbers.target ?? 0), 0.02);
    const named = numbers.target ?? null;
    const text = (v, kind, words) => svg('text', { x: `${(100 * v) / top}%`, y: 12, class: kind, text: words });
    const apart = ticks(0, top, 3).filter((v) => named === null || Math.abs(v - named) > 0.22 * top);
    axis.replaceChildren(...apart.map((v) => text(v, v === 0 ? 'first' : null, say.short(v))), ...(named === null ? [] : [text(named, named < 0.2 * top ? 'first on' : 'on', `target ${say.short(named)}`)]));
  }

  const overview = overviewChart(frame, () => ({ order, numbers, top }), (place) => {
    set({ site: order[place] });
    goTo(place, false);
  });
  const overviewSoon = framed(overview);

  function goTo(place, focus) {
    active = Math.max(0, Math.min(place, order.length - 1));
    const height = parseFloat(getComputedStyle(box).getPropertyValue('--row')) || 36;
    const head = table.tHead.offsetHeight;
    if (box.classList.contains('scrolls')) {
      if (active * height < box.scrollTop) box.scrollTop = active * height;
      const end = (active + 1) * height - box.clientHeight + head + 2;
      if (end > box.scrollTop) box.scrollTop = end;
    }
    draw();
    if (focus) [...body.children].find((row) => row.place === active)?.querySelector('button').focus();
  }
  box.addEventListener('keydown', (event) => {
    if (event.target.closest('thead')) return;
    const page = Math.max(1, Math.floor(box.clientHeight / 40) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !order.length) return;
    event.preventDefault();
    goTo(event.target === box ? active : active + step, true);
  });
  body.addEventListener('click', (event) => {
    const row = event.target.closest('tr');
    if (!row || (window.getSelection()?.toString() && !event.target.closest('button'))) return;
    active = row.place;
    set({ site: state.site === row.site ? null : row.site });
  });

  function reorder() {
    const { name, n_test: people } = part().sites;
    const find = state.text.trim().toLowerCase();
    const judged = numbers.verdict;
    order = [];
    for (let i = 0; i < name.length; i += 1) {
      if ((!find || lower[i].includes(find)) && (!state.verdict || judged?.[i] === state.verdict)) order.push(i);
    }
    const place = { above: 0, 'not clear': 1, few: 2, same: 3, none: 4, within: 5 };
    const by = {
      name: (i) => rank[i], gap: (i) => numbers.gap[i], accuracy: (i) => numbers.accuracy?.[i],
      rows: (i) => people?.[i], verdict: (i) => -(place[judged?.[i]] ?? 6),
    }[state.sort];
    const sign = state.down ? -1 : 1;
    const keys = order.map(by);
    const at = new Map(order.map((i, k) => [i, keys[k]]));
    order.sort((a, b) => {
      const [x, y] = [at.get(a), at.get(b)];
      if (!known(x) || !known(y)) return known(y) - known(x) || rank[a] - rank[b];
      return sign * (x - y) || rank[a] - rank[b];
    });
    for (const [key, cell] of heads) cell.setAttribute('aria-sort', key !== state.sort ? 'none' : state.down ? 'descending' : 'ascending');
    sorts.value = state.sort;
    active = Math.max(0, order.indexOf(state.site));
    table.setAttribute('aria-rowcount', order.length + 1);
    status.textContent = order.length === name.length ? `${say.count(name.length)} sites` : `${say.count(order.length)} of ${say.count(name.length)} sites shown`;
  }
  function judge() {
    const found = counts(numbers.verdict);
    const there = VERDICTS.filter((verdict) => found.has(verdict));
    if (state.verdict && !found.has(state.verdict)) there.push(state.verdict);
    chips.replaceChildren(...there.map((verdict) => el('button', {
      type: 'button', class: 'chip', 'aria-pressed': String(state.verdict === verdict), title: said.verdicts[verdict],
      onclick: () => set({ verdict: state.verdict === verdict ? null : verdict }),
    }, verdictMark(verdict), `${verdict} `, el('b', { text: say.count(found.get(verdict) ?? 0) }))));
    caption.textContent = `All sites: ${numbers.words}${known(numbers.target) ? `, target ${say.short(numbers.target)}` : ''}`;
  }
  function note() {
    const i = state.site;
    marked.replaceChildren(...(i === null ? ['Choose a site to see it everywhere on this page.'] : [
      'Marked: ', own(part().sites.name[i]), '. ', el('a', { href: '#site', text: 'See this site' }), ' ',
      el('button', { type: 'button', class: 'plain', text: 'unmark', onclick: () => set({ site: null }) })]));
  }
  function renew() {
    numbers = shown();
    limits();
    judge();
    reorder();
    drawSoon();
    overviewSoon();
  }
  function newPart() {
    const names = part().sites.name;
    lower = names.map((name) => name.toLowerCase());
    rank = [];
    [...names.keys()].sort((a, b) => collator.compare(names[a], names[b])).forEach((i, k) => { rank[i] = k; });
    const groups = Map.groupBy ? Map.groupBy(part().arms.keys(), methodOf) : null;
    const option = (k) => el('option', { value: k, text: part().arms[k].words });
    arms.replaceChildren(...(groups ? [...groups].map(([method, ks]) => (ks.length > 1 ? el('optgroup', { label: method }, ks.map(option)) : option(ks[0]))) : part().arms.map((_, k) => option(k))));
    armLabel.hidden = part().arms.length < 2;
    box.scrollTop = 0;
  }
  watch(['part'], newPart);
  watch(['part', 'arm', 'step'], renew);
  watch(['part', 'arm'], () => { arms.value = state.arm; });
  watch(['sort', 'down', 'text', 'verdict'], () => {
    judge();
    reorder();
    box.scrollTop = 0;
    drawSoon();
    overviewSoon();
  });
  watch(['site', 'part'], () => { note(); drawSoon(); overviewSoon(); });
  const print = (on) => { all = on; draw(); };
  window.addEventListener('beforeprint', () => print(true));
  window.addEventListener('afterprint', () => print(false));
  window.matchMedia('print').addEventListener('change', (event) => print(event.matches));
  newPart();
  arms.value = state.arm;
  search.value = state.text;
  renew();
  note();
  draw();
  onWidth(root, () => { draw(); overview(); });
  return { order: () => order };
}
