// The rows of a site: rates by group, changed decisions, scores and thresholds, the rule.

const across = (v) => `${(100 * Math.max(0, Math.min(1, v))).toFixed(2)}%`;
const cut = (one) =>
  Array.isArray(one) ? { low: one[0], high: one[1], chance: one[2], below: one[3] } : one;

function simpleTable(caption, heads, rows, kind, quiet = false) {
  // Roles are for screen readers: on a phone rows do not look like a table.
  const head = (text) => el('th', { scope: 'col', role: 'columnheader', text });
  const cell = (item, k) =>
    k
      ? el('td', { role: 'cell', 'data-label': k > 1 ? heads[k] : null }, item)
      : el('th', { scope: 'row', role: 'rowheader' }, item);
  return el(
    'div',
    { class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption },
    el(
      'table',
      { class: kind, role: 'table' },
      el('caption', { class: quiet ? 'quiet' : null, text: caption }),
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map(head))),
      el(
        'tbody',
        { role: 'rowgroup' },
        rows.map((row) => el('tr', { role: 'row' }, row.map(cell))),
      ),
    ),
  );
}
function interval(low, v, high, kind, y = '50%') {
  return [
    known(low)
      ? svg('line', { class: `span ${kind}`, x1: across(low), x2: across(high), y1: y, y2: y })
      : null,
    known(v) ? svg('circle', { class: `dot ${kind}`, cx: across(v), cy: y, r: 5 }) : null,
  ];
}

const details = (i, detail) => [
  rates(detail),
  changed(detail),
  scores(i, detail),
  rule(i, detail),
  facts(detail),
];

