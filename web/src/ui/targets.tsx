/*
 * targets: the programs whose profiles are scraped, and how that goes (docs/scrape.md): one line for each
 * program, with the last error of each profile that is down. Nothing where nothing is scraped.
 */
import type {JSX} from 'preact';
import {useEffect} from 'preact/hooks';
import type {Target, TargetsAnswer} from '../api';
import {showSelector, status, targets} from '../data';
import {bytes, clip, clock, count} from '../format';
import {Dropdown} from './controls';

const EVERY = 5_000;

function programs(all: Target[]): Target[][] {
	const by = new Map<string, Target[]>();
	for (const t of all) {
		const key = `${t.job}\n${t.instance}`;
		by.set(key, [...(by.get(key) ?? []), t]);
	}
	return [...by.values()];
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s`;

/* What is shown of a program: its CPU time, or what it has instead. */
const FIRST = [
	'process_cpu:cpu:nanoseconds:cpu:nanoseconds',
	'memory:inuse_space:bytes:space:bytes',
];

function show(of: Target[], close: () => void): void {
	const {job, instance} = of[0];
	const has = (type: string): boolean => of.some(t => t.profile === type.split(':')[0]);
	const matchers = Object.entries({job, instance}).map(
		([label, value]) => ({label, op: '=', value}) as const,
	);
	showSelector({type: FIRST.find(has) ?? FIRST[0], matchers});
	close();
}

function Program(props: {of: Target[]; close: () => void}): JSX.Element {
	const {of} = props;
	const first = of[0];
	const down = of.filter(t => t.health === 'down');
	const errors = [...new Set(down.map(t => t.error))];
	return (
		<>
			<tr data-health={down.length ? 'down' : 'up'}>
				<th scope="row">
					<button
						type="button"
						class="quiet"
						title={first.url}
						onClick={() => show(of, props.close)}
					>
						{clip(first.job, 40)} {clip(first.instance, 60)}
					</button>
				</th>
				<td>
					{of.map(t => (
						<span
							key={t.url + t.profile}
							class={`health ${t.health}`}
							title={`${t.url}: ${t.error || t.health}, ${seconds(t.took_ms)}, ${bytes(t.bytes)} in ${count(t.scrapes)}`}
						>
							{clip(t.profile, 20)}
						</span>
					))}
				</td>
				<td class="number">
					{seconds(Math.max(...of.map(t => t.took_ms)))}
				</td>
				<td class="number">{clock(Math.max(...of.map(t => t.last)))}</td>
				<td class="number">
					{count(of.reduce((n, t) => n + t.failures, 0))}
				</td>
			</tr>
			{errors.map(error => (
				<tr key={error} class="error">
					<td colSpan={5}>
						{down.length < of.length &&
							`${down
								.filter(t => t.error === error)
								.map(t => clip(t.profile, 20))
								.join(', ')}: `}
						{clip(error, 200)}
					</td>
				</tr>
			))}
		</>
	);
}

function List({close}: {close: () => void}): JSX.Element {
	useEffect(() => {
		const load = (): void =>
			targets.load<TargetsAnswer>('api/v1/targets', a => a, true);
		load();
		const timer = setInterval(load, EVERY);
		return () => clearInterval(timer);
	}, []);
	const a = targets.data.value;
	if (!a) return <p>{targets.error.value?.message ?? 'Loading…'}</p>;
	return (
		<>
			<h2>Scraped programs</h2>
			{a.sources
				.filter(s => s.error)
				.map(s => (
					<p key={s.job + s.where} role="alert">
						{clip(s.where)} does not tell the targets of {s.job}
						: {s.error}
					</p>
				))}
			<table>
				<thead>
					<tr>
						<th scope="col">Target</th>
						<th scope="col">Profiles</th>
						<th scope="col" class="number">
							took
						</th>
						<th scope="col" class="number">
							last
						</th>
						<th scope="col" class="number">
							failed
						</th>
					</tr>
				</thead>
				<tbody>
					{programs(a.targets).map(of => (
						<Program
							key={`${of[0].job} ${of[0].instance}`}
							of={of}
							close={close}
						/>
					))}
				</tbody>
			</table>
			{a.dropped + a.left_out > 0 && (
				<p>
					{count(a.dropped)} dropped by relabel_configs,{' '}
					{count(a.left_out)} left out.
				</p>
			)}
		</>
	);
}

export function Targets(): JSX.Element | null {
	const n = status.data.value?.targets;
	if (!n) return null;
	return (
		<Dropdown
			className="targets"
			label={
				<>
					Targets{' '}
					<span class={`number ${n.down ? 'lossy' : ''}`}>
						{n.down ? `${count(n.down)} down` : count(n.up)}
					</span>
				</>
			}
			title="Programs whose profiles are scraped"
			align="right"
		>
			{close => <List close={close} />}
		</Dropdown>
	);
}
