#include "pipeline/code_class.h"

#include <string.h>

#include "base/mem.h"

#define BIT(class) (1u << (class))
#define POLL       (BIT(CODE_CALL) | BIT(CODE_POLL))
#define READ       (BIT(CODE_CALL) | BIT(CODE_READ))
#define CALLS      (BIT(CODE_CALL) | BIT(CODE_POLL) | BIT(CODE_READ)) /* any of these */
#define PROC       BIT(CODE_PROC)
#define ALLOC      BIT(CODE_ALLOC)
#define GC         BIT(CODE_GC)

enum where { USER, KERNEL, CALL }; /* CALL: of the kernel, behind the prefix of a system call */

/* The first that fits decides. A name that ends with * is the beginning of one. */
static const struct {
	enum where where;
	const char *name;
	uint32_t classes;
} rules[] = {
	{CALL, "epoll_wait", POLL},
	{CALL, "epoll_pwait", POLL},
	{CALL, "epoll_pwait2", POLL},
	{CALL, "poll", POLL},
	{CALL, "ppoll", POLL},
	{CALL, "select", POLL},
	{CALL, "pselect6", POLL},
	{CALL, "futex", POLL},
	{CALL, "sched_yield", POLL},
	{CALL, "nanosleep", POLL},
	{CALL, "clock_nanosleep", POLL},
	{CALL, "read", READ},
	{CALL, "readv", READ},
	{CALL, "recvfrom", READ},
	{CALL, "recvmsg", READ},
	{CALL, "accept", READ},
	{CALL, "accept4", READ},
	{CALL, "*", BIT(CODE_CALL)},
	{KERNEL, "proc_pid_*", PROC},
	{KERNEL, "proc_tgid_*", PROC},
	{KERNEL, "proc_fill_cache", PROC},
	{KERNEL, "proc_single_show", PROC},
	{KERNEL, "proc_root_readdir", PROC},
	{KERNEL, "proc_fd*", PROC},
	{KERNEL, "do_task_stat", PROC},
	{KERNEL, "task_dump_owner", PROC},
	{KERNEL, "pid_revalidate", PROC},
	{KERNEL, "next_tgid", PROC},
	{KERNEL, "asm_exc_page_fault", BIT(CODE_FAULT)},
	{KERNEL, "exc_page_fault", BIT(CODE_FAULT)},
	{KERNEL, "do_page_fault", BIT(CODE_FAULT)},
	{KERNEL, "__do_softirq", BIT(CODE_SOFTIRQ)},
	{KERNEL, "handle_softirqs", BIT(CODE_SOFTIRQ)},
	{KERNEL, "native_queued_spin_lock_slowpath", BIT(CODE_SPIN)},
	{KERNEL, "queued_spin_lock_slowpath", BIT(CODE_SPIN)},
	{KERNEL, "__pv_queued_spin_lock_slowpath", BIT(CODE_SPIN)},
	{KERNEL, "queued_write_lock_slowpath", BIT(CODE_SPIN)},
	{KERNEL, "queued_read_lock_slowpath", BIT(CODE_SPIN)},
	{KERNEL, "osq_lock", BIT(CODE_SPIN)},
	{KERNEL, "rwsem_spin_on_owner", BIT(CODE_SPIN)},
	{KERNEL, "mutex_spin_on_owner", BIT(CODE_SPIN)},
	{KERNEL, "__schedule", BIT(CODE_SWITCH)},
	{KERNEL, "schedule", BIT(CODE_SWITCH)},
	{KERNEL, "try_to_wake_up", BIT(CODE_SWITCH)},
	{KERNEL, "try_to_free_pages", BIT(CODE_RECLAIM)},
	{KERNEL, "try_to_free_mem_cgroup_pages", BIT(CODE_RECLAIM)},
	{KERNEL, "shrink_node", BIT(CODE_RECLAIM)},
	{KERNEL, "bpf_prog_*", BIT(CODE_BPF)},
	{USER, "epoll_wait", POLL},
	{USER, "epoll_pwait", POLL},
	{USER, "poll", POLL},
	{USER, "__poll", POLL},
	{USER, "ppoll", POLL},
	{USER, "select", POLL},
	{USER, "__select", POLL},
	{USER, "sched_yield", POLL},
	{USER, "__sched_yield", POLL},
	{USER, "nanosleep", POLL},
	{USER, "clock_nanosleep*", POLL},
	{USER, "__GI___clock_nanosleep", POLL},
	{USER, "read", READ},
	{USER, "__read", READ},
	{USER, "__GI___libc_read", READ},
	{USER, "recv", READ},
	{USER, "__libc_recv", READ},
	{USER, "procps_*", PROC}, /* ps, top and the like: libproc2, and before it libprocps */
	{USER, "readproc*", PROC},
	{USER, "malloc", ALLOC},
	{USER, "calloc", ALLOC},
	{USER, "realloc", ALLOC},
	{USER, "free", ALLOC},
	{USER, "cfree", ALLOC},
	{USER, "_int_malloc", ALLOC},
	{USER, "_int_free*", ALLOC},
	{USER, "_int_realloc", ALLOC},
	{USER, "malloc_consolidate", ALLOC},
	{USER, "unlink_chunk*", ALLOC},
	{USER, "__libc_malloc", ALLOC},
	{USER, "__libc_calloc", ALLOC},
	{USER, "__libc_free", ALLOC},
	{USER, "__libc_realloc", ALLOC},
	{USER, "je_*", ALLOC},
	{USER, "tc_malloc*", ALLOC},
	{USER, "tc_free*", ALLOC},
	{USER, "mi_malloc*", ALLOC},
	{USER, "mi_free*", ALLOC},
	{USER, "runtime.mallocgc", ALLOC},
	{USER, "runtime.gcBgMarkWorker", GC},
	{USER, "runtime.gcAssistAlloc", GC},
	{USER, "runtime.bgsweep", GC},
	{USER, "gc_collect_main", GC},
	{USER, "_PyGC_Collect*", GC},
	{USER, "gc_collect_with_callback", GC},
	{USER, "G1*::*", GC},
	{USER, "GCTaskThread::*", GC},
	{USER, "PSParallelCompact*", GC},
	{USER, "v8::internal::Heap::CollectGarbage*", GC},
	{USER, "v8::internal::Scavenge*", GC},
	{USER, "v8::internal::MarkCompact*", GC},
	{USER, "v8::internal::ConcurrentMarking*", GC},
};

