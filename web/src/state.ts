/*
 * state: all that the page shows, as it stands in the URL behind #. Whoever opens the URL sees the
 * same. Version 1; what is as it is by default is left out.
 *
 * Times are absolute, so that a URL means the same tomorrow. Only while following now (live) is a range
 * so and so long and ends now; unless told how long, an hour, or what there is of it.
 */
import type {ColourBy} from './colour';
import type {Change, FunctionKey} from './tree';

export const VERSION = 1;

export interface Range {
	from: number; // epoch ms
	to: number;
}

export type View = 'split' | 'flame' | 'table';

/* How a comparison's base counts: scaled to the same length, as it is, or to the same total. */
export type Scale = 'rate' | 'absolute' | 'shares';

export type Column = 'self' | 'total' | 'selfChange' | 'totalChange' | 'name' | 'module';
export interface Sort {
	column: Column;
	down: boolean;
}

export interface State {
	query: string; // a selector
	live: boolean;
	span: number; // ms, while live; 0: an hour, or what there is of it
	range: Range | null; // when not live
	selected: Range | null; // in it: what the graph is of
	rows: [number, number] | null; // of each second only these 20 ms, first and last
	base: Range | null; // what it is compared with …
	baseQuery: string; // … or which
	scale: Scale; // how they are compared
	by: string; // label of the timeline's lines
	group: string; // label of the graph's first row; '' none
	view: View;
	sort: Sort | null; // of the table; null: as is usual
	heat: boolean; // the heatmap is open …
	what: string; // changed: '' is not asked; 'usual', 'ranges', or around a time, epoch ms
	heatAt: Range | null; // … of this, while slots of it are chosen; else of what is chosen
	icicle: boolean;
	colour: ColourBy;
	search: string;
	zoom: string; // tree's placeOf()
	changes: Change[];
	sandwich: FunctionKey | null;
}

export const DEFAULT: State = {
	query: 'cpu',
	live: true,
	span: 0,
	range: null,
	selected: null,
	rows: null,
	base: null,
	baseQuery: '',
	scale: 'rate',
	by: 'comm',
	group: 'comm',
	view: 'split',
	sort: null,
	heat: false,
	heatAt: null,
	what: '',
	icicle: false,
	colour: 'kind',
	search: '',
	zoom: '',
	changes: [],
	sandwich: null,
};

const writeRange = (r: Range): string => `${r.from}-${r.to}`;

function readRange(text: string | null): Range | null {
	const m = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? '');
	if (!m || Number(m[2]) <= Number(m[1])) return null;
	return {from: Number(m[1]), to: Number(m[2])};
}

function writeChange(c: Change): string {
	if (c.op === 'recursion') return 'recursion';
	if (c.op === 'hide') return `hide ${JSON.stringify(c.module)}`;
	return `${c.op} ${JSON.stringify([c.of.name, c.of.module])}`;
}

function readKey(text: string): FunctionKey | null {
	try {
		const [name, module] = JSON.parse(text);
		if (typeof name === 'string' && typeof module === 'string') return {name, module};
	} catch {
		// Not one of ours.
	}
	return null;
}

function readChange(text: string): Change | null {
	if (text === 'recursion') return {op: 'recursion'};
	const m = /^(focus|remove|hide) (.*)$/s.exec(text);
	if (!m) return null;
	if (m[1] === 'hide') {
		try {
			const module: unknown = JSON.parse(m[2]);
			return typeof module === 'string' ? {op: 'hide', module} : null;
		} catch {
			return null;
		}
	}
	const of = readKey(m[2]);
	return of && {op: m[1] as 'focus' | 'remove', of};
}

export function write(s: State): string {
	const p = new URLSearchParams();
	const set = (key: string, value: string, usual: string): void => {
		if (value !== usual) p.set(key, value);
	};
	set('q', s.query, DEFAULT.query);
	if (!s.live && s.range) p.set('t', writeRange(s.range));
	else set('last', String(s.span / 1000), String(DEFAULT.span / 1000));
	if (s.selected) p.set('sel', writeRange(s.selected));
	if (s.rows) p.set('rows', s.rows.join('-'));
	if (s.base) p.set('base', writeRange(s.base));
	set('bq', s.baseQuery, '');
	set('scale', s.scale, DEFAULT.scale);
	set('by', s.by, DEFAULT.by);
	set('group', s.group, DEFAULT.group);
	set('view', s.view, DEFAULT.view);
	if (s.sort) p.set('sort', `${s.sort.column}${s.sort.down ? '' : '-up'}`);
	if (s.heat) p.set('heat', s.heatAt ? writeRange(s.heatAt) : '1');
	set('what', s.what, '');
	if (s.icicle) p.set('icicle', '1');
	set('colour', s.colour, DEFAULT.colour);
	set('s', s.search, '');
	set('z', s.zoom, '');
	for (const c of s.changes) p.append('c', writeChange(c));
	if (s.sandwich) p.set('fn', JSON.stringify([s.sandwich.name, s.sandwich.module]));
	const text = p.toString();
	return text === '' ? '' : `#v=${VERSION}&${text}`;
}

