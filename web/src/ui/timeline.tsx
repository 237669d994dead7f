/*
 * timeline: what the machine did, stacked by a label. A drag chooses a range, with Shift the range to
 * compare it with; a click lets go of it.
 */
import {computed, effect, signal} from '@preact/signals';
import type {JSX} from 'preact';
import {useLayoutEffect, useRef} from 'preact/hooks';
import uPlot from 'uplot';
import type {Timeline} from '../api';
import {lineColour, restColour} from '../colour';
import {
	chosen,
	file,
	isFitted,
	isStale,
	isState,
	labels,
	PART,
	profileType,
	range,
	selectorOf,
	shown,
	showSelector,
	showType,
	state,
	status,
	theme,
	timeline,
	types,
	update,
} from '../data';
import {amount, clip, clock, date, percent, range as rangeText, short, span} from '../format';
import {withMatcher} from '../selector';
import {type Range, snap} from '../state';
import {Choice} from './controls';

const HEIGHT = 118;
const NOT_YET = 40_000; // the last windows are still on their way

/* Choosing a range: no more slots, no more live. */
export function choose(selected: Range | null): void {
	const s = state.value;
	if (selected && s.live)
		update({live: false, range: range.value, selected, rows: null}, true);
	else update({selected, rows: null}, true);
}

export function zoomToSelection(): void {
	const {selected} = state.value;
	if (selected) update({live: false, range: selected, selected: null, rows: null}, true);
}

/* Twice as much, around the same middle, but not beyond now. */
export function zoomOut(): void {
	const r = range.value;
	const half = (r.to - r.from) / 2;
	const to = Math.min(Date.now(), r.to + half);
	const selected = state.value.selected ?? (state.value.live ? null : r);
	update({live: false, range: {from: to - 4 * half, to}, selected, rows: null}, true);
}

/* One length of what is chosen back or forward; the timeline follows when it would leave it. */
export function step(direction: number): void {
	const c = chosen.value;
	const by = direction * (c.to - c.from);
	const next = {from: c.from + by, to: c.to + by};
	if (!state.value.selected) {
		update({live: false, range: next, rows: null}, true);
		return;
	}
	const r = range.value;
	const out = next.from < r.from || next.to > r.to;
	update(
		{live: false, range: out ? {from: r.from + by, to: r.to + by} : r, selected: next},
		true,
	);
}

// ---- numbers --------------------------------------------------------------------------------------

const colours = computed(() =>
	(timeline.data.value?.lines ?? []).map(l => lineColour(l.value, theme.value)),
);

const hovered = signal(-1); // the step under the pointer

/* Time is shown as seconds a second: CPUs that ran, threads that waited. */
function scaleOf(t: Timeline): {per: number; unit: string; isTime: boolean} {
	const isTime = t.unit === 'nanoseconds';
	if (!isTime) return {per: 1, unit: t.unit, isTime};
	return {
		per: t.step * 1e6,
		unit: threadsOrCpus(),
		isTime,
	};
}

const OF_THREADS = new Set(['offcpu', 'wall']);

/* What seconds a second are. */
export const threadsOrCpus = (): string => (OF_THREADS.has(profileType.value) ? 'threads' : 'CPUs');

/* What the types are called; others are called what they are. */
const TYPE_NAMES: Record<string, string> = {
	cpu: 'CPU',
	offcpu: 'waiting',
	wall: 'wall clock',
	page_faults: 'page faults',
};

/* What programs say that they measure. */
const SAMPLE_NAMES: Record<string, string> = {
	inuse_space: 'memory in use',
	inuse_objects: 'objects in use',
	alloc_space: 'memory allocated',
	alloc_objects: 'objects allocated',
	contentions: 'waits',
	delay: 'time waited',
};

