#include "unwind/unwinder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "unwind/table_builder.h"
#include "unwind/walk.h"

#define MAX_BYTES         (24u << 20)
#define UNUSED_NS         (300ull * 1000000000) /* a table unused for this long is dropped */
#define RETIRED_MAX       256 /* old versions of mappings that queued samples may refer to */
#define GRACE_EVERY_NS    1000000000ull
#define REMAPPED_PAUSE_NS (10ull * 1000000000)
#define HALVE_EVERY_NS    10000000000ull
#define ROOM_SHARE        16 /* evict 1/16 of all rows more than needed */
#define ARGUMENTS_MAX     65536
#define JIT_BYTES_MIN     (4u << 20) /* of text: all known JITs are larger */
#define PAUSE_MIN_NS      1000000000ull
#define PAUSE_MAX_NS      (300ull * 1000000000)

enum table_state {
	TABLE_NONE,
	TABLE_WANTED, /* being made */
	TABLE_READY,
	TABLE_PAUSED, /* evicted to make room; may come back later */
	TABLE_EMPTY,  /* the file has no rows: frame pointers are used */
	TABLE_FAILED, /* unreadable or too large: walks end there, without guessing */
};

struct table { /* of a file */
	enum table_state state;
	uint32_t slot;
	uint32_t rows;
	uint64_t used_ns; /* when a walk last used it */
	uint64_t uses;    /* by walks, also by those that ended because it was missing; halved
			     regularly */
	uint64_t made_ns;
	uint64_t pause_ns; /* length of the pause after eviction; 0: never evicted */
	uint64_t again_ns; /* when the pause ends */
	struct table_builder_segment segments[TABLE_BUILDER_SEGMENTS_MAX];
	uint32_t segment_count;
	bool is_v8;
};

/* The mappings of a process that the BPF walk has. */
struct space {
	struct unwinder *owner;
	struct process *process; /* this is its hook data */
	struct maps *maps;       /* as installed; NULL: not installed */
	uint32_t first, count, version;
	struct unwind_mapping *run;
	uint64_t exec, installed_exec;
	/* Whether its JIT code keeps frame pointers: V8's does, and a JVM's with an option. */
	bool keeps_fp, jvm_checked, jvm_keeps_fp, installed_keeps_fp;
	bool runs_jit_code; /* it was seen to run JIT code */
	bool jit_pending;   /* … and the file that may be its JIT is still being read */
	bool wanted;        /* sampled, and not installed, or out of date */
	struct unwind_context context; /* where its threads say what they work on … */
	uint32_t context_at;           /* … among those of the BPF walk; 0: nowhere */
	uint32_t installed_context;
	struct space *prev, *next;
};

struct retired {
	uint32_t version;
	struct maps *maps;
};

struct unwinder {
	struct bpf_tables *tables;
	struct table_builder *builder;
	struct processes *processes;
	struct table *files; /* by id of struct mapped_files; [0] is the vdso */
	uint32_t file_cap;
	struct space *spaces;
	struct retired retired[RETIRED_MAX];
	uint32_t retired_at;
	uint32_t version;
	uint64_t now, grace_ns, halved_ns;
	struct unwinder_stats stats;
};

int unwinder_new(const struct sampler_maps *maps, struct processes *ps,
		 const struct unwinder_options *o, struct unwinder **ret)
{
	struct unwinder *u = mem_alloc(sizeof(*u));
	int r = bpf_tables_new(maps, o->max_bytes ? o->max_bytes : MAX_BYTES, &u->tables);

	if (r) {
		free(u);
		return r;
	}
	u->processes = ps;
	u->builder = table_builder_new(o->cache_dir);
	*ret = u;
	return 0;
}

void unwinder_free(struct unwinder *u)
{
	if (!u)
		return;
	for (struct space *s = u->spaces; s; s = s->next) {
		s->owner = NULL; /* the process frees it later */
		maps_unref(s->maps);
		s->maps = NULL;
	}
	for (size_t i = 0; i < RETIRED_MAX; i++)
		maps_unref(u->retired[i].maps);
	table_builder_free(u->builder);
	bpf_tables_free(u->tables);
	free(u->files);
	free(u);
}

/* ---- tables of files ---------------------------------------------------------------------------
 */

