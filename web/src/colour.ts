/*
 * colour: what each function is painted with. The same function has the same colour in every view:
 * it follows from its name, its library or its kind alone. The kinds' colours are those of the SVG
 * (src/render/palette.c). A comparison is blue where there is less, orange where there is more: a
 * pair that every kind of colour vision tells apart.
 *
 * A colour is a number as a canvas' pixels have it: 0xAABBGGRR.
 */
import {hash, isIdle, KERNEL, MARK, type Names, type Tree} from './tree';

export type ColourBy = 'library' | 'kind' | 'name';

export interface Theme {
	dark: boolean;
	page: number;
	ink: string; // of labels
	faint: string; // of labels that a search leaves out
	hit: number;
	hitInk: string;
	narrow: number; // frames too narrow to see
}

const SHADES = 8;
const rgb = (r: number, g: number, b: number): number =>
	(0xff000000 | (b << 16) | (g << 8) | r) >>> 0;

export function hex(text: string): number {
	const n = Number.parseInt(text.slice(1), 16);
	return rgb(n >> 16, (n >> 8) & 255, n & 255);
}

export const css = (colour: number): string =>
	`#${[0, 8, 16].map(s => ((colour >>> s) & 255).toString(16).padStart(2, '0')).join('')}`;

export const LIGHT: Theme = {
	dark: false,
	page: hex('#fffdfa'),
	ink: '#221d18',
	faint: '#8d857b',
	hit: hex('#a21caf'),
	hitInk: '#ffffff',
	narrow: hex('#e6e0d8'),
};

export const DARK: Theme = {
	dark: true,
	page: hex('#191714'),
	ink: '#f3efe9',
	faint: '#8a8177',
	hit: hex('#c026d3'),
	hitInk: '#ffffff',
	narrow: hex('#39342e'),
};

