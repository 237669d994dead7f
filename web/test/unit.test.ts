/*
 * The page's modules without a browser. tests/browser/test_web.mjs bundles and runs this.
 */
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {gzipSync} from 'node:zlib';
import {type Profile, profileOf} from '../src/api';
import {
	change,
	changeColour,
	DARK,
	functionColours,
	LIGHT,
	libraryStem,
	lineColour,
	NEW,
	presence,
	VANISHED,
} from '../src/colour';
import {openFile} from '../src/files/open';
import {writePprof} from '../src/files/pprof';
import {fields} from '../src/files/proto';
import {folded, speedscope, stacks} from '../src/files/save';
import {amount, clean, clip, percent, span} from '../src/format';
import {
	beginOf,
	cellsIn,
	columnsOf,
	levels,
	SLOTS,
	ticksOfRows,
	timeBetween,
	topOf,
} from '../src/heat';
import {fit, rowsIn} from '../src/paint';
import {format, parse, parseMatchers, typing, withMatcher} from '../src/selector';
import {DEFAULT, read, readTime, type State, snap, stepOf, write} from '../src/state';
import {
	apply,
	callers,
	compare,
	type FunctionKey,
	focus,
	foldIdle,
	hideModule,
	isIdlePlace,
	matched,
	matches,
	mergeRecursion,
	narrowIdle,
	nodeAt,
	nodeOfPlace,
	path,
	pattern,
	placeOf,
	remove,
	search,
	sizeOf,
	sumFunctions,
	type Tree,
	weigh,
	wholeTotal,
} from '../src/tree';

const bytes = (s: string): Uint8Array => new TextEncoder().encode(s);
const open = (text: string): Promise<Profile> => openFile(bytes(text));
const treeOf = async (text: string): Promise<Tree> => (await open(text)).tree;

/* A tree as sorted folded lines. */
const lines = (t: Tree): string[] => folded(COUNTED, t, 0).trim().split('\n').sort();
const COUNTED = {unit: 'samples', period: 0} as Profile;
const key = (name: string, module = ''): FunctionKey => ({name, module});

/* Sums hold, children follow their parents and lie inside of them. */
function check(t: Tree): void {
	const sum = Float64Array.from(t.self);
	for (let i = t.count - 1; i > 0; i--) {
		const p = t.parent[i];
		assert.ok(p < i && t.depth[i] === t.depth[p] + 1);
		assert.ok(t.start[i] >= t.start[p]);
		assert.ok(t.start[i] + t.size[i] <= t.start[p] + t.size[p] + 1e-6);
		sum[p] += sum[i];
	}
	assert.deepEqual(sum, t.total);
}

const SMALL = `main;parse;read_[k] 30
main;parse 10
main;work;parse;scan 20
main;work 15
other;Parser 25
`;

/* Stacks of a few functions that call each other in every way, recursion included. */
function wild(seed: number, count: number): [string[], number][] {
	let s = seed;
	const next = (n: number): number => (s = (s * 1103515245 + 12345) & 0x7fffffff) % n;
	return Array.from({length: count}, () => [
		Array.from({length: 1 + next(7)}, () => 'abcdefg'[next(7)]),
		1 + next(9),
	]);
}
const text = (all: [string[], number][]): string =>
	all.map(([path, n]) => `${path.join(';')} ${n}`).join('\n');

test('a folded file becomes a tree whose sums hold', async () => {
	const t = await treeOf(SMALL);
	check(t);
	assert.equal(t.total[0], 100);
	assert.deepEqual(lines(t), SMALL.trim().split('\n').sort());
	const names = [...t.fn.subarray(1)].map(f => t.functions.name[f]);
	assert.deepEqual(names, [
		'main',
		'parse',
		'read',
		'work',
		'parse',
		'scan',
		'other',
		'Parser',
	]);
});

