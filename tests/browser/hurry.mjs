/*
 * The browser as fast as the test that started it: playwright gives it a session of its own, and where
 * the kernel shares out the CPU by session, what tests/run gave this one (hurry in tests/tap.py) is
 * not for it. To be called after the launch.
 */
import {readFileSync, writeFileSync} from 'node:fs';

export function hurryAlong() {
	try {
		const [, nice] = / nice (-?\d+)/.exec(readFileSync('/proc/self/autogroup', 'utf8'));
		const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim();
		for (const pid of children.split(' '))
			writeFileSync(`/proc/${pid}/autogroup`, nice);
	} catch {
		// A kernel without such groups, or a user who may not: it takes longer.
	}
}
