/*
 * app: the page.
 */

import {computed} from '@preact/signals';
import type {JSX} from 'preact';
import {useEffect, useRef} from 'preact/hooks';
import type {Quality} from '../api';
import {changeColour, css, legend} from '../colour';
import {file, isComparing, loaded, profile, state, theme, tree, update, weight} from '../data';
import {amount, clip, count, percent, range as rangeText} from '../format';
import type {Scale} from '../state';
import {dropChange, openSandwich, toggleRecursion, zoomTo} from './actions';
import {ChangesPanel} from './changes';
import {Dropdown, Notice} from './controls';
import {Cost} from './cost';
import {DropTarget, FileBar, pickFile} from './drop';
import {Findings} from './findings';
import {Card, Crumbs, FrameMenu, MainGraph, Sandwich, Spoken} from './flame';
import {HeatPanel} from './heat';
import {QueryBox} from './query';
import {emptyState, Stale} from './states';
import {Functions} from './table';
import {Targets} from './targets';
import {Swatch, step, TimelinePanel, zoomOut, zoomToSelection} from './timeline';
import {Times} from './times';
import {isHelpOpen, isMenuOpen, nextMatch, stopComparing, Toolbar} from './toolbar';

// ---- what the view is of --------------------------------------------------------------------------

const LEGEND_MOST = 7;
const legendItems = computed(() => {
	const t = tree.value;
	return t && !t.baseTotal ? legend(t, state.value.colour, theme.value, LEGEND_MOST) : [];
});

const SCALES: [Scale, string, string][] = [
	['rate', 'Per second', 'The baseline scaled to the same length of time'],
	['absolute', 'Absolute', 'Not scaled'],
	['shares', 'Normalised', 'The baseline scaled to the same total: what changed its share'],
];

function ChangeLegend(): JSX.Element {
	const s = state.value;
	return (
		<>
			<span class="scale" aria-hidden="true">
				{[-1, -0.5, -0.2, 0, 0.2, 0.5, 1].map(n => (
					<Swatch
						key={n}
						colour={css(changeColour(n, theme.value))}
					/>
				))}
			</span>
			<span>blue: less, orange: more, striped: only on one side</span>
			<div class="segments" role="group" aria-label="How to compare">
				{SCALES.map(([scale, name, title]) => (
					<button
						key={scale}
						type="button"
						aria-pressed={s.scale === scale}
						title={title}
						onClick={() => update({scale}, true)}
					>
						{name}
					</button>
				))}
			</div>
			<button type="button" onClick={stopComparing}>
				Stop comparing
			</button>
		</>
	);
}

function Changes(): JSX.Element {
	return (
		<>
			{state.value.changes.map((c, i) => {
				const text =
					c.op === 'recursion'
						? 'recursion merged'
						: c.op === 'hide'
							? `without frames of ${clip(c.module, 40)}`
							: `${c.op === 'focus' ? 'only' : 'without'} ${clip(c.of.name, 60)}`;
				return (
					<span class="chip" key={JSON.stringify(c)}>
						<span class="text">{text}</span>
						<button
							type="button"
							class="x"
							aria-label={`Undo: ${text}`}
							onClick={() => dropChange(i)}
						>
							×
						</button>
					</span>
				);
			})}
		</>
	);
}