test('idle time is one grey frame in each process, until one is asked for', async () => {
	const t = await treeOf(
		'api;[idle];worker;wait_[k] 50\napi;[idle];loop 5\napi;[idle] 1\napi;work;wait_[k] 7\ndb;[idle];loop 20\n',
	);
	const folded_ = foldIdle(t);
	check(folded_);
	assert.deepEqual(lines(folded_), ['api;[idle] 56', 'api;work;wait_[k] 7', 'db;[idle] 20']);
	const place = (names: string): number =>
		[...t.fn.keys()].find(
			i =>
				path(t, i)
					.map(n => t.functions.name[t.fn[n]])
					.join(';') === names,
		)!;
	for (const [names, isAsked] of [
		['api;[idle]', true],
		['api;[idle];worker', true],
		['api', false],
		['api;work;wait', false],
	] as const)
		assert.equal(isIdlePlace(t, placeOf(t, place(names))), isAsked, names);
	assert.equal(isIdlePlace(t, ''), false);
	assert.equal(narrowIdle(folded_), folded_, 'in a process it is as wide as it is long');
	const plain = await treeOf(SMALL);
	assert.equal(foldIdle(plain), plain, 'what has no idle time is as it was');
	for (const by of ['kind', 'library', 'name'] as const)
		for (const theme of [LIGHT, DARK]) {
			const grey = functionColours(t, by, theme)[
				t.functions.name.indexOf('[idle]')
			];
			assert.equal(grey & 255, (grey >>> 8) & 255);
			assert.equal(grey & 255, (grey >>> 16) & 255);
		}
});

test('idle time of all leaves room for the rest', async () => {
	const t = foldIdle(await treeOf('A;b 5\n[idle];worker;wait_[k] 930\na;b;c 60\na 5\n'));
	const n = narrowIdle(t);
	const node = (name: string): number =>
		[...n.fn.keys()].find(i => i > 0 && n.functions.name[n.fn[i]] === name)!;
	const idle = node('[idle]');
	assert.equal(n.idle, idle);
	assert.equal(n.size[idle], 10);
	assert.equal(n.size[0], 80);
	assert.deepEqual([sizeOf(n, idle), sizeOf(n, 0), sizeOf(n, node('a'))], [930, 1000, 65]);
	assert.equal(n.total[idle], 930);
	// What it hides is nowhere: who stands beside it moves up.
	for (let i = 1; i < n.count; i++) {
		const end = n.start[i] + n.size[i];
		assert.ok(
			n.start[i] >= n.start[n.parent[i]] &&
				end <= n.start[n.parent[i]] + n.size[n.parent[i]],
		);
	}
	assert.equal(n.start[node('a')], n.start[idle] + n.size[idle]);
	const all = new Uint8Array(n.functions.name.length).fill(1);
	assert.equal(matched(n, all, 0), 1000);
	const few = foldIdle(await treeOf('[idle];worker 10\na 90\n'));
	assert.equal(narrowIdle(few), few, 'a tenth is no more than an eighth');
	const nothing = foldIdle(await treeOf('[idle];worker 10\n'));
	assert.equal(narrowIdle(nothing), nothing, 'there is nothing to leave room for');
});

test('focus, remove, hide and merged recursion equal what is done to each stack', async () => {
	for (let seed = 1; seed <= 20; seed++) {
		const all = wild(seed, 200);
		const t = await treeOf(text(all));
		const plain = (change: (path: string[]) => string[] | null): Promise<string[]> =>
			treeOf(
				text(
					all.flatMap(([p, n]): [string[], number][] => {
						const changed = change(p);
						return changed ? [[changed, n]] : [];
					}),
				),
			).then(lines);

		const focused = focus(t, key('c'));
		check(focused);
		assert.deepEqual(
			lines(focused),
			await plain(p => (p.includes('c') ? p.slice(p.indexOf('c')) : null)),
		);
		const removed = remove(t, key('c'));
		check(removed);
		assert.deepEqual(lines(removed), await plain(p => (p.includes('c') ? null : p)));
		const up = callers(t, key('c'));
		check(up);
		assert.deepEqual(
			lines(up),
			await plain(p =>
				p.includes('c') ? p.slice(0, p.indexOf('c') + 1).reverse() : null,
			),
		);
		const merged = mergeRecursion(t);
		check(merged);
		assert.equal(merged.total[0], t.total[0]);
		assert.deepEqual(
			lines(merged),
			await plain(p => {
				const out: string[] = [];
				for (const f of p) {
					const at = out.indexOf(f);
					if (at >= 0) out.length = at;
					out.push(f);
				}
				return out;
			}),
		);
	}
});

test('a hidden library’s frames become part of their callers', async () => {
	const t = await treeOf('a;b_[k];c_[k];d 3\na;b_[k] 2\nd 1\n');
	const hidden = hideModule(t, '[kernel]');
	check(hidden);
	assert.deepEqual(lines(hidden), ['a 2', 'a;d 3', 'd 1']);
	assert.deepEqual(
		lines(
			apply(t, [
				{op: 'hide', module: '[kernel]'},
				{op: 'focus', of: key('d')},
			]),
		),
		['d 4'],
	);
});

