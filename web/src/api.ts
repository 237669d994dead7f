/*
 * api: what the server is asked (docs/api.md). Addresses are relative to the page's own.
 */
import {KINDS, layOut, mergedFunction, type Names, type Sums, type Tree} from './tree';

export class ApiError extends Error {
	constructor(
		readonly status: number, // 0: it does not answer
		message: string,
	) {
		super(message);
	}
}

const PATIENCE = 40_000; // ms; the server gives up after 30 s, and says so

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
	let response: Response;
	const late = AbortSignal.timeout(PATIENCE);
	const either = signal ? AbortSignal.any([signal, late]) : late;
	try {
		response = await fetch(path, {
			signal: either,
			headers: {Accept: 'application/json'},
		});
	} catch (e) {
		if (signal?.aborted) throw e;
		throw new ApiError(0, 'The server does not answer.');
	}
	if (response.ok) {
		try {
			return await response.json();
		} catch (e) {
			if (signal?.aborted) throw e;
			throw new ApiError(response.status, 'The server’s answer was incomplete.');
		}
	}
	let text = `The server answered ${response.status}.`;
	try {
		const body = await response.json();
		if (typeof body.error === 'string') text = body.error;
	} catch {
		// Not ours: a proxy's, perhaps.
	}
	throw new ApiError(response.status, text);
}

export function address(path: string, parameters: Record<string, string | number>): string {
	const p = new URLSearchParams();
	for (const [key, value] of Object.entries(parameters))
		if (value !== '') p.set(key, String(value));
	return `api/v1/${path}?${p}`;
}

// ---- trees ----------------------------------------------------------------------------------------

export interface TreeAnswer {
	type: string;
	unit: string;
	period: number;
	from: number;
	to: number;
	samples: number;
	lost: number;
	total: number;
	pruned: number;
	least: number;
	stacks?: number;
	incomplete?: number;
	by_frame_pointers?: number;
	frames?: number;
	unnamed?: number;
	hint?: string;
	functions: {
		name: string[];
		module: number[];
		kind: number[];
		source?: number[];
		line?: number[];
		// Of the whole tree, before nodes were left out.
		self?: number[];
		total?: number[];
		base_self?: number[];
		base_total?: number[];
	};
	modules: string[];
	kinds: string[];
	sources?: string[];
	other?: number; // the function of what was left out; 0: nothing was
	unlisted?: number; // functions whose sums are the other's
	nodes: {
		function: number[];
		depth: number[];
		total: number[];
		self: number[];
		base_total?: number[];
		base_self?: number[];
	};
	base?: {from: number; to: number; total: number; samples: number};
}

/* A profile that can be shown, from the server or from a file. */
export interface Profile {
	tree: Tree;
	type: string;
	unit: string;
	from: number; // ms; 0: not known
	to: number;
	samples: number; // 0: not known
	lost: number;
	pruned: number;
	quality: Quality | null; // null: not known
	period: number; // what each sample counts; 0: not known, or not all the same
	base: {from: number; to: number; total: number; samples: number} | null;
	notes?: string[]; // of a file: what is not in it
}

/* How many samples an amount is; null: not known. */
export function samplesOf(p: Profile, n: number): number | null {
	if (p.unit === 'samples') return n;
	return p.period > 0 ? Math.round(n / p.period) : null;
}

/* How far stacks can be trusted: samples with a user stack, frames of all samples. */
export interface Quality {
	stacks: number;
	incomplete: number; // of stacks
	byPointers: number; // of stacks: with a caller that no table told
	frames: number;
	unnamed: number; // of frames
	hint: string; // what would name the largest part; '' for nothing
}

function qualityOf(a: TreeAnswer): Quality | null {
	const {stacks, incomplete = 0, by_frame_pointers = 0, frames, unnamed = 0, hint = ''} = a;
	if (stacks === undefined || frames === undefined) return null;
	return {stacks, incomplete, byPointers: by_frame_pointers, frames, unnamed, hint};
}

function sumsOf(a: TreeAnswer): Sums | null {
	const {self, total, base_self, base_total} = a.functions;
	if (!self || !total) return null;
	const rows = self.map((n, fn) => ({
		fn,
		self: n,
		total: total[fn],
		baseSelf: base_self?.[fn] ?? 0,
		baseTotal: base_total?.[fn] ?? 0,
	}));
	return {
		rows: rows.filter(r => r.fn > 0 && (r.total > 0 || r.baseTotal > 0)),
		unlisted: a.unlisted ?? 0,
	};
}