/* memory:inuse_space:bytes:space:bytes is "memory in use (memory)". */
function typeName(type: string): string {
	const [name, sample, unit] = type.split(':');
	if (!unit) return TYPE_NAMES[type] ?? type;
	const word = SAMPLE_NAMES[sample] ?? sample;
	return name === sample ? word : `${word} (${name})`;
}

/* Types that can be shown; running time has no stacks, and is a part of wall-clock time. */
export const typeOptions = computed<[string, string][]>(() => {
	const stored = (types.data.value ?? []).filter(t => t !== 'oncpu');
	const all = [...new Set([profileType.value, ...stored])];
	const order = Object.keys(TYPE_NAMES);
	const place = (t: string): number => (order.includes(t) ? order.indexOf(t) : order.length);
	return all
		.sort((a, b) => place(a) - place(b) || a.localeCompare(b))
		.map(t => [t, typeName(t)]);
});

/* From the bottom of the stack up: the largest line first, the rest on top. */
function layers(t: Timeline): {values: number[]; total: number; value: string | null}[] {
	const all: {values: number[]; total: number; value: string | null}[] = [...t.lines];
	if (t.rest && t.rest.total > 0) all.push({...t.rest, value: null});
	return all;
}

/* uPlot's columns: times, then sums from the top of the stack to its bottom, each painted over. */
function columns(t: Timeline): uPlot.AlignedData {
	const {per} = scaleOf(t);
	const xs: number[] = [];
	for (let i = 0; i < t.steps; i++) xs.push((t.start + i * t.step) / 1000);
	const sum = new Float64Array(t.steps);
	const out: (number | null)[][] = [];
	for (const layer of layers(t)) {
		for (let i = 0; i < t.steps; i++) sum[i] += layer.values[i] / per;
		out.unshift(Array.from(sum, (n, i) => (t.covered[i] ? n : null)));
	}
	return [xs, ...out] as uPlot.AlignedData;
}

/* The steps that what is shown lies in: [first, behind the last). */
const shownSteps = computed<[number, number]>(() => {
	const t = timeline.data.value;
	if (!t) return [0, 0];
	const {from, to} = shown.value.chosen;
	const first = Math.max(0, Math.floor((from - t.start) / t.step));
	return [first, Math.max(first, Math.min(t.steps, Math.ceil((to - t.start) / t.step)))];
});

const sumOf = (values: number[], [first, last]: [number, number]): number => {
	let sum = 0;
	for (let i = first; i < last; i++) sum += values[i];
	return sum;
};

/* The sum of what is shown, of whole steps only: then it is the graph's root exactly. */
const chosenSum = computed<number | null>(() => {
	const t = timeline.data.value;
	if (!t || shown.value.rows || isState(profileType.value)) return null;
	const c = shown.value.chosen;
	const from = (c.from - t.start) / t.step;
	const to = (c.to - t.start) / t.step;
	if (!Number.isInteger(from) || !Number.isInteger(to) || from < 0 || to > t.steps)
		return null;
	return layers(t).reduce((n, layer) => n + sumOf(layer.values, [from, to]), 0);
});

// ---- the plot -------------------------------------------------------------------------------------

let hatch: {pattern: CanvasPattern | null; dark: boolean; ratio: number} | null = null;

function hatching(context: CanvasRenderingContext2D): CanvasPattern | null {
	const {dark} = theme.value;
	const ratio = devicePixelRatio;
	if (hatch?.dark === dark && hatch.ratio === ratio) return hatch.pattern;
	const size = Math.round(8 * ratio);
	const c = document.createElement('canvas');
	c.width = size;
	c.height = size;
	const g = c.getContext('2d')!;
	g.strokeStyle = dark ? '#38322b' : '#e7e0d6';
	g.lineWidth = ratio;
	g.beginPath();
	for (const d of [-size, 0, size]) {
		g.moveTo(d, size);
		g.lineTo(d + size, 0);
	}
	g.stroke();
	hatch = {pattern: context.createPattern(c, 'repeat'), dark, ratio};
	return hatch.pattern;
}

