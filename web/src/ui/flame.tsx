/*
 * flame: the flame graph, its hover card and its menu; and the two graphs of a function's callers and
 * callees.
 */
import {computed, signal, useComputed, useSignalEffect} from '@preact/signals';
import type {JSX} from 'preact';
import {useEffect, useLayoutEffect, useRef} from 'preact/hooks';
import {samplesOf} from '../api';
import {diffColours, functionColours, kindName, presence} from '../colour';
import {hits, profile, sandwich, state, theme, tree, weight, zoomNode} from '../data';
import {amount, clip, count, percent, signed, signedPercent} from '../format';
import {Graph} from '../graph';
import {isIdle, nodeOfPlace, sizeOf, type Tree, wholeTotal} from '../tree';
import {type Action, actionsOf, openSandwich, zoomTo} from './actions';

interface Hover {
	tree: Tree;
	node: number;
	zoom: number;
	x: number;
	y: number;
}

const hover = signal<Hover | null>(null);
const menu = signal<{x: number; y: number; actions: Action[]} | null>(null);
const spoken = signal(''); // what a screen reader says of the keyboard's cursor

const colourBy = computed(() => state.value.colour);
const isIcicle = computed(() => state.value.icicle);
const zoomPlace = computed(() => state.value.zoom);

/* By function: the same for all trees of one answer. */
const functions = computed(() => {
	const names = profile.value?.tree;
	return names ? functionColours(names, colourBy.value, theme.value) : new Uint32Array(0);
});

/* What the main graph shows, for exports: set when it is drawn. */
export const mainZoom = zoomNode;

interface GraphProps {
	tree: Tree;
	zoom: number;
	onZoom: (node: number) => void;
	icicle: boolean;
	hideRoot?: boolean;
	label: string;
	register?: (g: Graph | null) => void;
}

function FlameGraph(props: GraphProps): JSX.Element {
	const box = useRef<HTMLDivElement>(null);
	const graph = useRef<Graph | null>(null);
	const latest = useRef(props);
	latest.current = props;

	useLayoutEffect(() => {
		const g = new Graph(box.current!, {
			hover: (node, x, y) => {
				const {tree: t, zoom} = latest.current;
				hover.value = node < 0 ? null : {tree: t, node, zoom, x, y};
			},
			zoom: node => latest.current.onZoom(node),
			menu: (node, x, y) => {
				const {tree: t, onZoom} = latest.current;
				hover.value = null;
				menu.value = {x, y, actions: actionsOf(t, node, onZoom)};
			},
		});
		graph.current = g;
		props.register?.(g);
		return () => {
			props.register?.(null);
			g.close();
		};
	}, []);

	useLayoutEffect(() => {
		const t = props.tree;
		const comparing = t.baseTotal !== null;
		graph.current!.set({
			tree: t,
			zoom: Math.min(props.zoom, t.count - 1),
			icicle: props.icicle,
			hideRoot: props.hideRoot ?? false,
			functions: functions.value,
			nodes: comparing ? diffColours(t, weight.value, theme.value) : null,
			marks: comparing ? presence(t) : null,
			hits: hits.value,
			theme: theme.value,
		});
	}, [props.tree, props.zoom, props.icicle, functions.value, hits.value, theme.value]);

	const onKey = (e: KeyboardEvent): void => {
		const g = graph.current!;
		if (e.ctrlKey || e.metaKey || e.altKey) return;
		if (/^Arrow|^Home$/.test(e.key)) {
			e.preventDefault();
			const node = g.moveCursor(e.key);
			hover.value = null;
			spoken.value = node >= 0 ? describe(props.tree, node) : '';
			return;
		}
		const node = g.cursor >= 0 ? g.cursor : g.hovered;
		if (node < 0) return;
		const action = actionsOf(props.tree, node, props.onZoom).find(a => a.key === e.key);
		if (!action) return;
		e.preventDefault();
		e.stopPropagation();
		action.run();
	};

	return (
		<div
			class="graph"
			ref={box}
			tabIndex={0}
			role="application"
			aria-label={props.label}
			onKeyDown={onKey}
			onBlur={() => graph.current?.setCursor(-1)}
		/>
	);
}

function describe(t: Tree, node: number): string {
	const unit = profile.value?.unit ?? '';
	const name = node === 0 ? 'all' : clip(t.functions.name[t.fn[node]], 100);
	return `${name}, ${amount(t.total[node], unit)}, ${percent(sizeOf(t, node), sizeOf(t, 0))}`;
}

let mainGraph: Graph | null = null;

/* Puts the cursor on a node of the main graph, for the search's next and previous. */
export function showNode(node: number): void {
	mainGraph?.setCursor(node);
	mainGraph?.reveal(node);
	if (tree.value) spoken.value = describe(tree.value, node);
}

