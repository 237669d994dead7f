/*
 * unwind: how a frame finds its caller, in the form that the BPF walk and user space share.
 *
 * A file's text is cut into pages of 64 KB. A page is a sorted run of rows; a row is 4 bytes: where
 * in the page it begins to hold, and the index of its rule. The first row of each page stands at
 * 0, so a page needs no other page. Rules are few (hundreds) and shared by all files.
 */
#pragma once

#include "arch/arch.h"

#define UNWIND_PAGE_BITS 16
#define UNWIND_RULES_MAX 8192

struct unwind_row {
	__u16 low;  /* of the address */
	__u16 rule; /* 0: nothing is known here */
};

/* Where the canonical frame address (CFA) is. The return address is at CFA + ARCH_RETURN_AT, but
 * for SIGNAL. Registers by the names of arch/arch.h. */
enum unwind_cfa {
	UNWIND_UNKNOWN,     /* no FDE covers this: a frame-pointer step, if it can be proven */
	UNWIND_END,         /* the return address is undefined: this is the outermost frame */
	UNWIND_SP,          /* sp + offset */
	UNWIND_FP,          /* fp + offset */
	UNWIND_LEAF,        /* leaf + offset: a prologue that realigns the stack */
	UNWIND_FP_MEM,      /* *(fp + offset): after such a prologue */
	UNWIND_SP_MEM,      /* *(sp + offset) */
	UNWIND_PLT,         /* sp + 8 + ((pc & 15) >= offset ? 8 : 0): lazy binding stubs */
	UNWIND_SIGNAL,      /* a signal frame: all registers are in the ucontext at sp */
	UNWIND_UNSUPPORTED, /* a rule that cannot be followed: the walk ends here, and says so */
	UNWIND_FP_MEM8,     /* *(fp + offset) + 8: OpenSSL's assembly, with its own aligned stack */
	UNWIND_SP_MEM8,     /* *(sp + offset) + 8 */

	/* Go's runtime, on the stack of the scheduler (g0), called from a goroutine's. The caller's
	 * fp is as it is. */
	UNWIND_GO_CGO,    /* asmcgocall: the goroutine g is at sp + fp_offset, and how deep in its
			   * stack the call was at sp + cfa_offset */
	UNWIND_GO_SYSTEM, /* systemstack: any g of this thread is at cfa_offset in its own memory,
			   * its m holds the goroutine at fp_offset, and that the sp of the call */
	UNWIND_GO_GROW,   /* morestack: the same, but the sp before the call and its pc: what was
			   * on the stack may have moved to another already */
	UNWIND_KEPT,      /* kept + offset: the loader's lazy binding */
	UNWIND_FRAME,     /* fp + 16, wherever that is: Go's assembly, on another stack */
	UNWIND_CFA_LAST = UNWIND_FRAME,
};

#define UNWIND_GO_STACK_HI 0x08 /* in a g: where its stack ends, */
#define UNWIND_GO_M        0x30 /* its thread, */
#define UNWIND_GO_SP       0x38 /* and its sp while another runs, followed by its pc */

/*
 * Code without rows (made at run time, or assembly) may keep frame pointers, or may use fp for
 * anything. So a step by fp is taken only if it is proven to lead to the caller. A call leaves a
 * return address on the stack (a word that points just after a call instruction). The conditions:
 *
 *	1. The word above the saved fp is a return address.
 *	2. No other word between sp and fp is one: else a frame would be skipped. (A stale return
 *	   address in a slot that is not used yet looks the same, so some correct steps are
 *	   refused.)
 *	3. Or 2 was proven before, at the same address with the same distance from sp to fp.
 *
 * Where a function sets up its frame, and on the way to its `ret`, its instructions tell where the
 * return address is (arch_shape(), arch_epilogue()).
 *
 * In code of a runtime that is known to keep frame pointers (V8; a JVM that was told to), 2 is not
 * required. But fp may still be the caller's. If the word at sp is a return address, there are two
 * possibilities:
 *
 *	a. The function has not set up its frame yet: the code around pc must tell (arch_frame()).
 *	b. The word is stale. That is certain if its call was of a function with rows, made by a
 *	   compiler: such a function does not continue in code that was made at run time.
 *
 * The same is asked of the caller of a leaf that has nothing of its own on the stack: V8's baseline
 * code calls a function that sets up the frame for it.
 */
#define UNWIND_SCAN_BYTES (16 * 1024) /* larger frames are not looked through */

/* Where the caller's fp is. */
enum unwind_fp {
	UNWIND_FP_SAME,
	UNWIND_FP_AT_CFA, /* at CFA + fp_offset */
	UNWIND_FP_AT_FP,  /* at fp + fp_offset */
	UNWIND_FP_LOST,
};

