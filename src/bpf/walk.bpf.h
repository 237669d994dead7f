/*
 * walk: the user stack, frame by frame, by the tables of unwind.h.
 *
 * State lives in a per-CPU map and the functions are global and take no pointers: so the verifier
 * checks each once, not once a frame, and kernels from 5.10 on load it.
 */
#pragma once

#include "bpf/task.bpf.h"
#include "bpf/unwind.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_BUCKETS);
	__type(key, __u32);
	__type(value, struct unwind_bucket);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_MAPPINGS_MAX);
	__type(key, __u32);
	__type(value, struct unwind_mapping);
} mappings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_FILES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_file);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_PAGES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_page);
} pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_RULES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_CONTEXTS_MAX);
	__type(key, __u32);
	__type(value, struct unwind_context);
} contexts SEC(".maps");

struct shard_rows {
	struct unwind_row rows[UNWIND_SHARD_ROWS];
};

struct shard {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct shard_rows));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SHARDS_MAX);
	__type(key, __u32);
	__array(values, struct shard);
} shards SEC(".maps");

struct walk {
	__u64 pc, sp, fp;
	__u64 piece;         /* the address of the piece of the stack in scratch */
	__u64 word;          /* what walk_read() read */
	__u64 kept, kept_at; /* the register, or (not 0) where it is saved: few need it, so it is
				read late */
	__u64 until;         /* prove_frame(): where the frame ends */
	__u64 leaf;
	__u32 version;      /* of the process's mappings … */
	__u32 first, count; /* … and where they are */
	__u32 frames;       /* written so far … */
	__u32 base;         /* … from here on in the sample */
	__u32 exact;        /* pc is an instruction that runs, not a return address */
	__u32 last, next; /* in scratch.cached: the last frame's, and where the next is expected */
	__u32 missing; /* 0, or why the mapping's table is not there: UNWIND_PENDING, UNWIND_LOST */
	__u64 low, high, bias;   /* the mapping of the last address that was looked up … */
	struct unwind_file file; /* … its pages … */
	__u32 before, after;     /* … and how far below and above the address its row holds */
	__u32 context;           /* of the process, in `contexts`; 0: none */
#ifdef WALK_RETURNS
	__u32 return_count;
	__u8 return_at[WALK_RETURNS]; /* where the first return addresses are, in words above sp */
#endif
};

/*
 * The rule that was found for an address. Between two events a CPU runs other things for
 * milliseconds, so each step of the two searches (mapping, then row) is a cache miss: this saves
 * them. It stays true however tables come and go: a version is of one set of mappings, and a file's
 * rows and a rule's number never change. For code without rows (UNWIND_UNKNOWN) two members of the
 * rule have another meaning: cfa_offset is the proven distance fp - sp, plus 1; fp_offset is the
 * place of a leaf's pc in its block of code, plus 1, and 0 for a caller.
 */
struct cached_rule {
	__u64 addr;
	struct unwind_rule rule;
	__u32 version; /* of the mappings */
	__u16 next;    /* where the frame that called it was found last, in scratch.cached */
	__u8 bytes;    /* from addr on: the same for all of them; 0: nothing here */
	__u8 pad;
};

/*
 * Leaves can be anywhere: they are hashed by their block of 64 bytes of code, and an entry holds
 * for as much of the block as one row covers. Callers come again in the same order: they are
 * entered in the order in which they were first met, so that a whole stack takes a few cache lines
 * that follow each other, and each entry notes where its own caller was found last.
 */
#define WALK_BLOCK       64
#define WALK_LEAF_BITS   10
#define WALK_LEAVES      (1 << WALK_LEAF_BITS)
#define WALK_CALLER_BITS 10
#define WALK_CALLERS     (1 << WALK_CALLER_BITS)
#define WALK_CACHED      (WALK_LEAVES + WALK_CALLERS)
#define WALK_PIECE       64                 /* words */
#define WALK_NO_PIECE    ((1ull << 63) + 1) /* far from any address, the kernel's too */

_Static_assert((WALK_CACHED & (WALK_CACHED - 1)) == 0, "a power of two");

