/*
 * The web page of a real `smolder serve`, with windows that tests/windows.py sent: what it shows is what
 * `smolder query` says, and what was sent. test_page.mjs has what a user does with it.
 */
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {test} from 'node:test';
import {pathToFileURL} from 'node:url';
import {PERIOD} from '../../web/test/mock.mjs';
import {
	ROOT, ROW, SMOLDER, axe, browser, done, drag, files, foldedSum, info, open, picture, ready, rows,
	sameCost, settled, skip, tableSum, timelineSum, total,
} from './page.mjs';
import {listening} from './served.mjs';

/* What realServer sends unless told: lines of Python that make the `rows` of window `w`. */
const ROWS = `
    n = 3 + w % 5
    rows = [row(("main@app", "work@app", "[k]read@[kernel]"), n, comm="nginx", pid="1", times=[(7 * i + w) % 500 for i in range(n)]),
            row(("main@app", "rest<b>@app"), 2, comm="nginx", pid="2", times=[100, 200]),
            row(("main@db", "query@db"), 7, comm="db", times=list(range(0, 70, 10)))]`;

/*
 * `smolder serve` with windows that tests/windows.py sent: {url, from, to, close}. `late`: the last of
 * them when the server has looked at its collector once, so that it knows what that costs of late.
 */
async function realServer(making = ROWS, late = false) {
	const store = mkdtempSync(path.join(tmpdir(), 'smolder-page-store-'));
	const child = spawn(SMOLDER, ['serve', '--store', store, '--listen', '127.0.0.1:0'], {stdio: ['ignore', 'ignore', 'pipe']});
	const base = await listening(child);
	const fill = `
import json, sys, time, urllib.request
sys.path.insert(0, ${JSON.stringify(path.join(ROOT, 'tests'))})
from windows import Collector, row
end = int(time.time() * 1000) // 10000 * 10000 - 60000
start = end - 30 * 10000
base = ${JSON.stringify(base)}
c = Collector()
others = {kind: Collector() for kind in ("oncpu", "offcpu")}
def post(message):
    urllib.request.urlopen(urllib.request.Request(base + "api/v1/windows", data=message, method="POST")).read()
for w in range(30):
    at = start + w * 10000
${making}
    for r in rows:
        if r["times"]: r["times"].sort()
    cpu = 3.0 + 0.004 * w if w < 29 else 3.5
    metrics = [("uptime_seconds", 1000.0 + 10 * w), ('cpu_seconds_total{process="collector"}', cpu),
               ('resident_bytes{process="collector"}', 2e7), ('bpf_seconds_total{program="sample"}', cpu / 4),
               ("timer_seconds_total", cpu / 5)] + [
               (f'stage_seconds_total{{stage="{n}"}}', cpu / (i + 3)) for i, n in enumerate(("sampling", "walking", "symbols"))]
    while ${late ? 'w == 29' : 'False'} and not json.load(urllib.request.urlopen(base + "api/v1/status"))["cost"]["recent"]:
        time.sleep(0.2)
    post(c.message(at, rows, metrics=metrics))
print(json.dumps([start, end]))
`;
	const [from, to] = JSON.parse(execFileSync('python3', ['-c', fill], {encoding: 'utf8'}));
	return {url: base, from, to, close: async () => {
		const ended = new Promise(r => child.on('exit', r));
		child.kill('SIGTERM');
		await ended;
		rmSync(store, {recursive: true});
	}};
}