test('functions are summed with recursion counted once', async () => {
	for (let seed = 1; seed <= 10; seed++) {
		const all = wild(seed, 150);
		const t = await treeOf(text(all));
		for (const r of sumFunctions(t)) {
			const name = t.functions.name[r.fn];
			const having = all.filter(([p]) => p.includes(name));
			assert.equal(
				r.total,
				having.reduce((n, [, c]) => n + c, 0),
				name,
			);
			const own = all.filter(([p]) => p.at(-1) === name);
			assert.equal(
				r.self,
				own.reduce((n, [, c]) => n + c, 0),
				name,
			);
		}
	}
});

test('a search counts nested matches once, in the whole and in a part', async () => {
	for (let seed = 1; seed <= 10; seed++) {
		const all = wild(seed, 150);
		const t = await treeOf(text(all));
		const hits = search(t, /^[bd]$/);
		const want = all.filter(([p]) => p.includes('b') || p.includes('d'));
		assert.equal(
			matched(t, hits, 0),
			want.reduce((n, [, c]) => n + c, 0),
		);
		for (const i of matches(t, hits, 0)) {
			assert.match(t.functions.name[t.fn[i]], /[bd]/);
			assert.equal(matched(t, hits, i), t.size[i]);
		}
	}
	assert.ok(pattern('parse')!.test('Parser'), 'lower case matches both');
	assert.ok(!pattern('Parse')!.test('parser'));
	assert.ok(pattern('operator\\<')!.test('operator<'), 'what only the lax syntax takes');
	assert.equal(pattern('*('), null);
});

test('frames are found by place, and places in another tree', async () => {
	const t = await treeOf(SMALL);
	for (let i = 0; i < t.count; i++) {
		assert.equal(nodeAt(t, t.depth[i], t.start[i] + t.size[i] / 2), i);
		assert.equal(nodeOfPlace(t, placeOf(t, i)), i);
	}
	assert.equal(nodeAt(t, 9, 0), -1);
	assert.equal(nodeAt(t, 2, t.size[0] + 1), -1);
	const scan = [...t.fn].findIndex(f => t.functions.name[f] === 'scan');
	const u = await treeOf('zero 4\nmain;alpha 7\nmain;work;parse 3\n');
	const near = nodeOfPlace(u, placeOf(t, scan));
	assert.equal(u.functions.name[u.fn[near]], 'parse', 'the nearest caller that is there');
	assert.equal(nodeOfPlace(u, 'nonsense'), 0);
});

test('comparing: both sides, new and vanished, absolute and by share', async () => {
	const a = await treeOf('m;same 10\nm;new 20\nm;more 30\n');
	const b = await treeOf('m;same 10\nm;gone 60\nm;more 50\n');
	const t = compare(a, b);
	check(t);
	assert.equal(t.total[0], 60);
	assert.equal(t.baseTotal![0], 120);
	const at = (name: string): number => [...t.fn].findIndex(f => t.functions.name[f] === name);
	const marks = presence(t);
	assert.equal(marks[at('new')], NEW);
	assert.equal(marks[at('gone')], VANISHED);
	assert.equal(marks[at('same')], 0);
	assert.ok(t.size[at('gone')] > 0, 'what vanished can be seen');
	assert.ok(change(t, at('more'), 1) < 0, 'less of it');
	const half = weigh(t, 0.5);
	check(half);
	assert.equal(half.size[0], 120);
	assert.ok(change(half, at('more'), 0.5) > 0, 'but a larger share');
	const focused = focus(half, key('more'));
	assert.equal(focused.baseTotal![0], 50);
	assert.equal(focused.size[0], 30 + 25, 'the weight is kept');
	assert.notEqual(changeColour(-0.5, LIGHT), changeColour(0.5, LIGHT));
});

