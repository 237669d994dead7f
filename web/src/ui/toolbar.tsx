/*
 * toolbar: how the graph and the table are shown, the search, comparing, saving.
 */
import {computed, effect, signal} from '@preact/signals';
import type {JSX} from 'preact';
import {useRef, useState} from 'preact/hooks';
import {address, get, type Profile} from '../api';
import {type ColourBy, diffColours, functionColours} from '../colour';
import {
	chosen,
	file,
	hasTimes,
	hits,
	isBadSearch,
	isComparing,
	matchedShare,
	profile,
	range,
	selectorOf,
	shown,
	state,
	status,
	theme,
	tree,
	treeParameters,
	treePath,
	update,
	weight,
	zoomNode,
} from '../data';
import {download, folded, png, pprof, speedscope, svg} from '../files/save';
import {amount, clock, count, date, percent, range as rangeText} from '../format';
import type {Look} from '../paint';
import {DEFAULT, type Range, type View, write} from '../state';
import {matches} from '../tree';
import {toggleRecursion} from './actions';
import {Choice, copy, Dropdown, notify} from './controls';
import {compareWithServer, pickFile} from './drop';
import {showNode} from './flame';
import {labelName, labelOptions} from './timeline';

// ---- search ---------------------------------------------------------------------------------------

const found = computed<number[]>(() => {
	const t = tree.value;
	return t && hits.value ? matches(t, hits.value, Math.min(zoomNode.value, t.count - 1)) : [];
});
const at = signal(-1);
effect(() => {
	void found.value;
	at.value = -1;
});

export function nextMatch(direction: number): void {
	const n = found.value.length;
	if (n === 0) return;
	at.value = at.value < 0 ? (direction > 0 ? 0 : n - 1) : (at.value + direction + n) % n;
	showNode(found.value[at.value]);
}

function Search(): JSX.Element {
	const share = matchedShare.value;
	const text = isBadSearch.value
		? 'not a regular expression'
		: share
			? `${percent(share.sum, share.of)} matched`
			: '';
	return (
		<div class="search" role="search">
			<input
				type="text"
				id="search"
				class={isBadSearch.value ? 'wrong' : ''}
				placeholder="Search functions"
				aria-label="Search functions by regular expression"
				title="A regular expression; press / to search. Lower case matches both cases."
				autocomplete="off"
				spellcheck={false}
				value={state.value.search}
				onInput={e => update({search: e.currentTarget.value})}
				onKeyDown={e => {
					if (e.key !== 'Enter') return;
					e.preventDefault();
					nextMatch(e.shiftKey ? -1 : 1);
				}}
			/>
			<output for="search">
				{text}
				{found.value.length > 0 && (
					<span class="of">
						{at.value >= 0 ? `${count(at.value + 1)} / ` : ''}
						{count(found.value.length)}
					</span>
				)}
			</output>
			<button
				type="button"
				title="Previous match (N)"
				disabled={found.value.length === 0}
				onClick={() => nextMatch(-1)}
			>
				‹<span class="unseen">Previous match</span>
			</button>
			<button
				type="button"
				title="Next match (n)"
				disabled={found.value.length === 0}
				onClick={() => nextMatch(1)}
			>
				›<span class="unseen">Next match</span>
			</button>
		</div>
	);
}

// ---- comparing ------------------------------------------------------------------------------------

function compareWith(base: Range): void {
	const s = state.value;
	update(s.live ? {base, live: false, range: range.value} : {base}, true);
}

export const stopComparing = (): void => {
	update({base: null, baseQuery: '', scale: DEFAULT.scale}, true);
	const f = file.value;
	if (f?.alone) file.value = f.alone.isServers ? null : f.alone;
};

