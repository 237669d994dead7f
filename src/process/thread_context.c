#include "process/thread_context.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "process/context.h"
#include "process/elf_file.h"

#define CHUNK       512
#define SYMBOLS_MAX (4u << 20)
#define RELOCS_MAX  (16u << 20)
#define DYNAMIC_MAX 4096
#define MODULES_MAX 65536 /* what a number of a module is at most, if it is one */
#define STATIC_MAX  (1ll << 30)

#define GLIBC_ENTRY 16
#define MUSL_ENTRY  8

static const char symbol[] = "otel_thread_ctx_v1";

enum access {
	UNKNOWN,
	NONE,    /* the file does not have the variable */
	PROGRAM, /* … is a program, whose storage is the thread's first */
	STATIC,  /* … a library: an offset from the thread pointer is in its memory */
	MODULE,  /* … the number of its module */
	DESC,    /* … a TLS descriptor */
};

struct tls_file {
	enum access access;
	int64_t offset;    /* of the variable: from the thread pointer (PROGRAM), in the module */
	uint64_t slot;     /* virtual address of what the loader wrote */
	uint64_t to_vaddr; /* what added to an offset of the text in the file makes its address */
};

struct thread_contexts {
	struct tls_file *files; /* by id of struct mapped_files */
	uint32_t cap;
};

struct thread_contexts *thread_contexts_new(void)
{
	return mem_alloc(sizeof(struct thread_contexts));
}