test('the page of a real server: its numbers are those of smolder query', {skip}, async () => {
	const real = await realServer();
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}`, {base: real.url});
		await ready(page);
		const query = (selector, from, to) => PERIOD * foldedSum(execFileSync(SMOLDER, ['query', selector, '--server', real.url.slice(0, -1),
			'--from', String(from), '--to', String(to), '-f', 'folded', '-o', '-'], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']}));
		const agree = async (want, what) => {
			assert.ok(want > 0, what);
			assert.equal(await total(page), want, what);
			assert.equal(await timelineSum(page), want, what);
			assert.equal(await tableSum(page), want, what);
		};
		await agree(query('cpu', real.from, real.to), 'all');
		await page.locator('.legend button', {hasText: 'nginx'}).click();
		await settled(page);
		await agree(query('cpu{comm="nginx"}', real.from, real.to), 'a filter');
		await drag(page, 0.2, 0.6);
		const [from, to] = /sel=(\d+)-(\d+)/.exec(page.url()).slice(1).map(Number);
		await agree(query('cpu{comm="nginx"}', from, to), 'a filter and a range');
		assert.ok((await rows(page)).some(r => r[4] === 'rest<b>'));
		const {headers, status} = await page.evaluate(async () => {
			const r = await fetch('.');
			return {status: r.status, headers: Object.fromEntries(r.headers)};
		});
		assert.equal(status, 200);
		assert.match(headers['content-security-policy'], /default-src 'self'/);
		await axe(page, 'a real server');
		await done(page);
	} finally {
		await real.close();
	}
});

/* Ten threads: in ten seconds 4 s run, 1 s waits for a CPU, 20 s for a disk, and the rest is idle. */
const WAITING = `${ROWS}
    post(others["oncpu"].message(at, [
        row((), 9, 2_000_000_000, comm="nginx", pid="1"), row((), 1, 500_000_000, comm="nginx", pid="2"),
        row((), 7, 1_500_000_000, comm="db")], kind="oncpu", period=0))
    post(others["offcpu"].message(at, [
        row(("main@nginx", "read@libc.so.6", "[k]io_schedule"), 5, 20_000_000_000, comm="nginx", state="uninterruptible", reason="disk"),
        row(("main@nginx", "work@nginx"), 3, 1_000_000_000, comm="nginx", state="runnable", reason="cpu"),
        row(("[m][idle]", "main@nginx", "wait@nginx", "[k]ep_poll"), 1, 75_000_000_000, comm="nginx", state="idle", reason="poll")],
        kind="offcpu", period=0))`;

test('a real server: what was waited for, and wall-clock time by its parts', {skip}, async () => {
	const real = await realServer(WAITING);
	const type = page => page.locator('.timeline-head select').first();
	const lines = page => page.locator('.legend .value').allTextContents();
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}`, {base: real.url});
		await ready(page);
		assert.deepEqual(await type(page).locator('option').allTextContents(), ['CPU', 'waiting', 'wall clock']);
		await type(page).selectOption('offcpu');
		await settled(page);
		assert.match(page.url(), /q=offcpu/);
		assert.match(await page.locator('.timeline-head').textContent(), /threads by/);
		assert.equal(await total(page), 30 * 96e9);
		assert.equal(await timelineSum(page), 30 * 96e9);

		await type(page).selectOption('wall');
		await settled(page);
		assert.deepEqual(await lines(page), ['running: user', 'running: kernel', 'waiting for a CPU', 'blocked: disk', 'idle']);
		assert.equal(await total(page), 30 * 100e9, 'all of the time, however many samples there are');
		assert.equal(await timelineSum(page), 30 * 100e9);
		const names = (await rows(page)).map(r => r[4]);
		for (const part of ['[running: kernel]', '[waiting for a CPU]', '[blocked: disk]', '[idle]'])
			assert.ok(names.includes(part), part);
		// Idle is three quarters; as wide as that after a click.
		const box = await page.locator('.graph').first().boundingBox();
		const idle = [box.x + box.width * 0.4, box.y + box.height - 1.3 * ROW];
		await page.mouse.move(...idle);
		assert.doesNotMatch(await page.locator('.card').textContent(), /^\[idle\]/);
		const grouped = await (await fetch(`${real.url}api/v1/query?query=wall&by=comm&idle=1&format=folded&from=${real.from}&to=${real.to}`)).text();
		assert.match(grouped, /^\[idle\];nginx;main;wait;ep_poll(_\[k\])? \d+$/m);
		await axe(page, 'wall-clock time');
		await type(page).selectOption('cpu');
		await settled(page);
		assert.ok((await lines(page)).includes('nginx'), 'by process again');
		await done(page);

		// The same as a picture: idle is an eighth of it, and words have the real numbers.
		const svg = await (await fetch(`${real.url}api/v1/query?query=wall&by=comm&format=svg&from=${real.from}&to=${real.to}`)).text();
		assert.doesNotMatch(svg, /ep_poll/);
		writeFileSync(path.join(files, 'wall.svg'), svg);
		const viewer = await browser.newPage({viewport: {width: 1000, height: 700}});
		await viewer.goto(pathToFileURL(path.join(files, 'wall.svg')).href);
		const drawn = async name => {
			const label = viewer.locator('.smolder .frames text', {hasText: name}).first();
			return label.evaluate(e => {
				const {x, y, width} = e.previousElementSibling.getBoundingClientRect();
				return {label: e.textContent, x, y, width};
			});
		};
		const all = await drawn('all'), frame = await drawn('[idle]'), nginx = await drawn('nginx');
		assert.equal(frame.label, '[idle] 2250 s');
		assert.ok(Math.abs(frame.width / all.width - 1 / 8) < 0.01, `${frame.width} of ${all.width}`);
		assert.ok(Math.abs(nginx.width / all.width - 7 / 8 * 23.5 / 25) < 0.01, `${nginx.width} of ${all.width}`);
		await viewer.mouse.move(frame.x + 5, frame.y + 5);
		assert.match(await viewer.locator('.tip').textContent(), /75\.00 % of all.*narrower/);
		await viewer.mouse.move(all.x + 5, all.y + 5);
		assert.match(await viewer.locator('.tip').textContent(), /100\.00 % of all/);
		await viewer.locator('.smolder input').fill('idle');
		assert.equal(await viewer.locator('.smolder output').textContent(), '75.00 % matched');
		await viewer.mouse.click(frame.x + 5, frame.y + 5);
		assert.match(await viewer.locator('.trail').textContent(), /\[idle\]75\.00 %/);
		await viewer.close();
	} finally {
		await real.close();
	}
});