/* Runs of steps in which nothing was recorded. */
function gaps(t: Timeline): [number, number][] {
	const out: [number, number][] = [];
	const lastSeen = t.covered.lastIndexOf(1);
	const known = Math.min(status.data.peek()?.now ?? Date.now(), Date.now());
	for (let i = 0; i < t.steps; i++) {
		if (t.covered[i]) continue;
		const from = t.start + i * t.step;
		if (i > lastSeen && from + t.step > known - NOT_YET) continue;
		const last = out[out.length - 1];
		if (last && last[1] === from) last[1] = from + t.step;
		else out.push([from, from + t.step]);
	}
	return out;
}

function drawGaps(u: uPlot, t: Timeline): void {
	const {left, top, width, height} = u.bbox;
	for (const [from, to] of gaps(t)) {
		const x0 = Math.max(left, u.valToPos(from / 1000, 'x', true));
		const x1 = Math.min(left + width, u.valToPos(to / 1000, 'x', true));
		if (x1 <= x0) continue;
		u.ctx.fillStyle = hatching(u.ctx) ?? '#ccc';
		u.ctx.fillRect(x0, top, x1 - x0, height);
	}
}

/* Times of day; where days begin, or with a tick a day or more, dates. */
function tickLabels(at: number[]): string[] {
	const each = at.length > 1 ? at[1] - at[0] : 60;
	return at.map(s => {
		const ms = s * 1000;
		if (each >= 86400 || clock(ms) === '00:00:00') return date(ms).slice(5);
		return each < 60 ? clock(ms) : clock(ms).slice(0, 5);
	});
}

/* Where the plot's own area is, in CSS pixels of its element: the heatmap stands below it. */
export const plotArea = signal({left: 0, width: 0, from: 0, to: 1});

class Plot {
	private u: uPlot | null = null;
	private layers = 0;
	private readonly boxes: HTMLDivElement;
	private readonly observer: ResizeObserver;
	private readonly stop: () => void;
	private drag: {from: number; to: number; isBase: boolean} | null = null;

	constructor(private readonly host: HTMLElement) {
		this.boxes = document.createElement('div');
		this.boxes.className = 'ranges';
		this.observer = new ResizeObserver(() => this.resize());
		this.observer.observe(host);
		this.stop = effect(() => {
			const t = timeline.data.value;
			void theme.value;
			void range.value;
			if (t) this.set(t);
		});
	}

	close(): void {
		this.stop();
		this.observer.disconnect();
		this.u?.destroy();
	}

	private resize(): void {
		if (this.host.clientWidth > 0)
			this.u?.setSize({width: this.host.clientWidth, height: HEIGHT});
	}

	private set(t: Timeline): void {
		const data = columns(t);
		const key = theme.value.dark ? -data.length : data.length;
		if (!this.u || this.layers !== key) {
			this.u?.destroy();
			this.make(data);
			this.layers = key;
		} else {
			this.u.setData(data, false);
		}
		const to = t.start + t.steps * t.step;
		const from = isFitted.value && range.value.from < to ? range.value.from : t.start;
		this.u!.setScale('x', {min: from / 1000, max: to / 1000});
	}

