/*
 * open: a file that was dropped on the page becomes a profile. It never leaves the browser.
 */
import type {Profile} from '../api';
import {looksFolded, readFolded} from './folded';
import {looksPerf, readPerf} from './perf';
import {readPprof} from './pprof';
import {Sink} from './sink';
import {looksSpeedscope, readSpeedscope} from './speedscope';

const BYTES_MOST = 512 << 20;

async function unpack(data: Uint8Array): Promise<Uint8Array> {
	if (data[0] !== 0x1f || data[1] !== 0x8b) return data;
	const reader = new Blob([data as BlobPart])
		.stream()
		.pipeThrough(new DecompressionStream('gzip'))
		.getReader();
	const parts: Uint8Array[] = [];
	let length = 0;
	for (;;) {
		const {done, value} = await reader.read();
		if (done) break;
		parts.push(value);
		length += value.length;
		if (length > BYTES_MOST) {
			await reader.cancel();
			throw new Error('it is larger than 512 MiB when unpacked');
		}
	}
	const out = new Uint8Array(length);
	let at = 0;
	for (const p of parts) {
		out.set(p, at);
		at += p.length;
	}
	return out;
}

/* Throws an Error whose message completes "NAME cannot be shown: …". */
export async function openFile(packed: Uint8Array): Promise<Profile> {
	if (packed.length > BYTES_MOST) throw new Error('it is larger than 512 MiB');
	let data: Uint8Array;
	try {
		data = await unpack(packed);
	} catch (e) {
		if (e instanceof Error && e.message.startsWith('it is')) throw e;
		throw new Error('its gzip data is damaged');
	}
	if (data.length === 0) throw new Error('it is empty');
	const sink = new Sink();
	const text = new TextDecoder().decode(data);
	if (looksSpeedscope(text)) readSpeedscope(text, sink);
	else if (looksPerf(text)) readPerf(text, sink);
	else if (looksFolded(text)) readFolded(text, sink);
	else {
		try {
			readPprof(data, sink);
		} catch {
			throw new Error(
				'it is not folded stacks, pprof, perf script or speedscope',
			);
		}
	}
	const p = sink.finish();
	if (p.tree.total[0] === 0) throw new Error('it has no samples');
	return p;
}
