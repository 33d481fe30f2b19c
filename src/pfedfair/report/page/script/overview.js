// A picture of all sites side by side, in the order of the list: a few long paths, however many.

const OVERVIEW = 40; // with fewer sites the list itself is the picture

function overviewChart(frame, now, pick) {
  const picture = svg('svg', { class: 'overview', role: 'img' });
  frame.append(picture);

  function draw() {
    const { order, numbers, top } = now();
    const n = order.length;
    frame.hidden = part().sites.name.length < OVERVIEW;
    if (frame.hidden) return;
    const width = frame.clientWidth || 600;
    const height = 132;
    picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const x = scale(-0.5, Math.max(n, 1) - 0.5, 36, width - 4);
    const y = scale(0, top, height - 8, 8);
    const lines = new Map();
    const size = Math.max(0.8, Math.min(3, (0.4 * width) / Math.max(n, 1)));
    order.forEach((i, k) => {
      if (!known(numbers.gap[i])) return;
      const key = numbers.verdict?.[i] ?? null;
      if (!lines.has(key)) lines.set(key, [[], []]);
      const [spans, dots] = lines.get(key);
      const at = x(k).toFixed(1);
      const low = numbers.gap_low?.[i];
      if (known(low))
        spans.push(`M${at} ${y(low).toFixed(1)}V${y(Math.min(numbers.gap_high[i], top)).toFixed(1)}`);
      dots.push(`M${at} ${(y(Math.min(numbers.gap[i], top)) - size).toFixed(1)}v${(2 * size).toFixed(1)}`);
    });
    const drawn = ticks(0, top, 3).map((v) => [
      svg('line', { class: 'grid', x1: 36, x2: width, y1: y(v), y2: y(v) }),
      svg('text', { x: 30, y: y(v) + 4, class: 'end', text: format.short(v) }),
    ]);
    for (const [key, [spans, dots]] of lines) {
      drawn.push(
        svg('path', {
          class: `spans ${verdictClass(key)}`,
          d: spans.join(''),
          'stroke-width': Math.max(0.5, size * 0.7),
        }),
      );
      drawn.push(
        svg('path', { class: `dots ${verdictClass(key)}`, d: dots.join(''), 'stroke-width': 2 * size }),
      );
    }
    if (known(numbers.target))
      drawn.push(
        svg('line', { class: 'target', x1: 36, x2: width, y1: y(numbers.target), y2: y(numbers.target) }),
      );
    const at = state.site === null ? -1 : order.indexOf(state.site);
    if (at >= 0) drawn.push(svg('line', { class: 'here', x1: x(at), x2: x(at), y1: 0, y2: height }));
    picture.replaceChildren(...drawn.flat());
    const found = [...counts(order.map((i) => numbers.verdict?.[i]))].filter(([key]) => key);
    picture.setAttribute(
      'aria-label',
      `The gaps of ${format.count(n)} sites side by side, in the order of the list: ${found.map(([key, k]) => `${format.count(k)} ${key}`).join(', ') || 'no target'}.`,
    );
    picture.place = (px) => Math.round(((px - 36) / (width - 40)) * Math.max(n, 1) - 0.5);
  }
  picture.addEventListener('pointermove', (event) => {
    const { order, numbers } = now();
    const i = order[picture.place(event.offsetX)];
    if (i === undefined) return hideTip();
    const why = numbers.verdict?.[i];
    return showTip(event.clientX, event.clientY, [
      part().sites.name[i],
      `gap ${format.gap(numbers.gap[i])} (${format.range(numbers.gap_low?.[i], numbers.gap_high?.[i], format.gap)})`,
      why,
    ]);
  });
  picture.addEventListener('pointerleave', hideTip);
  picture.addEventListener('click', (event) => {
    const place = picture.place(event.offsetX);
    if (now().order[place] !== undefined) pick(place);
  });
  return draw;
}