struct unwind_rule {
	__u8 cfa; /* enum unwind_cfa */
	__u8 fp;  /* enum unwind_fp */
	__s16 fp_offset;
	__s32 cfa_offset;
	__s16 kept_offset; /* the caller's `kept` is at CFA + this; 0: as it is; UNWIND_KEPT_LOST */
	union {            /* by the rule's kind */
		/* flow.c found it by reading code: the return address must follow a call. */
		__u16 must_follow_call;
		/* UNWIND_UNKNOWN: this is code of a runtime that keeps frame pointers. */
		__u16 keeps_fp;
	};
	__u32 pad; /* elements of BPF arrays are multiples of 8 bytes */
};

#define UNWIND_KEPT_LOST (-0x8000)
#define UNWIND_NOWHERE   1 /* an address that no program has */

_Static_assert(sizeof(struct unwind_row) == 4, "a row");
_Static_assert(sizeof(struct unwind_rule) == 16, "a rule");

/*
 * Tables in BPF maps. All are arrays; what is in them is written by user space, and a region that
 * was in use is not written again before a grace period is over, so a walk never sees half of one.
 * Entries of processes are the exception: they are overwritten in place, and guarded by their
 * version. A mapping's file and a process's version are stored with release, after all that they
 * lead to, and loaded with acquire.
 *
 *	processes  by pid, which mappings are its; see struct unwind_bucket
 *	mappings   sorted runs of struct unwind_mapping, one run a process
 *	files      a mapped file's pages: where they begin in `pages`
 *	pages      where a page's rows are
 *	shards     the rows, SHARD_ROWS in each
 *	rules
 *	contexts   where threads of a process say what they work on
 */
#define UNWIND_SHARD_ROWS   (128 * 1024)
#define UNWIND_SHARDS_MAX   48 /* 24 MB */
#define UNWIND_PAGES_MAX    (64 * 1024)
#define UNWIND_FILES_MAX    4096
#define UNWIND_MAPPINGS_MAX (32 * 1024)
#define UNWIND_CONTEXTS_MAX 1024
#define UNWIND_BUCKET_BITS  10
#define UNWIND_BUCKETS      (1 << UNWIND_BUCKET_BITS)
#define UNWIND_BUCKET_SLOTS 8         /* processes in one */
#define UNWIND_PENDING      (~0u)     /* a file whose table is not there (yet, or any more) */
#define UNWIND_LOST         (~0u - 1) /* a file whose table cannot be had: the walk ends there */
#define UNWIND_KEEPS_FP     1         /* code of a runtime that is known to keep frame pointers */

struct unwind_process {
	__u32 pid;     /* 0: nothing here, nor behind it in the bucket */
	__u32 version; /* of the mappings: comes back in the sample; 0: being written */
	__u64 start;   /* as process_start and exec_id of an event: */
	__u64 exec_id; /* which program of which process this is about */
	__u32 first;   /* in `mappings` */
	__u16 count;
	__u16 context; /* in `contexts`: where its threads say what they work on; 0: nowhere */
};

/*
 * A process is in the bucket of its pid's hash, most often in the first slot: one cache line, whose
 * address is known from the start. (A hash map's lookup takes four, one after the other.) A version
 * is never used again: if it is the same before and after an entry was read, the entry is complete
 * (the first read with acquire, a read barrier before the second).
 */
struct unwind_bucket {
	struct unwind_process at[UNWIND_BUCKET_SLOTS];
};

static inline __u32 unwind_bucket(__u32 pid)
{
	return (pid * 0x9e3779b1u) >> (32 - UNWIND_BUCKET_BITS);
}

/*
 * Where a thread of a process has the address of its context (process/thread_context.h): in its
 * static thread-local storage, at an offset from its thread pointer, or in that of a module, whose
 * address is in the thread's table of modules (dtv).
 */
struct unwind_context {
	__s64 offset;
	__u32 module;      /* 0: static */
	__u32 entry_bytes; /* of that table: it depends on the libc; 0: there is no context */
};

struct unwind_mapping {
	__u64 start, end;
	/* With a file: an address less this is a virtual address of the file. Without one (file
	 * is 0): UNWIND_KEEPS_FP, or 0. */
	__u64 bias;
	__u32 file; /* 0: no table, so a frame-pointer step; or UNWIND_PENDING, or UNWIND_LOST */
	__u32 pad;
};

struct unwind_file {
	__u32 first;     /* in `pages` */
	__u32 base_page; /* the first page of its text */
	__u32 page_count;
	__u32 pad;
};

struct unwind_page {
	__u32 first; /* row: shard * SHARD_ROWS + index; a page's rows are in one shard */
	__u32 count;
};

_Static_assert(sizeof(struct unwind_process) == 32, "a process");
_Static_assert(sizeof(struct unwind_mapping) == 32, "a mapping");
_Static_assert(sizeof(struct unwind_context) == 16, "a context");
_Static_assert(UNWIND_MAPPINGS_MAX <= 0xffff && UNWIND_CONTEXTS_MAX <= 0xffff, "their numbers fit");
_Static_assert(sizeof(struct unwind_file) == 16, "a file");
_Static_assert(sizeof(struct unwind_page) == 8, "a page");
