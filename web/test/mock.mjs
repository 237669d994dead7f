/*
 * A server that answers like `smolder serve` (docs/api.md), from a recording repeated over 31 days: for
 * tests of the page alone, of cases that a real server does not get into on demand, and for work on
 * the page: node web/test/mock.mjs [PORT].
 *
 * What happened in a window follows from its time, so every answer agrees with every other.
 */
import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

/* Modes in which nothing is stored, by what the server says of its collector. */
const EMPTY = ['starting', 'absent', 'failed'];
const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, '../..');
export const WINDOW = 10_000;
export const PERIOD = 10_101_010;
const DAY = 86400_000;
const SLOTS = 500; // of 20 ms in a window
const PATTERNS = 8;
const KINDS = ['user', 'kernel', 'inlined', 'interpreted', 'jit', 'go', 'bpf', 'mark'];

const CSP =
	"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

function random(seed) {
	let h = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b);
	h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
	return ((h ^ (h >>> 16)) >>> 0) / 2 ** 32;
}

/* Series: labels, and how busy it is (0 to 5) in a window. */
const SERIES = [
	[
		'cc1plus',
		{unit: 'build.service', container: 'ci-runner'},
		(at, m, w) => (m.inSpike(w) ? 5 : wave(at, 90, 0.4, 1)),
	],
	['compile', {unit: 'build.service', container: 'ci-runner'}, w => wave(w, 240, 0.3, 2)],
	['python3', {unit: 'web.service', container: 'shop-web'}, w => 1 + wave(w, 360, 1, 3)],
	['node', {unit: 'api.service', container: 'shop-api'}, w => 1 + wave(w, 180, 1.2, 4)],
	['gzip', {unit: 'backup.service'}, w => (w % 90 < 12 ? 4 : 0)],
	['tar', {unit: 'backup.service'}, w => (w % 90 < 12 ? 2 : 0)],
	['go', {unit: 'build.service', container: 'ci-runner'}, w => wave(w, 240, 0.3, 5)],
	['asm', {unit: 'build.service', container: 'ci-runner'}, w => wave(w, 240, 0.2, 6)],
	['head', {unit: 'backup.service'}, w => (w % 90 < 12 ? 1 : 0)],
	['bash', {unit: 'cron.service'}, w => (w % 6 === 0 ? 1 : 0)],
];

const pidOf = s => String(1200 + 37 * s);

function wave(w, length, least, seed) {
	const base = Math.max(0, Math.sin((2 * Math.PI * (w + seed * 37)) / length) * 1.5 + least);
	return Math.max(0, Math.floor(base + random(w * 31 + seed) * 1.6));
}

/* A tree that is put together from paths. */
class Trie {
	children = [new Map()];
	fn = [0];
	self = [0];
	base = [0];

	child(parent, fn) {
		let node = this.children[parent].get(fn);
		if (node === undefined) {
			node = this.fn.length;
			this.children[parent].set(fn, node);
			this.children.push(new Map());
			this.fn.push(fn);
			this.self.push(0);
			this.base.push(0);
		}
		return node;
	}

	/* As columns, depth first, children in the order of their functions. */
	columns(compares) {
		const out = {function: [], depth: [], total: [], self: []};
		const base = {total: [], self: []};
		const visit = (node, depth) => {
			const at = out.function.length;
			out.function.push(this.fn[node]);
			out.depth.push(depth);
			out.self.push(this.self[node]);
			out.total.push(this.self[node]);
			base.self.push(this.base[node]);
			base.total.push(this.base[node]);
			for (const [, c] of [...this.children[node]].sort((a, b) => a[0] - b[0])) {
				const child = visit(c, depth + 1);
				out.total[at] += out.total[child];
				base.total[at] += base.total[child];
			}
			return at;
		};
		visit(0, 0);
		if (compares) {
			out.base_total = base.total;
			out.base_self = base.self;
		}
		return out;
	}
}

