/*
 * The web page: what a user does with it, done by playwright in Debian's chromium, against
 * web/test/mock.mjs, whose answers the tests can compute for themselves. The last tests open the page
 * of a real `smolder serve`.
 *
 * Pictures of the main views go to $BUILD/page/, and with SMOLDER_PICTURES=1 those of docs/ there.
 */
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, afterEach, before, test} from 'node:test';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {gunzipSync} from 'node:zlib';
import {HOSTILE, PERIOD, startMock} from '../../web/test/mock.mjs';
import {launch, whyNoBrowser} from './chromium.mjs';
import {listening} from './served.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const BUILD = path.resolve(ROOT, process.env.BUILD ?? 'build');
const SMOLDER = path.join(BUILD, 'smolder');
const PICTURES = path.join(BUILD, 'page');
const DOCS = process.env.SMOLDER_PICTURES ? ['page', 'page-compare', 'page-heatmap', 'page-phone', 'page-wall'] : [];
const ROW = 18;

let browser = null, mock = null, server = null, url = '';
const files = mkdtempSync(path.join(tmpdir(), 'smolder-page-'));

const skip = await whyNoBrowser() || !existsSync(path.join(BUILD, 'web/index.html')) && 'the page is not built; run make';
const AXE = skip ? '' : createRequire(import.meta.url).resolve('axe-core/axe.min.js');

before(async () => {
	if (skip)
		return;
	browser = await launch();
	server = await startMock();
	({mock, url} = server);
	mkdirSync(PICTURES, {recursive: true});
});
after(async () => {
	await browser?.close();
	await server?.close();
	rmSync(files, {recursive: true});
});
afterEach(async () => {
	// Those of a test that failed: a page that goes on asking would confuse the next test.
	for (const context of browser?.contexts() ?? [])
		await context.close();
	if (mock) {
		mock.mode = 'ordinary';
		mock.isHeld = false;
	}
});

// ---- helpers --------------------------------------------------------------------------------------

/* The last hour, but not live: what is shown stays. `more` is added to the URL's state. */
const hour = (more = '') => `#v=1&t=${mock.now - 3600_000}-${mock.now}${more && `&${more}`}`;

/* Opens the page; every error, message and request to another place is trouble, unless `expects`. */
async function open(hash = hour(), {expects = null, base = url, ...options} = {}) {
	const context = await browser.newContext({viewport: {width: 1400, height: 860}, ...options});
	await context.grantPermissions(['clipboard-read', 'clipboard-write']);
	const page = await context.newPage();
	page.trouble = [];
	page.on('pageerror', e => page.trouble.push(e.message));
	page.on('console', m => {
		if (!expects?.test(m.text()))
			page.trouble.push(m.text());
	});
	page.on('dialog', d => { page.trouble.push('a dialog'); d.dismiss(); });
	page.on('request', r => {
		if (!r.url().startsWith(base) && !/^(data|blob|about):/.test(r.url()))
			page.trouble.push(r.url());
	});
	await page.goto(base + hash);
	return page;
}

const ready = async page => {
	await page.locator('.graph-canvas').first().waitFor();
	await settled(page);
};

async function done(page) {
	assert.deepEqual(page.trouble, []);
	await page.context().close();
}

/* Waits until nothing is being loaded and the zoom has come to rest. */
async function settled(page) {
	await page.waitForFunction(() => document.querySelectorAll('.busy').length === 0);
	await page.waitForTimeout(220);
}

const total = page => page.locator('.facts strong').getAttribute('data-total').then(Number);
const timelineSum = page => page.locator('.chosen .sum').getAttribute('data-sum').then(Number);
const tableSum = page => page.locator('.functions tfoot td').first().getAttribute('title').then(Number);
const info = page => page.locator('.info').textContent();
const parameters = () => {
	const last = mock.requests.findLast(r => /\/(query|diff)\?/.test(r));
	return new URL(last, url);
};

/* The tree that the page shows, from the request that it made: nodes with their places. */
function shownTree() {
	const answer = mock.answer(parameters());
	const {function: fn, depth, total: totals, self, base_total: base} = answer.nodes;
	const cursor = [0];
	return fn.map((f, i) => {
		const size = totals[i] + (base ? base[i] : 0);
		const start = cursor[depth[i]];
		cursor[depth[i]] = start + size;
		cursor[depth[i] + 1] = start;
		return {i, name: answer.functions.name[f], module: answer.modules[answer.functions.module[f]],
			kind: answer.functions.kind[f], depth: depth[i], start, size, total: totals[i], self: self[i],
			base: base?.[i]};
	});
}

/* Where a frame is on the screen, in the whole flame graph or when `zoom` fills it. */
async function place(page, node, zoom = {start: 0, size: shownTree()[0].size}) {
	const box = await page.locator('.graph').first().boundingBox();
	const scroll = await page.locator('.graph').first().evaluate(e =>
		e.scrollHeight - e.scrollTop - e.clientHeight);
	return {
		x: box.x + (node.start - zoom.start + node.size / 2) / zoom.size * box.width,
		y: box.y + box.height + scroll - (node.depth + 0.5) * ROW,
	};
}

/* A frame that is wide enough to be hit, by what it is like. */
function frame(like) {
	const all = shownTree();
	const wide = all.filter(n => n.depth > 0 && n.depth < 20 && n.size > all[0].size / 100);
	const found = wide.find(like);
	assert.ok(found, 'there is such a frame');
	return found;
}

async function clickFrame(page, node, options) {
	const {x, y} = await place(page, node);
	await page.mouse.click(x, y, options);
	await settled(page);
}

/* Drags over the timeline, from one share of its width to another. */
async function drag(page, from, to, key) {
	const box = await page.locator('.u-over').boundingBox();
	const y = box.y + box.height / 2;
	if (key)
		await page.keyboard.down(key);
	await page.mouse.move(box.x + box.width * from, y);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * (from + to) / 2, y);
	await page.mouse.move(box.x + box.width * to, y);
	await page.mouse.up();
	if (key)
		await page.keyboard.up(key);
	await settled(page);
}

const pixel = (page, x, y) => page.evaluate(([left, top]) => {
	const canvas = document.querySelector('.graph-canvas');
	const edge = canvas.getBoundingClientRect();
	const scale = canvas.width / edge.width;
	return [...canvas.getContext('2d').getImageData(
		Math.round((left - edge.left) * scale), Math.round((top - edge.top) * scale), 1, 1).data].join();
}, [x, y]);

const rows = page => page.locator('.functions tbody tr').evaluateAll(all =>
	all.map(tr => [...tr.cells].map(c => c.textContent)));

async function axe(page, what) {
	await page.addScriptTag({path: AXE}).catch(async () => {
		// Our own policy lets no script in but ours; the tester's comes by another way.
		await page.evaluate(readFileSync(AXE, 'utf8'));
	});
	page.trouble = page.trouble.filter(t => !/Content Security Policy/.test(t));
	const found = await page.evaluate(async () => (await window.axe.run(document, {
		rules: {'color-contrast': {enabled: true}},
	})).violations.map(v => `${v.id}: ${v.nodes.map(n => n.html).slice(0, 3).join(' | ')}`));
	assert.deepEqual(found, [], what);
}

const picture = (page, name) => page.screenshot({
	path: path.join(DOCS.includes(name) ? path.join(ROOT, 'docs') : PICTURES, `${name}.png`),
});

// ---- the timeline ---------------------------------------------------------------------------------

test('the last hour is there at once, and all numbers agree', {skip}, async () => {
	const page = await open('');
	await ready(page);
	const want = mock.answer(parameters()).total;
	assert.ok(want > 0);
	assert.equal(await total(page), want);
	assert.equal(await timelineSum(page), want);
	assert.equal(await tableSum(page), want);
	const trust = page.locator('.facts [data-incomplete], .facts [data-by-pointers], .facts [data-unnamed]');
	assert.deepEqual(await trust.allTextContents(),
		['1.00 % of stacks incomplete', '12.50 % by frame pointers', '2.50 % of frames unnamed']);
	// What would help is text behind a button, which the keyboard reaches.
	await page.getByRole('button', {name: /What that means/}).focus();
	await page.keyboard.press('Enter');
	const meaning = page.locator('.trust .panel');
	assert.match(await meaning.textContent(), /\[incomplete\].*frame pointers\..*most unnamed frames are in <app>/);
	const whole = await meaning.evaluate(e => {
		const box = e.getBoundingClientRect();
		return box.width > 200 && e.contains(document.elementFromPoint(box.left + 10, box.bottom - 10));
	});
	assert.ok(whole, 'nothing hides it');
	await page.keyboard.press('Escape');
	assert.equal(await meaning.count(), 0);
	assert.match(await page.locator('.chosen').textContent(), / 1 h|1 h/);
	const lines = await page.locator('.legend .value').allTextContents();
	assert.equal(lines.length, 9, 'eight and the rest');
	assert.equal(lines.at(-1), 'the rest');
	assert.ok(lines.includes('python3'));
	assert.equal(await page.locator('.live').getAttribute('aria-pressed'), 'true');
	await picture(page, 'page');
	await done(page);
});

test('a drag over the timeline chooses a range, and everything follows', {skip}, async () => {
	const page = await open('');
	await ready(page);
	const whole = await total(page);
	await drag(page, 0.8, 0.84);
	const p = parameters().searchParams;
	assert.equal((Number(p.get('to')) - Number(p.get('from'))) % 10_000, 0, 'whole windows');
	assert.ok(Number(p.get('to')) - Number(p.get('from')) <= 180_000);
	const part = await total(page);
	assert.ok(part > 0 && part < whole / 5);
	assert.equal(part, mock.answer(parameters()).total);
	assert.equal(await timelineSum(page), part);
	assert.equal(await tableSum(page), part);
	assert.equal(await page.locator('.live').getAttribute('aria-pressed'), 'false', 'no longer live');
	await picture(page, 'page-range');

	await page.getByRole('button', {name: 'Zoom in'}).click();
	await settled(page);
	assert.equal(await total(page), part, 'the same, larger');
	assert.equal(await page.locator('.range').count(), 0);
	await page.getByRole('button', {name: 'Step back'}).click();
	await settled(page);
	const before = parameters().searchParams;
	assert.equal(before.get('to'), p.get('from'), 'a step is as long as what is shown');
	await page.getByRole('button', {name: 'Step forward'}).click();
	await settled(page);
	assert.equal(await total(page), part);
	await page.getByRole('button', {name: 'Zoom out'}).click();
	await settled(page);
	assert.equal(await page.locator('.range').count(), 1, 'and what was shown is chosen in it');
	assert.equal(await total(page), part);
	await page.getByRole('button', {name: 'Whole range'}).click();
	await settled(page);
	assert.ok(await total(page) > part);

	await page.goBack();
	await settled(page);
	assert.equal(await total(page), part, 'the browser\'s own way back');
	await done(page);
});

