/*
 * The web page: what it shows of a range of time, its timeline, graph, table, comparisons and heatmap, in
 * Debian's chromium, against web/test/mock.mjs, whose answers the tests can compute for themselves.
 * test_page_use.mjs has all else that a user does with it, test_page_served.mjs a real `smolder serve`.
 */
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {test} from 'node:test';
import {PERIOD} from '../../web/test/mock.mjs';
import {
	ROW, axe, clickFrame, done, drag, files, frame, hour, info, menuItem, mock, open, parameters, picture, pixel,
	place, ready, rows, settled, shownTree, skip, tableSum, timelineSum, total, upload, url,
} from './page.mjs';

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
