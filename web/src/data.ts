/*
 * data: the page's state as a signal, and what is loaded because of it. While something new is on its
 * way the old stays; an answer that came too late is dropped.
 */
import {batch, computed, effect, signal} from '@preact/signals';
import {
	ApiError,
	address,
	type ChangesAnswer,
	type Finding,
	get,
	type Heat,
	type Profile,
	profileOf,
	type Status,
	type TargetsAnswer,
	type Timeline,
	type TreeAnswer,
} from './api';
import {DARK, LIGHT} from './colour';
import {format, parse, type Selector, withMatcher} from './selector';
import {type Range, read, type State, snap, spanOf, stepOf, write} from './state';
import {
	apply,
	callers,
	focus,
	foldIdle,
	isIdlePlace,
	matched,
	narrowIdle,
	pattern,
	search,
	sizeOf,
	type Tree,
	weigh,
} from './tree';

export const NODES_MOST = 100_000;
const LIVE_EVERY = 10_000; // a window's length
const STATUS_EVERY = 10_000;
const RETRY_EVERY = 2_500; // while the server does not answer
const FIT_LEAST = 30_000; // what the timeline spans at least
const HEAT_MOST = 600_000;
const HEAT_WINDOWS_MOST = 12 * 3600_000; // of types that have no times of samples
const WINDOW = 10_000;

// ---- state ----------------------------------------------------------------------------------------

export const state = signal<State>(read(location.hash));

/* Changes the state. `push`: the browser's back button leads to what was before. */
export function update(patch: Partial<State>, push = false): void {
	const next = {...state.value, ...patch};
	// Another range has another heatmap, unless it was chosen in this one.
	if (('range' in patch || 'selected' in patch) && !('heatAt' in patch)) next.heatAt = null;
	const url = write(next) || location.pathname + location.search;
	if (write(next) !== write(state.value)) {
		if (push) history.pushState(null, '', url);
		else history.replaceState(null, '', url);
	}
	state.value = next;
}

addEventListener('popstate', () => {
	state.value = read(location.hash);
});

const darkQuery = matchMedia('(prefers-color-scheme: dark)');
export const theme = signal(darkQuery.matches ? DARK : LIGHT);
darkQuery.addEventListener('change', () => {
	theme.value = darkQuery.matches ? DARK : LIGHT;
});

// ---- what is loaded -------------------------------------------------------------------------------

/* Since when the server has not answered; 0: it does. */
export const silentSince = signal(0);
let lastHeard = 0;

function heard(): void {
	lastHeard = Date.now();
	silentSince.value = 0;
}

class Resource<T> {
	readonly data = signal<T | null>(null);
	readonly error = signal<ApiError | null>(null);
	readonly isBusy = signal(false);
	private running: AbortController | null = null;
	private url = '';

	/* Loads it unless it is loaded, or `again`. '' is nothing. */
	load<A>(url: string, make: (answer: A) => T, again = false): void {
		if (url === this.url && !again) return;
		this.running?.abort();
		this.running = null;
		this.url = url;
		if (url === '') {
			batch(() => {
				this.data.value = null;
				this.error.value = null;
				this.isBusy.value = false;
			});
			return;
		}
		const mine = new AbortController();
		this.running = mine;
		this.isBusy.value = true;
		get<A>(url, mine.signal).then(
			answer => {
				if (this.running !== mine) return;
				batch(() => {
					this.data.value = make(answer);
					this.error.value = null;
					this.isBusy.value = false;
					heard();
				});
			},
			e => {
				if (this.running !== mine) return;
				batch(() => {
					this.error.value =
						e instanceof ApiError
							? e
							: new ApiError(0, String(e));
					this.isBusy.value = false;
					if (this.error.value.status !== 0) heard();
					else if (!silentSince.value)
						silentSince.value = lastHeard || Date.now();
				});
			},
		);
	}
}

