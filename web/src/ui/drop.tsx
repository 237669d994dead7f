/*
 * drop: a file dropped on the page, or picked, is shown in place of what the server has, or compared
 * with it. It stays in the browser.
 */
import {signal} from '@preact/signals';
import type {JSX} from 'preact';
import {useEffect} from 'preact/hooks';
import {address, get, profileOf, type TreeAnswer} from '../api';
import {file, fileProblem, NODES_MOST, type OpenFile, state, treeParameters, update} from '../data';
import {openFile} from '../files/open';
import {clip, range} from '../format';
import {compare, type Tree} from '../tree';

const isOver = signal(false);

const forget = {zoom: '', changes: [], sandwich: null, search: ''};

/* What the server has of the range and filter that are chosen; not grouped, as files are not. */
async function fromServer(): Promise<OpenFile> {
	const {by, base_query, base_from, base_to, ...rest} = treeParameters.peek();
	const asked = {...rest, format: 'tree', max_nodes: NODES_MOST};
	const answer = await get<TreeAnswer>(address('query', asked));
	const name = `${state.peek().query}, ${range(answer.from, answer.to)}`;
	return {name, profile: profileOf(answer), alone: null, isServers: true};
}

/* A file tells little of what kind functions are; where the server has one of that name, it is that. */
function withKindsOf(t: Tree, from: Tree): Tree {
	const key = (of: Tree, f: number): string =>
		`${of.functions.name[f]}\0${of.modules[of.functions.module[f]]}`;
	const known = new Map(
		from.functions.name.map((_, f) => [key(from, f), from.functions.kind[f]]),
	);
	const kind = t.functions.name.map((_, f) => known.get(key(t, f)) ?? t.functions.kind[f]);
	return {...t, functions: {...t.functions, kind}};
}

/* `shown` compared with `base`, in place of what is shown. */
function compareWith(shown: OpenFile, base: OpenFile): void {
	const alone = shown.alone ?? shown;
	const a = alone.profile;
	const b = base.profile;
	if (a.unit !== b.unit)
		throw new Error(`it counts ${b.unit}, but ${alone.name} counts ${a.unit}`);
	const against = {from: b.from, to: b.to, total: b.tree.total[0], samples: b.samples};
	const mine = base.isServers ? withKindsOf(a.tree, b.tree) : a.tree;
	const other = alone.isServers ? withKindsOf(b.tree, a.tree) : b.tree;
	file.value = {
		name: `${alone.name}, compared with ${base.name}`,
		profile: {...a, tree: compare(mine, other), base: against},
		alone,
	};
}

async function attempt(what: string, act: () => Promise<void>): Promise<void> {
	try {
		await act();
		fileProblem.value = '';
		update(forget);
	} catch (e) {
		fileProblem.value = `${what} cannot be shown: ${e instanceof Error ? e.message : String(e)}.`;
	}
}

function show(f: File, asBase: boolean): Promise<void> {
	const name = clip(f.name, 120);
	return attempt(name, async () => {
		const profile = await openFile(new Uint8Array(await f.arrayBuffer()));
		const opened = {name, profile, alone: null};
		if (asBase) compareWith(file.peek() ?? (await fromServer()), opened);
		else file.value = opened;
	});
}

/* The file that is shown, compared with what the server has. */
export const compareWithServer = (): Promise<void> =>
	attempt('The server’s profile', async () => compareWith(file.peek()!, await fromServer()));

export function pickFile(asBase: boolean): void {
	const input = document.createElement('input');
	input.type = 'file';
	input.addEventListener('change', () => {
		const f = input.files?.[0];
		if (f) void show(f, asBase);
	});
	input.click();
}

export function closeFile(): void {
	file.value = null;
	fileProblem.value = '';
	update({...state.value, ...forget});
}

export function DropTarget(): JSX.Element | null {
	useEffect(() => {
		let depth = 0;
		const hasFile = (e: DragEvent): boolean =>
			e.dataTransfer?.types.includes('Files') ?? false;
		const enter = (e: DragEvent): void => {
			if (!hasFile(e)) return;
			depth++;
			isOver.value = true;
		};
		const leave = (): void => {
			depth = Math.max(0, depth - 1);
			if (depth === 0) isOver.value = false;
		};
		const over = (e: DragEvent): void => {
			if (hasFile(e)) e.preventDefault();
		};
		const drop = (e: DragEvent): void => {
			depth = 0;
			isOver.value = false;
			const f = e.dataTransfer?.files[0];
			if (!f) return;
			e.preventDefault();
			void show(f, e.shiftKey);
		};
		addEventListener('dragenter', enter);
		addEventListener('dragleave', leave);
		addEventListener('dragover', over);
		addEventListener('drop', drop);
		return () => {
			removeEventListener('dragenter', enter);
			removeEventListener('dragleave', leave);
			removeEventListener('dragover', over);
			removeEventListener('drop', drop);
		};
	}, []);
	if (!isOver.value) return null;
	return (
		<div class="drop">
			<p>
				Drop a folded, pprof, perf script or speedscope file.
				<small>It stays in this browser.</small>
			</p>
		</div>
	);
}

export function FileBar(): JSX.Element | null {
	if (!file.value && !fileProblem.value) return null;
	return (
		<div class="filebar">
			{file.value && (
				<>
					<strong>{file.value.name}</strong>
					<span>only in this browser</span>
					{file.value.profile.notes?.map(note => (
						<span class="lossy" key={note}>
							{note}
						</span>
					))}
				</>
			)}
			{fileProblem.value && <span role="alert">{fileProblem.value}</span>}
			<button type="button" onClick={closeFile}>
				{file.value ? 'Back to the server' : 'Dismiss'}
			</button>
		</div>
	);
}
