/*
 * save: the current view as a file. Everything is made here from the tree that is on the screen, so
 * that what was focused, hidden and zoomed is in the file as it was seen.
 */
import {type Profile, samplesOf} from '../api';
import {css} from '../colour';
import {amount, clip, percent} from '../format';
import {fit, type Look, Painter, ROW, rowsIn} from '../paint';
import type {Tree} from '../tree';
import {type Visit, writePprof} from './pprof';

/* Each stack of a subtree with its callers, and what it used by itself. */
export function stacks(t: Tree, node: number, visit: Visit): void {
	const stack: number[] = [];
	for (let i = node; i > 0; i = t.parent[i]) stack.push(t.fn[i]);
	stack.reverse();
	for (let i = node; i < t.next[node]; i++) {
		if (i > node) {
			stack.length = t.depth[i];
			stack[t.depth[i] - 1] = t.fn[i];
		}
		if (t.self[i] > 0) visit(stack, t.self[i]);
	}
}

const MARKS = ['', '_[k]', '_[i]', '', '_[j]'];

/*
 * Counts of samples where all count the same, as `smolder query -f folded` has them; else a first line
 * says what is counted.
 */
export function folded(p: Profile, t: Tree, node: number): string {
	const names = t.functions.name.map((n, f) => {
		const plain = n.replace(/[;\n]/g, ':');
		return plain + (MARKS[t.functions.kind[f]] ?? '');
	});
	const isCounted = samplesOf(p, 0) !== null;
	const lines: string[] = isCounted ? [] : [`# unit: ${p.unit}`];
	stacks(t, node, (stack, value) => {
		const n = samplesOf(p, value) ?? value;
		lines.push(`${stack.map(f => names[f]).join(';')} ${Math.round(n)}`);
	});
	return `${lines.join('\n')}\n`;
}

export async function pprof(p: Profile, t: Tree, node: number): Promise<Blob> {
	const bytes = writePprof(p, t, visit => stacks(t, node, visit));
	const packed = new Blob([bytes as BlobPart])
		.stream()
		.pipeThrough(new CompressionStream('gzip'));
	return new Response(packed).blob();
}

export function speedscope(p: Profile, t: Tree, node: number, title: string): string {
	const samples: number[][] = [];
	const weights: number[] = [];
	stacks(t, node, (stack, value) => {
		samples.push(stack.map(f => f - 1));
		weights.push(value);
	});
	const frames = t.functions.name.slice(1).map((name, f) => ({
		name: t.functions.kind[f + 1] === 2 ? `${name} (inlined)` : name,
		file: t.modules[t.functions.module[f + 1]] || undefined,
	}));
	return JSON.stringify({
		$schema: 'https://www.speedscope.app/file-format-schema.json',
		exporter: 'smolder',
		name: title,
		activeProfileIndex: 0,
		shared: {frames},
		profiles: [
			{
				type: 'sampled',
				name: title,
				unit: /seconds$|^bytes$/.test(p.unit) ? p.unit : 'none',
				startValue: 0,
				endValue: t.total[node],
				samples,
				weights,
			},
		],
	});
}

const escapeXml = (s: string): string => s.replace(/[<>&"']/g, c => `&#${c.charCodeAt(0)};`);

const WIDTH = 1200;
const PAD = 12;
const HEAD = 44;

export function svg(p: Profile, look: Look, title: string, subtitle: string): string {
	const {tree: t, from, to, theme} = look;
	const inner = WIDTH - 2 * PAD;
	const scale = inner / (to - from || 1);
	const rows = rowsIn(t, from, to, 0.3 / scale);
	const height = HEAD + rows * ROW + PAD;
	const out: string[] = [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="ui-monospace, Menlo, DejaVu Sans Mono, monospace" font-size="11.5" fill="${theme.ink}">`,
		`<rect width="100%" height="100%" fill="${css(theme.page)}"/>`,
		`<text x="${PAD}" y="20" font-family="system-ui, sans-serif" font-size="15" font-weight="600">${escapeXml(title)}</text>`,
		`<text x="${PAD}" y="36" font-family="system-ui, sans-serif" font-size="11.5">${escapeXml(subtitle)}</text>`,
	];
	for (let i = 0; i < t.count; ) {
		const start = Math.max(t.start[i], from);
		const end = Math.min(t.start[i] + t.size[i], to);
		const w = (end - start) * scale;
		if (w < 0.3) {
			i = t.next[i];
			continue;
		}
		const x = PAD + (start - from) * scale;
		const row = look.icicle ? t.depth[i] : rows - 1 - t.depth[i];
		const y = HEAD + row * ROW;
		const name = i === 0 ? 'all' : t.functions.name[t.fn[i]];
		const colour = look.hits?.[t.fn[i]]
			? theme.hit
			: look.nodes
				? look.nodes[i]
				: look.functions[t.fn[i]];
		const share = percent(t.total[i], t.total[0]);
		const label = fit(name, Math.floor((w - 8) / 6.95));
		out.push(
			`<g><title>${escapeXml(clip(name, 500))} (${escapeXml(amount(t.total[i], p.unit))}, ${share})</title>`,
			`<rect x="${x.toFixed(2)}" y="${y}" width="${Math.max(w - (w > 3 ? 0.5 : 0), 0.1).toFixed(2)}" height="${ROW - 1}" fill="${css(colour)}"/>`,
			label
				? `<text x="${(x + 4).toFixed(2)}" y="${y + 13}"${look.hits?.[t.fn[i]] ? ` fill="${theme.hitInk}"` : ''}>${escapeXml(label)}</text></g>`
				: '</g>',
		);
		i++;
	}
	out.push('</svg>\n');
	return out.join('\n');
}

export function png(look: Look, title: string, subtitle: string): Promise<Blob | null> {
	const ratio = 2;
	const rows = rowsIn(look.tree, look.from, look.to, (0.5 * (look.to - look.from)) / WIDTH);
	const height = HEAD + rows * ROW + PAD;
	const canvas = document.createElement('canvas');
	const graph = document.createElement('canvas');
	canvas.width = WIDTH * ratio;
	canvas.height = height * ratio;
	graph.width = (WIDTH - 2 * PAD) * ratio;
	graph.height = rows * ROW * ratio;
	const context = canvas.getContext('2d')!;
	const area = {width: WIDTH - 2 * PAD, height: rows * ROW, top: 0, ratio};
	new Painter().draw(graph.getContext('2d')!, {...look, rows}, area);
	context.fillStyle = css(look.theme.page);
	context.fillRect(0, 0, canvas.width, canvas.height);
	context.drawImage(graph, PAD * ratio, HEAD * ratio);
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.fillStyle = look.theme.ink;
	context.font = '600 15px system-ui, sans-serif';
	context.fillText(clip(title, 120), PAD, 20);
	context.font = '11.5px system-ui, sans-serif';
	context.fillText(subtitle, PAD, 36);
	return new Promise(done => canvas.toBlob(done, 'image/png'));
}

export function download(content: Blob | string, type: string, name: string): void {
	const blob = typeof content === 'string' ? new Blob([content], {type}) : content;
	const url = URL.createObjectURL(blob);
	const link = document.createElement('a');
	link.href = url;
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