	private make(data: uPlot.AlignedData): void {
		const {dark} = theme.value;
		const ink = dark ? '#a39a8f' : '#6d655c';
		const line = dark ? '#2c2823' : '#efe9e1';
		const font = '11px system-ui, "Segoe UI", Roboto, sans-serif';
		const axis = {
			stroke: ink,
			font,
			grid: {stroke: line, width: 1},
			ticks: {show: false},
		};
		const bars = uPlot.paths.bars!({
			size: [1, Number.POSITIVE_INFINITY],
			align: 1,
			gap: 0,
		});
		const count = data.length - 1;
		const options: uPlot.Options = {
			width: Math.max(100, this.host.clientWidth),
			height: HEIGHT,
			padding: [6, 26, 0, 0], // half of the last time's label
			legend: {show: false},
			cursor: {
				drag: {x: false, y: false, setScale: false},
				y: false,
				points: {show: false},
			},
			scales: {
				x: {time: true, auto: false},
				y: {range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1]},
			},
			axes: [
				{
					...axis,
					size: 22,
					gap: 4,
					space: 64,
					values: (_u, at) => tickLabels(at),
				},
				{
					...axis,
					size: 42,
					gap: 4,
					space: 26,
					values: (_u, ticks) => ticks.map(short),
				},
			],
			series: [
				{},
				...Array.from({length: count}, (_, i) => ({
					paths: bars,
					points: {show: false},
					width: 0,
					fill: () => this.colour(count - 1 - i),
				})),
			],
			hooks: {
				drawClear: [
					u => {
						const t = timeline.data.peek();
						if (t) drawGaps(u, t);
					},
				],
				// Only now does it know where everything is.
				draw: [
					u => {
						this.place();
						const {min, max} = u.scales.x;
						plotArea.value = {
							left: u.over.offsetLeft,
							width: u.over.clientWidth,
							from: (min ?? 0) * 1000,
							to: (max ?? 1) * 1000,
						};
					},
				],
				setCursor: [
					u => {
						hovered.value = u.cursor.idx ?? -1;
					},
				],
			},
		};
		this.u = new uPlot(options, data, this.host);
		this.u.over.append(this.boxes);
		this.listen(this.u.over);
	}

	/* Of a layer, counted from the bottom. */
	private colour(layer: number): string {
		return colours.peek()[layer] ?? restColour(theme.peek());
	}

	// ---- ranges --------------------------------------------------------------------------------

	private timeAt(e: PointerEvent): number {
		const edge = this.u!.over.getBoundingClientRect();
		const x = Math.max(0, Math.min(edge.width, e.clientX - edge.left));
		return this.u!.posToVal(x, 'x') * 1000;
	}

	private listen(over: HTMLElement): void {
		let pressed: {x: number; at: number; isBase: boolean} | null = null;
		over.addEventListener('pointerdown', e => {
			if (e.button !== 0) return;
			e.preventDefault();
			over.setPointerCapture(e.pointerId);
			pressed = {x: e.clientX, at: this.timeAt(e), isBase: e.shiftKey};
		});
		over.addEventListener('pointermove', e => {
			if (!pressed || Math.abs(e.clientX - pressed.x) < 3) return;
			const at = this.timeAt(e);
			this.drag = {
				from: Math.min(at, pressed.at),
				to: Math.max(at, pressed.at),
				isBase: pressed.isBase,
			};
			this.place();
		});
		const end = (e: PointerEvent): void => {
			const t = timeline.data.peek();
			const {drag} = this;
			this.drag = null;
			if (!pressed || !t) return;
			const {at, isBase} = pressed;
			pressed = null;
			if (e.type === 'pointercancel') {
				this.place();
				return;
			}
			if (!drag) {
				const s = state.peek().selected;
				if (!isBase && s && (at < s.from || at >= s.to)) choose(null);
				return;
			}
			const r = snap(drag, t.step);
			learned();
			if (isBase) this.setBase(r);
			else choose(r);
			this.place();
		};
		over.addEventListener('pointerup', end);
		over.addEventListener('pointercancel', end);
		over.addEventListener('dblclick', () => zoomToSelection());
	}

	private setBase(base: Range): void {
		const s = state.peek();
		update(s.live ? {base, live: false, range: range.peek()} : {base}, true);
	}

	private box(r: Range, className: string, text: string): void {
		const u = this.u!;
		const left = u.valToPos(r.from / 1000, 'x');
		const right = u.valToPos(r.to / 1000, 'x');
		const width = u.over.clientWidth;
		if (right < 0 || left > width) return;
		const e = document.createElement('div');
		e.className = className;
		e.style.left = `${Math.max(0, left)}px`;
		e.style.width = `${Math.max(2, Math.min(width, right) - Math.max(0, left))}px`;
		if (text) {
			const label = document.createElement('span');
			label.textContent = text;
			e.append(label);
		}
		this.boxes.append(e);
	}

	/* Draws what is chosen, what it is compared with, and restarts. */
	private place(): void {
		const u = this.u;
		const t = timeline.data.peek();
		if (!u || !t) return;
		this.boxes.replaceChildren();
		const s = state.value;
		t.restarted.forEach((is, i) => {
			if (!is) return;
			const at = t.start + i * t.step;
			const left = u.valToPos(at / 1000, 'x');
			const e = document.createElement('div');
			e.className = 'restart';
			e.title = `A collector started here, ${date(at)} ${clock(at)}`;
			e.style.left = `${left}px`;
			this.boxes.append(e);
		});
		const selected = this.drag && !this.drag.isBase ? this.drag : s.selected;
		const base = this.drag?.isBase ? this.drag : s.base;
		if (base) this.box(base, 'range base', 'baseline');
		if (selected) this.box(selected, 'range', base ? 'compared' : '');
	}

	/* The state's ranges changed. */
	refresh(): void {
		this.place();
	}
}