/* Selectors, read by a few lines of their own: not by those that are tested. */
function matcherOf(query) {
	const m = /^\s*(\w*)\s*(?:\{(.*)\})?\s*$/s.exec(query || 'cpu');
	if (!m) throw new Error('the selector is not understood');
	const all = [...(m[2] ?? '').matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"/g)].map(
		([, label, op, value]) => ({label, op, value: value.replace(/\\(.)/g, '$1')}),
	);
	return labels =>
		all.every(({label, op, value}) => {
			const has = labels[label] ?? '';
			if (op === '=') return has === value;
			if (op === '!=') return has !== value;
			return new RegExp(`^(?:${value})$`).test(has) === (op === '=~');
		});
}

class Mock {
	/* ordinary, empty, failed, forbidden, broken, hostile, big */
	mode = 'ordinary';
	isHeld = false; // answers of the API wait until it is false
	requests = [];

	constructor(now) {
		this.now = Math.floor(now / WINDOW) * WINDOW;
		this.load();
	}

	load() {
		const recorded = JSON.parse(readFileSync(path.join(HERE, 'recorded.json'), 'utf8'));
		// Functions in the order of their names, as the server has them; groups' names among them.
		const names = recorded.functions.map(([name, module, kind]) => ({
			name,
			module: recorded.modules[module],
			kind,
		}));
		const values = new Set(
			SERIES.flatMap(([comm, labels]) => [comm, ...Object.values(labels)]),
		);
		SERIES.forEach(([comm], s) => {
			values.add(`${comm} (${pidOf(s)})`);
		});
		for (const name of values) names.push({name, module: '', kind: 7});
		names.push({name: '', module: '', kind: 7}, {name: '(none)', module: '', kind: 7});
		const order = names.map((_, i) => i);
		order.sort((a, b) =>
			names[a].name < names[b].name
				? -1
				: names[a].name > names[b].name
					? 1
					: a - b,
		);
		const place = [];
		order.forEach((f, i) => {
			place[f] = i;
		});
		this.modules = [...new Set(['', ...names.map(n => n.module)])];
		this.functions = {
			name: order.map(f => names[f].name),
			module: order.map(f => this.modules.indexOf(names[f].module)),
			kind: order.map(f => names[f].kind),
		};
		this.groupFunction = value =>
			this.functions.name.findIndex(
				(n, f) => n === (value || '(none)') && this.functions.kind[f] === 7,
			);

		this.series = SERIES.map(([comm, labels, busy], s) => {
			const t = recorded.comms[comm];
			const paths = [];
			const path_ = [];
			t.fn.forEach((f, i) => {
				path_.length = t.depth[i];
				path_[t.depth[i] - 1] = place[f];
				if (t.self[i] > 0)
					paths.push({path: [...path_], weight: t.self[i]});
			});
			const sum = paths.reduce((n, p) => n + p.weight, 0);
			// What a window holds at strength 1, in a few variants: about 120 samples each.
			const patterns = Array.from({length: PATTERNS}, (_, k) =>
				paths.map((p, i) => {
					const want = (p.weight / sum) * 120;
					return Math.floor(want + random(i * 131 + k * 7919 + s));
				}),
			);
			const totals = patterns.map(p => p.reduce((n, c) => n + c, 0));
			const all = {
				comm,
				pid: pidOf(s),
				thread: comm,
				host: 'demo',
				...labels,
			};
			return {labels: all, busy, paths, patterns, totals};
		});
	}

	/* Two minutes of compiling, twelve minutes ago. */
	inSpike(w) {
		const ago = this.now - w * WINDOW;
		return ago <= 12 * 60_000 && ago > 10 * 60_000;
	}

	/* Off for three minutes, 35 minutes ago, and before a month ago. */
	covered(w) {
		const ago = this.now - w * WINDOW;
		if (ago <= 0 || ago > 31 * DAY) return false;
		return !(ago <= 35 * 60_000 && ago > 32 * 60_000);
	}

