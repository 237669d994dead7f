/*
 * times: which stretch of time the timeline shows.
 */
import type {JSX} from 'preact';
import {useState} from 'preact/hooks';
import {now, range, state, update} from '../data';
import {clock, date, span} from '../format';
import {PRESETS, readTime} from '../state';
import {Dropdown} from './controls';

/* While live a preset changes how much is shown; else it is the last so and so much, once. */
function pick(length: number): void {
	const to = Date.now();
	const patch = state.value.live
		? {live: true, span: length, range: null}
		: {live: false, range: {from: to - length, to}, span: length};
	update({...patch, selected: null, rows: null}, true);
	if (state.value.live) now.value = to;
}

export function setLive(live: boolean): void {
	if (live) {
		now.value = Date.now();
		update({live: true, range: null, selected: null, rows: null}, true);
	} else update({live: false, range: range.value}, true);
}

function Custom({close}: {close: () => void}): JSX.Element {
	const r = range.value;
	const stamp = (ms: number): string => `${date(ms)} ${clock(ms)}`;
	const [from, setFrom] = useState(stamp(r.from));
	const [to, setTo] = useState(stamp(r.to));
	const [problem, setProblem] = useState('');
	const submit = (e: Event): void => {
		e.preventDefault();
		const a = readTime(from);
		const b = readTime(to);
		if (Number.isNaN(a) || Number.isNaN(b))
			setProblem('Use a time such as now-1h, 14:02 or 2025-11-15 14:02:05.');
		else if (b <= a) setProblem('The end must be after the beginning.');
		else {
			update(
				{live: false, range: {from: a, to: b}, selected: null, rows: null},
				true,
			);
			close();
		}
	};
	return (
		<form onSubmit={submit}>
			<label>
				From
				<input
					type="text"
					value={from}
					onInput={e => setFrom(e.currentTarget.value)}
				/>
			</label>
			<label>
				To
				<input
					type="text"
					value={to}
					onInput={e => setTo(e.currentTarget.value)}
				/>
			</label>
			{problem && <p role="alert">{problem}</p>}
			<button type="submit">Show</button>
		</form>
	);
}

export function Times(): JSX.Element {
	const s = state.value;
	const r = range.value;
	const length = r.to - r.from;
	return (
		<div class="times">
			<select
				class="narrow"
				aria-label="Time range"
				value={
					PRESETS.some(([, ms]) => ms === length)
						? String(length)
						: ''
				}
				onChange={e => pick(Number(e.currentTarget.value))}
			>
				<option value="" disabled>
					{span(length)}
				</option>
				{PRESETS.map(([name, ms]) => (
					<option key={name} value={ms}>
						{name}
					</option>
				))}
			</select>
			<div class="segments" role="group" aria-label="Time range">
				{PRESETS.map(([name, ms]) => (
					<button
						key={name}
						type="button"
						aria-pressed={length === ms}
						onClick={() => pick(ms)}
					>
						{name}
					</button>
				))}
			</div>
			<Dropdown
				className="custom"
				label={s.live ? 'Range…' : span(r.to - r.from)}
				title="Custom range"
				align="right"
			>
				{close => <Custom close={close} />}
			</Dropdown>
			<button
				type="button"
				class="live"
				aria-pressed={s.live}
				title={
					s.live
						? 'Following the present; click to stop'
						: 'Follow the present'
				}
				onClick={() => setLive(!s.live)}
			>
				<i aria-hidden="true" />
				Live
			</button>
		</div>
	);
}
