// Today's ClickHouse with as much of its HTTP interface as smolder uses: chdb is the engine as a library, and this
// is the server around it, one request at a time.
//
//	node front.mjs DATA PORT
//
// Rows that come with a request go through a file: the library reads them from there.
import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Session } from "chdb";

const [, , data, port] = process.argv;
const session = new Session(data);
const files = mkdtempSync(`${data}.rows-`);
const password = process.env.FRONT_PASSWORD ?? "";
let turn = Promise.resolve();
let number = 0;

async function ask(sql, format = "RowBinary") {
	return Buffer.from((await session.queryAsync(sql, { format })).bytes());
}

function rowsFile(bytes) {
	const path = `${files}/${number++}`;
	writeFileSync(path, bytes);
	return path;
}

// "name UInt8, …" of a table's columns, as file() takes it.
async function structure(table) {
	const text = await ask(`DESCRIBE TABLE ${table}`, "TabSeparatedRaw");
	return text.toString().trim().split("\n").map((line) => line.split("\t").slice(0, 2).join(" ")).join(", ");
}

const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

async function insert(table, bytes) {
	const columns = await structure(table);
	await ask(`INSERT INTO ${table} SELECT * FROM file('${rowsFile(bytes)}', 'RowBinary', ${quoted(columns)})`);
	return Buffer.alloc(0);
}

// A table that is sent with a question, of which there is one part.
function sentTable(request, bytes) {
	const boundary = /boundary=(.*)$/.exec(request.headers["content-type"])[1];
	const head = bytes.indexOf("\r\n\r\n");
	const end = bytes.lastIndexOf(`\r\n--${boundary}--`);
	const name = /name="(\w+)"/.exec(bytes.subarray(0, head).toString())[1];
	return { name, rows: bytes.subarray(head + 4, end) };
}

async function askWith(sql, table, columns) {
	await ask(`CREATE TABLE ${table.name} (${columns}) ENGINE = Memory`);
	try {
		await insert(table.name, table.rows);
		return await ask(sql);
	} finally {
		await ask(`DROP TABLE ${table.name}`);
	}
}

async function answer(request, bytes) {
	const params = new URL(request.url, "http://front").searchParams;
	const database = params.get("database");
	if (password && request.headers["x-clickhouse-key"] !== password) {
		throw new Error("Code: 516. DB::Exception: default: Authentication failed");
	}
	if (database) await ask(`USE ${database}`);
	const isMultipart = (request.headers["content-type"] ?? "").startsWith("multipart/");
	const query = params.get("query");
	const into = /^INSERT INTO (\w+) FORMAT RowBinary$/.exec(query ?? "");
	if (into) return insert(into[1], bytes);
	const isRows = / FORMAT RowBinary$/.test(query ?? bytes.toString());
	const sql = (query ?? bytes.toString()).replace(/ FORMAT RowBinary$/, "");
	if (!isMultipart) return ask(sql, isRows ? "RowBinary" : "TabSeparatedRaw");
	const table = sentTable(request, bytes);
	return askWith(sql, table, params.get(`${table.name}_structure`));
}

const server = createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", () => {
		turn = turn.then(async () => {
			try {
				const body = await answer(request, Buffer.concat(parts));
				response.writeHead(200, { "Content-Length": body.length });
				response.end(body);
			} catch (error) {
				const text = Buffer.from(`${error.message}\n`);
				response.writeHead(500, { "Content-Length": text.length });
				response.end(text);
			}
		});
	});
});
process.on("SIGTERM", () => {
	server.close();
	session.close();
	rmSync(files, { recursive: true, force: true });
	process.exit(0);
});
server.listen(Number(port), "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
