/*
 * changes: what takes more or less CPU time than before, by more than chance explains
 * (docs/changes.md), the most first; a click on one leads to the compared graph.
 */
import type {JSX} from 'preact';
import {useState} from 'preact/hooks';
import type {Changed, Comparison} from '../api';
import {changed, chosen, file, range, state, update} from '../data';
import {clip, clock, count, date, range as rangeText} from '../format';
import {type Range, readTime} from '../state';

const sign = (n: number): string => (n < 0 ? '−' : '+');

const times = (c: Changed): string => {
	if (c.change === null) return 'new';
	if (c.change <= -1) return 'gone';
	return `${sign(c.change)}${Math.round(100 * Math.abs(c.change))} %`;
};

/* The server's link, with this panel still open. */
const address = (c: Changed): string =>
	`#${c.link.replace(/^.*?#/, '')}&what=${encodeURIComponent(state.value.what)}`;

function Row({c}: {c: Changed}): JSX.Element {
	const shares =
		c.cpus === undefined
			? `${(100 * c.base_share!).toFixed(1)} → ${(100 * c.share!).toFixed(1)} %`
			: `${c.base_cpus!.toFixed(2)} → ${c.cpus.toFixed(2)} CPUs`;
	const name = c.function === '[unnamed]' ? 'functions without a name' : c.function;
	return (
		<tr>
			<td class={c.cpu_seconds_a_day > 0 ? 'more' : 'less'}>
				{sign(c.cpu_seconds_a_day)}
				{count(Math.abs(c.cpu_seconds_a_day))}
			</td>
			<td>{times(c)}</td>
			<td>{shares}</td>
			<td>
				<a href={address(c)} title="Show the compared graph">
					{clip(name ?? c.process, 120)}
				</a>
				{name !== undefined && (
					<small>
						{c.of === 'total' && ', with what it calls'} in{' '}
						{c.process}
						{c.module !== c.process &&
							c.module &&
							`, ${clip(c.module, 40)}`}
						<br />
						{clip(c.path!.slice(-7, -1).join(' › '), 300)}
					</small>
				)}
			</td>
		</tr>
	);
}

function Rows(props: {title: string; shares: string; list: Changed[]}): JSX.Element | null {
	if (props.list.length === 0) return null;
	return (
		<>
			<tr>
				<th>CPU s/day</th>
				<th>Change</th>
				<th>{props.shares}</th>
				<th>{props.title}</th>
			</tr>
			{props.list.map(c => (
				<Row key={c.link} c={c} />
			))}
		</>
	);
}

function One({c}: {c: Comparison}): JSX.Element {
	const found = c.functions.length + c.processes.length;
	return (
		<>
			<h2>
				Against {c.against}{' '}
				<small>
					{rangeText(c.base_from, c.base_to)}, of {c.query}:{' '}
					{c.cpus.toFixed(2)} CPUs, and {c.base_cpus.toFixed(2)} then
				</small>
			</h2>
			{!c.compared && (
				<p>
					Too little is recorded to tell what varies ordinarily: 4
					blocks of {c.block / 1000} s are needed, and there are{' '}
					{c.blocks} now, {c.base_blocks} then.
				</p>
			)}
			{c.compared && found === 0 && (
				<p>
					Nothing changed by more than chance and ordinary variation
					explain.
				</p>
			)}
			<table>
				<tbody>
					<Rows
						title="Function, for the same work"
						shares="Of its process"
						list={c.functions}
					/>
					<Rows title="Process" shares="CPUs" list={c.processes} />
				</tbody>
			</table>
		</>
	);
}

function Moment(): JSX.Element {
	const now = Number(state.value.what);
	const stamp = (ms: number): string => `${date(ms)} ${clock(ms)}`;
	const [text, setText] = useState(now > 0 ? stamp(now) : '');
	const submit = (e: Event): void => {
		e.preventDefault();
		const at = readTime(text);
		if (at > 0) update({what: String(Math.round(at))}, true);
	};
	return (
		<form onSubmit={submit}>
			<input
				type="text"
				aria-label="Before and after a moment"
				placeholder="a moment: 14:02"
				value={text}
				onInput={e => setText(e.currentTarget.value)}
			/>
			<button type="submit" aria-pressed={now > 0}>
				Before and after
			</button>
		</form>
	);
}

/* Two ranges stand still, even while the page follows now. */
function compareRanges(): void {
	const {base, live} = state.value;
	const {from, to} = chosen.value;
	const before: Range = base ?? {from: 2 * from - to, to: from};
	const still = live ? {live: false, range: range.value} : {};
	update({what: 'ranges', base: before, ...still}, true);
}

export function ChangesPanel(): JSX.Element | null {
	const {what} = state.value;
	const answer = changed.data.value;
	const error = changed.error.value;
	if (what === '' || file.value) return null;
	return (
		<section class="changed" aria-label="What changed" aria-busy={changed.isBusy.value}>
			<div class="buttons">
				<button
					type="button"
					aria-pressed={what === 'usual'}
					onClick={() => update({what: 'usual'}, true)}
				>
					Last hour against yesterday and last week
				</button>
				<button
					type="button"
					aria-pressed={what === 'ranges'}
					onClick={compareRanges}
				>
					Chosen range against its base
				</button>
				<Moment key={what} />
			</div>
			{error && <p role="alert">{error.message}</p>}
			{!answer && !error && <p>Comparing…</p>}
			{answer?.comparisons.map(c => (
				<One key={`${c.query} ${c.base_from}`} c={c} />
			))}
			{answer?.versions.map(v => (
				<p key={`${v.at} ${v.process}`}>
					{clock(v.at)}: a new version of {v.process}
					{v.version &&
						`, ${clip(v.version, 40)} instead of ${clip(v.base_version, 40)}`}{' '}
					<button
						type="button"
						onClick={() => update({what: String(v.at)}, true)}
					>
						Before and after
					</button>
				</p>
			))}
		</section>
	);
}