test('colours follow from names alone', async () => {
	const a = await treeOf('x;y_[k] 1\nz 1\n');
	const b = await treeOf('q;z 5\nx 1\n');
	for (const by of ['kind', 'library', 'name'] as const)
		for (const theme of [LIGHT, DARK]) {
			const of = (t: Tree, name: string): number =>
				functionColours(t, by, theme)[t.functions.name.indexOf(name)];
			assert.equal(of(a, 'z'), of(b, 'z'));
			assert.equal(of(a, 'x'), of(b, 'x'));
			if (by !== 'name')
				assert.notEqual(
					of(a, 'x'),
					of(a, 'y'),
					'the kernel is another colour',
				);
		}
	assert.equal(libraryStem('libc.so.6'), libraryStem('libc-2.36.so'));
	assert.notEqual(libraryStem('libc.so.6'), libraryStem('libm.so.6'));
	for (const theme of [LIGHT, DARK]) {
		// Nothing but the name decides, and names share one of many colours: those of a busy machine.
		const names = [
			'nginx',
			'redis-server',
			'postgres',
			'java',
			'python3',
			'node',
			'sshd',
			'',
		];
		const colours = names.map(n => lineColour(n, theme));
		assert.equal(new Set(colours).size, names.length, colours.join());
		const many = new Set(
			Array.from({length: 2000}, (_, i) => lineColour(`p${i}`, theme)),
		);
		assert.ok(many.size >= 60, `${many.size} colours`);
	}
});

test('an answer of the server becomes the same tree', async () => {
	const p = profileOf({
		type: 'cpu',
		unit: 'nanoseconds',
		period: 10,
		from: 0,
		to: 10,
		samples: 3,
		lost: 0,
		total: 30,
		pruned: 2,
		least: 1,
		functions: {
			name: ['', '(other)', 'main', 'read'],
			module: [0, 0, 1, 2],
			kind: [7, 7, 0, 1],
			self: [0, 3, 16, 11],
			total: [30, 3, 30, 12],
			source: [0, 0, 1, 0],
			line: [0, 0, 42, 0],
		},
		modules: ['', 'nginx', '[kernel]'],
		sources: ['', '/src/main.c'],
		other: 1,
		unlisted: 7,
		kinds: ['user', 'kernel'],
		nodes: {
			function: [0, 2, 3, 1],
			depth: [0, 1, 2, 2],
			total: [30, 30, 10, 5],
			self: [0, 15, 10, 5],
		},
	});
	check(p.tree);
	assert.equal(p.tree.merged, 1);
	assert.equal(search(p.tree, /other/)[1], 0, 'what was left out is not a match');
	// Sums are of the whole tree as long as the tree is as it came.
	const sums = (t: Tree) => sumFunctions(t).map(r => [r.fn, r.self, r.total]);
	const whole = [
		[1, 3, 3],
		[2, 16, 30],
		[3, 11, 12],
	];
	assert.deepEqual(sums(p.tree), whole);
	assert.deepEqual(sums(apply(weigh(p.tree, 2), [])), whole);
	assert.equal(p.tree.sums?.unlisted, 7);
	assert.equal(wholeTotal(p.tree, key('read', '[kernel]')), 12);
	const changed = apply(p.tree, [{op: 'recursion'}]);
	assert.deepEqual(sums(changed), [
		[1, 5, 5],
		[2, 15, 30],
		[3, 10, 10],
	]);
	assert.equal(wholeTotal(changed, key('read', '[kernel]')), null);
	assert.equal(p.tree.sources[p.tree.functions.source![2]], '/src/main.c');
	const merged = mergeRecursion(p.tree);
	assert.equal(merged.fn[merged.count - 1], 1, '(other) stays behind the others');
});

test('what is saved can be opened again', async () => {
	const p = await open(`${SMALL}main;work;inl_[i] 7\n`);
	const t = p.tree;
	assert.deepEqual(lines(await treeOf(folded(p, t, 0))), lines(t));
	const pb = writePprof({...p, unit: 'nanoseconds', from: 1000, to: 2000}, t, v =>
		stacks(t, 0, v),
	);
	for (const file of [pb, new Uint8Array(gzipSync(pb))]) {
		const again = await openFile(file);
		check(again.tree);
		assert.equal(again.unit, 'nanoseconds');
		assert.equal(again.from, 1000);
		assert.equal(again.to, 2000);
		const plain = (l: string): string => l.replace('_[i]', '');
		assert.deepEqual(lines(again.tree).map(plain), lines(t).map(plain));
	}
	// Samples are counted in front, where all stand for the same.
	const counted = await openFile(
		writePprof({...p, type: 'cpu', unit: 'nanoseconds', period: 1}, t, v =>
			stacks(t, 0, v),
		),
	);
	assert.equal(counted.unit, 'nanoseconds');
	assert.equal(counted.samples, t.total[0]);
	const json = await open(speedscope({...p, unit: 'nanoseconds'}, t, 0, 'a title'));
	assert.deepEqual(lines(json.tree), lines(t));
	const work = [...t.fn].findIndex(f => t.functions.name[f] === 'work');
	assert.deepEqual(folded(p, t, work).trim().split('\n').sort(), [
		'main;work 15',
		'main;work;inl_[i] 7',
		'main;work;parse;scan 20',
	]);
});

