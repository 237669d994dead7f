/*
 * unwind: how a frame finds its caller, in the form that the BPF walk and user space share.
 *
 * A file's text is cut into pages of 64 KB. A page is a sorted run of rows; a row is 4 bytes: where
 * in the page it begins to hold, and the index of its rule. The first row of each page stands at
 * 0, so a page needs no other page. Rules are few (hundreds) and shared by all files.
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define UNWIND_PAGE_BITS 16
#define UNWIND_RULES_MAX 8192

struct unwind_row {
	__u16 low;  /* of the address */
	__u16 rule; /* 0: nothing is known here */
};

/* Where the canonical frame address (CFA) is. The return address is at CFA - 8, but for SIGNAL. */
enum unwind_cfa {
	UNWIND_UNKNOWN,  /* no FDE covers this: a frame-pointer step, if it can be proven */
	UNWIND_END,      /* the return address is undefined: this is the outermost frame */
	UNWIND_RSP,      /* rsp + offset */
	UNWIND_RBP,      /* rbp + offset */
	UNWIND_R10,      /* r10 + offset: a prologue that realigns the stack; only a leaf has r10 */
	UNWIND_RBP_MEM,  /* *(rbp + offset): after such a prologue */
	UNWIND_RSP_MEM,  /* *(rsp + offset) */
	UNWIND_PLT,      /* rsp + 8 + ((pc & 15) >= offset ? 8 : 0): lazy binding stubs */
	UNWIND_SIGNAL,   /* a signal frame: all registers are in the ucontext at rsp */
	UNWIND_OTHER,    /* a rule that cannot be followed: the walk ends here, and says so */
	UNWIND_RBP_MEM8, /* *(rbp + offset) + 8: OpenSSL's assembly, with its own aligned stack */
	UNWIND_RSP_MEM8, /* *(rsp + offset) + 8 */

	/* Go's runtime, on the stack of the scheduler (g0), called from a goroutine's. The caller's
	 * rbp is as it is. */
	UNWIND_GO_CGO,    /* asmcgocall: the goroutine g is at rsp + rbp_offset, and how deep in its
			   * stack the call was at rsp + cfa_offset */
	UNWIND_GO_SYSTEM, /* systemstack: any g of this thread is at fs + cfa_offset, its m holds
			   * the goroutine at rbp_offset, and that the rsp of the call */
	UNWIND_GO_GROW,   /* morestack: the same, but the rsp before the call and its rip: what was
			   * on the stack may have moved to another already */
	UNWIND_RBX,       /* rbx + offset: the loader's lazy binding */
	UNWIND_FRAME,     /* rbp + 16, wherever that is: Go's assembly, on another stack */
	UNWIND_CFA_LAST = UNWIND_FRAME,
};

#define UNWIND_GO_STACK_HI 0x08 /* in a g: where its stack ends, */
#define UNWIND_GO_M        0x30 /* its thread, */
#define UNWIND_GO_SP       0x38 /* and its rsp while another runs, followed by its rip */

/*
 * Code without rows (made at run time, or assembly) may keep frame pointers, or may use rbp for
 * anything. A step by rbp is taken only where it is proven that it leads to the caller: whatever
 * was called lies below it with its return address on the stack, so
 *
 *	- what is above the saved rbp is a return address: code is mapped there, after a call;
 *	- between rsp and rbp there is no other: no frame is left out. A stale one in a slot that is
 *	  not used yet looks the same, so some steps are not proven that are true;
 *	- a distance from rsp to rbp that was proven for an address holds there from then on.
 *
 * The code itself can tell more: where a frame is being made, and on the way to a `ret`.
 *
 * Of a runtime that is known to keep frame pointers (V8; a JVM that was told to), the second is not
 * asked for; but where a return address is at rsp when an instruction runs, its function may not
 * have made its frame yet, and what is around the instruction must tell. Or it was left in a slot
 * that is not used yet: surely so where its call was of a compiler's function, which has rows and
 * does not go on into code that was made at run time.
 */
#define UNWIND_SCAN_BYTES (16 * 1024) /* larger frames are not looked through */

/* Where a function without rows has its return address, seen by the instruction that it is at. */
enum unwind_shape {
	UNWIND_SHAPE_FRAME, /* nothing special: above rbp, if anywhere */
	UNWIND_SHAPE_BARE,  /* at rsp: before `push %rbp; mov %rsp,%rbp`, or at `ret` */
	UNWIND_SHAPE_SAVED, /* above the rbp that was just pushed */
	UNWIND_SHAPES,      /* it cannot be told */
};

