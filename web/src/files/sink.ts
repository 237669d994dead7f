/*
 * sink: where the readers of files put stacks. Everything has a cap, and what is over it is counted.
 */
import type {Profile} from '../api';
import {clean, count} from '../format';
import {Builder, Interner, MARK, openBuilder} from '../tree';

const FUNCTIONS_MOST = Builder.FUNCTIONS_MAX - 2;
const NODES_MOST = 4_000_000;
const DEPTH_MOST = 1024;

export class Sink {
	unit = 'samples';
	type = 'samples';
	from = 0; // epoch ms
	to = 0;
	samples = 0;
	skipped = 0; // lines or samples that were not understood
	cut = 0; // stacks that were too deep
	private isCut = false; // the one at hand
	private readonly depths: number[] = [0];
	private readonly interner = new Interner();
	private readonly builder = openBuilder(false);

	function(name: string, module: string, kind: number, source = '', line = 0): number {
		if (this.interner.size >= FUNCTIONS_MOST)
			return this.interner.id('(other)', '', MARK);
		return this.interner.id(
			clean(name) || '[no name]',
			clean(module),
			kind,
			clean(source),
			line,
		);
	}

	/* The node of a function called from another; beyond a cap it is its caller's. */
	call(parent: number, fn: number): number {
		if (this.depths[parent] >= DEPTH_MOST || this.builder.size >= NODES_MOST) {
			this.isCut = true;
			return parent;
		}
		const node = this.builder.child(parent, fn);
		this.depths[node] ??= this.depths[parent] + 1;
		return node;
	}

	frame(parent: number, name: string, module = '', kind = 0): number {
		return this.call(parent, this.function(name, module, kind));
	}

	add(node: number, value: number): void {
		if (value > 0 && Number.isFinite(value)) this.builder.add(node, value, 0);
		if (this.isCut) this.cut++;
		this.isCut = false;
	}

	/* What of the file is not in the profile. */
	private notes(): string[] {
		const notes: string[] = [];
		if (this.skipped > 0)
			notes.push(`${count(this.skipped)} lines or frames were not understood`);
		if (this.cut > 0)
			notes.push(
				`${count(this.cut)} stacks were truncated to ${count(DEPTH_MOST)} frames`,
			);
		return notes;
	}

	finish(): Profile {
		const {names, renumber} = this.interner.finish();
		return {
			tree: this.builder.finish(names, renumber),
			type: this.type,
			unit: this.unit,
			from: this.from,
			to: this.to,
			samples: this.samples,
			lost: 0,
			pruned: 0,
			quality: null,
			period: 0,
			base: null,
			notes: this.notes(),
		};
	}
}