/*
 * Two processes, the first of three threads, and what each did with its ten seconds: at first more than
 * there are CPUs for, later a disk that is slow, and a lock that one of them has.
 */
const THREADS = `
    rows, ran, waits = [], [], []
    storm, slow = 5 <= w < 10, 15 <= w < 22
    loop = ("main@api", "serve@api", "handle@api")
    stacks = {
        "user": [(5, loop + ("parse@api", "json_scan@libjson.so.2")), (3, loop + ("render@api", "format@api")), (2, loop + ("hash@api",))],
        "kernel": [(2, loop + ("write@libc.so.6", "[k]ksys_write@[kernel]", "[k]tcp_sendmsg@[kernel]")), (1, loop + ("read@libc.so.6", "[k]ksys_read@[kernel]"))],
        "cpu": [(1, ("[m][runnable]",) + loop + ("parse@api",))],
        "disk": [(1, loop + ("load@api", "pread@libc.so.6", "[k]ksys_pread64@[kernel]", "[k]filemap_read@[kernel]", "[k]io_schedule@[kernel]"))],
        "lock": [(1, loop + ("cache_get@api", "pthread_mutex_lock@libc.so.6", "[k]futex_wait@[kernel]"))],
        "idle": [(1, ("[m][idle]", "main@api", "serve@api", "epoll_wait@libc.so.6", "[k]ep_poll@[kernel]"))],
    }
    states = {"cpu": "runnable", "disk": "uninterruptible", "lock": "sleeping", "idle": "idle"}
    for comm, pid, tid, name, busy in (("api", "7", "7", "api", 1), ("api", "7", "8", "worker", 6), ("api", "7", "9", "worker", 5), ("db", "20", "20", "db", 2)):
        parts = {"user": 500 * busy + 60 * (w * 7 % 5), "kernel": 120 * busy + (100 if slow else 0),
                 "cpu": (350 if storm else 30) * busy, "disk": (400 if slow else 15) * busy,
                 "lock": (150 if slow and tid == "9" else 10) * busy}
        parts["idle"] = 10000 - sum(parts.values())
        labels = {"comm": comm, "pid": pid, "tid": tid, "thread": name}
        ran.append(row((), 9, (parts["user"] + parts["kernel"]) * 1_000_000, **labels))
        for part in ("user", "kernel"):
            of = sum(n for n, _ in stacks[part])
            for n, stack in stacks[part]:
                rows.append(row(stack, 30 * parts[part] * n // of // 1000, **labels))
        for part, state in states.items():
            waits.append(row(stacks[part][0][1], 5, parts[part] * 1_000_000, state=state, reason=part, **labels))
    post(others["oncpu"].message(at, ran, kind="oncpu", period=0))
    post(others["offcpu"].message(at, waits, kind="offcpu", period=0))`;
const PARTS = ['running: user', 'running: kernel', 'waiting for a CPU', 'blocked: disk', 'blocked: lock', 'idle'];