/* `code` is the instruction's 8 bytes, from one byte before it on. */
static inline __attribute__((always_inline)) enum unwind_shape unwind_shape(__u64 code)
{
	__u64 here = code >> 8;
	__u32 three = here & 0xffffff, four = here & 0xffffffff;

	if ((here & 0xff) == 0xc3 || (here & 0xff) == 0xc2 || (here & 0xffff) == 0xc3f3 ||
	    (here & 0xffff) == 0x25ff || four == 0xfa1e0ff3)
		return UNWIND_SHAPE_BARE; /* ret, ret n, repz ret, jmp *x(%rip), endbr64 */
	if (four == 0xe5894855 || four == 0xec8b4855) /* push %rbp; mov %rsp,%rbp */
		return UNWIND_SHAPE_BARE;
	if ((code & 0xff) == 0x55 && (three == 0xe58948 || three == 0xec8b48))
		return UNWIND_SHAPE_SAVED;
	return UNWIND_SHAPE_FRAME;
}

/*
 * What an epilogue that code is at tells, straight up to its `ret`: by how much it raises rsp
 * first, plus 1, and if it then pops rbp; 0: it is at none. Also of code that is returned to:
 * Python's trampolines (-X perf) have nothing but that behind their call. `code` as above.
 */
#define UNWIND_POPS_RBP 0x100

static inline __attribute__((always_inline)) __u32 unwind_epilogue(__u64 code)
{
	__u64 here = code >> 8;
	__u32 raise = 0;

	if ((here & 0xffffff) == 0xc48348) { /* add $n,%rsp */
		raise = here >> 24 & 0xff;
		here >>= 32;
		if (raise & 0x87)
			return 0;
	}
	if ((here & 0xff) == 0xc3)
		return raise + 1;
	return (here & 0xffff) == 0xc35d ? (raise + 1) | UNWIND_POPS_RBP : 0;
}

#define UNWIND_AROUND 4 /* words: the 8 bytes before an instruction, and 24 from it on */

static inline __attribute__((always_inline)) __u32 unwind_four(const __u64 *code, int at)
{
	return code[at / 8] >> (at % 8 * 8) |
	       (at % 8 > 4 ? code[at / 8 + 1] << (64 - at % 8 * 8) : 0);
}

