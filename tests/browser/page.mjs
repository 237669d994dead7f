/*
 * The page in Debian's chromium, for test_page.mjs and test_page_served.mjs: a browser for each of them,
 * web/test/mock.mjs as the server, and what a user does and sees, as functions.
 *
 * Pictures of the main views go to $BUILD/page/, and with SMOLDER_PICTURES=1 those of docs/ there.
 */
import assert from 'node:assert/strict';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, afterEach, before} from 'node:test';
import {fileURLToPath} from 'node:url';
import {startMock} from '../../web/test/mock.mjs';
import {launch, whyNoBrowser} from './chromium.mjs';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BUILD = path.resolve(ROOT, process.env.BUILD ?? 'build');
export const SMOLDER = path.join(BUILD, 'smolder');
const PICTURES = path.join(BUILD, 'page');
const DOCS = process.env.SMOLDER_PICTURES ? ['page', 'page-changes', 'page-compare', 'page-heatmap', 'page-phone', 'page-wall'] : [];
export const ROW = 18;

export let browser = null, mock = null, url = '';
let server = null;
export const files = mkdtempSync(path.join(tmpdir(), 'smolder-page-'));

export const skip = await whyNoBrowser() || !existsSync(path.join(BUILD, 'web/index.html')) && 'the page is not built; run make';
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
export const hour = (more = '') => `#v=1&t=${mock.now - 3600_000}-${mock.now}${more && `&${more}`}`;

/* Opens the page; every error, message and request to another place is trouble, unless `expects`. */
export async function open(hash = hour(), {expects = null, base = url, ...options} = {}) {
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

export const ready = async page => {
	await page.locator('.graph-canvas').first().waitFor();
	await settled(page);
};

export async function done(page) {
	assert.deepEqual(page.trouble, []);
	await page.context().close();
}

/* Waits until nothing is being loaded and the zoom has come to rest. */
export async function settled(page) {
	await page.waitForFunction(() => document.querySelectorAll('.busy').length === 0);
	await page.waitForTimeout(220);
}

export const total = page => page.locator('.facts strong').getAttribute('data-total').then(Number);
export const timelineSum = page => page.locator('.chosen .sum').getAttribute('data-sum').then(Number);
export const tableSum = page => page.locator('.functions tfoot td').first().getAttribute('title').then(Number);
export const info = page => page.locator('.info').textContent();
export const parameters = () => {
	const last = mock.requests.findLast(r => /\/(query|diff)\?/.test(r));
	return new URL(last, url);
};

/* The tree that the page shows, from the request that it made: nodes with their places. */
export function shownTree() {
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
export async function place(page, node, zoom = {start: 0, size: shownTree()[0].size}) {
	const box = await page.locator('.graph').first().boundingBox();
	const scroll = await page.locator('.graph').first().evaluate(e =>
		e.scrollHeight - e.scrollTop - e.clientHeight);
	return {
		x: box.x + (node.start - zoom.start + node.size / 2) / zoom.size * box.width,
		y: box.y + box.height + scroll - (node.depth + 0.5) * ROW,
	};
}

/* A frame that is wide enough to be hit, by what it is like. */
export function frame(like) {
	const all = shownTree();
	const wide = all.filter(n => n.depth > 0 && n.depth < 20 && n.size > all[0].size / 100);
	const found = wide.find(like);
	assert.ok(found, 'there is such a frame');
	return found;
}

export async function clickFrame(page, node, options) {
	const {x, y} = await place(page, node);
	await page.mouse.click(x, y, options);
	await settled(page);
}

/* Drags over the timeline, from one share of its width to another. */
export async function drag(page, from, to, key) {
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

export const pixel = (page, x, y) => page.evaluate(([left, top]) => {
	const canvas = document.querySelector('.graph-canvas');
	const edge = canvas.getBoundingClientRect();
	const scale = canvas.width / edge.width;
	return [...canvas.getContext('2d').getImageData(
		Math.round((left - edge.left) * scale), Math.round((top - edge.top) * scale), 1, 1).data].join();
}, [x, y]);

export const rows = page => page.locator('.functions tbody tr').evaluateAll(all =>
	all.map(tr => [...tr.cells].map(c => c.textContent)));

export async function axe(page, what) {
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

export const picture = (page, name) => page.screenshot({
	path: path.join(DOCS.includes(name) ? path.join(ROOT, 'docs') : PICTURES, `${name}.png`),
});

export const menuItem = (page, name) => page.getByRole('menuitem', {name}).click().then(() => settled(page));

/* Opens a file of `files` through a button. */
export async function upload(page, name, button = 'Open…') {
	const [chooser] = await Promise.all([
		page.waitForEvent('filechooser'),
		page.getByRole('button', {name: button}).click(),
	]);
	await chooser.setFiles(path.join(files, name));
	await settled(page);
}

export const foldedSum = text => text.trim().split('\n').reduce((n, l) => n + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);

/* The corner and the panel behind it say what the API's `cost` says. */
export async function sameCost(page, {cost, samples, cpus}) {
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
