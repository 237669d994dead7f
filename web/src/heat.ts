/*
 * heat: how much there was in each cell of the heatmap. Where samples have times, a column is a second
 * and a cell 20 ms of it; types that are sums over windows have a minute and ten seconds instead.
 *
 * A clock of 99 Hz ticks twice in most slots of 20 ms, and once in one of each second: counts alone
 * would show a stripe there that is none.
 */
import type {Heat} from './api';
import type {Range} from './state';

export interface Grid {
	cell: number; // ms
	rows: number; // of a column
}

export const SLOTS: Grid = {cell: 20, rows: 50};
export const WINDOWS: Grid = {cell: 10_000, rows: 6};
export const gridOf = (h: Heat): Grid => (h.step === SLOTS.cell ? SLOTS : WINDOWS);
export const columnLength = (g: Grid): number => g.cell * g.rows;

/* When the first column begins: it may have cells before the first that was asked for. */
export function beginOf(h: Heat): number {
	const length = columnLength(gridOf(h));
	return Math.floor(h.start / length) * length;
}

export const cellsOf = (h: Heat): number[] => h.counts ?? h.values ?? [];

/* How many cells of the first column are before what was asked for. */
export const offsetOf = (h: Heat): number => Math.round((h.start - beginOf(h)) / gridOf(h).cell);

export const columnsOf = (h: Heat): number =>
	Math.ceil((offsetOf(h) + cellsOf(h).length) / gridOf(h).rows);

/* How many ticks of each CPU's clock a row can hold: they are counted from each second's beginning. */
export function ticksOfRows(period: number): number[] {
	const ticks = new Array<number>(SLOTS.rows).fill(0);
	for (let k = 0; k < Math.floor(1e9 / period); k++)
		ticks[Math.floor((k * period) / (SLOTS.cell * 1e6))]++;
	return ticks;
}

/* Is a level so many CPUs or threads, and not a plain count? */
export const isRate = (h: Heat): boolean =>
	h.counts ? (h.period ?? 0) > 0 : h.unit === 'nanoseconds';

/* Of each cell how many CPUs were busy or threads were there, or else how many samples there were. */
export function levels(h: Heat): Float64Array {
	const cells = cellsOf(h);
	const out = new Float64Array(cells.length);
	if (!h.counts) {
		const per = isRate(h) ? h.step * 1e6 : 1;
		return out.map((_, i) => cells[i] / per);
	}
	const ticks = isRate(h) ? ticksOfRows(h.period!) : null;
	const first = Math.floor((h.start % 1000) / SLOTS.cell);
	for (let i = 0; i < out.length; i++) {
		const could = ticks ? ticks[(first + i) % SLOTS.rows] : 1;
		// A clock that ticks less often than there are slots: a tick is also for those behind it.
		out[i] = could > 0 ? cells[i] / could : i > 0 ? out[i - 1] : 0;
	}
	return out;
}

/* Where the scale ends: few slots are above it, in which a late tick met the next one. */
export function topOf(all: Float64Array): number {
	const some = all.filter(n => n > 0).sort();
	if (some.length === 0) return 1;
	return some[Math.floor((some.length - 1) * 0.998)];
}

export interface Cell {
	column: number;
	row: number;
}

export interface Cells extends Cell {
	// a rectangle: its first column and row, and how many
	columns: number;
	rows: number;
}

/* From one cell of whole windows to another: all the time between them, as a range … */
export function timeBetween(h: Heat, a: Cell, b: Cell): Range {
	const {cell, rows} = gridOf(h);
	const order = [a, b].map(c => c.column * rows + c.row).sort((x, y) => x - y);
	const at = order.map(i => Math.max(0, Math.min(cellsOf(h).length - 1, i - offsetOf(h))));
	return {from: h.start + at[0] * cell, to: h.start + (at[1] + 1) * cell};
}

/* … which is part of its first column, all of those between, and part of the last. */
export function cellsIn(h: Heat, r: Range): Cells[] {
	const {cell, rows} = gridOf(h);
	const begin = beginOf(h);
	const first = Math.floor((r.from - begin) / cell);
	const last = Math.ceil((r.to - begin) / cell) - 1;
	if (first < offsetOf(h) || last >= offsetOf(h) + cellsOf(h).length) return [];
	const [left, right] = [Math.floor(first / rows), Math.floor(last / rows)];
	if (left === right)
		return [{column: left, columns: 1, row: first % rows, rows: last - first + 1}];
	const out: Cells[] = [];
	let whole = left;
	if (first % rows !== 0)
		out.push({
			column: whole++,
			columns: 1,
			row: first % rows,
			rows: rows - (first % rows),
		});
	const end = (last + 1) % rows === 0 ? right + 1 : right;
	if (end > whole) out.push({column: whole, columns: end - whole, row: 0, rows});
	if (end === right) out.push({column: right, columns: 1, row: 0, rows: (last % rows) + 1});
	return out;
}
