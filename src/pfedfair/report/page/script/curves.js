// Draws the trade-off: axes, curves with intervals and marks, names to the right of them.

const nameOf = (curve) => curve.words ?? curve.method;
const brief = (text) => (text.length > 19 ? `${text.slice(0, 18)}…` : text);

// What fits: means, not intervals, which with few seeds may reach far out; of methods, not of the
// constant and of what decides like it, unless there is nothing else.
function tradeoffLimits(curves) {
  const every = curves.filter((curve) => curve.kind !== 'frontier').flatMap((curve) => curve.points);
  const ofMethods = curves.filter((curve) => curve.kind === 'method').flatMap((curve) => curve.points);
  const inside = ofMethods.filter((p) => !p.apart);
  const marks = inside.length ? inside : every;
  const reach = 1.08 * Math.max(...marks.map((p) => p.gap), doc.target ?? 0, 0.02);
  const edge = curves.filter((curve) => curve.kind === 'frontier').flatMap((curve) => curve.points);
  const errors = [...marks, ...edge.filter((p) => p.gap <= reach)].map((p) => p.error);
  if (state.site !== null) {
    for (const p of marks) {
      const right = known(p.arm) ? part().arms[p.arm].accuracy?.[state.site] : null;
      if (known(right)) errors.push(1 - right);
    }
  }
  const there = errors.filter(known);
  const [low, high] = there.length ? [Math.min(...there), Math.max(...there)] : [0, 1];
  const pad = Math.max(0.1 * (high - low), 0.006);
  return [reach, Math.max(0, low - pad), Math.min(1, high + pad)];
}

// Returns the layers by method, the marks' places, and the two scales.
function drawTradeoff(picture, curves, width, target) {
  const trade = part().tradeoff;
  const wide = width >= 620; // names fit to the right
  const methods = curves.filter((curve) => curve.kind === 'method').length;
  const height = wide ? Math.max(380, Math.min(460, 120 + 15 * methods)) : 320;
  const box = { left: 46, right: width - (wide ? 148 : 10), top: 12, bottom: height - 46 };
  const [reach, low, high] = tradeoffLimits(curves);
  const x = scale(0, reach, box.left, box.right);
  const y = scale(low, high, box.bottom, box.top);
  picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
  picture.setAttribute('height', height);

  const inside = {
    x: box.left - 6,
    y: box.top - 6,
    width: box.right - box.left + 12,
    height: box.bottom - box.top + 6,
  };
  const drawn = [svg('clipPath', { id: 'plot' }, svg('rect', inside))];
  const line = (kind, x1, y1, x2, y2) => drawn.push(svg('line', { class: kind, x1, y1, x2, y2 }));
  const text = (kind, at, down, label) => drawn.push(svg('text', { class: kind, x: at, y: down, text: label }));
  for (const v of ticks(low, high, 5)) {
    line('grid', box.left, y(v), box.right, y(v));
    text('end', box.left - 8, y(v) + 4, format.short(100 * v));
  }
  for (const v of ticks(0, reach, wide ? 6 : 4)) {
    line('tick', x(v), box.bottom, x(v), box.bottom + 5);
    text('middle', x(v), box.bottom + 19, format.short(v));
  }
  line('base', box.left, box.bottom, box.right, box.bottom);
  const alike = wide ? ' (0: the groups are treated alike)' : '';
  text('middle axis-name', (box.left + box.right) / 2, height - 8, `${trade.x}, ${trade.who}${alike}`);
  const turned = `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`;
  drawn.push(svg('text', { class: 'middle axis-name', transform: turned, text: trade.y }));
  if (known(target) && target <= reach) {
    const late = x(target) > box.right - 70;
    line('target', x(target), box.top, x(target), box.bottom);
    text(
      `target-name${late ? ' end' : ''}`,
      x(target) + (late ? -5 : 5),
      box.top + 10,
      `target ${format.short(target)}`,
    );
  }

  const points = [];
  const layers = new Map();
  const names = [];
  for (const curve of curves) {
    const layer = drawCurve(curve, x, y, box, points);
    layers.set(curve.method, layer);
    const ends = curve.points.filter((p) => p.gap <= reach);
    const end = ends.reduce((a, b) => (!a || b.gap > a.gap ? b : a), null);
    if (!end) continue;
    if (curve.kind === 'constant') {
      const above = y(end.error) < box.top;
      const label = brief(nameOf(curve)) + (above ? ` ↑ ${format.percent(end.error)}` : '');
      const down = Math.max(y(end.error), box.top) + 4;
      layer.append(svg('text', { class: 'label', x: x(end.gap) + 11, y: down, text: label }));
    } else if (wide) {
      names.push({ curve, end, y: Math.max(box.top, y(end.error)) + 4 });
    }
  }
  spread(names, 15, box.top + 8, box.bottom);
  for (const { curve, end, at } of names) {
    const label = svg('text', { class: 'label', x: box.right + 12, y: at, text: brief(nameOf(curve)) });
    label.curve = curve;
    const d = `M${x(end.gap) + 7} ${y(end.error)}L${box.right + 8} ${at - 4}`;
    layers.get(curve.method).append(svg('path', { class: 'leader', d }), label);
  }
  const ring = svg('circle', { class: 'ring', r: 9, visibility: 'hidden' });
  picture.replaceChildren(...drawn, ...layers.values(), svg('g', { class: 'site-layer' }), ring);
  return { layers, points, x, y };
}

// A mark outside the picture stands at its edge.
function drawCurve(curve, x, y, box, points) {
  const inside = svg('g', { 'clip-path': 'url(#plot)' });
  const layer = svg('g', { class: `curve ${curveClass(curve)}` }, inside);
  const there = curve.points.filter((p) => known(p.gap) && known(p.error));
  if (there.length > 1) {
    const line = there.map((p) => `${x(p.gap).toFixed(1)} ${y(p.error).toFixed(1)}`).join('L');
    inside.append(svg('path', { class: 'path', d: `M${line}`, 'stroke-dasharray': dash(curve) }));
  }
  if (curve.kind === 'frontier') return layer;
  for (const p of there) {
    const bar = (d) => inside.append(svg('path', { class: 'bar', d }));
    if (known(p.gap_low)) bar(`M${x(p.gap_low)} ${y(p.error)}H${x(p.gap_high)}`);
    if (known(p.error_low)) bar(`M${x(p.gap)} ${y(p.error_low)}V${y(p.error_high)}`);
    const across = Math.min(x(p.gap), box.right);
    const down = Math.max(y(p.error), box.top);
    layer.append(svg('path', { class: 'mark', d: mark(markOf(curve), 5.5, across, down) }));
    points.push({ curve, p, x: across, y: down });
  }
  return layer;
}

// The marked site's own points, hollow, beside those of all.
function drawOwn(layer, curves, x, y) {
  const groups = curves.map((curve) => {
    const there = curve.points
      .filter((p) => known(p.arm))
      .map((p) => [part().arms[p.arm].gap[state.site], part().arms[p.arm].accuracy?.[state.site]])
      .filter(([gap, right]) => known(gap) && known(right))
      .map(([gap, right]) => [x(gap), y(1 - right)]);
    const group = svg('g', { class: `own ${curveClass(curve)}`, 'clip-path': 'url(#plot)' });
    if (there.length > 1)
      group.append(svg('path', { class: 'path', d: `M${there.map((at) => at.join(' ')).join('L')}` }));
    group.append(...there.map(([a, b]) => svg('path', { class: 'mark', d: mark(curve.marker, 4.5, a, b) })));
    return group;
  });
  layer.replaceChildren(...groups);
}
