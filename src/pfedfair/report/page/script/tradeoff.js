// The trade-off: error against the gap, a curve for each method.

const MANY = 8; // more methods than this, and only some have a colour at a time
const nameOf = (curve) => curve.words ?? curve.method;

function tradeoffSection(root) {
  const picture = svg('svg', { class: 'tradeoff', role: 'img', 'aria-labelledby': 'chart-words' });
  const words = el('p', { class: 'quiet', id: 'chart-words' });
  const told = el('p', { class: 'quiet', role: 'status' });
  const stage = el('div', { class: 'stage', tabindex: 0, role: 'group', 'aria-label': 'The trade-off. Left and right go along a curve, up and down to another method, Enter marks it.' }, picture);
  const legend = el('fieldset', { class: 'methods' });
  const note = el('p', { class: 'note' });
  root.append(words, stage, note, legend, told);
  let curves = [];
  let groups = new Map(); // of each method, what is drawn
  let points = []; // where marks are on the screen
  let at = null; // the point that keyboard or pointer is at
  let x;
  let y;
  let width = 0;

  const methods = () => curves.filter((curve) => curve.kind === 'method');
  const seen = (curve) => !state.hidden.has(curve.method);

  // No other method that is shown has both a smaller gap and a smaller error.
  function front() {
    const every = methods().filter(seen).flatMap((curve) => curve.points.map((p) => [p.gap, p.error, curve.method]));
    const beaten = ([gap, error, method]) => every.some(([g, e, m]) => m !== method && g <= gap && e <= error && (g < gap || e < error));
    return new Set(every.filter((one) => !beaten(one)).map(([, , method]) => method));
  }
  function bright() {
    const one = state.hover ?? state.method;
    if (one !== null) return new Set([one]);
    const there = methods().filter(seen);
    return there.length > MANY ? front() : new Set(there.map((curve) => curve.method));
  }

  function limits() {
    const marks = curves.filter((curve) => curve.kind !== 'frontier' && seen(curve)).flatMap((curve) => curve.points);
    const gaps = marks.map((p) => p.gap);
    const reach = Math.max(...gaps, doc.target ?? 0, 0.02) * 1.08;
    const edge = curves.filter((curve) => curve.kind === 'frontier' && seen(curve)).flatMap((curve) => curve.points).filter((p) => p.gap <= reach);
    const errors = [...marks, ...edge].map((p) => p.error).filter(known);
    if (state.site !== null) {
      for (const p of marks) {
        const arm = known(p.arm) ? part().arms[p.arm] : null;
        if (arm && known(arm.accuracy?.[state.site])) errors.push(1 - arm.accuracy[state.site]);
      }
    }
    const [low, high] = errors.length ? [Math.min(...errors), Math.max(...errors)] : [0, 1];
    const pad = Math.max(0.1 * (high - low), 0.006);
    return [reach, Math.max(0, low - pad), Math.min(1, high + pad)];
  }

  function draw() {
    const trade = part().tradeoff;
    root.hidden = !trade;
    if (!trade || !width) return;
    const labelled = width >= 620;
    const height = labelled ? Math.max(380, Math.min(460, 60 + 15 * methods().length + 60)) : 320;
    const box = { left: 46, right: width - (labelled ? 148 : 10), top: 12, bottom: height - 46 };
    const [reach, low, high] = limits();
    x = scale(0, reach, box.left, box.right);
    y = scale(low, high, box.bottom, box.top);
    picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    picture.setAttribute('height', height);
    const drawn = [svg('clipPath', { id: 'plot' }, svg('rect', { x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 6 }))];
    for (const v of ticks(low, high, 5)) {
      drawn.push(svg('line', { class: 'grid', x1: box.left, x2: box.right, y1: y(v), y2: y(v) }));
      drawn.push(svg('text', { class: 'end', x: box.left - 8, y: y(v) + 4, text: say.short(100 * v) }));
    }
    for (const v of ticks(0, reach, labelled ? 6 : 4)) {
      drawn.push(svg('line', { class: 'tick', x1: x(v), x2: x(v), y1: box.bottom, y2: box.bottom + 5 }));
      drawn.push(svg('text', { class: 'middle', x: x(v), y: box.bottom + 19, text: say.short(v) }));
    }
    drawn.push(svg('line', { class: 'base', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    drawn.push(svg('text', { class: 'middle axis-name', x: (box.left + box.right) / 2, y: height - 8, text: `${trade.x}, ${trade.who}${labelled ? ' (0: the groups are treated alike)' : ''}` }));
    drawn.push(svg('text', { class: 'axis-name', x: 0, y: 0, transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle', text: trade.y }));
    const target = shownTarget();
    if (known(target) && target <= reach) {
      drawn.push(svg('line', { class: 'target', x1: x(target), x2: x(target), y1: box.top, y2: box.bottom }));
      drawn.push(svg('text', { class: `target-name${x(target) > box.right - 70 ? ' end' : ''}`, x: x(target) + (x(target) > box.right - 70 ? -5 : 5), y: box.top + 10, text: `target ${say.short(target)}` }));
    }
    points = [];
    groups = new Map();
    const labels = [];
    const layers = curves.filter(seen).map((curve) => {
      const layer = drawCurve(curve, reach);
      groups.set(curve.method, layer);
      if (curve.kind === 'constant') {
        const p = curve.points[0];
        if (p) layer.append(svg('text', { class: 'label', x: x(p.gap) + 11, y: y(p.error) + 4, text: clip(nameOf(curve)) }));
      } else if (labelled) {
        const ends = curve.points.filter((p) => p.gap <= reach);
        const end = ends.reduce((a, b) => (!a || b.gap > a.gap ? b : a), null);
        if (end) labels.push({ curve, y: Math.max(box.top, y(end.error)) + 4, end });
      }
      return layer;
    });
    spread(labels, 15, box.top + 8, box.bottom);
    for (const { curve, at: down, end } of labels) {
      groups.get(curve.method).append(
        svg('path', { class: 'leader', d: `M${x(end.gap) + 7} ${y(end.error)}L${box.right + 8} ${down - 4}` }),
        svg('text', { class: 'label', x: box.right + 12, y: down, text: clip(nameOf(curve)) }));
      groups.get(curve.method).lastChild.curve = curve;
    }
    picture.replaceChildren(...drawn, ...layers, svg('g', { class: 'site-layer' }), svg('circle', { class: 'ring', r: 9, visibility: 'hidden' }));
    words.textContent = `Error against ${gapName}, ${trade.who}, of ${methods().length} ${methods().length === 1 ? 'method' : 'methods'}. The numbers stand in the table below.`;
    light();
    site();
    ring();
  }
  const clip = (text) => (text.length > 19 ? `${text.slice(0, 18)}…` : text);
  const shownTarget = () => shown().target;

  function drawCurve(curve, reach) {
    const layer = svg('g', { class: `curve ${curveClass(curve)}` });
    const inside = svg('g', { 'clip-path': 'url(#plot)' });
    layer.append(inside);
    const marks = curve.points.filter((p) => known(p.gap) && known(p.error));
    if (marks.length > 1) {
      const line = marks.map((p) => `${x(p.gap).toFixed(1)} ${y(p.error).toFixed(1)}`).join('L');
      inside.append(svg('path', { class: 'path', d: `M${line}`, 'stroke-dasharray': dash(curve) }));
    }
    if (curve.kind === 'frontier') return layer;
    for (const p of marks) {
      if (known(p.gap_low)) inside.append(svg('path', { class: 'bar', d: `M${x(p.gap_low)} ${y(p.error)}H${x(p.gap_high)}` }));
      if (known(p.error_low)) inside.append(svg('path', { class: 'bar', d: `M${x(p.gap)} ${y(p.error_low)}V${y(p.error_high)}` }));
      layer.append(svg('path', { class: 'mark', d: mark(curve.kind === 'constant' ? 6 : curve.marker, 5.5, x(p.gap), y(p.error)) }));
      points.push({ curve, p, x: x(p.gap), y: y(p.error) });
    }
    return layer;
  }

  // Colour for what is looked at, grey for the others.
  function light() {
    const on = bright();
    for (const [method, layer] of groups) {
      const curve = curves.find((one) => one.method === method);
      layer.classList.toggle('dim', curve.kind === 'method' && !on.has(method));
      layer.classList.toggle('strong', (state.hover ?? state.method) === method);
    }
    for (const item of legend.querySelectorAll('li')) {
      item.classList.toggle('on', state.method === item.method);
      item.querySelector('.name').setAttribute('aria-pressed', String(state.method === item.method));
    }
    const many = methods().filter(seen).length > MANY;
    note.hidden = !many && state.method === null;
    note.replaceChildren(...(state.method !== null
      ? ['Marked: ', own(state.method), '. ', el('button', { type: 'button', class: 'plain', text: 'unmark', onclick: () => set({ method: null }) })]
      : ['In colour: methods that no other beats in both gap and error. Choose one to see it alone.']));
  }

  // The marked site's own points, beside those of all.
  function site() {
    const layer = picture.querySelector('.site-layer');
    if (!layer) return;
    layer.replaceChildren();
    if (state.site === null) return;
    const on = bright();
    for (const curve of methods().filter((one) => seen(one) && on.has(one.method))) {
      const marks = curve.points.filter((p) => known(p.arm)).map((p) => [part().arms[p.arm].gap[state.site], part().arms[p.arm].accuracy?.[state.site]])
        .filter(([gap, right]) => known(gap) && known(right)).map(([gap, right]) => [x(gap), y(1 - right)]);
      const group = svg('g', { class: `own ${curveClass(curve)}`, 'clip-path': 'url(#plot)' });
      if (marks.length > 1) group.append(svg('path', { class: 'path', d: `M${marks.map((m) => m.join(' ')).join('L')}` }));
      group.append(...marks.map(([a, b]) => svg('path', { class: 'mark', d: mark(curve.marker, 4.5, a, b) })));
      layer.append(group);
    }
  }

  function ring() {
    const circle = picture.querySelector('.ring');
    if (!circle) return;
    const spot = at && points.find((one) => one.curve === at.curve && one.p === at.p);
    circle.setAttribute('visibility', spot ? 'visible' : 'hidden');
    if (spot) {
      circle.setAttribute('cx', spot.x);
      circle.setAttribute('cy', spot.y);
    }
  }
  function lines({ curve, p }) {
    const between = (low, high, how) => (known(low) ? ` (${say.range(low, high, how)})` : '');
    return [`${nameOf(curve)}${p.level ? `, ${p.level}` : ''}`,
      `${part().tradeoff.x} ${say.gap(p.gap)}${between(p.gap_low, p.gap_high, say.gap)}`,
      `error ${say.percent(p.error)}${between(p.error_low, p.error_high, say.percent)}`];
  }
  function visit(point, speak) {
    at = point;
    ring();
    set({ hover: point && point.curve.kind === 'method' ? point.curve.method : null });
    if (!point) return hideTip();
    const frame = picture.getBoundingClientRect();
    showTip(frame.left + point.x, frame.top + point.y, lines(point));
    if (speak) told.textContent = lines(point).join('. ');
    return null;
  }
  function choose(point) {
    if (!point || point.curve.kind !== 'method') return;
    set({ method: point.curve.method, ...(known(point.p.arm) ? { arm: point.p.arm } : {}) });
  }
  function nearest(event) {
    const frame = picture.getBoundingClientRect();
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = null;
    let least = 28 ** 2;
    for (const point of points) {
      const far = (point.x - px) ** 2 + (point.y - py) ** 2;
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }
  picture.addEventListener('pointermove', (event) => {
    const label = event.target.curve;
    if (label) set({ hover: label.kind === 'method' ? label.method : null });
    else visit(nearest(event), false);
  });
  picture.addEventListener('pointerleave', () => visit(null, false));
  picture.addEventListener('click', (event) => {
    const label = event.target.curve;
    if (label) markMethod(label.method);
    else if (nearest(event)) choose(nearest(event));
    else set({ method: null });
  });
  window.addEventListener('scroll', () => at && document.activeElement === stage && visit(at, false), { passive: true });
  stage.addEventListener('blur', () => visit(null, false));
  stage.addEventListener('keydown', (event) => {
    const there = curves.filter((curve) => seen(curve) && points.some((one) => one.curve === curve));
    if (!there.length) return;
    const line = (curve) => points.filter((one) => one.curve === curve);
    const row = at ? there.indexOf(at.curve) : -1;
    const spot = at && row >= 0 ? line(at.curve).findIndex((one) => one.p === at.p) : 0;
    const to = (k, j) => {
      const marks = line(there[(k + there.length) % there.length]);
      visit(marks[Math.max(0, Math.min(j, marks.length - 1))], true);
    };
    if (event.key === 'ArrowRight') to(Math.max(row, 0), row < 0 ? 0 : spot + 1);
    else if (event.key === 'ArrowLeft') to(Math.max(row, 0), spot - 1);
    else if (event.key === 'ArrowDown') to(row + 1, spot);
    else if (event.key === 'ArrowUp') to(row < 0 ? 0 : row - 1, spot);
    else if ((event.key === 'Enter' || event.key === ' ') && at) choose(at);
    else if (event.key === 'Escape') { visit(null, false); set({ method: null }); } else return;
    event.preventDefault();
  });

  // A method is marked everywhere: the list of sites shows it too, at the level that it was at.
  function markMethod(method) {
    if (state.method === method || !methods().some((curve) => curve.method === method)) return set({ method: null });
    const arms = [...part().arms.keys()].filter((k) => methodOf(k) === method);
    const level = part().arms[state.arm]?.level;
    const arm = methodOf(state.arm) === method ? state.arm : arms.find((k) => part().arms[k].level === level) ?? arms.at(-1);
    return set({ method, ...(known(arm) ? { arm } : {}) });
  }
  function switches() {
    const flip = (method, on) => {
      const hidden = new Set(state.hidden);
      if (on) hidden.delete(method); else hidden.add(method);
      set({ hidden, method: hidden.has(state.method) ? null : state.method });
    };
    const items = curves.map((curve, k) => {
      const input = el('input', { type: 'checkbox', id: `method-${k}`, 'aria-label': `show ${nameOf(curve)}`, onchange: () => flip(curve.method, input.checked) });
      input.checked = seen(curve);
      const over = (method) => () => set({ hover: method });
      const one = curve.kind === 'method' ? curve.method : null;
      const name = el('button', { type: 'button', class: 'name', 'aria-pressed': 'false', disabled: !one,
        onclick: () => markMethod(curve.method), onpointerenter: over(one), onpointerleave: over(null), onfocus: over(one), onblur: over(null) }, swatch(curve), own(nameOf(curve)));
      const item = el('li', { class: seen(curve) ? null : 'off' }, input, name);
      item.method = curve.method;
      return item;
    });
    const every = (hidden) => () => set({ hidden: new Set(hidden ? methods().map((curve) => curve.method) : []), method: null });
    legend.replaceChildren(el('legend', { text: 'Shown in the figure' }), el('ul', {}, items),
      ...(methods().length > 3 ? [el('p', { class: 'every' }, el('button', { type: 'button', class: 'plain', text: 'show all', onclick: every(false) }), el('button', { type: 'button', class: 'plain', text: 'hide all methods', onclick: every(true) }))] : []));
  }
  function renew() {
    curves = part().tradeoff?.curves ?? [];
    at = null;
    switches();
    draw();
  }
  watch(['part'], () => { state.hidden = new Set(); renew(); });
  watch(['hidden'], () => {
    const focus = document.activeElement?.id;
    switches();
    if (focus?.startsWith('method-')) $(focus)?.focus();
    draw();
  });
  watch(['method', 'hover'], () => { light(); site(); });
  watch(['site', 'step', 'arm'], draw);
  renew();
  onWidth(stage, (now) => { width = now; draw(); });
}