export function MainGraph(): JSX.Element | null {
	const t = tree.value;
	const zoom = useComputed(() => (tree.value ? nodeOfPlace(tree.value, zoomPlace.value) : 0));
	useSignalEffect(() => {
		zoomNode.value = zoom.value;
	});
	if (!t) return null;
	return (
		<FlameGraph
			tree={t}
			zoom={zoom.value}
			onZoom={zoomTo}
			icicle={isIcicle.value}
			label="Flame graph: arrow keys move, Enter zooms in; the table has the same functions"
			register={g => {
				mainGraph = g;
			}}
		/>
	);
}

// ---- callers and callees --------------------------------------------------------------------------

const sideZoom = signal<{of: Tree | null; node: number}>({of: null, node: 0});

export function Sandwich(): JSX.Element | null {
	const both = sandwich.value;
	const key = state.value.sandwich;
	const t = tree.value;
	if (!both || !key || !t) return null;
	const total = wholeTotal(t, key) ?? both.callees.total[0];
	const unit = profile.value?.unit ?? '';
	const zoomOf = (s: Tree): number =>
		sideZoom.value.of === s ? sideZoom.value.node : Math.min(1, s.count - 1);
	const zoomIn = (s: Tree) => (node: number) => {
		sideZoom.value = {of: s, node: Math.max(node, Math.min(1, s.count - 1))};
	};
	return (
		<section class="sandwich" aria-label="Callers and callees">
			<header>
				<h2 title={clip(key.name, 500)}>{clip(key.name)}</h2>
				<span>{key.module}</span>
				<span class="number">
					{amount(total, unit)}, {percent(total, t.total[0])} of all
				</span>
				<button type="button" onClick={() => openSandwich(null)}>
					Close
				</button>
			</header>
			{both.callees.size[0] === 0 ? (
				<p class="nothing">
					{total > 0
						? 'Its frames are too small to be in the graph. Choose a shorter range, or filter.'
						: 'This function is not in the current view.'}
				</p>
			) : (
				<>
					<h3>Callers</h3>
					<FlameGraph
						tree={both.callers}
						zoom={zoomOf(both.callers)}
						onZoom={zoomIn(both.callers)}
						icicle={false}
						hideRoot
						label="Callers of the function, which is in the lowest row"
					/>
					<h3>Callees</h3>
					<FlameGraph
						tree={both.callees}
						zoom={zoomOf(both.callees)}
						onZoom={zoomIn(both.callees)}
						icicle
						hideRoot
						label="Callees of the function, which is in the highest row"
					/>
				</>
			)}
		</section>
	);
}

// ---- the card and the menu ------------------------------------------------------------------------

function Row(props: {name: string; children: string; samples?: string; of?: string}): JSX.Element {
	return (
		<tr>
			<th scope="row">{props.name}</th>
			<td class="number">{props.children}</td>
			<td class="number samples">{props.samples ?? ''}</td>
			<td>{props.of ?? ''}</td>
		</tr>
	);
}

function sourceOf(t: Tree, fn: number): string {
	const source = t.sources[t.functions.source?.[fn] ?? 0];
	const line = t.functions.line?.[fn];
	return source ? `${source}${line ? `:${line}` : ''}` : '';
}

function CardBody({h}: {h: Hover}): JSX.Element {
	const {tree: t, node} = h;
	const unit = profile.value?.unit ?? '';
	const fn = t.fn[node];
	const all = profile.value?.tree.total[0] ?? t.total[0];
	const view = t.total[h.zoom];
	const shares = (n: number): string =>
		h.zoom > 0 || view !== all
			? `${percent(n, view)} of the view, ${percent(n, all)} of all`
			: `${percent(n, all)} of all`;
	const name =
		node === 0
			? 'all'
			: fn === t.merged
				? 'Frames too small to be shown'
				: t.functions.name[fn];
	const p = profile.value;
	const samples = (n: number): string => {
		const count_ = p && p.unit !== 'samples' ? samplesOf(p, n) : null;
		return count_ === null
			? ''
			: `${count(count_)} ${count_ === 1 ? 'sample' : 'samples'}`;
	};
	const parent = node > 0 ? t.parent[node] : -1;
	const caller = parent > 0 ? clip(t.functions.name[t.fn[parent]], 60) : 'all';
	const place = sourceOf(t, fn);
	const kind = node > 0 && fn !== t.merged ? kindName(t, fn) : '';
	const module = t.modules[t.functions.module[fn]];
	const w = weight.value;
	const baseTotal = (t.baseTotal?.[node] ?? 0) * w;
	return (
		<>
			<strong>{clip(name, 400)}</strong>
			{kind && <p>{module ? `${module}, ${kind}` : kind}</p>}
			{place && <p class="source">{clip(place, 200)}</p>}
			{isIdle(t, fn) && t.next[node] === node + 1 && (
				<p>Threads that wait for work. Click to see where.</p>
			)}
			{node > 0 && node === t.idle && <p>Drawn narrower than it is.</p>}
			<table>
				<tbody>
					<Row
						name="Total"
						samples={samples(t.total[node])}
						of={shares(t.total[node])}
					>
						{amount(t.total[node], unit)}
					</Row>
					<Row
						name="Self"
						samples={samples(t.self[node])}
						of={shares(t.self[node])}
					>
						{amount(t.self[node], unit)}
					</Row>
					{parent > 0 && t.total[parent] > 0 && (
						<Row name="Of caller" of={caller}>
							{percent(t.total[node], t.total[parent])}
						</Row>
					)}
					{t.baseTotal && (
						<>
							<Row
								name="Baseline"
								of={
									w === 1
										? ''
										: state.value
													.scale ===
												'rate'
											? 'scaled to the same length'
											: 'scaled to the same total'
								}
							>
								{amount(baseTotal, unit)}
							</Row>
							<Row
								name="Change"
								of={
									t.baseTotal[node] === 0
										? 'new'
										: t.total[node] ===
												0
											? 'vanished'
											: signedPercent(
													(100 *
														(t
															.total[
															node
														] -
															baseTotal)) /
														baseTotal,
												)
								}
							>
								{signed(
									t.total[node] - baseTotal,
									unit,
								)}
							</Row>
						</>
					)}
				</tbody>
			</table>
		</>
	);
}

