#include "process/gopclntab.h"

#include <errno.h>

#include "base/mem.h"
#include "process/reloc.h"

#define MAGIC_1_2  0xfffffffbu
#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

#define HEADER     (8 + 8 * 8)
#define SEARCH_MAX (256u << 20) /* bytes to search for a table without a section */
#define CHUNK      (256u << 10)

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t word32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The i-th word after the first eight bytes of a header. */
static uint64_t field(const uint8_t *header, size_t i)
{
	return word(header + 8 + i * 8);
}

/* Magic, two zeros, the instruction quantum of x86 or ARM, the size of a pointer. */
static bool is_header(const uint8_t *p)
{
	uint32_t magic = word32(p);

	return (magic == MAGIC_1_2 || magic == MAGIC_1_16 || magic == MAGIC_1_18 ||
		magic == MAGIC_1_20) &&
	       p[4] == 0 && p[5] == 0 && (p[6] == 1 || p[6] == 4) && p[7] == 8;
}

/*
 * In a position-independent program the loader fills in the start of the text: then the value is
 * that of the relocation.
 */
static uint64_t text_start(const struct gopclntab *g, const struct elf_file *e, uint64_t value)
{
	uint64_t vaddr;
	struct reloc reloc;
	const Elf64_Shdr *text;

	if (elf_file_is_text(e, value))
		return value;
	if (elf_file_vaddr(e, g->offset + 8 + sizeof(uint64_t) * 2, &vaddr) &&
	    reloc_find(e, ".rela.dyn", vaddr, &reloc) == 0 && elf_file_is_text(e, reloc.addend))
		return reloc.addend;
	text = elf_file_section(e, ".text");
	return text ? text->sh_addr : 0;
}

/* Parses the table at g->offset; all that it says is checked against g->size. */
static int parse(struct gopclntab *g, const struct elf_file *e)
{
	uint8_t h[HEADER];

	if (g->size < sizeof(h) || elf_file_read(e, h, sizeof(h), g->offset) < 0 || !is_header(h))
		return -EINVAL;

	uint32_t magic = word32(h);
	uint64_t funcs = field(h, 0), names = 0, values = 0, pairs = 8 + 8;
	bool small = magic == MAGIC_1_18 || magic == MAGIC_1_20;
	if (magic == MAGIC_1_16) {
		names = field(h, 2);
		values = field(h, 5);
		pairs = field(h, 6);
	} else if (small) {
		g->text = text_start(g, e, field(h, 2));
		names = field(h, 3);
		values = field(h, 6);
		pairs = field(h, 7);
	}
	g->entry_size = small ? 8 : 16;
	g->name_field = small ? 4 : 8;
	g->flag_field = magic == MAGIC_1_20 ? 41 : magic == MAGIC_1_18 ? 37 : 0;
	if (funcs == 0 || names >= g->size || values >= g->size || pairs >= g->size ||
	    (small && g->text == 0) || funcs > (g->size - pairs) / g->entry_size)
		return -EINVAL;

	g->pairs = g->offset + pairs;
	g->records = magic == MAGIC_1_2 ? g->offset : g->pairs;
	g->names = g->offset + names;
	g->values = g->offset + values;
	g->funcs = (uint32_t)MIN(funcs, (uint64_t)UINT32_MAX);
	return 0;
}

/* Checks that the first functions are in order and in the text. */
static bool is_sane(const struct gopclntab *g, const struct elf_file *e)
{
	uint8_t pairs[16 * 16];
	size_t n = MIN(g->funcs, 16u);
	uint64_t last = 0;

	if (elf_file_read(e, pairs, n * g->entry_size, g->pairs) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *p = pairs + i * g->entry_size;
		uint64_t pc = g->entry_size == 8 ? g->text + word32(p) : word(p);
		if (pc < last || !elf_file_is_text(e, pc))
			return false;
		last = pc;
	}
	return true;
}