	restarted(w) {
		return this.covered(w) && !this.covered(w - 1);
	}

	/* (strength, pattern) of a series in a window. */
	busy(s, w) {
		if (!this.covered(w)) return 0;
		// The same story whenever it is told: it ends now.
		const at = w - this.now / WINDOW + 720_000;
		return Math.max(0, Math.floor(this.series[s].busy(at, this, w)));
	}

	patternOf(s, w) {
		return Math.floor(random((w - this.now / WINDOW) * 17 + s) * PATTERNS);
	}

	windows({from, to}) {
		return [Math.floor(from / WINDOW), Math.ceil(to / WINDOW)];
	}

	wanted(query) {
		const match = matcherOf(query);
		return this.series.map((_, s) => s).filter(s => match(this.series[s].labels));
	}

	/*
	 * When each sample of a window was taken: regular work every 100 ms, the rest spread out; by ticks
	 * of a clock of 99 Hz.
	 */
	slotOf(s, w, j, count) {
		if (s % 3 === 2) return (Math.floor((j * SLOTS) / count / 5) * 5 + (w % 2)) % SLOTS;
		const tick = Math.floor(random(w * 1009 + s * 31 + j * 7) * 990);
		return Math.floor(tick / 99) * 50 + Math.floor(((tick % 99) * PERIOD) / 20e6);
	}

	/* Adds the samples of a range to a tree: into `self`, or `base` of a comparison. */
	addTo(trie, query, range, {by = '', slots = null, base = false}) {
		let samples = 0;
		const [first, last] = this.windows(range);
		for (const s of this.wanted(query)) {
			const {paths, patterns, totals, labels} = this.series[s];
			const counts = new Float64Array(paths.length);
			for (let w = first; w < last; w++) {
				const strength = this.busy(s, w);
				if (strength === 0) continue;
				const k = this.patternOf(s, w);
				if (!slots) {
					for (let i = 0; i < counts.length; i++)
						counts[i] += strength * patterns[k][i];
					continue;
				}
				const count = strength * totals[k];
				let j = 0;
				for (let i = 0; i < counts.length; i++)
					for (let n = 0; n < strength * patterns[k][i]; n++, j++) {
						const at =
							w * WINDOW +
							this.slotOf(s, w, j, count) * 20;
						if (at < range.from || at >= range.to) continue;
						const row = Math.floor((at % 1000) / 20);
						if (row >= slots[0] && row <= slots[1]) counts[i]++;
					}
			}
			const value = by === 'pid' ? `${labels.comm} (${labels.pid})` : labels[by];
			const root = by ? trie.child(0, this.groupFunction(value)) : 0;
			paths.forEach((p, i) => {
				if (counts[i] === 0) return;
				let node = root;
				for (const f of p.path) node = trie.child(node, f);
				(base ? trie.base : trie.self)[node] += counts[i] * PERIOD;
				samples += counts[i];
			});
		}
		return samples;
	}

	snap(r) {
		const [first, last] = this.windows(r);
		return {from: first * WINDOW, to: last * WINDOW};
	}

	tree(p, compares) {
		const asked = {from: Number(p.get('from')), to: Number(p.get('to'))};
		const slotsText = p.get('slots');
		const slots =
			slotsText === null
				? null
				: slotsText === '1'
					? [0, 49]
					: slotsText.split('-').map(Number);
		const range = slots ? asked : this.snap(asked);
		const trie = new Trie();
		const by = p.get('by') ?? '';
		const samples = this.addTo(trie, p.get('query'), range, {by, slots});
		const answer = {
			type: 'cpu',
			unit: 'nanoseconds',
			period: PERIOD,
			...range,
			samples,
			lost: 0,
			total: samples * PERIOD,
			stacks: samples,
			incomplete: Math.floor(samples / 100),
			by_frame_pointers: Math.floor(samples / 8),
			frames: samples * 10,
			unnamed: Math.floor(samples / 4),
			hint: 'most unnamed frames are in <app>',
			pruned: 0,
			least: 0,
			functions: this.functions,
			modules: this.modules,
			kinds: KINDS,
		};
		if (compares) {
			const r = this.snap({
				from: Number(p.get('base_from')),
				to: Number(p.get('base_to')),
			});
			const n = this.addTo(trie, p.get('base_query'), r, {by, base: true});
			answer.base = {...r, total: n * PERIOD, samples: n};
		}
		answer.nodes = trie.columns(compares);
		return answer;
	}