function hsl(h: number, s: number, l: number): number {
	const a = (s / 100) * Math.min(l / 100, 1 - l / 100);
	const f = (n: number): number => {
		const k = (n + (((h % 360) + 360) % 360) / 30) % 12;
		return Math.round(255 * (l / 100 - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
	};
	return rgb(f(0), f(8), f(4));
}

export function mix(a: number, b: number, share: number): number {
	const part = (s: number): number =>
		Math.round(((a >>> s) & 255) * (1 - share) + ((b >>> s) & 255) * share);
	return rgb(part(0), part(8), part(16));
}

interface Band {
	name: string;
	hue: number;
	spread: number;
	saturation: number;
	light: number;
	dark: number;
}

const band = (
	name: string,
	hue: number,
	spread: number,
	saturation: number,
	light: number,
	dark: number,
): Band => ({name, hue, spread, saturation, light, dark});

const LIBRARY = 8;
const IDLE = 9;
const BANDS: Band[] = [
	band('program', 47, 6, 86, 72, 36),
	band('kernel', 18, 6, 86, 72, 40),
	band('inlined', 268, 9, 52, 83, 46),
	band('interpreted', 84, 8, 46, 73, 32),
	band('JIT', 133, 10, 40, 75, 33),
	band('Go', 182, 7, 46, 73, 33),
	band('BPF', 345, 6, 68, 80, 44),
	band('process or mark', 220, 4, 9, 86, 30),
	band('library', 211, 9, 62, 79, 41),
	band('idle', 0, 0, 0, 76, 42),
];

/* Hues of libraries, apart from each other and from the kernel's and a search's. */
const HUES = [47, 211, 152, 84, 262, 186, 36, 232, 120, 62, 170, 248];

function shaded(b: Band, shade: number, dark: boolean): number {
	// Dark yellow would be olive: on a dark page it turns towards orange.
	const turned = dark && b.hue > 40 && b.hue < 60 ? b.hue - 7 : b.hue;
	const hue = turned + (b.spread * (2 * shade - (SHADES - 1))) / (SHADES - 1);
	const lightness = (dark ? b.dark : b.light) + ((shade * 3) % 8) - 4;
	return hsl(hue, b.saturation * (dark ? 0.8 : 1), lightness);
}

const IS_LIBRARY = /\.so(\.|-|$)|^\[vdso\]$/;

/* libc.so.6 and libc-2.36.so are the same library, on two machines. */
export function libraryStem(module: string): string {
	return module.replace(/[-.]?\d[\d.]*(?=\.so|$)/, '').replace(/\.so.*$/, '');
}

export function kindName(t: Names, fn: number): string {
	if (isIdle(t, fn)) return BANDS[IDLE].name;
	const kind = t.functions.kind[fn];
	const isLibrary = kind === 0 && IS_LIBRARY.test(t.modules[t.functions.module[fn]]);
	return BANDS[isLibrary ? LIBRARY : kind]?.name ?? '';
}

function bandOf(t: Names, fn: number, by: ColourBy): Band {
	if (isIdle(t, fn)) return BANDS[IDLE];
	const kind = t.functions.kind[fn];
	const module = t.modules[t.functions.module[fn]];
	if (by === 'name' && kind !== MARK) return band('', 28, 28, 82, 74, 38);
	if (by === 'library' && kind !== KERNEL && kind !== MARK && module !== '') {
		const hue = HUES[hash(libraryStem(module)) % HUES.length];
		return band(module, hue, 5, 54, 78, 36);
	}
	if (kind === 0 && IS_LIBRARY.test(module)) return BANDS[LIBRARY];
	return BANDS[kind] ?? BANDS[MARK];
}

export function functionColours(t: Names, by: ColourBy, theme: Theme): Uint32Array {
	const {name} = t.functions;
	const out = new Uint32Array(name.length);
	for (let f = 0; f < name.length; f++)
		out[f] =
			f === t.merged
				? theme.narrow
				: shaded(bandOf(t, f, by), hash(name[f]) % SHADES, theme.dark);
	if (out.length > 0) out[0] = shaded(BANDS[MARK], 3, theme.dark);
	return out;
}

/* What the graph's legend says: [name, colour], of what is in the tree, the most frequent first. */
export function legend(t: Tree, by: ColourBy, theme: Theme, most: number): [string, number][] {
	const sums = new Map<string, {sum: number; colour: number}>();
	for (let i = 1; i < t.count; i++) {
		const f = t.fn[i];
		if (f === t.merged) continue;
		const b = bandOf(t, f, by);
		const of = sums.get(b.name);
		if (of) of.sum += t.self[i];
		else sums.set(b.name, {sum: t.self[i], colour: shaded(b, 3, theme.dark)});
	}
	return [...sums]
		.filter(([name]) => name !== '')
		.sort((a, b) => b[1].sum - a[1].sum)
		.slice(0, most)
		.map(([name, {colour}]) => [name, colour]);
}

// ---- comparisons ----------------------------------------------------------------------------------

export const SAME = 0;
export const NEW = 1;
export const VANISHED = 2;

const LESS = {light: hex('#1f6fb4'), dark: hex('#3d8fd6')};
const MORE = {light: hex('#d95f0e'), dark: hex('#e0731f')};
const EVEN = {light: hex('#e9e5df'), dark: hex('#3a352f')};

/* How much a frame changed, -1 to 1: the share of both sides by which they differ. */
export function change(t: Tree, i: number, weight: number): number {
	const base = (t.baseTotal?.[i] ?? 0) * weight;
	const sum = t.total[i] + base;
	return sum === 0 ? 0 : (t.total[i] - base) / sum;
}

/* From half to twice as much is where the scale tells most; what is new has its end. */
export function changeColour(share: number, theme: Theme): number {
	const key = theme.dark ? 'dark' : 'light';
	const strength = Math.min(1, Math.abs(share) * 1.6) ** 0.8;
	return mix(EVEN[key], (share < 0 ? LESS : MORE)[key], strength * 0.72);
}

export function diffColours(t: Tree, weight: number, theme: Theme): Uint32Array {
	const out = new Uint32Array(t.count);
	for (let i = 0; i < t.count; i++)
		out[i] =
			t.fn[i] === t.merged
				? theme.narrow
				: changeColour(change(t, i, weight), theme);
	return out;
}

export function presence(t: Tree): Uint8Array {
	const out = new Uint8Array(t.count);
	if (!t.baseTotal) return out;
	for (let i = 1; i < t.count; i++)
		out[i] = t.baseTotal[i] === 0 ? NEW : t.total[i] === 0 ? VANISHED : SAME;
	return out;
}

// ---- the timeline ---------------------------------------------------------------------------------

const LINE_HUES = 24;
/* [saturation, lightness] of lines: three tones a hue, so that names rarely look alike. */
const TONES = {
	light: [
		[62, 64],
		[44, 76],
		[40, 52],
	],
	dark: [
		[46, 48],
		[34, 62],
		[40, 36],
	],
};

export const restColour = (theme: Theme): string => (theme.dark ? '#544e46' : '#cfc8be');
const noneColour = (theme: Theme): string => (theme.dark ? '#7a7268' : '#a49b8f');

/*
 * Parts of wall-clock time: what runs is warm (in the kernel as the kernel's frames are), what waits for
 * a CPU red, what is blocked blue.
 */
const PARTS: [RegExp, number, number, number][] = [
	[/^running: user$/, 45, 84, 0],
	[/^running: kernel$/, 24, 84, 0],
	[/^running: /, 52, 40, 0],
	[/^waiting for a CPU$/, 356, 66, 0],
	[/^blocked: disk$/, 262, 46, 0],
	[/^blocked: lock$/, 330, 52, 0],
	[/^blocked: network$/, 205, 58, 0],
	[/^blocked: /, 222, 40, 1],
];

/* A value's colour follows from its name alone: it is the same in every range, view and link. */
export function lineColour(value: string, theme: Theme): string {
	if (value === '' || value === 'idle') return noneColour(theme);
	const part = PARTS.find(([name]) => name.test(value));
	if (part) {
		const [, hue, saturation, spreads] = part;
		const lightness =
			(theme.dark ? 46 : 66) + (spreads ? (hash(value) % 5) * 3 - 6 : 0);
		return css(hsl(hue, saturation, lightness));
	}
	const h = hash(value);
	const [saturation, lightness] = TONES[theme.dark ? 'dark' : 'light'][(h >>> 12) % 3];
	return css(hsl(((h % LINE_HUES) * 360) / LINE_HUES, saturation, lightness));
}
