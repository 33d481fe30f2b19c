// One site: its rates, whose decision changed, its scores and thresholds, its rule, what it cost.

const across = (v) => `${(100 * Math.max(0, Math.min(1, v))).toFixed(2)}%`;
const cut = (one) => (Array.isArray(one) ? { low: one[0], high: one[1], chance: one[2], below: one[3] } : one);

function simpleTable(caption, heads, rows, kind, headed = false) {
  // Roles are said aloud: on a phone rows are no table to the eye.
  const head = (text) => el('th', { scope: 'col', role: 'columnheader', text });
  const cell = (item, k) => (k
    ? el('td', { role: 'cell', 'data-label': k > 1 ? heads[k] : null }, item)
    : el('th', { scope: 'row', role: 'rowheader' }, item));
  return el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption },
    el('table', { class: kind, role: 'table' }, el('caption', { class: headed ? 'quiet' : null, text: caption }),
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, heads.map(head))),
      el('tbody', { role: 'rowgroup' }, rows.map((row) => el('tr', { role: 'row' }, row.map(cell))))));
}
function interval(low, v, high, kind, y = '50%') {
  return [known(low) ? svg('line', { class: `span ${kind}`, x1: across(low), x2: across(high), y1: y, y2: y }) : null,
    known(v) ? svg('circle', { class: `dot ${kind}`, cx: across(v), cy: y, r: 5 }) : null];
}

