/*
 * heat: when samples were taken. A column is a second, a row 20 ms of it, the first at the bottom:
 * what runs every so often is a line, what stood still a hole.
 */
import {computed} from '@preact/signals';
import type {JSX} from 'preact';
import {useLayoutEffect, useRef, useState} from 'preact/hooks';
import type {Heat} from '../api';
import {css, hex, mix} from '../colour';
import {chosen, file, heat, heatRange, range, state, theme, update} from '../data';
import {clock, count, span} from '../format';
import {levels, ROWS, SLOT, topOf} from '../heat';
import type {Range} from '../state';
import {plotArea} from './timeline';

const ROW_HEIGHT = 3;

interface Cells {
	column: number; // the first
	columns: number;
	row: number;
	rows: number;
}

// ---- how much a slot is ---------------------------------------------------------------------------

const SHADES = 256;

/* From 0 (nothing) to the most: from the page's colour over yellow to dark red. */
const ramp = computed<Uint32Array>(() => {
	const {dark, page} = theme.value;
	const stops = dark
		? [
				mix(page, hex('#ffffff'), 0.04),
				hex('#5c3a12'),
				hex('#b4660f'),
				hex('#f2b63c'),
				hex('#fff3c9'),
			]
		: [hex('#f6f1e9'), hex('#fbd77e'), hex('#f0973a'), hex('#c94a1c'), hex('#7a1d12')];
	return Uint32Array.from({length: SHADES}, (_, i) => {
		const at = (i / (SHADES - 1)) * (stops.length - 1);
		const low = Math.min(Math.floor(at), stops.length - 2);
		return mix(stops[low], stops[low + 1], at - low);
	});
});

const level = computed(() => {
	const h = heat.data.value;
	if (!h) return null;
	const all = levels(h);
	return {all, top: topOf(all), isCpus: h.period > 0};
});

const columnsOf = (h: Heat): number => Math.ceil(h.counts.length / ROWS);

const shade = (n: number, top: number): number =>
	Math.min(SHADES - 1, Math.round(Math.sqrt(n / top) * (SHADES - 1)));

/* One pixel a slot; the canvas is stretched by CSS, without smoothing. */
function paint(canvas: HTMLCanvasElement, h: Heat): void {
	const columns = columnsOf(h);
	canvas.width = Math.max(1, columns);
	canvas.height = ROWS;
	const context = canvas.getContext('2d')!;
	const image = context.createImageData(canvas.width, ROWS);
	const pixels = new Uint32Array(image.data.buffer);
	const {all, top} = level.value!;
	for (let i = 0; i < all.length; i++) {
		const column = Math.floor(i / ROWS);
		const row = i % ROWS;
		pixels[(ROWS - 1 - row) * columns + column] = ramp.value[shade(all[i], top)];
	}
	context.putImageData(image, 0, 0);
}

/* What the state's choice is as cells, if it lies in this heatmap. */
const chosenCells = computed<Cells | null>(() => {
	const h = heat.data.value;
	const s = state.value;
	if (!h || !s.selected) return null;
	const {from, to} = s.selected;
	const first = Math.floor((from - h.start) / 1000);
	const last = Math.ceil((to - h.start) / 1000);
	if (first < 0 || last > columnsOf(h)) return null;
	if (s.rows)
		return {
			column: first,
			columns: last - first,
			row: s.rows[0],
			rows: s.rows[1] - s.rows[0] + 1,
		};
	const offset = (from - h.start) % 1000;
	if (last - first === 1 && (offset !== 0 || (to - h.start) % 1000 !== 0))
		return {column: first, columns: 1, row: offset / SLOT, rows: (to - from) / SLOT};
	return {column: first, columns: last - first, row: 0, rows: ROWS};
});

/* A rectangle of one second is one range; of several, those rows of each; all rows, a range again. */
function choose(h: Heat, c: Cells): void {
	const from = h.start + c.column * 1000;
	let selected: Range = {from, to: from + c.columns * 1000};
	let rows: [number, number] | null = null;
	if (c.rows < ROWS) {
		if (c.columns === 1)
			selected = {from: from + c.row * SLOT, to: from + (c.row + c.rows) * SLOT};
		else rows = [c.row, c.row + c.rows - 1];
	}
	const s = state.value;
	const where = {live: false, range: s.live ? range.value : s.range, heatAt: heatRange.value};
	update({...where, selected, rows, zoom: ''}, true);
}

