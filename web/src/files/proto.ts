/*
 * proto: the wire format of protocol buffers, as much of it as pprof has. Numbers beyond 2^53 are
 * rounded: addresses are not read here, and no sum of a profile is that large.
 */

export interface Field {
	number: number;
	value: number; // of a varint
	bytes: Uint8Array | null; // of what has a length
}

export class ProtoError extends Error {}

function varint(data: Uint8Array, at: number): [number, number] {
	let value = 0;
	let scale = 1;
	for (let i = 0; i < 10; i++) {
		if (at >= data.length) throw new ProtoError('a number is cut off');
		const byte = data[at++];
		value += (byte & 127) * scale;
		if (byte < 128) {
			// The tenth byte of a negative number: two's complement of 64 bits.
			return [value >= 2 ** 63 ? value - 2 ** 64 : value, at];
		}
		scale *= 128;
	}
	throw new ProtoError('a number is too long');
}

export function* fields(data: Uint8Array): Generator<Field> {
	let at = 0;
	while (at < data.length) {
		let key: number;
		let value = 0;
		let bytes: Uint8Array | null = null;
		[key, at] = varint(data, at);
		const type = key % 8;
		if (type === 0) {
			[value, at] = varint(data, at);
		} else if (type === 2) {
			let length: number;
			[length, at] = varint(data, at);
			if (length < 0 || length > data.length - at)
				throw new ProtoError('a field is cut off');
			bytes = data.subarray(at, at + length);
			at += length;
		} else if (type === 1 || type === 5) {
			at += type === 1 ? 8 : 4;
			if (at > data.length) throw new ProtoError('a field is cut off');
		} else throw new ProtoError('a field has an unknown type');
		yield {number: Math.floor(key / 8), value, bytes};
	}
}

/* A repeated number, packed or not. */
export function numbers(f: Field, into: number[]): void {
	if (!f.bytes) {
		into.push(f.value);
		return;
	}
	for (let at = 0; at < f.bytes.length; ) {
		let value: number;
		[value, at] = varint(f.bytes, at);
		into.push(value);
	}
}

/* Writes what fields() reads. */
export class Writer {
	private data = new Uint8Array(1 << 12);
	private length = 0;

	private room(n: number): void {
		if (this.length + n <= this.data.length) return;
		const more = new Uint8Array(Math.max(2 * this.data.length, this.length + n));
		more.set(this.data.subarray(0, this.length));
		this.data = more;
	}

	raw(n: number): this {
		this.room(10);
		n = Math.round(n);
		while (n >= 128) {
			this.data[this.length++] = (n % 128) | 128;
			n = Math.floor(n / 128);
		}
		this.data[this.length++] = n;
		return this;
	}

	number(field: number, n: number): this {
		return n === 0 ? this : this.raw(field * 8).raw(n);
	}

	bytes(field: number, b: Uint8Array): this {
		this.raw(field * 8 + 2).raw(b.length);
		this.room(b.length);
		this.data.set(b, this.length);
		this.length += b.length;
		return this;
	}

	text(field: number, s: string): this {
		return this.bytes(field, new TextEncoder().encode(s));
	}

	packed(field: number, all: number[]): this {
		const inner = new Writer();
		for (const n of all) inner.raw(n);
		return this.bytes(field, inner.done());
	}

	message(field: number, fill: (w: Writer) => void): this {
		const inner = new Writer();
		fill(inner);
		return this.bytes(field, inner.done());
	}

	done(): Uint8Array {
		return this.data.subarray(0, this.length);
	}
}