static struct table *table_of(struct unwinder *u, uint32_t file)
{
	if (file >= u->file_cap) {
		uint32_t cap = MAX(64, file * 2);
		u->files = mem_resize_array(u->files, cap, sizeof(*u->files));
		memset(u->files + u->file_cap, 0, (cap - u->file_cap) * sizeof(*u->files));
		u->file_cap = cap;
	}
	return &u->files[file];
}

#define NO_FILE UINT32_MAX

/* The file of a mapping: 0 is the vdso, NO_FILE none. */
static uint32_t file_of(struct unwinder *u, struct process *p, struct mapping *m)
{
	if (process_is_vdso(u->processes, m))
		return 0;
	uint32_t file = process_file(u->processes, p, m);
	return file ? file : NO_FILE;
}

static void resolve_file(struct unwinder *u, struct process *p, struct mapping *m)
{
	if (m->unwind_file)
		return;
	uint32_t file = file_of(u, p, m);
	m->unwind_file = file == NO_FILE ? NO_FILE : file + 1;
}

static void request_table(struct unwinder *u, uint32_t file)
{
	struct table *t = table_of(u, file);
	int fd = -1;

	if (file) {
		fd = mapped_files_open(processes_mapped_files(u->processes), file);
		if (fd < 0) {
			t->state = TABLE_FAILED;
			u->stats.tables_failed++;
			return;
		}
	}
	t->state = TABLE_WANTED;
	table_builder_want(u->builder, file, fd);
}

/* The difference between addresses in memory and in the file; false: not in a segment. */
static bool bias_of(const struct table *t, const struct mapping *m, uint64_t *ret)
{
	for (uint32_t i = 0; i < t->segment_count; i++) {
		const struct table_builder_segment *s = &t->segments[i];
		/* A mapping starts at its segment, rounded down to a page. */
		if (m->offset + (m->end - m->start) > s->offset &&
		    m->offset < s->offset + s->size) {
			*ret = m->start - m->offset - (s->vaddr - s->offset);
			return true;
		}
	}
	return false;
}

/* Writes one mapping for the BPF walk. */
static void write_mapping(struct unwinder *u, const struct space *s, struct unwind_mapping *to,
			  const struct mapping *m)
{
	uint32_t slot = UNWIND_PENDING;
	uint64_t bias = 0;

	if (m->unwind_file == NO_FILE) {
		slot = s->jit_pending ? UNWIND_PENDING : 0;
	} else if (m->unwind_file) {
		const struct table *t = table_of(u, m->unwind_file - 1);
		if (t->state == TABLE_EMPTY)
			slot = 0;
		else if (t->state == TABLE_FAILED || t->state == TABLE_PAUSED)
			slot = UNWIND_LOST;
		else if (t->state == TABLE_READY)
			slot = bias_of(t, m, &bias) ? t->slot : 0;
	}
	to->start = m->start;
	to->end = m->end;
	if (m->unwind_file == NO_FILE)
		bias = s->keeps_fp ? UNWIND_KEEPS_FP : 0;
	if (slot < UNWIND_LOST && (slot || m->unwind_file == NO_FILE))
		/* Otherwise it must not change: a walk that still sees the old file may read it. */
		__atomic_store_n(&to->bias, bias, __ATOMIC_RELAXED);
	__atomic_store_n(&to->file, slot, __ATOMIC_RELEASE);
}

/* Updates the installed mappings of a file whose table was added or removed. */
static void publish(struct unwinder *u, uint32_t file)
{
	for (struct space *s = u->spaces; s; s = s->next)
		for (size_t i = 0; s->maps && i < s->maps->count; i++)
			if (s->maps->list[i].unwind_file == file + 1) {
				write_mapping(u, s, &s->run[i], &s->maps->list[i]);
				/* How its JIT code is to be walked may be known now. */
				s->wanted |= s->jit_pending || u->files[file].is_v8;
			}
}

static void evict(struct unwinder *u, uint32_t file, enum table_state state)
{
	struct table *t = &u->files[file];

	t->state = state;
	publish(u, file);
	bpf_tables_drop(u->tables, t->slot);
	u->stats.tables_evicted++;
}

static double benefit(const struct table *t)
{
	return (double)t->uses / (double)MAX(t->rows, 1u);
}

