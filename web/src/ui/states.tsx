/*
 * states: what is said where there is nothing to draw: why, and what to do.
 */
import type {ComponentChildren, JSX} from 'preact';
import {file, loaded, now, profile, reload, state, status, timeline, update} from '../data';
import {clock, date, span} from '../format';
import {parse} from '../selector';
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
					This server asks for its token. <a href="login">Log in</a>,
					or start it with
					<code> --listen 127.0.0.1</code> and look from the same
					machine.
				</p>
			</Empty>
		);
	return (
		<Empty
			title={
				e.status === 0
					? 'The server does not answer'
					: 'That could not be shown'
			}
		>
			<p>{e.message}</p>
			<button type="button" onClick={reload}>
				Try again
			</button>
		</Empty>
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
	const t = timeline.data.value;
	const isCovered = t?.covered.some(n => n !== 0) ?? false;
	const selector = parse(s.query);
	if (c?.state === 'failed' || (c?.state === 'absent' && !st?.store?.last))
		return (
			<Empty title="Nothing is being recorded">
				<p>{c.problem ?? 'No collector is connected to this server.'}</p>
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
					page looks again by itself.
				</p>
			</Empty>
		);
	if (isCovered && typeof selector !== 'string' && selector.matchers.length > 0)
		return (
			<Empty title="Nothing matches the filter">
				<p>
					Something was recorded in this range, but nothing of{' '}
					<code>{s.query}</code>.
				</p>
				<button
					type="button"
					onClick={() => update({query: selector.type}, true)}
				>
					Remove the filter
				</button>
			</Empty>
		);
	if (isCovered)
		return (
			<Empty title="No samples here">
				<p>smolder was recording, but nothing used a CPU in this range.</p>
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
			{last && now.value - last < 3600_000 ? (
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
									from: last - s.span,
									to: last,
								},
								selected: null,
							},
							true,
						)
					}
				>
					Show the last {span(s.span)} there are
				</button>
			) : null}
		</Empty>
	);
}

/* The server stopped answering: what is shown is from before. */
export function Stale(): JSX.Element | null {
	const e = loaded.error.value ?? timeline.error.value;
	if (!e || !profile.value || file.value) return null;
	return (
		<div class="stale" role="alert">
			<span>{e.message} What is shown is from before.</span>
			<button type="button" onClick={reload}>
				Try again
			</button>
		</div>
	);
}