export const COLUMNS: readonly Column[] = [
	'self',
	'total',
	'selfChange',
	'totalChange',
	'name',
	'module',
];

function readSort(text: string | null): Sort | null {
	const [column, up] = (text ?? '').split('-');
	return COLUMNS.includes(column as Column)
		? {column: column as Column, down: up !== 'up'}
		: null;
}

const oneOf = <T extends string>(text: string | null, all: readonly T[], usual: T): T =>
	all.includes(text as T) ? (text as T) : usual;

/* What is not understood, or of a later version, is as if it were not there. */
export function read(hash: string): State {
	const p = new URLSearchParams(hash.replace(/^#/, ''));
	if (!p.has('v') || Number(p.get('v')) > VERSION) return {...DEFAULT};
	const range = readRange(p.get('t'));
	const last = Number(p.get('last'));
	const rows = /^(\d{1,2})-(\d{1,2})$/.exec(p.get('rows') ?? '');
	const fn = p.get('fn');
	return {
		query: p.get('q') ?? DEFAULT.query,
		live: range === null,
		span: last >= 60 && last <= 31 * 86400 ? last * 1000 : DEFAULT.span,
		range,
		selected: readRange(p.get('sel')),
		rows: rows && [Number(rows[1]), Math.min(49, Number(rows[2]))],
		base: readRange(p.get('base')),
		baseQuery: p.get('bq') ?? '',
		scale: oneOf(
			p.get('shares') === '1' ? 'shares' : p.get('scale'), // 1 was how it was once written
			['rate', 'absolute', 'shares'],
			DEFAULT.scale,
		),
		by: p.get('by') ?? DEFAULT.by,
		group: p.get('group') ?? DEFAULT.group,
		view: oneOf(p.get('view'), ['split', 'flame', 'table'], DEFAULT.view),
		sort: readSort(p.get('sort')),
		heat: p.has('heat'),
		heatAt: readRange(p.get('heat')),
		what: /^(usual|ranges|\d{12,14})$/.exec(p.get('what') ?? '')?.[0] ?? '',
		icicle: p.get('icicle') === '1',
		colour: oneOf(p.get('colour'), ['library', 'kind', 'name'], DEFAULT.colour),
		search: p.get('s') ?? '',
		zoom: p.get('z') ?? '',
		changes: p.getAll('c').flatMap(c => readChange(c) ?? []),
		sandwich: fn ? readKey(fn) : null,
	};
}

// ---- times ----------------------------------------------------------------------------------------

const SPAN = 3600_000;
export const spanOf = (s: State): number => s.span || SPAN;

const STEPS = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600].map(s => s * 1000);
const STEPS_MOST = 400;

/* The timeline's step: as fine as a window, as coarse as keeps it drawable. */
export function stepOf(r: Range): number {
	const length = r.to - r.from;
	return STEPS.find(s => length / s <= STEPS_MOST) ?? STEPS[STEPS.length - 1];
}

/* Outward to whole steps: then the timeline's sum and the graph's are of the same windows. */
export function snap(r: Range, step: number): Range {
	return {from: Math.floor(r.from / step) * step, to: Math.ceil(r.to / step) * step};
}

export const PRESETS: [string, number][] = [
	['15 min', 900_000],
	['1 h', 3600_000],
	['6 h', 6 * 3600_000],
	['24 h', 86400_000],
	['7 d', 7 * 86400_000],
	['30 d', 30 * 86400_000],
];

const UNITS: Record<string, number> = {s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5, w: 6048e5};

/* "now-1h30m", "14:02", "2025-11-15 14:02:05", epoch seconds or ms; NaN if it is none of these. */
export function readTime(text: string, now = Date.now()): number {
	const s = text.trim();
	const relative = /^now\s*(?:-\s*((?:\d+\s*(?:min|[smhdw])\s*)+))?$/.exec(s);
	if (relative) {
		let at = now;
		for (const [, n, unit] of (relative[1] ?? '').matchAll(/(\d+)\s*(min|[smhdw])/g))
			at -= Number(n) * UNITS[unit];
		return at;
	}
	if (/^\d{9,10}$/.test(s)) return Number(s) * 1000;
	if (/^\d{12,14}$/.test(s)) return Number(s);
	const time = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(s);
	if (time) {
		const t = new Date(now);
		t.setHours(Number(time[1]), Number(time[2]), Number(time[3] ?? 0), 0);
		return Number(time[1]) > 23 || Number(time[2]) > 59 ? Number.NaN : t.getTime();
	}
	if (!/^\d{4}-\d\d-\d\d/.test(s)) return Number.NaN;
	return Date.parse(/^\d{4}-\d\d-\d\d$/.test(s) ? `${s}T00:00` : s.replace(' ', 'T'));
}
