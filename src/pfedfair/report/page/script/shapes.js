// What the model has learnt of each column; and an audit's measures by group.

const CATEGORIES = 14; // of a column, the most frequent ones

function shapesSection(root) {
  const y = commonScale(doc.shapes);
  const several = new Set(doc.shapes.map((shape) => shape.label)).size > 1;
  root.replaceChildren(
    el(
      'div',
      { class: 'shapes' },
      doc.shapes.map((shape) => {
        const [least, most] = [
          shape.added.indexOf(Math.min(...shape.added)),
          shape.added.indexOf(Math.max(...shape.added)),
        ];
        const words = `${shape.column}: adds least, ${format.short(shape.added[least])}, at ${shape.values[least]}; most, ${format.short(shape.added[most])}, at ${shape.values[most]}.`;
        const drawn = shape.kind === 'number' ? numberShape(shape, y, words) : categoryShape(shape, y, words);
        return el(
          'figure',
          {},
          el(
            'figcaption',
            {},
            own(shape.column, 'b'),
            several ? el('span', {}, ' for ', own(shape.label)) : null,
          ),
          drawn,
          known(shape.missing)
            ? el('p', { class: 'note', text: `missing: adds ${format.short(shape.missing)}` })
            : null,
        );
      }),
    ),
  );
}
// One scale for all columns: that of 99 of 100 rows; the rest is cut at its ends.
function commonScale(shapes) {
  const every = shapes.flatMap((shape) => shape.added.map((v, k) => [v, shape.rows?.[k] ?? 1]));
  every.sort(([a], [b]) => a - b);
  const all = every.reduce((sum, [, n]) => sum + n, 0);
  const at = (share) => {
    let sum = 0;
    return (every.find(([, n]) => (sum += n) >= share * all) ?? every.at(-1))[0];
  };
  return [Math.min(at(0.005), -0.25), Math.max(at(0.995), 0.25)];
}
function numberShape(shape, [low, high], words) {
  const [w, h] = [260, 150];
  const values = shape.values;
  const x = scale(values[0], values.at(-1), 30, w - 8);
  const y = scale(low, high, h - 24, 10);
  const inside = (v) => y(Math.max(low, Math.min(high, v)));
  const most = Math.max(...(shape.rows ?? []).filter(known), 1);
  const bin = Math.max(1, (w - 38) / Math.max(values.length, 1) - 0.5);
  const bars = (shape.rows ?? []).map((v, k) =>
    svg('rect', {
      class: 'count',
      x: x(values[k]) - bin / 2,
      width: bin,
      y: h - 24 - (34 * (v ?? 0)) / most,
      height: (34 * (v ?? 0)) / most,
    }),
  );
  const line = values.map((v, k) => `${x(v).toFixed(1)} ${inside(shape.added[k]).toFixed(1)}`).join('L');
  const zero = y(0);
  return svg(
    'svg',
    { viewBox: `0 0 ${w} ${h}`, class: 'shape', role: 'img', 'aria-label': words },
    bars,
    svg('line', { class: 'grid', x1: 30, x2: w - 8, y1: zero, y2: zero }),
    ticks(low, high, 3).map((v) => svg('text', { class: 'end', x: 26, y: y(v) + 4, text: format.short(v) })),
    ticks(x.low, x.high, 3).map((v) =>
      svg('text', { class: 'middle', x: x(v), y: h - 8, text: format.count(v) }),
    ),
    svg('path', { class: 'path', d: `M${line}` }),
  );
}
function categoryShape(shape, [low, high], words) {
  const most = Math.max(...(shape.rows ?? []).filter(known), 1);
  const linear = scale(low, high, 4, 96);
  const x = (v) => linear(Math.max(low, Math.min(high, v)));
  const categories = shape.values.slice(0, CATEGORIES);
  const rows = categories.map((value, k) =>
    el(
      'li',
      {},
      own(value === '' ? 'missing' : String(value)),
      svg(
        'svg',
        { class: 'line', 'aria-hidden': 'true' },
        svg('rect', {
          class: 'count',
          x: 0,
          y: '72%',
          height: '20%',
          width: across((shape.rows?.[k] ?? 0) / most),
        }),
        svg('line', { class: 'grid', x1: `${x(0)}%`, x2: `${x(0)}%`, y1: 0, y2: '100%' }),
        svg('line', { class: 'span now', x1: `${x(0)}%`, x2: `${x(shape.added[k])}%`, y1: '40%', y2: '40%' }),
        svg('circle', { class: 'dot now', cx: `${x(shape.added[k])}%`, cy: '40%', r: 4 }),
      ),
      el('span', { class: 'value', text: (shape.added[k] > 0 ? '+' : '') + shape.added[k].toFixed(2) }),
    ),
  );
  const rest = shape.values.length - categories.length;
  return el(
    'div',
    {},
    el('p', { class: 'quiet', text: words }),
    el('ul', { class: 'categories' }, rows),
    rest > 0
      ? el('p', { class: 'note', text: rest === 1 ? 'and a rarer one' : `and ${format.count(rest)} rarer ones` })
      : null,
  );
}

function auditSection(root) {
  const all = doc.audit.rows;
  const names = () => part()?.sites.name ?? [];
  const heading = el('p', { class: 'site-name', dir: 'auto' });
  const body = el('div');
  root.append(heading, body);
  function renew() {
    const site = state.site === null ? '' : names()[state.site];
    const mine = all.filter((row) => (row.client ?? '') === site);
    const rows = mine.length ? mine : all.filter((row) => !row.client);
    heading.textContent = mine.length && site ? site : 'All rows';
    const measures = [...new Set(rows.map((row) => row.name))];
    body.replaceChildren(
      el(
        'div',
        { class: 'measures' },
        measures.map((measure) =>
          simpleTable(
            measure,
            ['group', '0 to 100 %', 'value', 'rows'],
            rows
              .filter((row) => row.name === measure)
              .map((row) => [
                own(row.group),
                svg(
                  'svg',
                  { class: 'line', 'aria-hidden': 'true' },
                  interval(row.low, row.value, row.high, 'now'),
                ),
                el(
                  'span',
                  {},
                  el('b', { text: format.percent(row.value) }),
                  el('small', { text: ` ${format.range(row.low, row.high, format.percent)}` }),
                ),
                format.count(row.rows),
              ]),
            'charted',
          ),
        ),
      ),
    );
  }
  watch(['site', 'part'], renew);
  renew();
}
