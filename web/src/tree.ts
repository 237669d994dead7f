/*
 * tree: the flame tree, in columns.
 *
 * Nodes stand in depth-first order, node 0 is the root; children are in the order of their functions,
 * which are sorted by name, so that the same code stands at the same place in two graphs. `next` is
 * just past a node's subtree, so that one loop visits a tree and can leave out what it does not want.
 *
 * A frame lies at [start, start + size). Its size is its total; of a comparison it is both totals
 * added, so that what is new and what has vanished can both be seen.
 */

export interface Functions {
	name: string[];
	module: ArrayLike<number>; // into modules
	kind: ArrayLike<number>; // into kinds
	source?: ArrayLike<number>; // into sources; 0: not known
	line?: ArrayLike<number>; // 0: not known
}

/* What the trees of one answer share. */
export interface Names {
	functions: Functions;
	modules: string[];
	kinds: string[];
	sources: string[];
	merged: number; // the function that stands for frames left out, -1: none were
}

export interface Tree extends Names {
	count: number;
	fn: Int32Array;
	depth: Int32Array;
	parent: Int32Array;
	next: Int32Array;
	total: Float64Array;
	self: Float64Array;
	baseTotal: Float64Array | null; // of a comparison
	baseSelf: Float64Array | null;
	start: Float64Array;
	size: Float64Array; // as it is drawn: see sizeOf()
	idle: number; // the node that is drawn narrower than it is, 0: none
	hidden: number; // by how much
	rows: Int32Array[]; // nodes by depth, from left to right
	sums: Sums | null; // null: those of the nodes are all that is known
}

export interface FunctionSum {
	fn: number;
	self: number;
	total: number;
	baseSelf: number;
	baseTotal: number;
}

/* What each function took of the whole tree, frames that were left out of this one included. */
export interface Sums {
	rows: FunctionSum[];
	unlisted: number; // functions that have no row of their own: they are the merged function's
}

export const KINDS = ['user', 'kernel', 'inlined', 'interpreted', 'jit', 'go', 'bpf', 'mark'];
export const KERNEL = 1;
export const MARK = 7;

const MERGED = new Set(['(other)', '[merged]']);

export function mergedFunction(functions: Functions): number {
	return functions.name.findIndex((n, i) => MERGED.has(n) && functions.kind[i] === MARK);
}

/* What stands on this mark waits for work (docs/waiting.md). Folded files do not tell it is a mark. */
export const isIdle = (t: Names, fn: number): boolean => t.functions.name[fn] === '[idle]';

function rowsOf(depth: Int32Array): Int32Array[] {
	const counts: number[] = [];
	for (let i = 0; i < depth.length; i++) counts[depth[i]] = (counts[depth[i]] ?? 0) + 1;
	const rows = counts.map(n => new Int32Array(n));
	const filled = new Int32Array(rows.length);
	for (let i = 0; i < depth.length; i++) rows[depth[i]][filled[depth[i]]++] = i;
	return rows;
}

/* What follows from functions, depths and numbers. `weight` scales a comparison's base. */
export function layOut(
	names: Names,
	fn: Int32Array,
	depth: Int32Array,
	total: Float64Array,
	self: Float64Array,
	base: {total: Float64Array; self: Float64Array; weight: number} | null,
): Tree {
	const n = fn.length;
	const parent = new Int32Array(n);
	const next = new Int32Array(n).fill(n);
	const start = new Float64Array(n);
	const size = new Float64Array(n);
	const open: number[] = [];
	const cursor: number[] = [0]; // by depth: where the next node of that row starts
	for (let i = 0; i < n; i++) {
		const d = depth[i];
		while (open.length > d) next[open.pop()!] = i;
		if (open.length !== d) throw new Error(`node ${i} has no parent`);
		size[i] = base ? total[i] + base.total[i] * base.weight : total[i];
		start[i] = cursor[d];
		cursor[d] += size[i];
		cursor[d + 1] = start[i];
		parent[i] = d > 0 ? open[d - 1] : 0;
		open.push(i);
	}
	return {
		functions: names.functions,
		modules: names.modules,
		kinds: names.kinds,
		sources: names.sources,
		merged: names.merged,
		count: n,
		fn,
		depth,
		parent,
		next,
		total,
		self,
		baseTotal: base?.total ?? null,
		baseSelf: base?.self ?? null,
		start,
		size,
		idle: 0,
		hidden: 0,
		rows: rowsOf(depth),
		sums: null,
	};
}