test('the timeline says that one can drag, until someone has', {skip}, async () => {
	const page = await open();
	await ready(page);
	const hint = page.locator('.drag-hint');
	assert.match(await hint.textContent(), /Drag here to choose a time range/);
	await page.reload();
	await ready(page);
	assert.equal(await hint.count(), 1, 'not before');
	await drag(page, 0.3, 0.4);
	assert.equal(await hint.count(), 0);
	await page.reload();
	await ready(page);
	assert.equal(await hint.count(), 0, 'nor after a reload');
	await done(page);
});

test('the legend is of the chosen range, and each name keeps its colour', {skip}, async () => {
	const page = await open();
	await ready(page);
	const legend = async () => Object.fromEntries(await page.locator('.legend li').evaluateAll(all => all.map(li =>
		[li.querySelector('.value').textContent, {share: li.querySelector('.number').textContent,
			colour: getComputedStyle(li.querySelector('.swatch')).backgroundColor}])));
	const shares = ({from, to}) => {
		const p = new URLSearchParams({query: 'cpu', from: mock.now - 3600_000, to: mock.now, step: 10_000, by: 'comm', max: 8});
		const t = mock.timeline(p);
		const sum = l => l.values.reduce((n, v, i) => {
			const at = t.start + i * t.step;
			return at >= from && at < to ? n + v : n;
		}, 0);
		const all = [...t.lines, t.rest].reduce((n, l) => n + sum(l), 0);
		return Object.fromEntries(t.lines.map(l => [l.value, `${(100 * sum(l) / all).toFixed(2)} %`]));
	};
	const share = list => Object.fromEntries(Object.entries(list).filter(([name]) => name !== 'the rest').map(([name, l]) => [name, l.share]));
	const whole = await legend();
	assert.deepEqual(share(whole), shares({from: 0, to: Infinity}));
	await drag(page, 0.8, 0.83); // the spike
	await page.mouse.move(5, 5);
	const [from, to] = /sel=(\d+)-(\d+)/.exec(page.url()).slice(1).map(Number);
	const part = await legend();
	assert.deepEqual(share(part), shares({from, to}));
	assert.notDeepEqual(share(part), share(whole));
	// Another order of lines, other lines above them, a filter, a reload: the same colours.
	const order = list => Object.keys(list).filter(name => whole[name]).join();
	await page.getByRole('button', {name: 'Zoom in'}).click();
	await settled(page);
	const spike = await legend();
	assert.notEqual(order(spike), order(whole), 'ranks changed');
	const same = list => {
		for (const [name, {colour}] of Object.entries(list))
			if (whole[name])
				assert.equal(colour, whole[name].colour, name);
	};
	same(spike);
	await page.locator('.legend button', {hasText: 'python3'}).click();
	await settled(page);
	same(await legend());
	await page.reload();
	await ready(page);
	same(await legend());
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await page.getByRole('button', {name: 'What was just before'}).click();
	await settled(page);
	same(await legend());
	await done(page);
});

test('pids have the names of their processes, and what has no label says so', {skip}, async () => {
	const page = await open(hour('by=pid&group=pid'));
	await ready(page);
	const names = await page.locator('.legend .value').allTextContents();
	assert.ok(names.includes('node (1311)') && names.includes('python3 (1274)'), names.join());
	assert.ok(shownTree().some(n => n.depth === 1 && n.name === 'node (1311)'));
	await page.locator('.legend button', {hasText: 'node (1311)'}).click();
	await settled(page);
	assert.equal(parameters().searchParams.get('query'), 'cpu{pid="1311"}');
	await done(page);
});

test('presets, a range of one\'s own, and live', {skip}, async () => {
	const page = await open('');
	await ready(page);
	const spanAsked = () => {
		const p = new URL(mock.requests.findLast(r => r.includes('/series?')), url).searchParams;
		return Number(p.get('to')) - Number(p.get('from'));
	};
	for (const [name, hours] of [['15 min', 0.25], ['6 h', 6], ['24 h', 24], ['7 d', 168], ['30 d', 720]]) {
		await page.getByRole('button', {name, exact: true}).click();
		await settled(page);
		assert.equal(spanAsked(), hours * 3600_000, name);
		assert.equal(await timelineSum(page), await total(page), name);
	}
	await page.getByRole('button', {name: 'Live', exact: true}).click();
	await settled(page);
	assert.match(page.url(), /t=\d+-\d+/, 'a range that stays');
	await page.locator('.custom > button').click();
	await page.getByLabel('From', {exact: true}).fill('nonsense');
	await page.getByRole('button', {name: 'Show', exact: true}).click();
	assert.match(await page.locator('.custom [role=alert]').textContent(), /now-1h/);
	await page.getByLabel('From', {exact: true}).fill('now-30m');
	await page.getByLabel('To', {exact: true}).fill('now-10m');
	await page.getByRole('button', {name: 'Show', exact: true}).click();
	await settled(page);
	assert.ok(Math.abs(spanAsked() - 1200_000) <= 20_000);
	await page.getByRole('button', {name: 'Live', exact: true}).click();
	await settled(page);
	assert.doesNotMatch(page.url(), /t=\d+-\d+/);
	await done(page);
});

test('live follows now', {skip}, async () => {
	const page = await open('', {});
	await page.clock.install();
	await page.reload();
	await ready(page);
	const end = () => Number(parameters().searchParams.get('to'));
	const before = end();
	await page.clock.runFor(61_000);
	await page.waitForFunction(() => document.querySelectorAll('.busy').length === 0);
	assert.ok(end() >= before + 50_000, `${end() - before} ms later`);
	assert.equal(await page.locator('.graph-canvas').count(), 1);
	await done(page);
});

test('gaps are gaps and restarts are marked', {skip}, async () => {
	const page = await open();
	await ready(page);
	const marks = page.locator('.restart');
	assert.equal(await marks.count(), 1);
	assert.match(await marks.getAttribute('title'), /A collector started here/);
	const over = await page.locator('.u-over').boundingBox();
	const mark = await marks.boundingBox();
	// Off from 35 to 32 minutes ago, of the last hour.
	const at = (mark.x + mark.width / 2 - over.x) / over.width;
	assert.ok(Math.abs(at - 28 / 60) < 0.02, `at ${at}`);
	await page.mouse.move(mark.x - 20, over.y + 20);
	assert.deepEqual([...new Set(await page.locator('.legend .number').allTextContents())], ['–']);
	await page.mouse.move(mark.x + 30, over.y + 20);
	assert.match(await page.locator('.legend .number').first().textContent(), /^\d+\.\d\d$/);
	// Nothing is drawn there but hatching: no colour of a line.
	const drawn = await page.evaluate(([x, y]) => {
		const canvas = document.querySelector('.plot canvas');
		const edge = canvas.getBoundingClientRect();
		const scale = canvas.width / edge.width;
		const {data} = canvas.getContext('2d').getImageData((x - edge.left) * scale,
			(y - edge.top) * scale, 8, 60);
		const seen = new Set();
		for (let i = 0; i < data.length; i += 4)
			if (data[i + 3] > 0 && Math.max(data[i], data[i + 1], data[i + 2]) -
				Math.min(data[i], data[i + 1], data[i + 2]) > 40)
				seen.add(data.slice(i, i + 3).join());
		return seen.size;
	}, [mark.x - 24, over.y + 10]);
	assert.equal(drawn, 0);
	await done(page);
});

test('the timeline stacks by the label that is picked; a line is a filter', {skip}, async () => {
	const page = await open();
	await ready(page);
	await page.getByRole('combobox', {name: 'CPUs by', exact: true}).selectOption('container');
	await settled(page);
	const values = await page.locator('.legend .value').allTextContents();
	assert.ok(values.includes('shop-web') && values.includes('no container'), values.join());
	await page.locator('.legend button', {hasText: 'shop-web'}).click();
	await settled(page);
	assert.equal(await page.locator('.query .chip .text').textContent(), 'container="shop-web"');
	assert.equal(await timelineSum(page), await total(page));
	assert.equal(parameters().searchParams.get('query'), 'cpu{container="shop-web"}');
	await done(page);
});

// ---- the flame graph ------------------------------------------------------------------------------

test('a click zooms, with a trail and the browser\'s history', {skip}, async () => {
	const page = await open();
	await ready(page);
	const all = shownTree()[0];
	const node = frame(n => n.depth === 4 && n.size < all.size / 3);
	await clickFrame(page, node);
	const trail = page.locator('.crumbs');
	assert.match(await trail.textContent(), new RegExp(`${(100 * node.size / all.size).toFixed(2)} %`));
	assert.equal(await trail.locator('[aria-current]').textContent(), node.name.slice(0, 80));
	assert.match(page.url(), /z=/);
	// It fills the width now: the card says so at both ends.
	const box = await page.locator('.graph').boundingBox();
	const {y} = await place(page, node, node);
	for (const x of [box.x + 4, box.x + box.width - 6]) {
		await page.mouse.move(x, y);
		assert.equal(await page.locator('.card strong').textContent(), node.name);
		assert.match(await page.locator('.card').textContent(), /100\.00 % of the view/);
	}
	await page.goBack();
	await settled(page);
	assert.equal(await trail.count(), 0);
	await page.goForward();
	await settled(page);
	assert.equal(await trail.count(), 1);
	await trail.getByRole('button').nth(2).click();
	await settled(page);
	assert.equal(await page.locator('.crumbs [aria-current]').textContent(),
		shownTree().find(n => n.depth === 1 && n.start <= node.start && n.start + n.size > node.start).name);
	await page.keyboard.press('Escape');
	await settled(page);
	assert.equal(await trail.count(), 0);
	await done(page);
});