test('folded files count samples, or say what they count', async () => {
	const p = await open(SMALL);
	const ms = {...p, unit: 'nanoseconds', period: 5};
	assert.ok(folded(ms, p.tree, 0).includes('main;parse;read_[k] 6\n'), 'samples');
	const varied = {...ms, period: 0};
	const text = folded(varied, p.tree, 0);
	assert.ok(
		text.startsWith('# unit: nanoseconds\n') &&
			text.includes('main;parse;read_[k] 30\n'),
	);
	const again = await open(text);
	assert.equal(again.unit, 'nanoseconds');
	assert.equal(again.tree.total[0], p.tree.total[0]);
	assert.deepEqual(again.notes, []);
});

test('a slot of the heatmap is judged by what it could hold', () => {
	const period = Math.floor(1e9 / 99);
	const ticks = ticksOfRows(period);
	assert.equal(
		ticks.reduce((a, b) => a + b),
		99,
	);
	assert.deepEqual([...new Set(ticks)].sort(), [1, 2], 'one slot of a second holds one');
	// Three CPUs, busy all the time, from the middle of a second on.
	const start = 1763186400500;
	const counts = Array.from({length: 100}, (_, i) => 3 * ticks[(25 + i) % SLOTS.rows]);
	const all = levels({start, step: 20, period, counts});
	assert.deepEqual(new Set(all), new Set([3]), 'no stripe');
	assert.equal(topOf(all), 3);
	// A clock slower than slots: a tick is for all until the next.
	const slow = Math.floor(1e9 / 19);
	const few = ticksOfRows(slow);
	const busy = levels({start: 0, step: 20, period: slow, counts: few});
	assert.deepEqual(new Set(busy), new Set([1]));
	// Without a clock counts are what they are.
	assert.deepEqual(
		[...levels({start: 0, step: 20, period: 0, counts: [0, 2, 1]})],
		[0, 2, 1],
	);
	assert.equal(topOf(new Float64Array(9)), 1);
	// A late tick that met the next one does not make the rest pale.
	const one = Float64Array.from({length: 2000}, (_, i) => (i === 7 ? 3 : 1));
	assert.equal(topOf(one), 1);
});

test('of types without times of samples the heatmap is of windows', () => {
	// 25 windows that begin 20 s into a minute.
	const minute = 1763186400000;
	const start = minute + 20_000;
	const values = Array.from({length: 25}, (_, i) => i * 10e9);
	const h = {start, step: 10_000, unit: 'nanoseconds', values, covered: values.map(() => 1)};
	assert.equal(beginOf(h), minute);
	assert.equal(columnsOf(h), 5, 'two before it, 25, and three after it');
	assert.deepEqual([...levels(h)].slice(0, 4), [0, 1, 2, 3], 'threads');
	assert.deepEqual([...levels({...h, unit: 'bytes'})].slice(0, 2), [0, 10e9]);
	// From one cell to the other is all the time between them, whichever was first.
	const at = (column: number, row: number) => ({column, row});
	const all = {from: start, to: start + 250_000};
	assert.deepEqual(timeBetween(h, at(0, 3), at(0, 3)), {
		from: minute + 30_000,
		to: minute + 40_000,
	});
	const most = {from: minute + 40_000, to: minute + 140_000};
	assert.deepEqual(timeBetween(h, at(0, 4), at(2, 1)), most);
	assert.deepEqual(timeBetween(h, at(2, 1), at(0, 4)), most);
	assert.deepEqual(timeBetween(h, at(0, 0), at(4, 5)), all, 'no more than there is');
	const cells = (column: number, columns: number, row: number, rows: number) => ({
		column,
		columns,
		row,
		rows,
	});
	assert.deepEqual(cellsIn(h, most), [
		cells(0, 1, 4, 2),
		cells(1, 1, 0, 6),
		cells(2, 1, 0, 2),
	]);
	assert.deepEqual(cellsIn(h, {from: minute + 60_000, to: minute + 180_000}), [
		cells(1, 2, 0, 6),
	]);
	assert.deepEqual(cellsIn(h, {from: minute + 70_000, to: minute + 90_000}), [
		cells(1, 1, 1, 2),
	]);
	assert.deepEqual(cellsIn(h, {from: minute + 50_000, to: minute + 120_000}), [
		cells(0, 1, 5, 1),
		cells(1, 1, 0, 6),
	]);
	assert.deepEqual(cellsIn(h, all), [
		cells(0, 1, 2, 4),
		cells(1, 3, 0, 6),
		cells(4, 1, 0, 3),
	]);
	assert.deepEqual(cellsIn(h, {from: minute, to: minute + 60_000}), [], 'not in it');
});