	timeline(p) {
		const step = Number(p.get('step'));
		const by = p.get('by') ?? '';
		const start = Math.floor(Number(p.get('from')) / step) * step;
		const steps = Math.ceil((Number(p.get('to')) - start) / step);
		const lines = new Map();
		const covered = [];
		const restarted = [];
		const each = step / WINDOW;
		const first = start / WINDOW;
		for (let i = 0; i < steps; i++) {
			let any = 0;
			let began = 0;
			for (let w = first + i * each; w < first + (i + 1) * each; w++) {
				if (this.covered(w)) any = 1;
				if (this.restarted(w)) began = 1;
			}
			covered.push(any);
			restarted.push(began);
		}
		for (const s of this.wanted(p.get('query'))) {
			const value = this.series[s].labels[by] ?? '';
			let line = lines.get(value);
			if (!line) {
				line = {value, total: 0, values: new Array(steps).fill(0)};
				if (by === 'pid') line.name = this.series[s].labels.comm;
				lines.set(value, line);
			}
			for (let i = 0; i < steps; i++)
				for (let w = first + i * each; w < first + (i + 1) * each; w++) {
					const strength = this.busy(s, w);
					if (strength) {
						const n =
							strength *
							this.series[s].totals[
								this.patternOf(s, w)
							] *
							PERIOD;
						line.values[i] += n;
						line.total += n;
					}
				}
		}
		const sorted = [...lines.values()]
			.filter(l => l.total > 0)
			.sort((a, b) => b.total - a.total);
		const most = Number(p.get('max') ?? 8);
		const rest = {total: 0, values: new Array(steps).fill(0)};
		for (const l of sorted.splice(most)) {
			rest.total += l.total;
			l.values.forEach((n, i) => {
				rest.values[i] += n;
			});
		}
		return {
			start,
			step,
			steps,
			unit: 'nanoseconds',
			period: PERIOD,
			covered,
			restarted,
			lines: sorted,
			rest,
		};
	}

	/* Of a type that is a sum over windows: as much in each as the timeline has. */
	windowsHeat(p) {
		const {start, lines, covered} = this.timeline(
			new URLSearchParams([...p, ['step', WINDOW], ['max', 1e6]]),
		);
		const values = covered.map((_, i) => lines.reduce((n, l) => n + l.values[i], 0));
		return {start, step: WINDOW, unit: 'nanoseconds', covered, values};
	}

	heat(p) {
		const from = Number(p.get('from'));
		const to = Number(p.get('to'));
		if (/^(offcpu|oncpu|wall)\b/.test(p.get('query'))) return this.windowsHeat(p);
		if (to - from > 600_000)
			throw Object.assign(new Error('a heatmap spans at most 10 minutes'), {
				status: 400,
			});
		const counts = new Array((to - from) / 20).fill(0);
		const [first, last] = this.windows({from, to});
		for (const s of this.wanted(p.get('query')))
			for (let w = first; w < last; w++) {
				const count =
					this.busy(s, w) *
					this.series[s].totals[this.patternOf(s, w)];
				for (let j = 0; j < count; j++) {
					const at =
						(w * WINDOW +
							this.slotOf(s, w, j, count) * 20 -
							from) /
						20;
					if (at >= 0 && at < counts.length) counts[at]++;
				}
			}
		return {start: from, step: 20, period: PERIOD, counts};
	}

