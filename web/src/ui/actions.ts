/*
 * actions: what can be done with a frame, for its menu, its keys, and the table.
 */
import {state, tree, update} from '../data';
import {clip} from '../format';
import {type Change, type FunctionKey, keyOf, path, placeOf, type Tree} from '../tree';
import {copy} from './controls';

export interface Action {
	key: string; // of the keyboard; '' none
	text: string;
	run: () => void;
}

const escapeRegex = (s: string): string => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

export function addChange(c: Change): void {
	const same = JSON.stringify(c);
	if (state.value.changes.some(o => JSON.stringify(o) === same)) return;
	update({changes: [...state.value.changes, c], zoom: '', sandwich: null}, true);
}

export function dropChange(at: number): void {
	update({changes: state.value.changes.filter((_, i) => i !== at)}, true);
}

export function toggleRecursion(): void {
	const at = state.value.changes.findIndex(c => c.op === 'recursion');
	if (at >= 0) dropChange(at);
	else update({changes: [...state.value.changes, {op: 'recursion'}], zoom: ''}, true);
}

export const openSandwich = (key: FunctionKey | null): void => update({sandwich: key}, true);

export function zoomTo(node: number): void {
	const t = tree.value;
	if (t) update({zoom: node === 0 ? '' : placeOf(t, node)}, true);
}

/* `zoom` is how the graph that the frame is in zooms. */
export function actionsOf(t: Tree, node: number, zoom: (node: number) => void): Action[] {
	const fn = t.fn[node];
	const key = keyOf(t, fn);
	const name = clip(key.name, 60);
	const zoomAction = {key: 'Enter', text: 'Zoom in', run: () => zoom(node)};
	if (node === 0) return [zoomAction];
	if (fn === t.merged) return [zoomAction];
	const stack = (): string =>
		path(t, node)
			.map(i => t.functions.name[t.fn[i]])
			.reverse()
			.join('\n');
	const actions: Action[] = [
		zoomAction,
		{key: 's', text: 'Callers and callees', run: () => openSandwich(key)},
		{key: 'f', text: `Focus on ${name}`, run: () => addChange({op: 'focus', of: key})},
		{
			key: 'x',
			text: `Remove ${name} and what it calls`,
			run: () => addChange({op: 'remove', of: key}),
		},
	];
	if (key.module !== '')
		actions.push({
			key: 'l',
			text: `Hide frames of ${clip(key.module, 40)}`,
			run: () => addChange({op: 'hide', module: key.module}),
		});
	actions.push(
		{
			key: 'm',
			text: 'Search for this name',
			run: () => update({search: `^${escapeRegex(key.name)}$`}, true),
		},
		{key: 'c', text: 'Copy name', run: () => void copy(key.name, 'the name')},
		{key: 'C', text: 'Copy stack', run: () => void copy(stack(), 'the stack')},
	);
	return actions;
}
