/*
 * Debian's chromium, driven by playwright; for tests and bench/page.mjs.
 */
import {existsSync, readFileSync, writeFileSync} from 'node:fs';

const CHROMIUM = '/usr/bin/chromium';
const ARGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking',
	'--disable-component-update', '--disable-sync'];

let playwright = null;

/* Why there is no browser here, or false. */
export async function whyNoBrowser() {
	if (!existsSync(CHROMIUM))
		return `${CHROMIUM} is not installed`;
	try {
		playwright = await import('playwright-core');
	} catch {
		return 'playwright-core is not installed; run npm ci in tests/browser';
	}
	return false;
}

/*
 * The browser as fast as the test that started it: playwright gives it a session of its own, and where
 * the kernel shares out the CPU by session, what tests/run gave this one (hurry in tests/tap.py) is
 * not for it.
 */
function hurryAlong() {
	try {
		const [, nice] = / nice (-?\d+)/.exec(readFileSync('/proc/self/autogroup', 'utf8'));
		const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim();
		for (const pid of children.split(' '))
			writeFileSync(`/proc/${pid}/autogroup`, nice);
	} catch {
		// A kernel without such groups, or a user who may not: it takes longer.
	}
}

/* A new one, after whyNoBrowser() found nothing. */
export async function launch() {
	const browser = await playwright.chromium.launch({executablePath: CHROMIUM, args: ARGS});
	hurryAlong();
	return browser;
}
