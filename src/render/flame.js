/*
 * What a flame graph does: zoom, search, tooltips, a size that follows the window's.
 *
 * The tree comes as columns (see flame.c), nodes depth first. A view is a range [from, to) of the
 * graph's unit; zooming changes the range, and every frame that overlaps it is drawn, clipped to it.
 * Frames too narrow to see are merged with their neighbours into blocks, as in the static picture.
 * Idle time that is folded is drawn narrower than it is: a range has as much more in it as is hidden.
 *
 * The graph is never taller than the window: title and search stay, and the frames scroll below them,
 * from the root on. They stand in an HTML element over the whole picture (Safari places what scrolls
 * in a foreignObject as if that were at the origin, so there it is).
 */
(() => {
'use strict';

const svg = document.currentScript.closest('svg');
const data = JSON.parse(svg.querySelector('script[type="application/json"]').textContent);
const isFile = svg === document.documentElement; // else it is part of a page
const names = data.names;

// ---- the tree -----------------------------------------------------------------------------------

const count = data.functions.length;
const functionOf = Uint32Array.from(data.functions);
const depth = Uint32Array.from(data.depths);
const now = Float64Array.from(data.totals);
const base = data.bases ? Float64Array.from(data.bases) : null; // of a difference
const total = now.map((n, i) => n + (base ? base[i] : 0)); // what widths show
const whole = total[0]; // … of which this much is not shown, all of it in one frame
const hidden = data.hidden ?? 0;
const start = new Float64Array(count);
const self = Float64Array.from(total);
const parent = new Uint32Array(count);
const idle = hidden > 0 ? functionOf.findIndex((f, i) => depth[i] === 1 && f === data.idle) : -1;
const next = new Uint32Array(count).fill(count); // just past the subtree

if (idle > 0) {
	total[0] -= hidden;
	total[idle] -= hidden;
	self[0] -= hidden;
	self[idle] -= hidden;
}

(() => {
	const cursor = [0]; // by depth: where the next node of that row starts
	const open = []; // by depth: the node whose subtree is being read
	for (let i = 0; i < count; i++) {
		const d = depth[i];
		while (open.length > d)
			next[open.pop()] = i;
		start[i] = cursor[d];
		cursor[d] += total[i];
		cursor[d + 1] = start[i];
		if (d > 0) {
			parent[i] = open[d - 1];
			self[parent[i]] -= total[i];
		}
		open.push(i);
	}
})();

const end = i => start[i] + total[i];
const amountIn = (from, to) =>
	to - from + (idle > 0 && from <= start[idle] && to >= end(idle) ? hidden : 0);
const amountOf = i => total[i] + (i === idle || (i === 0 && idle > 0) ? hidden : 0);
const isMerged = i => data.merged > 0 && functionOf[i] === data.merged;

function moduleOf(f) {
	while (f > 0 && data.modules[f] === 0)
		f--;
	return data.modules[f];
}

// The innermost node that holds the whole range.
function nodeAround(from, to) {
	let node = 0;
	for (let i = 1; i < next[node];) {
		if (start[i] <= from && end(i) >= to)
			node = i++;
		else
			i = next[i];
	}
	return node;
}

// ---- words --------------------------------------------------------------------------------------

const SCALES = {
	nanoseconds: [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']],
	bytes: [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']],
};

function amount(n) {
	const scales = SCALES[data.unit];
	if (!scales)
		return `${n.toLocaleString('en-US')} ${n === 1 ? data.unit.replace(/s$/, '') : data.unit}`;
	const [least, suffix] = scales.find(([size]) => n >= size) ?? scales.at(-1);
	const scaled = n / least; // in the digits of describe.c
	return `${scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)} ${suffix}`;
}

// Of what a clock took, how many samples that is.
const samples = n => {
	const taken = data.period ? Math.round(n / data.period) : 0;
	return data.period ? ` (${taken.toLocaleString('en-US')} ${taken === 1 ? 'sample' : 'samples'})` : '';
};

const percent = (n, of) => `${(of ? 100 * n / of : 0).toFixed(2)} %`;

const WIDE = /[\u1100-\u115f\u2e80-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f000}-\u{3ffff}]/u;

// What of a name fits into so many columns of a monospaced font.
function fit(name, columns) {
	columns = Math.floor(columns);
	if (columns < 3)
		return '';
	let used = 0, at = 0, cut = 0;
	for (const c of name) {
		used += WIDE.test(c) ? 2 : 1;
		if (used > columns)
			return name.slice(0, cut) + '…';
		at += c.length;
		if (used < columns)
			cut = at;
	}
	return name;
}

// ---- elements -----------------------------------------------------------------------------------

const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';

function make(space, tag, attributes = {}, ...children) {
	const element = document.createElementNS(space, tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	element.append(...children);
	return element;
}

const input = make(HTML, 'input', {
	type: 'text', placeholder: 'Search (regular expression)', spellcheck: 'false',
	autocomplete: 'off', 'aria-label': 'Search functions by regular expression',
	title: 'Press / to search, Esc to clear. Lower case matches both cases.',
});
const matched = make(HTML, 'output');
const trail = make(HTML, 'div', {class: 'trail', role: 'navigation', 'aria-label': 'Zoom'});
const frames = make(SVG, 'svg', {class: 'frames', width: '100%'});
const scroll = make(HTML, 'div', {class: 'scroll', tabindex: -1}, frames);
const over = make(SVG, 'foreignObject', {x: 0, y: 0, width: '100%', height: '100%'},
	make(HTML, 'div', {class: 'over'},
		make(HTML, 'div', {class: 'bar'}, make(HTML, 'div', {class: 'search'}, input, matched), trail),
		scroll));
const tip = make(HTML, 'div', {class: 'tip', role: 'tooltip'});
const tipBox = make(SVG, 'foreignObject', {width: 1, height: 1, visibility: 'hidden'}, tip);

// ---- layout and drawing -------------------------------------------------------------------------

const PAGE_BELOW = 56; // pixels of what stands below the graph on a page
const ROWS_LEAST = 8; // also in a window that is not tall enough

let width = 0; // of the graph, in pixels
let rows = 0;
let character = 7.25; // the width of one, measured below
let view = {from: 0, to: total[0], node: 0};
let isHit = null; // by function: 1 if the search matches it; null without a search

// A box is a frame, or a block of `count` frames of one row from `node` to `last`.
function layOut() {
	const scale = width / (view.to - view.from || 1);
	const boxes = [], blocks = [];
	const flush = block => {
		if (block && (block.to - block.from) * scale >= data.blockMin)
			boxes.push(block);
	};
	for (let i = 0; i < count;) {
		const from = Math.max(start[i], view.from), to = Math.min(end(i), view.to), d = depth[i];
		if (to <= from && i > 0) {
			i = next[i];
			continue;
		}
		const block = blocks[d];
		if ((to - from) * scale >= data.frameMin || i === 0) {
			boxes.push({node: i, last: i, from, to, count: 1});
		} else if (block && (from - block.to) * scale <= data.blockMin &&
			   (to - block.from) * scale <= data.blockMax) {
			block.to = to;
			block.last = i;
			block.count++;
		} else {
			flush(block);
			blocks[d] = {node: i, last: i, from, to, count: 1};
		}
		i++;
	}
	blocks.forEach(flush);
	return boxes;
}

function hasHit(box) {
	if (isHit === null)
		return false;
	if (box.count === 1)
		return isHit[functionOf[box.node]] === 1;
	for (let i = box.node; i <= box.last; i++)
		if (depth[i] === depth[box.node] && isHit[functionOf[i]])
			return true;
	return false;
}

// How a frame changed, in the steps of palette.c.
function changeClass(i) {
	const change = total[i] ? (now[i] - base[i]) / total[i] : 0, size = Math.abs(change);
	const step = size < 0.025 ? 0 : size < 0.15 ? 1 : size < 0.4 ? 2 : size < 1 ? 3 : 4;
	return `d${4 + Math.sign(change) * step}`;
}

function classOf(box) {
	const f = functionOf[box.node];
	const plain = () => base ? changeClass(box.node) : data.classes.slice(2 * f, 2 * f + 2);
	const isAbove = box.from === view.from && box.to === view.to && depth[box.node] < depth[view.node];
	return (box.count > 1 || isMerged(box.node) ? 'x' : plain()) +
		(hasHit(box) ? ' hit' : '') + (isAbove ? ' above' : '');
}

function drawBox(box, into) {
	const scale = width / (view.to - view.from || 1);
	const x = data.pad + (box.from - view.from) * scale, w = (box.to - box.from) * scale;
	const d = depth[box.node];
	const y = (data.icicle ? d : rows - 1 - d) * data.row;
	const rect = make(SVG, 'rect', {
		x: x.toFixed(2), y, height: data.row - 1,
		width: Math.max(w - (w > 3 ? 0.5 : 0), 0.1).toFixed(2),
	});
	rect.box = box;
	into.append(rect);
	if (box.count > 1)
		return;
	const name = names[functionOf[box.node]];
	const label = fit(box.node === idle ? `${name} ${amount(now[idle])}` : name, (w - 2 * data.textPad) / character);
	if (label)
		into.append(make(SVG, 'text', {x: (x + data.textPad).toFixed(2), y: y + 13}, label));
}

// Colours what is drawn: also all that a search changes.
function paint() {
	svg.classList.toggle('searching', isHit !== null);
	let of = '';
	for (const element of frames.children) {
		if (element.box)
			of = classOf(element.box);
		else // the label of the frame before it
			of = of.includes('hit') ? 'hit' : '';
		element.setAttribute('class', of);
	}
}

// As tall as its rows, if the window is; on a page, what stands below it shows as well.
function setHeight() {
	const inside = rows * data.row + data.pad;
	const most = Math.max(window.innerHeight - (isFile ? 0 : PAGE_BELOW), data.header + ROWS_LEAST * data.row);
	frames.setAttribute('height', inside);
	svg.setAttribute('height', Math.min(data.header + inside, most));
}

function draw() {
	/* The root stands at the bottom: keep what was looked at where it was, from there. */
	const below = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
	const boxes = layOut();
	rows = boxes.reduce((most, box) => Math.max(most, depth[box.node] + 1), 1);

	const into = document.createDocumentFragment();
	for (const box of boxes)
		drawBox(box, into);
	frames.replaceChildren(into);
	paint();
	setHeight();
	svg.classList.toggle('zoomed', view.from > 0 || view.to < total[0]);
	hideTip();
	if (!data.icicle)
		scroll.scrollTop = scroll.scrollHeight - scroll.clientHeight - below;
	showMore();
}

// Whether there are rows above those that show.
function showMore() {
	svg.classList.toggle('more', scroll.scrollTop > 1);
}

// ---- zoom ---------------------------------------------------------------------------------------

function zoom(from, to, node = nodeAround(from, to)) {
	view = {from, to, node};
	draw();
	showTrail();
	showMatched();
}

const zoomTo = node => zoom(start[node], end(node), node);

function showTrail() {
	trail.replaceChildren();
	if (!svg.classList.contains('zoomed'))
		return;
	const button = (text, node, attributes) => {
		const element = make(HTML, 'button', {type: 'button', ...attributes}, text);
		element.addEventListener('click', () => zoomTo(node));
		return element;
	};
	const path = [];
	for (let i = view.node; i > 0; i = parent[i])
		path.unshift(i);
	const shown = path.slice(-6);
	trail.append(button('Reset', 0, {class: 'reset', title: 'Esc'}), button('all', 0));
	if (shown.length < path.length)
		trail.append(make(HTML, 'i', {}, '›\u00a0…'));
	for (const i of shown)
		trail.append(make(HTML, 'i', {}, '›'),
			button(names[functionOf[i]], i, {title: names[functionOf[i]]}));
	trail.append(make(HTML, 'b', {}, percent(amountIn(view.from, view.to), whole)));
}

// ---- search -------------------------------------------------------------------------------------

// The share of the view that is inside of a match; one match inside of another counts once.
function matchedAmount() {
	let sum = 0;
	for (let i = 0; i < count;) {
		const from = Math.max(start[i], view.from), to = Math.min(end(i), view.to);
		if (to <= from) {
			i = next[i];
		} else if (isHit[functionOf[i]]) {
			sum += amountIn(from, to);
			i = next[i];
		} else {
			i++;
		}
	}
	return sum;
}

function showMatched() {
	matched.textContent = isHit === null ? '' :
		`${percent(matchedAmount(), amountIn(view.from, view.to))} matched`;
}

function search() {
	const text = input.value;
	let pattern = null;
	input.setCustomValidity('');
	try {
		if (text !== '')
			pattern = new RegExp(text, text === text.toLowerCase() ? 'iu' : 'u');
	} catch {
		try {
			// Names of C++ and Go hold what the strict syntax does not take.
			pattern = new RegExp(text, text === text.toLowerCase() ? 'i' : '');
		} catch {
			input.setCustomValidity('not a regular expression');
		}
	}
	isHit = pattern && Uint8Array.from(names, (name, f) =>
		f > 0 && f !== data.merged && pattern.test(name) ? 1 : 0);
	paint();
	showMatched();
	if (!input.checkValidity())
		matched.textContent = 'not a regular expression';
}

function clearSearch() {
	input.value = '';
	search();
	input.blur();
}

// ---- tooltip ------------------------------------------------------------------------------------

function hideTip() {
	tipBox.setAttribute('visibility', 'hidden');
}

function describe(box) {
	const size = amountIn(box.from, box.to), f = functionOf[box.node];
	const line = text => make(HTML, 'span', {}, text);
	const ofView = svg.classList.contains('zoomed') ?
		`, ${percent(size, amountIn(view.from, view.to))} of the view` : '';
	const numbers = n => `${amount(n)}${samples(n)}, ${percent(n, whole)} of all`;
	if (box.count > 1)
		return [make(HTML, 'strong', {}, `${box.count.toLocaleString('en-US')} narrow frames`),
			line(numbers(size) + ofView), line('Click to come nearer')];
	if (isMerged(box.node))
		return [make(HTML, 'strong', {}, 'Frames too small to keep'), line(numbers(size) + ofView)];

	const kind = data.kinds[data.classes[2 * f]];
	const module = moduleOf(f);
	const lines = [make(HTML, 'strong', {}, names[f])];
	if (box.node > 0 && (module || kind !== data.kinds.u))
		lines.push(line(module ? `${module}, ${kind}` : kind));
	if (base) {
		const i = box.node, sign = now[i] < base[i] ? '−' : '+';
		lines.push(line(`now ${amount(now[i])}, ${percent(now[i], now[0])} of all`),
			line(`base ${amount(base[i])}, ${percent(base[i], base[0])} of all`),
			line(base[i] === 0 ? 'new' : now[i] === 0 ? 'gone' :
				`${sign}${amount(Math.abs(now[i] - base[i]))}, ` +
				`${sign}${percent(Math.abs(now[i] - base[i]), base[i])}`));
		return lines;
	}
	const caller = parent[box.node];
	const ofCaller = caller > 0 ? `, ${percent(amountOf(box.node), amountOf(caller))} of its caller` : '';
	lines.push(line(numbers(amountOf(box.node)) + ofCaller + ofView));
	if (box.node === idle)
		lines.push(line('threads that wait for work; drawn narrower than it is'));
	else if (self[box.node] > 0)
		lines.push(line(`itself ${numbers(self[box.node])}`));
	return lines;
}

function showTip(event) {
	const box = event.target.box;
	if (!box)
		return hideTip();
	if (tip.box !== box)
		tip.replaceChildren(...describe(box));
	tip.box = box;

	const edge = svg.getBoundingClientRect();
	const size = tip.getBoundingClientRect();
	const bottom = Math.min(window.innerHeight, edge.bottom);
	const x = Math.min(event.clientX + 14, edge.right - size.width - 8);
	const below = event.clientY + 18;
	const y = below + size.height > bottom ? event.clientY - size.height - 12 : below;
	tipBox.setAttribute('x', Math.max(x - edge.left, 4));
	tipBox.setAttribute('y', Math.max(y - edge.top, 4));
	tipBox.setAttribute('visibility', 'visible');
}

// ---- events -------------------------------------------------------------------------------------

const heads = ['.title', '.subtitle'].map(selector => {
	const element = svg.querySelector(selector);
	return {element, text: element.textContent};
});

// What of a head fits into so many pixels, whatever its font.
function fitHead({element, text}, room) {
	element.textContent = text;
	for (let length; (length = element.getComputedTextLength()) > room && element.textContent.length > 3;)
		element.textContent = fit(text, Math.min(text.length * room / length, element.textContent.length - 1));
}

function resize() {
	const room = svg.getBoundingClientRect().width;
	const search = input.getBoundingClientRect().width + 2 * data.pad;
	fitHead(heads[0], room - data.pad - search);
	fitHead(heads[1], room - 2 * data.pad);
	// The scrollbar, if it takes room, is there only after drawing.
	do {
		width = Math.max(scroll.clientWidth - 2 * data.pad, 50);
		draw();
	} while (width > scroll.clientWidth - 2 * data.pad && width > 50);
}

function begin() {
	if (!isFile)
		svg.querySelector('title')?.remove(); // it would be a tooltip everywhere
	svg.removeAttribute('viewBox');
	svg.setAttribute('width', '100%');
	svg.classList.add('live');
	svg.querySelector('.frames').remove(); // the static picture
	svg.append(over, tipBox);
	if (isFile) // else a phone takes it for a page 980 pixels wide
		svg.append(make(HTML, 'meta', {name: 'viewport', content: 'width=device-width, initial-scale=1'}));

	const ruler = make(SVG, 'text', {}, '0'.repeat(100));
	frames.replaceChildren(ruler);
	character = ruler.getComputedTextLength() / 100 || character;

	frames.addEventListener('click', event => {
		const box = event.target.box;
		if (box && box.count > 1)
			zoom(box.from, box.to);
		else if (box)
			zoomTo(box.node);
	});
	frames.addEventListener('pointermove', showTip);
	frames.addEventListener('pointerleave', hideTip);
	scroll.addEventListener('scroll', () => {
		hideTip();
		showMore();
	}, {passive: true});
	input.addEventListener('input', search);
	window.addEventListener('resize', resize);
	window.addEventListener('keydown', event => {
		const isFind = event.key === 'f' && (event.ctrlKey || event.metaKey);
		if (isFind || (event.key === '/' && document.activeElement !== input)) {
			event.preventDefault();
			input.focus();
			input.select();
		} else if (event.key === 'Escape') {
			if (input.value !== '')
				clearSearch();
			else
				zoomTo(0);
		}
	});
	resize();
	if (isFile)
		scroll.focus({preventScroll: true}); // for the keys that scroll
}

begin();
})();