test('perf script is read', async () => {
	const p = await open(`# a comment
nginx: worker  123/124 [001]  100.5: 10101010 cpu-clock:pppH:
	ffffffff81000010 read_it+0x10 ([kernel.kallsyms])
	    55d0c0de1010 work(int, char)+0x1a (/usr/sbin/nginx)
	    55d0c0de1000 main+0x1 (/usr/sbin/nginx (deleted))

nginx: worker  123/124 [001]  100.6: 10101010 cpu-clock:pppH:
	    7f00c0de1010 [unknown] (/lib/libfoo.so.1)
	    55d0c0de1000 main+0x1 (/usr/sbin/nginx)

`);
	assert.equal(p.unit, 'nanoseconds');
	assert.equal(p.samples, 2);
	assert.deepEqual(lines(p.tree), [
		'nginx: worker;main;[libfoo.so.1] 10101010',
		'nginx: worker;main;work(int, char);read_it_[k] 10101010',
	]);
	assert.ok(p.tree.modules.includes('nginx'));
});

test('speedscope’s events are read', async () => {
	const file = {
		shared: {frames: [{name: 'a'}, {name: 'b', file: '/src/b.c', line: 7}]},
		profiles: [
			{
				type: 'evented',
				unit: 'milliseconds',
				events: [
					{type: 'O', frame: 0, at: 0},
					{type: 'O', frame: 1, at: 2},
					{type: 'C', frame: 1, at: 5},
					{type: 'C', frame: 0, at: 6},
				],
			},
		],
	};
	const p = await open(JSON.stringify(file));
	assert.equal(p.unit, 'nanoseconds');
	assert.deepEqual(lines(p.tree), ['a 3000000', 'a;b 3000000']);
	const f = p.tree.functions;
	assert.equal(p.tree.sources[f.source![f.name.indexOf('b')]], '/src/b.c');
	assert.equal(f.line![f.name.indexOf('b')], 7);
});

test('what is no profile says so', async () => {
	const refused = async (data: Uint8Array, why: RegExp): Promise<void> =>
		assert.rejects(openFile(data), why);
	await refused(bytes(''), /is empty/);
	await refused(bytes('hello world\nthis is text\n'), /it is not folded/);
	await refused(bytes('{"shared": 1, "profiles": []}'), /no profiles/);
	await refused(new Uint8Array([0x1f, 0x8b, 1, 2, 3]), /damaged/);
	await refused(bytes('a;b 0\n'), /no sample/);
	const p = await open(SMALL);
	const pb = writePprof(p, p.tree, v => stacks(p.tree, 0, v));
	let refusals = 0;
	for (let i = 0; i < pb.length; i += 3) {
		const cut = pb.slice(0, i);
		const flipped = pb.slice();
		flipped[i] ^= 0xff;
		for (const data of [cut, flipped])
			await openFile(data).catch(e => {
				assert.ok(
					e instanceof Error && !(e instanceof RangeError),
					String(e),
				);
				refusals++;
			});
	}
	assert.ok(refusals > 10);
	assert.throws(() => [...fields(new Uint8Array(20).fill(0xff))]);
});

