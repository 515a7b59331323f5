// One place and one zoom for all pictures. A place is a point of the pictures, in their own pixels.
const ZOOMS = [0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16];
const STEP_PX = 60;
let place = { x: 0, y: 0 };
let zoom = 1;
const pointers = new Map();
let moved = 0;

const views = () => [...element.querySelectorAll('.view')];
const size = () => ({ width: props.value.width, height: props.value.height });
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function draw() {
  const { width, height } = size();
  place = { x: clamp(place.x, 0, width), y: clamp(place.y, 0, height) };
  for (const plane of element.querySelectorAll('.plane')) {
    plane.style.transform = `translate(${-place.x * zoom}px, ${-place.y * zoom}px) scale(${zoom})`;
    plane.style.setProperty('--rendering', zoom >= 2 ? 'pixelated' : 'auto');
  }
  element.querySelector('.level').textContent = `${Math.round(zoom * 100)} %`;
}

function fit() {
  const view = views()[0];
  const { width, height } = size();
  return view ? Math.min(view.clientWidth / width, view.clientHeight / height) : 1;
}

function zoomTo(wanted, around) {
  const next = clamp(wanted, Math.min(fit(), 1) / 2, 16);
  if (around) {
    // The point under the pointer stays where it is.
    place.x += around.x / zoom - around.x / next;
    place.y += around.y / zoom - around.y / next;
  }
  zoom = next;
  draw();
}

function step(direction, around) {
  const levels = direction > 0 ? ZOOMS.filter((level) => level > zoom * 1.01) : ZOOMS.filter((level) => level < zoom * 0.99).reverse();
  if (levels.length) zoomTo(levels[0], around);
}

function look(name, on) {
  const viewer = element.querySelector('.viewer');
  if (!viewer) return;
  viewer.classList.toggle(name, on);
  element.querySelector(`[data-look="${name}"]`).setAttribute('aria-pressed', String(viewer.classList.contains(name)));
}

const fromMiddle = (view, event) => {
  const box = view.getBoundingClientRect();
  return { x: event.clientX - box.left - box.width / 2, y: event.clientY - box.top - box.height / 2 };
};

element.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  const to = { in: () => step(1), out: () => step(-1), native: () => zoomTo(1), fit: () => showAll() };
  if (button.dataset.zoom) to[button.dataset.zoom]();
  if (button.dataset.look) look(button.dataset.look);
});

function showAll() {
  place = { x: size().width / 2, y: size().height / 2 };
  zoomTo(fit());
}

element.addEventListener('keydown', (event) => {
  if (!event.target.closest('.view') || event.ctrlKey || event.metaKey || event.altKey) return;
  const pan = (x, y) => { place.x += (x * STEP_PX) / zoom; place.y += (y * STEP_PX) / zoom; draw(); };
  const keys = {
    ArrowLeft: () => pan(-1, 0), ArrowRight: () => pan(1, 0), ArrowUp: () => pan(0, -1), ArrowDown: () => pan(0, 1),
    '+': () => step(1), '=': () => step(1), '-': () => step(-1), 0: () => zoomTo(1),
    d: () => look('difference'), ' ': () => look('before', true),
  };
  const act = keys[event.key] ?? keys[event.key.toLowerCase()];
  if (act) { event.preventDefault(); act(); }
});
element.addEventListener('keyup', (event) => {
  if (event.key === ' ' && event.target.closest('.view')) { event.preventDefault(); look('before', false); }
});

// With Ctrl only, or the page could not be scrolled across the pictures.
element.addEventListener('wheel', (event) => {
  const view = event.target.closest('.view');
  if (!view || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  zoomTo(zoom * Math.exp(-event.deltaY / 400), fromMiddle(view, event));
}, { passive: false });

element.addEventListener('pointerdown', (event) => {
  const view = event.target.closest('.view');
  if (!view || event.button) return;
  if (!pointers.size) moved = 0;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  view.setPointerCapture(event.pointerId);
  view.classList.add('dragged');
});
element.addEventListener('pointermove', (event) => {
  const last = pointers.get(event.pointerId);
  if (!last) return;
  const now = { x: event.clientX, y: event.clientY };
  moved += Math.hypot(now.x - last.x, now.y - last.y);
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  place.x -= (now.x - last.x) / zoom / pointers.size;
  place.y -= (now.y - last.y) / zoom / pointers.size;
  if (other) {
    const spread = (point) => Math.max(Math.hypot(point.x - other.x, point.y - other.y), 1);
    const view = event.target.closest('.view');
    const middle = { clientX: (now.x + other.x) / 2, clientY: (now.y + other.y) / 2 };
    zoomTo((zoom * spread(now)) / spread(last), view && fromMiddle(view, middle));
  } else draw();
  pointers.set(event.pointerId, now);
});
for (const end of ['pointerup', 'pointercancel']) {
  element.addEventListener(end, (event) => {
    if (!pointers.delete(event.pointerId)) return;
    const view = event.target.closest('.view');
    view?.classList.remove('dragged');
    // A click without a drag brings that point into the middle.
    if (end === 'pointerup' && view && moved < 4 && !pointers.size) {
      const to = fromMiddle(view, event);
      place.x += to.x / zoom;
      place.y += to.y / zoom;
      draw();
    }
  });
}

function begin() {
  if (!props.value || !element.querySelector('.viewer')) return;
  place = { x: props.value.x, y: props.value.y };
  zoom = 1;
  draw();
}
watch('value', begin);
begin();
