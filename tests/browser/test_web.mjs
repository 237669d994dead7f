/*
 * The page's modules without a browser: web/test/*.test.ts, bundled by the page's own esbuild. And
 * what `make lint` says of them.
 */
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {existsSync, mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {test} from 'node:test';
import {fileURLToPath, pathToFileURL} from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const WEB = path.join(ROOT, 'web');
const OUT = path.join(ROOT, process.env.BUILD ?? 'build', 'web-test');
const skip = !existsSync(path.join(WEB, 'node_modules/esbuild')) &&
	'the page\'s packages are not installed; run make';

const run = (name, ...args) => {
	const r = spawnSync(path.join(WEB, 'node_modules/.bin', name), args, {cwd: WEB, encoding: 'utf8'});
	assert.equal(r.status, 0, r.stdout + r.stderr);
};

if (!skip) {
	const esbuild = createRequire(path.join(WEB, 'build.mjs'))('esbuild');
	mkdirSync(OUT, {recursive: true});
	const out = path.join(OUT, 'unit.test.mjs');
	await esbuild.build({entryPoints: [path.join(WEB, 'test/unit.test.ts')], outfile: out, bundle: true,
		format: 'esm', platform: 'node', logLevel: 'error'});
	await import(pathToFileURL(out));
}

test('the types hold', {skip}, () => run('tsc', '--noEmit'));
test('the linter has nothing to say', {skip}, () => run('biome', 'check', '--error-on-warnings', '.'));