/* How large a node is, however it is drawn. */
export const sizeOf = (t: Tree, node: number): number =>
	t.size[node] + (t.idle > 0 && (node === 0 || node === t.idle) ? t.hidden : 0);

/* Puts a tree together from paths in any order; the same function under one parent is one node. */
export class Builder {
	private readonly parents: number[] = [-1];
	private readonly fns: number[] = [0];
	private readonly selves: number[] = [0];
	private readonly bases: number[] = [0];
	private readonly index = new Map<number, number>();
	private readonly width: number;

	constructor(
		readonly names: Names,
		readonly compares: boolean,
	) {
		this.width = names.functions.name.length;
	}

	/* For names that are still being read, whose number is not known yet. */
	static readonly FUNCTIONS_MAX = 2 ** 22;

	child(parent: number, fn: number): number {
		const key = parent * (this.width || Builder.FUNCTIONS_MAX) + fn;
		let node = this.index.get(key);
		if (node === undefined) {
			node = this.parents.length;
			this.index.set(key, node);
			this.parents.push(parent);
			this.fns.push(fn);
			this.selves.push(0);
			this.bases.push(0);
		}
		return node;
	}

	add(node: number, self: number, base: number): void {
		this.selves[node] += self;
		this.bases[node] += base;
	}

	/* The node, or the nearest of its callers, that is of a function. */
	above(node: number, fn: number): number | null {
		for (let i = node; i > 0; i = this.parents[i]) if (this.fns[i] === fn) return i;
		return null;
	}

	get size(): number {
		return this.parents.length;
	}

	/* `renumber` says what each function is called in `names`, if that is not what it was here. */
	finish(names: Names = this.names, renumber: Int32Array | null = null, weight = 1): Tree {
		const n = this.parents.length;
		const {parents} = this;
		const totals = Float64Array.from(this.selves);
		const baseTotals = Float64Array.from(this.bases);
		const first = new Int32Array(n + 1);
		for (let i = n - 1; i > 0; i--) {
			totals[parents[i]] += totals[i];
			baseTotals[parents[i]] += baseTotals[i];
			first[parents[i] + 1]++;
		}
		for (let i = 0; i < n; i++) first[i + 1] += first[i];
		// Children of each node in one array, in the order of their functions.
		const fns = Int32Array.from(this.fns, f => renumber?.[f] ?? f);
		const last = names.functions.name.length;
		const rank = fns.map(f => (f === names.merged ? last : f));
		const children = new Int32Array(n);
		const filled = first.slice();
		for (let i = 1; i < n; i++) children[filled[parents[i]]++] = i;
		for (let i = 0; i < n; i++)
			if (first[i + 1] - first[i] > 1)
				children.subarray(first[i], first[i + 1]).sort(
					(a, b) => rank[a] - rank[b],
				);

		const fn = new Int32Array(n);
		const depth = new Int32Array(n);
		const total = new Float64Array(n);
		const self = new Float64Array(n);
		const baseTotal = new Float64Array(n);
		const baseSelf = new Float64Array(n);
		const stack: number[] = [0];
		const depths: number[] = [0];
		let at = 0;
		while (stack.length > 0) {
			const i = stack.pop()!;
			const d = depths.pop()!;
			fn[at] = fns[i];
			depth[at] = d;
			total[at] = totals[i];
			self[at] = this.selves[i];
			baseTotal[at] = baseTotals[i];
			baseSelf[at] = this.bases[i];
			at++;
			for (let c = first[i + 1] - 1; c >= first[i]; c--) {
				stack.push(children[c]);
				depths.push(d + 1);
			}
		}
		const base = this.compares ? {total: baseTotal, self: baseSelf, weight} : null;
		return layOut(names, fn, depth, total, self, base);
	}
}

// ---- what the user does to a tree -----------------------------------------------------------------

/* A function by name, as it stands in a URL: the same in every answer. */
export interface FunctionKey {
	name: string;
	module: string;
}

export type Change =
	| {op: 'focus'; of: FunctionKey} // only what it calls, and it
	| {op: 'remove'; of: FunctionKey} // without what it calls, and it
	| {op: 'hide'; module: string} // a library's frames become part of their callers
	| {op: 'recursion'}; // a function inside of itself is the outer one

export const keyOf = (t: Names, fn: number): FunctionKey => ({
	name: t.functions.name[fn],
	module: t.modules[t.functions.module[fn]],
});

function functionsLike(t: Names, key: FunctionKey): Uint8Array {
	const {name, module} = t.functions;
	const like = new Uint8Array(name.length);
	for (let f = 1; f < name.length; f++)
		if (name[f] === key.name && t.modules[module[f]] === key.module) like[f] = 1;
	return like;
}

