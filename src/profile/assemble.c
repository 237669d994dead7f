#include "profile/assemble.h"

#include <errno.h>

#include "base/index.h"
#include "base/mem.h"
#include "process/process.h"
#include "symbol/kallsyms.h"
#include "symbol/perfmap.h"
#include "symbol/symbols.h"

#define SYMBOL_BYTES (20u << 20)
#define KERNEL_RELOAD_NS 10000000000ull /* for modules and BPF programs that came later */

/* Who a sample belongs to; interned, since building its labels costs more than the rest. */
struct owner {
	uint32_t pid, tid;
	char comm[WIRE_COMM], thread[WIRE_COMM];
	uint32_t series;
};

struct place { /* a resolved (file, offset); file 0 is the kernel */
	uint64_t offset;
	uint32_t file;
	uint32_t frame;
	bool named;
};

struct assembler {
	struct profile *profile;
	struct processes *processes;
	struct symbols *symbols;
	struct kallsyms *kernel; /* NULL: not read yet, or not readable */
	bool kernel_tried;
	uint64_t kernel_read_ns;
	uint64_t sideband_lost;

	uint32_t *symbol_files; /* by id of struct files; 0: not added yet */
	uint32_t *modules;      /* by id of struct files: module of the profile */
	uint32_t file_cap;
	uint32_t vdso;
	uint32_t vdso_module;

	struct owner *owners;
	uint32_t owner_count, owner_cap;
	struct index by_owner;
	struct place *places;
	uint32_t place_count, place_cap;
	struct index by_place;

	uint32_t key_comm, key_pid, key_thread, key_tid;
	uint32_t truncated_frame;
	struct assembler_stats stats;
};

static uint32_t intern(struct assembler *a, const char *s)
{
	return profile_string(a->profile, s, strlen(s));
}

struct assembler *assembler_new(struct profile *p, const struct assembler_options *o)
{
	struct assembler *a = mem_alloc(sizeof(*a));

	a->profile = p;
	a->processes = processes_new();
	a->symbols = symbols_new(o->symbol_bytes ? o->symbol_bytes : SYMBOL_BYTES);
	a->key_comm = intern(a, "comm");
	a->key_pid = intern(a, "pid");
	a->key_thread = intern(a, "thread");
	a->key_tid = intern(a, "tid");
	struct frame f = {.name = intern(a, "[truncated]"), .kind = FRAME_MARK};
	a->truncated_frame = profile_frame(p, &f);
	/* Entry 0 of both is not used: index ids start at 1. */
	a->owner_count = a->place_count = 1;
	return a;
}

void assembler_free(struct assembler *a)
{
	if (!a)
		return;
	processes_free(a->processes);
	symbols_free(a->symbols);
	kallsyms_free(a->kernel);
	free(a->symbol_files);
	free(a->modules);
	free(a->owners);
	free(a->places);
	index_done(&a->by_owner);
	index_done(&a->by_place);
	free(a);
}

static uint32_t put_number(struct assembler *a, uint32_t n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	return intern(a, text);
}

static uint32_t series_of(struct assembler *a, const struct wire_sample *s)
{
	struct owner who = {.pid = s->pid, .tid = s->tid};
	uint64_t words[4];
	uint32_t id;

	memcpy(who.comm, s->comm, WIRE_COMM);
	memcpy(who.thread, s->thread, WIRE_COMM);
	memcpy(words, who.comm, sizeof(words)); /* both names */
	uint32_t hash = index_hash2((uint64_t)s->pid << 32 | s->tid,
				    words[0] ^ words[1] * 3 ^ words[2] * 5 ^ words[3] * 7);
	INDEX_EACH(&a->by_owner, hash, id)
		if (memcmp(&a->owners[id], &who, offsetof(struct owner, series)) == 0)
			return a->owners[id].series;

	struct label labels[] = {
		{a->key_comm, profile_string(a->profile, who.comm, strnlen(who.comm, WIRE_COMM))},
		{a->key_pid, put_number(a, s->pid)},
		{a->key_thread,
		 profile_string(a->profile, who.thread, strnlen(who.thread, WIRE_COMM))},
		{a->key_tid, put_number(a, s->tid)},
	};
	who.series = profile_series(a->profile, labels, ARRAY_SIZE(labels));
	MEM_GROW(a->owners, a->owner_count, a->owner_cap);
	id = a->owner_count++;
	a->owners[id] = who;
	index_put(&a->by_owner, hash, id);
	return who.series;
}

