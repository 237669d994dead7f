/*
 * The login form in Debian's chromium: what a browser does with its Origin, cookies and certificates
 * that no test without one sees. The server listens beyond loopback, where everybody must log in.
 */
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, afterEach, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {launch, whyNoBrowser} from './chromium.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const BUILD = path.resolve(ROOT, process.env.BUILD ?? 'build');
const SMOLDER = path.join(BUILD, 'smolder');
const PICTURES = path.join(BUILD, 'page');
const TOKEN = 'a-token-of-twenty-letters', OTHER = 'another-token-altogether';
const HASH = '#v=1&g=comm';

const files = mkdtempSync(path.join(tmpdir(), 'smolder-login-'));
const skip = await whyNoBrowser() || !existsSync(SMOLDER) && 'smolder is not built; run make';
const file = name => path.join(files, name);
let browser = null;
const children = [];

before(async () => {
	if (skip)
		return;
	mkdirSync(PICTURES, {recursive: true});
	execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj',
		'/CN=localhost', '-keyout', file('key'), '-out', file('cert')], {stdio: 'ignore'});
	writeFileSync(file('token'), `${TOKEN}\n`);
	writeFileSync(file('other'), `${OTHER}\n`);
	browser = await launch();
});
after(async () => {
	await browser?.close();
	rmSync(files, {recursive: true});
});

afterEach(async () => {
	for (const child of children.splice(0)) // of a test that failed
		if (child.exitCode === null && child.signalCode === null)
			await new Promise(ended => { child.once('exit', ended); child.kill(); });
});

/* A server; `at` is a port to take, 0 for any. */
async function serve({tls = false, token = 'token', at = 0, store = 'store'} = {}) {
	const child = spawn(SMOLDER, ['serve', '--store', file(store), '--listen', `0.0.0.0:${at}`,
		'--token-file', file(token), ...tls ? ['--tls-cert', file('cert'), '--tls-key', file('key')] : []],
	{stdio: ['ignore', 'ignore', 'pipe']});
	children.push(child);
	const port = await new Promise((found, failed) => {
		let said = '';
		child.stderr.on('data', d => {
			said += d;
			const m = /listening on https?:\/\/0\.0\.0\.0:(\d+)/.exec(said);
			if (m)
				found(Number(m[1]));
		});
		child.on('exit', () => failed(new Error(`the server said: ${said}`)));
	});
	return {url: `http${tls ? 's' : ''}://127.0.0.1:${port}`, port,
		stop: () => new Promise(ended => { child.once('exit', ended); child.kill(); })};
}

/* A page whose requests to the server are kept: [path, status]. */
async function tab() {
	const context = await browser.newContext({ignoreHTTPSErrors: true, viewport: {width: 900, height: 600}});
	const page = await context.newPage();
	page.answers = [];
	page.on('response', r => page.answers.push([new URL(r.url()).pathname, r.status()]));
	return page;
}

const field = page => page.locator('input[name=token]');

async function logIn(page, token) {
	await field(page).fill(token);
	await page.getByRole('button', {name: 'Log in'}).click();
}

/* The page itself is there, and what it asks for is answered. */
async function works(page) {
	await page.waitForSelector('header');
	const end = Date.now() + 20_000;
	while (!page.answers.some(([p]) => p === '/api/v1/status') ||
		!page.answers.some(([p]) => p === '/api/v1/series')) {
		assert(Date.now() < end, `it asked only for ${JSON.stringify(page.answers)}`);
		await page.waitForTimeout(50);
	}
	const api = page.answers.filter(([p]) => p.startsWith('/api/') || p.startsWith('/assets/'));
	assert.deepEqual(api.filter(([, status]) => status >= 400), []);
}

for (const tls of [false, true]) {
	test(`a token is asked for and lets in, ${tls ? 'with TLS' : 'without TLS'}`, {skip}, async () => {
		let server = await serve({tls});
		const page = await tab();
		await page.goto(`${server.url}/${HASH}`);
		await field(page).waitFor();
		assert.equal(new URL(page.url()).pathname, '/login');
		await page.screenshot({path: path.join(PICTURES, 'login.png')});

		// Wrong: it is said, and there is another try.
		await logIn(page, 'not-the-token-of-anything');
		await page.getByRole('alert').waitFor();
		assert.equal(await page.getByRole('alert').textContent(), 'That is not the token of this server.\n');
		assert.deepEqual(page.answers.filter(([p]) => p === '/login'), [['/login', 200], ['/login', 401]]);
		assert.equal(await page.context().cookies().then(c => c.length), 0);

		await logIn(page, TOKEN);
		await page.waitForURL(`${server.url}/**`);
		await works(page);
		assert.equal(new URL(page.url()).pathname, '/');
		assert(page.url().includes('g=comm'), `the state of the page was lost: ${page.url()}`);
		const [cookie] = await page.context().cookies();
		assert.equal(cookie.httpOnly, true);
		assert.equal(cookie.secure, tls);
		assert(!cookie.value.includes(TOKEN));

		// A server that was started again knows the cookie.
		await server.stop();
		server = await serve({tls, at: server.port});
		page.answers.length = 0;
		await page.reload();
		await works(page);

		// One with another token does not: a clean form, which lets in again.
		await server.stop();
		server = await serve({tls, at: server.port, token: 'other'});
		page.answers.length = 0;
		await page.goto(`${server.url}/?again`);
		await field(page).waitFor();
		assert.equal(await page.getByRole('alert').count(), 0);
		await logIn(page, TOKEN);
		await page.getByRole('alert').waitFor();
		page.answers.length = 0;
		await logIn(page, OTHER);
		await page.waitForURL(`${server.url}/**`);
		await works(page);
		await page.context().close();
		await server.stop();
	});
}

test('a link from another place leads to the page, a script or form there to nothing', {skip}, async () => {
	const server = await serve();
	const page = await tab();
	await page.goto(server.url);
	await logIn(page, TOKEN);
	await works(page);

	// Another site: the same machine by another name, which the browser takes for another place.
	const elsewhere = await serve({store: 'elsewhere'});
	const evil = elsewhere.url.replace('127.0.0.1', 'localhost');
	await page.goto(`${evil}/plain.css`);
	page.answers.length = 0;
	const refused = async () => {
		const answer = await fetch(`${server.url}/metrics`, {headers: {Authorization: `Bearer ${TOKEN}`}});
		return Number(/^smolder_http_refused_total (\d+)$/m.exec(await answer.text())[1]);
	};
	const already = await refused();
	const tried = await page.evaluate(async url => {
		const image = new Image();
		const loaded = new Promise(done => { image.onload = () => done('loaded'); image.onerror = () => done('failed'); });
		image.src = `${url}/api/v1/query?format=svg`;
		const fetched = await fetch(`${url}/api/v1/status`, {credentials: 'include'}).then(r => r.status, e => e.name);
		const blind = await fetch(`${url}/debug/pprof/profile?seconds=1`,
			{credentials: 'include', mode: 'no-cors'}).then(r => r.type, e => e.name);
		return {image: await loaded, fetched, blind};
	}, server.url);
	assert.deepEqual({image: tried.image, fetched: tried.fetched}, {image: 'failed', fetched: 'TypeError'});
	assert(page.answers.every(([, status]) => status === 403), JSON.stringify(page.answers));
	assert.equal(await refused(), already + 3);

	page.answers.length = 0;
	await page.setContent(`<a href="${server.url}/${HASH}">look</a>`);
	await page.click('a');
	await works(page);
	assert.equal(new URL(page.url()).pathname, '/');
	await page.context().close();
	await server.stop();
	await elsewhere.stop();
});
