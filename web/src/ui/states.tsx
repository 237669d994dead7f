/*
 * states: what is said where there is nothing to draw: why, and what to do.
 */
import type {ComponentChildren, JSX} from 'preact';
import {
	file,
	isStale,
	loaded,
	now,
	profile,
	profileType,
	reload,
	selectorOf,
	shown,
	showSelector,
	silentSince,
	state,
	status,
	timeline,
	types,
	update,
} from '../data';
import {clock, date, range as rangeText, span} from '../format';
import {spanOf} from '../state';
import {choose, typeOptions} from './timeline';
import {setLive} from './times';

function Empty(props: {title: string; children: ComponentChildren}): JSX.Element {
	return (
		<div class="empty" role="status">
			<h2>{props.title}</h2>
			{props.children}
		</div>
	);
}

function Failed(): JSX.Element {
	const e = loaded.error.value!;
	if (e.status === 401 || e.status === 403)
		return (
			<Empty title="No permission">
				<p>{e.message}</p>
				<p>
					This server requires its token. <a href="login">Log in</a>,
					or start it with
					<code> --listen 127.0.0.1</code> and open the page on the
					same machine.
				</p>
			</Empty>
		);
	return (
		<Empty
			title={
				e.status === 0
					? 'The server does not answer'
					: 'This could not be shown'
			}
		>
			<p>{e.message}</p>
			<button type="button" onClick={reload}>
				Try again
			</button>
		</Empty>
	);
}

/* Was anything recorded in what is chosen? The steps of the timeline that it touches tell. */
function isCovered(): boolean {
	const t = timeline.data.value;
	if (!t) return false;
	const {from, to} = shown.value.chosen;
	return t.covered.some(
		(is, i) =>
			is !== 0 && t.start + i * t.step < to && t.start + (i + 1) * t.step > from,
	);
}

/* What is shown in place of the graph, or null if there is a graph to show. */
export function emptyState(): JSX.Element | null {
	const p = profile.value;
	if (p && p.tree.size[0] > 0) return null;
	if (loaded.error.value && !p && !file.value) return <Failed />;
	if (!p) return <div class="empty" />;
	const s = state.value;
	const st = status.data.value;
	const c = st?.collector;
	const selector = selectorOf(s.query);
	if (c?.state === 'failed' || (c?.state === 'absent' && !st?.store?.last))
		return (
			<Empty title="Nothing is being recorded">
				<p>{c.problem || 'No collector is connected to this server.'}</p>
				<p>
					<code>smolder doctor</code> says what works here and how to
					fix what does not;
					<code> sudo smolder run</code> starts recording.
				</p>
			</Empty>
		);
	if (st && !st.store?.last)
		return (
			<Empty title="Nothing has been recorded yet">
				<p>
					The first window comes within 10 seconds of the start. This
					page updates by itself.
				</p>
			</Empty>
		);
	const isFiltered =
		typeof selector !== 'string' &&
		(selector.matchers.length > 0 || selector.type !== 'cpu');
	if (isCovered() && isFiltered)
		return (
			<Empty title="Nothing matches the filter">
				<p>
					There are samples in this range, but none match{' '}
					<code>{s.query}</code>.
				</p>
				<button
					type="button"
					onClick={() => showSelector({type: 'cpu', matchers: []})}
				>
					Remove the filter
				</button>
			</Empty>
		);
	if (isCovered())
		return (
			<Empty title="No samples here">
				<p>smolder was recording, but nothing used a CPU in this range.</p>
			</Empty>
		);
	const type = profileType.value;
	const others = typeOptions.value.filter(([t]) => t !== type);
	if (others.length && type !== 'wall' && !types.data.value?.includes(type))
		return (
			<Empty title="Nothing of this type in this range">
				<p>There is:</p>
				{others.map(([other, name]) => (
					<button
						key={other}
						type="button"
						onClick={() =>
							showSelector({type: other, matchers: []})
						}
					>
						{name}
					</button>
				))}
			</Empty>
		);
	const last = st?.store?.last;
	const first = st?.store?.first;
	return (
		<Empty title="Nothing was recorded in this range">
			{first && last ? (
				<p>
					There is data from {date(first)} {clock(first)} to{' '}
					{date(last)} {clock(last)}.
				</p>
			) : null}
			{s.selected ? (
				<button type="button" onClick={() => choose(null)}>
					Show the whole timeline
				</button>
			) : last && now.value - last < 3600_000 ? (
				<button type="button" onClick={() => setLive(true)}>
					Show now
				</button>
			) : last ? (
				<button
					type="button"
					onClick={() =>
						update(
							{
								live: false,
								range: {
									from: last - spanOf(s),
									to: last,
								},
								selected: null,
							},
							true,
						)
					}
				>
					Show the last {span(spanOf(s))} there are
				</button>
			) : null}
		</Empty>
	);
}

/* The server stopped answering: what is shown is from before. */
export function Stale(): JSX.Element | null {
	const e = loaded.error.value ?? timeline.error.value;
	const since = silentSince.value;
	if (file.value || (!isStale.value && !(since && profile.value))) return null;
	const {from, to} = shown.value.chosen;
	const why = since
		? `The server has not answered since ${clock(since)}; trying again every few seconds.`
		: e!.message;
	return (
		<div class="stale" role="alert">
			<span>
				{why} Still showing {rangeText(from, to)}.
			</span>
			{e?.status === 401 && <a href="login">Log in</a>}
			<button type="button" onClick={reload}>
				Try again
			</button>
		</div>
	);
}