function PlotView(): JSX.Element {
	const host = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const plot = new Plot(host.current!);
		const stop = effect(() => {
			void state.value.selected;
			void state.value.base;
			plot.refresh();
		});
		return () => {
			stop();
			plot.close();
		};
	}, []);
	return <div class="plot" ref={host} />;
}

// ---- the list of lines ----------------------------------------------------------------------------

function filterBy(label: string, value: string): void {
	const s = selectorOf(state.value.query);
	if (typeof s === 'string') return;
	showSelector(withMatcher(s, {label, op: '=', value}));
}

/* What a line is called: pids with their process, and what has no such label by what that means. */
function lineName(by: string, l: {value: string; name?: string}): string {
	if (l.value === '') return by === 'pid' ? 'short-lived processes' : `no ${labelName(by)}`;
	return l.name ? `${l.name} (${l.value})` : l.value;
}

/* Each line's share of what is shown; under the pointer, how much it was then. */
function Legend({t}: {t: Timeline}): JSX.Element {
	const at = hovered.value;
	const {per, unit, isTime} = scaleOf(t);
	const of = shownSteps.value;
	const all = layers(t).reduce((n, l) => n + sumOf(l.values, of), 0);
	const show = (values: number[]): string => {
		if (at < 0 || at >= t.steps) return percent(sumOf(values, of), all);
		if (!t.covered[at]) return '–';
		return isTime ? (values[at] / per).toFixed(2) : amount(values[at], unit);
	};
	return (
		<ul class="legend" aria-label="Lines of the timeline">
			{t.lines.map((l, i) => (
				<li key={l.value}>
					<button
						type="button"
						title={
							state.value.by === PART
								? ''
								: `Only ${state.value.by}="${clip(l.value, 200)}"`
						}
						disabled={state.value.by === PART}
						onClick={() => filterBy(state.value.by, l.value)}
					>
						<Swatch colour={colours.value[i]} />
						<span class="value">
							{clip(lineName(state.value.by, l), 100)}
						</span>
						<span class="number">{show(l.values)}</span>
					</button>
				</li>
			))}
			{t.rest && t.rest.total > 0 && (
				<li class="rest">
					<Swatch colour={restColour(theme.value)} />
					<span class="value">the rest</span>
					<span class="number">{show(t.rest.values)}</span>
				</li>
			)}
		</ul>
	);
}

// ---- that one can drag ----------------------------------------------------------------------------

const LEARNED = 'smolder.dragged';
const hasDragged = signal(false);
try {
	hasDragged.value = localStorage.getItem(LEARNED) !== null;
} catch {
	// A browser that keeps nothing: it is said again.
}