export const now = signal(Date.now()); // moves in steps of a window while live
export const timeline = new Resource<Timeline>();
export const loaded = new Resource<Profile>();
export const heat = new Resource<Heat>();
export const status = new Resource<Status>();
export const labels = new Resource<string[]>();
export const types = new Resource<string[]>(); // of profiles
export const changed = new Resource<ChangesAnswer>();
export const findings = new Resource<Finding[]>();
export const targets = new Resource<TargetsAnswer>();

/* A selector, or what is wrong with it. */
export const selectorOf = (text: string): Selector | string =>
	parse(text, types.data.value ?? undefined);

/* The profile type of what is asked for. */
export const profileType = computed<string>(() => {
	const s = selectorOf(state.value.query);
	return typeof s === 'string' ? 'cpu' : s.type;
});

/* Types of which only sums over windows are known, not when in them (src/query/computed.h). */
const SUMS = new Set(['offcpu', 'oncpu', 'wall']);

/* Types whose values are states, not sums over time: of a range, their mean (src/profile/window.h). */
const STATES = /:(inuse_space|inuse_objects|goroutines?|threadcreate):/;
export const isState = (type: string): boolean => STATES.test(type);

const isWhole = (type: string): boolean => SUMS.has(type) || isState(type);
export const hasTimes = computed(() => !isWhole(profileType.value));

/* Not a label: the parts of wall-clock time (src/query/computed.h). */
export const PART = 'part';

/* What programs tell of themselves, and not of processes: types of several parts. */
const isTold = (type: string): boolean => type.includes(':');

/* What changes with the type: wall-clock time is first of all divided into its parts. */
function ofType(type: string): Partial<State> {
	const {by, group, selected} = state.value;
	const crosses = isTold(type) !== isTold(profileType.value);
	const [old, usual] = isTold(type) ? ['comm', 'service'] : ['service', 'comm'];
	const turned = (label: string): string => (crosses && label === old ? usual : label);
	const lines = type === 'wall' ? PART : turned(by === PART ? 'comm' : by);
	const patch: Partial<State> = {by: lines, group: turned(group), changes: [], heatAt: null};
	if (!isWhole(type)) return patch;
	return {...patch, rows: null, selected: selected && snap(selected, WINDOW)};
}

/* Shows what a selector selects. */
export function showSelector(s: Selector): void {
	const other = s.type === profileType.value ? {} : ofType(s.type);
	update({query: format(s), zoom: '', ...other}, true);
}

/* … and another type of the same series. */
export function showType(type: string): void {
	const s = selectorOf(state.value.query);
	showSelector({type, matchers: typeof s === 'string' ? [] : s.matchers});
}

/* A file that was dropped on the page: shown in place of what the server has. */
export interface OpenFile {
	name: string;
	profile: Profile;
	alone: OpenFile | null; // before it was compared with another
	isServers?: boolean; // no file, but what the server had
}

export const file = signal<OpenFile | null>(null);
export const fileProblem = signal('');

/* What is asked for, in whole steps. */
const asked = computed<Range>(() => {
	const s = state.value;
	if (!s.live && s.range) return snap(s.range, stepOf(s.range));
	const span = spanOf(s);
	const step = stepOf({from: 0, to: span});
	const to = Math.ceil(now.value / step) * step;
	return {from: to - span, to};
});

/* What the timeline spans: unless told how much, no more than there is. */
export const range = computed<Range>(() => {
	const r = asked.value;
	const t = timeline.data.value;
	if (!state.value.live || state.value.span !== 0 || !t) return r;
	const first = t.covered.indexOf(1);
	const from = Math.min(t.start + first * t.step, r.to - FIT_LEAST);
	return first >= 0 && from > r.from ? {from, to: r.to} : r;
});

/* Does it span less than an hour because there is no more? */
export const isFitted = computed(() => range.value.from > asked.value.from);

/* What the graph is to be of. */
export const chosen = computed<Range>(() => state.value.selected ?? range.value);

/*
 * What the graph is of: when what was chosen cannot be loaded, what was there before. The words beside
 * the graph are of this.
 */