	/* As a real server said it, once, with this one's times. */
	status() {
		const isEmpty = EMPTY.includes(this.mode);
		const real = JSON.parse(readFileSync(path.join(HERE, 'status.json'), 'utf8'));
		const store = {...real.store, first: this.now - 31 * DAY, last: this.now};
		if (isEmpty) Object.assign(store, {first: 0, last: 0});
		const problem = 'The sampler could not be loaded: CAP_PERFMON is missing.';
		const collector = isEmpty
			? {
					...real.collector,
					state: this.mode,
					last: 0,
					problem: this.mode === 'failed' ? problem : '',
				}
			: real.collector;
		return {...real, now: Date.now(), store, collector};
	}

	labelValues(name, query) {
		const found = new Set(this.wanted(query).map(s => this.series[s].labels[name]));
		return {values: [...found].filter(v => v !== undefined).sort(), cut: false};
	}

	/* In the mode 'wrong': one that lasts, and one that is over. */
	findings(p) {
		const {now} = this;
		const of = (kind, comm, began, until, active) => ({
			kind,
			began,
			until,
			active,
			sure: 0.9,
			pid: Number(pidOf(2)),
			tid: 0,
			comm,
			thread: '',
			container: 'shop-web',
			host: 'web-1',
			headline: `${comm} (pid ${pidOf(2)}) calls epoll_wait with a timeout of 0.`,
			means: 'A loop asks again and again instead of waiting.',
			next: `smolder trace -p ${pidOf(2)} -e epoll_wait -k`,
			stack: 'main;loop;epoll_wait',
			facts: {},
		});
		const all = [
			of('busy-poll', 'python3', now - 600_000, now, true),
			of('failing-calls', '<b>x</b>', now - 3000_000, now - 2400_000, false),
		];
		const inRange = f =>
			f.until >= Number(p.get('from')) && f.began < Number(p.get('to'));
		return this.mode === 'wrong' ? all.filter(inRange) : [];
	}

	/* Against yesterday and a week ago; around a moment, or of two ranges, one comparison. */
	changes(p) {
		const hour = 3600_000;
		const link = more =>
			`/#v=1&t=${this.now - hour}-${this.now}&base=${this.now - 25 * hour}-${this.now - 24 * hour}&${more}`;
		const of = (name, change, seconds, more) => ({
			process: 'node',
			function: name,
			module: 'node',
			kind: 'native',
			of: 'self',
			base_share: 0.164,
			share: 0.164 * (1 + (change ?? 0)),
			change,
			cpu_seconds_a_day: seconds,
			p: 1e-7,
			path: ['main', 'listen', 'serve', name],
			query: 'cpu{comm="node"}',
			link: link(`q=cpu%7Bcomm%3D%22node%22%7D&s=${encodeURIComponent(name)}`),
			...more,
		});
		const one = (against, more) => ({
			against,
			query: p.get('query') ?? 'cpu',
			from: this.now - hour,
			to: this.now,
			base_from: Number(p.get('base_from') ?? this.now - 25 * hour),
			base_to: Number(p.get('base_to') ?? this.now - 24 * hour),
			block: 60_000,
			blocks: 60,
			base_blocks: 60,
			samples: 9000,
			base_samples: 8000,
			compared: true,
			tested: 180,
			cpus: 1.32,
			base_cpus: 1.07,
			functions: [],
			processes: [],
			link: link(''),
			...more,
		});
		const process = {
			process: 'python3',
			change: 1.03,
			cpus: 0.45,
			base_cpus: 0.22,
			cpu_seconds_a_day: 19760,
			p: 1e-9,
			link: link('q=cpu%7Bcomm%3D%22python3%22%7D'),
		};
		const found = {
			functions: [
				of(this.mode === 'hostile' ? HOSTILE[0] : 'renderRows', 0.2, 2066),
				of('[unnamed]', null, 1200, {
					module: 'libssl.so.3',
					of: 'total',
					base_share: 0,
					share: 0.05,
				}),
				of('compress', -1, -640),
			],
			processes: [process],
		};
		if (p.get('at') || p.get('base_from'))
			return {
				comparisons: [one('the time before that moment', found)],
				versions: [],
			};
		const little = {compared: false, blocks: 2, base_blocks: 60, cpus: 0, base_cpus: 0};
		return {
			comparisons: [
				one('the same time yesterday', found),
				one('the same time a week ago', {
					base_from: this.now - 169 * hour,
					base_to: this.now - 168 * hour,
				}),
				one('the version before of node', little),
			],
			versions: [
				{
					at: this.now - 1200_000,
					sure: 10_000,
					process: 'node',
					exe: '/usr/bin/node',
				},
			],
		};
	}

