/*
 * table: the functions, as a table of the page's own: the browser's search finds them, and screen
 * readers read them. Rows are made by hand and a few hundred at a time: there can be thousands.
 */
import {computed} from '@preact/signals';
import type {JSX} from 'preact';
import {useLayoutEffect, useRef} from 'preact/hooks';
import {hits, isComparing, profile, state, tree, update, weight} from '../data';
import {bare, clip, count, percent, signed} from '../format';
import type {Column, Sort} from '../state';
import {type FunctionSum, keyOf, sumFunctions, type Tree} from '../tree';
import {openSandwich} from './actions';

const ROWS_AT_ONCE = 200;
const ROWS_MOST = 5000;

const sort = computed<Sort>(() => {
	const s = state.value.sort;
	// Changes are of comparisons.
	if (s && (isComparing.value || !/Change$/.test(s.column))) return s;
	return {column: isComparing.value ? 'selfChange' : 'self', down: true};
});
const sums = computed<FunctionSum[]>(() => (tree.value ? sumFunctions(tree.value) : []));

const rows = computed<FunctionSum[]>(() => {
	const t = tree.value;
	if (!t) return [];
	const {column, down} = sort.value;
	const h = hits.value;
	const w = weight.value;
	const list = h ? sums.value.filter(r => h[r.fn]) : [...sums.value];
	const {name, module} = t.functions;
	const compare: Record<Column, (a: FunctionSum, b: FunctionSum) => number> = {
		self: (a, b) => a.self - b.self || a.total - b.total,
		total: (a, b) => a.total - b.total || a.self - b.self,
		// By how much, whichever way.
		selfChange: (a, b) =>
			Math.abs(a.self - a.baseSelf * w) - Math.abs(b.self - b.baseSelf * w) ||
			Math.abs(a.total - a.baseTotal * w) - Math.abs(b.total - b.baseTotal * w),
		totalChange: (a, b) =>
			Math.abs(a.total - a.baseTotal * w) - Math.abs(b.total - b.baseTotal * w),
		name: (a, b) => (name[a.fn] < name[b.fn] ? -1 : name[a.fn] > name[b.fn] ? 1 : 0),
		module: (a, b) => {
			const x = t.modules[module[a.fn]];
			const y = t.modules[module[b.fn]];
			return x < y ? -1 : x > y ? 1 : a.self - b.self;
		},
	};
	const by = compare[column];
	return list.sort(down ? (a, b) => by(b, a) : by);
});

function cell(row: HTMLTableRowElement, text: string, className: string, title = ''): void {
	const td = row.insertCell();
	td.className = className;
	td.textContent = text;
	if (title) td.title = title;
}

function makeRow(r: FunctionSum): HTMLTableRowElement {
	const t = tree.value!;
	const unit = profile.value?.unit ?? '';
	const all = t.total[0];
	const row = document.createElement('tr');
	const numbers = (n: number): void => {
		cell(row, bare(n, unit), 'number', String(n));
		if (!t.baseTotal) cell(row, percent(n, all), 'number share');
	};
	const change = (now: number, base: number): void => {
		const delta = now - base * weight.value;
		const word = base === 0 && now > 0 ? 'new' : now === 0 && base > 0 ? 'gone' : '';
		cell(
			row,
			signed(delta, unit),
			`number ${delta > 0 ? 'more' : delta < 0 ? 'less' : ''}`,
			word,
		);
	};
	numbers(r.self);
	if (t.baseTotal) change(r.self, r.baseSelf);
	numbers(r.total);
	if (t.baseTotal) change(r.total, r.baseTotal);
	const name = t.functions.name[r.fn];
	const head = document.createElement('th');
	head.scope = 'row';
	head.className = 'name';
	const button = document.createElement('button');
	button.type = 'button';
	button.textContent = clip(name, 300);
	button.title = clip(name, 1000);
	button.dataset.fn = String(r.fn);
	if (t.baseTotal && (r.baseTotal === 0 || r.total === 0)) {
		const word = document.createElement('em');
		word.textContent = r.total === 0 ? 'vanished' : 'new';
		head.append(word, ' ');
	}
	head.append(button);
	row.append(head);
	cell(row, clip(t.modules[t.functions.module[r.fn]], 60), 'module');
	return row;
}