enum { UNKNOWN, NO_CLASS, FIRST }; /* of_frame: then FIRST + the rule */

void code_classes_done(struct code_classes *c)
{
	free(c->of_frame);
	*c = (struct code_classes){};
}

static bool fits(const char *pattern, const char *name)
{
	size_t len = strlen(pattern);

	if (len && pattern[len - 1] == '*')
		return strncmp(pattern, name, len - 1) == 0;
	return strcmp(pattern, name) == 0;
}

static const char *after_prefix(const char *function)
{
	/* A compiler may have made one function of several of these. */
	static const char *const prefixes[] = {"__x64_sys_", "__arm64_sys_", "__se_sys_",
					       "__do_sys_", "ksys_"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(function, prefixes[i], strlen(prefixes[i])) == 0)
			return function + strlen(prefixes[i]);
	return NULL;
}

const char *code_call_name(const char *function)
{
	const char *name = after_prefix(function);

	return name ? name : function + strspn(function, "_");
}

static uint8_t find_class(const struct profile *dict, uint32_t frame)
{
	const struct frame *f = &dict->frames[frame];
	const char *name = profile_str(dict, f->name), *call = NULL;
	bool is_kernel = frame_is_kernel(f->kind);

	if (is_kernel)
		call = after_prefix(name);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const char *is = rules[i].where == CALL ? call : name;
		if (is && (rules[i].where == USER) == !is_kernel && fits(rules[i].name, is))
			return (uint8_t)(FIRST + i);
	}
	return NO_CLASS;
}

static uint32_t classes_of(struct code_classes *c, const struct profile *dict, uint32_t frame)
{
	_Static_assert(ARRAY_SIZE(rules) + FIRST < UINT8_MAX, "a rule's number is one byte");

	if (frame >= c->count) {
		c->of_frame = mem_resize_array(c->of_frame, dict->frame_count, 1);
		memset(c->of_frame + c->count, 0, dict->frame_count - c->count);
		c->count = dict->frame_count;
	}
	if (c->of_frame[frame] == UNKNOWN)
		c->of_frame[frame] = find_class(dict, frame);
	return c->of_frame[frame] < FIRST ? 0 : rules[c->of_frame[frame] - FIRST].classes;
}

struct code code_of(struct code_classes *c, const struct profile *dict, uint32_t stack)
{
	struct code code = {};
	bool was_user = false;

	/* From the leaf on. A user's function tells a call only where the kernel's frames do not:
	 * so its leaf alone. */
	for (uint32_t at = stack; at; at = dict->stacks[at].parent) {
		uint32_t frame = dict->stacks[at].frame, is = classes_of(c, dict, frame);
		bool is_user = !frame_is_kernel(dict->frames[frame].kind);
		if (is_user && !code.caller)
			code.caller = at;
		if (is_user && was_user)
			is &= ~CALLS;
		if (is & BIT(CODE_CALL) && !code.call)
			code.call = frame;
		else if (is & BIT(CODE_CALL))
			is &= ~CALLS;
		code.classes |= is;
		was_user |= is_user;
	}
	return code;
}