	answer(url) {
		const p = url.searchParams;
		const parts = url.pathname.split('/').slice(3);
		if (this.mode === 'forbidden')
			throw Object.assign(new Error('this needs a token'), {status: 401});
		if (this.mode === 'broken' && parts[0] !== 'status')
			throw Object.assign(new Error('the query took longer than 10 s'), {
				status: 504,
			});
		if (parts[0] === 'status') return this.status();
		if (parts[0] === 'findings') return {findings: this.findings(p), cut: false};
		if (parts[0] === 'changes') return this.changes(p);
		if (parts[0] === 'types') return {types: ['cpu', 'offcpu'], cut: false};
		if (parts[0] === 'labels') {
			if (parts[2] === 'values')
				return this.labelValues(
					decodeURIComponent(parts[1]),
					p.get('query'),
				);
			return {labels: ['comm', 'container', 'host', 'pid', 'thread', 'unit']};
		}
		if (EMPTY.includes(this.mode)) return this.nothing(parts[0], p);
		if (parts[0] === 'series') return this.timeline(p);
		if (parts[0] === 'heatmap') return this.heat(p);
		if (parts[0] === 'query' && this.mode === 'big') return bigTree();
		if (parts[0] === 'query' && this.mode === 'hostile') return hostileTree();
		if (parts[0] === 'query') return this.tree(p, false);
		if (parts[0] === 'diff') return this.tree(p, true);
		throw Object.assign(new Error('there is nothing here'), {status: 404});
	}

	nothing(what, p) {
		if (what === 'series') {
			const t = this.timeline(p);
			const none = new Array(t.steps).fill(0);
			return {
				...t,
				covered: none,
				restarted: none,
				lines: [],
				rest: {total: 0, values: none},
			};
		}
		return this.tree(
			new URLSearchParams([...p, ['query', 'cpu{comm="none"}']].reverse()),
			false,
		);
	}

	handle(request, response) {
		const url = new URL(request.url, 'http://localhost');
		const headers = {
			'Content-Security-Policy': CSP,
			'X-Content-Type-Options': 'nosniff',
		};
		const send = (status, type, bytes) => {
			const packed = gzipSync(bytes, {level: 1});
			response.writeHead(status, {
				...headers,
				'Content-Type': type,
				'Content-Encoding': 'gzip',
			});
			response.end(packed);
		};
		if (!url.pathname.startsWith('/api/')) {
			const file = path.join(
				ROOT,
				process.env.BUILD ?? 'build',
				'web',
				url.pathname === '/' ? 'index.html' : path.normalize(url.pathname),
			);
			try {
				const types = {
					'.html': 'text/html; charset=utf-8',
					'.js': 'text/javascript',
					'.css': 'text/css',
					'.svg': 'image/svg+xml',
				};
				send(
					200,
					types[path.extname(file)] ?? 'application/octet-stream',
					readFileSync(file),
				);
			} catch {
				send(404, 'text/plain', 'not found');
			}
			return;
		}
		this.requests.push(url.pathname + url.search);
		const answer = () => {
			if (this.isHeld) {
				setTimeout(answer, 50);
				return;
			}
			let status = 200;
			let body;
			try {
				body = this.answer(url);
			} catch (e) {
				status = e.status ?? 500;
				body = {error: e.message};
			}
			send(status, 'application/json', JSON.stringify(body));
		};
		answer();
	}
}

