#include "symbol/file_symbols.h"

#include <errno.h>

#include "base/mem.h"
#include "process/gopclntab.h"
#include "process/reloc.h"
#include "symbol/debugfile.h"
#include "symbol/eh_frame_hdr.h"
#include "symbol/padding.h"

enum source {
	SOURCE_SYMTAB,
	SOURCE_DEBUG,
	SOURCE_PACKED,
	SOURCE_DYNSYM,
	SOURCE_GO,
	SOURCE_ENTRY,
	SOURCES
};

struct names { /* a string table, in a file or in memory */
	const struct elf_file *file;
	const char *mem;
	uint64_t offset, size;
};

struct file_symbols {
	struct eh_frame_hdr eh_frame_hdr;
	uint64_t guessed_start, guessed_end; /* of the last function of unknown size */
	struct elf_file main, debug;
	int debug_fd, debug_error;
	bool is_debug_file;
	struct symtab table;
	struct gopclntab go;
	struct names names[SOURCES];
	char *packed_names;
};

const struct elf_file *file_symbols_elf(const struct file_symbols *o)
{
	return &o->main;
}

size_t file_symbols_bytes(const struct file_symbols *o)
{
	return sizeof(*o) + elf_file_bytes(&o->main) + elf_file_bytes(&o->debug) +
	       symtab_bytes(&o->table) + o->names[SOURCE_PACKED].size +
	       eh_frame_hdr_bytes(&o->eh_frame_hdr);
}

uint32_t file_symbols_count(const struct file_symbols *o)
{
	return o->table.count;
}

uint64_t file_symbols_dropped(const struct file_symbols *o)
{
	return o->table.dropped;
}

int file_symbols_fds(const struct file_symbols *o)
{
	return o->debug_fd >= 0;
}

int file_symbols_debug_error(const struct file_symbols *o)
{
	return o->debug_error;
}

void file_symbols_free(struct file_symbols *o)
{
	if (!o)
		return;
	elf_file_done(&o->main);
	elf_file_done(&o->debug);
	if (o->debug_fd >= 0)
		close(o->debug_fd);
	symtab_done(&o->table);
	eh_frame_hdr_done(&o->eh_frame_hdr);
	free(o->packed_names);
	free(o);
}

/* ---- loading -------------------------------------------------------------------------------- */

static void add_section(struct file_symbols *o, const struct elf_file *e, const Elf64_Shdr *symbols,
			enum source source)
{
	const Elf64_Shdr *names = elf_file_section_at(e, symbols->sh_link);

	if (!names || names->sh_type != SHT_STRTAB)
		return;
	o->names[source] =
		(struct names){.file = e, .offset = names->sh_offset, .size = names->sh_size};
	/* If the file is truncated, what was read before the end is still valid. */
	symtab_add_section(&o->table, e, symbols, source);
}

static bool add_debug_file(struct file_symbols *o, const struct file_symbols_source *source)
{
	o->debug_fd = debugfile_open(&o->main, source->root, source->path);
	o->debug_error = o->debug_fd < 0 && o->debug_fd != -ENOENT ? o->debug_fd : 0;
	if (o->debug_fd < 0 || elf_file_init(&o->debug, o->debug_fd) < 0)
		return false;
	const Elf64_Shdr *s = elf_file_section_of_type(&o->debug, SHT_SYMTAB);
	if (s)
		add_section(o, &o->debug, s, SOURCE_DEBUG);
	return s;
}

/* Of the unpacked file only the names are kept. */
static void add_packed(struct file_symbols *o)
{
	CLEANUP(freep) uint8_t *data = NULL;
	size_t len;
	struct elf_file e;
	if (debugfile_unpack(&o->main, &data, &len) < 0 || elf_file_init_mem(&e, data, len) < 0)
		return;

	const Elf64_Shdr *s = elf_file_section_of_type(&e, SHT_SYMTAB);
	if (s)
		add_section(o, &e, s, SOURCE_PACKED);
	struct names *n = &o->names[SOURCE_PACKED];
	if (n->file) {
		o->packed_names = mem_dup(data + n->offset, n->size);
		*n = (struct names){.mem = o->packed_names, .size = n->size};
	}
	elf_file_done(&e);
}

static int add_go(void *table, uint64_t start, uint64_t size, uint64_t record)
{
	symtab_add(table, start, size, record, SOURCE_GO, SYMTAB_GO);
	return 0;
}

