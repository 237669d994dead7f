/*
 * pprof: https://github.com/google/pprof/blob/main/proto/profile.proto, read and written by hand.
 */
import {type Profile, samplesOf} from '../api';
import {KERNEL, type Tree} from '../tree';
import {fields, numbers, Writer} from './proto';
import type {Sink} from './sink';

interface Location {
	mapping: number;
	lines: {fn: number; line: number}[];
	address: number;
}

const isKernelFile = (file: string): boolean => /^\[(kernel|guest\.kernel)/.test(file);

export function readPprof(data: Uint8Array, sink: Sink): void {
	const strings: string[] = [];
	const types: {type: number; unit: number}[] = [];
	const samples: Uint8Array[] = [];
	const mappings = new Map<number, number>(); // id -> file name
	const locations = new Map<number, Location>();
	const functions = new Map<number, {name: number; file: number}>();
	let wanted = 0;
	let time = 0;
	let duration = 0;
	const decoder = new TextDecoder();

	for (const f of fields(data)) {
		const b = f.bytes;
		if (f.number === 6 && b) strings.push(decoder.decode(b));
		else if (f.number === 1 && b) types.push(readType(b));
		else if (f.number === 2 && b) samples.push(b);
		else if (f.number === 3 && b) {
			let id = 0;
			let name = 0;
			for (const g of fields(b)) {
				if (g.number === 1) id = g.value;
				else if (g.number === 5) name = g.value;
			}
			mappings.set(id, name);
		} else if (f.number === 4 && b) readLocation(b, locations);
		else if (f.number === 5 && b) {
			let id = 0;
			const fn = {name: 0, file: 0};
			for (const g of fields(b)) {
				if (g.number === 1) id = g.value;
				else if (g.number === 2) fn.name = g.value;
				else if (g.number === 4) fn.file = g.value;
			}
			functions.set(id, fn);
		} else if (f.number === 9) time = f.value;
		else if (f.number === 10) duration = f.value;
		else if (f.number === 14) wanted = f.value;
	}
	if (types.length === 0) throw new Error('it has no sample type');

	const text = (i: number): string => strings[i] ?? '';
	// As go tool pprof does: the type that the file names, else the last one.
	let column = types.findIndex(t => wanted !== 0 && t.type === wanted);
	if (column < 0) column = types.length - 1;
	sink.type = text(types[column].type) || 'samples';
	sink.unit = text(types[column].unit) === 'count' ? 'samples' : text(types[column].unit);
	sink.from = time / 1e6;
	sink.to = (time + duration) / 1e6;
	const counts = types.findIndex(t => text(t.type) === 'samples');

	const frames = new Map<number, number[]>(); // by location: functions, caller first
	const framesOf = (id: number): number[] => {
		let of = frames.get(id);
		if (of) return of;
		const l = locations.get(id);
		const path = l ? text(mappings.get(l.mapping) ?? 0) : '';
		const module = path.split('/').pop() ?? '';
		const kind = isKernelFile(path) ? KERNEL : 0;
		of = (l?.lines ?? []).map((line, i) => {
			const fn = functions.get(line.fn);
			// The last line is the function itself, those before it were inlined into it.
			const inlined = i < l!.lines.length - 1 && kind === 0;
			return sink.function(
				text(fn?.name ?? 0),
				module,
				inlined ? 2 : kind,
				text(fn?.file ?? 0),
				line.line,
			);
		});
		of.reverse();
		if (of.length === 0) {
			const at = `0x${(l?.address ?? 0).toString(16)}`;
			of = [sink.function(`[${module ? `${module}+` : ''}${at}]`, module, kind)];
		}
		frames.set(id, of);
		return of;
	};

	for (const bytes of samples) {
		const stack: number[] = [];
		const values: number[] = [];
		for (const f of fields(bytes)) {
			if (f.number === 1) numbers(f, stack);
			else if (f.number === 2) numbers(f, values);
		}
		let node = 0;
		for (let i = stack.length - 1; i >= 0; i--)
			for (const fn of framesOf(stack[i])) node = sink.call(node, fn);
		sink.add(node, values[column] ?? 0);
		if (counts >= 0) sink.samples += values[counts] ?? 0;
	}
}

function readType(b: Uint8Array): {type: number; unit: number} {
	const t = {type: 0, unit: 0};
	for (const f of fields(b)) {
		if (f.number === 1) t.type = f.value;
		else if (f.number === 2) t.unit = f.value;
	}
	return t;
}

function readLocation(b: Uint8Array, into: Map<number, Location>): void {
	let id = 0;
	const l: Location = {mapping: 0, lines: [], address: 0};
	for (const f of fields(b)) {
		if (f.number === 1) id = f.value;
		else if (f.number === 2) l.mapping = f.value;
		else if (f.number === 3) l.address = f.value;
		else if (f.number === 4 && f.bytes) {
			const line = {fn: 0, line: 0};
			for (const g of fields(f.bytes)) {
				if (g.number === 1) line.fn = g.value;
				else if (g.number === 2) line.line = g.value;
			}
			l.lines.push(line);
		}
	}
	into.set(id, l);
}

/*
 * Modules as the mappings of a file, as src/render/pprof.c orders them: viewers take the first for the
 * program, so that is the one that most of the time went through; what is no file comes last.
 */
function inOrder(weights: Map<number, number>, t: Tree): number[] {
	const rank = (m: number): number => (t.modules[m].startsWith('[') ? 2 : 1);
	const isProgram = (m: number): boolean => rank(m) === 1 && !/\.so(\.|$)/.test(t.modules[m]);
	const heaviest = [...weights.keys()].sort((a, b) => weights.get(b)! - weights.get(a)!);
	const program = heaviest.find(isProgram);
	const place = (m: number): number => (m === program ? 0 : rank(m));
	return heaviest.sort((a, b) => place(a) - place(b));
}

/*
 * A tree as pprof: one location a function, without addresses, which the tree does not have. Where each
 * sample stands for the same, they are counted as well, in front, as src/render/pprof.c does.
 */
export function writePprof(p: Profile, t: Tree, nodes: (visit: Visit) => void): Uint8Array {
	const w = new Writer();
	const strings = new Map<string, number>([['', 0]]);
	const text = (s: string): number => {
		let id = strings.get(s);
		if (id === undefined) {
			id = strings.size;
			strings.set(s, id);
		}
		return id;
	};
	const unit = p.unit === 'samples' ? 'count' : p.unit;
	const isCounted = p.type !== 'samples' && unit !== 'count' && samplesOf(p, 0) !== null;
	if (isCounted) w.message(1, m => m.number(1, text('samples')).number(2, text('count')));
	w.message(1, m => m.number(1, text(p.type)).number(2, text(unit)));
	const used = new Set<number>();
	const weights = new Map<number, number>();
	nodes((stack, value) => {
		for (const f of stack) {
			const module = t.functions.module[f];
			used.add(f);
			if (module !== 0) weights.set(module, (weights.get(module) ?? 0) + value);
		}
		const values = isCounted ? [samplesOf(p, value)!, value] : [value];
		w.message(2, m => m.packed(1, [...stack].reverse()).packed(2, values));
	});
	const mappings = new Map<number, number>();
	for (const module of inOrder(weights, t)) {
		mappings.set(module, mappings.size + 1);
		w.message(3, m =>
			m.number(1, mappings.size).number(5, text(t.modules[module])).number(7, 1),
		);
	}
	// A function's line is the one it was seen in most: not that of each of its samples.
	for (const f of used)
		w.message(4, m =>
			m
				.number(1, f)
				.number(2, mappings.get(t.functions.module[f]) ?? 0)
				.message(4, l => l.number(1, f)),
		);
	for (const f of used) {
		const source = t.sources[t.functions.source?.[f] ?? 0] ?? '';
		w.message(5, m =>
			m.number(1, f).number(2, text(t.functions.name[f])).number(4, text(source)),
		);
	}
	if (p.from) {
		w.number(9, p.from * 1e6);
		w.number(10, (p.to - p.from) * 1e6);
	}
	if (isCounted) {
		w.message(11, m => m.number(1, text(p.type)).number(2, text(unit)));
		w.number(12, p.period);
	}
	w.number(14, text(p.type));
	for (const s of strings.keys()) w.text(6, s);
	return w.done();
}

export type Visit = (stack: number[], value: number) => void;
