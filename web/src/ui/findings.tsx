/*
 * findings: what the collector found wrong by itself in the range that is shown (docs/findings.md): a
 * line for each, that opens. Nothing where there is none.
 */
import type {JSX} from 'preact';
import type {Finding} from '../api';
import {chosen, file, findings, showSelector, update} from '../data';
import {clip, clock, range as rangeText, span} from '../format';

/* Shows the process in its time, and a little around that. */
function show(f: Finding): void {
	const from = Math.floor((f.began - 10_000) / 10_000) * 10_000;
	const to = Math.ceil((f.until + 10_000) / 10_000) * 10_000;
	update({selected: {from, to}});
	const label = f.pid ? 'pid' : 'comm';
	showSelector({
		type: 'cpu',
		matchers: [{label, op: '=', value: f.pid ? String(f.pid) : f.comm}],
	});
}

/* In the words of `smolder findings`. */
const sureness = (sure: number): string =>
	sure >= 0.9 ? 'Almost certain' : sure >= 0.7 ? 'Likely' : 'Maybe';

/* How much of a CPU is at stake, as finding_order() has it. */
const weight = (f: Finding): number => f.sure * (f.facts.cpu_share ?? 1);

/* What still holds first, and of that what takes most; the rest as it comes, the latest first. */
const order = (a: Finding, b: Finding): number =>
	a.active && b.active ? weight(b) - weight(a) : Number(b.active) - Number(a.active);

const things = (n: number): string => (n === 1 ? 'One thing' : `${n} things`);

/* "3 things look wrong now, 2 more did in this time." */
function Lead({list}: {list: Finding[]}): JSX.Element {
	const now = list.filter(f => f.active).length;
	const then = list.length - now;
	const words = [
		now && `${things(now)} ${now === 1 ? 'looks' : 'look'} wrong now`,
		then && `${now ? `${then} more did` : `${things(then)} looked wrong`} in this time`,
	];
	return <h2>{words.filter(Boolean).join(', ')}</h2>;
}

const second = (ms: number): number => Math.floor(ms / 1000) * 1000;

function Line({f}: {f: Finding}): JSX.Element {
	return (
		<details data-kind={f.kind}>
			<summary>
				{f.active ? <b>{f.headline}</b> : f.headline}
				<span class="soft">
					{' '}
					{f.active
						? `Since ${clock(f.began)}`
						: rangeText(second(f.began), second(f.until))}
				</span>
			</summary>
			<p>{f.means}</p>
			{f.stack && (
				<p class="code">
					Called from {clip(f.stack.replaceAll(';', ' › '), 600)}
				</p>
			)}
			<p>
				See: <code>{f.next}</code>
			</p>
			<p class="soft">
				{`${sureness(f.sure)}; ${f.active ? 'so far ' : ''}${span(second(f.until - f.began))}`}
				{f.container && `, in ${f.container}`}
				{` on ${f.host} [${f.kind}] `}
				{(f.pid > 0 || f.comm) && (
					<button type="button" onClick={() => show(f)}>
						Show
					</button>
				)}
			</p>
		</details>
	);
}

export function Findings(): JSX.Element | null {
	const {from, to} = chosen.value;
	const list = (findings.data.value ?? []).filter(f => f.until >= from && f.began < to);
	if (list.length === 0 || file.value) return null;
	return (
		<section class="findings" aria-label="Findings">
			<Lead list={list} />
			{list.sort(order).map(f => (
				<Line key={`${f.host} ${f.kind} ${f.pid} ${f.began}`} f={f} />
			))}
		</section>
	);
}
