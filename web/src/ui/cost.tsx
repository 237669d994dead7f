/*
 * cost: what smolder itself costs now, in the corner of the page. Behind it the same beside what it
 * was since the start, by process and by stage.
 */
import type {JSX} from 'preact';
import type {Cost as Used} from '../api';
import {status} from '../data';
import {bytes, clock, count, date, smallPercent, span} from '../format';
import {Dropdown} from './controls';

const some = (n: number | null | undefined, show: (n: number) => string): string =>
	n === undefined || n === null ? '–' : show(n);

/* Of the last hour, else of all that is stored. */
const diskOf = (c: (Used & {recent?: Used | null}) | undefined): number | null | undefined =>
	c?.recent?.disk_bytes_per_day ?? c?.disk_bytes_per_day;

export function Cost(): JSX.Element {
	const c = status.data.value?.cost;
	const now = c?.recent;
	const disk = diskOf(c);
	const isLossy = (now?.lost ?? 0) > 0;
	const label = (
		<>
			<span class="cost-name">Own cost</span>
			<span class="number">{some(now?.cpu_percent, smallPercent)} CPU</span>
			<span class="number more-room">{some(c?.memory_bytes, bytes)}</span>
			{disk != null && <span class="number more-room">{bytes(disk)} a day</span>}
			<span class={`number more-room ${isLossy ? 'lossy' : ''}`}>
				{some(now?.lost, count)} lost
			</span>
		</>
	);
	return (
		<Dropdown
			className="cost"
			label={label}
			title="What smolder itself costs now"
			align="right"
		>
			{() => <Details />}
		</Dropdown>
	);
}

function Details(): JSX.Element {
	const s = status.data.value;
	const c = s?.cost;
	if (!s || !c) return <p class="nothing">The server has not reported its cost yet.</p>;
	const now: Used = c.recent ?? {};
	const line = (name: string, recent: string, all: string, note = ''): JSX.Element => (
		<tr key={name}>
			<th scope="row">{name}</th>
			<td class="number">{recent}</td>
			<td class="number">{all}</td>
			<td>{note}</td>
		</tr>
	);
	type Share = {name: string; cpu_percent?: number; memory_bytes?: number};
	const shares = (recent: Share[] | undefined, all: Share[]): JSX.Element[] =>
		all.map(p =>
			line(
				`· ${p.name}`,
				some(
					recent?.find(r => r.name === p.name)?.cpu_percent,
					smallPercent,
				),
				some(p.cpu_percent, smallPercent),
				p.memory_bytes ? bytes(p.memory_bytes) : '',
			),
		);
	const heads = (first: string): JSX.Element => (
		<thead>
			<tr>
				<th scope="col">{first}</th>
				<th scope="col" class="number">
					{now.seconds ? `last ${span(now.seconds * 1000)}` : 'now'}
				</th>
				<th scope="col" class="number">
					since start
				</th>
				<td />
			</tr>
		</thead>
	);
	const hasDisk = typeof now.disk_bytes_per_day === 'number';
	const reasons = Object.entries(s.samples?.lost ?? {});
	const share = c.taken ? smallPercent((100 * (c.lost ?? 0)) / c.taken) : '';
	// A server that has just begun does not know what its collector used of late.
	const life = (now.collector_seconds ?? 0) - (now.seconds ?? 0) > 15;
	return (
		<>
			<h2>What smolder costs</h2>
			<p>
				{s.cpus ? `Share of ${s.cpus} CPUs` : 'Share of the machine'}
				{c.seconds
					? `; the server has been running for ${span(c.seconds * 1000)}`
					: ''}
				.{!c.recent && ' The present cost is shown after ten seconds.'}
				{life &&
					` The collector's figures cover ${span((now.collector_seconds ?? 0) * 1000)}.`}
			</p>
			<table>
				{heads('Of the machine')}
				<tbody>
					{line(
						'CPU, total',
						some(now.cpu_percent, smallPercent),
						some(c.cpu_percent, smallPercent),
					)}
					{shares(now.parts, c.parts ?? [])}
					{line(
						'Timer interrupt',
						some(now.timer_percent, smallPercent),
						some(c.timer_percent, smallPercent),
						'estimated, not in the sum',
					)}
					{line('Memory', some(c.memory_bytes, bytes), '')}
					{line(
						'Disk per day',
						some(now.disk_bytes_per_day, bytes),
						some(c.disk_bytes_per_day, bytes),
						hasDisk
							? `last ${span((now.disk_seconds ?? 0) * 1000)}`
							: '',
					)}
					{line(
						'Samples lost',
						some(now.lost, count),
						some(c.lost, count),
						c.taken ? `${share} of ${count(c.taken)}` : '',
					)}
				</tbody>
			</table>
			{(c.stages ?? []).length > 0 && (
				<table class="stages">
					{heads('By stage')}
					<tbody>{shares(now.stages, c.stages ?? [])}</tbody>
				</table>
			)}
			{reasons.length > 0 && (
				<>
					<h3>Samples lost, by reason</h3>
					<table class="reasons">
						<tbody>
							{reasons.map(([name, n]) => (
								<tr key={name}>
									<th scope="row">
										{name.replaceAll(
											'_',
											' ',
										)}
									</th>
									<td />
									<td
										class={`number ${n ? 'lossy' : ''}`}
									>
										{count(n)}
									</td>
									<td />
								</tr>
							))}
						</tbody>
					</table>
				</>
			)}
			{s.store && (
				<p>
					{some(s.store.bytes, bytes)} stored
					{s.store.max_bytes
						? ` of at most ${bytes(s.store.max_bytes)}`
						: ''}
					{s.store.first
						? `, since ${date(s.store.first)} ${clock(s.store.first)}`
						: ''}
					.
				</p>
			)}
			{s.version && <p>smolder {s.version}</p>}
		</>
	);
}