static void put_off(struct unwinder *u, struct table *t)
{
	t->pause_ns = t->pause_ns ? MIN(2 * t->pause_ns, PAUSE_MAX_NS) : PAUSE_MIN_NS;
	t->again_ns = u->now + t->pause_ns;
}

static uint32_t find_least(const struct unwinder *u)
{
	uint32_t least = NO_FILE;

	for (uint32_t i = 0; i < u->file_cap; i++)
		if (u->files[i].state == TABLE_READY &&
		    (least == NO_FILE || benefit(&u->files[i]) < benefit(&u->files[least])))
			least = i;
	return least;
}

/*
 * Evicts the tables that are used least for their size. Some more than needed, since each time
 * costs a grace period of the kernel. False if there is none.
 */
static bool make_room(struct unwinder *u, uint32_t rows)
{
	uint64_t wanted = rows + bpf_tables_rows_max(u->tables) / ROOM_SHARE;
	uint64_t room = bpf_tables_rows_free(u->tables);
	uint32_t file;
	bool any = false;

	while ((!any || room < wanted) && (file = find_least(u)) != NO_FILE) {
		struct table *t = &u->files[file];
		if (u->now - t->made_ns > PAUSE_MAX_NS)
			t->pause_ns = 0; /* it was there for long: start over */
		put_off(u, t);
		evict(u, file, TABLE_PAUSED);
		room += t->rows;
		any = true;
	}
	bpf_tables_grace(u->tables);
	return any;
}

/* Whether an evicted table is used more by now than those that would have to go for it. */
static bool is_worth_room(const struct unwinder *u, const struct table *t)
{
	uint64_t rows = bpf_tables_rows_free(u->tables);

	for (uint32_t i = 0; i < u->file_cap; i++)
		if (u->files[i].state == TABLE_READY && benefit(&u->files[i]) < benefit(t))
			rows += u->files[i].rows;
	return rows >= t->rows;
}

/* Lets evicted tables come back: they are built when a walk next reaches their file. */
static void end_pauses(struct unwinder *u)
{
	for (uint32_t i = 0; i < u->file_cap; i++) {
		struct table *t = &u->files[i];
		if (t->state != TABLE_PAUSED)
			continue;
		bool over = u->now >= t->again_ns;
		if (t->used_ns + UNUSED_NS < u->now) { /* forgotten: start over */
			t->pause_ns = 0;
			t->state = TABLE_NONE;
			publish(u, i);
		} else if (bpf_tables_rows_free(u->tables) >= t->rows ||
			   (over && is_worth_room(u, t))) {
			t->state = TABLE_NONE;
			publish(u, i);
		} else if (over) {
			put_off(u, t);
			u->stats.tables_put_off++;
		}
	}
}

static void take_table(struct unwinder *u, struct table_builder_result *r)
{
	struct table *t = table_of(u, r->file);
	int err = r->error;

	/* A file that is no program for this machine may contain JIT code. */
	t->state = err == -ENOENT || err == -EINVAL || err == -ENOTSUP ? TABLE_EMPTY : TABLE_FAILED;
	bpf_tables_put_rules(u->tables, r->first_rule, r->rules, r->rule_count);
	while (!err && (err = bpf_tables_put(u->tables, r->table, &t->slot)) == -ENOSPC &&
	       make_room(u, r->table->row_count))
		err = 0;
	if (!err) {
		t->state = TABLE_READY;
		t->rows = r->table->row_count;
		t->uses++;
		t->used_ns = t->made_ns = u->now;
		t->segment_count = r->segment_count;
		t->is_v8 = r->is_v8;
		memcpy(t->segments, r->segments, sizeof(t->segments));
		u->stats.tables_made++;
	} else {
		u->stats.tables_failed++;
	}
	publish(u, r->file);
	table_builder_result_done(r);
}

/* ---- mappings of programs -----------------------------------------------------------------------
 */

static void retire(struct unwinder *u, uint32_t version, struct maps *maps)
{
	struct retired *old = &u->retired[u->retired_at++ % RETIRED_MAX];

	maps_unref(old->maps);
	*old = (struct retired){version, maps};
}

static void space_uninstall(struct space *s)
{
	struct unwinder *u = s->owner;

	if (!s->maps)
		return;
	bpf_tables_remove_process(u->tables, s->process->pid);
	bpf_tables_drop_mappings(u->tables, s->first, s->count);
	retire(u, s->version, TAKE_PTR(s->maps));
}

