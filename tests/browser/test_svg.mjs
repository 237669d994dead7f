/*
 * The flame graph in a browser: what a user does with it, done by playwright in Debian's chromium.
 */
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {hostname, tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {launch, whyNoBrowser} from './chromium.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const SMOLDER = path.resolve(ROOT, process.env.BUILD ?? 'build', 'smolder');

let browser = null;
const files = mkdtempSync(path.join(tmpdir(), 'smolder-browser-'));

const skip = await whyNoBrowser();

before(async () => {
	if (skip)
		return;
	browser = await launch();
});
after(async () => {
	await browser?.close();
	rmSync(files, {recursive: true});
});

/* Folded text (or bytes) becomes a file of the format that the extension says; its path. */
function flame(folded, extension = 'svg', ...options) {
	const input = path.join(files, 'in.folded');
	const output = path.join(files, `out.${extension}`);
	writeFileSync(input, folded);
	execFileSync(SMOLDER, ['flame', input, '-o', output, ...options], {stdio: 'pipe'});
	return output;
}

/* Opens a file and lets the test fail on any error, dialog or request that leaves the machine. */
async function open(file, options = {}) {
	const page = await browser.newPage({viewport: {width: 1000, height: 700}, ...options});
	page.trouble = [];
	page.on('pageerror', e => page.trouble.push(e.message));
	page.on('console', m => page.trouble.push(m.text()));
	page.on('dialog', d => { page.trouble.push('a dialog'); d.dismiss(); });
	page.on('request', r => {
		if (!/^(file|data|about):/.test(r.url()))
			page.trouble.push(r.url());
	});
	await page.goto(pathToFileURL(file).href);
	return page;
}

async function done(page) {
	assert.deepEqual(page.trouble, []);
	await page.close();
}

/* The drawn frames: [{name, x, y, width, classes}], names from their tooltips' data. */
const frames = page => page.evaluate(() =>
	[...document.querySelectorAll('.smolder .frames rect')].map(rect => ({
		label: rect.nextElementSibling?.localName === 'text' ? rect.nextElementSibling.textContent : '',
		x: rect.getBoundingClientRect().x,
		y: rect.getBoundingClientRect().y,
		width: Number(rect.getAttribute('width')),
		classes: rect.getAttribute('class'),
	})));
const frame = async (page, label) => (await frames(page)).find(f => f.label === label);

async function clickFrame(page, label) {
	const f = await frame(page, label);
	assert.ok(f, `${label} is drawn`);
	await page.mouse.click(f.x + f.width / 2, f.y + 8);
}

const matched = page => page.locator('.smolder output').textContent();

const SMALL = `main;parse;read_[k] 30
main;parse 10
main;work;parse;scan 20
main;work 15
other;Parser 25
`;

test('opens from a file, as wide as the window', {skip}, async () => {
	const page = await open(flame(SMALL, 'svg', '--title', 'A <title> & more'));
	assert.equal(await page.locator('.title').textContent(), 'A <title> & more');
	assert.match(await page.locator('.subtitle').textContent(), /^100 samples/);
	const all = await frame(page, 'all'), main = await frame(page, 'main');
	assert.ok(Math.abs(all.width - 976) < 2, `all is ${all.width} wide`);
	assert.ok(Math.abs(main.width / all.width - 0.75) < 0.01);
	assert.ok(main.y < all.y, 'callees stand above');
	await done(page);
});

test('an icicle has its root at the top', {skip}, async () => {
	const page = await open(flame(SMALL, 'svg', '--icicle'));
	assert.ok((await frame(page, 'main')).y > (await frame(page, 'all')).y);
	await done(page);
});

test('a click zooms, the trail and Esc lead back', {skip}, async () => {
	const page = await open(flame(SMALL));
	const before = await frames(page);
	await clickFrame(page, 'work');
	const all = await frame(page, 'all'), work = await frame(page, 'work');
	assert.equal(work.width, all.width);
	assert.ok((await frame(page, 'scan')).width > 500);
	assert.ok(!(await frame(page, 'other')), 'what is beside it is out of view');
	assert.match(all.classes, /above/);
	assert.doesNotMatch(work.classes, /above/);
	assert.match(await page.locator('.trail').textContent(), /all›main›work35\.00 %/);

	await page.locator('.trail button', {hasText: 'main'}).click();
	assert.ok(Math.abs((await frame(page, 'work')).width / all.width - 35 / 75) < 0.01);
	await page.locator('.trail button', {hasText: 'Reset'}).click();
	assert.deepEqual(await frames(page), before);
	assert.equal(await page.locator('.trail').textContent(), '');

	await clickFrame(page, 'work');
	await page.keyboard.press('Escape');
	assert.deepEqual(await frames(page), before);
	await done(page);
});

test('a search counts nested matches once', {skip}, async () => {
	const page = await open(flame(SMALL + 'main;parse;x;parse;parse 25\n'));
	await page.keyboard.press('/');
	await page.keyboard.type('parse');
	// 30 + 10 + 25 below main, 20 below work, 25 of Parser: lower case matches both.
	assert.equal(await matched(page), '88.00 % matched');
	assert.match((await frame(page, 'Parser')).classes, /hit/);
	assert.doesNotMatch((await frame(page, 'main')).classes, /hit/);

	await page.locator('input').fill('^Parse');
	assert.equal(await matched(page), '20.00 % matched');
	await page.locator('input').fill('^(read|scan)$');
	assert.equal(await matched(page), '40.00 % matched');
	await clickFrame(page, 'work');
	assert.equal(await matched(page), '57.14 % matched', 'of what is in view');
	await page.locator('input').fill('nothing like it');
	assert.equal(await matched(page), '0.00 % matched');
	await page.locator('input').fill('*(');
	assert.equal(await matched(page), 'not a regular expression');

	await page.keyboard.press('Escape');
	assert.equal(await matched(page), '');
	assert.ok((await frames(page)).every(f => !f.classes.includes('hit')));
	await page.keyboard.press('Control+f');
	assert.ok(await page.evaluate(() => document.activeElement?.localName === 'input'));
	await done(page);
});

test('a tooltip tells counts and shares', {skip}, async () => {
	const page = await open(flame(SMALL));
	const tip = page.locator('.tip');
	const f = await frame(page, 'work');
	await page.mouse.move(f.x + 10, f.y + 8);
	await tip.waitFor({state: 'visible'});
	assert.equal(await tip.locator('strong').textContent(), 'work');
	const text = await tip.textContent();
	assert.match(text, /35 samples, 35\.00 % of all, 46\.67 % of its caller/);
	assert.match(text, /itself 15 samples, 15\.00 % of all/);
	const read = await frame(page, 'read');
	await page.mouse.move(read.x + 10, read.y + 8);
	assert.match(await tip.textContent(), /^readkernel30 samples/);
	await page.mouse.move(500, 60);
	await tip.waitFor({state: 'hidden'});
	const main = await frame(page, 'main');
	await page.mouse.move(main.x + 10, main.y + 8);
	assert.match(await tip.textContent(), /75 samples, 75\.00 % of all$/, 'called by all there is, it has no caller');
	await done(page);

	// Of a clock: time, and the samples that it is made of.
	const clock = path.join(files, 'clock.svg');
	writeFileSync(clock, readFileSync(flame(SMALL), 'utf8').replace('"unit":"samples"', '"unit":"nanoseconds","period":5'));
	const timed = await open(clock);
	const work = await frame(timed, 'work');
	await timed.mouse.move(work.x + 10, work.y + 8);
	assert.match(await timed.locator('.tip').textContent(),
		/^work35\.0 ns \(7 samples\), 35\.00 % of all, 46\.67 % of its calleritself 15\.0 ns \(3 samples\), 15\.00 % of all$/);
	await done(timed);
});

test('a difference is drawn by the script as in the static picture', {skip}, async () => {
	const [before, now, output] = ['before.folded', 'after.folded', 'diff.svg'].map(n => path.join(files, n));
	writeFileSync(before, 'main;a 10\nmain;b 50\nmain;gone 70\nmain;less 100\n');
	writeFileSync(now, 'main;a 20\nmain;b 50\nmain;new 30\nmain;less 80\n');
	execFileSync(SMOLDER, ['diff', before, now, '-o', output], {stdio: 'pipe'});
	const still = Object.fromEntries([...readFileSync(output, 'utf8').matchAll(
		/<rect class="(d\d)"[^>]*>\n<text[^>]*>(\w+)</g)].map(m => [m[2], m[1]]));
	assert.deepEqual(still, {all: 'd3', main: 'd3', a: 'd6', b: 'd4', gone: 'd0', less: 'd3', new: 'd8'});
	const page = await open(output);
	for (const [name, step] of Object.entries(still))
		assert.equal((await frame(page, name)).classes, step, name);
	const all = await frame(page, 'all'), less = await frame(page, 'less');
	assert.ok(Math.abs(less.width / all.width - 180 / 410) < 0.01);
	await page.mouse.move(less.x + less.width / 2, less.y + 8);
	assert.match(await page.locator('.tip').textContent(),
		/^lessnow 80 samples, 44\.44 % of all.*base 100 samples, 43\.48 % of all−20 samples, −20\.00 %$/);
	const gone = await frame(page, 'gone');
	await page.mouse.move(gone.x + gone.width / 2, gone.y + 8);
	assert.match(await page.locator('.tip').textContent(), /gone$/);
	await done(page);
});

test('the graph follows the width of the window', {skip}, async () => {
	const page = await open(flame(SMALL));
	await clickFrame(page, 'work');
	for (const width of [1700, 420]) {
		await page.setViewportSize({width, height: 700});
		await page.waitForFunction(want => Math.abs(
			document.querySelector('.frames rect').getAttribute('width') - want) < 2, width - 24);
		assert.equal((await frame(page, 'work')).width, (await frame(page, 'all')).width);
	}
	await done(page);
});

test('dark pages are dark', {skip}, async () => {
	const light = async scheme => {
		const page = await open(flame(SMALL), {colorScheme: scheme});
		const fill = await page.evaluate(() =>
			getComputedStyle(document.querySelector('.page')).fill.match(/\d+/g).map(Number));
		await done(page);
		return fill.reduce((sum, n) => sum + n);
	};
	assert.ok(await light('light') > 700);
	assert.ok(await light('dark') < 100);
});

test('inside an <img> it shows without its script', {skip}, async () => {
	const svg = readFileSync(flame(SMALL));
	const html = path.join(files, 'img.html');
	writeFileSync(html, `<img src="data:image/svg+xml;base64,${svg.toString('base64')}">`);
	const page = await open(html);
	const colours = await page.evaluate(async () => {
		const img = document.querySelector('img');
		await img.decode();
		const canvas = document.createElement('canvas');
		canvas.width = img.naturalWidth;
		canvas.height = img.naturalHeight;
		const context = canvas.getContext('2d', {willReadFrequently: true});
		context.drawImage(img, 0, 0);
		// One row of pixels through the middle of each row of frames.
		const seen = [];
		for (let y = img.naturalHeight - 21; y > 90; y -= 18) {
			const {data} = context.getImageData(0, y, canvas.width, 1);
			const counts = {};
			for (let i = 0; i < data.length; i += 4) {
				const key = data.slice(i, i + 3).join();
				counts[key] = (counts[key] ?? 0) + 1;
			}
			seen.push(counts);
		}
		return {width: img.naturalWidth, seen};
	});
	assert.equal(colours.width, 1200);
	const most = counts => Math.max(...Object.values(counts));
	assert.ok(most(colours.seen[0]) > 1100, 'the root spans the picture');
	const wide = new Set(colours.seen.flatMap(counts =>
		Object.keys(counts).filter(colour => counts[colour] > 100)));
	assert.ok(wide.size >= 4, `page, root, program and kernel differ: ${[...wide].join(' ')}`);
	await done(page);
});

test('hostile names stay text', {skip}, async () => {
	const names = ['<img src=x onerror=alert(1)>', ']]>', '</script><script>alert(1)</script>',
		'</svg><script>alert(1)</script>', '"><script>alert(1)</script>', '&lt;b&gt;', '${alert(1)}',
		'\u202egnp.exe', 'x'.repeat(1 << 20), '\\u003cscript\\u003e', '<!--', '-->', '漢字の関数名'];
	const folded = names.map(name => `${name};${name} 10\n`).join('') + 'bad\xff\x01utf8 10\n';
	for (const extension of ['svg', 'html']) {
		const page = await open(flame(Buffer.from(folded), extension));
		const count = await page.evaluate(() => document.querySelectorAll('img, b').length);
		assert.equal(count, 0);
		const scripts = await page.evaluate(() => document.scripts?.length ?? 0);
		assert.ok(scripts <= 3, `${scripts} scripts`);
		const labels = (await frames(page)).map(f => f.label);
		assert.ok(labels.some(l => l.startsWith('<im')), 'the name is shown as it is');
		assert.ok(!labels.some(l => l.includes('\u202e')));
		await clickFrame(page, labels.find(l => l.startsWith('<im')));
		const trail = await page.locator('.trail').textContent();
		assert.match(trail, /<img src=x onerror=alert\(1\)>/);
		await page.mouse.move(400, 480);
		await page.keyboard.press('/');
		await page.keyboard.type('<img');
		assert.match(await matched(page), /^100\.00/);
		await done(page);
	}
});

test('the page sorts its table and finds functions in the graph', {skip}, async () => {
	const page = await open(flame(SMALL, 'html'));
	const column = n => page.locator(`tbody td:nth-child(${n})`).allTextContents();
	assert.deepEqual((await column(1)).map(Number), [30, 25, 20, 15, 10, 0, 0]);
	await page.locator('th', {hasText: 'Total'}).click();
	assert.equal((await column(5))[0], 'main');
	await page.locator('th', {hasText: 'Function'}).click();
	assert.equal((await column(5)).at(-1), 'work');
	await page.locator('td.name', {hasText: /^parse$/}).click();
	assert.equal(await matched(page), '60.00 % matched');
	await done(page);
});

// ---- what is seen first ------------------------------------------------------------------------

/* A machine: wide programs of some rows, and towers many screens tall, some wide, most thin. */
function machine() {
	let text = '';
	for (let i = 0; i < 60; i++)
		text += `app${i % 3};main;loop${i % 3};work${i % 12};step${i};leaf${i} ${50 + i}\n`;
	for (let i = 0; i < 12; i++)
		text += `deep;main;${Array.from({length: 60 + 10 * i}, (_, n) => `f${n}`).join(';')} ${i === 11 ? 400 : 9}\n`;
	return text;
}

/* A picture of the screen: the share of its pixels that have the colour of a frame, and of its lowest third. */
async function flameShare(page, png) {
	const viewer = await page.context().browser().newPage();
	const share = await viewer.evaluate(async src => {
		const img = new Image();
		img.src = src;
		await img.decode();
		const canvas = document.createElement('canvas');
		[canvas.width, canvas.height] = [img.naturalWidth, img.naturalHeight];
		const context = canvas.getContext('2d', {willReadFrequently: true});
		context.drawImage(img, 0, 0);
		const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
		let coloured = 0;
		for (let i = 0; i < data.length; i += 4)
			coloured += Math.max(data[i], data[i + 1], data[i + 2]) -
				Math.min(data[i], data[i + 1], data[i + 2]) > 40 ? 1 : 0;
		return coloured / (data.length / 4);
	}, `data:image/png;base64,${png.toString('base64')}`);
	await viewer.close();
	return share;
}

const SCREENS = [
	['a laptop', {viewport: {width: 1280, height: 800}}],
	['a screen', {viewport: {width: 1920, height: 1080}}],
	['a phone', {viewport: {width: 390, height: 844}, isMobile: true, hasTouch: true}],
];

/* Where things are on the screen: the frames' root, title, search; and what scrolls. */
const places = page => page.evaluate(() => {
	const box = selector => {
		const {top, bottom, left, right} = document.querySelector(selector).getBoundingClientRect();
		return {top, bottom, left, right};
	};
	const scroll = document.querySelector('.scroll');
	return {
		root: box('.frames rect'), title: box('.title'), search: box('.search input'),
		window: {width: innerWidth, height: innerHeight}, from: scroll.scrollTop,
		whole: scroll.scrollHeight, shown: scroll.clientHeight,
	};
});

async function seesFlames(page, least) {
	const at = await places(page);
	assert.ok(at.root.top > 0 && at.root.bottom <= at.window.height, `the root is in view: ${JSON.stringify(at.root)}`);
	assert.ok(at.root.right <= at.window.width + 1, 'as wide as the window');
	assert.ok(at.title.top >= 0 && at.search.top >= 0 && at.search.right <= at.window.width, 'title and search show');
	assert.ok(at.title.right <= at.search.left, 'side by side');
	const share = await flameShare(page, await page.screenshot());
	assert.ok(share > least, `${(100 * share).toFixed(1)} % of the first screen are frames`);
	return at;
}

for (const [name, options] of SCREENS) {
	for (const extension of name === 'a screen' ? ['svg'] : ['svg', 'html']) {
		test(`on ${name} a deep ${extension} opens at its root, and scrolls below title and search`, {skip}, async () => {
			const page = await open(flame(machine(), extension), options);
			const before = await seesFlames(page, 0.1);
			assert.ok(before.whole > 2 * before.shown, 'there is more than fits');
			assert.equal(Math.round(before.from + before.shown), before.whole, 'opened at the root');

			// Up by the wheel, as far as it goes: the tip of the tallest tower shows, the head stays.
			await page.mouse.move(before.window.width / 2, 300);
			await page.evaluate(() => { document.querySelector('.scroll').scrollTop = 0; });
			const after = await places(page);
			assert.ok(after.root.top > after.window.height);
			assert.deepEqual([after.title, after.search], [before.title, before.search]);
			assert.ok((await frames(page)).some(f => f.y >= 90 && f.y < 130), 'the tip is in view');

			// A zoom into what is short has its root in view again.
			await page.evaluate(() => { document.querySelector('.scroll').scrollTop = 1e6; });
			await clickFrame(page, (await frames(page)).find(f => f.label.startsWith('app0')).label);
			await seesFlames(page, 0.05);
			await done(page);
		});
	}
}

test('a deep graph scrolls by wheel, touch pad and keys', {skip}, async () => {
	const page = await open(flame(machine()));
	const top = async () => (await places(page)).from;
	const root = await top();
	await page.mouse.move(500, 300);
	await page.mouse.wheel(0, -300);
	await page.waitForFunction(was => document.querySelector('.scroll').scrollTop < was, root);
	await page.keyboard.press('Home');
	await page.waitForFunction(() => document.querySelector('.scroll').scrollTop === 0);
	await page.keyboard.press('End');
	await page.waitForFunction(was => document.querySelector('.scroll').scrollTop === was, root);
	await done(page);
});

test('a deep icicle opens at its root as well', {skip}, async () => {
	const page = await open(flame(machine(), 'svg', '--icicle'));
	const at = await places(page);
	assert.equal(at.from, 0);
	assert.ok(at.root.top >= 90 && at.root.top < 120);
	await done(page);
});

test('where no script runs, one screen shows the flames', {skip}, async () => {
	const deep = readFileSync(flame(machine()), 'utf8');
	const [, width, height] = /<svg[^>]* width="(\d+)" height="(\d+)"/.exec(deep);
	assert.ok(height <= 720, `${height} pixels tall`);
	assert.match(deep, /class="still"[^>]*>A browser shows \d+ more rows</);
	assert.match(deep, />… \d+ more</);
	const html = path.join(files, 'img.html');
	writeFileSync(html, `<body style="margin:0"><img src="data:image/svg+xml;base64,${
		Buffer.from(deep).toString('base64')}">`);
	const page = await open(html, SCREENS[0][1]);
	await page.evaluate(() => document.querySelector('img').decode());
	const share = await flameShare(page, await page.screenshot());
	assert.ok(share > 0.1, `${(100 * share).toFixed(1)} % of ${width}x${height} are frames`);
	await done(page);

	// What fits is whole, and says nothing of more.
	assert.doesNotMatch(readFileSync(flame(SMALL), 'utf8'), /"still"|… \d+ more/);
	// Thin towers alone do not make it tall.
	const thin = readFileSync(flame(`${machine().replaceAll(/^deep.*\n/gm, '')}deep;${'x;'.repeat(200)}y 9\n`), 'utf8');
	assert.ok(Number(/<svg[^>]* height="(\d+)"/.exec(thin)[1]) < 400);
});

const notRoot = process.getuid() === 0 ? false : 'sampling needs root';

test('a recording of the whole machine shows its flames at once', {skip: skip || notRoot}, async () => {
	const output = path.join(files, 'machine.svg');
	const busy = 'const f = n => n ? f(n - 1) + 1 : performance.now() % 3;' +
		'for (const end = Date.now() + 1500; Date.now() < end;) f(200)';
	execFileSync(SMOLDER, ['record', '-q', '-a', '-F', '499', '-o', output, '--', process.execPath, '-e', busy],
		{stdio: 'pipe'});
	for (const [, options] of SCREENS) {
		const page = await open(output, options);
		await seesFlames(page, 0.08);
		const title = await page.evaluate(() => document.querySelector('title').textContent);
		assert.ok(title.startsWith(hostname()), title);
		assert.match(title, /, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d /);
		await done(page);
	}
});

test('a recording is titled by whose it is, where and when', {skip: skip || notRoot}, async () => {
	const output = path.join(files, 'process.svg');
	const spin = spawn('sh', ['-c', 'while :; do :; done'], {stdio: 'ignore'});
	const titleOf = async (...target) => {
		execFileSync(SMOLDER, ['record', '-q', '-F', '199', '-o', output, ...target], {stdio: 'pipe'});
		const page = await open(output);
		const title = await page.evaluate(() => document.querySelector('text.title').textContent);
		assert.equal(await page.evaluate(() => document.querySelector('title').textContent), title);
		await done(page);
		const [whose, when] = title.split(`${hostname()}, `);
		assert.match(when ?? title, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d /);
		return whose;
	};
	try {
		const pid = spin.pid;
		assert.equal(await titleOf('-d', '0.3', '-p', pid), `sh (${pid}) on `);
		assert.equal(await titleOf('-d', '0.3', '-p', `${pid},${process.pid}`), `sh (${pid} and 1 more) on `);
	} finally {
		spin.kill('SIGKILL');
	}
	// One that it starts itself, by its name.
	assert.equal(await titleOf('--', 'sh', '-c', 'i=0; while [ $i -lt 99999 ]; do i=$((i + 1)); done'), 'sh on ');
});

/* 100,000 distinct stacks: a tree of calls, and a forest of stacks with nothing in common. */
function manyStacks() {
	let seed = 7, text = '';
	const random = n => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
	for (let i = 0; i < 100000; i++) {
		const deep = ['main'];
		for (let n = i, level = 0; n > 0; n = Math.floor(n / 6), level++)
			deep.push(`level${level}_${n % 6}`);
		text += `${deep.join(';')} ${1 + random(20)}\n`;
	}
	return text;
}

function strangers() {
	let seed = 7, text = '';
	const random = n => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
	for (let i = 0; i < 100000; i++) {
		const stack = [];
		for (let level = 0; level < 8; level++)
			stack.push(`f${random(3000)}`);
		text += `${stack.join(';')};leaf${i} ${1 + random(20)}\n`;
	}
	return text;
}

for (const [what, make] of [['in a tree', manyStacks], ['with little in common', strangers]]) {
	test(`100,000 stacks ${what} open, zoom and are searched`, {skip}, async () => {
		const page = await open(flame(make()));
		const all = await frame(page, 'all');
		const drawn = await frames(page);
		assert.ok(drawn.length > 10 && drawn.length < 30000, `${drawn.length} frames`);

		// Into a block of frames too narrow to see, until single frames show.
		const block = drawn.filter(f => f.classes.startsWith('x') && f.width > 2).at(-1);
		assert.ok(block, 'narrow frames are merged');
		await page.mouse.move(block.x + block.width / 2, block.y + 8);
		assert.match(await page.locator('.tip').textContent(), /narrow frames|too small/);
		await page.mouse.click(block.x + block.width / 2, block.y + 8);
		await page.locator('.trail .reset').waitFor();
		const near = await frames(page);
		assert.ok(near.some(f => !f.classes.startsWith('x') && f.label !== 'all' && f.width > 3),
			'frames show that did not before');

		await page.keyboard.press('Escape');
		await page.keyboard.press('/');
		await page.keyboard.type('level0_1|^f1');
		const share = parseFloat(await matched(page));
		assert.ok(share > 1 && share < 100, `${share} %`);
		assert.equal((await frame(page, 'all')).width, all.width);
		await done(page);
	});
}