/* Which part of what is shown is not whole, or has no name, and what would help: that by a button. */
function Trust({q}: {q: Quality}): JSX.Element {
	const notes = [
		q.incomplete > 0 &&
			"Stacks that do not reach the program's outermost frame are under [incomplete] or [truncated].",
		q.byPointers > 0 &&
			'Code generated at run time has no unwind tables: its callers were found by frame pointers.',
		q.unnamed > 0 && q.hint,
	].filter(note => note !== false && note !== '');
	return (
		<>
			{q.incomplete > 0 && (
				<span data-incomplete={q.incomplete}>
					{percent(q.incomplete, q.stacks)} of stacks incomplete
				</span>
			)}
			{q.byPointers > 0 && (
				<span data-by-pointers={q.byPointers}>
					{percent(q.byPointers, q.stacks)} by frame pointers
				</span>
			)}
			{q.unnamed > 0 && (
				<span data-unnamed={q.unnamed}>
					{percent(q.unnamed, q.frames)} of frames unnamed
				</span>
			)}
			{notes.length > 0 && (
				<Dropdown
					className="trust"
					label={
						<>
							?<span class="unseen">What that means</span>
						</>
					}
					title="What that means, and what would help"
				>
					{() => notes.map(note => <p key={note}>{note}</p>)}
				</Dropdown>
			)}
		</>
	);
}

function Info(): JSX.Element {
	const p = profile.value;
	const t = tree.value;
	return (
		<div class={`info ${isComparing.value ? 'compares' : ''}`}>
			{p && t && (
				<span class="facts">
					<strong
						class="number"
						title={`${t.total[0]} ${p.unit}`}
						data-total={t.total[0]}
					>
						{amount(t.total[0], p.unit)}
					</strong>
					{isComparing.value && p.base && (
						<span>
							against {amount(p.base.total, p.unit)}
							{p.base.from
								? ` of ${rangeText(p.base.from, p.base.to)}`
								: ''}
							{Math.abs(weight.value - 1) > 1e-4 &&
								`, times ${weight.value.toPrecision(3)}`}
						</span>
					)}
					{p.samples > 0 && <span>{count(p.samples)} samples</span>}
					{(p.samples > 0 || p.lost > 0) && !file.value && (
						<span class={p.lost > 0 ? 'lossy' : ''}>
							{count(p.lost)} lost
						</span>
					)}
					{p.quality && <Trust q={p.quality} />}
				</span>
			)}
			<Changes />
			<Crumbs />
			<span class="grow" />
			{isComparing.value ? (
				<ChangeLegend />
			) : (
				<ul class="kinds" aria-label="Colours">
					{legendItems.value.map(([name, colour]) => (
						<li key={name}>
							<Swatch colour={css(colour)} />
							{clip(name, 40)}
						</li>
					))}
				</ul>
			)}
		</div>
	);
}

// ---- keys -----------------------------------------------------------------------------------------

const KEYS: [string, string][] = [
	['/', 'Search'],
	['n  N', 'Next and previous match'],
	['Esc', 'Back: close, clear the search, reset the zoom'],
	['← ↑ → ↓', 'Move from frame to frame (in the graph)'],
	['Enter', 'Zoom in on the frame'],
	['s', 'Callers and callees of the frame'],
	['f', 'Focus on the function'],
	['x', 'Remove the function and what it calls'],
	['l', 'Hide the frame’s library'],
	['m', 'Search for the frame’s name'],
	['c  C', 'Copy the name, copy the stack'],
	['r', 'Merge recursion'],
	['i', 'Flame or icicle'],
	['[  ]', 'A step back or forward in time'],
	['z  −', 'Timeline: zoom in on the selection, zoom out'],
	['?', 'This list'],
];

function Help(): JSX.Element {
	const dialog = useRef<HTMLDialogElement>(null);
	const isOpen = isHelpOpen.value;
	useEffect(() => {
		if (isOpen) dialog.current?.showModal();
		else dialog.current?.close();
	}, [isOpen]);
	const close = (): void => {
		isHelpOpen.value = false;
	};
	return (
		<dialog class="help" ref={dialog} aria-label="Help" onClose={close}>
			<h2>Keys</h2>
			<dl>
				{KEYS.map(([key, what]) => (
					<div key={key}>
						<dt>
							{key.split(/ +/).map(k => (
								<kbd key={k}>{k}</kbd>
							))}
						</dt>
						<dd>{what}</dd>
					</div>
				))}
			</dl>
			<p>
				Drag over the timeline to choose a range; hold Shift to choose the
				range to compare it with. Right-click a frame for its menu. Drop a
				profile on the page to view it with the same tools.
			</p>
			<button type="button" onClick={close}>
				Close
			</button>
		</dialog>
	);
}

