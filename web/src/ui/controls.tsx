/*
 * controls: small pieces of the page that several views use: dropdowns, choices and notices.
 */
import {signal} from '@preact/signals';
import type {ComponentChildren, JSX} from 'preact';
import {useEffect, useId, useRef, useState} from 'preact/hooks';

/* A button that opens a panel below it; Esc and a click elsewhere close it. */
export function Dropdown(props: {
	label: ComponentChildren;
	title?: string;
	className?: string;
	align?: 'left' | 'right';
	isOn?: boolean;
	children: (close: () => void) => ComponentChildren;
}): JSX.Element {
	const [isOpen, setOpen] = useState(false);
	const root = useRef<HTMLDivElement>(null);
	const button = useRef<HTMLButtonElement>(null);
	const id = useId();
	useEffect(() => {
		if (!isOpen) return;
		const onPointer = (e: Event): void => {
			if (!root.current?.contains(e.target as Node)) setOpen(false);
		};
		/* What had the focus may be gone: a button that a narrower window hides, say. */
		const onEscape = (e: KeyboardEvent): void => {
			if (e.key !== 'Escape' || document.activeElement !== document.body) return;
			e.stopImmediatePropagation();
			setOpen(false);
		};
		document.addEventListener('pointerdown', onPointer, true);
		document.addEventListener('keydown', onEscape, true);
		return () => {
			document.removeEventListener('pointerdown', onPointer, true);
			document.removeEventListener('keydown', onEscape, true);
		};
	}, [isOpen]);
	const close = (): void => {
		setOpen(false);
		button.current?.focus();
	};
	const onKey = (e: KeyboardEvent): void => {
		if (e.key === 'Escape' && isOpen) {
			e.stopPropagation();
			close();
		}
	};
	return (
		<div class={`dropdown ${props.className ?? ''}`} ref={root} onKeyDown={onKey}>
			<button
				type="button"
				class={props.isOn ? 'on' : ''}
				id={`${id}-opens`}
				ref={button}
				aria-expanded={isOpen}
				aria-controls={isOpen ? id : undefined}
				title={props.title}
				onClick={() => setOpen(!isOpen)}
			>
				{props.label}
			</button>
			{isOpen && (
				/* It scrolls, where it is higher than the window: for that it takes the keyboard. */
				<div
					class={`panel ${props.align ?? 'left'}`}
					id={id}
					role="region"
					aria-labelledby={`${id}-opens`}
					tabIndex={0}
				>
					{props.children(close)}
				</div>
			)}
		</div>
	);
}

/* One of a few. */
export function Choice<T extends string>(props: {
	label: string;
	value: T;
	options: [T, string][];
	onChange: (value: T) => void;
}): JSX.Element {
	return (
		<label class="choice">
			<span>{props.label}</span>
			<select
				value={props.value}
				onChange={e => props.onChange(e.currentTarget.value as T)}
			>
				{props.options.map(([value, text]) => (
					<option key={value} value={value}>
						{text}
					</option>
				))}
			</select>
		</label>
	);
}

/* A word that shows for a moment: what was copied, what was saved. */
export const notice = signal('');
let noticeTimer = 0;

export function notify(text: string): void {
	notice.value = text;
	clearTimeout(noticeTimer);
	noticeTimer = window.setTimeout(() => {
		notice.value = '';
	}, 2500);
}

export async function copy(text: string, what: string): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
		notify(`Copied ${what}`);
	} catch {
		notify('The browser did not allow copying');
	}
}

export function Notice(): JSX.Element {
	return (
		<div class={`notice ${notice.value ? 'shown' : ''}`} role="status">
			{notice.value}
		</div>
	);
}