export const shown = signal<{chosen: Range; rows: [number, number] | null}>({
	chosen: chosen.peek(),
	rows: state.peek().rows,
});
export const isStale = computed(
	() => (loaded.error.value ?? timeline.error.value) !== null && loaded.data.value !== null,
);

/* Is it a choice of 20 ms slots, and not of windows? */
const isFine = (r: Range): boolean => r.from % WINDOW !== 0 || r.to % WINDOW !== 0;

export const heatMost = computed(() => (hasTimes.value ? HEAT_MOST : HEAT_WINDOWS_MOST));

/* What the heatmap is of: as much as it can be of the end of what is chosen, or what cells are chosen in. */
export const heatRange = computed<Range>(() => {
	const {from, to} = state.value.heatAt ?? chosen.value;
	return {from: Math.max(from, to - heatMost.value), to};
});

/* Threads that wait for work are always many: what else there is would not be seen beside them. */
const heatSelector = computed<{query: string; isWithoutIdle: boolean}>(() => {
	const {query} = state.value;
	const s = selectorOf(query);
	if (typeof s === 'string' || (s.type !== 'offcpu' && s.type !== 'wall'))
		return {query, isWithoutIdle: false};
	if (s.matchers.some(m => m.label === 'state')) return {query, isWithoutIdle: false};
	const awake = withMatcher(s, {label: 'state', op: '!=', value: 'idle'});
	return {query: format(awake), isWithoutIdle: true};
});
export const isHeatWithoutIdle = computed(() => heatSelector.value.isWithoutIdle);

/* What is asked of what changed; '' is nothing. */
const changedPath = computed<string>(() => {
	const {query, what, base} = state.value;
	if (what === 'usual') return address('changes', {query});
	if (what !== 'ranges') return what && address('changes', {query, at: what, alone: 1});
	const {from, to} = chosen.value;
	const [first, last] = base ? [base.from, base.to] : ['', ''];
	return address('changes', {query, from, to, base_from: first, base_to: last, alone: 1});
});

/* Is the server asked for a comparison? */
const asksToCompare = computed(() => state.value.base !== null || state.value.baseQuery !== '');

/* The parameters of the graph's query, which an export from the server has too. */
export const treeParameters = computed<Record<string, string | number>>(() => {
	const s = state.value;
	const r = s.selected ?? asked.value; // a range that is fitted has no more in it
	const p: Record<string, string | number> = {query: s.query, from: r.from, to: r.to};
	if (hasTimes.value && s.selected && (s.rows || isFine(s.selected)))
		p.slots = s.rows ? s.rows.join('-') : 1;
	if (s.group) p.by = s.group;
	if (asksToCompare.value) {
		const b = s.base ?? r;
		p.base_query = s.baseQuery || s.query;
		p.base_from = b.from;
		p.base_to = b.to;
	}
	return p;
});

export const treePath = computed(() => (asksToCompare.value ? 'diff' : 'query'));

function refresh(again: boolean): void {
	const s = state.peek();
	const r = asked.peek();
	timeline.load<Timeline>(
		address('series', {
			query: s.query,
			from: r.from,
			to: r.to,
			step: stepOf(r),
			by: s.by,
			max: s.by === PART ? 16 : 8,
		}),
		a => a,
		again,
	);
	// Idle time with its stacks: a click on it opens them.
	const tree = {...treeParameters.peek(), format: 'tree', max_nodes: NODES_MOST, idle: 1};
	loaded.load<TreeAnswer>(address(treePath.peek(), tree), profileOf, again);
	const h = heatRange.peek();
	heat.load<Heat>(
		s.heat
			? address('heatmap', {
					query: heatSelector.peek().query,
					from: h.from,
					to: h.to,
				})
			: '',
		a => a,
		again,
	);
	changed.load<ChangesAnswer>(changedPath.peek(), a => a, again);
	labels.load<{labels: string[]}>(
		address('labels', {from: r.from, to: r.to}),
		a => a.labels,
		again,
	);
	types.load<{types: string[]}>(
		address('types', {from: r.from, to: r.to}),
		a => a.types,
		again,
	);
	findings.load<{findings: Finding[]}>(
		address('findings', {from: r.from, to: r.to}),
		a => a.findings,
		again,
	);
}

