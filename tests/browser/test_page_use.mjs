/*
 * The web page: how it is used: filters, saved and opened files, links, empty states, phones, the keyboard
 * alone; as test_page.mjs does, against web/test/mock.mjs.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {test} from 'node:test';
import {gunzipSync} from 'node:zlib';
import {HOSTILE, PERIOD} from '../../web/test/mock.mjs';
import {
	ROW, SMOLDER, axe, browser, clickFrame, done, drag, files, foldedSum, frame, hour, info, menuItem, mock, open,
	parameters, picture, pixel, place, ready, rows, sameCost, settled, shownTree, skip, tableSum, timelineSum,
	total, upload, url,
} from './page.mjs';

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

test('findings are on top, open, and lead to their process', {skip}, async () => {
	mock.mode = 'wrong';
	const page = await open();
	await ready(page);
	const lines = page.locator('.findings details');
	assert.equal(await lines.count(), 2);
	assert.match(await lines.first().locator('summary').textContent(), /^python3 .* timeout of 0\. Since /);
	assert.match(await lines.nth(1).textContent(), /<b>x<\/b>/); // a name is text
	assert.equal(await page.locator('.findings h2').textContent(), 'One thing looks wrong now, 1 more did in this time');
	await lines.first().locator('summary').click();
	assert.match(await lines.first().textContent(), /asks again and again.*main › loop › epoll_wait.*smolder trace -p 1274.*Almost certain; so far .*\[busy-poll\]/);
	await lines.first().getByRole('button', {name: 'Show'}).click();
	await settled(page);
	assert.equal(parameters().searchParams.get('query'), 'cpu{pid="1274"}');
	// What is over by then is not listed for that time.
	assert.equal(await lines.count(), 1);
	await done(page);
	mock.mode = 'ordinary';
	const calm = await open();
	await ready(calm);
	assert.equal(await calm.locator('.findings').count(), 0);
	await done(calm);
});

test('what changed is listed, and each leads to its compared graph', {skip}, async () => {
	const page = await open(hour('what=usual'));
	await ready(page);
	const panel = page.locator('.changed');
	const lines = panel.locator('table').first().locator('tr');
	const asked = () => new URL(mock.requests.findLast(r => /\/changes\?/.test(r)), url).searchParams;
	await lines.first().waitFor();
	assert.equal(asked().get('query'), 'cpu');
	assert.match(await lines.nth(1).textContent(), /\+2,066\+20 %16\.4 → 19\.7 %renderRows in node.*main › listen › serve$/);
	assert.match(await lines.nth(2).textContent(), /\+1,200new.*functions without a name, with what it calls in node, libssl/);
	assert.match(await lines.nth(3).textContent(), /−640gone/);
	assert.match(await lines.nth(5).textContent(), /\+19,760\+103 %0\.22 → 0\.45 CPUspython3/);
	assert.match(await panel.textContent(), /a week ago.*Nothing changed by more.*Too little is recorded.*a new version of node/);
	await axe(page, 'what changed');
	await picture(page, 'page-changes');

	await lines.nth(1).getByRole('link').click();
	await settled(page);
	assert.equal(parameters().pathname, '/api/v1/diff');
	assert.equal(parameters().searchParams.get('query'), 'cpu{comm="node"}');
	assert.equal(await page.locator('#search').inputValue(), 'renderRows');
	assert.match(await page.locator('.info').textContent(), /against/);
	await panel.getByRole('button', {name: 'Chosen range'}).click(); // of what is compared in the graph
	await settled(page);
	const base = parameters().searchParams;
	assert.equal(asked().get('base_from'), base.get('base_from'));
	assert.equal(asked().get('to'), base.get('to'));

	await panel.getByRole('textbox').fill('nonsense');
	await panel.getByRole('button', {name: 'Before and after'}).first().click();
	assert.match(page.url(), /what=ranges/);
	await panel.getByRole('textbox').fill(new Date(mock.now - 900_000).toISOString());
	await panel.getByRole('button', {name: 'Before and after'}).first().click();
	await settled(page);
	assert.equal(Number(asked().get('at')), mock.now - 900_000);
	await page.getByRole('button', {name: 'What changed', exact: true}).click();
	assert.equal(await panel.count(), 0);
	await page.goBack();
	assert.equal(await panel.count(), 1);
	await panel.getByRole('button', {name: 'Last hour'}).click();
	await panel.getByRole('button', {name: 'Before and after'}).nth(1).click();
	await settled(page);
	assert.equal(Number(asked().get('at')), mock.now - 1200_000);
	await done(page);

	const phone = await open(hour('what=usual'), {viewport: {width: 390, height: 844}});
	await ready(phone);
	await phone.locator('.changed table').first().waitFor();
	assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390);
	await picture(phone, 'page-changes-phone');
	await done(phone);
	mock.mode = 'hostile';
	const hostile = await open(hour('what=usual'));
	await hostile.locator('.changed').getByRole('link', {name: HOSTILE[0], exact: true}).first().waitFor();
	assert.equal(await hostile.evaluate(() => document.querySelectorAll('img').length), 0);
	await done(hostile);
	mock.mode = 'broken';
	const broken = await open(hour('what=usual'), {expects: /504/});
	await broken.locator('.changed [role=alert]').waitFor();
	assert.match(await broken.locator('.changed').textContent(), /longer than 10 s/);
	await done(broken);
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