/* Not 0 if one of the bytes of a word is that. */
static inline __attribute__((always_inline)) __u64 unwind_has_byte(__u64 word, __u8 byte)
{
	word ^= byte * 0x0101010101010101ull;
	return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

/*
 * Whether a function that keeps frame pointers seems to be before it has made its frame (it still
 * has to push rbp: V8 and the JVM test something first): UNWIND_BEFORE; or to have given it up
 * (between pop and ret): UNWIND_AFTER. `code` is what is around the instruction that it is at.
 */
enum unwind_bare { UNWIND_INSIDE, UNWIND_AFTER, UNWIND_BEFORE };

static inline __attribute__((always_inline)) enum unwind_bare unwind_bare(const __u64 *code)
{
	/* No branch for each byte: the verifier would look at all combinations of them. */
	__u64 popped = unwind_has_byte(code[0], 0x5d) | unwind_has_byte(code[0], 0xc9);
	__u64 returns = 0;

	for (int i = 1; i < UNWIND_AROUND; i++)
		returns |= unwind_has_byte(code[i], 0xc3) | unwind_has_byte(code[i], 0xc2);
	for (int i = 8; i < 8 * UNWIND_AROUND - 4; i++) {
		__u32 four = unwind_four(code, i);
		if (four == 0xe5894855 || four == 0xec8b4855)
			return UNWIND_BEFORE;
	}
	return popped && returns ? UNWIND_AFTER : UNWIND_INSIDE;
}

/* Whether the 8 bytes before an address end in a call: `call rel32`, or `call *` of any form. */
static inline __attribute__((always_inline)) _Bool unwind_is_call(__u64 before)
{
	__u8 b7 = before >> 8, b6 = before >> 16, b5 = before >> 24, b4 = before >> 32,
	     b3 = before >> 40, b2 = before >> 48, b1 = before >> 56;

	if (b5 == 0xe8)
		return 1;
	/* ff /2: which bytes follow is in the two upper and the three lower bits of the second. */
	if (b2 == 0xff && (b1 & 0x38) == 0x10)
		return (b1 & 0xc0) == 0xc0 || ((b1 & 0xc0) == 0 && (b1 & 7) != 4 && (b1 & 7) != 5);
	if (b3 == 0xff && (b2 & 0x38) == 0x10)
		return ((b2 & 0xc0) == 0x40 && (b2 & 7) != 4) || (b2 == 0x14 && (b1 & 7) != 5);
	if (b4 == 0xff && b3 == 0x54)
		return 1;
	if (b6 == 0xff && (b5 & 0x38) == 0x10)
		return ((b5 & 0xc0) == 0x80 && (b5 & 7) != 4) || b5 == 0x15;
	return b7 == 0xff && (b6 == 0x94 || (b6 == 0x14 && (b5 & 7) == 5));
}

/* What a `call rel32` called that returns to addr; 0 if it was another. `before` as above. */
static inline __attribute__((always_inline)) __u64 unwind_called(__u64 addr, __u64 before)
{
	return (before >> 24 & 0xff) == 0xe8 ? addr + (__u64)(__s64)(__s32)(before >> 32) : 0;
}

/* Where the caller's rbp is. */
enum unwind_rbp {
	UNWIND_RBP_SAME,
	UNWIND_RBP_AT_CFA, /* at CFA + rbp_offset */
	UNWIND_RBP_AT_RBP, /* at rbp + rbp_offset */
	UNWIND_RBP_LOST,
};

struct unwind_rule {
	__u8 cfa; /* enum unwind_cfa */
	__u8 rbp; /* enum unwind_rbp */
	__s16 rbp_offset;
	__s32 cfa_offset;
	__s16 rbx_offset; /* the caller's rbx is at CFA + this; 0: as it is; or UNWIND_RBX_LOST */
	__u16 checked;    /* found by flow.c: what is returned to must follow a call. Of
			   * UNWIND_UNKNOWN: code of a runtime that keeps frame pointers */
	__u32 inside; /* for the walk's own use: see struct walk_known */
};

#define UNWIND_RBX_LOST (-0x8000)
#define UNWIND_NOWHERE  1 /* an address that no program has */

_Static_assert(sizeof(struct unwind_row) == 4, "a row");
_Static_assert(sizeof(struct unwind_rule) == 16, "a rule");

/*
 * Tables in BPF maps. All are arrays; what is in them is written by user space, and a region that
 * was in use is not written again before a grace period is over, so a walk never sees half of one.
 * (Processes are, and have versions for it.)
 *
 *	processes  by pid, which mappings are its; see struct unwind_bucket
 *	mappings   sorted runs of struct unwind_mapping, one run a process
 *	files      a mapped file's pages: where they begin in `pages`
 *	pages      where a page's rows are
 *	shards     the rows, SHARD_ROWS in each
 *	rules
 */
#define UNWIND_SHARD_ROWS   (128 * 1024)
#define UNWIND_SHARDS_MAX   48 /* 24 MB */
#define UNWIND_PAGES_MAX    (64 * 1024)
#define UNWIND_FILES_MAX    4096
#define UNWIND_MAPPINGS_MAX (32 * 1024)
#define UNWIND_BUCKET_BITS  10
#define UNWIND_BUCKETS      (1 << UNWIND_BUCKET_BITS)
#define UNWIND_BUCKET       8         /* processes in one */
#define UNWIND_PENDING      (~0u)     /* a file whose table is not there (yet, or any more) */
#define UNWIND_LOST         (~0u - 1) /* a file whose table cannot be had: the walk ends there */
#define UNWIND_KEEPS_RBP    1         /* code of a runtime that is known to keep frame pointers */

struct unwind_process {
	__u32 pid;     /* 0: nothing here, nor behind it in the bucket */
	__u32 version; /* of the mappings: comes back in the sample; 0: being written */
	__u64 start;   /* as in the sample: with exec, which program this is about */
	__u64 exec;    /* task->self_exec_id */
	__u32 first;   /* in `mappings` */
	__u32 count;
};

/*
 * A process is in the bucket that its pid's hash says, most often the first of it: one line of the
 * cache, whose address is known from the start. A hash map's lookup is four of them, one after the
 * other. A version is never used again: what was read between two looks at the same one is whole.
 */
struct unwind_bucket {
	struct unwind_process at[UNWIND_BUCKET];
};

static inline __u32 unwind_bucket(__u32 pid)
{
	return (pid * 0x9e3779b1u) >> (32 - UNWIND_BUCKET_BITS);
}

struct unwind_mapping {
	__u64 start, end;
	__u64 bias; /* an address less this is a virtual address of the file; file 0:
		       UNWIND_KEEPS_RBP */
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
_Static_assert(sizeof(struct unwind_file) == 16, "a file");
_Static_assert(sizeof(struct unwind_page) == 8, "a page");
