// A list of sites in which only the visible rows exist: the same elements, filled again.

const UNSCROLLED = 60; // up to so many sites all rows exist
const MARGIN = 6; // rows beyond each edge

// `now` returns the sites to show, in order, their numbers, and the largest gap that fits.
function siteRows(box, table, body, now) {
  let all = false; // whether every row exists: for the printer
  let active = 0; // the row that the keyboard is at
  let height = 36;
  let stamp = 0; // what was filled before this is old

  function makeRow() {
    const cell = (kind, ...children) => el('td', { role: 'cell', class: kind }, children);
    const made = {
      name: el('bdi'),
      target: svg('line', { class: 'target', y1: 0, y2: '100%' }),
      span: svg('line', { class: 'span', y1: '50%', y2: '50%' }),
      path: svg('path', { class: 'mark' }),
      quiet: el('span', { class: 'quiet' }),
      gap: cell('gap'),
      accuracy: cell('accuracy'),
      count: cell('count'),
      randomised: cell('randomised'),
      verdict: cell('verdict'),
    };
    made.dot = svg('svg', { y: '50%', class: 'dot' }, made.path);
    made.press = el('button', { type: 'button', class: 'pick', tabindex: -1 }, made.name);
    const line = svg('svg', { class: 'line', 'aria-hidden': 'true' }, made.target, made.span, made.dot);
    const head = el('th', { role: 'rowheader', scope: 'row', class: 'name' }, made.press);
    const chart = cell('chart', line, made.quiet);
    const { gap, accuracy, count, randomised, verdict } = made;
    const row = el('tr', { role: 'row' }, head, gap, chart, accuracy, count, randomised, verdict);
    row.made = made;
    return row;
  }

  function place(node, at, top) {
    const there = Object.values(at).every(known);
    node.setAttribute('visibility', there ? 'visible' : 'hidden');
    if (!there) return;
    for (const [key, v] of Object.entries(at)) {
      node.setAttribute(key, `${Math.min(100, (100 * v) / top).toFixed(2)}%`);
    }
  }

  function fillRow(row, at) {
    const { order, numbers, top } = now();
    const i = order[at];
    if (row.site === i && row.place === at && row.stamp === stamp) return;
    if (row.site !== i && row.contains(document.activeElement)) box.focus({ preventScroll: true });
    row.site = i;
    row.place = at;
    row.stamp = stamp;
    const { made } = row;
    const sites = part().sites;
    const chosen = state.site === i;
    row.setAttribute('aria-rowindex', at + 2);
    row.classList.toggle('on', chosen);
    made.name.textContent = sites.name[i];
    made.press.title = sites.name[i];
    made.press.tabIndex = at === active ? 0 : -1;
    made.press.setAttribute('aria-pressed', chosen);
    const judged = numbers.verdict?.[i] ?? null;
    if (row.judged !== judged || !made.path.hasAttribute('d')) {
      row.classList.remove(verdictClass(row.judged));
      row.classList.add(verdictClass(judged));
      row.judged = judged;
      made.path.setAttribute('d', mark(VERDICT_MARKS[judged] ?? 0, 5));
      made.verdict.replaceChildren(...(judged ? [verdictMark(judged), el('span', { text: judged })] : []));
    }
    const [low, high] = [numbers.gap_low?.[i], numbers.gap_high?.[i]];
    place(made.dot, { x: numbers.gap[i] }, top);
    place(made.span, { x1: low, x2: high }, top);
    place(made.target, { x1: numbers.target, x2: numbers.target }, top);
    made.quiet.textContent = format.range(low, high, format.gap);
    made.gap.textContent = format.gap(numbers.gap[i]);
    made.accuracy.textContent = format.percent(numbers.accuracy?.[i]);
    made.count.textContent = format.count(sites.n_test?.[i]);
    made.randomised.textContent = format.percent(numbers.randomised?.[i]);
  }

  function draw() {
    const n = now().order.length;
    const whole = all || n <= UNSCROLLED;
    box.classList.toggle('scrolls', !whole);
    const seen = Math.ceil((box.clientHeight || 600) / height);
    const top = Math.min(Math.floor(box.scrollTop / height), n - 1);
    const first = whole ? 0 : Math.max(0, top - MARGIN);
    const last = whole ? n : Math.min(n, first + seen + 2 * MARGIN);
    body.style.paddingTop = `${first * height}px`;
    body.style.paddingBottom = `${(n - last) * height}px`;
    while (body.children.length > last - first) body.lastElementChild.remove();
    while (body.children.length < last - first) body.append(makeRow());
    // A site that stays visible has the same element as before, and so the focus.
    const rows = [...body.children];
    const stays = new Map(
      rows.filter((row) => row.place >= first && row.place < last).map((row) => [row.place, row]),
    );
    const free = rows.filter((row) => stays.get(row.place) !== row);
    for (let at = first; at < last; at += 1) {
      const row = stays.get(at) ?? free.pop();
      if (body.children[at - first] !== row) body.insertBefore(row, body.children[at - first] ?? null);
      fillRow(row, at);
    }
  }
  const drawSoon = framed(draw);
  box.addEventListener('scroll', drawSoon, { passive: true });

  function goTo(at, focus) {
    active = Math.max(0, Math.min(at, now().order.length - 1));
    stamp += 1;
    if (box.classList.contains('scrolls')) {
      const end = (active + 1) * height - box.clientHeight + table.tHead.offsetHeight + 2;
      box.scrollTop = Math.min(Math.max(box.scrollTop, end), active * height);
    }
    draw();
    if (focus) [...body.children].find((row) => row.place === active)?.made.press.focus();
  }

  box.addEventListener('keydown', (event) => {
    if (event.target.closest('thead') || !now().order.length) return;
    const leaf = Math.max(1, Math.floor(box.clientHeight / height) - 2);
    const keys = { ArrowDown: 1, ArrowUp: -1, PageDown: leaf, PageUp: -leaf, Home: -Infinity, End: Infinity };
    if (!(event.key in keys)) return;
    event.preventDefault();
    goTo(event.target === box ? active : active + keys[event.key], true);
  });
  body.addEventListener('click', (event) => {
    const row = event.target.closest('tr');
    const reads = window.getSelection()?.toString() && !event.target.closest('button');
    if (!row || reads) return;
    active = row.place;
    set({ site: state.site === row.site ? null : row.site });
  });

  const print = (on) => {
    all = on;
    draw();
  };
  window.addEventListener('beforeprint', () => print(true));
  window.addEventListener('afterprint', () => print(false));
  window.matchMedia('print').addEventListener('change', (event) => print(event.matches));

  return {
    goTo,
    // Fill every row anew, in the next frame; `up`: from the first row on.
    renew(up) {
      stamp += 1;
      if (up) {
        box.scrollTop = 0;
        active = Math.max(0, now().order.indexOf(state.site));
      }
      drawSoon();
    },
    measure() {
      height = parseFloat(getComputedStyle(box).getPropertyValue('--row')) || 36;
      draw();
    },
  };
}
