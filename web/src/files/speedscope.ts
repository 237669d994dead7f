/*
 * speedscope: https://www.speedscope.app/file-format-schema.json, "sampled" and "evented" profiles;
 * those of one file add up, each under its name.
 */
import {KERNEL} from '../tree';
import type {Sink} from './sink';

interface File {
	shared?: {frames?: {name?: string; file?: string; line?: number}[]};
	profiles?: Part[];
	activeProfileIndex?: number;
}

interface Part {
	type?: string;
	name?: string;
	unit?: string;
	samples?: number[][];
	weights?: number[];
	events?: {type: string; frame: number; at: number}[];
}

export function looksSpeedscope(text: string): boolean {
	return (
		text.trimStart().startsWith('{') &&
		/"profiles"\s*:/.test(text) &&
		/"shared"/.test(text)
	);
}

export function readSpeedscope(text: string, sink: Sink): void {
	const file: File = JSON.parse(text);
	const frames = file.shared?.frames;
	const parts = file.profiles;
	if (!Array.isArray(frames) || !Array.isArray(parts) || parts.length === 0)
		throw new Error('it has no profiles');
	// The first of smolder's own is everything, and each of the others a part of that.
	const one = parts[file.activeProfileIndex ?? 0] ?? parts[0];
	sink.unit = one.unit === 'none' || !one.unit ? 'samples' : one.unit;
	sink.type = sink.unit === 'bytes' ? 'memory' : 'cpu';
	const functions = frames.map(f => {
		const name = String(f?.name ?? '');
		const source = String(f?.file ?? '');
		const inlined = name.endsWith(' (inlined)');
		return sink.function(
			inlined ? name.slice(0, -10) : name,
			source.split('/').pop() ?? '',
			source === '[kernel]' ? KERNEL : inlined ? 2 : 0,
			source.includes('/') ? source : '',
			Number(f?.line ?? 0) || 0,
		);
	});
	const scale = UNITS[sink.unit] ?? 1;
	if (UNITS[sink.unit]) sink.unit = 'nanoseconds';
	if (one.type === 'evented') readEvents(one, functions, scale, sink);
	else readSamples(one, functions, scale, sink);
}

const UNITS: Record<string, number> = {
	nanoseconds: 1,
	microseconds: 1e3,
	milliseconds: 1e6,
	seconds: 1e9,
};

function readSamples(p: Part, functions: number[], scale: number, sink: Sink): void {
	(p.samples ?? []).forEach((stack, i) => {
		let node = 0;
		for (const f of stack) {
			if (functions[f] === undefined) sink.skipped++;
			else node = sink.call(node, functions[f]);
		}
		sink.add(node, (p.weights?.[i] ?? 1) * scale);
		sink.samples++;
	});
}

function readEvents(p: Part, functions: number[], scale: number, sink: Sink): void {
	const open: number[] = [0];
	let before: number | null = null;
	for (const e of p.events ?? []) {
		if (before !== null) sink.add(open[open.length - 1], (e.at - before) * scale);
		before = e.at;
		if (e.type === 'O' && functions[e.frame] !== undefined)
			open.push(sink.call(open[open.length - 1], functions[e.frame]));
		else if (e.type === 'C' && open.length > 1) open.pop();
		else sink.skipped++;
	}
}