static const struct place *find_place(const struct assembler *a, uint32_t file, uint64_t offset)
{
	uint32_t id;

	INDEX_EACH(&a->by_place, index_hash2(offset, file), id)
		if (a->places[id].offset == offset && a->places[id].file == file)
			return &a->places[id];
	return NULL;
}

static const struct place *put_place(struct assembler *a, uint32_t file, uint64_t offset,
				     const struct symbol *sym, uint32_t module, bool named)
{
	struct frame f = {
		.name = intern(a, sym->name),
		.module = module,
		.addr = sym->addr,
		.kind = sym->kind,
	};

	MEM_GROW(a->places, a->place_count, a->place_cap);
	uint32_t id = a->place_count++;
	a->places[id] = (struct place){offset, file, profile_frame(a->profile, &f), named};
	index_put(&a->by_place, index_hash2(offset, file), id);
	return &a->places[id];
}

static uint32_t put_module(struct assembler *a, const char *name, const char *path, uint32_t file)
{
	struct module m = {.name = intern(a, name), .path = path ? intern(a, path) : 0};
	struct symbols_module info;

	if (file && symbols_module(a->symbols, file, &info) == 0) {
		char hex[2 * sizeof(info.build_id) + 1] = "";
		for (size_t i = 0; i < info.build_id_len; i++)
			snprintf(hex + 2 * i, 3, "%02x", info.build_id[i]);
		m.build_id = intern(a, hex);
		m.start = info.start;
		m.end = info.end;
		m.offset = info.offset;
	}
	return profile_module(a->profile, &m);
}

/* The kernel's names are read when the first kernel frame is met, and again for one not known. */
static void want_kernel(struct assembler *a, uint64_t ip, uint64_t time)
{
	struct symbol sym;
	const char *module;

	if (a->kernel && kallsyms_find(a->kernel, ip, &sym, &module) == 0)
		return;
	if (a->kernel_tried && (!a->kernel || time < a->kernel_read_ns + KERNEL_RELOAD_NS))
		return;
	kallsyms_free(a->kernel);
	a->kernel = NULL;
	a->stats.kernel_error = kallsyms_load(NULL, &a->kernel);
	a->kernel_tried = true;
	a->kernel_read_ns = time;
}

static uint32_t kernel_frame(struct assembler *a, uint64_t ip, uint64_t time)
{
	const struct place *at = find_place(a, 0, ip);

	a->stats.kernel_frames++;
	if (!at) {
		struct symbol sym = {.name = "[kernel]", .kind = FRAME_KERNEL};
		const char *module = "[kernel]";
		bool named = false;
		want_kernel(a, ip, time);
		if (a->kernel)
			named = kallsyms_find(a->kernel, ip, &sym, &module) == 0;
		at = put_place(a, 0, ip, &sym, put_module(a, module, NULL, 0), named);
	}
	a->stats.kernel_unnamed += !at->named;
	return at->frame;
}

/* The symbols' own id of a file, and its module; both are made when the file is first hit. */
static uint32_t want_file(struct assembler *a, const struct process *p, uint32_t file)
{
	if (file >= a->file_cap) {
		uint32_t cap = MAX(64, file * 2);
		a->symbol_files = mem_resize_array(a->symbol_files, cap, sizeof(uint32_t));
		a->modules = mem_resize_array(a->modules, cap, sizeof(uint32_t));
		memset(a->symbol_files + a->file_cap, 0, (cap - a->file_cap) * sizeof(uint32_t));
		a->file_cap = cap;
	}
	if (a->symbol_files[file])
		return a->symbol_files[file];

	struct files *files = processes_files(a->processes);
	const struct file *f = files_get(files, file);
	CLEANUP(freep) char *root = mem_printf("/proc/%u/root", p->pid);
	struct symbols_file spec = {
		.path = f->path,
		.root = root,
		.build_id = f->build_id,
		.build_id_len = f->build_id_len,
		.fd = files_take_fd(files, file),
	};
	a->symbol_files[file] = symbols_add_file(a->symbols, &spec);
	a->modules[file] = put_module(a, f->name, f->path, a->symbol_files[file]);
	return a->symbol_files[file];
}

static uint32_t vdso_frame(struct assembler *a, uint64_t offset, bool *ret_named)
{
	if (!a->vdso) {
		a->vdso = symbols_add_vdso(a->symbols);
		a->vdso_module = put_module(a, "[vdso]", NULL, a->vdso);
	}
	const struct place *at = find_place(a, UINT32_MAX, offset);
	if (!at) {
		struct symbol sym;
		bool named = symbols_find(a->symbols, a->vdso, offset, &sym) == 0;
		at = put_place(a, UINT32_MAX, offset, &sym, a->vdso_module, named);
	}
	*ret_named = at->named;
	return at->frame;
}

