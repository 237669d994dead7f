/*
 * format: numbers, times and names as words. One place, so that the same number reads the same in the
 * timeline, the graph, the table and an export.
 */

const SCALES: Record<string, [number, string][]> = {
	nanoseconds: [
		[86400e9, 'd'],
		[3600e9, 'h'],
		[60e9, 'min'],
		[1e9, 's'],
		[1e6, 'ms'],
		[1e3, 'µs'],
		[1, 'ns'],
	],
	bytes: [
		[2 ** 40, 'TiB'],
		[2 ** 30, 'GiB'],
		[2 ** 20, 'MiB'],
		[2 ** 10, 'KiB'],
		[1, 'B'],
	],
};

const grouped = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});

export const count = (n: number): string => grouped.format(n);

function digits(n: number): string {
	if (n >= 1000) return grouped.format(n);
	return n.toFixed(n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2);
}

/* 12300000 of nanoseconds: "12.3 ms". Units that are not known are counted: "1,234 samples". */
export function amount(n: number, unit: string): string {
	const size = Math.abs(n);
	const scales = SCALES[unit];
	if (!scales) {
		const word = size === 1 ? unit.replace(/s$/, '') : unit;
		return `${grouped.format(n)} ${word}`;
	}
	if (size === 0) return `0 ${scales === SCALES.nanoseconds ? 's' : 'B'}`;
	// The step to the next scale is where three digits would round up to it.
	const [least, suffix] =
		scales.find(([s]) => size >= s * 0.9995) ?? scales[scales.length - 1];
	return `${n < 0 ? '−' : ''}${least === 1 ? size : digits(size / least)} ${suffix}`;
}

/* Where the unit is plain from what stands above: a count goes without its word. */
export function bare(n: number, unit: string): string {
	return SCALES[unit] ? amount(n, unit) : grouped.format(n);
}

const compact = new Intl.NumberFormat('en-US', {notation: 'compact', maximumSignificantDigits: 3});

/* For an axis, where there is room for a few letters: "250K". */
export const short = (n: number): string => compact.format(n);

export const bytes = (n: number): string => amount(n, 'bytes');

export function signed(n: number, unit: string): string {
	return n > 0 ? `+${amount(n, unit)}` : amount(n, unit);
}

export function percent(n: number, of: number): string {
	return `${(of ? (100 * n) / of : 0).toFixed(2)} %`;
}

export function signedPercent(n: number): string {
	return `${n > 0 ? '+' : n < 0 ? '−' : ''}${Math.abs(n).toFixed(2)} %`;
}

/* A small share in as many digits as say something: 0.0123 %, 1.23 %, 12.3 %. */
export function smallPercent(n: number): string {
	if (n === 0) return '0 %';
	const places = n >= 10 ? 1 : n >= 1 ? 2 : n >= 0.1 ? 3 : 4;
	return `${n.toFixed(places)} %`;
}

/* How long a range is: "1 h", "2 h 30 min", "40 s", "140 ms". */
export function span(ms: number): string {
	const parts: [number, string][] = [
		[86400_000, 'd'],
		[3600_000, 'h'],
		[60_000, 'min'],
		[1000, 's'],
	];
	const out: string[] = [];
	let rest = Math.round(ms);
	for (const [size, name] of parts) {
		const n = Math.floor(rest / size);
		if (n > 0) {
			out.push(`${n} ${name}`);
			rest -= n * size;
		}
		if (out.length === 2) break;
	}
	if (out.length < 2 && rest > 0) out.push(`${rest} ms`);
	return out.join(' ') || '0 s';
}

const two = (n: number, width = 2): string => String(n).padStart(width, '0');

export function clock(ms: number, fraction = false): string {
	const t = new Date(ms);
	const s = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
	return fraction ? `${s}.${two(t.getMilliseconds(), 3)}` : s;
}

export function date(ms: number): string {
	const t = new Date(ms);
	return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
}

/* A range with no more of the date than tells it apart from today. */
export function range(from: number, to: number, now = Date.now()): string {
	const fine = from % 1000 !== 0 || to % 1000 !== 0;
	const days = date(from) !== date(now) || date(to) !== date(now);
	const begin = days ? `${date(from)} ${clock(from, fine)}` : clock(from, fine);
	const end = date(from) !== date(to) ? `${date(to)} ${clock(to, fine)}` : clock(to, fine);
	return `${begin} – ${end}`;
}

/* Names can be any length: what a line of text or a title can bear. */
export function clip(name: string, most = 300): string {
	return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/* What a file from elsewhere calls a function: no controls, no marks that turn text around. */
export function clean(name: string): string {
	const short = name.length > 4096 ? `${name.slice(0, 4095)}…` : name;
	return short.replace(UNSEEN, '\ufffd');
}