/* A copy of a stack under way. */
struct copy {
	__u64 from, end; /* in the user's memory */
	__u32 at;        /* behind the frames */
	__u32 skipped;   /* chunks that are not there, below the first that is */
	__u32 bytes, pad;
};

/* A cached entry of the kernel's own table, for one address in the kernel: see orc.bpf.h. */
struct orc_rule {
	__u32 at; /* the address, from the start of the text, plus 1; 0: nothing here */
	__s16 sp_offset, bp_offset;
	__u16 how;
	__u16 next; /* where the caller was found last, in scratch.orc_cached */
};

#define ORC_LEAF_BITS   10
#define ORC_LEAVES      (1 << ORC_LEAF_BITS)
#define ORC_CALLER_BITS 10
#define ORC_CALLERS     (1 << ORC_CALLER_BITS)
#define ORC_CACHED      (ORC_LEAVES + ORC_CALLERS)

_Static_assert((ORC_CACHED & (ORC_CACHED - 1)) == 0, "a power of two");

struct orc_walk {
	__u64 pc, sp, bp;
	__u64 stack; /* where the task's begins */
	__u64 piece; /* the address of the piece of it in scratch */
	__u64 word;  /* what orc_read() read */
	__u32 frames;
	__u32 exact;
	__u32 last, next; /* as in struct walk */
	struct orc_rule found;
	__u32 oldest; /* of the callers, to be forgotten */
	__u32 walks;  /* of this CPU */
	__u32 wrong;  /* one of them was: no more */
};

#define CACHE_LINE __attribute__((aligned(64)))

/*
 * What a CPU has for itself, with its ring behind it; in the order of use. All of it has left the
 * cache since the last sample: what is used every time is close together.
 */
struct scratch {
	struct wire_ring ring;
	struct walk walk;
	struct orc_walk orc;
	struct copy copy;
	__u64 piece[WALK_PIECE] CACHE_LINE;
	struct cached_rule cached[WALK_CACHED] CACHE_LINE; /* leaves, then callers */
	__u16 caller_at[2 * WALK_CALLERS];                 /* by hash: an index of cached */
	__u32 oldest;                                      /* of the callers, to be forgotten */
	struct orc_rule orc_cached[ORC_CACHED];
	__u16 orc_caller_at[2 * ORC_CALLERS];
	__u64 check[WIRE_FRAMES + 1]; /* what bpf_get_stack() says */
	__u64 words[ARCH_CODE_WORDS]; /* read at once: code, or a goroutine's registers */
} __attribute__((aligned(4096)));

struct { /* one a CPU, and their size, set by the loader */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct scratch));
} scratch SEC(".maps");

const volatile __u64 ring_bytes = 4096; /* set by the loader */

static __always_inline struct scratch *get_scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&scratch, &cpu);
}

/* The event under construction: it is in the ring already, and is user space's when head moves. */
static __always_inline struct wire_event *open_event(struct scratch *s)
{
	return (void *)((__u8 *)(s + 1) + (s->ring.head & (ring_bytes - 1)));
}

#ifndef EVENT_DETAILS
#define EVENT_DETAILS 0 /* words of the source's own before the frames: see event.bpf.h */
#endif

static __always_inline __u64 *frame_at(struct scratch *s, __u32 i)
{
	return (__u64 *)(open_event(s) + 1) + EVENT_DETAILS + (i & WIRE_FRAMES_MASK);
}

/* Where frame i of the walk is written: frames beyond WIRE_LEAF_FRAMES in a circle of
 * WIRE_ROOT_FRAMES entries. */
static __always_inline __u64 *user_frame_at(struct scratch *s, __u32 i)
{
	if (i >= WIRE_LEAF_FRAMES)
		i = WIRE_LEAF_FRAMES + (i - WIRE_LEAF_FRAMES) % WIRE_ROOT_FRAMES;
	return frame_at(s, s->walk.base + i);
}