test('the card tells self, total and shares', {skip}, async () => {
	const page = await open();
	await ready(page);
	const all = shownTree()[0];
	const node = frame(n => n.self > 0 && n.kind === 0 && n.module !== '');
	const {x, y} = await place(page, node);
	await page.mouse.move(x, y);
	const card = page.locator('.card');
	assert.equal(await card.locator('strong').textContent(), node.name);
	const text = await card.textContent();
	assert.ok(text.includes(node.module), text);
	assert.ok(text.includes(`${(100 * node.total / all.total).toFixed(2)} % of all`), text);
	assert.ok(text.includes(`${(100 * node.self / all.total).toFixed(2)} % of all`), text);
	await page.mouse.move(x, 30);
	await card.waitFor({state: 'detached'});
	await done(page);
});

test('a source line shows where one is kept', {skip}, async () => {
	const page = await open();
	await ready(page);
	writeFileSync(path.join(files, 'lines.json'), JSON.stringify({
		shared: {frames: [{name: 'main', file: '/src/main.c', line: 42}]},
		profiles: [{type: 'sampled', name: 'x', unit: 'none', startValue: 0, endValue: 5, samples: [[0]], weights: [5]}],
	}));
	await upload(page, 'lines.json');
	const box = await page.locator('.graph').boundingBox();
	await page.mouse.move(box.x + 100, box.y + box.height - 1.5 * ROW);
	assert.equal(await page.locator('.card .source').textContent(), '/src/main.c:42');
	await done(page);
});

test('flame or icicle', {skip}, async () => {
	const page = await open();
	await ready(page);
	const box = await page.locator('.graph').boundingBox();
	const over = async y => {
		await page.mouse.move(box.x + 50, y);
		return page.locator('.card strong').textContent();
	};
	assert.equal(await over(box.y + box.height - 5), 'all');
	await page.getByRole('button', {name: 'Icicle', exact: true}).click();
	await settled(page);
	assert.equal(await over(box.y + 5), 'all');
	await page.keyboard.press('i');
	await settled(page);
	assert.equal(await over(box.y + box.height - 5), 'all');
	await done(page);
});