function rates(detail) {
  if (!detail.rates?.length) return null;
  const before = detail.rates.some((one) => known(one.before));
  const to = doc.positive ? `decided “${doc.positive}”` : 'positive decisions';
  const rows = detail.rates.map((one) => [
    own(one.group),
    svg(
      'svg',
      { class: 'line two', 'aria-hidden': 'true' },
      before ? interval(one.before_low, one.before, one.before_high, 'then', '30%') : [],
      interval(one.low, one.rate, one.high, 'now', before ? '70%' : '50%'),
    ),
    ...(before ? [format.percent(one.before)] : []),
    el(
      'span',
      {},
      el('b', { text: format.percent(one.rate) }),
      el('small', { text: ` ${format.range(one.low, one.high, format.percent)}` }),
    ),
    format.count(one.rows),
    format.count(one.train),
  ]);
  const heads = [
    'group',
    before ? 'before ○ and after ●, 0 to 100 %' : '0 to 100 %',
    ...(before ? ['before'] : []),
    before ? 'after' : 'rate',
    'held-out rows',
    'training rows',
  ];
  return el(
    'div',
    {},
    el('h3', { dir: 'auto', text: `How many are ${to}` }),
    before
      ? el('p', {
          class: 'note',
          text: 'Before: the likeliest label by the same scores. After: with the fair rule.',
        })
      : null,
    simpleTable('Rates by group', heads, rows, 'charted', true),
  );
}
function changed(detail) {
  if (!detail.changed?.length) return null;
  const most = Math.max(
    ...detail.changed
      .flatMap((one) => [one.to_positive, one.to_negative])
      .map((v) => (typeof v === 'number' ? v : 0)),
    1,
  );
  const bar = (one) => {
    const [up, down] = [one.to_positive, one.to_negative].map((v) =>
      typeof v === 'number' ? (48 * v) / most : 0,
    );
    return svg(
      'svg',
      { class: 'line', 'aria-hidden': 'true' },
      svg('rect', { class: 'lost', x: `${50 - down}%`, width: `${down}%`, y: '20%', height: '60%' }),
      svg('rect', { class: 'won', x: '50%', width: `${up}%`, y: '20%', height: '60%' }),
      svg('line', { class: 'grid', x1: '50%', x2: '50%', y1: 0, y2: '100%' }),
    );
  };
  const rows = detail.changed.map((one) => [
    own(one.group),
    bar(one),
    format.count(one.to_positive),
    format.count(one.to_negative),
    format.count(one.rows),
  ]);
  return el(
    'div',
    {},
    el('h3', { text: 'Decisions that the rule changed' }),
    simpleTable(
      'Rows whose decision changed',
      [
        'group',
        '← lose it · get it →',
        `now “${doc.positive ?? 'yes'}”`,
        `no longer “${doc.positive ?? 'yes'}”`,
        'of rows',
      ],
      rows,
      'charted',
      true,
    ),
  );
}
function cuts(i, detail) {
  const found = moved() ? slider.thresholds?.[state.step]?.[i] : null;
  if (found) return found.map((one, k) => ({ group: doc.groups[k], ...cut(one) }));
  return moved() ? null : (detail.thresholds ?? null);
}
function scores(i, detail) {
  if (!detail.scores) return null;
  const { edges, shares } = detail.scores;
  const most = Math.max(...shares.flat().filter(known), 0.01);
  const lines = cuts(i, detail);
  const tall = (v) => 92 * Math.sqrt((v ?? 0) / most); // so that few rows can be seen, too
  const groups = shares.map((values, g) => {
    const group = detail.rates?.[g]?.group ?? doc.groups[g] ?? '';
    const line = lines?.[g];
    const bars = values.map((v, k) =>
      svg('rect', {
        class: `bin${line && edges[k] >= line.low - 1e-9 ? ' yes' : ''}`,
        x: across(edges[k]),
        width: across(edges[k + 1] - edges[k] - 0.004),
        y: `${100 - tall(v)}%`,
        height: `${tall(v)}%`,
      }),
    );
    const drawn = line
      ? [
          line.high > line.low
            ? svg('rect', {
                class: 'band',
                x: across(line.low),
                width: across(Math.min(line.high, 1) - line.low),
                y: 0,
                height: '100%',
              })
            : null,
          svg('line', { class: 'cut', x1: across(line.low), x2: across(line.low), y1: 0, y2: '100%' }),
        ]
      : [];
    return el(
      'figure',
      {},
      el('figcaption', {}, own(group), line ? el('span', { text: ` ${cutWords(line)}` }) : null),
      svg(
        'svg',
        {
          class: 'histogram',
          role: 'img',
          'aria-label': `Scores of group ${group}${line ? `, ${cutWords(line)}` : ''}`,
        },
        bars,
        drawn,
      ),
      el(
        'div',
        { class: 'scale', 'aria-hidden': 'true' },
        ['0', '0.5', '1'].map((text) => el('span', { text })),
      ),
    );
  });
  return el(
    'div',
    {},
    el('h3', { text: 'Scores and thresholds' }),
    el('p', {
      class: 'note',
      text: `Share of each group's rows by score: the predicted probability of “${doc.positive ?? 'yes'}”. The line is the group's threshold; in the grey band decisions are drawn at random. Heights are roots of shares, so that few rows can be seen, too.`,
    }),
    el('div', { class: 'histograms' }, groups),
  );
}
function cutWords({ low, high, chance, below }) {
  const random = (v) => `${(100 * v).toFixed(0)} % at random`;
  const under = known(below) && below > 0 ? `; below it ${random(below)}` : '';
  if (low > 0.999) return under ? random(below) : 'none';
  if (high < 0.001) return 'all';
  if (high - low < 5e-4 || !(chance > 0)) return `from ${format.gap(chance > 0 ? low : high)}${under}`;
  if (high > 0.999) return `from ${format.gap(low)}, ${random(chance)}${under}`;
  return `from ${format.gap(high)}; from ${format.gap(low)} to there ${random(chance)}${under}`;
}
function rule(i, detail) {
  const lines = moved()
    ? cuts(i, detail)?.map((one) => `${one.group}: “${doc.positive ?? 'yes'}” ${cutWords(one)}`)
    : detail.rule;
  if (!lines?.length) return null;
  return el(
    'div',
    {},
    el('h3', { text: 'The rule in words' }),
    el(
      'ul',
      { class: 'rule' },
      lines.map((text) => own(text, 'li')),
    ),
  );
}
function facts(detail) {
  const rows = [...(detail.facts ?? [])];
  const local = detail.local?.words ?? doc.hints?.local;
  const lines = local ? [own(local, 'p')] : [];
  if (!rows.length && !lines.length) return null;
  return el(
    'div',
    {},
    ...lines,
    el(
      'dl',
      { class: 'facts' },
      rows.map(([key, value]) => el('div', {}, own(key, 'dt'), own(value, 'dd'))),
    ),
  );
}