function learned(): void {
	hasDragged.value = true;
	try {
		localStorage.setItem(LEARNED, '1');
	} catch {
		// As above.
	}
}

/* Until someone has done it once. */
function DragHint(): JSX.Element | null {
	if (hasDragged.value || state.value.selected || state.value.base) return null;
	return (
		<p class="drag-hint">
			<span aria-hidden="true">⟷ </span>Drag here to choose a time range
			<span class="roomy">; hold Shift to choose a range to compare with</span>
		</p>
	);
}

export function Swatch({colour}: {colour: string}): JSX.Element {
	return <i class="swatch" aria-hidden="true" style={{background: colour}} />;
}

const BY_USUAL = ['comm', 'service', 'pid', 'thread', 'container', 'pod', 'unit', 'exe', 'host'];

export const labelOptions = computed<string[]>(() => {
	const known = labels.data.value ?? [];
	const usual = BY_USUAL.filter(l => known.includes(l));
	const all = [...usual, ...known.filter(l => !usual.includes(l))];
	return all.length > 0 ? all : ['comm'];
});

export const labelName = (label: string): string =>
	label === 'comm' ? 'process' : label === PART ? 'part of the time' : label;

export function TimelinePanel(): JSX.Element | null {
	const t = timeline.data.value;
	const s = state.value;
	if (file.value) return null;
	const {chosen: c, rows} = shown.value;
	const sum = chosenSum.value;
	const at = hovered.value;
	const parts = profileType.value === 'wall' ? [PART] : [];
	const byOptions = [...new Set([...parts, s.by, ...labelOptions.value])];
	return (
		<section
			class={`timeline ${timeline.isBusy.value ? 'busy' : ''}`}
			aria-label="Timeline"
		>
			<div class="timeline-head">
				{typeOptions.value.length > 1 && (
					<Choice
						label="Show"
						value={profileType.value}
						options={typeOptions.value}
						onChange={showType}
					/>
				)}
				<Choice
					label={`${t ? scaleOf(t).unit : 'CPUs'} by`}
					value={s.by}
					options={byOptions.map(l => [l, labelName(l)])}
					onChange={by => update({by}, true)}
				/>
				<div class="buttons">
					<button
						type="button"
						title="The range before it ([)"
						onClick={() => step(-1)}
					>
						‹<span class="unseen">Step back</span>
					</button>
					<button
						type="button"
						title="The range after it (])"
						onClick={() => step(1)}
					>
						›<span class="unseen">Step forward</span>
					</button>
					<button
						type="button"
						title="Twice as long (−)"
						onClick={zoomOut}
					>
						Zoom out
					</button>
					<button
						type="button"
						title="Zoom the timeline to the selection (z, or double click)"
						disabled={!s.selected}
						onClick={zoomToSelection}
					>
						Zoom in
					</button>
				</div>
				<span class={`chosen ${isStale.value ? 'old' : ''}`}>
					<span class="when">{rangeText(c.from, c.to)}</span>
					<span>
						{span(c.to - c.from)}
						{isFitted.value && !s.selected && ', all there is'}
						{rows &&
							`, in each second ${rows[0] * 20} to ${(rows[1] + 1) * 20} ms`}
					</span>
					{sum !== null && t && (
						<span
							class="sum"
							title={`${sum} ${t.unit}`}
							data-sum={sum}
						>
							{amount(sum, t.unit)}
						</span>
					)}
					{s.selected && (
						<button
							type="button"
							class="quiet"
							onClick={() => choose(null)}
						>
							Whole range
						</button>
					)}
				</span>
				<span class="at">
					{t &&
						at >= 0 &&
						at < t.steps &&
						clock(t.start + at * t.step)}
				</span>
			</div>
			<div class="timeline-body">
				<div class="plot-box">
					<PlotView />
					<DragHint />
				</div>
				{t ? <Legend t={t} /> : <div class="legend" />}
			</div>
		</section>
	);
}