test('hostile names of files are cleaned and cut', async () => {
	const t = await treeOf(
		`\u202egnp\u0007;${'x'.repeat(1 << 20)} 5\n__proto__;constructor 1\n`,
	);
	const names = t.functions.name;
	assert.ok(!names.some(n => n.includes('\u202e') || n.includes('\u0007')));
	assert.ok(names.every(n => n.length <= 4096));
	assert.ok(names.includes('__proto__') && names.includes('constructor'));
	assert.equal(clean('a\u2066b'), 'a\ufffdb');
	const deep = await treeOf(`${Array.from({length: 5000}, (_, i) => `f${i}`).join(';')} 3\n`);
	assert.equal(deep.total[0], 3);
	assert.ok(deep.rows.length <= 1026);
	// As deep as anyone could make it, in each format: no reader, tree or export recurses.
	const deepest = Array.from({length: 100_000}, (_, i) => `f${i % 7}`);
	const frames = [...new Set(deepest)].map(name => ({name}));
	const scope = {
		shared: {frames},
		profiles: [
			{
				type: 'sampled',
				unit: 'none',
				samples: [deepest.map((_, i) => i % 7)],
				weights: [3],
			},
		],
	};
	const perf = `a 1 1.0: 3 cycles:\n${deepest.map(f => `\t1 ${f} (/x)`).join('\n')}\n\n`;
	for (const file of [`${deepest.join(';')} 3\n`, JSON.stringify(scope), perf]) {
		const p = await open(file);
		assert.equal(p.tree.total[0], 3);
		assert.match(String(p.notes), /1 stacks were truncated to 1,024 frames/);
		check(mergeRecursion(p.tree));
		assert.equal(folded(p, p.tree, 0).match(/^f0;.* 3$|^a;.* 3$/gm)?.length, 1);
		assert.ok(writePprof(p, p.tree, v => stacks(p.tree, 0, v)).length > 1000);
	}
	// And an answer of a server.
	const n = 100_000;
	const answer = profileOf({
		type: 'cpu',
		unit: 'samples',
		period: 1,
		from: 0,
		to: 1,
		samples: 3,
		lost: 0,
		total: 3,
		pruned: 0,
		least: 0,
		modules: [''],
		kinds: ['user'],
		functions: {name: ['', 'f'], module: [0, 0], kind: [7, 0]},
		nodes: {
			function: Array.from({length: n}, (_, i) => Math.min(i, 1)),
			depth: Array.from({length: n}, (_, i) => i),
			total: new Array(n).fill(3),
			self: Array.from({length: n}, (_, i) => (i === n - 1 ? 3 : 0)),
		},
	});
	check(answer.tree);
	assert.equal(mergeRecursion(answer.tree).count, 2);
	assert.equal(rowsIn(answer.tree, 0, 3, 0.1), n);
});

test('selectors are read and written', () => {
	const same = (s: string): void => {
		const p = parse(s);
		assert.ok(typeof p !== 'string', `${s}: ${String(p)}`);
		assert.equal(format(p), s);
	};
	same('cpu');
	same('cpu{comm="nginx"}');
	same('cpu{comm="a\\"b\\\\c\\n", pid!="1", unit=~"x.*", pod!~"y|z"}');
	assert.deepEqual(parse('{comm="x"}'), {
		type: 'cpu',
		matchers: [{label: 'comm', op: '=', value: 'x'}],
	});
	// A word is a type if there is one, else a process: as the server takes it (test_query.c).
	const types = ['cpu', 'heap:inuse_space'];
	assert.deepEqual(parse('heap:inuse_space', types), {
		type: 'heap:inuse_space',
		matchers: [],
	});
	for (const [word, comm] of [
		['nginx', 'nginx'],
		[' redis-server ', 'redis-server'],
		['python3.11', 'python3.11'],
		['kworker/0:1', 'kworker/0:1'],
		['7zz', '7zz'],
		['tokio-runtime-worker', 'tokio-runtime-w'],
	])
		assert.deepEqual(parse(word, types), {
			type: 'cpu',
			matchers: [{label: 'comm', op: '=', value: comm}],
		});
	assert.deepEqual(parse('nginx{}', types), {type: 'nginx', matchers: []});
	assert.deepEqual(parse(''), {type: 'cpu', matchers: []});
	for (const bad of [
		'cpu{',
		'cpu{comm}',
		'cpu{comm=x}',
		'cpu{comm="x"',
		'cpu}',
		'cpu{="x"}',
		'a b',
	])
		assert.equal(typeof parse(bad), 'string', bad);
	assert.match(String(parseMatchers('comm=nginx')), /quotes/);
	const s = withMatcher(
		{type: 'cpu', matchers: [{label: 'comm', op: '=', value: 'a'}]},
		{
			label: 'comm',
			op: '=',
			value: 'b',
		},
	);
	assert.equal(format(s), 'cpu{comm="b"}');
	assert.deepEqual(typing('com'), {kind: 'label', prefix: 'com', at: 0});
	assert.deepEqual(typing('comm="a,b", pi'), {kind: 'label', prefix: 'pi', at: 12});
	assert.deepEqual(typing('cpu{comm=~"ng'), {
		kind: 'value',
		label: 'comm',
		op: '=~',
		prefix: 'ng',
		at: 4,
	});
});

