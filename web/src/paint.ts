/*
 * paint: a tree's frames as pixels.
 *
 * Frames are not canvas calls: of each row one line of pixels is filled and then copied down, so that
 * a picture costs as much as it has pixels, however many frames there are. Frames under half a pixel
 * are one grey dot and their callees are not looked at. Only labels are drawn by the canvas.
 */
import {NEW, SAME, type Theme} from './colour';
import type {Tree} from './tree';

export const ROW = 18; // CSS pixels, the gap of one below it included
const TEXT_PAD = 4;
export const FONT = '11.5px ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace';

export interface Look {
	tree: Tree;
	from: number; // the view, in the tree's unit
	to: number;
	zoom: number; // frames above this node are its callers
	icicle: boolean;
	rows: number; // of the whole picture
	first: number; // the depth of its first row: 1 leaves the root out
	functions: Uint32Array; // colours by function …
	nodes: Uint32Array | null; // … or by node
	marks: Uint8Array | null; // new, vanished: by node
	hits: Uint8Array | null; // by function
	theme: Theme;
}

export interface Area {
	width: number; // CSS pixels
	height: number;
	top: number; // how far down the picture it is
	ratio: number; // device pixels in one of them
}

const WIDE =
	/[\u1100-\u115f\u2e80-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f000}-\u{3ffff}]/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is what it says
const PLAIN = /^[\x00-\x7f]*$/;

/* What of a name fits into so many columns of a monospaced font. */
export function fit(name: string, columns: number): string {
	if (columns < 2) return '';
	// A character is at most two units of a string, and a letter may carry some marks.
	if (name.length > 8 * columns) name = name.slice(0, 8 * columns);
	if (PLAIN.test(name))
		return name.length <= columns ? name : `${name.slice(0, columns - 1)}…`;
	let used = 0;
	let at = 0;
	let cut = 0;
	for (const c of name) {
		used += WIDE.test(c) ? 2 : 1;
		if (used > columns) return `${name.slice(0, cut)}…`;
		at += c.length;
		if (used < columns) cut = at;
	}
	return name;
}

/* The row of the deepest frame that can be seen in a range, plus one. */
export function rowsIn(t: Tree, from: number, to: number, least: number): number {
	let deepest = 0;
	for (let i = 0; i < t.count; ) {
		const start = t.start[i];
		const end = start + t.size[i];
		if (Math.min(end, to) - Math.max(start, from) < least) {
			i = t.next[i];
			continue;
		}
		if (t.depth[i] > deepest) deepest = t.depth[i];
		i++;
	}
	return deepest + 1;
}

export class Painter {
	private image: ImageData | null = null;
	private pixels = new Uint32Array(0);
	private dim: Uint32Array | null = null;
	private dimOf: Look | null = null;
	private character = 0;

	/* Where the row of a depth begins, in CSS pixels of the area. */
	static rowTop(look: Look, area: Area, depth: number): number {
		const at = depth - look.first;
		const row = look.icicle ? at : look.rows - 1 - at;
		return row * ROW - area.top;
	}

	draw(context: CanvasRenderingContext2D, look: Look, area: Area): void {
		const w = Math.max(1, Math.round(area.width * area.ratio));
		const h = Math.max(1, Math.round(area.height * area.ratio));
		if (!this.image || this.image.width !== w || this.image.height !== h) {
			this.image = context.createImageData(w, h);
			this.pixels = new Uint32Array(this.image.data.buffer);
		}
		this.pixels.fill(look.theme.page);
		const labels = this.fill(look, area, w, h);
		context.putImageData(this.image, 0, 0);
		this.write(context, look, area, labels);
	}

	/* Colours by function with what a search leaves out paled. */
	private colours(look: Look): Uint32Array {
		if (!look.hits) return look.functions;
		if (
			this.dim &&
			this.dimOf?.hits === look.hits &&
			this.dimOf.functions === look.functions
		)
			return this.dim;
		const out = new Uint32Array(look.functions.length);
		for (let f = 0; f < out.length; f++)
			out[f] = look.hits[f]
				? look.theme.hit
				: pale(look.functions[f], look.theme.page);
		this.dim = out;
		this.dimOf = look;
		return out;
	}

