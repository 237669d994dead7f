/*
 * node build.mjs OUT [HEADER]: the page, bundled into OUT with hashed names; with HEADER also as a C
 * table of gzipped bytes (src/serve/assets.h). Ends with 1 if all of it is more than 81 kB gzipped.
 */
import {execFileSync} from 'node:child_process';
import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import esbuild from 'esbuild';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const MOST = 81_000;
const TYPES = {
	'.html': 'text/html; charset=utf-8',
	'.js': 'text/javascript; charset=utf-8',
	'.css': 'text/css; charset=utf-8',
	'.svg': 'image/svg+xml',
};

const hash = bytes => createHash('sha256').update(bytes).digest('hex').slice(0, 12);

async function bundle() {
	const result = await esbuild.build({
		absWorkingDir: HERE,
		entryPoints: {app: 'src/main.tsx', style: 'src/style.css'},
		bundle: true,
		minify: true,
		write: false,
		outdir: 'out',
		format: 'esm',
		target: ['es2022'],
		jsx: 'automatic',
		jsxImportSource: 'preact',
		legalComments: 'none',
		logLevel: 'warning',
	});
	return result.outputFiles.map(f => [path.basename(f.path), Buffer.from(f.contents)]);
}

/* [{path, type, bytes, fixed}]; what is fixed has a hash in its name and never changes. */
async function build() {
	const assets = [];
	let html = readFileSync(path.join(HERE, 'src/index.html'), 'utf8');
	const files = [
		...(await bundle()),
		['icon.svg', readFileSync(path.join(HERE, 'src/icon.svg'))],
	];
	for (const [name, bytes] of files) {
		const {name: stem, ext} = path.parse(name);
		const hashed = `/assets/${stem}-${hash(bytes)}${ext}`;
		if (!html.includes(`"${name}"`))
			throw new Error(`index.html does not name ${name}`);
		html = html.replaceAll(`"${name}"`, `"${hashed.slice(1)}"`);
		assets.push({path: hashed, type: TYPES[ext], bytes, fixed: true});
	}
	assets.unshift({path: '/', type: TYPES['.html'], bytes: Buffer.from(html), fixed: false});
	return assets;
}

function cTable(assets) {
	const lines = ['/* Made by web/build.mjs. */'];
	assets.forEach((a, i) => {
		lines.push(`static const unsigned char asset_${i}[] = {`);
		for (let at = 0; at < a.packed.length; at += 24)
			lines.push(`${[...a.packed.subarray(at, at + 24)].join(',')},`);
		lines.push('};');
	});
	lines.push('static const struct asset assets[] = {');
	assets.forEach((a, i) => {
		const words = [a.path, a.type, `"${hash(a.bytes)}"`].map(s => JSON.stringify(s));
		lines.push(`{${words.join(', ')}, asset_${i}, sizeof(asset_${i}), ${a.fixed}},`);
	});
	lines.push('};', '');
	return lines.join('\n');
}

const [out, header] = process.argv.slice(2);
if (!out) {
	console.error('usage: node build.mjs OUT [HEADER]');
	process.exit(2);
}
const assets = await build();
rmSync(out, {recursive: true, force: true});
let sum = 0;
for (const a of assets) {
	const file = path.join(out, a.path === '/' ? 'index.html' : a.path);
	mkdirSync(path.dirname(file), {recursive: true});
	writeFileSync(file, a.bytes);
	a.packed = execFileSync('zopfli', ['-c', file]); // gzip, three percent smaller
	a.packed[9] = 255; // the byte for the system that packed it: the same everywhere
	sum += a.packed.length;
}
if (header) {
	mkdirSync(path.dirname(header), {recursive: true});
	writeFileSync(header, cTable(assets));
}
console.log(`the page: ${(sum / 1000).toFixed(1)} kB gzipped of ${MOST / 1000}`);
if (sum > MOST) process.exit(1);
