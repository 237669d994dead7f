/*
 * heat: how busy each 20 ms were. A clock of 99 Hz ticks twice in most of them, and once in one of each
 * second: counts alone would show a stripe there that is none.
 */
import type {Heat} from './api';

export const SLOT = 20; // ms
export const ROWS = 1000 / SLOT; // of a column, which is a second

/* How many ticks of each CPU's clock a row can hold: they are counted from each second's beginning. */
export function ticksOfRows(period: number): number[] {
	const ticks = new Array<number>(ROWS).fill(0);
	for (let k = 0; k < Math.floor(1e9 / period); k++)
		ticks[Math.floor((k * period) / (SLOT * 1e6))]++;
	return ticks;
}

/* Of each slot how many CPUs were busy, or without a clock how many samples there were. */
export function levels(h: Heat): Float64Array {
	const ticks = h.period > 0 ? ticksOfRows(h.period) : null;
	const out = new Float64Array(h.counts.length);
	const first = Math.floor((h.start % 1000) / SLOT);
	for (let i = 0; i < out.length; i++) {
		const could = ticks ? ticks[(first + i) % ROWS] : 1;
		// A clock that ticks less often than there are slots: a tick is also for those behind it.
		out[i] = could > 0 ? h.counts[i] / could : i > 0 ? out[i - 1] : 0;
	}
	return out;
}

/* Where the scale ends: few slots are above it, in which a late tick met the next one. */
export function topOf(all: Float64Array): number {
	const some = all.filter(n => n > 0).sort();
	if (some.length === 0) return 1;
	return some[Math.floor((some.length - 1) * 0.998)];
}