function words(h: Heat, c: Cells): string {
	let sum = 0;
	for (let x = c.column; x < c.column + c.columns; x++)
		for (let y = c.row; y < c.row + c.rows; y++) sum += h.counts[x * ROWS + y] ?? 0;
	const at = h.start + c.column * 1000 + c.row * SLOT;
	const size =
		c.columns === 1
			? span(c.rows * SLOT)
			: `${span(c.rows * SLOT)} of each of ${c.columns} s`;
	let busy = 0;
	for (let x = c.column; x < c.column + c.columns; x++)
		for (let y = c.row; y < c.row + c.rows; y++)
			busy += level.value!.all[x * ROWS + y] ?? 0;
	const cpus = level.value!.isCpus
		? `, ${(busy / (c.columns * c.rows)).toFixed(2)} CPUs`
		: '';
	return `${clock(at, true)}, ${size}, ${count(sum)} ${sum === 1 ? 'sample' : 'samples'}${cpus}`;
}

// ---- axes -----------------------------------------------------------------------------------------

const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300].map(s => s * 1000);
const LABEL_WIDTH = 64;

/* Times below the columns, at whole steps. */
function TimeAxis({h, width}: {h: Heat; width: number}): JSX.Element {
	const length = columnsOf(h) * 1000;
	const most = Math.max(2, width / LABEL_WIDTH);
	const step = TIME_STEPS.find(s => length / s <= most) ?? length;
	const at: number[] = [];
	for (let t = Math.ceil(h.start / step) * step; t <= h.start + length; t += step) at.push(t);
	return (
		<div class="heat-times" aria-hidden="true">
			{at.map(t => (
				<span key={t} style={{left: `${(100 * (t - h.start)) / length}%`}}>
					{step < 60_000 ? clock(t) : clock(t).slice(0, 5)}
				</span>
			))}
		</div>
	);
}

const MS = [0, 250, 500, 750, 1000];

function RowAxis(): JSX.Element {
	return (
		<div class="heat-rows" aria-hidden="true">
			{MS.map(ms => (
				<span key={ms} style={{bottom: `${ms / 10}%`}}>
					{ms === 1000 ? '1 s' : ms}
				</span>
			))}
		</div>
	);
}

/* What the colours mean, in numbers. */
function ColourScale(): JSX.Element | null {
	const l = level.value;
	if (!l) return null;
	const stops = [0, 0.25, 0.5, 0.75, 1];
	const digits = l.isCpus ? (l.top < 4 ? 2 : 1) : 0;
	// Colours go by the square root, so that little can be seen.
	const gradient = Array.from({length: 9}, (_, i) =>
		css(ramp.value[Math.round((i / 8) * (SHADES - 1))]),
	).join(', ');
	return (
		<div class="heat-scale">
			<div>{l.isCpus ? 'CPUs busy, in each 20 ms' : 'Samples in each 20 ms'}</div>
			<i style={{background: `linear-gradient(to right, ${gradient})`}} />
			<ol>
				{stops.map(s => (
					<li key={s}>
						{(l.top * s * s)
							.toFixed(digits)
							.replace(/\.?0+$/, '') || '0'}
					</li>
				))}
			</ol>
			<p>
				A column is a second, a row 20 ms of it. Drag over some to see what
				ran in them.
			</p>
		</div>
	);
}

/* Which part of the timeline above it is of. */
function Reach({h}: {h: Heat}): JSX.Element | null {
	const {left, width, from, to} = plotArea.value;
	if (width === 0) return null;
	const x = (ms: number): number =>
		left + Math.max(0, Math.min(1, (ms - from) / (to - from))) * width;
	const end = h.start + columnsOf(h) * 1000;
	const points = `${x(h.start)},0 ${x(end)},0 ${left + width},28 ${left},28`;
	return (
		<svg class="reach" width={left + width} height="28" aria-hidden="true">
			<polygon points={points} />
		</svg>
	);
}