/* Finds the mapping of addr; 1 if there is one. The last one is tried first: calls stay close. */
__noinline int walk_find_mapping(__u64 addr)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	struct walk *w = &s->walk;
	if (addr >= w->low && addr < w->high)
		return 1;

	__u32 at = w->first, n = w->count;
	for (int i = 0; i < 15 && n > 1; i++) {
		__u32 half = n / 2, mid = at + half;
		struct unwind_mapping *m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			return 0;
		/* 1 if m->start <= addr: by pages, as a difference of addresses may need all 64
		 * bits (there is one mapping in the kernel's half, vsyscall). Without a branch,
		 * which the verifier would follow both ways at each turn. */
		__u32 right = ~((addr >> 12) - (m->start >> 12)) >> 63;
		at += half * right;
		n = half + (n & right);
	}
	struct unwind_mapping *m = bpf_map_lookup_elem(&mappings, &at);
	if (!m || !w->count || addr < m->start || addr >= m->end)
		return 0;

	/* User space sets bias before file, and once: reading them the other way round is right. */
	__u32 file = ARCH_LOAD_ACQUIRE(&m->file);
	struct unwind_file *f = bpf_map_lookup_elem(&files, &file);
	w->low = m->start;
	w->high = m->end;
	w->bias = m->bias;
	w->missing = file >= UNWIND_LOST ? file : 0;
	w->file = (struct unwind_file){};
	if (file && f)
		w->file = *f;
	return 1;
}

/* The index of the rule at a virtual address of the file that the mapping named; 0: none. */
__noinline int walk_find_rule(__u64 vaddr)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	struct walk *w = &s->walk;
	__u64 page = (vaddr >> UNWIND_PAGE_BITS) - w->file.base_page;
	w->before = w->after = WALK_BLOCK;
	if (page >= w->file.page_count)
		return 0;

	__u32 index = w->file.first + (__u32)page;
	struct unwind_page *p = bpf_map_lookup_elem(&pages, &index);
	if (!p || !p->count)
		return 0;
	__u32 which = p->first / UNWIND_SHARD_ROWS, zero = 0;
	void *inner = bpf_map_lookup_elem(&shards, &which);
	if (!inner)
		return 0;
	struct shard_rows *shard = bpf_map_lookup_elem(inner, &zero);
	if (!shard)
		return 0;

	__u32 low = (__u16)vaddr, at = p->first, n = p->count;
	for (int i = 0; i < 17 && n > 1; i++) {
		__u32 half = n / 2;
		__u32 there = shard->rows[(at + half) & (UNWIND_SHARD_ROWS - 1)].low;
		__u32 right = (there - low - 1) >> 31; /* 1 if there <= low */
		at += half * right;
		n = half + (n & right);
	}
	struct unwind_row *row = &shard->rows[at & (UNWIND_SHARD_ROWS - 1)];
	w->before = low - row->low;
	at++;
	w->after = at - p->first < p->count ? shard->rows[at & (UNWIND_SHARD_ROWS - 1)].low - low
					    : (1u << UNWIND_PAGE_BITS) - low;
	return row->rule;
}

#define STACK_NEAR (1 << 20)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static __always_inline bool read_word(__u64 *to, __u64 addr)
{
	return bpf_probe_read_user(to, sizeof(*to), (void *)addr) == 0;
}

/*
 * A word of the stack, into w->word: a piece of the stack at a time, since one read of many lines
 * takes little longer than one of a single line, while each line is a miss of its own otherwise.
 */
__noinline int walk_read(__u64 addr)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	struct walk *w = &s->walk;
	__u64 at = addr - w->piece;

	if (at > sizeof(s->piece) - sizeof(__u64)) {
		/* What comes next lies above. Where the memory ends, what lies below is there. */
		w->piece = addr & ~63ull;
		if (bpf_probe_read_user(s->piece, sizeof(s->piece), (void *)w->piece) != 0) {
			w->piece = addr & ~(sizeof(s->piece) - 1);
			if (bpf_probe_read_user(s->piece, sizeof(s->piece), (void *)w->piece) !=
			    0) {
				w->piece = WALK_NO_PIECE;
				return 0;
			}
		}
		at = addr - w->piece;
	}
	if (at & 7 || at > sizeof(s->piece) - sizeof(__u64)) /* no stack that a compiler made */
		return bpf_probe_read_user(&w->word, sizeof(w->word), (void *)addr) == 0;
	w->word = s->piece[(at / sizeof(__u64)) & (WALK_PIECE - 1)];
	return 1;
}

