/*
 * node page.mjs day URL FROM TO: how long the page of that server takes until the first flame graph of
 * that range is painted, five times, each in a browser with a profile of its own. Ends with 1 unless the
 * median is under 1 s.
 *
 * node page.mjs: the page's flame graph of 100,000 frames, measured in the page, beside d3-flame-graph
 * on the same data in the same browser. Ends with 1 unless
 *
 *	the first picture is there 200 ms after the answer has arrived
 *	a frame of zooming and a move of the pointer take under 16 ms at the median
 *	d3-flame-graph takes 10 times as long or more for the first picture and for a zoom
 *
 * d3-flame-graph is measured as it comes, and with frames under a pixel left out (its minFrameSize).
 */
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {launch, whyNoBrowser} from '../tests/browser/chromium.mjs';
import {firstGraph, median} from '../tests/browser/day.mjs';
import {bigStacks, startMock} from '../web/test/mock.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const web = createRequire(path.join(ROOT, 'web/build.mjs'));
const FRAMES = 100_000;
const FIRST_MOST = 200, FRAME_MOST = 16, FASTER = 10;
const RUNS = 5;
const LOAD_MOST = 1000;

const worst = list => [...list].sort((a, b) => a - b)[Math.floor(list.length * 0.95)];
const ms = n => `${n < 100 ? n.toFixed(1) : n.toFixed(0)} ms`;

/* From the answer's last byte to the end of the first drawing. */
async function firstPicture(browser, url) {
	const page = await browser.newPage({viewport: {width: 1440, height: 900}});
	await page.goto(`${url}#v=1&group=&view=flame`);
	await page.waitForFunction(n => performance.getEntriesByName('flame graph').some(m => m.detail >= n), FRAMES);
	const took = await page.evaluate(n => {
		const answer = performance.getEntriesByType('resource').find(r => r.name.includes('/query?'));
		const drawn = performance.getEntriesByName('flame graph').find(m => m.detail >= n);
		return {first: drawn.startTime + drawn.duration - answer.responseEnd, draw: drawn.duration};
	}, FRAMES);
	return {page, ...took};
}

/* Clicks into the graph and back; how long each drawing took, and the time between frames. */
async function zooms(page) {
	return page.evaluate(async () => {
		const box = document.querySelector('.graph');
		const edge = box.getBoundingClientRect();
		const frame = () => new Promise(requestAnimationFrame);
		const intervals = [];
		performance.clearMeasures('flame graph');
		for (let i = 0; i < 12; i++) {
			const at = {clientX: edge.left + edge.width * ((i * 37) % 100) / 100,
				clientY: edge.bottom - 18 * (3 + (i % 6)) - 9, bubbles: true};
			for (const act of [() => box.dispatchEvent(new MouseEvent('click', at)), () => dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))]) {
				act();
				let before = await frame();
				for (let n = 0; n < 14; n++) {
					const now = await frame();
					intervals.push(now - before);
					before = now;
				}
			}
		}
		return {draws: performance.getEntriesByName('flame graph').map(m => m.duration), intervals};
	});
}

/* Moves the pointer: until the frame is found, the outline moved and the card laid out. */
async function hovers(page) {
	return page.evaluate(async () => {
		const box = document.querySelector('.graph');
		const edge = box.getBoundingClientRect();
		const out = [];
		const channel = new MessageChannel();
		const turn = () => new Promise(done => {
			channel.port1.onmessage = done;
			channel.port2.postMessage(0);
		});
		for (let i = 0; i < 200; i++) {
			const clientX = edge.left + edge.width * ((i * 61) % 199) / 199;
			const clientY = edge.bottom - 18 * (1 + (i % 20)) - 9;
			const began = performance.now();
			box.dispatchEvent(new PointerEvent('pointermove', {clientX, clientY, bubbles: true}));
			await turn();
			document.querySelector('.card')?.getBoundingClientRect();
			out.push(performance.now() - began);
			await new Promise(requestAnimationFrame);
		}
		return out;
	});
}

// ---- d3-flame-graph -------------------------------------------------------------------------------

async function d3Page(dir) {
	const out = path.join(dir, 'd3.bundle.js');
	await web('esbuild').build({
		stdin: {
			contents: `import {select} from 'd3-selection';
import * as d3 from 'd3-flame-graph';
Object.assign(window, {select, flamegraph: d3.flamegraph ?? d3.default});`,
			resolveDir: path.join(ROOT, 'tests/browser'),
		},
		outfile: out, bundle: true, minify: true, format: 'iife', logLevel: 'error', absWorkingDir: ROOT,
	});
	const html = path.join(dir, 'd3.html');
	writeFileSync(html, '<!DOCTYPE html><meta charset="utf-8"><div id="chart"></div><script src="d3.bundle.js"></script>');
	return `file://${html}`;
}