test('a real server: the wall clock of a process and of a thread', {skip}, async () => {
	const real = await realServer(THREADS);
	const lines = page => page.locator('.legend .value').allTextContents();
	const shares = page => page.locator('.legend .number').allTextContents();
	const json = async (what, parameters_) => (await fetch(`${real.url}api/v1/${what}?${new URLSearchParams(parameters_)}`)).json();
	const range = {from: real.from, to: real.to};
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}&q=wall&by=pid`, {base: real.url});
		await ready(page);
		assert.equal(await total(page), 30 * 40e9, 'four threads');
		assert.deepEqual(await lines(page), ['api (7)', 'db (20)']);
		await page.locator('.legend button', {hasText: 'api (7)'}).click();
		await settled(page);
		await page.locator('.timeline-head select').nth(1).selectOption('part');
		await settled(page);
		assert.match(decodeURIComponent(page.url()), /q=wall\{pid="7"\}&.*by=part/);
		assert.deepEqual((await lines(page)).sort(), [...PARTS].sort());
		assert.equal(await total(page), 30 * 30e9, 'three of them are its');
		assert.equal(await timelineSum(page), 30 * 30e9);
		// One bar over time: at each step its parts are all of the three threads.
		const t = await json('series', {query: 'wall{pid="7"}', step: '10s', by: 'part', max: 16, ...range});
		for (let i = 0; i < t.steps; i++)
			assert.equal(t.lines.reduce((n, l) => n + l.values[i], 0), 30e9, `step ${i}`);
		const over = await page.locator('.u-over').boundingBox();
		await page.mouse.move(over.x + over.width * (17.5 / 30), over.y + 30);
		const now = (await shares(page)).map(Number);
		assert.ok(Math.abs(now.reduce((a, b) => a + b) - 3) < 0.031, `${now} are three threads`);
		await page.mouse.move(5, 5);
		await page.locator('.drag-hint').evaluate(e => e.remove()); // it is in other pictures
		await picture(page, 'page-wall');

		// A thread, by the filter.
		await page.locator('.query input').fill('wall{tid="8"}');
		await page.keyboard.press('Enter');
		await settled(page);
		assert.equal(await total(page), 30 * 10e9, 'a thread');
		assert.equal(await timelineSum(page), 30 * 10e9);
		assert.deepEqual((await lines(page)).sort(), [...PARTS].sort());
		await page.locator('.query input').blur();
		await picture(page, 'page-wall-thread');
		await axe(page, 'the wall clock of a thread');
		// Another type has no such parts, however it is chosen.
		await page.locator('.query input').fill('cpu{pid="7"}');
		await page.keyboard.press('Enter');
		await settled(page);
		assert.deepEqual(await lines(page), ['api']);
		await page.locator('.query input').fill('wall{pid="7"}');
		await page.keyboard.press('Enter');
		await settled(page);
		assert.deepEqual((await lines(page)).sort(), [...PARTS].sort());

		// What was just before the disk was slow, beside it; of all their time and of what was waited for.
		const slow = {from: real.from + 150_000, to: real.from + 220_000}, before = {from: real.from + 80_000, to: slow.from};
		for (const query of ['wall{pid="7"}', 'offcpu{pid="7"}']) {
			const both = await open(`#v=1&${new URLSearchParams({t: `${real.from}-${real.to}`, q: query, by: query[0] === 'w' ? 'part' : 'comm',
				sel: `${slow.from}-${slow.to}`})}`, {base: real.url});
			await ready(both);
			await both.getByRole('button', {name: 'Compare', exact: true}).click();
			await both.getByRole('button', {name: 'What was just before'}).click();
			await settled(both);
			const base = /base=(\d+)-(\d+)/.exec(both.url()).slice(1).map(Number);
			assert.deepEqual(base, [before.from, before.to]);
			const want = await json('diff', {query, ...slow, base_from: before.from, base_to: before.to, idle: 1});
			assert.equal(await total(both), want.total);
			assert.match(await info(both), /against /);
			// More of it is the disk: it is in the table, and grew.
			const disk = (await rows(both)).find(r => r.includes('io_schedule'));
			assert.ok(disk && disk.some(cell => /^\+/.test(cell)), `${disk}`);
			await picture(both, `page-compare-${query.slice(0, query.indexOf('{'))}`);
			await axe(both, `a comparison of ${query}`);
			await done(both);
		}

		// The heatmap: as many threads as were not idle, of the same windows.
		for (const kind of ['wall', 'offcpu']) {
			const query = `${kind}{pid="7"}`;
			const map = await open(`#v=1&${new URLSearchParams({t: `${real.from}-${real.to}`, q: query, heat: 1})}`, {base: real.url});
			await ready(map);
			await map.locator('.heat-scale').waitFor();
			const heat = await json('heatmap', {query: `${kind}{pid="7",state!="idle"}`, ...range});
			assert.equal(heat.values.length, 30);
			const scale = (await map.locator('.heat-scale li').allTextContents()).at(-1);
			assert.ok(Math.abs(Number(scale) - Math.max(...heat.values) / 10e9) < 0.01, scale);
			const offset = heat.start % 60_000 / 10_000, columns = Math.ceil((offset + 30) / 6);
			const box = await map.locator('.heat canvas').boundingBox();
			const spot = w => [box.x + (Math.floor((w + offset) / 6) + 0.5) / columns * box.width,
				box.y + (5.5 - (w + offset) % 6) / 6 * box.height];
			await map.mouse.move(...spot(15));
			await map.mouse.down();
			await map.mouse.move(...spot(21));
			await map.mouse.up();
			await settled(map);
			assert.match(map.url(), new RegExp(`sel=${slow.from}-${slow.to}`));
			assert.equal(await total(map), (await json('query', {query, ...slow})).total);
			await picture(map, `page-heatmap-${kind}`);
			await axe(map, `the heatmap of ${kind}`);
			await done(map);
		}
		await done(page);
	} finally {
		await real.close();
	}
});