static void space_free(void *data)
{
	struct space *s = data;

	if (s->owner) {
		space_uninstall(s);
		if (s->context_at)
			bpf_tables_drop_context(s->owner->tables, s->context_at);
		if (s->prev)
			s->prev->next = s->next;
		else
			s->owner->spaces = s->next;
		if (s->next)
			s->next->prev = s->prev;
	}
	free(s);
}

static struct space *space_of(struct unwinder *u, struct process *p)
{
	struct process_hook *hook = &p->hooks[PROCESS_SPACE];

	if (!hook->data) {
		struct space *s = mem_alloc(sizeof(*s));
		s->owner = u;
		s->process = p;
		s->next = u->spaces;
		if (s->next)
			s->next->prev = s;
		u->spaces = s;
		*hook = (struct process_hook){s, space_free};
	}
	return hook->data;
}

/* Whether a JVM has -XX:+PreserveFramePointer in its arguments or environment. */
static bool jvm_preserves_fp(uint32_t pid)
{
	static const char option[] = "-XX:+PreserveFramePointer";
	static const char *const files[] = {"cmdline", "environ"};
	char path[64], text[ARGUMENTS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "/proc/%u/%s", pid, files[i]);
		CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text));
		if (len > 0 && memmem(text, (size_t)len, option, sizeof(option) - 1))
			return true;
	}
	return false;
}

/* Whether a mapped file may be a JIT, and its table, which will tell, is still being built. */
static bool is_jit_pending(struct unwinder *u, struct process *p, struct mapping *m)
{
	if (m->end - m->start < JIT_BYTES_MIN)
		return false;
	resolve_file(u, p, m);
	if (m->unwind_file == NO_FILE)
		return false;
	uint32_t file = m->unwind_file - 1;
	if (table_of(u, file)->state == TABLE_NONE && !table_of(u, file)->made_ns)
		request_table(u, file);
	return table_of(u, file)->state == TABLE_WANTED;
}

/* Finds out how to walk the JIT code of a process. */
static void check_jit(struct unwinder *u, struct space *s)
{
	const struct maps *maps = s->process->maps;

	s->keeps_fp = s->jvm_keeps_fp;
	s->jit_pending = false;
	for (size_t i = 0; maps && i < maps->count; i++) {
		struct mapping *m = &maps->list[i];
		if (s->runs_jit_code && is_jit_pending(u, s->process, m))
			s->jit_pending = true;
		if (m->unwind_file == NO_FILE)
			continue;
		if (m->unwind_file && table_of(u, m->unwind_file - 1)->is_v8)
			s->keeps_fp = true;
		const char *name = strrchr(process_path(u->processes, m), '/');
		if (s->jvm_checked || !name || strcmp(name, "/libjvm.so") != 0)
			continue;
		s->jvm_checked = true;
		s->jvm_keeps_fp = jvm_preserves_fp(s->process->pid);
		s->keeps_fp |= s->jvm_keeps_fp;
	}
	s->jit_pending &= !s->keeps_fp;
}

static void space_install(struct unwinder *u, struct space *s)
{
	struct process *p = s->process;
	struct maps *maps = maps_ref(p->maps);
	struct unwind_mapping *run;
	uint32_t first;

	if (maps->count == 0 ||
	    bpf_tables_take_mappings(u->tables, (uint32_t)maps->count, &first, &run) != 0) {
		u->stats.spaces_full += maps->count != 0;
		maps_unref(maps);
		return;
	}
	for (size_t i = 0; i < maps->count; i++)
		write_mapping(u, s, &run[i], &maps->list[i]);

	struct unwind_process value = {
		.pid = p->pid,
		.start = p->start,
		.exec_id = s->exec,
		.first = first,
		.count = (uint16_t)maps->count,
		.context = (uint16_t)s->context_at,
		.version = ++u->version ? u->version : ++u->version,
	};
	if (bpf_tables_set_process(u->tables, &value) != 0) {
		bpf_tables_drop_mappings(u->tables, first, value.count);
		maps_unref(maps);
		u->stats.spaces_full++;
		return;
	}
	if (s->maps) { /* nothing refers to the old ones any more */
		bpf_tables_drop_mappings(u->tables, s->first, s->count);
		retire(u, s->version, s->maps);
	}
	s->maps = maps;
	s->run = run;
	s->first = first;
	s->count = value.count;
	s->version = value.version;
	s->installed_exec = value.exec_id;
	s->installed_keeps_fp = s->keeps_fp;
	s->installed_context = value.context;
}