static __always_inline bool read_stack(struct scratch *s, __u64 *to, __u64 addr)
{
	__u64 at = addr - s->walk.piece;

	if (at < sizeof(s->piece) && !(at & 7)) {
		barrier_var(at); /* or the compiler takes the mask out, and the verifier wants it */
		*to = s->piece[(at / sizeof(__u64)) & (WALK_PIECE - 1)];
		return true;
	}
	if (!walk_read(addr))
		return false;
	*to = s->walk.word;
	return true;
}

static __always_inline bool is_cached(const struct cached_rule *k, __u64 addr, __u32 version)
{
	return addr - k->addr < k->bytes && k->version == version;
}

/* How sure it is that a word is a return address. */
enum { NOT_RETURN, MAYBE_RETURN, IS_RETURN };

__noinline int walk_is_return(__u64 addr)
{
	struct scratch *s = get_scratch();
	__u64 before;

	if (!s || !walk_find_mapping(addr - 1) || !read_word(&before, addr - sizeof(before)))
		return NOT_RETURN;
	if (arch_is_call(before))
		return IS_RETURN;
	/* The JVM's interpreter makes calls by jumps. */
	if (!s->walk.file.page_count && s->walk.bias == UNWIND_KEEPS_FP)
		return MAYBE_RETURN;
	__u32 index = walk_find_rule(addr - 1 - s->walk.bias);
	const struct unwind_rule *r = bpf_map_lookup_elem(&rules, &index);
	/* What a signal handler returns to was never called. */
	return r && r->cfa == UNWIND_SIGNAL ? IS_RETURN : NOT_RETURN;
}

/* Whether it is one, or may be: also of what is known as a caller already. */
static __always_inline bool is_returned_to(struct scratch *s, __u64 pc)
{
	struct walk *w = &s->walk;

	return is_cached(&s->cached[w->next & (WALK_CACHED - 1)], pc - 1, w->version) ||
	       walk_is_return(pc);
}

#define STEP_WALKER                 struct scratch
#define STEP_READ(s, to, addr)      read_stack(s, to, addr)
#define STEP_READ_ONCE(s, to, addr) read_word(to, addr)
#define STEP_READ_WORD(s, addr)     walk_read(addr)
#define STEP_IS_RETURNED_TO(s, pc)  is_returned_to(s, pc)
#include "bpf/step.h"

/* Most words of a stack are small numbers, or addresses in this very stack. */
static __always_inline bool is_no_code(struct scratch *s, __u64 word)
{
	return word >> ARCH_USER_BITS || word < 65536 ||
	       word - s->walk.sp + STACK_NEAR < 2 * STACK_NEAR;
}

/* Whether a word of the stack is a return address, or cannot be read. */
static __always_inline int finds_return(__u64 at)
{
	struct scratch *s = get_scratch();
	__u64 word;

	if (!s || !read_stack(s, &word, at))
		return 1;
	return !is_no_code(s, word) && walk_is_return(word) == IS_RETURN;
}

/*
 * The verifier goes through each turn of a loop, and there are thousands: so long loops are two,
 * one in the other, in a function of its own. Loading takes a fifth of the time.
 */
#define WALK_SCAN_BYTES 128
#define WALK_SOME       64

/* Whether no word from sp up to w->until is a return address; looks at WALK_SCAN_BYTES at most. */
__noinline int walk_is_clear(__u64 sp)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	__u64 left = s->walk.until - sp;

	for (__u32 i = 0; i < WALK_SCAN_BYTES; i += 8) {
		if (i >= left)
			break;
		if (finds_return(sp + i))
			return 0;
	}
	return 1;
}