test('a real server: a fresh one shows all there is, at its full width', {skip}, async () => {
	const real = await realServer();
	try {
		const page = await open('', {base: real.url});
		await ready(page);
		await page.locator('.chosen', {hasText: 'all there is'}).waitFor();
		// Five minutes, ended a minute ago: not an hour with a sliver at its edge.
		const drawn = await page.evaluate(() => {
			const canvas = document.querySelector('.plot canvas');
			const over = document.querySelector('.u-over').getBoundingClientRect();
			const edge = canvas.getBoundingClientRect();
			const scale = canvas.width / edge.width;
			const y = Math.round((over.bottom - edge.top - 2) * scale);
			const {data} = canvas.getContext('2d').getImageData(Math.round((over.left - edge.left) * scale), y, Math.round(over.width * scale), 1);
			let filled = 0;
			for (let i = 0; i < data.length; i += 4)
				if (data[i + 3] > 0 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 40)
					filled++;
			return filled / (data.length / 4);
		});
		assert.ok(drawn > 0.7, `${drawn} of the width`);
		const sum = await total(page);
		assert.equal(await timelineSum(page), sum);
		await page.getByRole('button', {name: '1 h', exact: true}).click();
		await settled(page);
		assert.doesNotMatch(await page.locator('.chosen').textContent(), /all there is/, 'asked for an hour, it is one');
		assert.equal(await total(page), sum);

		// Nothing of a filter is not nothing at all.
		await page.goto(`${real.url}#v=1&t=${real.from}-${real.to}&q=cpu%7Bcomm%3D%22none%22%7D`);
		await page.locator('.empty h2', {hasText: 'Nothing matches the filter'}).waitFor();
		await page.goto(`${real.url}#v=1&t=${real.from - 7200_000}-${real.from - 3600_000}&q=cpu%7Bcomm%3D%22db%22%7D`);
		await page.locator('.empty h2', {hasText: 'Nothing was recorded in this range'}).waitFor();
		await page.goto(`${real.url}#v=1&t=${real.from}-${real.to}&by=pid&group=thread`);
		await page.locator('.legend .value', {hasText: 'nginx (1)'}).waitFor();
		await page.locator('.legend .value', {hasText: 'short-lived processes'}).waitFor();
		await done(page);
	} finally {
		await real.close();
	}
});

/* Threads of two processes, one of which is called as its process is. */
const NAMED_THREADS = `
    rows = [row(("main@app",), 4, comm="nginx", pid="7"),
            row(("main@app", "io@app"), 3, comm="nginx", pid="7", thread="aio#")]`;

test('a real server: grouped by thread, every thread has its name', {skip}, async () => {
	const real = await realServer(NAMED_THREADS);
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}&by=thread&group=thread&icicle=1`, {base: real.url});
		await ready(page);
		assert.deepEqual((await page.locator('.legend .value').allTextContents()).sort(), ['aio#', 'nginx']);
		// In the graph they are the frames below the root, and in the link what is looked for.
		for (const [thread, want] of [['aio#', 3], ['nginx', 4]]) {
			await page.locator('#search').fill(`^${thread}$`);
			await page.locator('.search output', {hasText: `${(100 * want / 7).toFixed(2)} % matched`}).waitFor();
		}
		assert.doesNotMatch(await page.locator('main').textContent(), /\(none\)/);
		await done(page);
	} finally {
		await real.close();
	}
});

/* Two CPUs, busy all the time, as a collector of 99 Hz has it. */
const BUSY = `
    ticks = [(t // 99) * 50 + (t % 99) * 10101010 // 20000000 for t in range(990)]
    rows = [row(("main@app",), 1980, comm="app", times=sorted(ticks * 2))]`;

test('a real server: what is busy all the time has no stripe in the heatmap', {skip}, async () => {
	const real = await realServer(BUSY);
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}&heat=1`, {base: real.url});
		await ready(page);
		await page.locator('.heat-scale').waitFor();
		const counts = (await (await fetch(`${real.url}api/v1/heatmap?from=${real.from}&to=${real.to}`)).json()).counts;
		assert.deepEqual([...new Set(counts)].sort(), [2, 4], 'counts differ');
		const colours = await page.locator('.heat canvas').evaluate(c => {
			const {data} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
			const seen = new Set();
			for (let i = 0; i < data.length; i += 4)
				seen.add(data.slice(i, i + 3).join());
			return [...seen];
		});
		assert.equal(colours.length, 1, colours.join(' '));
		assert.equal((await page.locator('.heat-scale li').allTextContents()).at(-1), '2');
		await done(page);
	} finally {
		await real.close();
	}
});

