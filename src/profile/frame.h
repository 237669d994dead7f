/*
 * frame: what kinds of frame a stack has. The vocabulary of everything that names or shows one.
 */
#pragma once

enum frame_kind {
	FRAME_USER,
	FRAME_KERNEL,
	FRAME_INLINED, /* an inlined call inside the frame below it */
	FRAME_INTERPRETED,
	FRAME_JIT,
	FRAME_GO,
	FRAME_BPF,
	FRAME_MARK, /* not code: "[truncated]", a process or thread name, "-" between stacks */
	FRAME_KINDS,
};