/*
 * A process that has just mapped a library over another will probably do so again. Each time, the
 * BPF walk uses the old mappings until the next drain, and the stack is cut. If it has no mappings
 * of the process at all, samples come with a copy of the stack and are walked here, correctly.
 */
static bool was_remapped(const struct process *p, uint64_t now)
{
	return p->replaced_ns && now < p->replaced_ns + REMAPPED_PAUSE_NS;
}

/* Brings the installed mappings of a process up to date. */
static void space_update(struct unwinder *u, struct space *s)
{
	/* A new version also discards what walks remember from before keeps_fp was known. */
	if (s->maps != s->process->maps || s->installed_exec != s->exec ||
	    s->installed_keeps_fp != s->keeps_fp || s->installed_context != s->context_at)
		space_install(u, s);
	else
		for (size_t i = 0; s->maps && i < s->maps->count; i++)
			write_mapping(u, s, &s->run[i], &s->maps->list[i]);
}

/* The mappings of a version; NULL if that is too old. */
static struct maps *maps_of_version(const struct unwinder *u, const struct space *s,
				    uint32_t version)
{
	if (s->maps && s->version == version)
		return s->maps;
	for (size_t i = 0; i < RETIRED_MAX; i++)
		if (u->retired[i].maps && u->retired[i].version == version)
			return u->retired[i].maps;
	for (const struct space *other = u->spaces; other; other = other->next)
		if (other->maps && other->version == version)
			return other->maps; /* a parent's */
	return NULL;
}

/* ---- walks ------------------------------------------------------------------------------------
 */

static bool same_mapping(const struct mapping *a, const struct mapping *b)
{
	return a && b && a->start - a->offset == b->start - b->offset && a->path == b->path &&
	       a->inode == b->inode && a->device == b->device &&
	       /* 0 if read from /proc, which does not have it. */
	       (a->generation == b->generation || !a->generation || !b->generation);
}

static void note_use(struct unwinder *u, const struct mapping *m)
{
	if (m->unwind_file && m->unwind_file != NO_FILE) {
		struct table *t = table_of(u, m->unwind_file - 1);
		t->used_ns = u->now;
		t->uses++;
	}
}

/* The i-th frame; the frames near the root are a ring if some were left out. */
static uint64_t frame_of(const struct wire_event *s, const uint64_t *user, unsigned i)
{
	if (s->left_out && i >= WIRE_LEAF_FRAMES)
		i = WIRE_LEAF_FRAMES + (i - WIRE_LEAF_FRAMES + s->left_out) % WIRE_ROOT_FRAMES;
	return user[i];
}

/* Checks a walk of the BPF program: each frame must be in a mapping that was right at the time. */
static void check_walk(struct unwinder *u, struct space *space, struct maps *maps,
		       const struct wire_event *s, const uint64_t *user, struct unwound *ret)
{
	struct maps *installed = maps_of_version(u, space, s->mappings_version);
	const struct mapping *m = NULL;
	unsigned good = 0;

	for (; good < s->user_frames; good++) {
		uint64_t addr = ret->frames[good] = frame_of(s, user, good);
		bool is_same = m && addr - m->start < m->end - m->start; /* mostly */
		if (!is_same)
			m = maps_find(maps, addr);
		if (!installed ||
		    (installed != maps && !same_mapping(m, maps_find(installed, addr))))
			break;
		if (!is_same)
			note_use(u, m ? m : maps_find(installed, addr));
	}
	ret->walk = s->walk;
	if (good < s->user_frames) {
		u->stats.mistrusted++;
		ret->walk = WIRE_WALK_NO_MAPPING;
		/* This frame was found by the right rules: only its callers cannot be trusted. */
		good += good == 0 || maps_find(maps, ret->frames[good]);
	}
	ret->count = good;
	ret->left_out = good > WIRE_LEAF_FRAMES ? s->left_out : 0;
	bool in_jit_code = m && m->unwind_file == NO_FILE && ret->walk == WIRE_WALK_NO_ROW;
	space->wanted |= installed != maps || (in_jit_code && !space->runs_jit_code);
	space->runs_jit_code |= in_jit_code;
}