export function Card(): JSX.Element | null {
	const box = useRef<HTMLDivElement>(null);
	const h = hover.value;
	useLayoutEffect(() => {
		const e = box.current;
		if (!e || !h) return;
		const {width, height} = e.getBoundingClientRect();
		const x = Math.min(h.x + 14, innerWidth - width - 8);
		const y = h.y + 20 + height > innerHeight ? h.y - height - 12 : h.y + 20;
		e.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
	}, [h]);
	if (!h || h.node >= h.tree.count) return null;
	return (
		<div class="card" role="tooltip" ref={box}>
			<CardBody h={h} />
		</div>
	);
}

export function FrameMenu(): JSX.Element | null {
	const box = useRef<HTMLDivElement>(null);
	const m = menu.value;
	const before = useRef<Element | null>(null);
	useEffect(() => {
		if (!m) return;
		const e = box.current!;
		before.current = document.activeElement;
		const {width, height} = e.getBoundingClientRect();
		e.style.left = `${Math.max(4, Math.min(m.x, innerWidth - width - 4))}px`;
		e.style.top = `${Math.max(4, Math.min(m.y, innerHeight - height - 4))}px`;
		e.querySelector('button')?.focus();
		const away = (event: Event): void => {
			if (!e.contains(event.target as Node)) menu.value = null;
		};
		document.addEventListener('pointerdown', away, true);
		return () => document.removeEventListener('pointerdown', away, true);
	}, [m]);
	if (!m) return null;
	const close = (): void => {
		menu.value = null;
		(before.current as HTMLElement | null)?.focus();
	};
	const onKey = (e: KeyboardEvent): void => {
		const items = [...box.current!.querySelectorAll('button')];
		const at = items.indexOf(document.activeElement as HTMLButtonElement);
		if (e.key === 'Escape') close();
		else if (e.key === 'ArrowDown') items[(at + 1) % items.length].focus();
		else if (e.key === 'ArrowUp') items[(at + items.length - 1) % items.length].focus();
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
	return (
		<div
			class="menu"
			role="menu"
			aria-label="Actions for this frame"
			ref={box}
			onKeyDown={onKey}
		>
			{m.actions.map(a => (
				<button
					key={a.text}
					type="button"
					role="menuitem"
					onClick={() => {
						close();
						a.run();
					}}
				>
					<span>{a.text}</span>
					{a.key && <kbd>{a.key}</kbd>}
				</button>
			))}
		</div>
	);
}

export function Spoken(): JSX.Element {
	return (
		<div class="unseen" aria-live="polite">
			{spoken.value}
		</div>
	);
}

// ---- where the view is ----------------------------------------------------------------------------

const CRUMBS_MOST = 6;

export function Crumbs(): JSX.Element | null {
	const t = tree.value;
	const node = zoomNode.value;
	if (!t || node === 0 || node >= t.count) return null;
	const path: number[] = [];
	for (let i = node; i > 0; i = t.parent[i]) path.unshift(i);
	const shown = path.slice(-CRUMBS_MOST);
	return (
		<nav class="crumbs" aria-label="Zoom">
			<button type="button" class="reset" title="Esc" onClick={() => zoomTo(0)}>
				Reset zoom
			</button>
			<button type="button" onClick={() => zoomTo(0)}>
				all
			</button>
			{shown.length < path.length && <i>› …</i>}
			{shown.map(i => (
				<span key={i}>
					<i>›</i>
					<button
						type="button"
						title={clip(t.functions.name[t.fn[i]], 500)}
						aria-current={i === node ? 'location' : undefined}
						onClick={() => zoomTo(i)}
					>
						{clip(t.functions.name[t.fn[i]], 80)}
					</button>
				</span>
			))}
			<b class="number">{percent(sizeOf(t, node), sizeOf(t, 0))}</b>
		</nav>
	);
}
