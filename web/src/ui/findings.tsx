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

const second = (ms: number): number => Math.floor(ms / 1000) * 1000;

function Line({f}: {f: Finding}): JSX.Element {
	return (
		<details data-kind={f.kind}>
			<summary>
				<b>{f.kind}</b> {f.headline}
				<span class="soft">
					{' '}
					{f.active
						? `since ${clock(f.began)}`
						: rangeText(second(f.began), second(f.until))}
				</span>
			</summary>
			<p>{f.means}</p>
			{f.stack && <p class="code">{clip(f.stack.replaceAll(';', ' › '), 600)}</p>}
			<p>
				<code>{f.next}</code>
				{f.container && ` in ${f.container}`}
				{`, on ${f.host}, for ${span(second(f.until - f.began))} `}
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
			{list.map(f => (
				<Line key={`${f.host} ${f.kind} ${f.pid} ${f.began}`} f={f} />
			))}
		</section>
	);
}