function siteSection(root, order) {
  const section = $('site');
  const title = $('site-title');
  const pick = el('select', { id: 'which', onchange: () => set({ site: Number(pick.value) }) });
  const label = el('label', { for: 'which', class: 'field' }, el('span', { text: 'site' }), pick);
  const go = (step) => () => {
    const list = order();
    const at = list.indexOf(state.site);
    if (list.length) set({ site: list[(at + step + list.length) % list.length] });
  };
  const bar = el('div', { class: 'bar' }, label, el('button', { type: 'button', class: 'step', onclick: go(-1), text: '← previous' }), el('button', { type: 'button', class: 'step', onclick: go(1), text: 'next →' }));
  const name = el('p', { class: 'site-name', dir: 'auto' });
  const body = el('div', { class: 'site-body' });
  root.append(bar, name, body);

  function options() {
    const names = part().sites.name;
    label.hidden = names.length > 300;
    pick.replaceChildren(...(label.hidden ? [] : names.map((text, k) => el('option', { value: k, text }))));
  }
  function renew() {
    const i = state.site ?? worst();
    section.hidden = i === null;
    if (i === null) return;
    pick.value = i;
    const sites = part().sites;
    const numbers = shown();
    const detail = state.part === 0 && slides() ? doc.details?.[i] ?? null : null;
    name.textContent = sites.name[i];
    title.textContent = 'One site';
    body.replaceChildren(...[
      figures(i, sites, numbers, detail), verdict(i, numbers), everyArm(i),
      detail && moved() ? el('p', { class: 'note', text: `At a target of ${say.short(numbers.target)}: gap, accuracy and thresholds. Rates and changed decisions are those of the run's own target, ${say.short(slider.targets[slider.start])}.` }) : null,
      ...(detail ? [rates(detail), changed(detail), scores(i, detail), rule(i, detail), facts(detail)] : []),
      !detail && doc.details && state.part === 0 ? el('p', { class: 'note', text: 'Rates and scores of this site are not in this page: it has those of the sites with the largest gaps.' }) : null,
    ].filter(Boolean));
  }
  // Before anybody chose: the first in the list, the one with the largest gap.
  const worst = () => {
    const list = order();
    return part().sites.name.length ? list[0] ?? 0 : null;
  };

  function figures(i, sites, numbers, detail) {
    const item = (term, value, more) => el('div', {}, el('dt', { text: term }), el('dd', {}, el('b', { text: value }), more ? el('span', { text: more }) : null));
    const constant = numbers.constant?.[i];
    const list = [item(`gap (${gapName})`, say.gap(numbers.gap[i]), say.range(numbers.gap_low?.[i], numbers.gap_high?.[i], say.gap))];
    if (known(numbers.accuracy?.[i])) list.push(item('accuracy', say.percent(numbers.accuracy[i]), known(constant) ? `same decision for all: ${say.percent(constant)}` : say.range(numbers.accuracy_low?.[i], numbers.accuracy_high?.[i], say.percent)));
    if (known(detail?.cost) && !moved()) list.push(item('fairness cost', `${(100 * detail.cost).toFixed(1)} points`, 'of accuracy, by the rule'));
    if (detail?.alone) list.push(item('training alone', say.percent(detail.alone.accuracy), `gap ${say.gap(detail.alone.gap)}`));
    if (known(numbers.people?.[i])) list.push(item('people behind the gap', numbers.people[i] === 'few' ? 'fewer than 5' : say.count(numbers.people[i])));
    if (known(sites.n_train?.[i])) list.push(item('rows', say.count(sites.n_train[i]), `to train; ${say.count(sites.n_test?.[i])} held out`));
    if (known(sites.role?.[i])) list.push(item('role', sites.role[i]));
    return el('dl', { class: 'figures' }, list);
  }
  function verdict(i, numbers) {
    const judged = numbers.verdict?.[i];
    if (!judged) return null;
    const why = numbers.why?.[i];
    return el('p', { class: 'judged' }, verdictMark(judged), el('b', { text: judged }), `: ${said.verdicts[judged] ?? ''}${known(numbers.target) ? ` (${say.short(numbers.target)})` : ''}.`, why ? el('span', { dir: 'auto', text: ` ${why[0].toUpperCase()}${why.slice(1)}.`.replace(/\.\.$/, '.') }) : null);
  }
  // Of a comparison: what every method gives this site.
  function everyArm(i) {
    const arms = part().arms;
    if (arms.length < 2) return null;
    const top = Math.max(...arms.map((arm) => arm.gap_high?.[i] ?? arm.gap[i] ?? 0), 0.02) * 1.05;
    const rows = arms.map((arm) => {
      const chart = svg('svg', { class: 'line', 'aria-hidden': 'true' },
        known(arm.target ?? doc.target) ? svg('line', { class: 'target', x1: across((arm.target ?? doc.target) / top), x2: across((arm.target ?? doc.target) / top), y1: 0, y2: '100%' }) : null,
        known(arm.gap[i]) ? interval(known(arm.gap_low?.[i]) ? arm.gap_low[i] / top : null, arm.gap[i] / top, (arm.gap_high?.[i] ?? 0) / top, 'now') : []);
      const judged = arm.verdict?.[i];
      return [own(arm.words), chart, say.gap(arm.gap[i]), say.percent(arm.accuracy?.[i]), judged ? el('span', { class: 'judge' }, verdictMark(judged), judged) : ''];
    });
    const table = simpleTable('Every method at this site', ['method', 'gap and interval', 'gap', 'accuracy', 'verdict'], rows, 'charted');
    if (arms.length > 12) table.classList.add('tall');
    return table;
  }
  function rates(detail) {
    if (!detail.rates?.length) return null;
    const before = detail.rates.some((one) => known(one.before));
    const to = doc.positive ? `decided “${doc.positive}”` : 'positive decisions';
    const rows = detail.rates.map((one) => [own(one.group),
      svg('svg', { class: 'line two', 'aria-hidden': 'true' }, before ? interval(one.before_low, one.before, one.before_high, 'then', '30%') : [], interval(one.low, one.rate, one.high, 'now', before ? '70%' : '50%')),
      ...(before ? [say.percent(one.before)] : []), el('span', {}, el('b', { text: say.percent(one.rate) }), el('small', { text: ` ${say.range(one.low, one.high, say.percent)}` })), say.count(one.people), say.count(one.train)]);
    const heads = ['group', before ? 'before ○ and after ●, 0 to 100 %' : '0 to 100 %', ...(before ? ['before'] : []), before ? 'after' : 'rate', 'people held out', 'in training'];
    return el('div', {}, el('h3', { dir: 'auto', text: `How many are ${to}` }), before ? el('p', { class: 'note', text: 'Before: the likeliest label by the same scores. After: with the fair rule.' }) : null, simpleTable('Rates by group', heads, rows, 'charted', true));
  }
  function changed(detail) {
    if (!detail.changed?.length) return null;
    const most = Math.max(...detail.changed.flatMap((one) => [one.to_positive, one.to_negative]).map((v) => (typeof v === 'number' ? v : 0)), 1);
    const bar = (one) => {
      const [up, down] = [one.to_positive, one.to_negative].map((v) => (typeof v === 'number' ? (48 * v) / most : 0));
      return svg('svg', { class: 'line', 'aria-hidden': 'true' }, svg('rect', { class: 'lost', x: `${50 - down}%`, width: `${down}%`, y: '20%', height: '60%' }), svg('rect', { class: 'won', x: '50%', width: `${up}%`, y: '20%', height: '60%' }), svg('line', { class: 'grid', x1: '50%', x2: '50%', y1: 0, y2: '100%' }));
    };
    const rows = detail.changed.map((one) => [own(one.group), bar(one), say.count(one.to_positive), say.count(one.to_negative), say.count(one.people)]);
    return el('div', {}, el('h3', { text: 'Whose decision the rule changed' }), simpleTable('People whose decision changed', ['group', '← lose it · get it →', `now “${doc.positive ?? 'yes'}”`, `no longer “${doc.positive ?? 'yes'}”`, 'of people'], rows, 'charted', true));
  }
  function cuts(i, detail) {
    const found = moved() ? slider.thresholds?.[state.step]?.[i] : null;
    if (found) return found.map((one, k) => ({ group: doc.groups[k], ...cut(one) }));
    return moved() ? null : detail.thresholds ?? null;
  }
  function scores(i, detail) {
    if (!detail.scores) return null;
    const { edges, shares } = detail.scores;
    const most = Math.max(...shares.flat().filter(known), 0.01);
    const lines = cuts(i, detail);
    const groups = shares.map((values, g) => {
      const group = detail.rates?.[g]?.group ?? doc.groups[g] ?? '';
      const line = lines?.[g];
      const bars = values.map((v, k) => svg('rect', { class: `bin${line && edges[k] >= line.low - 1e-9 ? ' yes' : ''}`, x: across(edges[k]), width: across(edges[k + 1] - edges[k] - 0.004), y: `${100 - (92 * v) / most}%`, height: `${(92 * v) / most}%` }));
      const drawn = line ? [line.high > line.low ? svg('rect', { class: 'lot', x: across(line.low), width: across(Math.min(line.high, 1) - line.low), y: 0, height: '100%' }) : null, svg('line', { class: 'cut', x1: across(line.low), x2: across(line.low), y1: 0, y2: '100%' })] : [];
      return el('figure', {}, el('figcaption', {}, own(group), line ? el('span', { text: ` ${cutWords(line)}` }) : null), svg('svg', { class: 'histogram', role: 'img', 'aria-label': `Scores of group ${group}${line ? `, ${cutWords(line)}` : ''}` }, bars, drawn), el('div', { class: 'scale', 'aria-hidden': 'true' }, ['0', '0.5', '1'].map((text) => el('span', { text }))));
    });
    return el('div', {}, el('h3', { text: 'Scores, and where the rule cuts' }), el('p', { class: 'note', text: `Share of each group's people by score: how likely the model finds “${doc.positive ?? 'yes'}”. The line is the group's threshold; in the grey band a lot decides.` }), el('div', { class: 'histograms' }, groups));
  }
  function cutWords({ low, high, chance, below }) {
    const lot = (v) => `${(100 * v).toFixed(0)} %`;
    const under = known(below) && below > 0 ? `; below it a lot of ${lot(below)}` : '';
    if (low > 0.999) return under ? `a lot of ${lot(below)}` : 'nobody';
    if (high < 0.001) return 'everybody';
    if (high - low < 5e-4 || !(chance > 0)) return `from ${say.gap(chance > 0 ? low : high)}${under}`;
    if (high > 0.999) return `from ${say.gap(low)}, a lot of ${lot(chance)}${under}`;
    return `from ${say.gap(high)}; from ${say.gap(low)} to there a lot of ${lot(chance)}${under}`;
  }
  function rule(i, detail) {
    const lines = moved() ? cuts(i, detail)?.map((one) => `${one.group}: “${doc.positive ?? 'yes'}” ${cutWords(one)}`) : detail.rule;
    if (!lines?.length) return null;
    return el('div', {}, el('h3', { text: 'The rule in words' }), el('ul', { class: 'rule' }, lines.map((text) => own(text, 'li'))));
  }
  function facts(detail) {
    const rows = [...(detail.facts ?? [])];
    const lines = detail.alone?.words ? [own(detail.alone.words, 'p')] : [];
    if (!rows.length && !lines.length) return null;
    return el('div', {}, ...lines, el('dl', { class: 'facts' }, rows.map(([key, value]) => el('div', {}, own(key, 'dt'), own(value, 'dd')))));
  }
  watch(['part'], options);
  watch(['part', 'arm', 'step', 'site'], renew);
  options();
  renew();
}