	/* Fills frames; returns those that are wide enough for a label. */
	private fill(look: Look, area: Area, w: number, h: number): number[] {
		const {tree: t, from, to, hits, nodes, marks, theme, first} = look;
		const {pixels} = this;
		const scale = w / (to - from || 1);
		const colours = this.colours(look);
		const labels: number[] = [];
		const striped: number[] = [];
		const rowHeight = ROW * area.ratio;
		const high = Math.max(
			1,
			Math.round(rowHeight) - Math.max(1, Math.round(area.ratio)),
		);
		const gap = Math.max(1, Math.round(area.ratio / 2));
		const labelLeast = 26 * area.ratio;
		const used = new Map<number, number>(); // first line of a row -> how many of it are in view
		const zoomDepth = t.depth[look.zoom];

		for (let i = 0; i < t.count; ) {
			const start = t.start[i];
			const end = start + t.size[i];
			if (end <= from || start >= to || end === start) {
				i = t.next[i];
				continue;
			}
			const depth = t.depth[i];
			const row = look.icicle ? depth - first : look.rows - 1 - (depth - first);
			const top = Math.round((row * ROW - area.top) * area.ratio);
			if (depth < first) {
				i++;
				continue;
			}
			// Callees lie beyond it: past this edge there is nothing more of the subtree.
			if (look.icicle ? top >= h : top + high <= 0) {
				i = t.next[i];
				continue;
			}
			const x0 = start <= from ? 0 : (start - from) * scale;
			const x1 = end >= to ? w : (end - from) * scale;
			const isSeen = top + high > 0 && top < h;
			if (x1 - x0 < 0.5) {
				if (isSeen) {
					const line = Math.max(top, 0);
					const at = line * w + Math.min(Math.floor(x0), w - 1);
					const isHit = hits?.[t.fn[i]];
					if (isHit || pixels[at] === theme.page)
						pixels[at] = isHit ? theme.hit : theme.narrow;
					if (!used.has(line)) used.set(line, top + high);
				}
				i = t.next[i];
				continue;
			}
			if (isSeen) {
				const line = Math.max(top, 0);
				const left = Math.round(x0);
				const right = Math.max(
					left + 1,
					Math.round(x1) - (x1 - x0 > 3 * gap ? gap : 0),
				);
				let colour = nodes ? nodes[i] : colours[t.fn[i]];
				if (nodes && hits)
					colour = hits[t.fn[i]]
						? theme.hit
						: pale(colour, theme.page);
				if (depth < zoomDepth) colour = pale(colour, theme.page, 0.45);
				pixels.fill(colour, line * w + left, line * w + Math.min(right, w));
				used.set(line, top + high);
				if (marks && marks[i] !== SAME && !hits?.[t.fn[i]])
					striped.push(i, left, right, line);
				if (x1 - x0 >= labelLeast) labels.push(i);
			}
			i++;
		}
		for (const [line, end] of used) {
			const first = line * w;
			for (let y = line + 1; y < Math.min(end, h); y++)
				pixels.copyWithin(y * w, first, first + w);
		}
		for (let s = 0; s < striped.length; s += 4) {
			const line = striped[s + 3];
			const span = {
				left: striped[s + 1],
				right: Math.min(striped[s + 2], w),
				line,
			};
			this.stripe(
				span,
				used.get(line)!,
				h,
				w,
				marks![striped[s]],
				theme,
				area.ratio,
			);
		}
		return labels;
	}

	/* New frames have stripes that rise, vanished ones stripes that fall. */
	private stripe(
		span: {left: number; right: number; line: number},
		end: number,
		h: number,
		w: number,
		mark: number,
		theme: Theme,
		ratio: number,
	): void {
		const period = Math.round(8 * ratio);
		const thick = Math.round(2 * ratio);
		const {pixels} = this;
		const colour = pale(
			pixels[span.line * w + span.left],
			theme.page,
			theme.dark ? 0.3 : 0.34,
		);
		for (let y = span.line; y < Math.min(end, h); y++) {
			const shift = mark === NEW ? y : period * 4096 - y;
			for (let x = span.left; x < span.right; x++)
				if ((x + shift) % period < thick) pixels[y * w + x] = colour;
		}
	}

	private write(
		context: CanvasRenderingContext2D,
		look: Look,
		area: Area,
		labels: number[],
	): void {
		const {tree: t, from, to, hits, theme} = look;
		const scale = area.width / (to - from || 1);
		context.setTransform(area.ratio, 0, 0, area.ratio, 0, 0);
		context.font = FONT;
		context.textBaseline = 'middle';
		this.character ||= context.measureText('0'.repeat(100)).width / 100 || 7;
		const inks = [theme.ink, theme.faint, theme.hitInk];
		// By colour: changing it costs more than writing.
		for (let ink = 0; ink < 3; ink++) {
			if (ink > 0 && !hits) break;
			context.fillStyle = inks[ink];
			for (const i of labels) {
				const of = !hits ? 0 : hits[t.fn[i]] ? 2 : 1;
				if (of !== ink) continue;
				const left = Math.max(0, (t.start[i] - from) * scale);
				const right = Math.min(
					area.width,
					(t.start[i] + t.size[i] - from) * scale,
				);
				const columns = Math.floor(
					(right - left - 2 * TEXT_PAD) / this.character,
				);
				const text = fit(
					i === 0 ? 'all' : t.functions.name[t.fn[i]],
					columns,
				);
				if (text === '') continue;
				const y = Painter.rowTop(look, area, t.depth[i]) + (ROW - 1) / 2;
				context.fillText(text, left + TEXT_PAD, y + 0.5);
			}
		}
		context.setTransform(1, 0, 0, 1, 0, 0);
	}
}

export function pale(colour: number, page: number, share = 0.62): number {
	const keep = 1 - share;
	const r = ((colour & 255) * keep + (page & 255) * share) | 0;
	const g = (((colour >>> 8) & 255) * keep + ((page >>> 8) & 255) * share) | 0;
	const b = (((colour >>> 16) & 255) * keep + ((page >>> 16) & 255) * share) | 0;
	return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}