function fillRows(body: HTMLTableSectionElement, list: FunctionSum[]): () => void {
	let at = 0;
	let timer = 0;
	const more = (): void => {
		const part = document.createDocumentFragment();
		const end = Math.min(at + ROWS_AT_ONCE, list.length, ROWS_MOST);
		for (; at < end; at++) part.append(makeRow(list[at]));
		if (end <= ROWS_AT_ONCE) body.replaceChildren(part);
		else body.append(part);
		if (at < Math.min(list.length, ROWS_MOST)) timer = window.setTimeout(more, 16);
	};
	more();
	return () => clearTimeout(timer);
}

/* What the rows do not say, '' if that is nothing. */
function missing(t: Tree): string {
	if (t.sums)
		return t.sums.unlisted > 0
			? `(other) stands for the ${count(t.sums.unlisted)} smallest functions.`
			: '';
	return t.merged > 0
		? 'Only frames in the graph are summed up: small ones are in (other), so functions may have taken more.'
		: '';
}

function Head(props: {column: Column; text: string; span?: number}): JSX.Element {
	const {column, down} = sort.value;
	const isThis = column === props.column;
	const isText = props.column === 'name' || props.column === 'module';
	return (
		<th
			scope="col"
			colSpan={props.span}
			class={isText ? props.column : 'number'}
			aria-sort={isThis ? (down ? 'descending' : 'ascending') : 'none'}
		>
			<button
				type="button"
				onClick={() => {
					update(
						{
							sort: {
								column: props.column,
								down: isThis ? !down : !isText,
							},
						},
						true,
					);
				}}
			>
				{props.text}
			</button>
		</th>
	);
}

export function Functions(): JSX.Element {
	const body = useRef<HTMLTableSectionElement>(null);
	const list = rows.value;
	useLayoutEffect(() => fillRows(body.current!, list), [list]);
	const t = tree.value;
	const unit = profile.value?.unit ?? '';
	const sum = list.reduce((n, r) => n + r.self, 0) + (hits.value ? 0 : (t?.self[0] ?? 0));
	const isWide = isComparing.value;
	const onClick = (e: MouseEvent): void => {
		const button = (e.target as Element).closest<HTMLElement>('button[data-fn]');
		if (button && t) openSandwich(keyOf(t, Number(button.dataset.fn)));
	};
	return (
		<div class="functions" tabIndex={0} role="region" aria-label="Functions">
			<table class={isWide ? 'wide' : ''}>
				<thead>
					<tr>
						<Head
							column="self"
							text="Self"
							span={isWide ? 1 : 2}
						/>
						{isWide && (
							<Head column="selfChange" text="± Self" />
						)}
						<Head
							column="total"
							text="Total"
							span={isWide ? 1 : 2}
						/>
						{isWide && (
							<Head column="totalChange" text="± Total" />
						)}
						<Head column="name" text="Function" />
						<Head column="module" text="File" />
					</tr>
				</thead>
				<tbody ref={body} onClick={onClick} />
				<tfoot>
					<tr>
						<td class="number" title={String(sum)}>
							{bare(sum, unit)}
						</td>
						{!isWide && (
							<td class="number share">
								{percent(sum, t?.total[0] ?? 0)}
							</td>
						)}
						<td class="count" colSpan={isWide ? 5 : 4}>
							{count(list.length)}{' '}
							{list.length === 1
								? 'function'
								: 'functions'}
							{hits.value ? ' match' : ''}
							{list.length > ROWS_MOST &&
								`, ${count(ROWS_MOST)} listed`}
						</td>
					</tr>
				</tfoot>
			</table>
			{t && missing(t) && <p class="missing">{missing(t)}</p>}
			{state.value.search !== '' && list.length === 0 && t && (
				<p class="nothing">No function matches the search.</p>
			)}
		</div>
	);
}
