/*
 * heat: when samples were taken. A column is a second, a row 20 ms of it, the first at the bottom:
 * what runs every so often is a line, what stood still a hole. Of types that are sums over windows, a
 * column is a minute and a row ten seconds of it.
 */
import {computed} from '@preact/signals';
import type {JSX} from 'preact';
import {useLayoutEffect, useRef, useState} from 'preact/hooks';
import type {Heat} from '../api';
import {css, hex, mix} from '../colour';
import {
	chosen,
	file,
	heat,
	heatMost,
	heatRange,
	isHeatWithoutIdle,
	profileType,
	range,
	state,
	theme,
	update,
} from '../data';
import {amount, clock, count, span} from '../format';
import {
	beginOf,
	type Cell,
	type Cells,
	cellsIn,
	cellsOf,
	columnLength,
	columnsOf,
	gridOf,
	isRate,
	levels,
	offsetOf,
	SLOTS,
	timeBetween,
	topOf,
} from '../heat';
import type {Range} from '../state';
import {plotArea, threadsOrCpus} from './timeline';

const HEIGHT = 150; // px

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

const isSlots = (h: Heat): boolean => gridOf(h) === SLOTS;

const level = computed(() => {
	const h = heat.data.value;
	if (!h) return null;
	const all = levels(h);
	const top = isSlots(h) ? topOf(all) : Math.max(...all) || 1;
	return {all, top, unit: isRate(h) ? threadsOrCpus() : ''};
});

const shade = (n: number, top: number): number =>
	Math.min(SHADES - 1, Math.round(Math.sqrt(n / top) * (SHADES - 1)));

/* One pixel a cell; the canvas is stretched by CSS, without smoothing. What is not known shows the hatching. */
function paint(canvas: HTMLCanvasElement, h: Heat): void {
	const columns = columnsOf(h);
	const {rows} = gridOf(h);
	canvas.width = Math.max(1, columns);
	canvas.height = rows;
	const context = canvas.getContext('2d')!;
	const image = context.createImageData(canvas.width, rows);
	const pixels = new Uint32Array(image.data.buffer).fill(theme.value.page);
	const {all, top} = level.value!;
	const offset = offsetOf(h);
	const last = h.covered?.lastIndexOf(1) ?? all.length;
	for (let i = 0; i < all.length && i <= last; i++) {
		const column = Math.floor((i + offset) / rows);
		const row = (i + offset) % rows;
		pixels[(rows - 1 - row) * columns + column] =
			h.covered?.[i] === 0 ? 0 : ramp.value[shade(all[i], top)];
	}
	context.putImageData(image, 0, 0);
}

/* What the state's choice is as cells, if it lies in this heatmap. */
const chosenCells = computed<Cells[]>(() => {
	const h = heat.data.value;
	const s = state.value;
	if (!h || !s.selected) return [];
	const {from, to} = s.selected;
	if (!isSlots(h)) return cellsIn(h, s.selected);
	const {cell, rows} = SLOTS;
	const first = Math.floor((from - h.start) / 1000);
	const last = Math.ceil((to - h.start) / 1000);
	if (first < 0 || last > columnsOf(h)) return [];
	const columns = last - first;
	if (s.rows)
		return [{column: first, columns, row: s.rows[0], rows: s.rows[1] - s.rows[0] + 1}];
	const offset = (from - h.start) % 1000;
	if (columns === 1 && (offset !== 0 || (to - h.start) % 1000 !== 0))
		return [{column: first, columns, row: offset / cell, rows: (to - from) / cell}];
	return [{column: first, columns, row: 0, rows}];
});

const between = (a: Cell, b: Cell): Cells => ({
	column: Math.min(a.column, b.column),
	columns: Math.abs(a.column - b.column) + 1,
	row: Math.min(a.row, b.row),
	rows: Math.abs(a.row - b.row) + 1,
});

/*
 * Slots: a rectangle of one second is one range; of several, those rows of each; all rows, a range
 * again. Windows: from the one to the other.
 */
function choose(h: Heat, a: Cell, b: Cell): void {
	let selected: Range = timeBetween(h, a, b);
	let rows: [number, number] | null = null;
	if (isSlots(h)) {
		const c = between(a, b);
		const from = h.start + c.column * 1000;
		selected = {from, to: from + c.columns * 1000};
		if (c.rows < SLOTS.rows) {
			const {cell} = SLOTS;
			if (c.columns === 1)
				selected = {
					from: from + c.row * cell,
					to: from + (c.row + c.rows) * cell,
				};
			else rows = [c.row, c.row + c.rows - 1];
		}
	}
	const s = state.value;
	const where = {live: false, range: s.live ? range.value : s.range, heatAt: heatRange.value};
	update({...where, selected, rows, zoom: ''}, true);
}

