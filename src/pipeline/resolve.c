#include "pipeline/resolve.h"

#include <errno.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/text.h"
#include "symbol/kallsyms.h"
#include "symbol/perfmap.h"
#include "symbol/symbols.h"

#define SYMBOL_BYTES     (20u << 20)
#define LINES_BYTES      (256u << 20)
#define DETAIL           (1u << 31)
#define BLOCKS           RESOLVE_FILES /* of a file: places that are blocks of BLOCK bytes */
#define BLOCK            64u
#define KERNEL_RELOAD_NS 10000000000ull /* for modules and BPF programs that came later */
#define NOT_LASTING      UINT32_MAX     /* no version is this one */

struct resolved { /* a resolved (file, offset), or a block of them in one function */
	uint64_t offset;
	uint32_t file;  /* as in struct frame_location; with DETAIL, its frames have lines */
	uint32_t chain; /* its frame, if it is one; else where in resolver.chains they stand */
	uint8_t frames;
	bool named;
	uint32_t version; /* of the kernel's names; 0: holds for ever; or NOT_LASTING */
};

_Static_assert(RESOLVE_MAX <= UINT8_MAX, "a place counts its frames in a byte");

struct resolver {
	struct profile *profile;
	struct processes *processes;
	struct symbols *symbols;
	struct debug_lines *lines; /* NULL: not asked for */
	struct resolver_options options;
	struct kallsyms *kernel; /* NULL: not read yet, or not readable */
	bool kernel_tried;
	bool kernel_old; /* read from a file, and not all that is loaded now is in it */
	uint64_t kernel_read_ns;
	uint64_t modules_changed_ns; /* as far as it was noticed */
	uint32_t kernel_version;     /* of what is loaded into the kernel, from 1 */
	uint32_t *passing;           /* places of the kernel's that do not hold for ever */
	uint32_t passing_count, passing_cap;

	uint32_t *symbol_files; /* by id of struct mapped_files; 0: not added yet */
	uint32_t *modules;      /* by id of struct mapped_files: module of the profile */
	uint32_t *line_files;   /* by id of struct mapped_files: file of lines; 0: none */
	uint32_t file_cap;
	uint32_t vdso;
	uint32_t vdso_module;

	struct resolved *places; /* [0] is not used: index ids start at 1 */
	uint32_t place_count, place_cap;
	struct index by_place;
	uint32_t *chains; /* frames of places that have several, innermost first */
	uint32_t chain_count, chain_cap;
	struct resolver_stats stats;
};

static uint32_t intern(struct resolver *r, const char *s)
{
	return profile_string(r->profile, s, strlen(s));
}

struct resolver *resolver_new(struct profile *p, struct processes *ps,
			      const struct resolver_options *o)
{
	struct resolver *r = mem_alloc(sizeof(*r));

	r->profile = p;
	r->processes = ps;
	r->options = *o;
	r->symbols = symbols_new(o->symbol_bytes ? o->symbol_bytes : SYMBOL_BYTES);
	if (o->inlines || o->lines)
		r->lines = debug_lines_new(o->lines_bytes ? o->lines_bytes : LINES_BYTES);
	r->place_count = 1;
	r->kernel_version = 1;
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	symbols_free(r->symbols);
	debug_lines_free(r->lines);
	kallsyms_free(r->kernel);
	free(r->symbol_files);
	free(r->modules);
	free(r->line_files);
	free(r->places);
	free(r->passing);
	free(r->chains);
	index_done(&r->by_place);
	free(r);
}

static const struct resolved *find_resolved(const struct resolver *r, uint32_t file,
					    uint64_t offset)
{
	uint32_t id;

	INDEX_EACH(&r->by_place, index_hash2(offset, file), id)
		if (r->places[id].offset == offset && r->places[id].file == file)
			return &r->places[id];
	return NULL;
}

/* As find_resolved(); where frames are functions, that of the whole block may be known. */
static const struct resolved *find_in_block(const struct resolver *r, uint32_t file,
					    uint64_t offset)
{
	const struct resolved *at = NULL;

	if (r->options.functions)
		at = find_resolved(r, file | BLOCKS, offset & ~(uint64_t)(BLOCK - 1));
	return at ? at : find_resolved(r, file, offset);
}

