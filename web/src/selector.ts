/*
 * selector: TYPE{label="x", label=~"re", …}, as `smolder query` takes it.
 *
 * The page reads a selector to show it as chips and to add to it; what it means the server decides, and
 * both by the same rules: a word alone that is no type is a process (src/query/selector.h).
 */

export type Op = '=' | '!=' | '=~' | '!~';

export interface Matcher {
	label: string;
	op: Op;
	value: string;
}

export interface Selector {
	type: string;
	matchers: Matcher[];
}

const ESCAPES: Record<string, string> = {n: '\n', t: '\t', r: '\r'};

export function quote(value: string): string {
	const body = value
		.replace(/["\\]/g, '\\$&')
		.replace(/\n/g, '\\n')
		.replace(/\t/g, '\\t')
		.replace(/\r/g, '\\r');
	return `"${body}"`;
}

export const formatMatcher = (m: Matcher): string => `${m.label}${m.op}${quote(m.value)}`;

export function format(s: Selector): string {
	if (s.matchers.length === 0) return s.type;
	return `${s.type}{${s.matchers.map(formatMatcher).join(', ')}}`;
}

const SPACE = /\s*/y;
const TYPE = /[A-Za-z_][\w:]*/y;
const LABEL = /[A-Za-z_][\w.]*/y;
const OP = /=~|!~|!=|=/y;
const STRING = /"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'/y;

class Reader {
	at = 0;
	constructor(readonly text: string) {}

	take(re: RegExp): RegExpExecArray | null {
		SPACE.lastIndex = this.at;
		SPACE.exec(this.text);
		re.lastIndex = SPACE.lastIndex;
		const m = re.exec(this.text);
		if (m) this.at = re.lastIndex;
		return m;
	}

	get done(): boolean {
		return this.text.slice(this.at).trim() === '';
	}

	matcher(): Matcher | string {
		const label = this.take(LABEL)?.[0];
		if (!label) return 'a label name is missing';
		const op = this.take(OP)?.[0] as Op | undefined;
		if (!op) return `after ${label} comes =, !=, =~ or !~`;
		const m = this.take(STRING);
		if (!m) return `the value of ${label} must be in quotes`;
		const value = (m[1] ?? m[2]).replace(/\\(.)/g, (_, c: string) => ESCAPES[c] ?? c);
		return {label, op, value};
	}
}

/* As people write the names of processes: redis-server, python3.11, kworker/0:1. */
const WORD = /^[^\s{}"'`=~!,:][^\s{}"'`=~!,]*$/;
const COMM_MOST = 15; // bytes that the kernel keeps

export function isWord(text: string): boolean {
	return WORD.test(text.trim());
}

function processOf(word: string): Selector {
	const bytes = new TextEncoder().encode(word).subarray(0, COMM_MOST);
	const value = new TextDecoder().decode(bytes);
	return {type: 'cpu', matchers: [{label: 'comm', op: '=', value}]};
}

/*
 * A selector, or one sentence that says what is wrong with it. `types` are those of what is stored.
 */
export function parse(text: string, types: readonly string[] = []): Selector | string {
	const r = new Reader(text);
	const word = text.trim();
	if (isWord(word) && word !== 'cpu' && !types.includes(word)) return processOf(word);
	const type = r.take(TYPE)?.[0] ?? '';
	const matchers: Matcher[] = [];
	if (r.take(/\{/y)) {
		while (!r.take(/\}/y)) {
			const m = r.matcher();
			if (typeof m === 'string') return m;
			matchers.push(m);
			if (r.take(/,/y)) continue;
			if (!r.take(/\}/y)) return 'a } or a comma is missing';
			break;
		}
	}
	if (!r.done)
		return `${JSON.stringify(text.slice(r.at).trim().slice(0, 20))} is not understood`;
	return {type: type || 'cpu', matchers};
}

/* Matchers alone, as someone types them into the box: comm="x", pid!="1". */
export function parseMatchers(text: string): Matcher[] | string {
	const s = parse(`{${text}}`);
	return typeof s === 'string' ? s : s.matchers;
}

/* With one matcher more; one that says the same of the label takes the old one's place. */
export function withMatcher(s: Selector, m: Matcher): Selector {
	const rest = s.matchers.filter(
		o =>
			o.label !== m.label ||
			(m.op !== '=' && (o.op !== m.op || o.value !== m.value)),
	);
	return {...s, matchers: [...rest, m]};
}

/* What is being typed at the end of the text, for completion. */
export type Typing =
	| {kind: 'label'; prefix: string; at: number}
	| {kind: 'value'; label: string; op: Op; prefix: string; at: number};

export function typing(text: string): Typing {
	// Strings that are whole hide what is in them: a comma in a value separates nothing.
	const hidden = text.replace(/"(?:[^"\\\n]|\\.)*"/g, s => `"${'x'.repeat(s.length - 2)}"`);
	const at = Math.max(hidden.lastIndexOf(','), hidden.lastIndexOf('{')) + 1;
	const part = text.slice(at);
	const lead = at + (part.length - part.trimStart().length);
	const m = /^\s*([A-Za-z_][\w.]*)\s*(=~|!~|!=|=)\s*"?([^"]*)"?$/.exec(part);
	if (m) return {kind: 'value', label: m[1], op: m[2] as Op, prefix: m[3], at: lead};
	return {kind: 'label', prefix: part.trim(), at: lead};
}