/* A tree from folded lines of [names, count, kind]. */
function treeOf(stacks) {
	const names = new Set(stacks.flatMap(([path_]) => path_));
	const sorted = ['', ...[...names].filter(n => n !== '').sort()];
	const index = new Map(sorted.map((n, i) => [n, i]));
	const trie = new Trie();
	let samples = 0;
	for (const [path_, count] of stacks) {
		let node = 0;
		for (const n of path_) node = trie.child(node, index.get(n));
		trie.self[node] += count * PERIOD;
		samples += count;
	}
	const to = Math.floor(Date.now() / WINDOW) * WINDOW;
	return {
		type: 'cpu',
		unit: 'nanoseconds',
		period: PERIOD,
		from: to - 3600_000,
		to,
		samples,
		lost: 0,
		total: samples * PERIOD,
		pruned: 0,
		least: 0,
		functions: {
			name: sorted,
			module: sorted.map((_, i) => (i === 0 ? 0 : 1 + (i % 5))),
			kind: sorted.map((_, i) => (i === 0 ? 7 : i % 7)),
		},
		modules: ['', 'server', 'libc.so.6', 'libssl.so.3', 'node', '[kernel]'],
		kinds: KINDS,
		nodes: trie.columns(false),
	};
}

/* 100,000 frames: calls that fan out, as wide as deep programs are. */
export function bigStacks(frames = 100_000) {
	let seed = 7;
	const next = n => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
	const stacks = [];
	let nodes = 0;
	const grow = (path_, budget) => {
		nodes++;
		let rest = budget - 1;
		stacks.push([path_, 1 + next(9)]);
		const fan = 1 + next(4);
		for (let i = 0; i < fan && rest > 0 && path_.length < 60; i++) {
			const part = i === fan - 1 ? rest : Math.ceil((rest * (1 + next(5))) / 8);
			grow(
				[
					...path_,
					`ns${i}::module_${path_.length}::function_${next(40)}_${i}`,
				],
				part,
			);
			rest -= part;
		}
	};
	while (nodes < frames) grow([`thread_${nodes}`], Math.min(20_000, frames - nodes));
	return stacks;
}

let big = null;
const bigTree = () => (big ??= treeOf(bigStacks()));

export const HOSTILE = [
	'<img src=x onerror=alert(1)>',
	']]>',
	'</script><script>alert(1)</script>',
	'"><script>alert(1)</script>',
	'&lt;b&gt;',
	// biome-ignore lint/suspicious/noTemplateCurlyInString: that is the point
	'${alert(1)}',
	'javascript:alert(1)',
	'__proto__',
	'constructor',
	'x'.repeat(1 << 20),
	'漢字の関数名',
	'\ufffdgnp.exe',
];
const hostileTree = () =>
	treeOf(HOSTILE.map((n, i) => [[n, HOSTILE[(i + 1) % HOSTILE.length]], 10]));

/* {url, mock, close}: mock.mode says how it behaves. */
export async function startMock(port = 0, now = Date.now()) {
	const mock = new Mock(now);
	const server = createServer((request, response) => mock.handle(request, response));
	await new Promise(done => server.listen(port, '127.0.0.1', done));
	return {
		url: `http://127.0.0.1:${server.address().port}/`,
		mock,
		close: () => {
			server.closeAllConnections();
			return new Promise(done => server.close(done));
		},
	};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const {url} = await startMock(Number(process.argv[2] ?? 7118));
	console.log(url);
}