/* Whether the caller of the code at pc is above fp; then that is remembered of its address. */
static __always_inline bool prove_frame(struct scratch *s, struct unwind_rule *cached)
{
	struct walk *w = &s->walk;
	__u64 distance = w->fp - w->sp;
	__s16 place =
		w->exact ? 1 + (w->pc & (WALK_BLOCK - 1)) : 0; /* in what is known of a leaf */

	if (w->fp & 7 || w->sp & 7 || distance >= UNWIND_SCAN_BYTES)
		return false;
	if (cached->keeps_fp)
		return true;
	if (cached->fp_offset == place && (__u32)cached->cfa_offset == distance + 1)
		return true;
	w->until = w->fp;
	for (__u32 i = 0; i < UNWIND_SCAN_BYTES && i < distance; i += WALK_SCAN_BYTES)
		if (!walk_is_clear(w->sp + i))
			return false;
	cached->fp_offset = place;
	cached->cfa_offset = distance + 1;
	return true;
}

/* Whether a return address was left behind: see unwind.h. */
static __always_inline bool is_left_over(struct scratch *s, __u64 addr)
{
	__u64 before, called;

	if (!read_word(&before, addr - sizeof(before)))
		return false;
	called = arch_called(addr, before);
	if (!called || !walk_find_mapping(called))
		return false;
	__u32 index = walk_find_rule(called - s->walk.bias);
	const struct unwind_rule *r = bpf_map_lookup_elem(&rules, &index);
	return r && r->cfa != UNWIND_UNKNOWN && !r->must_follow_call;
}

/* Where the caller of a runtime's code that keeps frame pointers is, if its frame may not be there.
 */
__noinline int walk_find_shape(__u64 pc)
{
	struct scratch *s = get_scratch();
	__u64 word;
	if (!s)
		return ARCH_SHAPE_UNKNOWN;

	if (!read_stack(s, &word, s->walk.sp))
		return ARCH_SHAPE_UNKNOWN;
	int found = is_no_code(s, word) ? NOT_RETURN : walk_is_return(word);
	if (found) {
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(pc - 8)) != 0)
			return ARCH_SHAPE_UNKNOWN;
		enum arch_frame bare = arch_frame(s->words);
		if (bare == ARCH_BEFORE_FRAME ||
		    (bare == ARCH_AFTER_FRAME && found == IS_RETURN && s->walk.exact))
			return ARCH_SHAPE_BARE;
		if (found == MAYBE_RETURN && bare == ARCH_IN_FRAME)
			return ARCH_SHAPE_FRAME;
		if (found == MAYBE_RETURN || !is_left_over(s, word))
			return ARCH_SHAPE_UNKNOWN;
	}
	return ARCH_SHAPE_FRAME;
}

/* Code without rows: see unwind.h. A chain that ends (0) may be just a value in fp. */
static __always_inline int step_without_row(struct scratch *s, struct unwind_rule *cached)
{
	struct walk *w = &s->walk;
	__u64 code, fp = w->fp, sp = w->sp;
	__u32 shape = ARCH_SHAPE_FRAME, out = 0;

	if ((w->exact || !(cached->cfa_offset | cached->keeps_fp)) && read_word(&code, w->pc - 1)) {
		out = arch_epilogue(code);
		if (w->exact)
			shape = arch_shape(code);
	}
	if (out) {
		sp += (out & 0xff) - 1;
		shape = out & ARCH_POPS_FP ? ARCH_SHAPE_SAVED : ARCH_SHAPE_BARE;
	}
	if (shape == ARCH_SHAPE_FRAME && cached->keeps_fp &&
	    (w->exact || sp == open_event(s)->sp + 8))
		shape = walk_find_shape(w->pc);
	if (shape >= ARCH_SHAPE_UNKNOWN)
		return WIRE_WALK_NO_ROW;
	if (shape == ARCH_SHAPE_FRAME) {
		if (!prove_frame(s, cached))
			return WIRE_WALK_NO_ROW;
		sp = fp + 8;
	}
	if (shape == ARCH_SHAPE_SAVED)
		sp += 8;
	int result = step_to_return(s, shape, sp);
	if (result)
		return result;
	if (out && !w->exact) { /* as good as a row */
		cached->cfa = UNWIND_SP;
		cached->cfa_offset = sp + 8 - w->sp;
		cached->fp = out & ARCH_POPS_FP ? UNWIND_FP_AT_CFA : UNWIND_FP_SAME;
		cached->fp_offset = out & ARCH_POPS_FP ? -16 : 0;
		cached->must_follow_call = 1;
	}
	w->kept_at = UNWIND_NOWHERE;
	w->sp = sp + 8;
	w->exact = 0;
	return 0;
}

