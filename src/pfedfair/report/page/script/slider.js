// Another target: a slider that stays in sight, and a picture of the cost of each target.

function sliderSection(root, dock) {
  const own = slider.start;
  const n = parts[0].sites.name.length;
  const input = el('input', {
    type: 'range',
    id: 'slide',
    min: 0,
    max: slider.targets.length - 1,
    step: 1,
    oninput: () => move(Number(input.value)),
  });
  const value = el('output', { for: 'slide' });
  const status = el('p', { class: 'status', role: 'status' });
  const back = el('button', {
    type: 'button',
    class: 'link',
    onclick: () => move(own),
    text: `back to ${format.short(slider.targets[own])}`,
  });
  const picture = svg('svg', { class: 'costs', role: 'img' });
  const frame = el('div', { class: 'frame' }, picture);
  root.append(frame);
  dock.append(
    el(
      'div',
      { class: 'slide' },
      el('label', { for: 'slide' }, 'Target ', value),
      input,
      el('div', { class: 'result' }, status, back),
    ),
  );
  const sentence = $('sentence');
  const first = sentence.textContent;
  const more = document.querySelectorAll('.lead .more');
  const now = el('p', { class: 'more', hidden: true });
  sentence.after(now);

  function move(step) {
    set({ step, part: 0, arm: parts[0].chosen ?? 0 });
  }
  function words(step) {
    if (slider.sentence?.[step]) return slider.sentence[step];
    const confidence = doc.confidence ? ` with ${format.short(100 * doc.confidence)} % confidence` : '';
    return `${format.count(slider.within[step])} of ${format.count(n)} sites would have a gap of at most ${format.short(slider.targets[step])}${confidence}.`;
  }
  function renew() {
    const step = state.step;
    input.value = step;
    value.textContent = format.short(slider.targets[step]);
    input.setAttribute('aria-valuetext', `target ${format.short(slider.targets[step])}`);
    status.replaceChildren(
      el(
        'span',
        {},
        el('b', { text: `${format.count(slider.within[step])} of ${format.count(n)}` }),
        ' sites within it',
      ),
      ' ',
      el('span', {}, 'mean accuracy ', el('b', { text: format.percent(slider.mean_accuracy?.[step]) })),
      ' ',
      el(
        'span',
        { class: 'worst' },
        'worst site ',
        el('b', { text: format.percent(slider.worst_accuracy?.[step]) }),
      ),
    );
    back.hidden = step === own;
    dock.classList.toggle('moved', step !== own);
    sentence.textContent = step === own ? first : words(step).replaceAll(' %', '\u00a0%');
    sentence.classList.toggle('moved', step !== own);
    sentence.classList.toggle('long', sentence.textContent.length > 160);
    for (const line of more) line.hidden = step !== own;
    now.hidden = step === own;
    now.textContent = `The mean accuracy would be ${format.percent(slider.mean_accuracy?.[step])}. The run's own target is ${format.short(slider.targets[own])}.`;
    draw();
  }
  function draw() {
    const width = frame.clientWidth;
    if (!width) return;
    const gap = width < 560 ? 0 : 40;
    const half = gap ? (width - gap) / 2 : width;
    const tall = 170;
    const height = gap ? tall : 2 * tall;
    picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    picture.setAttribute('height', height);
    const rights = [...(slider.mean_accuracy ?? []), ...(slider.worst_accuracy ?? [])].filter(known);
    const [low, high] = [Math.min(...rights), Math.max(...rights)];
    picture.replaceChildren(
      ...panel(
        0,
        0,
        half,
        'accuracy',
        [
          ['mean of sites', slider.mean_accuracy, 'mean'],
          ['worst site', slider.worst_accuracy, 'worst'],
        ],
        [Math.max(0, low - 0.1 * (high - low)), high + 0.1 * (high - low || 0.1)],
        format.percent,
      ),
      ...panel(
        gap ? half + gap : 0,
        gap ? 0 : tall,
        half,
        'sites within the target',
        [['', slider.within, 'mean']],
        [0, n],
        format.count,
      ),
    );
    picture.setAttribute(
      'aria-label',
      `Accuracy and the number of sites within the target, against the target. Now ${format.short(slider.targets[state.step])}: ${words(state.step)}`,
    );
  }
  function panel(left, top, width, title, lines, [low, high], how) {
    const x = scale(slider.targets[0], slider.targets.at(-1), left + 50, left + width - 16);
    const y = scale(low, high, top + 136, top + 34);
    const drawn = [svg('text', { class: 'title', x: left, y: top + 14, text: title })];
    for (const v of ticks(low, high, 3)) {
      if (how === format.count && v % 1) continue;
      drawn.push(
        svg('line', { class: 'grid', x1: left + 50, x2: left + width, y1: y(v), y2: y(v) }),
        svg('text', {
          class: 'end',
          x: left + 43,
          y: y(v) + 4,
          text: how === format.percent ? `${format.short(100 * v)} %` : how(v),
        }),
      );
    }
    for (const v of ticks(x.low, x.high, 4))
      drawn.push(svg('text', { class: 'middle', x: x(v), y: top + 156, text: format.short(v) }));
    const now = slider.targets[state.step];
    drawn.push(svg('line', { class: 'target', x1: x(now), x2: x(now), y1: top + 28, y2: top + 140 }));
    for (const [name, values, kind] of lines) {
      if (!values) continue;
      const steps = values.map((v, k) => [x(slider.targets[k]), y(v)]).filter((_, k) => known(values[k]));
      drawn.push(svg('path', { class: `path ${kind}`, d: `M${steps.map((s) => s.join(' ')).join('L')}` }));
      if (name)
        drawn.push(
          svg('text', {
            class: 'end name',
            x: left + width - 16,
            y: y(values.at(-1)) + (kind === 'worst' ? 16 : -7),
            text: name,
          }),
        );
      if (known(values[state.step]))
        drawn.push(svg('circle', { class: `dot ${kind}`, r: 4.5, cx: x(now), cy: y(values[state.step]) }));
    }
    return drawn;
  }
  watch(['step', 'part', 'arm'], renew);
  renew();
  onWidth(frame, draw);
}
