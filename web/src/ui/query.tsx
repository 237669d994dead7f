/*
 * query: which series are shown. Each matcher is a chip; the box takes another one, or a whole
 * selector as `smolder query` has it, and completes names and values.
 */
import {signal} from '@preact/signals';
import type {JSX} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {address, get} from '../api';
import {labels, range, selectorOf, showSelector, state, types} from '../data';
import {clip} from '../format';
import {
	format,
	formatMatcher,
	isWord,
	type Matcher,
	parseMatchers,
	quote,
	type Selector,
	typing,
	withMatcher,
} from '../selector';
import {labelName} from './timeline';

const SUGGESTIONS_MOST = 12;
const OPPOSITE = {'=': '!=', '!=': '=', '=~': '!~', '!~': '=~'} as const;

interface Suggestion {
	text: string; // what is shown
	note?: string; // and what that is
	fill: string; // what the box holds then
	isWhole: boolean; // nothing is left to type
}

const problem = signal('');

function selector(): Selector {
	const s = selectorOf(state.value.query);
	return typeof s === 'string' ? {type: 'cpu', matchers: []} : s;
}

/*
 * Matchers, a whole selector if there is a {, or a word: a type, or one more matcher, of a process.
 * False: not understood.
 */
function accept(text: string): boolean {
	const trimmed = text.trim();
	if (trimmed === '') return true;
	if (trimmed.includes('{') || isWord(trimmed)) {
		const s = selectorOf(trimmed);
		if (typeof s === 'string') {
			problem.value = s;
			return false;
		}
		const isProcess = isWord(trimmed) && s.matchers.length > 0;
		showSelector(isProcess ? s.matchers.reduce(withMatcher, selector()) : s);
		return true;
	}
	const matchers = parseMatchers(trimmed);
	if (typeof matchers === 'string') {
		problem.value = matchers;
		return false;
	}
	showSelector(matchers.reduce(withMatcher, selector()));
	return true;
}

async function values(label: string, signal: AbortSignal): Promise<string[]> {
	const r = range.value;
	const path = `labels/${encodeURIComponent(label)}/values`;
	const answer = await get<{values: string[]}>(
		address(path, {query: selector().type, from: r.from, to: r.to}),
		signal,
	);
	return answer.values;
}

/* Those that begin with it first, then those that contain it. */
function ranked(all: string[], prefix: string): string[] {
	const p = prefix.toLowerCase();
	const begin = all.filter(v => v.toLowerCase().startsWith(p));
	const inside = all.filter(
		v => !v.toLowerCase().startsWith(p) && v.toLowerCase().includes(p),
	);
	return [...begin, ...inside];
}

async function suggest(text: string, signal: AbortSignal): Promise<Suggestion[]> {
	const t = typing(text);
	const before = text.slice(0, t.at);
	const close = before.includes('{') ? '}' : '';
	if (t.kind === 'value') {
		const found = ranked(await values(t.label, signal), t.prefix);
		return found.slice(0, SUGGESTIONS_MOST).map(v => ({
			text: v,
			fill: `${before}${t.label}${t.op}${quote(v)}${close}`,
			isWhole: true,
		}));
	}
	const names = ranked(labels.data.value ?? [], t.prefix);
	const out: Suggestion[] = names.map(l => ({
		text: l,
		note: labelName(l) === l ? undefined : labelName(l),
		fill: `${before}${l}="`,
		isWhole: false,
	}));
	if (before === '') {
		// Another type of the same series.
		const {matchers} = selector();
		const found = ranked(types.data.value ?? [], t.prefix);
		out.push(
			...found.map(type => ({
				text: type,
				note: 'profile type',
				fill: format({type, matchers}),
				isWhole: true,
			})),
		);
	}
	if (t.prefix !== '') {
		// A bare word is most likely a process.
		const found = ranked(await values('comm', signal), t.prefix);
		out.push(
			...found.slice(0, SUGGESTIONS_MOST).map(v => ({
				text: `comm=${quote(v)}`,
				fill: `${before}comm=${quote(v)}${close}`,
				isWhole: true,
			})),
		);
	}
	return out.slice(0, SUGGESTIONS_MOST);
}