/* Sums of cells by their places: of what they hold, of their levels, and how many they are. */
function sumUp(h: Heat, all: Cells[]): {sum: number; level: number; count: number} {
	const {rows} = gridOf(h);
	const cells = cellsOf(h);
	const out = {sum: 0, level: 0, count: 0};
	for (const c of all)
		for (let x = c.column; x < c.column + c.columns; x++)
			for (let y = c.row; y < c.row + c.rows; y++) {
				const i = x * rows + y - offsetOf(h);
				out.sum += cells[i] ?? 0;
				out.level += level.value!.all[i] ?? 0;
				out.count++;
			}
	return out;
}

function words(h: Heat, a: Cell, b: Cell): string {
	const {unit} = level.value!;
	if (!isSlots(h)) {
		const r = timeBetween(h, a, b);
		const {sum, level: all, count: n} = sumUp(h, cellsIn(h, r));
		if (n === 1 && h.covered?.[(r.from - h.start) / h.step] === 0)
			return `${clock(r.from)}, nothing was recorded`;
		const rate = unit ? `, ${(all / n).toFixed(2)} ${unit}` : '';
		return `${clock(r.from)}, ${span(r.to - r.from)}, ${amount(sum, h.unit ?? '')}${rate}`;
	}
	const c = between(a, b);
	const {sum, level: all, count: n} = sumUp(h, [c]);
	const at = h.start + c.column * 1000 + c.row * SLOTS.cell;
	const each = span(c.rows * SLOTS.cell);
	const size = c.columns === 1 ? each : `${each} of each of ${c.columns} s`;
	const rate = unit ? `, ${(all / n).toFixed(2)} ${unit}` : '';
	return `${clock(at, true)}, ${size}, ${count(sum)} ${sum === 1 ? 'sample' : 'samples'}${rate}`;
}

// ---- axes -----------------------------------------------------------------------------------------

const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200].map(s => s * 1000);
const LABEL_WIDTH = 64;

/* Times below the columns, at whole steps. */
function TimeAxis({h, width}: {h: Heat; width: number}): JSX.Element {
	const length = columnsOf(h) * columnLength(gridOf(h));
	const begin = beginOf(h);
	const most = Math.max(2, width / LABEL_WIDTH);
	const least = isSlots(h) ? 0 : columnLength(gridOf(h));
	const step = TIME_STEPS.find(s => s >= least && length / s <= most) ?? length;
	const at: number[] = [];
	for (let t = Math.ceil(begin / step) * step; t <= begin + length; t += step) at.push(t);
	return (
		<div class="heat-times" aria-hidden="true">
			{at.map(t => (
				<span key={t} style={{left: `${(100 * (t - begin)) / length}%`}}>
					{step < 60_000 ? clock(t) : clock(t).slice(0, 5)}
				</span>
			))}
		</div>
	);
}

/* In ms of a column, and what is written there. */
const SLOT_MARKS: [number, string][] = [
	[0, '0'],
	[250, '250'],
	[500, '500'],
	[750, '750'],
	[1000, '1 s'],
];
const WINDOW_MARKS: [number, string][] = [
	[0, '0'],
	[20_000, '20'],
	[40_000, '40'],
	[60_000, '60 s'],
];

function RowAxis({h}: {h: Heat}): JSX.Element {
	return (
		<div class="heat-rows" aria-hidden="true">
			{(isSlots(h) ? SLOT_MARKS : WINDOW_MARKS).map(([ms, text]) => (
				<span
					key={ms}
					style={{bottom: `${(100 * ms) / columnLength(gridOf(h))}%`}}
				>
					{text}
				</span>
			))}
		</div>
	);
}

/* What a level counts, and what the map shows. */
function meaning(h: Heat): [string, string] {
	const {unit} = level.value!;
	if (isSlots(h))
		return [
			unit ? 'CPUs busy, in each 20 ms' : 'Samples in each 20 ms',
			'A column is a second, a row 20 ms of it. Drag over some to see what ran in them.',
		];
	const what =
		unit === 'CPUs'
			? 'CPUs busy'
			: !unit
				? (h.unit ?? '')
				: profileType.value === 'offcpu'
					? 'Threads that wait'
					: 'Threads that run or wait';
	const idle = isHeatWithoutIdle.value ? ' Idle ones are left out.' : '';
	return [
		`${what}, in each 10 s`,
		`A column is a minute, a row 10 s of it.${idle} Drag from one to another to see the time between them.`,
	];
}

