// Puts the page together: sections, contents, the switch for light and dark, copying, live pages.

function themeSwitch() {
  const root = document.documentElement;
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const now = () => root.dataset.theme ?? (dark.matches ? 'dark' : 'light');
  const press = el('button', {
    type: 'button',
    class: 'theme',
    onclick: () => {
      root.dataset.theme = now() === 'dark' ? 'light' : 'dark';
      storage.set('localStorage', 'theme', root.dataset.theme);
      name();
    },
  });
  const name = () => {
    press.textContent = now() === 'dark' ? 'Light' : 'Dark';
    press.setAttribute('aria-label', `${press.textContent} page`);
  };
  const theme = storage.get('localStorage', 'theme');
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  dark.addEventListener('change', name);
  name();
  $('tools').append(press);
}

function partPicker(root) {
  const pick = el(
    'select',
    {
      id: 'part',
      onchange: () => {
        const k = Number(pick.value);
        set({
          part: k,
          arm: parts[k].chosen ?? 0,
          site: null,
          method: null,
          hover: null,
          text: '',
          verdict: null,
          step: slider?.start ?? 0,
        });
      },
    },
    parts.map((one, k) => el('option', { value: k, text: one.name })),
  );
  pick.value = state.part;
  root.append(el('label', { for: 'part', class: 'field' }, el('span', { text: 'data and clients' }), pick));
  watch(['part'], () => {
    pick.value = state.part;
  });
}
function showPart() {
  for (const block of document.querySelectorAll('[data-part]'))
    block.hidden = Number(block.dataset.part) !== state.part;
  const trade = $('tradeoff');
  if (trade) trade.hidden = !part().tradeoff;
  const tables = $('tables');
  if (tables) tables.hidden = !part().tables?.length;
}

function contents() {
  const items = [...document.querySelectorAll('main > section')]
    .filter((one) => !one.hidden)
    .map((one) => el('li', {}, el('a', { href: `#${one.id}`, text: one.querySelector('h2').textContent })));
  if (items.length > 2) $('contents').replaceChildren(el('ul', {}, items));
}

function copyButtons() {
  for (const line of document.querySelectorAll('.command dd')) {
    const code = line.querySelector('code');
    const press = el('button', {
      type: 'button',
      class: 'copy',
      text: 'Copy',
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(code.textContent);
        } catch {
          window.getSelection().selectAllChildren(code);
          document.execCommand('copy');
        }
        press.textContent = 'Copied';
        setTimeout(() => {
          press.textContent = 'Copy';
        }, 2000);
      },
    });
    line.append(press);
  }
}

// A live page reads itself again, and comes back as it was: place, site, filter.
const RESTORED = ['part', 'arm', 'site', 'method', 'sort', 'down', 'text', 'verdict'];
const place = () => `live-${window.location.pathname}`;
function restore() {
  const stored = doc.live ? storage.get('sessionStorage', place()) : null;
  if (!stored) return 0;
  try {
    const { scroll, ...was } = JSON.parse(stored);
    const there = parts[was.part];
    if (there && was.arm < there.arms.length && !(was.site >= there.sites.name.length)) {
      for (const key of RESTORED) state[key] = was[key] ?? null;
      state.text ??= '';
    }
    return scroll;
  } catch {
    return 0;
  }
}
function liveBanner(scroll) {
  if (scroll) window.scrollTo(0, scroll);
  if (doc.live.finished || !doc.live.refresh) return;
  let timer = null;
  const again = () => {
    storage.set(
      'sessionStorage',
      place(),
      JSON.stringify({ scroll: window.scrollY, ...Object.fromEntries(RESTORED.map((key) => [key, state[key]])) }),
    );
    window.location.reload();
  };
  const press = el('button', { type: 'button', class: 'link', onclick: () => flip() });
  function flip() {
    if (timer) clearTimeout(timer);
    timer = timer ? null : setTimeout(again, 1000 * doc.live.refresh);
    press.textContent = timer ? 'pause' : 'continue';
  }
  $('live').append(press);
  flip();
}

function start() {
  const scroll = restore();
  themeSwitch();
  if (parts.length > 1) partPicker($('picker'));
  const usable = parts.length > 0 && parts.every((one) => one.arms.length > 0 && one.sites.name.length > 0);
  if (usable) {
    const { order } = stripSection($('strip'));
    if ($('chart')) tradeoffSection($('chart'));
    if (slider) sliderSection($('steps'), $('dock'));
    siteSection($('panel'), order);
    watch(['part'], () => {
      showPart();
      contents();
    });
    showPart();
  }
  if ($('groups')) auditSection($('groups'));
  if (doc.shapes?.length) shapesSection($('learnt'));
  if (usable || !parts.length) for (const block of document.querySelectorAll('.static')) block.remove();
  copyButtons();
  contents();
  if (doc.live) liveBanner(scroll);
}
start();