test('a real server: its own cost, of late and since the start', {skip}, async () => {
	const real = await realServer(ROWS, true);
	try {
		const page = await open('', {base: real.url});
		await ready(page);
		const [answer] = await Promise.all([page.waitForResponse(r => r.url().endsWith('/status')), page.reload()]);
		const status = await answer.json();
		await ready(page);
		const {cost} = status;
		const of = (c, name) => c.parts.find(p => p.name === name).cpu_percent * status.cpus;
		assert.equal(cost.recent.collector_seconds, 10);
		assert.ok(Math.abs(of(cost.recent, 'collector') - 100 * (3.5 - 3.112) / 10) < 1e-3, 'the difference');
		assert.ok(Math.abs(of(cost, 'collector') - 100 * 3.5 / 1290) < 1e-3);
		await sameCost(page, status);
		await done(page);
	} finally {
		await real.close();
	}
});

test('a real server: heatmap, comparison, completion, assets', {skip}, async () => {
	const real = await realServer();
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}&heat=1`, {base: real.url});
		await ready(page);
		const heat = await (await fetch(`${real.url}api/v1/heatmap?query=cpu&from=${real.from}&to=${real.to}`)).json();
		const box = await page.locator('.heat canvas').boundingBox();
		const columns = heat.counts.length / 50;
		const x = c => box.x + (c + 0.5) / columns * box.width, y = r => box.y + (49.5 - r) / 50 * box.height;
		await page.mouse.move(x(100), y(0));
		await page.mouse.down();
		await page.mouse.move(x(140), y(10));
		await page.mouse.up();
		await settled(page);
		let samples = 0;
		for (let c = 100; c <= 140; c++)
			for (let r = 0; r <= 10; r++)
				samples += heat.counts[c * 50 + r];
		assert.ok(samples > 0);
		assert.equal(await total(page), samples * PERIOD);
		await page.getByRole('button', {name: 'Whole range'}).click();
		await settled(page);
		await drag(page, 0.5, 0.7);
		await page.getByRole('button', {name: 'Compare', exact: true}).click();
		await page.getByRole('button', {name: 'What was just before'}).click();
		await settled(page);
		assert.match(await info(page), /against/);
		await page.getByRole('combobox', {name: 'Filter by label'}).fill('comm="n');
		await page.locator('.suggestions').getByRole('option', {name: 'nginx', exact: true}).waitFor();
		await done(page);

		// The parts of the page may be kept for ever, the page itself is asked for; both know an ETag.
		const html = await fetch(real.url);
		assert.equal(html.headers.get('cache-control'), 'no-cache');
		const part = /src="(assets\/[^"]+)"/.exec(await html.text())[1];
		const script = await fetch(real.url + part);
		assert.match(script.headers.get('cache-control'), /immutable/);
		assert.equal(script.headers.get('content-encoding'), 'gzip');
		const again = await fetch(real.url, {headers: {'If-None-Match': html.headers.get('etag')}});
		assert.equal(again.status, 304);
		const plain = execFileSync('curl', ['-s', real.url + part], {encoding: 'utf8', maxBuffer: 1 << 24});
		assert.ok(plain.length > 50_000, 'without gzip it comes as it is');
		assert.equal((await fetch(`${real.url}assets/app-000000000000.js`)).status, 404);
		assert.equal((await fetch(`${real.url}assets/..%2f..%2fetc%2fpasswd`)).status, 404);

		// Ranges that are over have an ETag, too.
		const old = `${real.url}api/v1/query?from=${real.from}&to=${real.from + 60_000}`;
		const first = await fetch(old);
		assert.ok(first.headers.get('etag'));
		const known = await fetch(old, {headers: {'If-None-Match': first.headers.get('etag')}});
		assert.equal(known.status, 304);
		assert.equal((await fetch(`${real.url}api/v1/query?from=now-1h`)).headers.get('etag'), null);
	} finally {
		await real.close();
	}
});

/* Functions that call themselves, in more nodes than the page is let have. */
const MANY = `
    rows = []
    for i in range(600):
        deep = ("main@app", f"f{i % 50}@app", f"g{i}@app", f"f{(i + 1) % 50}@app", f"g{i}@app", f"f{i % 3}@app")
        rows.append(row(deep[:3 + i % 4], 1 + (i * 7 + w * 31) % 50, comm="x"))`;

/* What each function of folded stacks took, in time: {name: [self, total]}, once a stack. */
function functionsOf(text) {
	const out = {};
	for (const [, stack, n] of text.matchAll(/^(.*) (\d+)$/gm)) {
		const names = stack.split(';');
		for (const name of new Set(names))
			(out[name] ??= [0, 0])[1] += PERIOD * Number(n);
		out[names.at(-1)][0] += PERIOD * Number(n);
	}
	return out;
}

/* The table, exact, once it has so many rows: {name: [self, total]}. */
async function tableOf(page, count) {
	await page.waitForFunction(n => document.querySelectorAll('.functions tbody tr').length === n, count);
	return page.locator('.functions tbody tr').evaluateAll(all => Object.fromEntries(all.map(tr =>
		[tr.querySelector('th').textContent, [0, 2].map(c => Number(tr.cells[c].title))])));
}

test('a real server: of a tree that was cut, the table has what smolder query says', {skip}, async () => {
	const real = await realServer(MANY);
	const ask = (from, to, format) => execFileSync(SMOLDER, ['query', 'cpu', '--server', real.url.slice(0, -1),
		'--from', String(from), '--to', String(to), '--min-fraction', '0', '-f', format, '-o', '-'],
	{encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});
	try {
		const page = await open('', {base: real.url});
		await ready(page);
		// The page asks for more nodes than this store makes: from here on it gets few.
		let cap = 'max_nodes=40', answer = null;
		const look = async hash => {
			await page.goto('about:blank');
			await page.goto(`${real.url}#v=1&t=${real.from}-${real.to}${hash}`);
			await ready(page);
		};
		await page.route(/\/api\/v1\/(query|diff)\?/, async route => {
			const response = await route.fetch({url: route.request().url().replace(/max_nodes=\d+/, cap)});
			answer = await response.json();
			await route.fulfill({response, json: answer});
		});
		await look('');
		assert.ok(answer.pruned > 1000 && answer.nodes.total.length < 120, `${answer.pruned} left out`);

		const stacks = ask(real.from, real.to, 'folded');
		const want = functionsOf(stacks), all = PERIOD * foldedSum(stacks);
		for (const n of [await total(page), await timelineSum(page), await tableSum(page)])
			assert.equal(n, all);
		assert.equal(Object.keys(want).length, 652);
		let got = await tableOf(page, 652);
		assert.deepEqual(got, want);
		// The same as smolder query prints it.
		const printed = [...ask(real.from, real.to, 'top').matchAll(
			/^ *([\d.]+) (\w+) +[\d.]+% +([\d.]+) (\w+) +[\d.]+% +(\S+)/gm)];
		assert.ok(printed.length >= 30, 'rows of the table that is printed');
		for (const [, self, unit, sum, of, name] of printed) {
			const scale = {h: 3600e9, min: 60e9, s: 1e9, ms: 1e6};
			for (const [text, u, n] of [[self, unit, got[name][0]], [sum, of, got[name][1]]])
				assert.equal((n / scale[u]).toFixed((text.split('.')[1] ?? '').length), text, name);
		}
		assert.equal(await page.locator('.missing').count(), 0);

		// A function that is in no node any more is in the table, and says why it is in no graph.
		const drawn = new Set(answer.nodes.function.map(f => answer.functions.name[f]));
		const small = Object.keys(want).find(name => !drawn.has(name));
		await page.locator('.functions').getByRole('button', {name: small, exact: true}).click();
		await settled(page);
		assert.match(await page.locator('.sandwich').textContent(), /too small to be in the graph/);
		await page.keyboard.press('Escape');

		// What only the page does is summed from what it has, which it says.
		await page.getByRole('button', {name: 'Merge recursion'}).click();
		await settled(page);
		assert.match(await page.locator('.missing').textContent(), /small ones are in \(other\)/);
		assert.equal(await tableSum(page), all);

		// Few functions: the others are one row, and the sum stays.
		cap = 'max_nodes=40&max_functions=100';
		await look('');
		assert.match(await page.locator('.missing').textContent(), /the 552 smallest functions/);
		got = await tableOf(page, 101);
		assert.equal(await tableSum(page), all);
		assert.equal(got['(other)'][0], all - Object.keys(want).reduce((n, name) => n + (got[name]?.[0] ?? 0), 0));

		// Two ranges.
		cap = 'max_nodes=40';
		const middle = real.from + 150_000;
		await look(`&sel=${middle}-${real.to}&base=${real.from}-${middle}`);
		assert.ok(answer.base && answer.pruned > 1000);
		const after = functionsOf(ask(middle, real.to, 'folded'));
		const before = functionsOf(ask(real.from, middle, 'folded'));
		assert.deepEqual(await tableOf(page, 652), after);
		const {name: names, base_self: selves, base_total: totals} = answer.functions;
		names.forEach((name, f) => {
			if (before[name])
				assert.deepEqual([selves[f], totals[f]], before[name], name);
		});
		await done(page);
	} finally {
		await real.close();
	}
});