static void free_perfmap(void *map)
{
	perfmap_free(map);
}

/* Memory without a file: code that a program made itself, named if it left a perf map. */
static uint32_t jit_frame(struct assembler *a, struct process *p, uint64_t addr, const char *path,
			  bool *ret_named)
{
	struct symbol sym = {.name = "[anon]", .kind = FRAME_JIT};

	if (!p->attachment) {
		p->attachment = perfmap_new((int)p->pid);
		p->attachment_free = free_perfmap;
	}
	*ret_named = perfmap_find(p->attachment, addr, &sym) == 0;
	if (!*ret_named && path[0] == '[')
		sym.name = path; /* [heap], [stack], [vsyscall] */
	struct frame f = {.name = intern(a, sym.name), .kind = FRAME_JIT};
	return profile_frame(a->profile, &f);
}

static uint32_t file_frame(struct assembler *a, const struct process *p, uint32_t file,
			   uint64_t offset, bool *ret_named)
{
	const struct place *at = find_place(a, file, offset);

	if (!at) {
		struct symbol sym;
		uint32_t id = want_file(a, p, file);
		bool named = symbols_find(a->symbols, id, offset, &sym) == 0;
		at = put_place(a, file, offset, &sym, a->modules[file], named);
	}
	*ret_named = at->named;
	return at->frame;
}

/* 0: nothing is mapped there. */
static uint32_t user_frame(struct assembler *a, struct process *p, uint64_t addr, bool sure,
			   uint64_t time)
{
	struct mapping *m = process_find(a->processes, p, addr, sure, time);
	if (!m)
		return 0;

	const char *path = process_path(a->processes, m);
	uint64_t offset = addr - m->start + m->offset;
	uint32_t file, frame;
	bool named;
	if (strcmp(path, "[vdso]") == 0)
		frame = vdso_frame(a, offset, &named);
	else if ((file = process_file(a->processes, p, m)) != 0)
		frame = file_frame(a, p, file, offset, &named);
	else
		frame = jit_frame(a, p, addr, path, &named);
	a->stats.user_frames++;
	a->stats.user_unnamed += !named;
	return frame;
}

/*
 * Frames come leaf first; a stack is built root first. A return address stands after its call,
 * which may be the last instruction of the function: every address but a running leaf's is looked
 * up one byte before.
 */
void assembler_sample(struct assembler *a, const struct wire_sample *s, const uint64_t *frames)
{
	uint32_t ids[2 * (WIRE_FRAMES + 1)];
	const uint64_t *user = frames + s->kernel_frames;
	unsigned count = 0;
	bool cut = s->flags & (WIRE_USER_CUT | WIRE_KERNEL_CUT);

	for (unsigned i = 0; i < s->kernel_frames && count < ARRAY_SIZE(ids); i++)
		ids[count++] = kernel_frame(a, frames[i] - (i > 0), s->time);
	if (s->user_frames) {
		struct process *p = processes_get(a->processes, s->pid, s->start, s->time);
		for (unsigned i = 0; i < s->user_frames && count < ARRAY_SIZE(ids); i++) {
			bool leaf = i == 0 && !(s->flags & WIRE_IN_KERNEL);
			ids[count] = user_frame(a, p, user[i] - !leaf, i == 0, s->time);
			if (!ids[count]) {
				a->stats.strays++;
				cut = false;
				break; /* what follows is not a stack */
			}
			count++;
		}
	}

	uint32_t stack = 0;
	if (cut) {
		stack = profile_stack(a->profile, stack, a->truncated_frame);
		a->profile->info.truncated++;
	}
	while (count)
		stack = profile_stack(a->profile, stack, ids[--count]);
	profile_add(a->profile, series_of(a, s), stack, 1, s->weight);
	a->stats.samples++;
}

void assembler_event(struct assembler *a, const struct sideband_event *e)
{
	processes_event(a->processes, e);
}

void assembler_settle(struct assembler *a, uint64_t sideband_lost)
{
	if (sideband_lost != a->sideband_lost)
		processes_distrust(a->processes);
	a->sideband_lost = sideband_lost;
	processes_sweep(a->processes);
}

void assembler_stats(const struct assembler *a, struct assembler_stats *ret)
{
	struct processes_stats ps;
	struct symbols_stats ss;

	processes_stats(a->processes, &ps);
	symbols_stats(a->symbols, &ss);
	*ret = a->stats;
	ret->maps_read = ps.maps_read;
	ret->symbol_bytes = ss.bytes;
}