/* The goroutine that Go's scheduler runs something for, on this thread; 0 if it cannot be read. */
static __always_inline __u64 find_goroutine(struct walk *w, const struct unwind_rule *r)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 tls = ARCH_TLS(task);

	if (!read_word(&w->word, tls + (__s64)r->cfa_offset) ||
	    !read_word(&w->word, w->word + UNWIND_GO_M) ||
	    !read_word(&w->word, w->word + (__s64)r->fp_offset))
		return 0;
	return w->word;
}

/* From g0's stack to that of a goroutine; fp is as it is. Nothing on our stack: it is small. */
static __always_inline int step_go(struct scratch *s, const struct unwind_rule *r)
{
	struct walk *w = &s->walk;
	__u64 *sp = s->words, *pc = s->words + 1;

	*pc = 0;
	if (r->cfa == UNWIND_GO_CGO) {
		if (!read_word(&w->word, w->sp + (__s64)r->fp_offset) ||
		    !read_word(sp, w->word + UNWIND_GO_STACK_HI) ||
		    !read_word(&w->word, w->sp + (__s64)r->cfa_offset))
			return WIRE_WALK_FAULT;
		*sp -= w->word;
	} else {
		__u64 g = find_goroutine(w, r);
		if (!g || bpf_probe_read_user(sp, 2 * sizeof(*sp), (void *)(g + UNWIND_GO_SP)) != 0)
			return WIRE_WALK_FAULT;
	}
	if (r->cfa != UNWIND_GO_GROW) { /* sp is at the return address */
		if (!read_word(pc, *sp))
			return WIRE_WALK_FAULT;
		*sp += 8;
	}
	w->sp = *sp;
	w->pc = *pc;
	w->exact = 0;
	return w->pc ? 0 : WIRE_WALK_FAULT;
}

/*
 * The steps that few frames take, apart from the code of all others, which has left the cache as
 * well: how the last frame's rule says.
 */
__noinline int walk_leap(int frame)
{
	struct scratch *s = get_scratch();
	if (!s || frame < 0)
		return WIRE_WALK_FAULT;
	struct walk *w = &s->walk;
	struct unwind_rule *r = &s->cached[w->last & (WALK_CACHED - 1)].rule;

	switch (r->cfa) {
	case UNWIND_UNKNOWN:
		return step_without_row(s, r);
	case UNWIND_FRAME:
		return step_frame(s);
	case UNWIND_END:
		return WIRE_WALK_COMPLETE;
	case UNWIND_SIGNAL:
		if (frame) /* nothing called it: its first instruction is returned to */
			*user_frame_at(s, w->frames - 1) = w->pc;
		return step_signal(s);
	case UNWIND_GO_CGO:
	case UNWIND_GO_SYSTEM:
	case UNWIND_GO_GROW:
		return step_go(s, r);
	default:
		return WIRE_WALK_NO_ROW;
	}
}

/* The CFA by a rule that few frames have, into w->word; 0, else enum wire_walk. */
__noinline int walk_find_cfa(int frame)
{
	struct scratch *s = get_scratch();
	if (!s || frame < 0)
		return WIRE_WALK_FAULT;
	struct walk *w = &s->walk;
	const struct unwind_rule *r = &s->cached[w->last & (WALK_CACHED - 1)].rule;

	return step_find_cfa(s, r);
}

