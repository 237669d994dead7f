/*
 * How long the page takes from the start of the navigation until its first flame graph is painted,
 * measured in the page; for tests and bench/page.mjs.
 */
import {launch} from './chromium.mjs';

export const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

/*
 * Notes when the browser has painted the frame in which a graph was first drawn; the page's own measure
 * is of drawing only.
 */
function watch() {
	const look = () => {
		const drawn = performance.getEntriesByName('flame graph').find(m => m.detail > 1);
		if (!drawn) {
			requestAnimationFrame(look);
			return;
		}
		const {port1, port2} = new MessageChannel();
		port1.onmessage = () => {
			window.firstGraph = {nodes: drawn.detail, drawing: drawn.duration, painted: performance.now()};
		};
		port2.postMessage(0);
	};
	requestAnimationFrame(look);
}

/*
 * One load in a browser that was just started, with a profile of its own: {painted, …} in ms since the
 * navigation began, and where it went. `look` is called with the page at the end.
 */
export async function firstGraph(address, look = null) {
	const browser = await launch();
	try {
		const page = await browser.newPage({viewport: {width: 1440, height: 900}});
		await page.addInitScript(watch);
		await page.goto(address);
		await page.waitForFunction(() => window.firstGraph);
		const took = await page.evaluate(() => {
			const resources = performance.getEntriesByType('resource');
			const tree = resources.find(r => r.name.includes('/query?'));
			const script = resources.find(r => r.name.endsWith('.js'));
			return {...window.firstGraph, script: script.responseEnd, asked: tree.requestStart,
				answered: tree.responseStart, arrived: tree.responseEnd, bytes: tree.encodedBodySize};
		});
		await look?.(page);
		return took;
	} finally {
		await browser.close();
	}
}