export function profileOf(a: TreeAnswer): Profile {
	const names: Names = {
		functions: a.functions,
		modules: a.modules,
		kinds: a.kinds ?? KINDS,
		sources: a.sources ?? [''],
		merged: a.other || mergedFunction(a.functions),
	};
	const n = a.nodes;
	const base =
		n.base_total && n.base_self
			? {
					total: Float64Array.from(n.base_total),
					self: Float64Array.from(n.base_self),
					weight: 1,
				}
			: null;
	const tree = layOut(
		names,
		Int32Array.from(n.function),
		Int32Array.from(n.depth),
		Float64Array.from(n.total),
		Float64Array.from(n.self),
		base,
	);
	return {
		tree: {...tree, sums: sumsOf(a)},
		type: a.type,
		unit: a.unit,
		from: a.from,
		to: a.to,
		samples: a.samples,
		lost: a.lost,
		pruned: a.pruned,
		quality: qualityOf(a),
		// Sums beyond 2^53 came rounded.
		period: Math.abs(a.samples * a.period - a.total) <= a.total * 1e-12 ? a.period : 0,
		base: a.base ?? null,
	};
}

// ---- the rest -------------------------------------------------------------------------------------

export interface Timeline {
	start: number;
	step: number;
	steps: number;
	unit: string;
	covered: number[];
	restarted: number[];
	lines: {value: string; name?: string; total: number; values: number[]}[];
	rest?: {total: number; values: number[]};
}

/* What a collector found wrong by itself. */
export interface Finding {
	kind: string;
	began: number;
	until: number;
	active: boolean;
	sure: number; // 0 to 1
	pid: number; // 0: not one process
	comm: string;
	container: string;
	host: string;
	headline: string;
	means: string;
	next: string; // a command
	stack: string;
	facts: Record<string, number>;
}

/* A function or a process that takes more or less than before. */
export interface Changed {
	process: string;
	function?: string; // not of a process; nor any of the next five
	module?: string;
	of?: 'self' | 'total';
	base_share?: number;
	share?: number;
	path?: string[]; // of callers, it the last
	base_cpus?: number; // of a process
	cpus?: number;
	change: number | null; // 0.2: 20 % more; null: it is new
	cpu_seconds_a_day: number;
	link: string;
}

export interface Comparison {
	against: string; // in words
	query: string;
	base_from: number;
	base_to: number;
	block: number; // ms
	blocks: number;
	base_blocks: number;
	compared: boolean; // false: too little is recorded
	cpus: number;
	base_cpus: number;
	functions: Changed[];
	processes: Changed[];
}

export interface ChangesAnswer {
	comparisons: Comparison[];
	versions: {at: number; process: string; version: string; base_version: string}[];
}

/* One profile of a program that is scraped. */
export interface Target {
	job: string;
	instance: string;
	profile: string;
	url: string;
	health: 'up' | 'down' | 'unknown';
	error: string;
	last: number;
	took_ms: number;
	scrapes: number;
	failures: number;
	bytes: number;
}

export interface TargetsAnswer {
	dropped: number;
	left_out: number;
	sources: {job: string; where: string; error: string}[];
	targets: Target[];
}

/* Samples in each 20 ms; of types that have no times of samples, how much in each window of 10 s. */
export interface Heat {
	start: number;
	step: number; // ms
	period?: number; // ns of a tick of each CPU's; 0: they are not of a clock
	counts?: number[]; // of samples; else …
	unit?: string;
	values?: number[]; // … of so many of the unit
	covered?: number[]; // 0: nothing was recorded
}

/* What smolder itself costs, over a time. */
export interface Cost {
	seconds?: number;
	collector_seconds?: number; // what the collector's parts are over
	cpu_percent?: number;
	timer_percent?: number;
	memory_bytes?: number; // now
	disk_bytes_per_day?: number | null;
	disk_seconds?: number;
	taken?: number;
	lost?: number;
	parts?: {name: string; cpu_percent?: number; memory_bytes?: number}[];
	stages?: {name: string; cpu_percent?: number}[];
}

/* What is not there is not known. */
export interface Status {
	version?: string;
	host?: string;
	now?: number;
	cpus?: number;
	collector?: {
		state?: 'recording' | 'starting' | 'absent' | 'failed';
		problem?: string;
		since?: number;
	};
	store?: {
		bytes?: number;
		first?: number;
		last?: number;
		retention_ms?: number;
		max_bytes?: number;
		times_ms?: number;
	};
	cost?: Cost & {recent?: Cost | null}; // since the start, and of the last minute
	targets?: {up: number; down: number}; // of those that are scraped
	samples?: {taken?: number; stored?: number; lost?: Record<string, number>};
}
