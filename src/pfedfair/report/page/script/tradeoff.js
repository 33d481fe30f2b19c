// The trade-off: what is pointed at, marked, switched off.

const MANY = 8; // more methods than this, and only some have a colour at a time
const HOW = 'The trade-off. Left and right go along a curve, up and down to another method, Enter marks it.';

function tradeoffSection(root) {
  const picture = svg('svg', { class: 'tradeoff', role: 'img', 'aria-labelledby': 'chart-words' });
  const words = el('p', { class: 'quiet', id: 'chart-words' });
  const status = el('p', { class: 'quiet', role: 'status' });
  const stage = el('div', { class: 'stage', tabindex: 0, role: 'group', 'aria-label': HOW }, picture);
  const legend = el('fieldset', { class: 'methods' });
  const note = el('p', { class: 'note' });
  root.append(words, stage, note, legend, status);
  let curves = [];
  let drawn = { layers: new Map(), points: [] };
  let at = null; // the point that keyboard or pointer is at
  let width = 0;

  const seen = (curve) => !state.hidden.has(curve.method);
  const methods = () => curves.filter((curve) => curve.kind === 'method');
  const link = (text, onclick) => el('button', { type: 'button', class: 'link', text, onclick });

  // Methods that no other beats in both gap and error, of those that are shown.
  function front() {
    const every = methods()
      .filter(seen)
      .flatMap((curve) => curve.points.map((p) => [p.gap, p.error, curve.method]));
    const beats = ([g, e, m], [gap, error, method]) =>
      m !== method && g <= gap && e <= error && (g < gap || e < error);
    const best = every.filter((one) => !every.some((other) => beats(other, one)));
    return new Set(best.map(([, , method]) => method));
  }
  function bright() {
    const one = state.hover ?? state.method;
    if (one !== null) return new Set([one]);
    const there = methods().filter(seen);
    return there.length > MANY ? front() : new Set(there.map((curve) => curve.method));
  }

  function draw() {
    const trade = part().tradeoff;
    root.hidden = !trade;
    if (!trade || !width) return;
    drawn = drawTradeoff(picture, curves.filter(seen), width, shown().target);
    const n = methods().length;
    words.textContent = `Error against ${gapName}, ${trade.who}, of ${n} ${n === 1 ? 'method' : 'methods'}. The numbers stand in the table below.`;
    light();
    ring();
  }

  // Colour for what is looked at, grey for the others.
  function light() {
    const on = bright();
    for (const curve of curves.filter(seen)) {
      const layer = drawn.layers.get(curve.method);
      layer?.classList.toggle('dim', curve.kind === 'method' && !on.has(curve.method));
      layer?.classList.toggle('strong', (state.hover ?? state.method) === curve.method);
    }
    for (const item of legend.querySelectorAll('li')) {
      item.classList.toggle('on', state.method === item.method);
      item.querySelector('.name').setAttribute('aria-pressed', String(state.method === item.method));
    }
    const own = picture.querySelector('.site-layer');
    const lit = methods().filter((curve) => seen(curve) && on.has(curve.method));
    if (own) drawOwn(own, state.site === null ? [] : lit, drawn.x, drawn.y);
  }
  function update() {
    note.hidden = state.method === null && methods().filter(seen).length <= MANY;
    if (state.method === null) {
      note.textContent =
        'In colour: methods that no other beats in both gap and error. Choose one to see only that.';
    } else {
      note.replaceChildren(
        'Marked: ',
        el('bdi', { text: state.method }),
        '. ',
        link('unmark', () => set({ method: null })),
      );
    }
  }

  // Pointing, by mouse or keys
  function ring() {
    const circle = picture.querySelector('.ring');
    const spot = at && drawn.points.find((one) => one.curve === at.curve && one.p === at.p);
    circle?.setAttribute('visibility', spot ? 'visible' : 'hidden');
    if (spot) circle.setAttribute('cx', spot.x);
    if (spot) circle.setAttribute('cy', spot.y);
  }
  function lines({ curve, p }) {
    const between = (low, high, how) => (known(low) ? ` (${format.range(low, high, how)})` : '');
    return [
      `${nameOf(curve)}${p.level ? `, ${p.level}` : ''}`,
      `${part().tradeoff.x} ${format.gap(p.gap)}${between(p.gap_low, p.gap_high, format.gap)}`,
      `error ${format.percent(p.error)}${between(p.error_low, p.error_high, format.percent)}`,
    ];
  }
  function visit(point, speak) {
    at = point;
    ring();
    set({ hover: point && point.curve.kind === 'method' ? point.curve.method : null });
    if (!point) {
      hideTip();
      return;
    }
    const frame = picture.getBoundingClientRect();
    showTip(frame.left + point.x, frame.top + point.y, lines(point));
    if (speak) status.textContent = lines(point).join('. ');
  }
  function nearest(event) {
    const frame = picture.getBoundingClientRect();
    const far = (point) =>
      Math.hypot(point.x - event.clientX + frame.left, point.y - event.clientY + frame.top);
    const best = drawn.points.reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
    return best && far(best) < 28 ? best : null;
  }
  function choose(point) {
    if (point?.curve.kind !== 'method') return;
    set({ method: point.curve.method, ...(known(point.p.arm) ? { arm: point.p.arm } : {}) });
  }
  picture.addEventListener('pointermove', (event) => {
    const label = event.target.curve;
    if (label) set({ hover: label.kind === 'method' ? label.method : null });
    else visit(nearest(event), false);
  });
  picture.addEventListener('pointerleave', () => visit(null, false));
  picture.addEventListener('click', (event) => {
    const point = nearest(event);
    if (event.target.curve) markMethod(event.target.curve.method);
    else if (point) choose(point);
    else set({ method: null });
  });
  stage.addEventListener('blur', () => visit(null, false));
  window.addEventListener('scroll', () => at && document.activeElement === stage && visit(at, false), {
    passive: true,
  });
  stage.addEventListener('keydown', (event) => {
    const marks = (curve) => drawn.points.filter((one) => one.curve === curve);
    const there = curves.filter((curve) => seen(curve) && marks(curve).length);
    if (!there.length) return;
    const row = at ? there.indexOf(at.curve) : -1;
    const spot = row < 0 ? 0 : marks(at.curve).findIndex((one) => one.p === at.p);
    const to = (k, j) => {
      const line = marks(there[(k + there.length) % there.length]);
      visit(line[Math.max(0, Math.min(j, line.length - 1))], true);
    };
    const keys = {
      ArrowRight: () => to(Math.max(row, 0), row < 0 ? 0 : spot + 1),
      ArrowLeft: () => to(Math.max(row, 0), spot - 1),
      ArrowDown: () => to(row + 1, spot),
      ArrowUp: () => to(row < 0 ? 0 : row - 1, spot),
      Enter: () => choose(at),
      ' ': () => choose(at),
      Escape: () => {
        visit(null, false);
        set({ method: null });
      },
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  // A method is marked everywhere: the list of sites shows it too, at the level that it was at.
  function markMethod(method) {
    if (state.method === method || !methods().some((curve) => curve.method === method)) {
      set({ method: null });
      return;
    }
    const arms = [...part().arms.keys()].filter((k) => methodOf(k) === method);
    const level = part().arms[state.arm]?.level;
    const same = arms.find((k) => part().arms[k].level === level) ?? arms.at(-1);
    const arm = methodOf(state.arm) === method ? state.arm : same;
    set({ method, ...(known(arm) ? { arm } : {}) });
  }

  function switches() {
    const flip = (method, on) => {
      const hidden = new Set(state.hidden);
      if (on) hidden.delete(method);
      else hidden.add(method);
      set({ hidden, method: hidden.has(state.method) ? null : state.method });
    };
    const items = curves.map((curve, k) => {
      const one = curve.kind === 'method' ? curve.method : null;
      const input = el('input', {
        type: 'checkbox',
        id: `method-${k}`,
        'aria-label': `show ${nameOf(curve)}`,
      });
      input.checked = seen(curve);
      input.addEventListener('change', () => flip(curve.method, input.checked));
      const name = el(
        'button',
        { type: 'button', class: 'name', disabled: !one },
        swatch(curve),
        own(nameOf(curve)),
      );
      name.addEventListener('click', () => markMethod(curve.method));
      for (const on of ['pointerenter', 'focus']) name.addEventListener(on, () => set({ hover: one }));
      for (const off of ['pointerleave', 'blur']) name.addEventListener(off, () => set({ hover: null }));
      const item = el('li', { class: seen(curve) ? null : 'off' }, input, name);
      item.method = curve.method;
      return item;
    });
    const hide = (list) => () => set({ hidden: new Set(list.map((curve) => curve.method)), method: null });
    const every = el(
      'p',
      { class: 'every' },
      link('show all', hide([])),
      link('hide all methods', hide(methods())),
    );
    legend.replaceChildren(
      el('legend', { text: 'Shown in the figure' }),
      el('ul', {}, items),
      ...(methods().length > 3 ? [every] : []),
    );
  }
  function renew() {
    curves = part().tradeoff?.curves ?? [];
    at = null;
    switches();
    draw();
    update();
  }

  watch(['part'], () => {
    state.hidden = new Set();
    renew();
  });
  watch(['hidden'], () => {
    const focus = document.activeElement?.id;
    switches();
    if (focus?.startsWith('method-')) $(focus)?.focus();
    draw();
  });
  watch(['method', 'hidden'], update);
  watch(['method', 'hover'], light);
  watch(['site', 'arm'], draw);
  watch(['step'], framed(draw));
  renew();
  onWidth(stage, (now) => {
    width = now;
    draw();
  });
}
