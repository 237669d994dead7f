// A program that profiles itself with Pyroscope's client, as its documentation says, and pushes to
// SERVER: node tests/browser/pusher.mjs SERVER SECONDS. The seconds are of CPU time: on a busy machine it
// takes as long as that takes.
import pyroscope from "@pyroscope/nodejs";

const [server, seconds] = process.argv.slice(2);
const Pyroscope = pyroscope.default ?? pyroscope;

function busyWithPrimes(until) {
	let found = 0;
	for (let n = 3; Date.now() < until; n += 2) {
		let prime = true;
		for (let d = 3; d * d <= n; d += 2)
			if (n % d === 0) {
				prime = false;
				break;
			}
		found += prime;
	}
	return found;
}

Pyroscope.init({
	serverAddress: server,
	appName: "primes",
	tags: { region: "here" },
	flushIntervalMs: 2000,
	wall: { samplingDurationMs: 2000, collectCpuTime: true },
});
Pyroscope.start();
while (process.cpuUsage().user < 1e6 * Number(seconds)) {
	busyWithPrimes(Date.now() + 50);
	await new Promise((done) => setTimeout(done, 1));
}
await Pyroscope.stop();