static void put_frame(struct resolver *r, uint32_t frame)
{
	MEM_GROW(r->chains, r->chain_count, r->chain_cap);
	r->chains[r->chain_count++] = frame;
}

static void set_line(struct resolver *r, struct frame *f, const struct debug_lines_frame *at)
{
	if (!r->options.lines)
		return;
	f->source = intern(r, at->source);
	f->line = at->line;
	f->start = at->start;
}

static struct frame frame_of(struct resolver *r, const struct symbol *sym, uint32_t module)
{
	return (struct frame){
		.name = intern(r, sym->name),
		.module = module,
		.addr = r->options.functions ? 0 : sym->addr,
		.kind = sym->kind,
	};
}

/* The frames of a place, innermost first; `lines`: of the file's debug info, 0 if there is none. */
static const struct resolved *put_resolved(struct resolver *r, uint32_t file, uint64_t offset,
					   const struct symbol *sym, uint32_t module, bool named,
					   uint32_t lines)
{
	struct debug_lines_frame at[DEBUG_LINES_DEPTH];
	struct frame f = frame_of(r, sym, module);
	struct resolved place = {offset, file, r->chain_count, 0, named, 0};
	uint32_t in_block = (uint32_t)(offset % BLOCK);
	bool block = r->options.functions && !lines && sym->before >= in_block &&
		     sym->after >= BLOCK - in_block;
	if (block) {
		place.offset -= in_block;
		place.file |= BLOCKS;
	}

	size_t count = lines ? debug_lines_find(r->lines, lines, sym->addr, at) : 0;
	for (size_t i = 0; r->options.inlines && i + 1 < count; i++) {
		struct frame inlined = {
			.name = intern(r, at[i].name[0] ? at[i].name : "[inlined]"),
			.module = module,
			.addr = f.addr,
			.kind = FRAME_INLINED,
		};
		set_line(r, &inlined, &at[i]);
		put_frame(r, profile_frame(r->profile, &inlined));
	}
	if (count)
		set_line(r, &f, &at[count - 1]);
	uint32_t frame = profile_frame(r->profile, &f);
	place.frames = (uint8_t)(r->chain_count - place.chain + 1);
	if (place.frames == 1)
		place.chain = frame;
	else
		put_frame(r, frame);

	MEM_GROW(r->places, r->place_count, r->place_cap);
	uint32_t id = r->place_count++;
	r->places[id] = place;
	index_put(&r->by_place, index_hash2(place.offset, place.file), id);
	return &r->places[id];
}

static size_t copy_chain(const struct resolver *r, const struct resolved *at,
			 uint32_t ret[static RESOLVE_MAX])
{
	if (at->frames == 1)
		*ret = at->chain;
	else
		memcpy(ret, r->chains + at->chain, at->frames * sizeof(*ret));
	return at->frames;
}

static uint32_t put_module(struct resolver *r, const char *name, const char *path, uint32_t file)
{
	struct module m = {.name = intern(r, name), .path = path ? intern(r, path) : 0};
	struct symbols_module info;

	if (file && symbols_module(r->symbols, file, &info) == 0) {
		char hex[2 * sizeof(info.build_id) + 1];
		m.build_id = intern(r, text_hex_bytes(info.build_id, info.build_id_len, hex));
		m.start = info.start;
		m.end = info.end;
		m.offset = info.offset;
	}
	return profile_module(r->profile, &m);
}

/* Whether modules came or went since this was asked last. */
static bool notice_modules(struct resolver *r)
{
	const struct resolver_options *o = &r->options;
	uint64_t now = o->modules_changed_ns ? o->modules_changed_ns(o->modules) : 0;

	if (now == r->modules_changed_ns)
		return false;
	r->modules_changed_ns = now;
	resolver_kernel_changed(r, 0, UINT64_MAX);
	return true;
}