static void add_entry(struct file_symbols *o)
{
	static const char start[] = "_start";

	if (!elf_file_is_text(&o->main, o->main.entry) || !elf_file_is_program(&o->main))
		return;
	o->names[SOURCE_ENTRY] = (struct names){.mem = start, .size = sizeof(start)};
	symtab_add(&o->table, o->main.entry, 0, 0, SOURCE_ENTRY, SYMTAB_UNTYPED);
}

static void load(struct file_symbols *o, const struct file_symbols_source *source)
{
	const Elf64_Shdr *full = elf_file_section_of_type(&o->main, SHT_SYMTAB);
	const Elf64_Shdr *dynamic = elf_file_section_of_type(&o->main, SHT_DYNSYM);
	/* .symtab contains all of .dynsym, unless it was stripped down to a few names. */
	bool symtab_is_full = full && (!dynamic || full->sh_size >= dynamic->sh_size);

	if (full)
		add_section(o, &o->main, full, SOURCE_SYMTAB);
	if (!symtab_is_full && !o->is_debug_file) {
		if (!add_debug_file(o, source))
			add_packed(o);
		if (dynamic)
			add_section(o, &o->main, dynamic, SOURCE_DYNSYM);
	}
	if (!o->is_debug_file) {
		if (gopclntab_init(&o->go, &o->main) == 0)
			gopclntab_each(&o->go, &o->main, add_go, &o->table);
		add_entry(o);
	}
	symtab_finish(&o->table);
}

int file_symbols_open(const struct file_symbols_source *source, uint32_t max_symbols,
		      struct file_symbols **ret)
{
	struct file_symbols *o = mem_alloc(sizeof(*o));

	o->debug_fd = -1;
	o->is_debug_file = source->is_debug_file;
	int r = source->fd >= 0 ? elf_file_init(&o->main, source->fd)
				: elf_file_init_mem(&o->main, source->mem, source->mem_size);
	if (r < 0) {
		free(o);
		return r;
	}
	symtab_init(&o->table, &o->main, max_symbols);
	load(o, source);
	*ret = o;
	return 0;
}

/* ---- looking up ----------------------------------------------------------------------------- */

/* The gap around vaddr between the functions of .eh_frame_hdr, in its section and segment. */
static void find_room(struct file_symbols *o, uint64_t vaddr, uint64_t *ret_low, uint64_t *ret_high)
{
	eh_frame_hdr_between(&o->eh_frame_hdr, &o->main, vaddr, ret_low, ret_high);
	const Elf64_Shdr *s = elf_file_section_covering(&o->main, vaddr);
	if (s) {
		*ret_low = MAX(*ret_low, s->sh_addr);
		*ret_high = MIN(*ret_high, s->sh_addr + s->sh_size);
	}
	for (uint32_t i = 0; i < o->main.segment_count; i++) {
		const Elf64_Phdr *p = &o->main.segments[i];
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr &&
		    vaddr - p->p_vaddr < p->p_filesz) {
			*ret_low = MAX(*ret_low, p->p_vaddr);
			*ret_high = MIN(*ret_high, p->p_vaddr + p->p_filesz);
		}
	}
}

/* Where a function of unknown size ends. */
static uint64_t guess_end(struct file_symbols *o, uint64_t start)
{
	uint64_t ignored, end;

	if (o->guessed_end && o->guessed_start == start)
		return o->guessed_end;
	if (eh_frame_hdr_find(&o->eh_frame_hdr, &o->main, start, &ignored, &end) < 0) {
		find_room(o, start, &ignored, &end);
		end = padding_end(&o->main, start, end);
	}
	o->guessed_start = start;
	o->guessed_end = end;
	return end;
}

int file_symbols_find(struct file_symbols *o, uint64_t vaddr, struct file_symbols_hit *ret)
{
	*ret = (struct file_symbols_hit){};
	bool found = symtab_find(&o->table, vaddr, &ret->in_table);
	if (o->is_debug_file) {
		ret->start = ret->in_table.start;
		return found && (!ret->in_table.guessed || vaddr == ret->start) ? 0 : -ENOENT;
	}
	if (found) {
		struct symtab_hit *hit = &ret->in_table;
		uint64_t end = hit->guessed ? guess_end(o, hit->start) : hit->to;
		ret->start = hit->start;
		if (vaddr < end) {
			hit->to = MIN(hit->to, end);
			return 0;
		}
		hit->from = MAX(hit->from, end);
	}
	struct plt_stub stub;
	if (plt_find(&o->main, vaddr, &stub) < 0)
		return -ENOENT;
	uint64_t from = ret->in_table.from, to = ret->in_table.to;
	bool named = stub.name || symtab_find(&o->table, stub.target, &ret->in_table);
	ret->in_table.from = named ? 0 : from; /* the target's bounds are not the stub's */
	ret->in_table.to = named ? 0 : to;
	if (!named)
		return -ENOENT;
	ret->start = stub.start;
	ret->name = stub.name;
	ret->plt = true;
	return 0;
}