const addSelf = (b: Builder, node: number, t: Tree, i: number): void =>
	b.add(node, t.self[i], t.baseSelf?.[i] ?? 0);

/* The weight that a comparison's base was laid out with. */
export function baseWeight(t: Tree): number {
	if (!t.baseTotal || t.baseTotal[0] === 0) return 1;
	return (sizeOf(t, 0) - t.total[0]) / t.baseTotal[0];
}

const OUTSIDE = -1;

/* Each node goes where `place` says: a node of the new tree, or nowhere with all that it calls. */
function rebuild(t: Tree, place: (b: Builder, i: number, under: number) => number): Tree {
	const b = new Builder(t, t.baseTotal !== null);
	const to = new Int32Array(t.count);
	addSelf(b, 0, t, 0);
	for (let i = 1; i < t.count; ) {
		const node = place(b, i, to[t.parent[i]]);
		to[i] = node;
		if (node === OUTSIDE) {
			i = t.next[i];
			continue;
		}
		addSelf(b, node, t, i);
		i++;
	}
	return b.finish(t, null, baseWeight(t));
}

/* The subtrees of a function, merged; one inside of another is part of the outer one. */
export function focus(t: Tree, key: FunctionKey): Tree {
	const like = functionsLike(t, key);
	const b = new Builder(t, t.baseTotal !== null);
	const to = new Int32Array(t.count);
	for (let i = 1; i < t.count; ) {
		if (!like[t.fn[i]]) {
			i++;
			continue;
		}
		const end = t.next[i];
		to[i] = b.child(0, t.fn[i]);
		addSelf(b, to[i], t, i);
		for (let j = i + 1; j < end; j++) {
			to[j] = b.child(to[t.parent[j]], t.fn[j]);
			addSelf(b, to[j], t, j);
		}
		i = end;
	}
	return b.finish(t, null, baseWeight(t));
}

/* Who calls a function: it is the root's only child, its callers above it, theirs above them. */
export function callers(t: Tree, key: FunctionKey): Tree {
	const like = functionsLike(t, key);
	const b = new Builder(t, t.baseTotal !== null);
	for (let i = 1; i < t.count; ) {
		if (!like[t.fn[i]]) {
			i++;
			continue;
		}
		let node = b.child(0, t.fn[i]);
		for (let p = t.parent[i]; p > 0; p = t.parent[p]) node = b.child(node, t.fn[p]);
		b.add(node, t.total[i], t.baseTotal?.[i] ?? 0);
		i = t.next[i];
	}
	return b.finish(t, null, baseWeight(t));
}

export function remove(t: Tree, key: FunctionKey): Tree {
	const like = functionsLike(t, key);
	return rebuild(t, (b, i, under) => (like[t.fn[i]] ? OUTSIDE : b.child(under, t.fn[i])));
}

/* Idle time as one frame, without what stands on it. */
export function foldIdle(t: Tree): Tree {
	if (!t.functions.name.some((_, f) => isIdle(t, f))) return t;
	const inside = new Uint8Array(t.count);
	return rebuild(t, (b, i, under) => {
		const parent = t.parent[i];
		inside[i] = parent > 0 && (inside[parent] || isIdle(t, t.fn[parent])) ? 1 : 0;
		return inside[i] ? under : b.child(under, t.fn[i]);
	});
}

const IDLE_SHARE = 8; // as src/render/flame.c has it

/* Idle time of all as no more than an eighth of the picture: it leaves room for the rest. */
export function narrowIdle(t: Tree): Tree {
	let idle = 1;
	while (idle < t.count && !(isIdle(t, t.fn[idle]) && t.next[idle] === idle + 1))
		idle = t.next[idle];
	if (idle >= t.count) return t;
	const rest = t.size[0] - t.size[idle];
	const hidden = t.size[idle] - rest / (IDLE_SHARE - 1);
	if (rest <= 0 || hidden <= 0) return t;
	const size = t.size.slice();
	const start = t.start.slice();
	size[0] -= hidden;
	size[idle] -= hidden;
	for (let i = t.next[idle]; i < t.count; i++) start[i] -= hidden;
	return {...t, size, start, idle, hidden};
}

/* Whether a place is an idle frame or on one: then it was asked for. */
export function isIdlePlace(t: Tree, place: string): boolean {
	return path(t, nodeOfPlace(t, place)).some(i => isIdle(t, t.fn[i]));
}

