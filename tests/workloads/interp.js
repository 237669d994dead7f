// JavaScript that goes in and out of V8's built-ins and C++: sort, regular expressions, JSON, maps.
'use strict';
const crypto = require('crypto');

function recurse(n) {
	return n === 0 ? 0 : recurse(n - 1) + 1;
}

console.log(`ready ${process.pid}`);
function turn() {
	const list = Array.from({length: 2000}, (_, i) => (i * 7919) % 2003);
	list.sort((a, b) => a - b);
	JSON.parse(JSON.stringify(Object.fromEntries(list.map((x) => [`k${x}`, [x, x]]))));
	'some words '.repeat(200).replace(/(\w+) (\w+)/g, (_, a, b) => b + a);
	crypto.createHash('sha256').update(Buffer.alloc(100000)).digest('hex');
	const m = new Map();
	for (const x of list)
		m.set(`${x}`, recurse(x % 50));
	setImmediate(turn);
}
process.on('SIGTERM', () => process.exit(0));
turn();
