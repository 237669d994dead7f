/*
 * perf: what `perf script` prints. A sample is a line that names the process, then its frames, leaf
 * first, one a line: "  ffff8100 name+0x12 (/path/to/file)"; an empty line ends it.
 */
import {KERNEL} from '../tree';
import type {Sink} from './sink';

const HEAD = /^(\S.*?)\s+(?:\d+\/)?(\d+)\s+(?:\[\d+\]\s+)?(\d+\.\d+):\s+(?:(\d+)\s+)?(\S+?):/;
const FRAME = /^\s+([0-9a-f]+)\s+(.*?)(?:\s+\(([^()]*(?:\([^()]*\))?[^()]*)\))?\s*$/;

export function looksPerf(text: string): boolean {
	return text
		.slice(0, 50_000)
		.split('\n')
		.some((l, i, all) => HEAD.test(l) && FRAME.test(all[i + 1] ?? ''));
}

function moduleOf(path: string): string {
	if (path.startsWith('[kernel.') || path === '[guest.kernel.kallsyms]') return '[kernel]';
	return (
		path
			.replace(/ \(deleted\)$/, '')
			.split('/')
			.pop() ?? ''
	);
}

interface Pending {
	comm: string;
	weight: number;
	frames: {name: string; module: string; kind: number}[];
}

function flush(p: Pending | null, sink: Sink): void {
	if (!p) return;
	let node = sink.frame(0, p.comm, '', 7);
	for (let i = p.frames.length - 1; i >= 0; i--) {
		const f = p.frames[i];
		node = sink.frame(node, f.name, f.module, f.kind);
	}
	sink.add(node, p.weight);
	sink.samples++;
}

/* Clocks count nanoseconds; other events are counted by their period, or as samples without one. */
export function readPerf(text: string, sink: Sink): void {
	let pending: Pending | null = null;
	let event = '';
	for (const line of text.split('\n')) {
		if (line.startsWith('#')) continue;
		const head = /^\S/.test(line) ? HEAD.exec(line) : null;
		if (head) {
			flush(pending, sink);
			event ||= head[5];
			pending = {comm: head[1], weight: Number(head[4] ?? 1), frames: []};
			if (event.split(':')[0] !== head[5].split(':')[0]) pending = null; // another unit
			continue;
		}
		if (line.trim() === '') {
			flush(pending, sink);
			pending = null;
			continue;
		}
		const m = FRAME.exec(line);
		if (!m || !pending) {
			sink.skipped++;
			continue;
		}
		const path = m[3] ?? '';
		const module = path === '[unknown]' || path === 'inlined' ? '' : moduleOf(path);
		const inKernel =
			module === '[kernel]' ||
			(/^\[\w+\]$/.test(path) && Number(`0x${m[1]}`) >= 2 ** 63);
		let name = m[2].replace(/\+0x[0-9a-f]+$/, '');
		if (name === '[unknown]') name = module ? `[${module}]` : '[unknown]';
		pending.frames.push({
			name,
			module,
			kind: inKernel ? KERNEL : path === 'inlined' ? 2 : 0,
		});
	}
	flush(pending, sink);
	sink.type = event.split(':')[0] || 'samples';
	if (/clock$/.test(sink.type)) sink.unit = 'nanoseconds';
	else if (/^cycles|^instructions/.test(sink.type)) sink.unit = sink.type.split(/\W/)[0];
}