test('a real server: the card has the source line where lines were kept', {skip}, async () => {
	const real = await realServer(`
    rows = [row(("main@app /src/main.c:10", "work@app /src/work.c:7"), 5, comm="app"),
            row(("main@app /src/main.c:12", "work@app /src/work.c:8"), 2, comm="app")]`);
	try {
		const page = await open(`#v=1&t=${real.from}-${real.to}`, {base: real.url});
		await ready(page);
		const box = await page.locator('.graph').boundingBox();
		// From the bottom: all, the process, main, work.
		for (const [row, want] of [[2, '/src/main.c:10'], [3, '/src/work.c:7']]) {
			await page.mouse.move(box.x + box.width / 2, box.y + box.height - (row + 0.5) * ROW);
			await page.locator('.card .source', {hasText: want}).waitFor();
		}
		await page.mouse.move(box.x + box.width / 2, box.y + box.height - 1.5 * ROW);
		await page.locator('.card strong', {hasText: 'app'}).waitFor();
		assert.equal(await page.locator('.card .source').count(), 0, 'a process has none');
		await done(page);
	} finally {
		await real.close();
	}
});

/* Two programs that tell their profiles: one well, the other too busy for one of them. */
test('a real server: the programs that are scraped, and what went wrong', {skip}, async () => {
	const make = `
import sys
sys.path.insert(0, ${JSON.stringify(path.join(ROOT, 'tests'))})
from messages import pprof
heap = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
cpu = [("samples", "count"), ("cpu", "nanoseconds")]
open(sys.argv[1] + "/allocs", "wb").write(pprof(heap, [(("main", "cache"), (9, 90000, 3, 30000), {})], period=("space", "bytes", 524288)))
open(sys.argv[1] + "/profile", "wb").write(pprof(cpu, [(("main", "serve"), (30, 300000000), {})]))
`;
	execFileSync('python3', ['-c', make, files]);
	const program = kinds => new Promise(listens => {
		const server = createServer((request, answer) => {
			const kind = /\/debug\/pprof\/(\w+)/.exec(request.url)[1];
			answer.statusCode = kinds.includes(kind) ? 200 : 503;
			answer.end(answer.statusCode === 200 ? readFileSync(path.join(files, kind)) : 'too busy now');
		}).listen(0, '127.0.0.1', () => listens(server));
	});
	const well = await program(['allocs', 'profile']), busy = await program(['allocs']);
	const at = server => `127.0.0.1:${server.address().port}`;
	const config = path.join(files, 'scrape.yaml'), store = path.join(files, 'scraped');
	const off = 'goroutine: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}';
	writeFileSync(config, `scrape_configs:
  - job_name: shop
    scrape_interval: 1s
    static_configs: [{targets: ['${at(well)}', '${at(busy)}']}]
    profiling_config: {pprof_config: {${off}}}
`);
	const child = spawn(SMOLDER, ['serve', '--store', store, '--config', config, '--listen', '127.0.0.1:0'], {stdio: ['ignore', 'ignore', 'pipe']});
	try {
		const base = await listening(child);
		const status = async () => (await (await fetch(`${base}api/v1/status`)).json()).targets;
		const end = Date.now() + 60_000;
		for (let now = {}; now.up !== 3 || now.down !== 1; now = await status())
			assert.ok(Date.now() < end, JSON.stringify(now));
		const page = await open('', {base});
		// There is no CPU time of processes; what there is, is offered.
		await page.locator('.empty h2', {hasText: 'Nothing of this type'}).waitFor();
		await page.getByRole('button', {name: 'memory in use (memory)'}).waitFor();
		const button = page.getByRole('button', {name: /^Targets/});
		await button.waitFor();
		assert.equal(await button.textContent(), 'Targets 1 down');
		await button.click();
		const panel = page.locator('.targets');
		await panel.locator('tbody tr').first().waitFor();
		const lines = (await panel.locator('tbody tr').allTextContents()).map(text => text.replace(/\s+/g, ' '));
		assert.equal(lines.length, 3, `${lines}`);
		const [fine, bad] = [at(well), at(busy)].map(address => lines.findIndex(line => line.startsWith(`shop ${address}`)));
		assert.match(lines[fine], /process_cpu ?memory/);
		assert.match(lines[bad + 1], /^process_cpu: it answers with status 503/);
		assert.deepEqual(await panel.locator('tbody tr').nth(bad).locator('.health').evaluateAll(all => all.map(e => e.className)),
			['health down', 'health up']);
		await axe(page, 'scraped programs');
		await picture(page, 'page-targets');
		// A click shows what it spends its time on.
		await panel.getByRole('button', {name: at(well)}).click();
		await settled(page);
		assert.match(decodeURIComponent(page.url()), new RegExp(`q=process_cpu:cpu:nanoseconds:cpu:nanoseconds\\{job="shop",\\+instance="${at(well)}"\\}`));
		await page.waitForFunction(() => /serve/.test(document.querySelector('.functions')?.textContent));
		await done(page);
	} finally {
		child.kill();
		well.close();
		busy.close();
	}
});