test('the URL holds the whole state', () => {
	assert.equal(write(DEFAULT), '');
	assert.deepEqual(read(''), DEFAULT);
	const all: State = {
		query: 'cpu{comm="a&b#c"}',
		live: false,
		span: DEFAULT.span,
		range: {from: 1763186400000, to: 1763186700000},
		selected: {from: 1763186400020, to: 1763186400140},
		rows: [3, 17],
		base: {from: 1763182800000, to: 1763183100000},
		baseQuery: 'cpu{comm="c"}',
		scale: 'shares',
		by: 'container',
		group: '',
		view: 'table',
		sort: {column: 'name', down: false},
		heat: true,
		heatAt: {from: 1763186400000, to: 1763187000000},
		what: '1763186500000',
		icicle: true,
		colour: 'library',
		search: 'a.*|b%20+ü',
		zoom: 'abc.def',
		changes: [
			{op: 'focus', of: key('std::a<b, c>', 'libx.so')},
			{op: 'remove', of: key('"q"')},
			{op: 'hide', module: 'libc.so.6'},
			{op: 'recursion'},
		],
		sandwich: key('f&g', 'm'),
	};
	assert.deepEqual(read(write(all)), all);
	assert.match(write(all), /^#v=1&/);
	assert.deepEqual(read(write({...DEFAULT, span: 86400_000})), {...DEFAULT, span: 86400_000});
	assert.equal(read('#v=1&shares=1').scale, 'shares', 'as it was once written');
	assert.deepEqual(read('#v=1&sort=total').sort, {column: 'total', down: true});
	assert.deepEqual(read('#v=2&q=x'), DEFAULT, 'a later version is not guessed at');
	for (const bad of [
		'#v=1&t=5-3&rows=a&what=x&c=focus+x&c=hide+1&fn=nonsense&view=x&last=1',
		'#v=1&%%%',
	])
		assert.deepEqual(read(bad), DEFAULT, bad);
});

test('times, steps and snapping', () => {
	const now = Date.parse('2025-11-15T14:30:00');
	assert.equal(readTime('now', now), now);
	assert.equal(readTime('now-1h30m', now), now - 5400_000);
	assert.equal(readTime('now - 2 d', now), now - 2 * 86400_000);
	assert.equal(readTime('14:02', now), Date.parse('2025-11-15T14:02:00'));
	assert.equal(readTime('2025-11-15 14:02:05', now), Date.parse('2025-11-15T14:02:05'));
	assert.equal(readTime('2025-11-14', now), Date.parse('2025-11-14T00:00'));
	assert.equal(readTime('1763186400', now), 1763186400000);
	assert.equal(readTime('1763186400000', now), 1763186400000);
	for (const bad of ['', 'yesterday', '25:00', 'now+1h', '1h'])
		assert.ok(Number.isNaN(readTime(bad)));
	assert.equal(stepOf({from: 0, to: 3600_000}), 10_000);
	assert.equal(stepOf({from: 0, to: 86400_000}), 300_000);
	assert.ok((30 * 86400_000) / stepOf({from: 0, to: 30 * 86400_000}) <= 400);
	assert.deepEqual(snap({from: 11, to: 19}, 10), {from: 10, to: 20});
});

test('numbers as words', () => {
	assert.equal(amount(0, 'nanoseconds'), '0 s');
	assert.equal(amount(12_300_000, 'nanoseconds'), '12.3 ms');
	assert.equal(amount(999_999_999, 'nanoseconds'), '1.00 s');
	assert.equal(amount(-90e9, 'nanoseconds'), '−1.50 min');
	assert.equal(amount(1, 'samples'), '1 sample');
	assert.equal(amount(1234567, 'samples'), '1,234,567 samples');
	assert.equal(amount(1536, 'bytes'), '1.50 KiB');
	assert.equal(percent(1, 3), '33.33 %');
	assert.equal(percent(1, 0), '0.00 %');
	assert.equal(span(3600_000), '1 h');
	assert.equal(span(9000_000), '2 h 30 min');
	assert.equal(span(140), '140 ms');
	assert.equal(clip('abcdef', 4), 'abc…');
	assert.equal(fit('abcdef', 6), 'abcdef');
	assert.equal(fit('abcdef', 5), 'abcd…');
	assert.equal(fit('漢字関数', 5), '漢字…');
	assert.equal(fit('x'.repeat(1 << 20), 3), 'xx…');
	assert.equal(fit('abc', 1), '');
});

test('rows that can be seen', async () => {
	const t = await treeOf(SMALL);
	assert.equal(rowsIn(t, 0, 100, 0.1), 5);
	assert.equal(rowsIn(t, 75, 100, 0.1), 3, 'other and Parser');
	assert.equal(rowsIn(t, 0, 100, 22), 4, 'scan is too narrow');
});
