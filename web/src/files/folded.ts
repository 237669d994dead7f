/*
 * folded: stacks as lines, "a;b;c 12". _[k] marks kernel frames, _[i] inlined, _[j] JIT, as FlameGraph
 * has it. What is counted is samples, unless a line "# unit: nanoseconds" says so.
 */
import type {Sink} from './sink';

const MARKS: Record<string, number> = {k: 1, i: 2, j: 4};

export function looksFolded(text: string): boolean {
	const lines = text.split('\n', 50);
	const some = lines.filter(l => l.trim() !== '' && !l.startsWith('#'));
	return some.length > 0 && some.every(l => /\S\s+\d+(\.\d+)?\s*$/.test(l.slice(-100)));
}

export function readFolded(text: string, sink: Sink): void {
	for (const line of text.split('\n')) {
		const unit = /^# unit: (\w{1,32})\s*$/.exec(line);
		if (unit) sink.unit = unit[1];
		const m = /^(.*\S)\s+(\d+(?:\.\d+)?)\s*$/.exec(line);
		if (!m) {
			if (line.trim() !== '' && !line.startsWith('#')) sink.skipped++;
			continue;
		}
		let node = 0;
		for (const part of m[1].split(';')) {
			if (part === '') continue;
			const mark = /_\[([kij])\]$/.exec(part);
			const name = mark ? part.slice(0, -4) : part;
			const kind = mark ? MARKS[mark[1]] : 0;
			node = sink.frame(node, name, kind === 1 ? '[kernel]' : '', kind);
		}
		sink.add(node, Number(m[2]));
	}
}
