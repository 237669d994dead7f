/*
 * cost: what smolder itself costs, in the corner of the page, with the stages behind it.
 */
import type {JSX} from 'preact';
import {stagesOf} from '../api';
import {status} from '../data';
import {bytes, clock, count, date, smallPercent, span} from '../format';
import {Dropdown} from './parts';

const some = (n: number | undefined, show: (n: number) => string): string =>
	n === undefined ? '–' : show(n);

export function Cost(): JSX.Element {
	const s = status.data.value;
	const c = s?.cost;
	const isLossy = (c?.lost ?? 0) > 0;
	const label = (
		<>
			<span class="cost-name">Own cost</span>
			<span class="number">{some(c?.cpu_percent, smallPercent)} CPU</span>
			<span class="number more-room">{some(c?.memory_bytes, bytes)}</span>
			<span class={`number more-room ${isLossy ? 'lossy' : ''}`}>
				{some(c?.lost, count)} lost
			</span>
		</>
	);
	return (
		<Dropdown
			className="cost"
			label={label}
			title="What smolder itself costs"
			align="right"
		>
			{() => <Details />}
		</Dropdown>
	);
}

function Details(): JSX.Element {
	const s = status.data.value;
	const c = s?.cost;
	if (!s || !c) return <p class="nothing">The server has not said yet what it costs.</p>;
	const line = (name: string, value: string, note = ''): JSX.Element => (
		<tr key={name}>
			<th scope="row">{name}</th>
			<td class="number">{value}</td>
			<td>{note}</td>
		</tr>
	);
	const stages = stagesOf(s);
	const reasons = Object.entries(s.samples?.lost ?? {});
	const share = c.taken ? smallPercent((100 * (c.lost ?? 0)) / c.taken) : '';
	return (
		<>
			<h2>What smolder costs</h2>
			<p>
				{s.cpus ? `Of ${s.cpus} CPUs` : 'Of the machine'}
				{c.seconds ? `, over the last ${span(c.seconds * 1000)}` : ''}.
			</p>
			<table>
				<tbody>
					{line('CPU, all of it', some(c.cpu_percent, smallPercent))}
					{(c.parts ?? []).map(p =>
						line(
							`· ${p.name}`,
							some(p.cpu_percent, smallPercent),
							p.memory_bytes === undefined
								? ''
								: bytes(p.memory_bytes),
						),
					)}
					{line(
						'Timer interrupt',
						some(c.timer_percent, smallPercent),
						'not in the sum: the kernel’s, estimated',
					)}
					{line('Memory', some(c.memory_bytes, bytes))}
					{line('Disk a day', some(c.disk_bytes_per_day, bytes))}
					{line(
						'Samples lost',
						some(c.lost, count),
						c.taken ? `${share} of ${count(c.taken)}` : '',
					)}
				</tbody>
			</table>
			{stages.length > 0 && (
				<>
					<h3>By stage</h3>
					<table class="stages">
						<tbody>
							{stages.map(g =>
								line(
									g.name,
									smallPercent(g.percent),
								),
							)}
						</tbody>
					</table>
				</>
			)}
			{reasons.length > 0 && (
				<>
					<h3>Samples lost, by reason</h3>
					<table class="stages">
						<tbody>
							{reasons.map(([name, n]) => (
								<tr key={name}>
									<th scope="row">
										{name.replaceAll(
											'_',
											' ',
										)}
									</th>
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
