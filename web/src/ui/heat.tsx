/*
 * heat: when samples were taken. A column is a second, a row 20 ms of it, the first at the bottom:
 * what runs every so often is a line, what stood still a hole.
 */
import {computed} from '@preact/signals';
import type {JSX} from 'preact';
import {useLayoutEffect, useRef, useState} from 'preact/hooks';
import type {Heat} from '../api';
import {hex, mix} from '../colour';
import {chosen, file, heat, heatRange, range, state, theme, update} from '../data';
import {clock, count, span} from '../format';
import type {Range} from '../state';

const ROWS = 50;
const ROW_HEIGHT = 3;
const SLOT = 20;

interface Cells {
	column: number; // the first
	columns: number;
	row: number;
	rows: number;
}

/* From 0 (nothing) to the largest count: from the page's colour over yellow to dark red. */
function ramp(most: number): Uint32Array {
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
	const out = new Uint32Array(most + 1);
	for (let n = 0; n <= most; n++) {
		const at = most > 0 ? Math.sqrt(n / most) * (stops.length - 1) : 0;
		const low = Math.min(Math.floor(at), stops.length - 2);
		out[n] = mix(stops[low], stops[low + 1], at - low);
	}
	return out;
}

const columnsOf = (h: Heat): number => Math.ceil(h.counts.length / ROWS);

/* One pixel a slot; the canvas is stretched by CSS, without smoothing. */
function paint(canvas: HTMLCanvasElement, h: Heat): void {
	const columns = columnsOf(h);
	canvas.width = Math.max(1, columns);
	canvas.height = ROWS;
	const context = canvas.getContext('2d')!;
	const image = context.createImageData(canvas.width, ROWS);
	const pixels = new Uint32Array(image.data.buffer);
	let most = 0;
	for (const n of h.counts) if (n > most) most = n;
	const colours = ramp(Math.min(most, 4096));
	for (let i = 0; i < h.counts.length; i++) {
		const column = Math.floor(i / ROWS);
		const row = i % ROWS;
		pixels[(ROWS - 1 - row) * columns + column] = colours[Math.min(h.counts[i], 4096)];
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
	return `${clock(at, true)}, ${size}, ${count(sum)} ${sum === 1 ? 'sample' : 'samples'}`;
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
	return (
		<section class={`heat ${heat.isBusy.value ? 'busy' : ''}`} aria-label="Heatmap">
			<div class="heat-head">
				<strong>Heatmap</strong>
				<span>
					{clock(r.from)} – {clock(r.to)}, a column a second, a row 20
					ms
					{isCut && '; the last 10 minutes of what is chosen'}
				</span>
				<span class="at">{h && said ? words(h, said) : ''}</span>
			</div>
			{heat.error.value ? (
				<p class="nothing">{heat.error.value.message}</p>
			) : (
				<div class="heat-body" style={{height: `${ROWS * ROW_HEIGHT}px`}}>
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
				</div>
			)}
		</section>
	);
}
