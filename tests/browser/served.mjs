// A `smolder serve` that a test started, with a pipe for its stderr.

/** The address of its page, once it says where it listens; an error with what it said, if it ends. */
export function listening(child) {
	return new Promise((found, failed) => {
		let said = '';
		child.stderr.on('data', d => {
			said += d;
			const m = /listening on (http:\/\/[\d.]+:\d+)/.exec(said);
			if (m)
				found(`${m[1]}/`);
		});
		child.on('exit', () => failed(new Error(said)));
	});
}