function CompareMenu({close}: {close: () => void}): JSX.Element {
	const [text, setText] = useState(state.value.baseQuery);
	const [problem, setProblem] = useState('');
	const c = chosen.value;
	const before = (ms: number): void => {
		compareWith({from: c.from - ms, to: c.to - ms});
		close();
	};
	const submit = (e: Event): void => {
		e.preventDefault();
		const s = selectorOf(text);
		if (typeof s === 'string') {
			setProblem(s);
			return;
		}
		update({baseQuery: text.trim()}, true);
		close();
	};
	if (file.value)
		return (
			<div class="items">
				<button
					type="button"
					onClick={() => {
						close();
						pickFile(true);
					}}
				>
					Another file…
				</button>
				<button
					type="button"
					onClick={() => {
						close();
						void compareWithServer();
					}}
				>
					The server’s profile{' '}
					<small>
						{state.value.query}, {rangeText(c.from, c.to)}
					</small>
				</button>
			</div>
		);
	return (
		<>
			<div class="items">
				<button type="button" onClick={() => before(c.to - c.from)}>
					What was just before
				</button>
				<button type="button" onClick={() => before(86400_000)}>
					The same time the day before
				</button>
				<button type="button" onClick={() => before(7 * 86400_000)}>
					The same time the week before
				</button>
				<button
					type="button"
					onClick={() => {
						close();
						pickFile(true);
					}}
				>
					A file…
				</button>
			</div>
			<p>Or drag over the timeline with Shift held down.</p>
			<form onSubmit={submit}>
				<label>
					Or other series, by selector
					<input
						type="text"
						value={text}
						placeholder={'cpu{comm="nginx"}'}
						spellcheck={false}
						onInput={e => setText(e.currentTarget.value)}
					/>
				</label>
				{problem && <p role="alert">{problem}</p>}
				<button type="submit">Compare</button>
			</form>
		</>
	);
}

// ---- saving ---------------------------------------------------------------------------------------

function currentLook(): Look | null {
	const t = tree.value;
	const names = profile.value?.tree;
	if (!t || !names) return null;
	const zoom = Math.min(zoomNode.value, t.count - 1);
	return {
		tree: t,
		from: t.start[zoom],
		to: t.start[zoom] + t.size[zoom],
		zoom,
		icicle: state.value.icicle,
		rows: 0,
		first: 0,
		functions: functionColours(names, state.value.colour, theme.value),
		nodes: t.baseTotal ? diffColours(t, weight.value, theme.value) : null,
		marks: null,
		hits: hits.value,
		theme: theme.value,
	};
}

function titles(p: Profile, host: string): [string, string] {
	const where = host ? ` on ${host === SEVERAL ? 'several hosts' : host}` : '';
	const title = file.value?.name ?? `${state.value.query}${where}`;
	const when = p.from ? `${rangeText(p.from, p.to)}, ` : '';
	const samples = p.samples ? `, ${count(p.samples)} samples` : '';
	return [title, `${when}${amount(p.tree.total[0], p.unit)}${samples}`];
}

const FORMATS: [string, string, string][] = [
	['svg', 'SVG', 'picture'],
	['png', 'PNG', 'picture'],
	['pb.gz', 'pprof', 'for go tool pprof'],
	['folded', 'Folded', 'one line per stack'],
	['speedscope.json', 'speedscope', 'for speedscope.app'],
];

const SEVERAL = 'several-hosts';

/* Which machine a profile is of: several may send to one server. */
async function hostOf(p: Profile): Promise<string> {
	try {
		const of = {query: state.value.query, from: p.from, to: p.to, max: 2};
		const {values} = await get<{values: string[]}>(address('labels/host/values', of));
		if (values.length > 0) return values.length === 1 ? values[0] : SEVERAL;
	} catch {
		// It can be saved all the same.
	}
	return status.data.value?.host ?? '';
}

const stamp = (ms: number): string => `${date(ms)}T${clock(ms).replaceAll(':', '.')}`;

/* The name of a file: what it is of, where that was, and when. */
function stem(p: Profile, host: string): string {
	const f = file.value;
	if (f)
		return plainName(
			f.name.replace(/(\.(folded|pb|gz|json|speedscope|txt|svg|perf))+$/, ''),
		);
	const s = selectorOf(state.value.query);
	const what =
		typeof s === 'string'
			? [p.type]
			: [
					s.type,
					...s.matchers.map(
						m => `${/^!/.test(m.op) ? 'not-' : ''}${m.value}`,
					),
				];
	const {from, to} = shown.value.chosen;
	const end = date(from) === date(to) ? clock(to).replaceAll(':', '.') : stamp(to);
	const parts = [what.join('-'), host, `${stamp(from)}-${end}`];
	if (isComparing.value) parts.splice(1, 0, 'compared');
	return plainName(parts.filter(part => part !== '').join('_'));
}

const plainName = (text: string): string => text.replace(/[^\w.+-]+/g, '_').slice(0, 120);