export const reload = (): void => {
	refresh(true);
	loadStatus();
};

const loadStatus = (): void => status.load<Status>('api/v1/status', a => a, true);

export function start(): void {
	effect(() => {
		void state.value;
		void asked.value;
		void treeParameters.value;
		void heatRange.value;
		void heatSelector.value;
		void changedPath.value;
		if (!file.value) refresh(false);
	});
	effect(() => {
		if (!isStale.value && !loaded.isBusy.value)
			shown.value = {chosen: chosen.value, rows: state.value.rows};
	});
	effect(() => {
		// It answers again: on with now.
		if (silentSince.value === 0 && state.peek().live) now.value = Date.now();
	});
	loadStatus();
	setInterval(() => {
		if (document.hidden || file.peek() || silentSince.peek()) return;
		if (state.peek().live) now.value = Date.now();
		if (timeline.error.peek() || loaded.error.peek()) refresh(true);
	}, LIVE_EVERY);
	setInterval(() => {
		if (document.hidden || !silentSince.peek() || status.isBusy.peek()) return;
		loadStatus();
		if (!file.peek() && !loaded.isBusy.peek()) refresh(true);
	}, RETRY_EVERY);
	setInterval(() => {
		if (!document.hidden) loadStatus();
	}, STATUS_EVERY);
	document.addEventListener('visibilitychange', () => {
		if (!document.hidden && state.peek().live) now.value = Date.now();
	});
}

// ---- what is shown --------------------------------------------------------------------------------

export const profile = computed<Profile | null>(() => file.value?.profile ?? loaded.data.value);

/* Is a comparison shown? */
export const isComparing = computed(() => profile.value?.tree.baseTotal != null);

/* By how much more time a comparison is of than its base; 1: they are as long, or it is not known. */
export const lengths = computed(() => {
	const p = profile.value;
	if (!p?.base || isState(p.type) || p.to <= p.from || p.base.to <= p.base.from) return 1;
	return (p.to - p.from) / (p.base.to - p.base.from);
});

/* How a comparison's base counts: for the same length of time, as it is, or for the same total. */
export const weight = computed(() => {
	const t = profile.value?.tree;
	if (!t?.baseTotal || state.value.scale === 'absolute' || t.baseTotal[0] === 0) return 1;
	if (state.value.scale === 'rate') return lengths.value;
	return t.total[0] / t.baseTotal[0] || 1;
});

const changes = computed(() => state.value.changes);

/* The tree after all that the user did to it … */
const edited = computed<Tree | null>(() => {
	const t = profile.value?.tree;
	return t ? apply(weigh(t, weight.value), changes.value) : null;
});

const isIdleOpen = computed(
	() => edited.value !== null && isIdlePlace(edited.value, state.value.zoom),
);

/* … with idle time folded, unless it is zoomed into. */
export const tree = computed<Tree | null>(() =>
	edited.value && !isIdleOpen.value ? narrowIdle(foldIdle(edited.value)) : edited.value,
);

const searchText = computed(() => state.value.search);
export const searchPattern = computed(() =>
	searchText.value === '' ? null : pattern(searchText.value),
);
export const isBadSearch = computed(() => searchText.value !== '' && searchPattern.value === null);

export const hits = computed<Uint8Array | null>(() => {
	const t = profile.value?.tree;
	return t && searchPattern.value ? search(t, searchPattern.value) : null;
});

const sandwichKey = computed(() => state.value.sandwich);

export const sandwich = computed(() => {
	const t = tree.value;
	const key = sandwichKey.value;
	return t && key ? {callers: callers(t, key), callees: focus(t, key)} : null;
});

export const zoomNode = signal(0); // of the graph; the view sets it from the state's place

export const matchedShare = computed(() => {
	const t = tree.value;
	const h = hits.value;
	if (!t || !h) return null;
	const node = Math.min(zoomNode.value, t.count - 1);
	return {sum: matched(t, h, node), of: sizeOf(t, node)};
});