/* One step back at a time. */
function stepBack(): void {
	const s = state.value;
	const input = document.activeElement as HTMLElement | null;
	if (s.search !== '') update({search: ''}, true);
	else if (s.sandwich) openSandwich(null);
	else if (s.zoom !== '') zoomTo(0);
	if (input?.localName === 'input') input.blur();
}

function onKey(e: KeyboardEvent): void {
	const on = e.target as HTMLElement;
	const isTyping = /^(input|select|textarea)$/.test(on.localName);
	if (e.key === 'Escape' && !isHelpOpen.value) {
		stepBack();
		return;
	}
	if (isTyping || isHelpOpen.value || e.ctrlKey || e.metaKey || e.altKey) return;
	const keys: Record<string, () => void> = {
		'/': () => document.getElementById('search')?.focus(),
		'?': () => {
			isHelpOpen.value = true;
		},
		n: () => nextMatch(1),
		N: () => nextMatch(-1),
		r: toggleRecursion,
		i: () => update({icicle: !state.value.icicle}, true),
		'[': () => step(-1),
		']': () => step(1),
		z: zoomToSelection,
		'-': zoomOut,
	};
	const run = keys[e.key];
	if (!run) return;
	e.preventDefault();
	run();
}

// ---- all of it ------------------------------------------------------------------------------------

export function App(): JSX.Element {
	useEffect(() => {
		addEventListener('keydown', onKey);
		return () => removeEventListener('keydown', onKey);
	}, []);
	const s = state.value;
	const title = file.value?.name ?? (s.query === 'cpu' ? '' : s.query);
	useEffect(() => {
		document.title = title ? `${clip(title, 80)} · smolder` : 'smolder';
	}, [title]);
	const empty = emptyState();
	return (
		<>
			<header class={`top ${isMenuOpen.value ? 'open' : ''}`}>
				<h1>
					<i class="logo" aria-hidden="true" />
					smolder
				</h1>
				{!file.value && <QueryBox />}
				<span class="grow" />
				{!file.value && <Times />}
				<button
					type="button"
					title="Show a folded, pprof, perf script or speedscope file"
					onClick={() => pickFile(false)}
				>
					Open…
				</button>
				<Targets />
				<Cost />
				<button
					type="button"
					title="Keys (?)"
					onClick={() => {
						isHelpOpen.value = true;
					}}
				>
					?<span class="unseen">Help</span>
				</button>
				{/* Narrow screens have room for little else: the rest is behind this. */}
				<button
					type="button"
					class="controls"
					aria-expanded={isMenuOpen.value}
					onClick={() => {
						isMenuOpen.value = !isMenuOpen.value;
					}}
				>
					☰ {isMenuOpen.value ? 'Less' : 'More'}
				</button>
			</header>
			<FileBar />
			<Stale />
			<Findings />
			<main class={isMenuOpen.value ? 'open' : ''}>
				<TimelinePanel />
				<HeatPanel />
				<ChangesPanel />
				<Toolbar />
				<Info />
				<div
					class={`views ${s.view} ${loaded.isBusy.value && !file.value ? 'busy' : ''}`}
				>
					{empty ?? (
						<>
							{(s.view !== 'table' || s.sandwich) && (
								<div class="pane graphs">
									{s.sandwich ? (
										<Sandwich />
									) : (
										<MainGraph />
									)}
								</div>
							)}
							{s.view !== 'flame' && (
								<div class="pane list">
									<Functions />
								</div>
							)}
						</>
					)}
				</div>
				<Card />
				<FrameMenu />
			</main>
			<Help />
			<DropTarget />
			<Notice />
			<Spoken />
		</>
	);
}
