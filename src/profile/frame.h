/*
 * frame: the kinds of frames, for all that name or show them.
 */
#pragma once

#include <stdbool.h>

enum frame_kind {
	FRAME_USER,
	FRAME_KERNEL,
	FRAME_INLINED, /* an inlined call in the frame that is its parent */
	FRAME_INTERPRETED,
	FRAME_JIT,
	FRAME_GO,
	FRAME_BPF,
	FRAME_MARK, /* not code: "[truncated]", a process name, "-" between stacks */
	FRAME_KINDS,
};

/* The mark at the root of a stack in which a thread waits for work (pipeline/waiting.h). */
#define FRAME_IDLE "[idle]"

/* BPF programs are code of the kernel's that others gave it. */
static inline bool frame_is_kernel(enum frame_kind kind)
{
	return kind == FRAME_KERNEL || kind == FRAME_BPF;
}