struct rule_context {
	struct unwinder *u;
	struct process *process;
	struct maps *maps;
	bool last;
};

static int find_rule(void *ctx, uint64_t addr, const struct unwind_rule **ret)
{
	static const struct unwind_rule missing = {.cfa = UNWIND_UNSUPPORTED};
	static const struct unwind_rule by_fp = {.cfa = UNWIND_UNKNOWN, .keeps_fp = 1};
	struct rule_context *c = ctx;
	struct unwinder *u = c->u;
	struct mapping *m = maps_find(c->maps, addr);
	if (!m)
		return -ENOENT;

	resolve_file(u, c->process, m);
	if (m->unwind_file == NO_FILE) {
		struct space *s = space_of(u, c->process);
		if (!s->runs_jit_code) {
			s->runs_jit_code = true;
			check_jit(u, s);
		}
		*ret = s->keeps_fp ? &by_fp : NULL;
		return s->jit_pending && !c->last ? -EAGAIN : 0;
	}
	uint32_t file = m->unwind_file - 1;
	if (table_of(u, file)->state == TABLE_NONE)
		request_table(u, file);
	const struct table *t = table_of(u, file);
	uint64_t bias;
	switch (t->state) {
	case TABLE_READY:
		note_use(u, m);
		*ret = bias_of(t, m, &bias) ? bpf_tables_find(u->tables, t->slot, addr - bias)
					    : NULL;
		return 0;
	case TABLE_EMPTY:
		*ret = NULL;
		return 0;
	case TABLE_PAUSED:
		note_use(u, m);
		*ret = &missing;
		return 0;
	case TABLE_FAILED:
		*ret = &missing;
		return 0;
	default:
		*ret = &missing;
		return c->last ? 0 : -EAGAIN;
	}
}

/* Reads code of a process, if that is still running. */
/* NOLINTNEXTLINE(readability-non-const-parameter): process_vm_readv() writes to it. */
static bool read_code(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct rule_context *c = ctx;
	const struct mapping *m = maps_find(c->maps, addr);
	struct iovec to = {ret, sizeof(*ret)}, from = {(void *)addr, sizeof(*ret)}; /* NOLINT */

	return m && m->end - addr >= sizeof(*ret) && !c->process->exited &&
	       process_vm_readv((pid_t)c->process->pid, &to, 1, &from, 1, 0) == sizeof(*ret);
}

/* Whether this rule is the same as a step by frame pointers. */
static bool keeps_frame_pointer(const struct unwind_rule *r)
{
	return r && r->cfa == UNWIND_FP && r->cfa_offset == 16 && r->fp == UNWIND_FP_AT_CFA &&
	       r->fp_offset == -16;
}

/*
 * Takes the kernel's own walk by frame pointers, where there is nothing better. Its return
 * addresses are right as long as the code keeps frame pointers. 0, or -EAGAIN while a table is
 * being built.
 */
static int take_frame_pointers(struct rule_context *c, const struct wire_event *s,
			       const uint64_t *user, struct unwound *ret)
{
	ret->walk = s->walk;
	ret->count = 0;
	for (unsigned i = 0; i < s->user_frames; i++) {
		bool exact = i == 0 && !(s->flags & WIRE_SYSCALL);
		const struct unwind_rule *r;
		if (!ARCH_HAS_WALK) { /* there is nothing better; never counts as complete */
			if (!maps_find(c->maps, user[i] - !exact))
				break;
			ret->frames[ret->count++] = user[i] - !exact;
			continue;
		}
		int err = find_rule(c, user[i] - !exact, &r);
		if (err == -EAGAIN)
			return err;
		if (err)
			break;
		ret->frames[ret->count++] = user[i] - !exact;
		if (!keeps_frame_pointer(r)) {
			ret->walk =
				r && r->cfa == UNWIND_END ? WIRE_WALK_COMPLETE : WIRE_WALK_NO_ROW;
			break;
		}
	}
	c->u->stats.by_frame_pointers++;
	return 0;
}