export function hideModule(t: Tree, module: string): Tree {
	const of = t.functions.module;
	return rebuild(t, (b, i, under) =>
		t.modules[of[t.fn[i]]] === module ? under : b.child(under, t.fn[i]),
	);
}

export function mergeRecursion(t: Tree): Tree {
	return rebuild(t, (b, i, under) => b.above(under, t.fn[i]) ?? b.child(under, t.fn[i]));
}

export function apply(t: Tree, changes: readonly Change[]): Tree {
	for (const c of changes) {
		if (c.op === 'focus') t = focus(t, c.of);
		else if (c.op === 'remove') t = remove(t, c.of);
		else if (c.op === 'hide') t = hideModule(t, c.module);
		else t = mergeRecursion(t);
	}
	return t;
}

/* The same tree with another weight of the base: a comparison of amounts, or of shares. */
export function weigh(t: Tree, weight: number): Tree {
	if (!t.baseTotal || !t.baseSelf) return t;
	const base = {total: t.baseTotal, self: t.baseSelf, weight};
	return {...layOut(t, t.fn, t.depth, t.total, t.self, base), sums: t.sums};
}

/* Functions as they are met, sorted in the end. Ids are those before the sorting; 0 is the root's. */
export class Interner {
	private readonly index = new Map<string, number>();
	private readonly all: {
		name: string;
		module: string;
		kind: number;
		source: string;
		line: number;
	}[] = [{name: '', module: '', kind: MARK, source: '', line: 0}];

	get size(): number {
		return this.all.length;
	}

	id(name: string, module: string, kind: number, source = '', line = 0): number {
		const key = `${kind} ${module}\n${name}`;
		let id = this.index.get(key);
		if (id === undefined) {
			id = this.all.push({name, module, kind, source, line}) - 1;
			this.index.set(key, id);
		}
		return id;
	}

	/* The names in their order, and by id what each function's place in it is. */
	finish(): {names: Names; renumber: Int32Array} {
		const {all} = this;
		const order = all.map((_, f) => f);
		// The root's empty name stays in front.
		order.sort((a, b) =>
			all[a].name < all[b].name ? -1 : all[a].name > all[b].name ? 1 : a - b,
		);
		const renumber = new Int32Array(order.length);
		order.forEach((f, i) => {
			renumber[f] = i;
		});
		const table = (of: (f: number) => string): {all: string[]; ids: number[]} => {
			const ids = new Map<string, number>([['', 0]]);
			const column = order.map(f => {
				const text = of(f);
				if (!ids.has(text)) ids.set(text, ids.size);
				return ids.get(text)!;
			});
			return {all: [...ids.keys()], ids: column};
		};
		const modules = table(f => all[f].module);
		const sources = table(f => all[f].source);
		const functions: Functions = {
			name: order.map(f => all[f].name),
			module: modules.ids,
			kind: order.map(f => all[f].kind),
			source: sources.ids,
			line: order.map(f => all[f].line),
		};
		const names: Names = {
			functions,
			modules: modules.all,
			kinds: KINDS,
			sources: sources.all,
			merged: mergedFunction(functions),
		};
		return {names, renumber};
	}
}

const NO_NAMES: Names = {
	functions: {name: [], module: [], kind: []},
	modules: [],
	kinds: KINDS,
	sources: [],
	merged: -1,
};

/* For a tree whose functions are still being interned. */
export const openBuilder = (compares: boolean): Builder => new Builder(NO_NAMES, compares);

/* Both as one tree: `b` is the base that `a` is compared with. */
export function compare(a: Tree, b: Tree): Tree {
	const interner = new Interner();
	const builder = openBuilder(true);
	for (const t of [a, b]) {
		const {name, module, kind, source, line} = t.functions;
		const ids = name.map((n, f) =>
			f === 0
				? 0
				: interner.id(
						n,
						t.modules[module[f]],
						kind[f],
						t.sources[source?.[f] ?? 0],
						line?.[f],
					),
		);
		const to = new Int32Array(t.count);
		for (let i = 0; i < t.count; i++) {
			if (i > 0) to[i] = builder.child(to[t.parent[i]], ids[t.fn[i]]);
			builder.add(to[i], t === a ? t.self[i] : 0, t === b ? t.self[i] : 0);
		}
	}
	const {names, renumber} = interner.finish();
	return builder.finish(names, renumber);
}

// ---- questions ------------------------------------------------------------------------------------

/* What each function used by itself and in all; inside of itself it counts once. */
export function sumFunctions(t: Tree): FunctionSum[] {
	return t.sums?.rows ?? sumNodes(t);
}