/* For a file without section headers: searches the segments that are not executable. */
static int search(struct gopclntab *g, const struct elf_file *e)
{
	CLEANUP(freep) uint8_t *buf = mem_resize_array(NULL, CHUNK, 1);
	uint64_t left = SEARCH_MAX;

	for (uint32_t i = 0; i < e->segment_count; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type != PT_LOAD || (p->p_flags & PF_X) || p->p_offset >= e->size)
			continue;
		uint64_t len = MIN(p->p_filesz, e->size - p->p_offset);
		for (uint64_t at = 0; at < len && left; at += CHUNK) {
			size_t n = (size_t)MIN(MIN(len - at, left), (uint64_t)CHUNK);
			left -= n;
			if (elf_file_read(e, buf, n, p->p_offset + at) < 0)
				return -ENOENT;
			for (size_t k = 0; k + 16 <= n; k += 16) { /* the linker aligns it to 32 */
				if (!is_header(buf + k))
					continue;
				*g = (struct gopclntab){.offset = p->p_offset + at + k,
							.size = len - at - k};
				if (parse(g, e) == 0 && is_sane(g, e))
					return 0;
			}
		}
	}
	return -ENOENT;
}

int gopclntab_init(struct gopclntab *g, const struct elf_file *e)
{
	const Elf64_Shdr *s = elf_file_section(e, ".gopclntab");
	int r;

	if (!s)
		s = elf_file_section(e, ".data.rel.ro.gopclntab");
	if (s) {
		*g = (struct gopclntab){.offset = s->sh_offset, .size = s->sh_size};
		r = parse(g, e);
		if (r == 0 && !is_sane(g, e))
			r = -EINVAL;
	} else {
		*g = (struct gopclntab){};
		/* Without a section of that name there is usually no table, but some linkers merge
		 * it into another section. */
		r = elf_file_is_go(e) ? search(g, e) : -ENOENT;
	}
	if (r < 0)
		*g = (struct gopclntab){};
	return r;
}

int gopclntab_each(const struct gopclntab *g, const struct elf_file *e, gopclntab_fn *fn, void *arg)
{
	const uint32_t per_chunk = CHUNK / g->entry_size;
	CLEANUP(freep) uint8_t *buf = mem_resize_array(NULL, CHUNK, 1);
	uint64_t pc = 0, func = 0;

	/* One more pair after the last tells where the last function ends. */
	for (uint64_t at = 0; at <= g->funcs; at += per_chunk) {
		uint32_t n = (uint32_t)MIN(g->funcs + 1 - at, (uint64_t)per_chunk);
		size_t len = (size_t)n * g->entry_size;
		if (at + n > g->funcs)
			len -= g->entry_size / 2;
		int r = elf_file_read(e, buf, len, g->pairs + at * g->entry_size);
		if (r < 0)
			return r;
		for (uint32_t i = 0; i < n; i++) {
			const uint8_t *p = buf + (size_t)i * g->entry_size;
			uint64_t next = g->entry_size == 8 ? g->text + word32(p) : word(p);
			if (at + i > 0 && next > pc && elf_file_is_text(e, pc))
				r = fn(arg, pc, next - pc, func);
			if (r != 0)
				return r;
			pc = next;
			if (at + i < g->funcs)
				func = g->entry_size == 8 ? word32(p + 4) : word(p + 8);
		}
	}
	return 0;
}

/* `len` bytes of a record, starting at `field_at`. */
static bool read_field(const struct gopclntab *g, const struct elf_file *e, uint64_t record,
		       uint32_t field_at, void *ret, size_t len)
{
	uint64_t room = g->offset + g->size - g->records;

	return record < room && room - record >= field_at + len &&
	       elf_file_read(e, ret, len, g->records + record + field_at) == 0;
}

uint64_t gopclntab_name(const struct gopclntab *g, const struct elf_file *e, uint64_t record)
{
	uint8_t at[4];

	if (!read_field(g, e, record, g->name_field, at, sizeof(at)) ||
	    word32(at) >= g->offset + g->size - g->names)
		return 0;
	return g->names + word32(at);
}

int gopclntab_func(const struct gopclntab *g, const struct elf_file *e, uint64_t record,
		   struct gopclntab_func *ret)
{
	uint8_t depths[4], flag = 0;
	uint64_t room = g->offset + g->size - g->values;

	if (!read_field(g, e, record, g->name_field + 12, depths, sizeof(depths)) ||
	    (g->flag_field && !read_field(g, e, record, g->flag_field, &flag, 1)) ||
	    word32(depths) >= room)
		return -EIO;
	ret->flags = g->flag_field ? flag : GO_FLAGS_UNKNOWN;
	ret->depths = g->values + word32(depths);
	ret->depths_len = word32(depths) ? room - word32(depths) : 0;
	return 0;
}
