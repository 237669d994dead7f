#include "symbol/symtab.h"

#include <errno.h>

#include "base/mem.h"
#include "base/sort.h"

#define SIZE_LIMIT  ((1u << 26) - 1)
#define SYMBOLS_MAX (8u << 20) /* of one section: 192 MB; the largest browsers have 2 million */
#define CHUNK       8192u      /* symbols per read */
#define ALIASES_MAX 16u
#define LOOK_BACK   64 /* entries before the nearest one that are checked for covering an address */

void symtab_init(struct symtab *t, const struct elf_file *text, uint32_t max)
{
	*t = (struct symtab){.base = UINT64_MAX, .max = max, .text = text};
	for (uint32_t i = 0; i < text->segment_count; i++)
		if (text->segments[i].p_type == PT_LOAD && (text->segments[i].p_flags & PF_X))
			t->base = MIN(t->base, text->segments[i].p_vaddr);
}

void symtab_done(struct symtab *t)
{
	free(t->entries);
	*t = (struct symtab){};
}

size_t symtab_bytes(const struct symtab *t)
{
	return t->cap * sizeof(*t->entries);
}

/* Untouched memory costs nothing, so reserve for all symbols, and shrink at the end. */
static void reserve(struct symtab *t, uint64_t more)
{
	uint32_t room = (uint32_t)MIN((uint64_t)t->max - t->count, more);

	if (t->cap - t->count >= room)
		return;
	t->cap = t->count + room;
	t->entries = mem_resize_array(t->entries, t->cap, sizeof(*t->entries));
}

void symtab_add(struct symtab *t, uint64_t vaddr, uint64_t size, uint64_t name, unsigned source,
		enum symtab_rank rank)
{
	if (vaddr < t->base || vaddr - t->base > UINT32_MAX || name > UINT32_MAX ||
	    t->count >= t->max) {
		t->dropped++;
		return;
	}
	if (t->count == t->cap)
		reserve(t, MAX(t->count, 1024u));
	t->entries[t->count++] = (struct symtab_entry){
		.start = (uint32_t)(vaddr - t->base),
		.name = (uint32_t)name,
		.size = (uint32_t)MIN(size, (uint64_t)SIZE_LIMIT),
		.source = source & 7,
		.rank = rank & 3,
	};
}

static void add_symbols(struct symtab *t, const Elf64_Sym *syms, size_t count, unsigned source,
			uint64_t names_len)
{
	for (const Elf64_Sym *s = syms; s < syms + count; s++) {
		unsigned type = ELF64_ST_TYPE(s->st_info);
		if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
			continue;
		if (s->st_shndx == SHN_UNDEF || s->st_shndx == SHN_ABS || s->st_name == 0 ||
		    s->st_name >= names_len || !elf_file_is_text(t->text, s->st_value))
			continue;
		symtab_add(t, s->st_value, s->st_size, s->st_name, source,
			   type == STT_NOTYPE                       ? SYMTAB_UNTYPED
			   : ELF64_ST_BIND(s->st_info) == STB_LOCAL ? SYMTAB_LOCAL
								    : SYMTAB_GLOBAL);
	}
}

int symtab_add_section(struct symtab *t, const struct elf_file *e, const Elf64_Shdr *symbols,
		       unsigned source)
{
	const Elf64_Shdr *names = elf_file_section_at(e, symbols->sh_link);
	uint64_t count = MIN(symbols->sh_size / elf_file_symbol_size(e), (uint64_t)SYMBOLS_MAX);
	if (!names)
		return -EIO;

	CLEANUP(freep) Elf64_Sym *chunk = mem_resize_array(NULL, CHUNK, sizeof(*chunk));
	reserve(t, count);
	for (uint64_t at = 0; at < count; at += CHUNK) {
		size_t n = (size_t)MIN(count - at, (uint64_t)CHUNK);
		int r = elf_file_symbols(e, symbols, at, n, chunk);
		if (r < 0)
			return r;
		add_symbols(t, chunk, n, source, names->sh_size);
	}
	return 0;
}

/* ---- putting it in order -------------------------------------------------------------------- */

static unsigned worse(const struct symtab_entry *e)
{
	return (e->size == 0 ? 4u : 0u) + e->rank;
}