/* What a function used in all, frames that were left out included; null: not known. */
export function wholeTotal(t: Tree, key: FunctionKey): number | null {
	const like = functionsLike(t, key);
	const rows = t.sums?.rows.filter(r => like[r.fn]);
	return rows?.length === 1 ? rows[0].total : null;
}

function sumNodes(t: Tree): FunctionSum[] {
	const n = t.functions.name.length;
	const self = new Float64Array(n);
	const total = new Float64Array(n);
	const baseSelf = new Float64Array(n);
	const baseTotal = new Float64Array(n);
	const seen = new Uint8Array(n);
	const until = new Int32Array(n); // by function: where the outermost subtree of it ends
	for (let i = 1; i < t.count; i++) {
		const f = t.fn[i];
		seen[f] = 1;
		self[f] += t.self[i];
		if (t.baseSelf) baseSelf[f] += t.baseSelf[i];
		if (i < until[f]) continue;
		until[f] = t.next[i];
		total[f] += t.total[i];
		if (t.baseTotal) baseTotal[f] += t.baseTotal[i];
	}
	const out: FunctionSum[] = [];
	for (let f = 0; f < n; f++)
		if (seen[f])
			out.push({
				fn: f,
				self: self[f],
				total: total[f],
				baseSelf: baseSelf[f],
				baseTotal: baseTotal[f],
			});
	return out;
}

/* Lower case matches both cases. Null: not a regular expression. */
export function pattern(text: string): RegExp | null {
	const flags = text === text.toLowerCase() ? 'i' : '';
	for (const f of [`${flags}u`, flags])
		try {
			return new RegExp(text, f);
		} catch {
			// Names of C++ and Go hold what the strict syntax does not take.
		}
	return null;
}

/* By function: 1 if the search matches it. */
export function search(t: Names, re: RegExp): Uint8Array {
	const {name} = t.functions;
	const hits = new Uint8Array(name.length);
	for (let f = 1; f < name.length; f++) if (f !== t.merged && re.test(name[f])) hits[f] = 1;
	return hits;
}

/* How much of a subtree is inside of a match; one match inside of another counts once. */
export function matched(t: Tree, hits: Uint8Array, node: number): number {
	for (let p = node; p > 0; p = t.parent[p]) if (hits[t.fn[p]]) return sizeOf(t, node);
	let sum = 0;
	for (let i = node; i < t.next[node]; ) {
		if (hits[t.fn[i]]) {
			sum += sizeOf(t, i);
			i = t.next[i];
		} else i++;
	}
	return sum;
}

/* The matching nodes of a subtree, left to right, callers before callees. */
export function matches(t: Tree, hits: Uint8Array, node: number): number[] {
	const out: number[] = [];
	for (let i = node; i < t.next[node]; i++) if (hits[t.fn[i]] && t.size[i] > 0) out.push(i);
	return out;
}

/* The node of a row at a place, -1 if there is none. */
export function nodeAt(t: Tree, depth: number, at: number): number {
	const row = t.rows[depth];
	if (!row) return -1;
	let low = 0;
	let high = row.length - 1;
	while (low < high) {
		const mid = (low + high + 1) >> 1;
		if (t.start[row[mid]] <= at) low = mid;
		else high = mid - 1;
	}
	const i = row[low];
	return at >= t.start[i] && at < t.start[i] + t.size[i] ? i : -1;
}

export function path(t: Tree, node: number): number[] {
	const out: number[] = [];
	for (let i = node; i > 0; i = t.parent[i]) out.push(i);
	return out.reverse();
}

/* FNV-1a, as src/render/palette.c has it. */
export function hash(s: string): number {
	let h = 2166136261;
	for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
	return (h ^ (h >>> 15)) >>> 0;
}

/* A node's place as a short text that finds it in another answer, too. */
export function placeOf(t: Tree, node: number): string {
	return path(t, node)
		.map(i => hash(t.functions.name[t.fn[i]]).toString(36))
		.join('.');
}

/* The node of a place, or the nearest of its callers that is there. */
export function nodeOfPlace(t: Tree, place: string): number {
	if (place === '') return 0;
	let node = 0;
	for (const part of place.split('.')) {
		let found = -1;
		for (let i = node + 1; i < t.next[node]; i = t.next[i])
			if (
				hash(t.functions.name[t.fn[i]]).toString(36) === part &&
				t.size[i] > 0
			) {
				found = i;
				break;
			}
		if (found < 0) break;
		node = found;
	}
	return node;
}