function Chip({m, at}: {m: Matcher; at: number}): JSX.Element {
	const s = selector();
	const others = s.matchers.filter((_, i) => i !== at);
	const text = `${m.label}${m.op}${quote(clip(m.value, 80))}`;
	return (
		<span class="chip">
			<button
				type="button"
				class="text"
				title={`Turn into ${m.label}${OPPOSITE[m.op]}…`}
				onClick={() =>
					showSelector({
						...s,
						matchers: s.matchers.map((o, i) =>
							i === at ? {...o, op: OPPOSITE[o.op]} : o,
						),
					})
				}
			>
				{text}
			</button>
			<button
				type="button"
				class="x"
				aria-label={`Remove ${text}`}
				onClick={() => showSelector({...s, matchers: others})}
			>
				×
			</button>
		</span>
	);
}

export function QueryBox(): JSX.Element {
	const input = useRef<HTMLInputElement>(null);
	const [text, setText] = useState('');
	const [isOpen, setOpen] = useState(false);
	const [list, setList] = useState<Suggestion[]>([]);
	const [at, setAt] = useState(-1);
	const s = selector();
	const bad = selectorOf(state.value.query);

	useEffect(() => {
		if (!isOpen) return;
		const mine = new AbortController();
		suggest(text, mine.signal).then(
			found => {
				if (mine.signal.aborted) return;
				setList(found);
				setAt(-1);
			},
			() => undefined, // without suggestions one can still type
		);
		return () => mine.abort();
	}, [text, isOpen, labels.data.value]);

	const enter = (value: string): void => {
		if (!accept(value)) return;
		problem.value = '';
		setText('');
		setList([]);
	};
	const take = (g: Suggestion): void => {
		if (g.isWhole) enter(g.fill);
		else setText(g.fill);
		input.current?.focus();
	};
	const edit = (): void => {
		setText(format(s));
		setOpen(true);
		input.current?.focus();
	};
	const onKey = (e: KeyboardEvent): void => {
		if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
			if (list.length === 0) return;
			setOpen(true);
			setAt(
				(at +
					(e.key === 'ArrowDown'
						? 1
						: list.length - (at < 0 ? 0 : 1))) %
					list.length,
			);
		} else if (e.key === 'Enter') {
			if (at >= 0 && list[at]) take(list[at]);
			else enter(text);
		} else if (e.key === 'Tab' && list.length > 0 && text !== '') {
			take(list[Math.max(0, at)]);
		} else if (e.key === 'Escape') {
			problem.value = '';
			if (text !== '') setText('');
			else input.current?.blur();
			setOpen(false);
		} else if (e.key === 'Backspace' && text === '' && s.matchers.length > 0) {
			showSelector({...s, matchers: s.matchers.slice(0, -1)});
		} else return;
		e.preventDefault();
		e.stopPropagation();
	};
	const isListed = isOpen && list.length > 0;
	return (
		<div
			class={`query ${problem.value ? 'wrong' : ''} ${s.matchers.length > 0 ? 'used' : ''}`}
		>
			<button type="button" class="type" title="Edit as text" onClick={edit}>
				{s.type}
			</button>
			{s.matchers.map((m, i) => (
				<Chip key={formatMatcher(m)} m={m} at={i} />
			))}
			<input
				ref={input}
				type="text"
				id="filter"
				role="combobox"
				aria-label="Filter by label"
				aria-expanded={isListed}
				aria-controls="suggestions"
				aria-autocomplete="list"
				aria-activedescendant={
					isListed && at >= 0 ? `suggestion-${at}` : undefined
				}
				autocomplete="off"
				spellcheck={false}
				placeholder={
					s.matchers.length
						? ''
						: 'Filter: a process, or comm="nginx"'
				}
				value={text}
				onInput={e => {
					problem.value = '';
					setText(e.currentTarget.value);
					setOpen(true);
				}}
				onFocus={() => setOpen(true)}
				onBlur={() => setOpen(false)}
				onKeyDown={onKey}
			/>
			{(problem.value || typeof bad === 'string') && (
				<span class="problem" role="alert">
					{problem.value || String(bad)}
				</span>
			)}
			{isListed && (
				<ul
					class="suggestions"
					id="suggestions"
					role="listbox"
					aria-label="Completions"
				>
					{list.map((g, i) => (
						<li
							key={g.fill}
							id={`suggestion-${i}`}
							role="option"
							aria-selected={i === at}
							onPointerDown={e => {
								e.preventDefault();
								take(g);
							}}
						>
							{clip(g.text, 120)}
							{g.note && <i>{g.note}</i>}
						</li>
					))}
				</ul>
			)}
		</div>
	);
}