async function save(extension: string): Promise<void> {
	const look = currentLook();
	const p = profile.value;
	if (!look || !p) return;
	const host = file.value ? '' : await hostOf(p);
	const [title, subtitle] = titles(p, host);
	const {tree: t, zoom} = look;
	const name = `${stem(p, host)}.${extension}`;
	if (extension === 'svg') download(svg(p, look, title, subtitle), 'image/svg+xml', name);
	else if (extension === 'folded') download(folded(p, t, zoom), 'text/plain', name);
	else if (extension === 'pb.gz') download(await pprof(p, t, zoom), '', name);
	else if (extension === 'png') {
		const blob = await png(look, title, subtitle);
		if (!blob) return notify('The picture is too large for the browser');
		download(blob, '', name);
	} else download(speedscope(p, t, zoom, title), 'application/json', name);
	notify(`Saved ${name}`);
}

/* A link that means the same tomorrow: what follows now becomes what it is now. */
function link(): string {
	const s = state.value;
	const fixed = s.live ? {...s, live: false, range: range.value} : s;
	return new URL(write(fixed) || '#', location.href.replace(/#.*/, '')).href;
}

function SaveMenu({close}: {close: () => void}): JSX.Element {
	return (
		<div class="items">
			{!file.value && (
				<button
					type="button"
					onClick={() => {
						close();
						void copy(link(), 'the link');
					}}
				>
					Copy link <small>to exactly this view</small>
				</button>
			)}
			{FORMATS.map(([extension, name, what]) => (
				<button
					key={extension}
					type="button"
					onClick={() => {
						close();
						void save(extension);
					}}
				>
					{name} <small>{what}</small>
				</button>
			))}
			{!file.value && !isComparing.value && profile.value && (
				<a
					href={address(treePath.value, {
						...treeParameters.value,
						format: 'pprof',
					})}
					download={`${stem(profile.value!, status.data.value?.host ?? '')}.pb.gz`}
					onClick={close}
				>
					pprof from the server{' '}
					<small>
						with addresses and labels, without your changes
					</small>
				</a>
			)}
		</div>
	);
}

// ---- all of it ------------------------------------------------------------------------------------

const VIEWS: [View, string][] = [
	['split', 'Both'],
	['flame', 'Graph'],
	['table', 'Table'],
];

export const isHelpOpen = signal(false);
export const isMenuOpen = signal(false); // on narrow screens: all controls, not only the few

export function Toolbar(): JSX.Element {
	const s = state.value;
	const bar = useRef<HTMLDivElement>(null);
	const groups: [string, string][] = [
		['', 'nothing'],
		...[...new Set([...(s.group ? [s.group] : []), ...labelOptions.value])].map(
			(l): [string, string] => [l, labelName(l)],
		),
	];
	const isMerged = s.changes.some(c => c.op === 'recursion');
	return (
		<div class="toolbar" ref={bar} role="toolbar" aria-label="View">
			<div class="segments" role="group" aria-label="Display">
				{VIEWS.map(([view, name]) => (
					<button
						key={view}
						type="button"
						aria-pressed={s.view === view}
						onClick={() => update({view}, true)}
					>
						{name}
					</button>
				))}
			</div>
			<Search />
			<span class="grow" />
			{!file.value && (
				<button
					type="button"
					aria-pressed={s.heat}
					title={
						hasTimes.value
							? 'When samples were taken, to 20 ms'
							: 'How much there was in each 10 s'
					}
					onClick={() => update({heat: !s.heat}, true)}
				>
					Heatmap
				</button>
			)}
			{!file.value && (
				<button
					type="button"
					aria-pressed={s.what !== ''}
					title="What takes more or less CPU time than before"
					onClick={() => update({what: s.what ? '' : 'usual'}, true)}
				>
					What changed
				</button>
			)}
			<button
				type="button"
				aria-pressed={s.icicle}
				title="Callers on top (i)"
				onClick={() => update({icicle: !s.icicle}, true)}
			>
				Icicle
			</button>
			<button
				type="button"
				aria-pressed={isMerged}
				title="Merge recursive calls into one frame (r)"
				onClick={toggleRecursion}
			>
				Merge recursion
			</button>
			<Choice<ColourBy>
				label="Colour"
				value={s.colour}
				options={[
					['kind', 'by kind'],
					['library', 'by library'],
					['name', 'by name'],
				]}
				onChange={colour => update({colour}, true)}
			/>
			{!file.value && (
				<Choice
					label="Group by"
					value={s.group}
					options={groups}
					onChange={group => update({group, zoom: ''}, true)}
				/>
			)}
			<Dropdown label="Compare" align="right" isOn={isComparing.value}>
				{close => <CompareMenu close={close} />}
			</Dropdown>
			<Dropdown label="Save" align="right">
				{close => <SaveMenu close={close} />}
			</Dropdown>
		</div>
	);
}