/* Whether what is loaded now tells of a sample: else that may have met code that has gone. */
static bool is_of_now(const struct resolver *r, uint64_t time)
{
	return r->options.modules_changed_ns && time >= r->modules_changed_ns;
}

/* What was read before stays if that fails: it is not all, but true. */
static void read_kernel(struct resolver *r, uint64_t time)
{
	struct kallsyms *names = NULL;

	r->stats.kernel_error = kallsyms_load(r->options.kallsyms, &names);
	r->kernel_tried = true;
	r->kernel_read_ns = time;
	if (!names)
		return;
	kallsyms_free(r->kernel);
	r->kernel = names;
	r->kernel_old = false;
}

static bool ask_kernel(struct resolver *r, uint64_t ip, uint64_t time, struct symbol *ret,
		       const char **ret_module)
{
	if (!r->kernel)
		return false;
	int err = is_of_now(r, time) ? kallsyms_find(r->kernel, ip, ret, ret_module)
				     : kallsyms_find_fixed(r->kernel, ip, ret, ret_module);
	return !err;
}

/*
 * The kernel's names are read when the first kernel frame is met and, if they come from a file,
 * again for one that is not in it when something else was loaded since.
 */
static bool find_kernel(struct resolver *r, uint64_t ip, uint64_t time, struct symbol *ret,
			const char **ret_module)
{
	if (!r->kernel_tried)
		read_kernel(r, time);
	if (ask_kernel(r, ip, time, ret, ret_module))
		return true;
	if (!r->kernel_old || !is_of_now(r, time) || time < r->kernel_read_ns + KERNEL_RELOAD_NS)
		return false;
	read_kernel(r, time);
	return ask_kernel(r, ip, time, ret, ret_module);
}

/* Kernel addresses that another module may have later. Hidden names stay hidden. */
static bool is_passing(const struct resolver *r, const char *module, bool named)
{
	return r->kernel && (!named || strcmp(module, "[kernel]") != 0);
}

static const struct resolved *kernel_place(struct resolver *r, uint64_t ip, uint64_t time)
{
	const struct resolved *known = find_in_block(r, LOCATION_KERNEL, ip);
	if (known && (!known->version || known->version == resolver_kernel_version(r, time)))
		return known;

	struct symbol sym = {.name = "[kernel]", .kind = FRAME_KERNEL};
	const char *module = "[kernel]";
	bool named;
	do
		named = find_kernel(r, ip, time, &sym, &module);
	while (notice_modules(r)); /* was that of before, or of after? */
	bool lasting = is_of_now(r, time) && (named || !r->kernel_old);
	uint32_t version = lasting ? r->kernel_version : NOT_LASTING;
	uint32_t file = put_module(r, module, NULL, 0);
	if (known) { /* the one frame that it is may be another */
		struct resolved *again = &r->places[known - r->places];
		struct frame f = frame_of(r, &sym, file);
		again->chain = profile_frame(r->profile, &f);
		again->named = named;
		again->version = version;
		return again;
	}
	uint32_t id = r->place_count;
	put_resolved(r, LOCATION_KERNEL, ip, &sym, file, named, 0);
	if (is_passing(r, module, named)) {
		r->places[id].version = version;
		MEM_GROW(r->passing, r->passing_count, r->passing_cap);
		r->passing[r->passing_count++] = id;
	}
	return &r->places[id];
}

void resolver_kernel_changed(struct resolver *r, uint64_t start, uint64_t end)
{
	if (r->kernel && !kallsyms_is_live(r->kernel)) {
		kallsyms_forget(r->kernel, start, end);
		r->kernel_old = true;
	}
	for (uint32_t i = 0; i < r->passing_count; i++) {
		uint64_t addr = r->places[r->passing[i]].offset;
		if (addr >= start && addr < end) {
			r->kernel_version++;
			return;
		}
	}
}

uint32_t resolver_kernel_version(struct resolver *r, uint64_t time)
{
	notice_modules(r);
	return is_of_now(r, time) ? r->kernel_version : 0;
}