static __always_inline int step(struct scratch *s, const struct unwind_rule *r, int frame)
{
	struct walk *w = &s->walk;
	__u64 cfa;
	bool plain = true;

	if (r->cfa == UNWIND_SP) {
		cfa = w->sp + (__s64)r->cfa_offset;
	} else if (r->cfa == UNWIND_FP) {
		cfa = w->fp + (__s64)r->cfa_offset;
	} else {
		if (!step_has_cfa(r))
			return walk_leap(frame);
		int result = walk_find_cfa(frame);
		if (result)
			return result;
		cfa = w->word;
		plain = r->cfa == UNWIND_LEAF || r->cfa == UNWIND_KEPT;
	}
	return step_by_cfa(s, r, cfa, plain);
}

static __always_inline __u32 leaf_place(__u64 addr)
{
	return (addr / WALK_BLOCK * 0x9e3779b97f4a7c15ull) >> (64 - WALK_LEAF_BITS);
}

/* Writes into k what to do at an address; 0, else enum wire_walk. */
static __always_inline int look_up(struct scratch *s, struct cached_rule *k, __u64 addr)
{
	struct walk *w = &s->walk;

	if (!walk_find_mapping(addr))
		return WIRE_WALK_NO_MAPPING;
	if (w->missing) {
		w->frames++; /* it is code, whatever comes before it */
		if (w->missing == UNWIND_PENDING)
			open_event(s)->flags |= WIRE_NO_TABLE;
		return WIRE_WALK_NO_ROW;
	}
	__u32 index = walk_find_rule(addr - w->bias);
	struct unwind_rule *r = bpf_map_lookup_elem(&rules, &index);
	if (!r)
		return WIRE_WALK_NO_ROW;
	__u64 from = addr, to = addr + 1;
	if (w->exact) {
		from = MAX(MAX(addr & ~(WALK_BLOCK - 1ull), addr - w->before), w->low);
		to = MIN(MIN((addr | (WALK_BLOCK - 1ull)) + 1, addr + w->after), w->high);
	}
	k->addr = from;
	k->bytes = to - from;
	k->version = w->version;
	k->rule = *r;
	if (!w->file.page_count && w->bias == UNWIND_KEEPS_FP)
		k->rule.keeps_fp = 1;
	return 0;
}

/* Makes an address known, and w->next its place; 0, else enum wire_walk. */
__noinline int walk_find(__u64 addr)
{
	struct scratch *s = get_scratch();
	if (!s)
		return WIRE_WALK_FAULT;
	struct walk *w = &s->walk;
	if (w->exact)
		return look_up(s, &s->cached[w->next & (WALK_CACHED - 1)], addr);

	__u64 hash = (addr ^ ((__u64)w->version << 32)) * 0x9e3779b97f4a7c15ull;
	__u16 *at = &s->caller_at[hash >> (63 - WALK_CALLER_BITS)];
	w->next = *at;
	if (!is_cached(&s->cached[w->next & (WALK_CACHED - 1)], addr, w->version)) {
		w->next = WALK_LEAVES + (s->oldest & (WALK_CALLERS - 1));
		struct cached_rule *k = &s->cached[w->next & (WALK_CACHED - 1)];
		int result = look_up(s, k, addr);
		if (result)
			return result;
		k->next = WALK_LEAVES + (++s->oldest & (WALK_CALLERS - 1));
		*at = w->next;
	}
	s->cached[w->last & (WALK_CACHED - 1)].next = w->next;
	return 0;
}

/* One frame: 0 to go on, else enum wire_walk. The frame itself is kept, if it is code. */
__noinline int walk_step(int frame)
{
	struct scratch *s = get_scratch();
	if (!s || frame < 0)
		return WIRE_WALK_FAULT;
	struct walk *w = &s->walk;

	/* A return address stands after its call, which may be the last of its function. */
	__u64 addr = w->pc - !w->exact;
	*user_frame_at(s, w->frames) = addr;
	if (w->exact)
		w->next = leaf_place(addr);
	struct cached_rule *k = &s->cached[w->next & (WALK_CACHED - 1)];
	if (!is_cached(k, addr, w->version)) {
		int result = walk_find(addr);
		if (result)
			return result;
		k = &s->cached[w->next & (WALK_CACHED - 1)];
	}
	w->last = w->next;
	w->next = k->next;
	w->frames++;
	return step(s, &k->rule, frame);
}

