/*
 * graph: a flame graph in an element: what is drawn where, the frame under the pointer, the cursor of
 * the keyboard, zooming that can be followed with the eye. It knows nothing of the rest of the page.
 */
import type {Theme} from './colour';
import {type Look, Painter, ROW, rowsIn} from './paint';
import {nodeAt, type Tree} from './tree';

export interface GraphInput {
	tree: Tree;
	zoom: number;
	icicle: boolean;
	hideRoot: boolean;
	functions: Uint32Array;
	nodes: Uint32Array | null;
	marks: Uint8Array | null;
	hits: Uint8Array | null;
	theme: Theme;
}

export interface GraphEvents {
	hover(node: number, x: number, y: number): void; // -1: none
	zoom(node: number): void;
	menu(node: number, x: number, y: number): void;
}

const ZOOM_MS = 140;
const MEASURES_KEPT = 200;

function element(className: string, parent: HTMLElement): HTMLDivElement {
	const e = document.createElement('div');
	e.className = className;
	parent.append(e);
	return e;
}

export class Graph {
	private readonly inner: HTMLDivElement;
	private readonly canvas = document.createElement('canvas');
	private readonly hoverBox: HTMLDivElement;
	private readonly cursorBox: HTMLDivElement;
	private readonly painter = new Painter();
	private readonly context: CanvasRenderingContext2D;
	private readonly observer: ResizeObserver;
	private input: GraphInput | null = null;
	private from = 0;
	private to = 1;
	private rows = 1;
	private width = 0;
	private height = 0;
	private frame = 0; // of requestAnimationFrame
	private animation: {from: number; to: number; since: number} | null = null;
	private measures = 0;
	hovered = -1;
	cursor = -1;

	constructor(
		private readonly box: HTMLElement,
		private readonly on: GraphEvents,
	) {
		this.inner = element('graph-inner', box);
		this.canvas.className = 'graph-canvas';
		this.inner.append(this.canvas);
		this.hoverBox = element('graph-hover', this.inner);
		this.cursorBox = element('graph-cursor', this.inner);
		// Pixels are written by us: a picture in the memory of a graphics card would only be copied.
		this.context = this.canvas.getContext('2d', {
			alpha: false,
			willReadFrequently: true,
		})!;
		this.observer = new ResizeObserver(() => this.resize());
		this.observer.observe(box);
		box.addEventListener('scroll', () => this.schedule());
		box.addEventListener('pointermove', e => this.point(e));
		box.addEventListener('pointerleave', () => this.setHover(-1, 0, 0));
		box.addEventListener('click', e => {
			const node = this.nodeAtPoint(e);
			if (node >= 0) this.on.zoom(node);
		});
		box.addEventListener('contextmenu', e => {
			const node = this.nodeAtPoint(e);
			if (node < 0) return;
			e.preventDefault();
			this.on.menu(node, e.clientX, e.clientY);
		});
	}

	close(): void {
		this.observer.disconnect();
		cancelAnimationFrame(this.frame);
		this.box.replaceChildren();
	}

	set(input: GraphInput): void {
		const before = this.input;
		this.input = input;
		if (this.width === 0) this.measure();
		const t = input.tree;
		const from = t.start[input.zoom];
		const to = from + t.size[input.zoom] || from + 1;
		const moved = from !== this.from || to !== this.to;
		if (before?.tree !== t) {
			this.setCursor(-1);
			this.setHover(-1, 0, 0);
		}
		const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
		this.animation =
			before?.tree === t && moved && !calm && before.zoom !== input.zoom
				? {from: this.from, to: this.to, since: performance.now()}
				: null;
		if (!this.animation) {
			this.from = from;
			this.to = to;
		}
		const turned = before !== null && before.icicle !== input.icicle;
		this.setRows(from, to, before === null || turned);
		this.draw();
		if (this.animation) this.schedule();
	}