/* What the colours mean, in numbers. */
function ColourScale({h}: {h: Heat}): JSX.Element | null {
	const l = level.value;
	if (!l) return null;
	const stops = [0, 0.25, 0.5, 0.75, 1];
	const digits = l.unit ? (l.top < 4 ? 2 : 1) : 0;
	const [what, how] = meaning(h);
	// Colours go by the square root, so that little can be seen.
	const gradient = Array.from({length: 9}, (_, i) =>
		css(ramp.value[Math.round((i / 8) * (SHADES - 1))]),
	).join(', ');
	return (
		<div class="heat-scale">
			<div>{what}</div>
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
			<p>{how}</p>
		</div>
	);
}

/* Which part of the timeline above it is of. */
function Reach({h}: {h: Heat}): JSX.Element | null {
	const {left, width, from, to} = plotArea.value;
	if (width === 0) return null;
	const x = (ms: number): number =>
		left + Math.max(0, Math.min(1, (ms - from) / (to - from))) * width;
	const begin = beginOf(h);
	const end = begin + columnsOf(h) * columnLength(gridOf(h));
	const points = `${x(begin)},0 ${x(end)},0 ${left + width},28 ${left},28`;
	return (
		<svg class="reach" width={left + width} height="28" aria-hidden="true">
			<polygon points={points} />
		</svg>
	);
}

export function HeatPanel(): JSX.Element | null {
	const canvas = useRef<HTMLCanvasElement>(null);
	const [dragged, setDragged] = useState<[Cell, Cell] | null>(null);
	const [pointed, setPointed] = useState<Cell | null>(null);
	const pressed = useRef<Cell | null>(null);
	const h = heat.data.value;
	useLayoutEffect(() => {
		if (canvas.current && h) paint(canvas.current, h);
	}, [h, theme.value, state.value.heat]);
	if (!state.value.heat || file.value) return null;

	const cellAt = (e: PointerEvent): Cell => {
		const edge = canvas.current!.getBoundingClientRect();
		const x = (e.clientX - edge.left) / edge.width;
		const y = (e.clientY - edge.top) / edge.height;
		const {rows} = gridOf(h!);
		const clamp = (n: number, most: number): number =>
			Math.max(0, Math.min(most - 1, Math.floor(n)));
		return {
			column: clamp(x * columnsOf(h!), columnsOf(h!)),
			row: clamp((1 - y) * rows, rows),
		};
	};
	const onMove = (e: PointerEvent): void => {
		if (!h) return;
		const at = cellAt(e);
		if (pressed.current) setDragged([pressed.current, at]);
		setPointed(at);
	};
	const onUp = (e: PointerEvent): void => {
		if (!h || !pressed.current) return;
		choose(h, pressed.current, cellAt(e));
		pressed.current = null;
		setDragged(null);
	};
	const shown = !h
		? []
		: !dragged
			? chosenCells.value
			: isSlots(h)
				? [between(...dragged)]
				: cellsIn(h, timeBetween(h, ...dragged));
	const r = heatRange.value;
	const isCut = !state.value.heatAt && r.from > chosen.value.from;
	const said = dragged ?? (pointed && [pointed, pointed]);
	const rows = h ? gridOf(h).rows : 1;
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
							, the last {span(heatMost.value)} of what is
							chosen
						</span>
					)}
				</span>
				<span class="at">
					{h && said ? words(h, said[0], said[1]) : ''}
				</span>
			</div>
			{heat.error.value ? (
				<p class="nothing">{heat.error.value.message}</p>
			) : (
				<div class="heat-body">
					<div
						class="heat-map"
						style={{
							height: `${HEIGHT}px`,
							marginLeft: `${left}px`,
							width: `${width}px`,
						}}
					>
						{h && <RowAxis h={h} />}
						<canvas
							ref={canvas}
							role="img"
							aria-label={
								!h || isSlots(h)
									? 'Samples by time: drag over a rectangle to see what ran in it'
									: 'Time by windows of 10 s: drag from one to another to see the time between them'
							}
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
						{h &&
							shown.map((c, i) => (
								<div
									key={i}
									class="cells"
									style={{
										left: `${(100 * c.column) / columnsOf(h)}%`,
										width: `${(100 * c.columns) / columnsOf(h)}%`,
										bottom: `${(100 * c.row) / rows}%`,
										height: `${(100 * c.rows) / rows}%`,
									}}
								/>
							))}
						{h && <TimeAxis h={h} width={width} />}
					</div>
					{h && <ColourScale h={h} />}
				</div>
			)}
		</section>
	);
}