/* The end of the section (or else of the segment) that a function without a size is in. */
static uint64_t limit_of(const struct symtab *t, uint32_t start)
{
	uint64_t vaddr = t->base + start;
	const Elf64_Shdr *s = elf_file_section_covering(t->text, vaddr);
	if (s)
		return s->sh_addr + s->sh_size - t->base;
	for (uint32_t i = 0; i < t->text->segment_count; i++) {
		const Elf64_Phdr *p = &t->text->segments[i];
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_memsz)
			return p->p_vaddr + p->p_memsz - t->base;
	}
	return start;
}

/* Moves the best of the entries [i, j), which have one start, to `out`. Returns how many. */
static uint32_t keep_best(struct symtab_entry *e, uint32_t i, uint32_t j, uint32_t out)
{
	unsigned best = UINT32_MAX;
	uint32_t size = 0, kept = 0;

	for (uint32_t k = i; k < j; k++)
		best = MIN(best, worse(&e[k]));
	for (uint32_t k = i; k < j && kept < ALIASES_MAX; k++)
		if (worse(&e[k]) == best) {
			size = MAX(size, e[k].size);
			e[out + kept++] = e[k];
		}
	for (uint32_t k = 0; k < kept; k++)
		e[out + k].size = size;
	return kept;
}

void symtab_finish(struct symtab *t)
{
	struct symtab_entry *e = t->entries;
	uint32_t out = 0;
	uint64_t covered = 0; /* the end of the functions with a size so far */

	sort_by_u32(e, t->count, sizeof(*e));
	for (uint32_t i = 0, j; i < t->count; i = j) {
		uint32_t start = e[i].start;
		for (j = i + 1; j < t->count && e[j].start == start; j++)
			;
		uint32_t next = j < t->count ? e[j].start : UINT32_MAX;
		uint32_t kept = keep_best(e, i, j, out);
		if (e[out].size) {
			covered = MAX(covered, (uint64_t)start + e[out].size);
		} else if (covered > start) {
			continue;
		} else {
			uint64_t end = MIN((uint64_t)next, limit_of(t, start));
			for (uint32_t k = 0; k < kept; k++) {
				e[out + k].size = (uint32_t)MIN(end - start, (uint64_t)SIZE_LIMIT);
				e[out + k].guessed = true;
			}
		}
		out += kept;
	}

	t->text = NULL;
	t->count = t->cap = out;
	t->entries = mem_resize_array(t->entries, MAX(out, 1u), sizeof(*t->entries));
}

bool symtab_find(const struct symtab *t, uint64_t vaddr, struct symtab_hit *ret)
{
	*ret = (struct symtab_hit){.to = t->count ? 0 : UINT64_MAX};
	if (vaddr < t->base || vaddr - t->base > UINT32_MAX || t->count == 0)
		return false;

	uint32_t at = (uint32_t)(vaddr - t->base);
	const struct symtab_entry *e = t->entries;
	uint32_t n = t->count, i = 0;
	while (n > 1) { /* the last entry that starts at or before `at` */
		uint32_t half = n / 2;
		i += e[i + half].start <= at ? half : 0;
		n -= half;
	}
	uint64_t from = 0, to = e[i].start > at    ? e[i].start
				: i + 1 < t->count ? e[i + 1].start
						   : UINT32_MAX;
	bool found = true;
	for (int steps = 0; e[i].start > at || at - e[i].start >= e[i].size; steps++) {
		if (e[i].start <= at)
			from = MAX(from, (uint64_t)e[i].start + e[i].size);
		if (i == 0 || steps == LOOK_BACK) {
			found = false;
			break;
		}
		i--;
	}
	ret->from = t->base + from;
	ret->to = t->base + to;
	if (!found)
		return false;

	uint32_t last = i;
	while (i > 0 && e[i - 1].start == e[last].start)
		i--;
	ret->first = i;
	ret->count = last - i + 1;
	ret->guessed = e[i].guessed;
	ret->start = t->base + e[i].start;
	ret->from = MAX(ret->from, ret->start);
	ret->to = MIN(ret->to, ret->start + e[last].size);
	return true;
}