export function HeatPanel(): JSX.Element | null {
	const canvas = useRef<HTMLCanvasElement>(null);
	const [dragged, setDragged] = useState<Cells | null>(null);
	const [pointed, setPointed] = useState<Cells | null>(null);
	const pressed = useRef<{column: number; row: number} | null>(null);
	const h = heat.data.value;
	useLayoutEffect(() => {
		if (canvas.current && h) paint(canvas.current, h);
	}, [h, theme.value, state.value.heat]);
	if (!state.value.heat || file.value) return null;

	const cellAt = (e: PointerEvent): {column: number; row: number} => {
		const edge = canvas.current!.getBoundingClientRect();
		const x = (e.clientX - edge.left) / edge.width;
		const y = (e.clientY - edge.top) / edge.height;
		const clamp = (n: number, most: number): number =>
			Math.max(0, Math.min(most - 1, Math.floor(n)));
		return {
			column: clamp(x * columnsOf(h!), columnsOf(h!)),
			row: clamp((1 - y) * ROWS, ROWS),
		};
	};
	const between = (a: {column: number; row: number}, b: typeof a): Cells => ({
		column: Math.min(a.column, b.column),
		columns: Math.abs(a.column - b.column) + 1,
		row: Math.min(a.row, b.row),
		rows: Math.abs(a.row - b.row) + 1,
	});
	const onMove = (e: PointerEvent): void => {
		if (!h) return;
		const at = cellAt(e);
		if (pressed.current) setDragged(between(pressed.current, at));
		setPointed({column: at.column, columns: 1, row: at.row, rows: 1});
	};
	const onUp = (e: PointerEvent): void => {
		if (!h || !pressed.current) return;
		const cells = between(pressed.current, cellAt(e));
		pressed.current = null;
		setDragged(null);
		choose(h, cells);
	};
	const shown = dragged ?? chosenCells.value;
	const r = heatRange.value;
	const isCut = !state.value.heatAt && r.from > chosen.value.from;
	const said = dragged ?? pointed;
	const {left, width} = plotArea.value;
	return (
		<section class={`heat ${heat.isBusy.value ? 'busy' : ''}`} aria-label="Heatmap">
			{h && <Reach h={h} />}
			<div class="heat-head">
				<strong>Heatmap</strong>
				<span>
					{clock(r.from)} – {clock(r.to)}
					{isCut && (
						<span class="roomy">
							, the last 10 minutes of what is chosen
						</span>
					)}
				</span>
				<span class="at">{h && said ? words(h, said) : ''}</span>
			</div>
			{heat.error.value ? (
				<p class="nothing">{heat.error.value.message}</p>
			) : (
				<div class="heat-body">
					<div
						class="heat-map"
						style={{
							height: `${ROWS * ROW_HEIGHT}px`,
							marginLeft: `${left}px`,
							width: `${width}px`,
						}}
					>
						<RowAxis />
						<canvas
							ref={canvas}
							role="img"
							aria-label="Samples by time: drag over a rectangle to see what ran in it"
							onPointerDown={e => {
								if (!h || e.button !== 0) return;
								e.preventDefault();
								e.currentTarget.setPointerCapture(
									e.pointerId,
								);
								pressed.current = cellAt(e);
							}}
							onPointerMove={onMove}
							onPointerUp={onUp}
							onPointerCancel={() => {
								pressed.current = null;
								setDragged(null);
							}}
							onPointerLeave={() => setPointed(null)}
						/>
						{h && shown && (
							<div
								class="cells"
								style={{
									left: `${(100 * shown.column) / columnsOf(h)}%`,
									width: `${(100 * shown.columns) / columnsOf(h)}%`,
									bottom: `${(100 * shown.row) / ROWS}%`,
									height: `${(100 * shown.rows) / ROWS}%`,
								}}
							/>
						)}
						{h && <TimeAxis h={h} width={width} />}
					</div>
					<ColourScale />
				</div>
			)}
		</section>
	);
}