/* Whose mappings to walk by, into s->walk; 0 if none are known of this program. */
__noinline int walk_find_process(__u32 pid)
{
	struct scratch *s = get_scratch();
	__u32 bucket = unwind_bucket(pid);
	struct unwind_bucket *b = bpf_map_lookup_elem(&processes, &bucket);
	if (!s || !b)
		return 0;
	struct walk *w = &s->walk;
	const struct wire_event *h = open_event(s);

#pragma clang loop unroll(disable)
	for (int i = 0; i < UNWIND_BUCKET_SLOTS; i++) {
		volatile struct unwind_process *p = &b->at[i];
		if (!p->pid)
			return 0;
		__u32 version = ARCH_LOAD_ACQUIRE(&p->version);
		w->version = version;
		if (p->pid != pid || !version)
			continue;
		bool same =
			p->exec_id == h->exec_id && (pid != h->pid || p->start == h->process_start);
		w->first = p->first;
		w->count = p->count;
		w->context = p->context;
		ARCH_READ_BARRIER();
		return same && p->version == version;
	}
	return 0;
}

/*
 * What the current thread works on, by its own context (process/thread_context.h): 1, and the words
 * of struct wire_span are in s->words; else 0. The thread is interrupted, so it does not change.
 */
__noinline int walk_find_span(__u32 at)
{
	struct scratch *s = get_scratch();
	struct unwind_context *c = bpf_map_lookup_elem(&contexts, &at);
	if (!s || !c)
		return 0;
	struct walk *w = &s->walk;
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 from = ARCH_TLS(task);

	if (c->module) {
		if (!read_word(&w->word, from + sizeof(__u64)) ||
		    !read_word(&w->word, w->word + (__u64)c->module * c->entry_bytes))
			return 0;
		from = w->word;
	}
	if (!read_word(&w->word, from + c->offset) || !w->word)
		return 0;
	/* Trace and span, then a byte that is 1 if they are true. */
	if (bpf_probe_read_user(s->words, WIRE_SPAN_WORDS * sizeof(__u64) + 1, (void *)w->word))
		return 0;
	return (__u8)s->words[WIRE_SPAN_WORDS] == 1 && (s->words[0] | s->words[1]) && s->words[2];
}

/* Before a walk, and where there is none: what an earlier one found belongs to another stack. */
static __always_inline void forget_returns(struct walk *w)
{
#ifdef WALK_RETURNS
	w->return_count = 0;
#else
	(void)w;
#endif
}

/* Where the frame that was stepped out of had its return address, for those who asked for that. */
static __always_inline void note_return(void)
{
#ifdef WALK_RETURNS
	struct scratch *s = get_scratch();
	if (!s)
		return;
	struct walk *w = &s->walk;
	__u64 at = (w->sp + ARCH_RETURN_AT - open_event(s)->sp) / sizeof(__u64);
	__u32 n = w->return_count;

	if (n >= WALK_RETURNS || at >= WALK_PIECE)
		return;
	barrier_var(n);
	w->return_at[n < WALK_RETURNS ? n : 0] = at;
	w->return_count = n + 1;
#endif
}

/* The next frames: 0 to go on, else enum wire_walk. */
__noinline int walk_some(int frame)
{
	for (int i = 0; i < WALK_SOME; i++) {
		int result = walk_step(frame + i);
		if (result)
			return result;
		note_return();
	}
	return 0;
}

/* Walks from the registers in w. */
static __always_inline int walk_user(struct walk *w)
{
	w->low = w->high = 0;
	w->piece = WALK_NO_PIECE;
	w->frames = 0;
	w->kept_at = 0;
	for (int i = 0; i < WIRE_WALK_FRAMES; i += WALK_SOME) {
		int result = walk_some(i);
		if (result)
			return result;
	}
	return WIRE_WALK_CUT;
}