/* Walks the copy of the stack that came with a sample: 0, or -EAGAIN. */
static int walk_copy(struct rule_context *c, const struct wire_event *s, struct unwound *ret)
{
	struct walk_input in = {
		.pc = s->pc,
		.sp = s->sp,
		.fp = s->fp,
		.kept = s->kept,
		.leaf = s->leaf,
		.exact = !(s->flags & WIRE_SYSCALL),
		.stack = (const uint8_t *)s + wire_plain_bytes(s),
		.stack_start = wire_stack_start(s),
		.stack_len = wire_stack_bytes(s),
	};
	uint64_t frames[WIRE_WALK_FRAMES];
	size_t count;

	int r = walk_stack(&in, find_rule, read_code, c, frames, WIRE_WALK_FRAMES, &count);
	if (r == -EAGAIN)
		return r;
	ret->walk = (enum wire_walk)r;
	ret->count = (unsigned)MIN(count, (size_t)WIRE_USER_FRAMES);
	ret->left_out = (unsigned)count - ret->count;
	for (unsigned i = 0; i < ret->count; i++)
		ret->frames[i] = frames[i + (i < WIRE_LEAF_FRAMES ? 0 : ret->left_out)];
	c->u->stats.from_copy++;
	return 0;
}

int unwinder_walk(struct unwinder *u, struct process *p, struct maps *maps,
		  const struct wire_event *s, const uint64_t *user, bool last, struct unwound *ret)
{
	struct space *space = space_of(u, p);
	struct rule_context c = {u, p, maps, last};
	int r = 0;

	ret->left_out = 0;
	space->exec = s->exec_id;
	if (wire_stack_bytes(s)) {
		if (!space->wanted)
			check_jit(u, space);
		space->wanted = true;
		r = walk_copy(&c, s, ret);
	} else if (s->mappings_version) {
		u->stats.in_kernel++;
		check_walk(u, space, maps, s, user, ret);
	} else {
		r = take_frame_pointers(&c, s, user, ret);
	}
	if (r)
		return r;
	bool cut = ret->left_out && ret->walk == WIRE_WALK_COMPLETE;
	u->stats.walks[cut ? WIRE_WALK_CUT : ret->walk]++;
	return 0;
}

void unwinder_context(struct unwinder *u, struct process *p, const struct unwind_context *c)
{
	struct space *s = space_of(u, p);

	if (memcmp(&s->context, c, sizeof(*c)) == 0)
		return;
	if (s->context_at) {
		space_uninstall(s); /* no walk finds it any more */
		bpf_tables_drop_context(u->tables, s->context_at);
	}
	s->context = *c;
	s->context_at = 0;
	if (c->entry_bytes && bpf_tables_take_context(u->tables, c, &s->context_at) != 0)
		u->stats.spaces_full++;
	s->wanted = true;
}

static unsigned take_tables(struct unwinder *u)
{
	struct table_builder_result made;
	unsigned count = 0;

	for (; table_builder_next(u->builder, &made); count++)
		take_table(u, &made);
	return count;
}

void unwinder_settle(struct unwinder *u, uint64_t now)
{
	u->now = now;
	take_tables(u);
	for (uint32_t i = 0; i < u->file_cap; i++)
		if (u->files[i].state == TABLE_READY && u->files[i].used_ns + UNUSED_NS < now)
			evict(u, i, TABLE_NONE);
	end_pauses(u);
	if (now - u->halved_ns >= HALVE_EVERY_NS) {
		u->halved_ns = now;
		for (uint32_t i = 0; i < u->file_cap; i++)
			u->files[i].uses /= 2;
	}
	for (struct space *s = u->spaces; s; s = s->next) {
		if (s->wanted)
			check_jit(u, s);
		if (s->wanted && was_remapped(s->process, now))
			space_uninstall(s);
		else if (s->wanted && !s->process->exited && !s->process->dropped)
			space_update(u, s);
		s->wanted = false;
	}
	if (now - u->grace_ns >= GRACE_EVERY_NS) { /* each grace period waits for all CPUs */
		u->grace_ns = now;
		bpf_tables_grace(u->tables);
	}
}

unsigned unwinder_finish(struct unwinder *u, unsigned wait_ms)
{
	table_builder_wait(u->builder, wait_ms);
	return take_tables(u);
}

void unwinder_stats(const struct unwinder *u, struct unwinder_stats *ret)
{
	*ret = u->stats;
	bpf_tables_stats(u->tables, &ret->tables);
	ret->cache_error = table_builder_cache_error(u->builder);
}