test('a search counts nested matches once, and steps from match to match', {skip}, async () => {
	const page = await open();
	await ready(page);
	const matchedOf = (re, tree) => {
		let sum = 0;
		for (let i = 0; i < tree.length; i++) {
			if (i === 0 || !re.test(tree[i].name))
				continue;
			sum += tree[i].size;
			const depth = tree[i].depth;
			while (i + 1 < tree.length && tree[i + 1].depth > depth)
				i++;
		}
		return `${(100 * sum / tree[0].size).toFixed(2)} % matched`;
	};
	const output = page.locator('.search output');
	await page.keyboard.press('/');
	await page.keyboard.type('pyeval');
	await settled(page);
	const tree = shownTree();
	assert.ok((await output.textContent()).startsWith(matchedOf(/pyeval/i, tree)));
	const hits = tree.filter(n => /pyeval/i.test(n.name) && n.depth > 0);
	const count = hits.length.toLocaleString('en-US');
	assert.equal(await output.locator('.of').textContent(), count);
	assert.ok((await rows(page)).every(r => /pyeval/i.test(r[4])), 'the table has the same');
	const wide = hits.find(n => n.size > tree[0].size / 50);
	const at = await place(page, wide);
	assert.equal(await pixel(page, at.x - wide.size / tree[0].size * 200, at.y - 7), '162,28,175,255', 'in the accent\'s colour');

	await page.keyboard.press('Enter');
	assert.match(await output.locator('.of').textContent(), new RegExp(`^1 / ${count}$`));
	assert.ok(await page.locator('.graph-cursor').first().isVisible());
	await page.getByRole('button', {name: 'Previous match'}).click();
	assert.match(await output.locator('.of').textContent(), new RegExp(`^${count} / ${count}$`));
	await page.getByRole('button', {name: 'Next match'}).click();
	assert.match(await output.locator('.of').textContent(), /^1 \//);

	await page.locator('#search').fill('^(_PyEval_Vector|gzip)$');
	assert.ok((await output.textContent()).startsWith(matchedOf(/^(_PyEval_Vector|gzip)$/, tree)));
	await page.locator('#search').fill('nothing like it');
	assert.equal(await output.textContent(), '0.00 % matched');
	assert.match(await page.locator('.functions .nothing').textContent(), /No function matches/);
	await page.locator('#search').fill('*(');
	assert.equal(await output.textContent(), 'not a regular expression');
	await page.keyboard.press('Escape');
	assert.equal(await output.textContent(), '');
	assert.equal(await page.locator('#search').inputValue(), '');
	await done(page);
});

test('colours by kind, library and name stay from view to view', {skip}, async () => {
	const page = await open();
	await ready(page);
	const seen = new Set();
	for (const by of ['kind', 'library', 'name']) {
		await page.getByRole('combobox', {name: 'Colour', exact: true}).selectOption(by);
		await settled(page);
		const like = n => n.name === 'Py_RunMain';
		const colourOf = async () => {
			const node = frame(like);
			const {x, y} = await place(page, node);
			await page.mouse.move(5, 5);
			return pixel(page, x + node.size / shownTree()[0].size * 200, y - 7);
		};
		const before = await colourOf();
		seen.add(before);
		await drag(page, 0.05, 0.3);
		assert.equal(await colourOf(), before, by);
		await page.getByRole('button', {name: 'Whole range'}).click();
		await settled(page);
	}
	assert.equal(seen.size, 3, 'three ways to colour');
	assert.equal(await page.locator('.kinds li').count() >= 1, true);
	await done(page);
});

const menuItem = (page, name) => page.getByRole('menuitem', {name}).click().then(() => settled(page));

test('focus, remove, hide a library, merge recursion; each can be undone', {skip}, async () => {
	const page = await open();
	await ready(page);
	const whole = await total(page);
	const tree = shownTree();
	const node = frame(n => n.name === 'PyEval_EvalCode');
	const outermost = name => {
		let sum = 0;
		for (let i = 0; i < tree.length; i++) {
			if (tree[i].name !== name)
				continue;
			sum += tree[i].total;
			const depth = tree[i].depth;
			while (i + 1 < tree.length && tree[i + 1].depth > depth)
				i++;
		}
		return sum;
	};
	const used = outermost('PyEval_EvalCode');
	await clickFrame(page, node, {button: 'right'});
	await menuItem(page, /^Focus on PyEval_EvalCode/);
	assert.equal(await total(page), used);
	assert.equal(await tableSum(page), used);
	await page.getByRole('button', {name: 'Undo: only PyEval_EvalCode'}).click();
	await settled(page);
	assert.equal(await total(page), whole);

	await clickFrame(page, node, {button: 'right'});
	await menuItem(page, /^Remove PyEval_EvalCode/);
	assert.equal(await total(page), whole - used);
	await page.goBack();
	await settled(page);
	assert.equal(await total(page), whole);

	await clickFrame(page, node, {button: 'right'});
	await menuItem(page, /^Hide frames of libpython/);
	assert.equal(await total(page), whole, 'its time is its callers\'');
	assert.ok(!(await rows(page)).some(r => r[5].startsWith('libpython')));
	await page.getByRole('button', {name: /^Undo: without frames/}).click();
	await settled(page);

	const depthOf = () => page.locator('.graph-inner').first().evaluate(e => e.scrollHeight);
	const before = await depthOf();
	await page.getByRole('button', {name: 'Merge recursion'}).click();
	await settled(page);
	assert.equal(await total(page), whole);
	assert.ok(await depthOf() < before, 'fewer rows');
	await page.keyboard.press('r');
	await settled(page);
	assert.equal(await depthOf(), before);
	await done(page);
});

test('callers and callees of a function', {skip}, async () => {
	const page = await open();
	await ready(page);
	const tree = shownTree();
	await page.getByRole('button', {name: '_PyObject_Malloc', exact: true}).click();
	await settled(page);
	assert.match(page.url(), /fn=/);
	const sandwich = page.locator('.sandwich');
	assert.equal(await sandwich.locator('h2').textContent(), '_PyObject_Malloc');
	const sum = tree.filter(n => n.name === '_PyObject_Malloc').reduce((n, f) => n + f.total, 0);
	assert.ok((await sandwich.locator('header').textContent())
		.includes(`${(100 * sum / tree[0].total).toFixed(2)} % of all`));
	// The function is the lowest row of the callers and the highest of the callees.
	const [up, down] = await Promise.all([0, 1].map(i => page.locator('.graph').nth(i).boundingBox()));
	const over = async (x, y) => {
		await page.mouse.move(x, y);
		return page.locator('.card strong').textContent();
	};
	assert.equal(await over(up.x + 200, up.y + up.height - 5), '_PyObject_Malloc');
	assert.equal(await over(down.x + 200, down.y + 5), '_PyObject_Malloc');
	const callers = new Set(tree.filter((n, i) => tree.slice(i + 1).find(c => c.depth <= n.depth + 1)?.name ===
		'_PyObject_Malloc' || tree.some(c => c.name === '_PyObject_Malloc' && c.depth === n.depth + 1 &&
		c.start >= n.start && c.start + c.size <= n.start + n.size + 1)).map(n => n.name));
	assert.ok(callers.has(await over(up.x + 200, up.y + up.height - 5 - ROW)), 'a caller is above it');
	await picture(page, 'page-callers');
	await page.keyboard.press('Escape');
	await settled(page);
	assert.equal(await sandwich.count(), 0);
	await done(page);
});

test('the keyboard alone', {skip}, async () => {
	const page = await open();
	await ready(page);
	const tree = shownTree();
	await page.locator('.graph').focus();
	const spoken = () => page.locator('[aria-live=polite]').textContent();
	await page.keyboard.press('ArrowUp');
	assert.match(await spoken(), /^all, /);
	await page.keyboard.press('ArrowUp');
	const largest = tree.filter(n => n.depth === 1).sort((a, b) => b.size - a.size)[0];
	assert.ok((await spoken()).startsWith(`${largest.name}, `), await spoken());
	await page.keyboard.press('ArrowRight');
	const next = tree.filter(n => n.depth === 1 && n.start > largest.start &&
		n.size > tree[0].size / 1600)[0] ?? largest;
	assert.ok((await spoken()).startsWith(`${next.name}, `));
	await page.keyboard.press('ArrowLeft');
	await page.keyboard.press('ArrowDown');
	assert.match(await spoken(), /^all, /);
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('Enter');
	await settled(page);
	assert.equal(await page.locator('.crumbs').count(), 1);

	await page.keyboard.press('ArrowUp');
	const name = (await spoken()).split(', ')[0];
	await page.keyboard.press('c');
	await page.getByText('Copied the name').waitFor();
	assert.equal(await page.evaluate(() => navigator.clipboard.readText()), name);
	await page.keyboard.press('C');
	await page.getByText('Copied the stack').waitFor();
	const stack = (await page.evaluate(() => navigator.clipboard.readText())).split('\n');
	assert.equal(stack[0], name);
	assert.equal(stack.at(-1), largest.name);
	await page.keyboard.press('s');
	await settled(page);
	assert.equal(await page.locator('.sandwich h2').textContent(), name);
	await page.keyboard.press('Escape');
	await page.keyboard.press('?');
	await page.getByRole('dialog').waitFor();
	await page.keyboard.press('Escape');
	await page.getByRole('dialog').waitFor({state: 'hidden'});
	await done(page);
});

test('the card says how many samples, and how much of its caller', {skip}, async () => {
	const page = await open();
	await ready(page);
	const tree = shownTree();
	const node = frame(n => n.depth === 5 && n.self > 0);
	const caller = tree.slice(0, node.i).findLast(n => n.depth === node.depth - 1);
	const {x, y} = await place(page, node);
	await page.mouse.move(x, y);
	const card = await page.locator('.card').textContent();
	const count = n => `${Math.round(n / PERIOD).toLocaleString('en-US')} sample`;
	assert.ok(card.includes(count(node.total)) && card.includes(count(node.self)), card);
	assert.ok(card.includes(`Of caller${(100 * node.total / caller.total).toFixed(2)} %${caller.name.slice(0, 40)}`), card);
	await done(page);
});

// ---- the table ------------------------------------------------------------------------------------

test('the table is a table, and sorts', {skip}, async () => {
	const page = await open();
	await ready(page);
	const amounts = {ns: 1, µs: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9};
	const value = text => Number.parseFloat(text) * amounts[text.split(' ')[1]];
	const isFalling = list => list.every((n, i) => i === 0 || n <= list[i - 1]);
	assert.ok(await page.getByRole('table').count() >= 1);
	assert.ok(isFalling((await rows(page)).map(r => value(r[0]))), 'by self');
	await page.getByRole('columnheader', {name: 'Total'}).getByRole('button').click();
	assert.ok(isFalling((await rows(page)).map(r => value(r[2]))), 'by total');
	assert.equal(await page.getByRole('columnheader', {name: 'Total'}).getAttribute('aria-sort'), 'descending');
	// It is in the link.
	assert.match(page.url(), /sort=total/);
	await page.reload();
	await ready(page);
	assert.ok(isFalling((await rows(page)).map(r => value(r[2]))), 'by total still');
	assert.equal(await page.getByRole('columnheader', {name: 'Total'}).getAttribute('aria-sort'), 'descending');
	await page.getByRole('columnheader', {name: 'Function'}).getByRole('button').click();
	const names = (await rows(page)).map(r => r[4]);
	assert.deepEqual(names, [...names].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
	const functions = new Set(shownTree().slice(1).map(n => `${n.name} ${n.module} ${n.kind}`)).size;
	await page.waitForFunction(n => document.querySelectorAll('.functions tbody tr').length === n, functions);
	for (const [view, graphs, tables] of [['Table', 0, 1], ['Graph', 1, 0], ['Both', 1, 1]]) {
		await page.getByRole('button', {name: view, exact: true}).click();
		assert.equal(await page.locator('.graph').count(), graphs, view);
		assert.equal(await page.locator('.functions').count(), tables, view);
	}
	await done(page);
});

// ---- comparing ------------------------------------------------------------------------------------

test('two ranges are compared', {skip}, async () => {
	const page = await open();
	await ready(page);
	await drag(page, 0.8, 0.834);
	await drag(page, 0.745, 0.79, 'Shift');
	const answer = mock.answer(parameters());
	assert.match(parameters().pathname, /diff$/);
	assert.equal(await total(page), answer.total);
	assert.match(await info(page), /against /);
	assert.equal(await page.locator('.range').count(), 2);
	assert.equal(await page.locator('.range.base').textContent(), 'baseline');

	// Names that are too long end in dots, beside a word too.
	assert.deepEqual(await page.locator('.functions tbody th').evaluateAll(all =>
		all.filter(e => e.querySelector('button').getBoundingClientRect().right > e.getBoundingClientRect().right)
			.map(e => e.textContent)), []);

	// The table: by how much each function changed, most first; new and vanished ones say so.
	const heads = await page.locator('.functions thead th').allTextContents();
	assert.deepEqual(heads, ['Self', '± Self', 'Total', '± Total', 'Function', 'File']);
	const list = await rows(page);
	const sums = new Map();
	answer.nodes.function.forEach((f, i) => {
		const s = sums.get(f) ?? {now: 0, base: 0};
		s.now += answer.nodes.self[i];
		s.base += answer.nodes.base_self[i];
		sums.set(f, s);
	});
	// Of ranges that are not as long, the base counts for the length of the other.
	const weight = (answer.to - answer.from) / (answer.base.to - answer.base.from);
	assert.ok(weight < 0.9, 'the base is longer');
	assert.ok((await info(page)).includes(`, times ${weight.toPrecision(3)}`), await info(page));
	for (const s of sums.values())
		s.base *= weight;
	const [most, of] = [...sums].sort((a, b) => Math.abs(b[1].now - b[1].base) - Math.abs(a[1].now - a[1].base))[0];
	assert.ok(list[0][4].endsWith(answer.functions.name[most]), `${list[0]}`);
	assert.equal(list[0][1][0], of.now > of.base ? '+' : '−');
	assert.ok(list.some(r => r[4].startsWith('vanished ')) && list.some(r => r[4].startsWith('new ')));

	// In the graph: orange more, blue less, and those that are on one side only are striped.
	const tree = shownTree();
	const colours = async node => {
		const {x, y} = await place(page, node);
		const out = [];
		for (let dx = -9; dx < 0; dx++)
			out.push(await pixel(page, x + dx, y - 7));
		return new Set(out);
	};
	const wide = tree.filter(n => n.depth > 1 && n.depth < 12 && n.size > tree[0].size / 60);
	const gone = wide.find(n => n.total === 0);
	const more = wide.find(n => n.base > 0 && n.total > 3 * weight * n.base);
	assert.ok(gone && more);
	assert.ok((await colours(gone)).size > 1, 'stripes');
	const [r, , b] = [...await colours(more)][0].split(',').map(Number);
	assert.ok(r > b, 'more is orange');
	assert.equal((await colours(more)).size, 1, 'no stripes');
	const at = await place(page, gone);
	await page.mouse.move(at.x, at.y);
	assert.match(await page.locator('.card').textContent(), /vanished/);
	await page.mouse.move(5, 5);
	await picture(page, 'page-compare');

	const change = () => page.locator('.functions tbody tr').first().textContent();
	const pressed = () => page.locator('.info .segments [aria-pressed=true]').textContent();
	assert.equal(await pressed(), 'Per second', 'whatever the lengths');
	const byLength = await change();
	await page.getByRole('button', {name: 'Normalised'}).click();
	await settled(page);
	assert.notEqual(await change(), byLength);
	assert.match(page.url(), /scale=shares/);
	await page.getByRole('button', {name: 'Stop comparing'}).click();
	await settled(page);
	assert.match(parameters().pathname, /query$/);
	assert.equal(await page.locator('.range.base').count(), 0);
	await done(page);
});

test('two selectors are compared, and a range with the one before', {skip}, async () => {
	const page = await open(hour('q=cpu%7Bcomm%3D%22node%22%7D&group='));
	await ready(page);
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await page.getByLabel(/by selector/).fill('cpu{comm=');
	await page.locator('.panel').getByRole('button', {name: 'Compare'}).click();
	assert.match(await page.locator('.panel [role=alert]').textContent(), /quotes/);
	await page.getByLabel(/by selector/).fill('cpu{comm="python3"}');
	await page.locator('.panel').getByRole('button', {name: 'Compare'}).click();
	await settled(page);
	const p = parameters().searchParams;
	assert.equal(p.get('base_query'), 'cpu{comm="python3"}');
	assert.equal(p.get('base_from'), p.get('from'));
	assert.match(await info(page), /against/);
	await page.getByRole('button', {name: 'Stop comparing'}).click();
	await settled(page);
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await page.getByRole('button', {name: 'What was just before'}).click();
	await settled(page);
	assert.equal(parameters().searchParams.get('base_to'), parameters().searchParams.get('from'));
	await done(page);
});

// ---- the heatmap ----------------------------------------------------------------------------------

test('a rectangle of the heatmap is a flame graph, exact to 20 ms', {skip}, async () => {
	const page = await open();
	await ready(page);
	await page.getByRole('button', {name: 'Heatmap', exact: true}).click();
	await settled(page);
	const asked = new URL(mock.requests.findLast(r => r.includes('/heatmap?')), url).searchParams;
	assert.equal(Number(asked.get('to')) - Number(asked.get('from')), 600_000, 'the last ten minutes');
	const heat = mock.answer(new URL(`/api/v1/heatmap?${asked}`, url));
	const canvas = page.locator('.heat canvas');
	const box = await canvas.boundingBox();
	const x = column => box.x + (column + 0.5) / 600 * box.width;
	const y = row => box.y + (49.5 - row) / 50 * box.height;
	const pick = async (c0, r0, c1, r1) => {
		await page.mouse.move(x(c0), y(r0));
		await page.mouse.down();
		await page.mouse.move(x((c0 + c1) / 2), y((r0 + r1) / 2));
		await page.mouse.move(x(c1), y(r1));
		await page.mouse.up();
		await settled(page);
		let sum = 0;
		for (let c = c0; c <= c1; c++)
			for (let r = r0; r <= r1; r++)
				sum += heat.counts[c * 50 + r];
		return sum;
	};
	// It stands below the timeline's own area, with axes and a scale in numbers.
	const over = await page.locator('.u-over').boundingBox();
	assert.ok(Math.abs(over.x - box.x) < 1.5 && Math.abs(over.width - box.width) < 1.5, 'in line with the timeline');
	assert.deepEqual(await page.locator('.heat-rows span').allTextContents(), ['0', '250', '500', '750', '1 s']);
	assert.match((await page.locator('.heat-times span').allTextContents()).join(), /^\d\d:\d\d(,\d\d:\d\d){7,}$/);
	const scale = await page.locator('.heat-scale li').allTextContents();
	assert.ok(scale[0] === '0' && Number(scale.at(-1)) > Number(scale[2]), scale.join());
	assert.match(await page.locator('.heat-scale').textContent(), /^CPUs busy, in each 20 ms/);
	const several = await pick(300, 10, 340, 20);
	assert.equal(parameters().searchParams.get('slots'), '10-20');
	assert.ok(several > 0);
	assert.equal(await total(page), several * PERIOD);
	assert.equal(await tableSum(page), several * PERIOD);
	assert.match(await page.locator('.chosen').textContent(), /in each second 200 to 420 ms/);
	await picture(page, 'page-heatmap');

	const one = await pick(310, 5, 310, 30);
	const p = parameters().searchParams;
	assert.equal(Number(p.get('to')) - Number(p.get('from')), 26 * 20);
	assert.equal(Number(p.get('from')), heat.start + 310_000 + 100);
	assert.equal(await total(page), one * PERIOD);
	assert.equal(await page.locator('.cells').count(), 1);
	await page.mouse.move(x(5), y(7));
	assert.match(await page.locator('.heat .at').textContent(), /\.140, 20 ms, \d+ samples?, \d+\.\d\d CPUs/);

	const shared = page.url();
	const other = await open(shared.slice(url.length));
	await ready(other);
	assert.equal(await total(other), one * PERIOD, 'the URL has it');
	await done(other);
	await done(page);
});

test('of what is known by windows the heatmap is of windows', {skip}, async () => {
	const page = await open(hour('q=offcpu&heat=1'));
	await ready(page);
	const asked = () => new URL(mock.requests.findLast(r => r.includes('/heatmap?')), url);
	assert.equal(asked().searchParams.get('query'), 'offcpu{state!="idle"}', 'those that wait for work are always many');
	const heat = mock.answer(asked());
	assert.equal(heat.values.length, 360, 'all of the hour');
	const canvas = page.locator('.heat canvas');
	const begin = Math.floor(heat.start / 60_000) * 60_000, offset = (heat.start - begin) / 10_000;
	const columns = Math.ceil((offset + 360) / 6);
	assert.deepEqual(await canvas.evaluate(c => [c.width, c.height]), [columns, 6]);
	// It says what its columns, rows and colours are.
	assert.deepEqual(await page.locator('.heat-rows span').allTextContents(), ['0', '20', '40', '60 s']);
	assert.match((await page.locator('.heat-times span').allTextContents()).join(), /^\d\d:\d0(,\d\d:\d0){5,}$|^\d\d:\d[05](,\d\d:\d[05]){8,}$/);
	assert.match(await page.locator('.heat-scale').textContent(),
		/^Threads that wait, in each 10 s.*A column is a minute, a row 10 s of it\. Idle ones are left out\./);
	assert.match(await page.getByRole('button', {name: 'Heatmap', exact: true}).getAttribute('title'), /in each 10 s/);
	// What was not recorded is no 0: nothing is painted there.
	const alpha = await canvas.evaluate(c => {
		const {data} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
		return Array.from({length: c.width * c.height}, (_, i) => data[4 * i + 3]);
	});
	heat.covered.forEach((is, i) => {
		const at = i + offset;
		if (i <= heat.covered.lastIndexOf(1))
			assert.equal(alpha[(5 - at % 6) * columns + Math.floor(at / 6)], is ? 255 : 0, `window ${i}`);
	});
	assert.ok(alpha.includes(0), 'there is a gap');

	const box = await canvas.boundingBox();
	const x = at => box.x + (Math.floor(at / 6) + 0.5) / columns * box.width;
	const y = at => box.y + (5.5 - at % 6) / 6 * box.height;
	const pick = async (from, to) => {
		await page.mouse.move(x(from), y(from));
		await page.mouse.down();
		await page.mouse.move(x((from + to) >> 1), y((from + to) >> 1));
		await page.mouse.move(x(to), y(to));
		await page.mouse.up();
		await settled(page);
		const [first, last] = [Math.min(from, to) - offset, Math.max(from, to) - offset];
		return heat.values.slice(first, last + 1).reduce((a, b) => a + b, 0);
	};
	// From a window to another, in either direction, is all the time between them.
	const gap = heat.covered.indexOf(0) + offset;
	for (const [from, to, boxes] of [[62, 62, 1], [61, 64, 1], [60, 80, 2], [80, 63, 3], [61, 80, 3], [60, 71, 1]]) {
		const sum = await pick(from, to);
		const p = parameters().searchParams;
		const low = Math.min(from, to), high = Math.max(from, to);
		assert.equal(p.get('slots'), null);
		assert.equal(Number(p.get('from')), begin + low * 10_000);
		assert.equal(Number(p.get('to')), begin + (high + 1) * 10_000);
		assert.equal(p.get('query'), 'offcpu', 'with what is idle: it is one grey frame there');
		assert.ok(sum > 0);
		assert.equal(await total(page), sum);
		assert.equal(await page.locator('.cells').count(), boxes, `${from} to ${to}`);
		assert.equal(await timelineSum(page), sum);
	}
	await page.mouse.move(x(62), y(62));
	assert.match(await page.locator('.heat .at').textContent(), /^\d\d:\d\d:\d0, 10 s, [\d.]+ (s|min), \d+\.\d\d threads$/);
	await page.mouse.move(x(gap + 3), y(gap + 3));
	assert.match(await page.locator('.heat .at').textContent(), /nothing was recorded/);
	await picture(page, 'page-heatmap-windows');
	await axe(page, 'a heatmap of windows');
	const other = await open(page.url().slice(url.length));
	await ready(other);
	assert.equal(await total(other), await total(page), 'the URL has it');
	assert.equal(await other.locator('.cells').count(), 1);
	await done(other);

	// Back to samples: slots of what is chosen. And from slots to windows: the windows they are in.
	const type = page.locator('.timeline-head select').first();
	await type.selectOption('cpu');
	await settled(page);
	assert.match(await page.locator('.heat-scale').textContent(), /^CPUs busy, in each 20 ms/);
	const slots = await canvas.boundingBox();
	await page.mouse.move(slots.x + 100, slots.y + 50);
	await page.mouse.down();
	await page.mouse.move(slots.x + 200, slots.y + 80);
	await page.mouse.up();
	await settled(page);
	assert.match(parameters().searchParams.get('slots'), /^\d+-\d+$/);
	await type.selectOption('offcpu');
	await settled(page);
	const p = parameters().searchParams;
	assert.equal(p.get('slots'), null);
	assert.ok(Number(p.get('from')) % 10_000 === 0 && Number(p.get('to')) % 10_000 === 0);
	assert.equal(await page.locator('.chosen').textContent().then(t => /in each second/.test(t)), false);
	await done(page);
});

// ---- the filter -----------------------------------------------------------------------------------

test('the filter completes names and values, and shows chips', {skip}, async () => {
	const page = await open();
	await ready(page);
	const box = page.getByRole('combobox', {name: 'Filter by label'});
	await box.fill('cont');
	await page.locator('.suggestions').getByRole('option', {name: 'container', exact: true}).waitFor();
	await box.press('Tab');
	assert.equal(await box.inputValue(), 'container="');
	await page.locator('.suggestions').getByRole('option', {name: 'shop-api', exact: true}).waitFor();
	await box.press('ArrowDown');
	await box.press('ArrowDown');
	assert.equal(await page.locator('[role=option][aria-selected=true]').textContent(), 'shop-api');
	await box.press('Enter');
	await settled(page);
	assert.equal(parameters().searchParams.get('query'), 'cpu{container="shop-api"}');
	const chips = page.locator('.query .chip .text');
	assert.deepEqual(await chips.allTextContents(), ['container="shop-api"']);

	await chips.first().click();
	await settled(page);
	assert.deepEqual(await chips.allTextContents(), ['container!="shop-api"']);
	await box.fill('pyth');
	await page.locator('.suggestions').getByRole('option', {name: 'comm="python3"', exact: true}).click();
	await settled(page);
	assert.equal(parameters().searchParams.get('query'), 'cpu{container!="shop-api", comm="python3"}');
	assert.equal(await timelineSum(page), await total(page));
	await page.getByRole('button', {name: 'Remove comm="python3"'}).click();
	await settled(page);
	assert.equal(await chips.count(), 1);
	await box.focus();
	await box.press('Backspace');
	await settled(page);
	assert.equal(await chips.count(), 0);

	await box.fill('cpu{comm=~"node|go", unit!="x"}');
	await box.press('Enter');
	await settled(page);
	assert.equal(await chips.count(), 2);
	assert.equal(await timelineSum(page), await total(page));
	await box.fill('comm=nginx');
	await box.press('Enter');
	assert.match(await page.locator('.query .problem').textContent(), /quotes/);

	// A type is completed too, and keeps the filter.
	await box.fill('off');
	await page.locator('.suggestions').getByRole('option', {name: /^offcpu/}).waitFor();
	assert.equal(await page.locator('.suggestions').textContent(), 'offcpuprofile type');
	await picture(page, 'page-types');
	await box.press('Tab');
	await settled(page);
	assert.equal(parameters().searchParams.get('query'), 'offcpu{comm=~"node|go", unit!="x"}');
	assert.equal(await page.locator('.query .type').textContent(), 'offcpu');
	assert.equal(await chips.count(), 2);
	await done(page);
});

test('a word that is no profile type is a process', {skip}, async () => {
	const page = await open();
	await ready(page);
	const box = page.getByRole('combobox', {name: 'Filter by label'});
	const type = async text => {
		await box.fill(text);
		await box.press('Enter');
		await settled(page);
		return parameters().searchParams.get('query');
	};
	assert.equal(await type('node'), 'cpu{comm="node"}');
	assert.ok(await total(page) > 0);
	assert.deepEqual(await page.locator('.query .chip .text').allTextContents(), ['comm="node"']);
	assert.equal(await type('python3'), 'cpu{comm="python3"}', 'in its place');
	await type('container="shop-web"');
	assert.equal(await type('python3'), 'cpu{container="shop-web", comm="python3"}', 'beside another filter');
	assert.equal(await type('redis-server'), 'cpu{container="shop-web", comm="redis-server"}');
	assert.match(await page.locator('.empty h2').textContent(), /Nothing matches the filter/);
	assert.equal(await type('offcpu'), 'offcpu', 'a type is a type');
	assert.equal(await type('cpu'), 'cpu');
	await done(page);
	// As someone may write it into a link.
	const link = await open(hour('q=node'));
	await ready(link);
	await link.locator('.query .chip .text', {hasText: 'comm="node"'}).waitFor();
	assert.equal(await link.locator('.query .type').textContent(), 'cpu');
	await done(link);
});

test('the graph is grouped by a label', {skip}, async () => {
	const page = await open();
	await ready(page);
	await page.getByRole('combobox', {name: 'Group by', exact: true}).selectOption('unit');
	await settled(page);
	const first = shownTree().filter(n => n.depth === 1).map(n => n.name);
	assert.ok(first.includes('build.service'));
	await page.getByRole('combobox', {name: 'Group by', exact: true}).selectOption('');
	await settled(page);
	assert.ok(!shownTree().some(n => n.depth === 1 && n.name === 'build.service'));
	assert.equal(await timelineSum(page), await total(page));
	await done(page);
});

// ---- own cost -------------------------------------------------------------------------------------

/* The corner and the panel behind it say what the API's `cost` says. */
async function sameCost(page, {cost, samples, cpus}) {
	const digits = n => n === 0 ? '0 %' : `${n.toFixed(n >= 10 ? 1 : n >= 1 ? 2 : n >= 0.1 ? 3 : 4)} %`;
	const corner = page.locator('.cost');
	const late = cost.recent;
	const seen = await corner.locator('> button').textContent();
	assert.ok(seen.startsWith(`Own cost${digits(late.cpu_percent)} CPU`), seen);
	assert.ok(seen.includes(`${(cost.memory_bytes / 2 ** 20).toPrecision(3)} MiB`), seen);
	const perDay = late.disk_bytes_per_day ?? cost.disk_bytes_per_day;
	const day = n => n === null ? '–' : `${(n / 2 ** 20).toPrecision(3)} MiB`;
	assert.ok(seen.endsWith(`${perDay === null ? 'B' : `${day(perDay)} a day`}${late.lost} lost`), seen);
	await corner.getByRole('button').click();
	const panel = corner.locator('.panel');
	assert.ok((await panel.locator('p').first().textContent()).startsWith(`Share of ${cpus} CPUs`));
	const table = i => panel.locator('table').nth(i).locator('tr').evaluateAll(all =>
		all.map(tr => [...tr.cells].map(c => c.textContent)));
	const [costs, stages, lost] = await Promise.all([0, 1, 2].map(table));
	const text = n => n < 60 ? `${n} s` : `${Math.floor(n / 60)} min${n % 60 ? ` ${n % 60} s` : ''}`;
	assert.equal(costs[0][1], `last ${text(late.seconds)}`);
	const row = (rows, name) => rows.find(r => r[0] === name)?.slice(1, 3);
	assert.deepEqual(row(costs, 'CPU, total'), [late, cost].map(c => digits(c.cpu_percent)));
	assert.deepEqual(row(costs, 'Timer interrupt'), [late, cost].map(c => digits(c.timer_percent)));
	assert.deepEqual(row(costs, 'Samples lost'), [late, cost].map(c => c.lost.toLocaleString('en-US')));
	assert.equal(row(costs, 'Memory')[0], `${(cost.memory_bytes / 2 ** 20).toPrecision(3)} MiB`);
	assert.deepEqual(row(costs, 'Disk per day'), [late, cost].map(c => day(c.disk_bytes_per_day)));
	for (const [rows, kind] of [[costs, 'parts'], [stages, 'stages']])
		for (const [i, {name}] of cost[kind].entries())
			assert.deepEqual(row(rows, `· ${name}`), [late, cost].map(c => digits(c[kind][i].cpu_percent)), name);
	assert.deepEqual(stages.slice(1).map(r => r[0]), cost.stages.map(s => `· ${s.name}`));
	assert.deepEqual(lost, Object.entries(samples.lost).map(([k, n]) => [k.replaceAll('_', ' '), '', n.toLocaleString('en-US'), '']));
}

test('the corner says what smolder costs now, and by stage', {skip}, async () => {
	const page = await open();
	await ready(page);
	const status = mock.status();
	assert.ok(status.cost.stages.length >= 8 && status.cost.recent.cpu_percent !== status.cost.cpu_percent);
	await sameCost(page, status);
	await picture(page, 'page-cost');
	await page.keyboard.press('Escape');
	await page.setViewportSize({width: 390, height: 800});
	await page.getByRole('button', {name: '☰ More'}).click();
	await page.locator('.cost').getByRole('button').click();
	assert.ok(await page.locator('.cost .panel').evaluate(e => e.clientWidth > 300 && e.scrollWidth <= e.clientWidth), 'it fits a narrow screen');
	await page.keyboard.press('Escape');
	await page.locator('.cost .panel').waitFor({state: 'detached'});
	await done(page);
});

// ---- saving and sharing ---------------------------------------------------------------------------

async function save(page, name) {
	await page.getByRole('button', {name: 'Save', exact: true}).click();
	const [got] = await Promise.all([
		page.waitForEvent('download'),
		page.locator('.panel').getByRole('button', {name}).click(),
	]);
	const file = path.join(files, got.suggestedFilename());
	await got.saveAs(file);
	return file;
}

const foldedSum = text => text.trim().split('\n').reduce((n, l) => n + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);

test('the view is saved in every format, as it is seen', {skip}, async () => {
	const page = await open(hour('q=cpu%7Bcomm%3D%22python3%22%7D&s=malloc'));
	await ready(page);
	const want = await total(page);
	const file = await save(page, /^Folded/);
	const folded = readFileSync(file, 'utf8');
	assert.equal(foldedSum(folded) * PERIOD, want, 'it counts samples');
	assert.match(folded, /^python3;.*Py_RunMain/m);
	// Its name says what, where and when; opened again, it is of samples.
	const named = (saved, extension) => {
		const m = /^cpu-python3_demo_\d{4}-\d\d-\d\dT\d\d\.\d\d\.\d\d-(\d{4}-\d\d-\d\dT)?\d\d\.\d\d\.\d\d\.(.*)$/.exec(path.basename(saved));
		assert.equal(m?.[2], extension, saved);
		return saved;
	};
	named(file, 'folded');
	await upload(page, path.basename(file));
	assert.equal(await total(page), want / PERIOD);
	assert.match(await page.locator('.facts strong').textContent(), / samples$/);
	await page.getByRole('button', {name: 'Back to the server'}).click();
	await page.locator('#search').fill('malloc');
	await settled(page);

	const pb = named(await save(page, /^pprof for/), 'pb.gz');
	const through = execFileSync(SMOLDER, ['flame', pb, '-f', 'folded', '-o', '-'], {encoding: 'utf8'});
	assert.equal(foldedSum(through) * PERIOD, want, 'what smolder itself reads of it: samples');
	const raw = gunzipSync(readFileSync(pb)).toString('latin1');
	assert.ok(raw.indexOf('samples') > 0 && raw.indexOf('samples') < raw.indexOf('nanoseconds'), 'in front');

	const json = JSON.parse(readFileSync(named(await save(page, /^speedscope/), 'speedscope.json'), 'utf8'));
	assert.equal(json.profiles[0].weights.reduce((a, b) => a + b, 0), want);
	assert.equal(json.profiles[0].unit, 'nanoseconds');

	const title = 'cpu{comm="python3"} on demo';
	assert.equal(json.name, title);
	const svg = readFileSync(named(await save(page, /^SVG/), 'svg'), 'utf8');
	assert.equal(/<text[^>]*>([^<]*)</.exec(svg)[1].replaceAll('&#34;', '"'), title);
	assert.match(svg, /<title>_PyEval_EvalFrameDefault \(/);
	await page.evaluate(() => {
		const {fillText} = CanvasRenderingContext2D.prototype;
		window.written = [];
		CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
			window.written.push(text);
			return fillText.call(this, text, ...more);
		};
	});
	const png = readFileSync(named(await save(page, /^PNG/), 'png'));
	assert.ok((await page.evaluate(() => window.written)).includes(title), 'the picture has the title');
	assert.equal(png.subarray(1, 4).toString(), 'PNG');
	const viewer = await browser.newPage();
	for (const [type, data] of [['svg+xml', Buffer.from(svg)], ['png', png]]) {
		const size = await viewer.evaluate(async src => {
			const img = new Image();
			img.src = src;
			await img.decode();
			return [img.naturalWidth, img.naturalHeight];
		}, `data:image/${type};base64,${data.toString('base64')}`);
		assert.ok(size[0] >= 1200 && size[1] > 300, `${type} ${size}`);
	}
	await viewer.close();

	// Zoomed and focused, it is that which is saved.
	const node = frame(n => n.name === '_PyEval_Vector' || n.name === 'PyObject_Vectorcall');
	await clickFrame(page, node);
	assert.equal(foldedSum(readFileSync(await save(page, /^Folded/), 'utf8')) * PERIOD, node.total);
	await done(page);
});

test('whoever opens the URL sees the same', {skip}, async () => {
	const page = await open();
	await ready(page);
	await drag(page, 0.3, 0.4);
	await page.getByRole('button', {name: 'Icicle', exact: true}).click();
	await page.getByRole('combobox', {name: 'Colour', exact: true}).selectOption('library');
	await page.getByRole('combobox', {name: 'CPUs by', exact: true}).selectOption('unit');
	await page.locator('#search').fill('alloc');
	await settled(page);
	await page.mouse.move(5, 5);
	const other = await open(page.url().slice(url.length));
	await ready(other);
	assert.equal(await total(other), await total(page));
	assert.equal(await other.locator('.search output').textContent(), await page.locator('.search output').textContent());
	const drawn = p => p.evaluate(() => document.querySelector('.graph-canvas').toDataURL());
	for (let i = 0; await drawn(other) !== await drawn(page); i++) {
		assert.ok(i < 30, 'the graph is the same, pixel for pixel');
		await page.waitForTimeout(100);
	}
	assert.deepEqual(await rows(other), await rows(page));
	assert.match(page.url(), /#v=1&/);
	await done(other);

	// A link from a live view is of that moment.
	const live = await open('');
	await ready(live);
	await live.getByRole('button', {name: 'Save', exact: true}).click();
	await live.getByRole('button', {name: /^Copy link/}).click();
	await live.getByText('Copied the link').waitFor();
	const link = await live.evaluate(() => navigator.clipboard.readText());
	const [from, to] = /t=(\d{13})-(\d{13})/.exec(link).slice(1).map(Number);
	assert.equal(to - from, 3600_000);
	assert.ok(Math.abs(to - Date.now()) < 60_000);
	await done(live);
	const later = await open(link.slice(url.length));
	await ready(later);
	assert.equal(await total(later), mock.tree(new URLSearchParams({query: 'cpu', from, to}), false).total);
	await done(later);
	await done(page);
});

// ---- files ----------------------------------------------------------------------------------------

async function upload(page, name, button = 'Open…') {
	const [chooser] = await Promise.all([
		page.waitForEvent('filechooser'),
		page.getByRole('button', {name: button}).click(),
	]);
	await chooser.setFiles(path.join(files, name));
	await settled(page);
}

test('a file is shown with the same tools, and stays in the browser', {skip}, async () => {
	writeFileSync(path.join(files, 'a.folded'), 'main;work;read_[k] 30\nmain;work 10\nmain;idle 60\n');
	writeFileSync(path.join(files, 'b.folded'), 'main;work;read_[k] 10\nmain;idle 60\nmain;old 5\n');
	execFileSync(SMOLDER, ['flame', path.join(files, 'a.folded'), '-o', path.join(files, 'a.pb.gz')], {stdio: 'pipe'});
	execFileSync(SMOLDER, ['flame', path.join(files, 'a.folded'), '-f', 'speedscope', '-o', path.join(files, 'a.speedscope.json')], {stdio: 'pipe'});
	writeFileSync(path.join(files, 'a.perf'), `prog  123 [000]  1.5:     100 cycles:
	ffffffff81000010 read+0x10 ([kernel.kallsyms])
	    55d0c0de1000 main+0x1 (/usr/bin/prog)

`);
	writeFileSync(path.join(files, 'bad.bin'), Buffer.from([1, 2, 3, 255, 255, 255]));
	const page = await open();
	await ready(page);
	const before = mock.requests.length;
	for (const [name, want] of [['a.folded', 100], ['a.pb.gz', 100], ['a.speedscope.json', 100], ['a.perf', 100]]) {
		await upload(page, name);
		assert.equal(await page.locator('.filebar strong').textContent(), name);
		assert.equal(await total(page), want, name);
		assert.equal(await tableSum(page), want, name);
	}
	await upload(page, 'a.folded');
	await page.getByRole('button', {name: 'work', exact: true}).click();
	assert.match(await page.locator('.sandwich header').textContent(), /40\.00 % of all/);
	await page.keyboard.press('Escape');
	await page.keyboard.press('/');
	await page.keyboard.type('read');
	assert.match(await page.locator('.search output').textContent(), /^30\.00 % matched/);

	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await upload(page, 'b.folded', 'Another file…');
	assert.match(await page.locator('.filebar strong').textContent(), /a\.folded, compared with b\.folded/);
	assert.ok((await rows(page)).some(r => r[4] === 'vanished old'));
	await page.getByRole('button', {name: 'Stop comparing'}).click();
	assert.equal(await page.locator('.filebar strong').textContent(), 'a.folded');

	await upload(page, 'bad.bin');
	assert.match(await page.locator('.filebar [role=alert]').textContent(), /bad\.bin cannot be shown: it is not folded/);
	const sent = mock.requests.slice(before).filter(r => !r.endsWith('/status'));
	assert.deepEqual(sent, [], 'nothing was asked of the server');
	await page.getByRole('button', {name: 'Back to the server'}).click();
	await settled(page);
	assert.ok(await total(page) > 1e9);
	await done(page);
});

test('a file is compared with what the server has, either way', {skip}, async () => {
	const page = await open(hour('group=&q=cpu%7Bcomm%3D%22python3%22%7D'));
	await ready(page);
	const want = await total(page);
	const saved = path.basename(await save(page, /^pprof for/));
	await page.getByRole('combobox', {name: 'Group by', exact: true}).selectOption('comm');
	await settled(page);
	await upload(page, saved);
	assert.equal(await total(page), want);
	// With itself it is the same, function for function.
	const same = async () => {
		assert.equal(await total(page), want);
		assert.match(await info(page), /against/);
		const changes = await page.locator('.functions tbody tr').evaluateAll(all =>
			all.map(tr => [tr.cells[1].textContent, tr.cells[3].textContent, tr.querySelector('em')?.textContent ?? '']));
		assert.ok(changes.length > 50);
		assert.deepEqual(changes.filter(c => c.join() !== '0 s,0 s,'), []);
	};
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await page.getByRole('button', {name: /^The server’s profile/}).click();
	await page.locator('.filebar', {hasText: 'compared with cpu{comm="python3"}, '}).waitFor();
	await settled(page);
	await same();
	await page.getByRole('button', {name: 'Stop comparing'}).click();
	assert.equal(await page.locator('.filebar strong').textContent(), saved);
	await page.getByRole('button', {name: 'Back to the server'}).click();
	await settled(page);

	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await upload(page, saved, 'A file…');
	await page.locator('.filebar', {hasText: `compared with ${saved}`}).waitFor();
	await settled(page);
	await same();
	await page.getByRole('button', {name: 'Stop comparing'}).click();
	await settled(page);
	assert.equal(await page.locator('.filebar').count(), 0, 'the server\'s again');
	assert.equal(await total(page), want);

	// Another filter's: a difference, and the picture of it.
	await page.locator('.query .chip .x').click();
	await settled(page);
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await upload(page, saved, 'A file…');
	await settled(page);
	assert.ok((await rows(page)).some(r => r[4].startsWith('new ')));
	assert.equal(await page.locator('.graph').evaluate(e => e.scrollHeight - e.scrollTop - e.clientHeight), 0, 'a flame stands on the floor');
	await picture(page, 'page-file');
	writeFileSync(path.join(files, 'counts.folded'), 'main;work 30\n');
	await page.getByRole('button', {name: 'Back to the server'}).click();
	await page.getByRole('button', {name: 'Compare', exact: true}).click();
	await upload(page, 'counts.folded', 'A file…');
	assert.match(await page.locator('.filebar [role=alert]').textContent(), /counts\.folded cannot be shown: it counts samples, but cpu, .* counts nanoseconds/);
	await done(page);
});

test('idle time is one grey frame until it is clicked', {skip}, async () => {
	writeFileSync(path.join(files, 'waits.folded'), '[idle];worker;take 60\nmain;work 40\n');
	const page = await open();
	await ready(page);
	await upload(page, 'waits.folded');
	const names = async () => (await rows(page)).map(r => r.join(' ')).join('\n');
	const box = await page.locator('.graph').first().boundingBox();
	const at = (depth, share = 0.05) => [box.x + box.width * share, box.y + box.height - (depth + 0.3) * ROW];
	const background = await pixel(page, ...at(9));
	const isGrey = async (...place) => {
		const [red, green, blue] = (await pixel(page, ...at(...place))).split(',');
		return red === green && green === blue;
	};

	assert.ok(await isGrey(1) && await isGrey(1, 0.12), 'it is grey');
	assert.ok(!await isGrey(1, 0.14), 'and leaves room for the rest');
	assert.equal(await pixel(page, ...at(2)), background, 'nothing stands on it');
	assert.doesNotMatch(await names(), /worker/);
	assert.match(await names(), /\[idle\]/);
	assert.equal(await tableSum(page), 100);
	await page.mouse.move(...at(1));
	assert.match(await page.locator('.card').textContent(), /\[idle\].*wait for work.*narrower.*60/);

	await page.mouse.click(...at(1));
	await settled(page);
	assert.notEqual(await pixel(page, ...at(2)), background, 'its stacks are there');
	assert.match(await names(), /worker/);
	await page.mouse.move(...at(2));
	assert.match(await page.locator('.card').textContent(), /^worker/);

	await page.getByRole('button', {name: 'Reset zoom'}).click();
	await settled(page);
	assert.equal(await pixel(page, ...at(2)), background, 'it is folded again');
	await done(page);
});

test('a file dropped on the page is shown', {skip}, async () => {
	const page = await open();
	await ready(page);
	const transfer = await page.evaluateHandle(() => {
		const t = new DataTransfer();
		t.items.add(new File(['a;b 7\na 3\n'], 'dropped.folded'));
		return t;
	});
	await page.dispatchEvent('body', 'dragenter', {dataTransfer: transfer});
	assert.match(await page.locator('.drop').textContent(), /stays in this browser/);
	await page.dispatchEvent('body', 'drop', {dataTransfer: transfer});
	await page.locator('.filebar', {hasText: 'dropped.folded'}).waitFor();
	assert.equal(await total(page), 10);
	assert.equal(await page.locator('.drop').count(), 0);
	await done(page);
});

// ---- when there is nothing ------------------------------------------------------------------------

test('empty states say what to do', {skip}, async () => {
	const words = async (mode, hash, expects) => {
		mock.mode = mode;
		const page = await open(hash, {expects});
		await page.locator('.empty h2').waitFor();
		const text = await page.locator('.empty').textContent();
		await axe(page, `empty: ${mode}`);
		await done(page);
		return text;
	};
	assert.match(await words('starting', ''), /Nothing has been recorded yet.*10 seconds/s);
	assert.match(await words('absent', ''), /Nothing is being recorded.*No collector.*smolder run/s);
	assert.match(await words('failed', ''), /CAP_PERFMON is missing.*smolder doctor/s);
	assert.match(await words('forbidden', '', /401/), /No permission.*Log in/s);
	assert.match(await words('broken', '', /504/), /longer than 10 s.*Try again/s);
	assert.match(await words('ordinary', '#v=1&t=1000000000000-1000003600000'), /There is data from/);

	// While it was off, from 35 to 32 minutes ago, nothing was recorded, with a filter and without.
	const off = `sel=${mock.now - 34 * 60_000}-${mock.now - 33 * 60_000}`;
	for (const filter of ['', '&q=cpu%7Bcomm%3D%22node%22%7D'])
		assert.match(await words('ordinary', hour(off + filter)), /^Nothing was recorded in this range/);

	const page = await open(hour('q=cpu%7Bcomm%3D%22nothing%22%7D'));
	await page.locator('.empty h2').waitFor();
	assert.match(await page.locator('.empty').textContent(), /^Nothing matches the filter/);
	await page.getByRole('button', {name: 'Remove the filter'}).click();
	await ready(page);
	assert.ok(await total(page) > 0);
	await done(page);
});

test('while something is loaded, and when the server is gone, the old picture stays', {skip}, async () => {
	const page = await open(hour(), {expects: /ERR_|504|Failed to load/});
	await ready(page);
	const before = await total(page);
	const shot = () => page.locator('.graph').screenshot().then(b => b.toString('base64'));
	const old = await shot();
	mock.isHeld = true;
	await page.locator('.legend button', {hasText: 'node'}).click();
	await page.waitForTimeout(300);
	assert.equal(await page.locator('.busy').count() > 0, true);
	assert.ok(await shot() === old, 'nothing moved');
	assert.equal(await total(page), before);
	mock.isHeld = false;
	await settled(page);
	assert.notEqual(await total(page), before);

	const now = await total(page);
	await page.route('**/api/**', r => r.abort());
	await page.getByRole('button', {name: '6 h', exact: true}).click();
	await page.locator('.stale').waitFor();
	const when = await page.locator('.chosen .when').textContent();
	assert.ok((await page.locator('.stale').textContent()).includes(`Still showing ${when}.`));
	assert.match(await page.locator('.stale').textContent(), /has not answered since \d\d:\d\d:\d\d; trying again/);
	assert.equal(await total(page), now);
	assert.equal(await timelineSum(page), now, 'the words are of what is shown');
	await page.unroute('**/api/**');
	// By hand, unless the page, which tries by itself as well, was first.
	await page.locator('.stale').getByRole('button', {name: 'Try again'}).click({timeout: 2000}).catch(() => {});
	await page.locator('.stale').waitFor({state: 'detached'});
	await done(page);
});

test('while the server is gone, a live page stays as it is, and goes on by itself', {skip}, async () => {
	const page = await open('', {expects: /ERR_|Failed to load/});
	await ready(page);
	const said = async () => [await page.locator('.chosen').textContent(), await total(page), await page.locator('.legend').textContent()];
	await page.route('**/api/**', r => r.abort());
	await page.locator('.stale', {hasText: 'has not answered since'}).waitFor();
	const before = await said();
	await page.waitForTimeout(12_000); // more than one of its looks at now
	assert.deepEqual(await said(), before, 'nothing but the notice has changed');
	await page.unroute('**/api/**');
	await page.locator('.stale').waitFor({state: 'detached'});
	await settled(page);
	const end = Number(parameters().searchParams.get('to'));
	assert.ok(Date.now() - end < 10_000, 'it follows now again');
	await done(page);
});

// ---- looks ----------------------------------------------------------------------------------------

test('dark where dark is preferred', {skip}, async () => {
	const light = async scheme => {
		const page = await open(hour(), {colorScheme: scheme});
		await ready(page);
		const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
		const box = await page.locator('.graph').boundingBox();
		const graph = await pixel(page, box.x + box.width - 3, box.y + 3);
		if (scheme === 'dark')
			await picture(page, 'page-dark');
		await page.emulateMedia({colorScheme: scheme === 'dark' ? 'light' : 'dark'});
		// It follows a change.
		for (let i = 0; await pixel(page, box.x + box.width - 3, box.y + 3) === graph; i++) {
			assert.ok(i < 100, 'the graph is still as it was');
			await page.waitForTimeout(100);
		}
		await done(page);
		return [background.match(/\d+/g).slice(0, 3), graph.split(',').slice(0, 3)]
			.map(c => c.reduce((n, v) => n + Number(v), 0));
	};
	assert.ok((await light('light')).every(n => n > 700));
	assert.ok((await light('dark')).every(n => n < 110));
});

test('on a phone most of the screen is the graph, and everything is behind More', {skip}, async () => {
	const page = await open(hour(), {viewport: {width: 390, height: 844}, hasTouch: true, isMobile: true});
	await ready(page);
	const graph = await page.locator('.graph').boundingBox();
	assert.ok(graph.y < 844 / 3, `the graph begins at ${graph.y}`);
	assert.ok(Math.min(844, graph.y + graph.height) - graph.y > 844 / 2, 'and is more than half of what is seen');
	assert.ok((await page.locator('.top').boundingBox()).height < 50, 'the controls are one bar');
	assert.equal(await page.getByRole('button', {name: 'Compare', exact: true}).isVisible(), false);
	await page.getByRole('combobox', {name: 'Time range'}).selectOption('6 h');
	await settled(page);
	assert.match(await page.locator('.chosen').textContent(), / 6 h|6 h/);
	await picture(page, 'page-phone');
	await page.getByRole('button', {name: /What that means/}).tap();
	const meaning = page.locator('.trust .panel');
	assert.match(await meaning.textContent(), /most unnamed frames are in <app>/);
	const at = await meaning.boundingBox();
	assert.ok(at.x >= 0 && at.x + at.width <= 390 && at.y + at.height <= 844, 'all of it is on the screen');
	await page.locator('.chosen').tap();
	assert.equal(await meaning.count(), 0);
	await page.getByRole('button', {name: '☰ More'}).click();
	for (const name of ['Compare', 'Save', 'Heatmap', 'Zoom out'])
		assert.ok(await page.getByRole('button', {name, exact: true}).isVisible(), name);
	assert.ok(await page.getByRole('combobox', {name: 'Filter by label'}).isVisible());
	await axe(page, 'all controls on a phone');
	const box = page.getByRole('combobox', {name: 'Filter by label'});
	await box.fill('node');
	await box.press('Enter');
	await page.getByRole('button', {name: '☰ Less'}).click();
	await settled(page);
	assert.ok(await page.locator('.query .chip').isVisible(), 'a filter that is on stays in sight');
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 390);
	await done(page);
});

test('narrow screens', {skip}, async () => {
	const page = await open(hour(), {viewport: {width: 390, height: 800}, hasTouch: true});
	await ready(page);
	const wide = await page.evaluate(() => document.documentElement.scrollWidth);
	assert.ok(wide <= 390, `${wide} wide`);
	const box = await page.locator('.graph').boundingBox();
	assert.ok(box.width > 380 && box.height > 300);
	await page.locator('.graph').scrollIntoViewIfNeeded();
	const node = frame(n => n.depth === 1 && n.size > shownTree()[0].size / 8);
	const {x, y} = await place(page, node);
	await page.touchscreen.tap(x, y);
	await settled(page);
	assert.equal(await page.locator('.crumbs [aria-current]').textContent(), node.name);
	await axe(page, 'narrow');
	await done(page);
});

test('axe finds nothing', {skip}, async () => {
	for (const colorScheme of ['light', 'dark']) {
		const page = await open(hour('heat=1'), {colorScheme});
		await ready(page);
		await axe(page, `${colorScheme}: all of it`);
		await page.getByRole('combobox', {name: 'Filter by label'}).fill('c');
		await page.locator('.suggestions li').first().waitFor();
		await axe(page, 'completions');
		await page.keyboard.press('Escape');
		await page.locator('.cost').getByRole('button').click();
		await axe(page, 'cost');
		await page.keyboard.press('Escape');
		await page.getByRole('button', {name: 'Save', exact: true}).click();
		await axe(page, 'save');
		await page.keyboard.press('Escape');
		await page.getByRole('button', {name: 'Compare', exact: true}).click();
		await axe(page, 'compare');
		await page.getByRole('button', {name: 'What was just before'}).click();
		await settled(page);
		await page.locator('#search').fill('py');
		await axe(page, 'a comparison and a search');
		const node = frame(n => n.depth === 2);
		await clickFrame(page, node, {button: 'right'});
		await axe(page, 'a frame\'s menu');
		await menuItem(page, /^Callers and callees/);
		await axe(page, 'callers and callees');
		await page.keyboard.press('?');
		await axe(page, 'help');
		await done(page);
	}
});

test('hostile names are text everywhere', {skip}, async () => {
	mock.mode = 'hostile';
	const page = await open(hour('group='));
	await ready(page);
	const foreign = () => page.evaluate(() => document.querySelectorAll('img, b > *, script:not([src])').length);
	assert.equal(await foreign(), 0);
	const names = (await rows(page)).map(r => r[4]);
	assert.ok(names.includes('<img src=x onerror=alert(1)>'));
	assert.ok(names.every(n => n.length <= 300));
	for (const name of HOSTILE.slice(0, 9)) {
		await page.getByRole('button', {name, exact: true}).first().click();
		assert.equal(await page.locator('.sandwich h2').textContent(), name);
		await page.keyboard.press('Escape');
	}
	const box = await page.locator('.graph').boundingBox();
	for (let i = 0; i < 12; i++) {
		await page.mouse.move(box.x + (i + 0.5) / 12 * box.width, box.y + box.height - 1.5 * ROW);
		const shown = await page.locator('.card strong').textContent();
		assert.ok(shown.length <= 400);
	}
	await page.mouse.click(box.x + 5, box.y + box.height - 1.5 * ROW);
	await settled(page);
	assert.equal(await page.locator('.crumbs').count(), 1);
	await page.locator('#search').fill('<img');
	assert.equal(await foreign(), 0);
	await page.reload();
	await ready(page);
	assert.equal(await foreign(), 0);
	await done(page);
});

test('100,000 frames open, zoom and are searched', {skip}, async () => {
	mock.mode = 'big';
	const page = await open(hour('group='));
	await ready(page);
	const tree = shownTree();
	assert.ok(tree.length > 100_000);
	await clickFrame(page, tree.filter(n => n.depth === 3).sort((a, b) => b.size - a.size)[0]);
	assert.equal(await page.locator('.crumbs').count(), 1);
	await page.locator('#search').fill('function_1\\d_');
	assert.match(await page.locator('.search output').textContent(), /^\d+\.\d\d % matched/);
	assert.match(await page.locator('.functions tfoot').textContent(), /functions match/);
	for (const width of [1400, 1000, 800]) {
		await page.setViewportSize({width, height: 860});
		assert.ok(await page.locator('.functions tfoot .count').evaluate(e => e.scrollWidth <= e.clientWidth), `the count fits ${width}`);
	}
	await picture(page, 'page-count');
	await done(page);
});

// ---- a real server --------------------------------------------------------------------------------

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
