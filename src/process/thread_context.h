/*
 * thread_context: where threads of a process say what they work on: OpenTelemetry's thread context
 * (OTEP 4947). A program or library exports a thread-local variable otel_thread_ctx_v1, the address
 * of the context of what the thread does now, or NULL:
 *
 *	0   trace id, 16 bytes
 *	16  span id, 8 bytes
 *	24  1 if this is true; flags; u16 size of attributes; those, which are not read
 *
 * It is looked for only in processes whose own context (context.h) says that threads have one. What
 * is found is a place relative to a thread, which the BPF program reads (walk_find_span()):
 *
 *	in the program      static storage, at an offset that follows from its size
 *	in a library        what its relocations for the variable have become in the process: an
 *	                    offset in static storage (initial-exec, and TLSDESC if the loader found
 *	                    room there), or a module of the thread's table (general dynamic,
 *TLSDESC)
 *
 * x86-64 alone, of glibc and musl. Each file is read once.
 */
#pragma once

#include "bpf/unwind.h"
#include "process/process.h"

struct thread_contexts;

struct thread_contexts *thread_contexts_new(void);
void thread_contexts_free(struct thread_contexts *t); /* NULL is fine */

/*
 * Finds where threads of a process have it, by the mappings that it has now: 0; -ENOENT: no file of
 * it has the variable; -EAGAIN: it is not there yet (a library binds it when it is first used); or
 * -errno.
 */
int thread_contexts_find(struct thread_contexts *t, struct processes *ps, struct process *p,
			 struct unwind_context *ret);