	private get look(): Look {
		const i = this.input!;
		return {
			...i,
			from: this.from,
			to: this.to,
			rows: this.rows,
			first: i.hideRoot ? 1 : 0,
		};
	}

	/* Where the picture's top is, from the top of the box; a flame stands on the box' floor. */
	private get offset(): number {
		return this.input?.icicle ? 0 : Math.max(0, this.height - this.rows * ROW);
	}

	/* The box may have another height by now than when it was measured. */
	private get isAtFloor(): boolean {
		const height = Math.max(this.height, this.box.clientHeight);
		return this.box.scrollTop + height >= this.rows * ROW - 1;
	}

	private setRows(from: number, to: number, isFirst: boolean): void {
		const i = this.input!;
		const least = (0.5 * (to - from)) / Math.max(1, this.width);
		const rows = Math.max(1, rowsIn(i.tree, from, to, least) - (i.hideRoot ? 1 : 0));
		const grown = (rows - this.rows) * ROW;
		const top = this.box.scrollTop;
		const atFloor = this.isAtFloor;
		this.rows = rows;
		this.inner.style.height = `${Math.max(rows * ROW, this.height)}px`;
		// What was looked at stays where it was: a flame's rows count from the floor.
		if (i.icicle) {
			if (isFirst) this.box.scrollTop = 0;
		} else if (isFirst || atFloor) this.box.scrollTop = rows * ROW;
		else this.box.scrollTop = top + grown;
	}

	private measure(): void {
		this.width = this.box.clientWidth;
		this.height = this.box.clientHeight;
		const ratio = this.ratio;
		this.canvas.width = Math.max(1, Math.round(this.width * ratio));
		this.canvas.height = Math.max(1, Math.round(this.height * ratio));
		this.canvas.style.width = `${this.width}px`;
		this.canvas.style.height = `${this.height}px`;
	}

	private get ratio(): number {
		return Math.min(2, window.devicePixelRatio || 1);
	}

	private resize(): void {
		if (this.box.clientWidth === this.width && this.box.clientHeight === this.height)
			return;
		// A flame that stood on the floor stands on it still.
		const atFloor = !this.input?.icicle && this.isAtFloor;
		this.measure();
		if (!this.input || this.width === 0) return;
		this.setRows(this.from, this.to, atFloor);
		this.draw();
	}

	private schedule(): void {
		if (this.frame) return;
		this.frame = requestAnimationFrame(() => {
			this.frame = 0;
			this.step();
			this.draw();
		});
	}

	private step(): void {
		if (!this.animation || !this.input) return;
		const {tree: t, zoom} = this.input;
		const from = t.start[zoom];
		const to = from + t.size[zoom] || from + 1;
		const done = Math.min(1, (performance.now() - this.animation.since) / ZOOM_MS);
		const ease = 1 - (1 - done) ** 3;
		this.from = this.animation.from + (from - this.animation.from) * ease;
		this.to = this.animation.to + (to - this.animation.to) * ease;
		if (done === 1) {
			this.animation = null;
			this.from = from;
			this.to = to;
		} else this.schedule();
	}

	private draw(): void {
		if (!this.input || this.width === 0 || this.height === 0) return;
		const began = performance.now();
		const top = this.box.scrollTop - this.offset;
		const area = {width: this.width, height: this.height, top, ratio: this.ratio};
		this.painter.draw(this.context, this.look, area);
		this.place(this.hoverBox, this.hovered);
		this.place(this.cursorBox, this.cursor);
		// What a drawing took can be read by whoever measures the page.
		performance.measure('flame graph', {start: began, detail: this.input.tree.count});
		if (++this.measures % MEASURES_KEPT === 0) performance.clearMeasures('flame graph');
	}

