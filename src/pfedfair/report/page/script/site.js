// One site: its numbers, its verdict and why, every method there; and its rows.

function siteSection(root, order) {
  const section = $('site');
  const pick = el('select', { id: 'which', onchange: () => set({ site: Number(pick.value) }) });
  const label = el('label', { for: 'which', class: 'field' }, el('span', { text: 'site' }), pick);
  const go = (step) => () => {
    const list = order();
    const at = list.indexOf(state.site);
    if (list.length) set({ site: list[(at + step + list.length) % list.length] });
  };
  const bar = el(
    'div',
    { class: 'bar' },
    label,
    el('button', { type: 'button', class: 'step', onclick: go(-1), text: '← previous' }),
    el('button', { type: 'button', class: 'step', onclick: go(1), text: 'next →' }),
  );
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
    const found = state.part === 0 ? doc.details?.[i] : undefined;
    const other = state.arm !== (part().chosen ?? 0); // details are of the arm shown first
    const detail = found && other ? { local: found.local } : (found ?? null);
    name.textContent = siteName(i);
    body.replaceChildren(
      ...[
        figures(i, sites, numbers, detail),
        verdict(i, numbers),
        everyArm(i),
        detail && moved()
          ? el('p', {
              class: 'note',
              text: `At a target of ${format.short(numbers.target)}: gap, accuracy and thresholds. Rates and changed decisions are those of the run's own target, ${format.short(slider.targets[slider.start])}.`,
            })
          : null,
        ...(detail ? details(i, detail) : []),
        found === null
          ? el('p', {
              class: 'note',
              text: 'Rates and scores of this site are not in this page: it has those of the sites with the largest gaps.',
            })
          : null,
      ].filter(Boolean),
    );
  }
  // Before a choice: the first in the list, the one with the largest gap.
  const worst = () => {
    const list = order();
    return part().sites.name.length ? (list[0] ?? 0) : null;
  };

  function figures(i, sites, numbers, detail) {
    const item = (term, value, more) =>
      el(
        'div',
        {},
        el('dt', { text: term }),
        el('dd', {}, el('b', { text: value }), more ? el('span', { text: more }) : null),
      );
    const constant = numbers.constant?.[i];
    const list = [
      item(
        `gap (${gapName})`,
        format.gap(numbers.gap[i]),
        format.range(numbers.gap_low?.[i], numbers.gap_high?.[i], format.gap),
      ),
    ];
    if (known(numbers.accuracy?.[i]))
      list.push(
        item(
          'accuracy',
          format.percent(numbers.accuracy[i]),
          known(constant)
            ? `same decision for all: ${format.percent(constant)}`
            : format.range(numbers.accuracy_low?.[i], numbers.accuracy_high?.[i], format.percent),
        ),
      );
    if (known(detail?.cost) && !moved())
      list.push(
        item('fairness cost', `${(100 * detail.cost).toFixed(1)} points`, 'of accuracy, by the rule'),
      );
    if (detail?.local)
      list.push(
        item('local training', format.percent(detail.local.accuracy), `gap ${format.gap(detail.local.gap)}`),
      );
    if (known(numbers.rows?.[i]))
      list.push(
        item(
          'rows behind the gap',
          numbers.rows[i] === 'few' ? 'fewer than 5' : format.count(numbers.rows[i]),
        ),
      );
    if (known(sites.n_train?.[i]))
      list.push(
        item('rows', format.count(sites.n_train[i]), `to train; ${format.count(sites.n_test?.[i])} held out`),
      );
    if (known(sites.role?.[i])) {
      const role = item('role', sites.role[i]);
      role.className = 'word';
      list.push(role);
    }
    return el('dl', { class: 'figures' }, list);
  }
  function verdict(i, numbers) {
    const judged = numbers.verdict?.[i];
    if (!judged) return null;
    const why = numbers.why?.[i];
    return el(
      'p',
      { class: 'judged' },
      verdictMark(judged),
      el('b', { text: judged }),
      `: ${texts.verdicts[judged] ?? ''}${known(numbers.target) ? ` (${format.short(numbers.target)})` : ''}.`,
      why
        ? el('span', { dir: 'auto', text: ` ${why[0].toUpperCase()}${why.slice(1)}.`.replace(/\.\.$/, '.') })
        : null,
    );
  }
  // Of a comparison: what every method gives this site.
  function everyArm(i) {
    const arms = part().arms;
    if (arms.length < 2) return null;
    const top = Math.max(...arms.map((arm) => arm.gap_high?.[i] ?? arm.gap[i] ?? 0), 0.02) * 1.05;
    const rows = arms.map((arm) => {
      const chart = svg(
        'svg',
        { class: 'line', 'aria-hidden': 'true' },
        known(arm.target ?? doc.target)
          ? svg('line', {
              class: 'target',
              x1: across((arm.target ?? doc.target) / top),
              x2: across((arm.target ?? doc.target) / top),
              y1: 0,
              y2: '100%',
            })
          : null,
        known(arm.gap[i])
          ? interval(
              known(arm.gap_low?.[i]) ? arm.gap_low[i] / top : null,
              arm.gap[i] / top,
              (arm.gap_high?.[i] ?? 0) / top,
              'now',
            )
          : [],
      );
      const judged = arm.verdict?.[i];
      return [
        own(arm.words),
        chart,
        format.gap(arm.gap[i]),
        format.percent(arm.accuracy?.[i]),
        judged ? el('span', { class: 'judge' }, verdictMark(judged), judged) : '',
      ];
    });
    const table = simpleTable(
      'Every method at this site',
      ['method', 'gap and interval', 'gap', 'accuracy', 'verdict'],
      rows,
      'charted',
    );
    if (arms.length > 12) table.classList.add('tall');
    return table;
  }
  watch(['part'], options);
  watch(['part', 'arm', 'step', 'site'], renew);
  options();
  renew();
}