void thread_contexts_free(struct thread_contexts *t)
{
	if (t)
		free(t->files);
	free(t);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const Elf64_Phdr *segment_of(const struct elf_file *e, uint32_t type)
{
	for (uint32_t i = 0; i < e->segment_count; i++)
		if (e->segments[i].p_type == type)
			return &e->segments[i];
	return NULL;
}

/* A library may have an interpreter, as libc has, but then it does not have our variable. */
static bool is_program(const struct elf_file *e)
{
	const Elf64_Phdr *dynamic = segment_of(e, PT_DYNAMIC);
	Elf64_Dyn d;

	if (!dynamic || segment_of(e, PT_INTERP))
		return true;
	for (uint64_t at = 0; at < MIN(dynamic->p_filesz / sizeof(d), (uint64_t)DYNAMIC_MAX); at++)
		if (elf_file_read(e, &d, sizeof(d), dynamic->p_offset + at * sizeof(d)) == 0 &&
		    d.d_tag == DT_FLAGS_1)
			return d.d_un.d_val & DF_1_PIE;
	return false;
}

/* The variable among what the file exports: 0 with its index, else -ENOENT. */
static int find_symbol(const struct elf_file *e, Elf64_Sym *ret, uint64_t *ret_index)
{
	const Elf64_Shdr *exports = elf_file_section_of_type(e, SHT_DYNSYM);
	/* A static program may have no such table. */
	const Elf64_Shdr *table = exports ? exports : elf_file_section_of_type(e, SHT_SYMTAB);
	const Elf64_Shdr *names = table ? elf_file_section_at(e, table->sh_link) : NULL;
	uint64_t count =
		table ? MIN(table->sh_size / elf_file_symbol_size(e), (uint64_t)SYMBOLS_MAX) : 0;
	Elf64_Sym some[CHUNK];
	char name[sizeof(symbol)];

	for (uint64_t at = 0; names && at < count; at += CHUNK) {
		size_t n = (size_t)MIN(count - at, (uint64_t)CHUNK);
		if (elf_file_symbols(e, table, at, n, some) != 0)
			return -ENOENT;
		for (size_t i = 0; i < n; i++) {
			if (ELF64_ST_TYPE(some[i].st_info) != STT_TLS ||
			    some[i].st_shndx == SHN_UNDEF || some[i].st_name >= names->sh_size ||
			    elf_file_read(e, name, sizeof(name),
					  names->sh_offset + some[i].st_name) != 0 ||
			    memcmp(name, symbol, sizeof(name)) != 0)
				continue;
			*ret = some[i];
			*ret_index = at + i;
			return 0;
		}
	}
	return -ENOENT;
}

/* How the loader tells the library's code where the variable is. The better the model, the later in
 * this list: a library may have relocations of several. */
static void note_relocation(struct tls_file *f, const Elf64_Rela *r, uint64_t index, uint64_t value)
{
	bool named = ELF64_R_SYM(r->r_info) == index;
	bool local = ELF64_R_SYM(r->r_info) == 0 && (uint64_t)r->r_addend == value;
	enum access access;

	switch (ELF64_R_TYPE(r->r_info)) {
	case R_X86_64_DTPMOD64: /* any variable's: the module is the same */
		access = MODULE;
		named = true;
		break;
	case R_X86_64_TLSDESC:
		access = DESC;
		break;
	case R_X86_64_TPOFF64:
		access = STATIC;
		break;
	default:
		return;
	}
	bool better =
		f->access == NONE || access == STATIC || (access == DESC && f->access == MODULE);
	if ((named || local) && better) {
		f->access = access;
		f->slot = r->r_offset;
	}
}

static void read_relocations(const struct elf_file *e, struct tls_file *f, uint64_t index,
			     uint64_t value)
{
	Elf64_Rela some[CHUNK];

	for (uint32_t s = 0; s < e->section_count; s++) {
		const Elf64_Shdr *h = &e->sections[s];
		uint64_t count = MIN(h->sh_size / sizeof(*some), (uint64_t)RELOCS_MAX);
		if (h->sh_type != SHT_RELA)
			continue;
		for (uint64_t at = 0; at < count; at += CHUNK) {
			size_t n = (size_t)MIN(count - at, (uint64_t)CHUNK);
			if (elf_file_read(e, some, n * sizeof(*some),
					  h->sh_offset + at * sizeof(*some)) != 0)
				break;
			for (size_t i = 0; i < n; i++)
				note_relocation(f, &some[i], index, value);
		}
	}
}

static struct tls_file read_file(const struct elf_file *e)
{
	struct tls_file f = {.access = NONE};
	const Elf64_Phdr *tls = segment_of(e, PT_TLS), *text = elf_file_text(e);
	Elf64_Sym s;
	uint64_t index;

	if (e->is_32_bit || e->machine != EM_X86_64 || !tls || !text ||
	    find_symbol(e, &s, &index) != 0)
		return f;
	f.to_vaddr = text->p_vaddr - text->p_offset;
	if (is_program(e)) {
		/* As the linker counted: the storage ends where the thread pointer points. */
		uint64_t align = MAX(tls->p_align, 1ull);
		if (align & (align - 1) || tls->p_memsz > STATIC_MAX)
			return f;
		f.access = PROGRAM;
		f.offset = (int64_t)(s.st_value - ((tls->p_memsz + align - 1) & ~(align - 1)));
		return f;
	}
	f.offset = (int64_t)s.st_value;
	read_relocations(e, &f, index, s.st_value);
	return f;
}

static const struct tls_file *file_of(struct thread_contexts *t, struct processes *ps, uint32_t id)
{
	if (id >= t->cap) {
		uint32_t cap = MAX(64, id * 2);
		t->files = mem_resize_array(t->files, cap, sizeof(*t->files));
		memset(t->files + t->cap, 0, (cap - t->cap) * sizeof(*t->files));
		t->cap = cap;
	}
	struct tls_file *f = &t->files[id];
	if (f->access == UNKNOWN) {
		CLEANUP(fd_closep) int fd = mapped_files_open(processes_mapped_files(ps), id);
		struct elf_file e;
		f->access = NONE;
		if (fd >= 0 && elf_file_init(&e, fd) == 0) {
			*f = read_file(&e);
			elf_file_done(&e);
		}
	}
	return f;
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool is_static(int64_t offset)
{
	return offset < 0 && offset > -STATIC_MAX;
}

/* What the loader wrote into a process for the variable. */
static int read_slot(const struct process *p, const struct tls_file *f, uint64_t bias,
		     uint32_t entry_bytes, struct unwind_context *ret)
{
	uint64_t words[2] = {}, at[2]; /* of a descriptor: code, and what that is about */
	size_t len = f->access == DESC ? sizeof(words) : sizeof(words[0]);
	int r = context_read_memory(p->pid, bias + f->slot, words, len);
	uint64_t module = words[0];

	*ret = (struct unwind_context){.entry_bytes = entry_bytes};
	if (r)
		return r;
	if (f->access == STATIC || (f->access == DESC && is_static((int64_t)words[1]))) {
		ret->offset = (int64_t)words[f->access == DESC];
		return is_static(ret->offset) ? 0 : -EAGAIN;
	}
	ret->offset = f->offset;
	if (f->access == DESC) {
		if (!words[1] || context_read_memory(p->pid, words[1], at, sizeof(at)) != 0)
			return -EAGAIN;
		module = at[0];
		ret->offset = (int64_t)at[1];
	}
	if (!module || module > MODULES_MAX || ret->offset < 0 || ret->offset > STATIC_MAX)
		return -EAGAIN; /* it is bound when it is first used */
	ret->module = (uint32_t)module;
	return 0;
}

static bool is_musl(struct processes *ps, const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (strstr(process_path(ps, &maps->list[i]), "musl")) /* its loader is its libc */
			return true;
	return false;
}

int thread_contexts_find(struct thread_contexts *t, struct processes *ps, struct process *p,
			 struct unwind_context *ret)
{
	struct maps *maps = p->maps;
	uint32_t entry = is_musl(ps, maps) ? MUSL_ENTRY : GLIBC_ENTRY;

	for (size_t i = 0; i < maps->count; i++) {
		struct mapping *m = &maps->list[i];
		uint32_t id = process_file(ps, p, m);
		const struct tls_file *f = id ? file_of(t, ps, id) : NULL;
		if (!f || f->access == NONE)
			continue;
		if (f->access != PROGRAM)
			return read_slot(p, f, m->start - m->offset - f->to_vaddr, entry, ret);
		*ret = (struct unwind_context){.offset = f->offset, .entry_bytes = entry};
		return 0;
	}
	return -ENOENT;
}