	/* Where a frame is in the box' content, in CSS pixels. */
	rectangle(node: number): {left: number; top: number; width: number} | null {
		const i = this.input;
		if (!i || node < 0 || node >= i.tree.count) return null;
		const scale = this.width / (this.to - this.from || 1);
		const start = i.tree.start[node];
		const left = Math.max(0, (start - this.from) * scale);
		const right = Math.min(this.width, (start + i.tree.size[node] - this.from) * scale);
		if (right <= left || i.tree.depth[node] < (i.hideRoot ? 1 : 0)) return null;
		const area = {width: 0, height: 0, top: -this.offset, ratio: 1};
		return {
			left,
			top: Painter.rowTop(this.look, area, i.tree.depth[node]),
			width: right - left,
		};
	}

	private place(box: HTMLElement, node: number): void {
		const r = this.rectangle(node);
		box.hidden = r === null;
		if (!r) return;
		box.style.transform = `translate(${r.left}px, ${r.top}px)`;
		box.style.width = `${Math.max(1, r.width)}px`;
	}

	nodeAtPoint(e: {clientX: number; clientY: number}): number {
		const i = this.input;
		if (!i) return -1;
		const edge = this.box.getBoundingClientRect();
		const y = e.clientY - edge.top + this.box.scrollTop - this.offset;
		const row = Math.floor(y / ROW);
		if (y < 0 || row >= this.rows) return -1;
		const depth = (i.icicle ? row : this.rows - 1 - row) + (i.hideRoot ? 1 : 0);
		const at =
			this.from + ((e.clientX - edge.left) / this.width) * (this.to - this.from);
		return nodeAt(i.tree, depth, at);
	}

	private point(e: PointerEvent): void {
		this.setHover(this.nodeAtPoint(e), e.clientX, e.clientY);
	}

	private setHover(node: number, x: number, y: number): void {
		if (node !== this.hovered) {
			this.hovered = node;
			this.place(this.hoverBox, node);
			this.box.classList.toggle('over-frame', node >= 0);
		}
		this.on.hover(node, x, y);
	}

	setCursor(node: number): void {
		this.cursor = node;
		this.place(this.cursorBox, node);
	}

	/* Moves the keyboard's cursor and scrolls to it; returns the node. */
	moveCursor(key: string): number {
		const i = this.input;
		if (!i) return -1;
		const t = i.tree;
		const top = i.hideRoot ? 1 : 0;
		let node = this.cursor;
		if (node < 0 || node >= t.count)
			node = Math.max(i.zoom, Math.min(top, t.count - 1));
		else if (key === 'Home') node = Math.min(top, t.count - 1);
		else if (key === (i.icicle ? 'ArrowDown' : 'ArrowUp'))
			node = this.largestChild(t, node);
		else if (key === (i.icicle ? 'ArrowUp' : 'ArrowDown')) {
			if (t.depth[node] > top) node = t.parent[node];
		} else node = this.neighbour(t, node, key === 'ArrowLeft' ? -1 : 1);
		this.setCursor(node);
		this.reveal(node);
		return node;
	}

	/* Scrolls so that a frame can be seen, as little as is needed. */
	reveal(node: number): void {
		const r = this.rectangle(node);
		if (!r) return;
		const {scrollTop} = this.box;
		if (r.top < scrollTop) this.box.scrollTop = r.top;
		else if (r.top + ROW > scrollTop + this.height)
			this.box.scrollTop = r.top + ROW - this.height;
	}

	private largestChild(t: Tree, node: number): number {
		let best = node;
		for (let i = node + 1; i < t.next[node]; i = t.next[i])
			if (best === node || t.size[i] > t.size[best]) best = i;
		return best;
	}

	private neighbour(t: Tree, node: number, direction: number): number {
		const row = t.rows[t.depth[node]];
		const least = (0.5 * (this.to - this.from)) / Math.max(1, this.width);
		for (
			let at = row.indexOf(node) + direction;
			at >= 0 && at < row.length;
			at += direction
		) {
			const i = row[at];
			if (t.start[i] >= this.to || t.start[i] + t.size[i] <= this.from) break;
			if (t.size[i] >= least) return i;
		}
		return node;
	}
}
