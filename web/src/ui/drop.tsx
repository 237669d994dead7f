/*
 * drop: a file dropped on the page, or picked, is shown in place of what the server has. It stays in
 * the browser.
 */
import {signal} from '@preact/signals';
import type {JSX} from 'preact';
import {useEffect} from 'preact/hooks';
import {file, fileProblem, state, update} from '../data';
import {openFile} from '../files/open';
import {clip} from '../format';
import {compare} from '../tree';

const isOver = signal(false);

async function show(f: File, asBase: boolean): Promise<void> {
	const name = clip(f.name, 120);
	try {
		const profile = await openFile(new Uint8Array(await f.arrayBuffer()));
		fileProblem.value = '';
		const shown = file.peek();
		update({zoom: '', changes: [], sandwich: null, search: ''});
		if (!asBase || !shown) {
			file.value = {name, profile, alone: null};
			return;
		}
		const alone = shown.alone ?? shown;
		const a = alone.profile;
		if (a.unit !== profile.unit)
			throw new Error(`it counts ${profile.unit}, and ${alone.name} ${a.unit}`);
		const b = {
			from: profile.from,
			to: profile.to,
			total: profile.tree.total[0],
			samples: profile.samples,
		};
		const both = {...a, tree: compare(a.tree, profile.tree), base: b};
		file.value = {name: `${alone.name}, compared with ${name}`, profile: both, alone};
	} catch (e) {
		fileProblem.value = `${name} cannot be shown: ${e instanceof Error ? e.message : String(e)}.`;
	}
}

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
	update({...state.value, zoom: '', changes: [], sandwich: null, search: ''});
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
				</>
			)}
			{fileProblem.value && <span role="alert">{fileProblem.value}</span>}
			<button type="button" onClick={closeFile}>
				{file.value ? 'Back to the server' : 'Dismiss'}
			</button>
		</div>
	);
}