/* The debug info of a file that is still the one which was mapped; 0: none. */
static uint32_t find_lines(struct resolver *r, uint32_t file, const char *root)
{
	struct mapped_files *files = processes_mapped_files(r->processes);
	struct symbols_module module;
	if (!r->lines || symbols_module(r->symbols, r->symbol_files[file], &module) < 0)
		return 0;

	CLEANUP(fd_closep) int fd = mapped_files_open(files, file);
	struct debug_lines_file spec = {
		.fd = fd, .path = mapped_files_get(files, file)->path, .root = root};
	return debug_lines_add_file(r->lines, &spec);
}

/* Makes the symbols' own id of a file, and its module. */
static void add_file(struct resolver *r, uint32_t file, const char *root)
{
	struct mapped_files *files = processes_mapped_files(r->processes);
	const struct mapped_file *f = mapped_files_get(files, file);
	struct symbols_file spec = {
		.path = f->path,
		.root = root,
		.build_id = f->build_id,
		.build_id_len = f->build_id_len,
		.fd = mapped_files_open(files, file),
	};
	r->symbol_files[file] = symbols_add_file(r->symbols, &spec);
	r->modules[file] = put_module(r, f->name, f->path, r->symbol_files[file]);
}

/* The symbols' own id of a file, its module, its lines; all are made when it is first hit. */
static uint32_t want_file(struct resolver *r, const struct process *p, uint32_t file, bool detail)
{
	if (file >= r->file_cap) {
		uint32_t cap = MAX(64, file * 2);
		r->symbol_files = mem_resize_array(r->symbol_files, cap, sizeof(uint32_t));
		r->modules = mem_resize_array(r->modules, cap, sizeof(uint32_t));
		r->line_files = mem_resize_array(r->line_files, cap, sizeof(uint32_t));
		memset(r->symbol_files + r->file_cap, 0, (cap - r->file_cap) * sizeof(uint32_t));
		memset(r->line_files + r->file_cap, 0, (cap - r->file_cap) * sizeof(uint32_t));
		r->file_cap = cap;
	}
	if (r->symbol_files[file] && (!detail || r->line_files[file] || !r->lines))
		return r->symbol_files[file];

	CLEANUP(freep) char *root = mem_printf("/proc/%u/root", p->pid);
	if (!r->symbol_files[file])
		add_file(r, file, root);
	if (detail && !r->line_files[file])
		r->line_files[file] = find_lines(r, file, root);
	return r->symbol_files[file];
}

static const struct resolved *vdso_place(struct resolver *r, uint64_t offset)
{
	if (!r->vdso) {
		r->vdso = symbols_add_vdso(r->symbols);
		r->vdso_module = put_module(r, "[vdso]", NULL, r->vdso);
	}
	const struct resolved *at = find_in_block(r, LOCATION_VDSO, offset);
	if (!at) {
		struct symbol sym;
		bool named = symbols_find(r->symbols, r->vdso, offset, &sym) == 0;
		at = put_resolved(r, LOCATION_VDSO, offset, &sym, r->vdso_module, named, 0);
	}
	return at;
}

static void free_perfmap(void *map)
{
	perfmap_free(map);
}

uint64_t resolver_version(const struct process *p)
{
	struct perfmap *map = p->hooks[PROCESS_JIT].data;

	return map ? (uint64_t)perfmap_version(map) << 32 | p->pid : 0;
}

/* Memory without a file: code that a program made itself, named if it left a perf map. */
static uint32_t jit_frame(struct resolver *r, struct process *p, uint64_t addr, const char *path,
			  bool *ret_named, bool *ret_lasting)
{
	struct symbol sym = {.name = "[anon]", .kind = FRAME_JIT};

	struct process_hook *hook = &p->hooks[PROCESS_JIT];
	uint64_t version = resolver_version(p);
	if (!hook->data)
		*hook = (struct process_hook){perfmap_new((int)p->pid, &r->stats.maps),
					      free_perfmap};
	*ret_named = perfmap_find(hook->data, addr, &sym) == 0;
	*ret_lasting &= *ret_named || !perfmap_is_there(hook->data);
	*ret_lasting &= resolver_version(p) == version;
	if (!*ret_named && path[0] == '[')
		sym.name = path; /* [heap], [stack], [vsyscall] */
	struct frame f = {
		.name = intern(r, sym.name),
		.addr = r->options.functions ? 0 : addr,
		.kind = FRAME_JIT,
	};
	return profile_frame(r->profile, &f);
}

