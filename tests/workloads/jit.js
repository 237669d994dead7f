// jit: hot JavaScript functions; run with node --perf-basic-prof to have them in /tmp/perf-PID.map.
'use strict';

function kindle(n) {
	let x = 0;
	for (let i = 0; i < n; i++)
		x = (x * 31 + i) | 0;
	return x;
}

function stoke(n) {
	let s = 0;
	for (let i = 0; i < 100; i++)
		s = (s + kindle(n)) | 0;
	return s;
}

let sink = 0;
const until = Date.now() + 300;
while (Date.now() < until)
	sink ^= stoke(1000); // compiled before anyone looks
process.on('SIGTERM', () => process.exit(0));
console.log(`ready ${process.pid}`);

(function burn() {
	const stop = Date.now() + 50;
	while (Date.now() < stop)
		sink ^= stoke(1000);
	setImmediate(burn);
})();