/* The string at `offset` of a file, at most `limit` bytes long; cut at DEMANGLE_MAX. */
static int read_string(const struct elf_file *e, uint64_t offset, uint64_t limit,
		       char ret[static DEMANGLE_MAX])
{
	size_t max = (size_t)MIN(limit, (uint64_t)DEMANGLE_MAX - 1);
	size_t len = MIN(max, (size_t)160); /* most names, in one small read */

	if (elf_file_read(e, ret, len, offset) < 0)
		return -EIO;
	if (!memchr(ret, '\0', len) && len < max) {
		if (elf_file_read(e, ret + len, max - len, offset + len) < 0)
			return -EIO;
		len = max;
	}
	ret[len] = '\0';
	return 0;
}

static int read_name(const struct file_symbols *o, const struct symtab_entry *e,
		     char ret[static DEMANGLE_MAX])
{
	const struct names *n = &o->names[e->source];

	if (e->source == SOURCE_GO) {
		uint64_t at = gopclntab_name(&o->go, &o->main, e->name);
		return at ? read_string(&o->main, at, o->main.size - at, ret) : -EIO;
	}
	if (e->name >= n->size)
		return -EIO;
	if (n->file)
		return read_string(n->file, n->offset + e->name, n->size - e->name, ret);
	size_t len = strnlen(n->mem + e->name, MIN(n->size - e->name, DEMANGLE_MAX - 1));
	memcpy(ret, n->mem + e->name, len);
	ret[len] = '\0';
	return 0;
}

/* Whether `a` is the better of two names of a function: write, not __GI___libc_write. */
static bool nicer(const char *a, const char *b)
{
	size_t ua = strspn(a, "_"), ub = strspn(b, "_");
	size_t la = strlen(a), lb = strlen(b);

	if (ua != ub)
		return ua < ub;
	return la != lb ? la < lb : strcmp(a, b) < 0;
}

int file_symbols_name(const struct file_symbols *o, const struct file_symbols_hit *hit,
		      char ret[static DEMANGLE_MAX], enum frame_kind *ret_kind)
{
	char best[DEMANGLE_MAX] = "", other[DEMANGLE_MAX];

	*ret_kind = FRAME_USER;
	if (hit->name) {
		if (read_string(&o->main, hit->name, o->main.size - hit->name, best) < 0)
			return -EIO;
	} else {
		const struct symtab_entry *e = &o->table.entries[hit->in_table.first];
		if (e->source == SOURCE_GO)
			*ret_kind = FRAME_GO;
		for (uint32_t i = 0; i < hit->in_table.count; i++)
			if (read_name(o, &e[i], other) == 0 && other[0] &&
			    (!best[0] || nicer(other, best)))
				memcpy(best, other, strlen(other) + 1);
	}

	/* Names in .symtab may have a version: memcpy@@GLIBC_2.14. */
	char *version = *ret_kind == FRAME_GO || best[0] == '\0' ? NULL : strchr(best + 1, '@');
	if (version)
		*version = '\0';
	if (best[0] == '\0')
		return -EIO;
	size_t len = demangle(best, ret);
	if (hit->plt && len + sizeof("@plt") <= DEMANGLE_MAX)
		memcpy(ret + len, "@plt", sizeof("@plt"));
	return 0;
}

int file_symbols_bounds(struct file_symbols *o, uint64_t vaddr, const struct file_symbols_hit *none,
			uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t low, high;

	if (eh_frame_hdr_find(&o->eh_frame_hdr, &o->main, vaddr, ret_start, ret_end) == 0)
		return 0;
	if (!elf_file_is_text(&o->main, vaddr))
		return -ENOENT;
	find_room(o, vaddr, &low, &high);
	return padding_find(&o->main, vaddr, MAX(low, none->in_table.from),
			    MIN(high, none->in_table.to ? none->in_table.to : high), ret_start,
			    ret_end);
}