static const struct resolved *file_place(struct resolver *r, const struct process *p, uint32_t file,
					 uint64_t offset, bool detail)
{
	uint32_t key = detail && r->lines ? file | DETAIL : file;
	const struct resolved *at = find_in_block(r, key, offset);

	if (!at) {
		struct symbol sym;
		uint32_t id = want_file(r, p, file, detail);
		bool named = symbols_find(r->symbols, id, offset, &sym) == 0;
		at = put_resolved(r, key, offset, &sym, r->modules[file], named,
				  detail ? r->line_files[file] : 0);
	}
	return at;
}

static struct frame_location kernel_location(struct resolver *r, struct process *p,
					     const struct maps *maps, const struct wire_frame *f)
{
	(void)r;
	(void)p;
	(void)maps;
	return (struct frame_location){.file = LOCATION_KERNEL, .offset = f->value};
}

static struct frame_location user_location(struct resolver *r, struct process *p,
					   const struct maps *maps, const struct wire_frame *f)
{
	uint64_t addr = f->value;
	struct mapping *m = maps_find(maps, addr);
	if (!m)
		return (struct frame_location){.file = LOCATION_NOWHERE, .offset = addr};

	uint64_t offset = addr - m->start + m->offset;
	uint32_t file = process_file(r->processes, p, m);
	if (file)
		return (struct frame_location){file, offset, m, 0};
	if (process_is_vdso(r->processes, m))
		return (struct frame_location){LOCATION_VDSO, offset, m, 0};
	return (struct frame_location){LOCATION_MEMORY, addr, m, 0};
}

/* One for each kind of frame. */
typedef struct frame_location location_fn(struct resolver *r, struct process *p,
					  const struct maps *maps, const struct wire_frame *f);
static location_fn *const locations[WIRE_FRAME_KINDS] = {
	[WIRE_FRAME_USER] = user_location,
	[WIRE_FRAME_KERNEL] = kernel_location,
};

struct frame_location resolve_location(struct resolver *r, struct process *p,
				       const struct maps *maps, const struct wire_frame *f)
{
	struct frame_location at = locations[f->kind](r, p, maps, f);

	at.cookie = f->cookie;
	return at;
}

size_t resolve_frames(struct resolver *r, struct process *p, const struct frame_location *at,
		      uint64_t time, bool detail, bool *ret_lasting,
		      uint32_t ret[static RESOLVE_MAX])
{
	const struct resolved *place = NULL;
	bool named = true;

	switch (at->file) {
	case LOCATION_NOWHERE:
		return 0;
	case LOCATION_MEMORY:
		ret[0] = jit_frame(r, p, at->offset, process_path(r->processes, at->mapping),
				   &named, ret_lasting);
		break;
	case LOCATION_KERNEL:
		place = kernel_place(r, at->offset, time);
		*ret_lasting &= !place->version || place->version == r->kernel_version;
		break;
	case LOCATION_VDSO:
		place = vdso_place(r, at->offset);
		break;
	default:
		place = file_place(r, p, at->file, at->offset, detail);
	}
	r->stats.count.frames++;
	r->stats.count.unnamed += place ? !place->named : !named;
	return place ? copy_chain(r, place, ret) : 1;
}

struct resolver_count resolver_count(const struct resolver *r)
{
	return r->stats.count;
}

void resolver_repeat(struct resolver *r, uint64_t frames, uint64_t unnamed)
{
	r->stats.count.frames += frames;
	r->stats.count.unnamed += unnamed;
}

void resolver_stats(const struct resolver *r, struct resolver_stats *ret)
{
	*ret = r->stats;
	symbols_stats(r->symbols, &ret->symbols);
	ret->symbol_bytes = ret->symbols.bytes;
	ret->places = r->place_count;
	if (r->lines)
		debug_lines_stats(r->lines, &ret->lines);
}