async function d3(browser, address, stacks, least) {
	const page = await browser.newPage({viewport: {width: 1440, height: 900}});
	await page.goto(address);
	const got = await page.evaluate(async ([all, min]) => {
		const root = {name: 'all', value: 0, children: [], index: new Map()};
		for (const [names, count] of all) {
			let node = root;
			node.value += count;
			for (const name of names) {
				let child = node.index.get(name);
				if (!child) {
					child = {name, value: 0, children: [], index: new Map()};
					node.index.set(name, child);
					node.children.push(child);
				}
				child.value += count;
				node = child;
			}
		}
		const strip = node => { delete node.index; node.children.forEach(strip); };
		strip(root);
		const frame = () => new Promise(requestAnimationFrame);
		const chart = window.flamegraph().width(1440).cellHeight(18).transitionDuration(0).minFrameSize(min);
		const began = performance.now();
		window.select('#chart').datum(root).call(chart);
		document.body.getBoundingClientRect();
		await frame();
		const first = performance.now() - began;
		const zooms = [];
		for (let i = 0; i < 3; i++) {
			const g = [...document.querySelectorAll('#chart g.frame, #chart g')].find(e => e.__data__?.depth === 2 + i);
			const t0 = performance.now();
			chart.zoomTo(g.__data__);
			document.body.getBoundingClientRect();
			await frame();
			zooms.push(performance.now() - t0);
		}
		return {first, zooms};
	}, [stacks, least]);
	await page.close();
	return got;
}

async function day(url, from, to) {
	const loads = [];
	for (let i = 0; i < RUNS; i++)
		loads.push(await firstGraph(`${url}/#v=1&t=${from}-${to}`));
	const of = name => ms(median(loads.map(l => l[name])));
	const painted = median(loads.map(l => l.painted));
	console.log(`a load of the page with a day, ${loads[0].nodes.toLocaleString('en-US')} frames in ${(loads[0].bytes / 1000).toFixed(0)} kB, medians of ${RUNS}`);
	console.log(`  script there ${of('script')}, tree asked for ${of('asked')}, answered ${of('answered')}, all of it there ${of('arrived')}`);
	console.log(`  painted          ${ms(painted)} (${loads.map(l => ms(l.painted)).join(', ')})  ${painted < LOAD_MOST ? 'ok' : 'TOO SLOW'} (wanted under ${LOAD_MOST})`);
	return painted < LOAD_MOST ? 0 : 1;
}

async function main() {
	const dir = mkdtempSync(path.join(tmpdir(), 'smolder-bench-page-'));
	const browser = await launch();
	const {url, mock, close} = await startMock();
	let failed = false;
	const bar = (good, words) => {
		failed ||= !good;
		return good ? `ok (${words})` : `TOO SLOW (${words})`;
	};
	try {
		mock.mode = 'big';
		const firsts = [], draws = [], intervals = [], moves = [];
		for (let i = 0; i < RUNS; i++) {
			const {page, first} = await firstPicture(browser, url);
			firsts.push(first);
			if (i < 2) {
				const z = await zooms(page);
				draws.push(...z.draws);
				intervals.push(...z.intervals);
				moves.push(...await hovers(page));
			}
			await page.close();
		}
		const first = median(firsts), draw = median(draws), move = median(moves);
		console.log(`the page, ${FRAMES.toLocaleString('en-US')} frames`);
		console.log(`  first picture    ${ms(first)}  ${bar(first < FIRST_MOST, `wanted under ${FIRST_MOST}`)}`);
		console.log(`  frame of a zoom  ${ms(draw)}, 95 % under ${ms(worst(draws))}  ${bar(draw < FRAME_MOST, `wanted under ${FRAME_MOST}`)}; from frame to frame ${ms(median(intervals))}`);
		console.log(`  pointer moved    ${ms(move)}, 95 % under ${ms(worst(moves))}  ${bar(move < FRAME_MOST, `wanted under ${FRAME_MOST}`)}`);

		const address = await d3Page(dir);
		const stacks = bigStacks(FRAMES);
		for (const [what, least] of [['as it comes', 0], ['without frames under a pixel', 1]]) {
			const peer = await d3(browser, address, stacks, least);
			const zoom = median(peer.zooms);
			const a = peer.first / first, b = zoom / draw;
			const words = least === 0 ? bar(a >= FASTER && b >= FASTER, `wanted ${FASTER} times`) : '(for comparison)';
			console.log(`d3-flame-graph ${what}: first ${ms(peer.first)} (${a.toFixed(0)} times), zoom ${ms(zoom)} (${b.toFixed(0)} times)  ${words}`);
		}
	} finally {
		await browser.close();
		await close();
		rmSync(dir, {recursive: true});
	}
	return failed ? 1 : 0;
}

const none = await whyNoBrowser();
if (none) {
	console.error(`bench/page.mjs: ${none}`);
	process.exit(1);
}
const [what, ...args] = process.argv.slice(2);
process.exitCode = what === 'day' ? await day(...args) : await main();
