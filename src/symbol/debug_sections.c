#include "symbol/debug_sections.h"

#include <endian.h>
#include <errno.h>
#include <zlib.h>
#include <zstd.h>

#include "arch/arch.h"
#include "base/mem.h"

#define ZEROS 64 /* at least, after each section */

enum packing { PLAIN, ZLIB, ZSTD };

/* Old tools named a compressed section .zdebug_*: "ZLIB", its size in big-endian, then the data. */
#define OLD_HEADER 12

static const char *const wanted[] = {
	"info", "abbrev", "line", "line_str", "str", "str_offsets", "addr", "ranges", "rnglists",
};
enum { SECTIONS = ARRAY_SIZE(wanted), INFO = 0, LINE = 2 };

/* The string table of section names. */
static const char names[] = "\0.debug_info\0.debug_abbrev\0.debug_line\0.debug_line_str\0"
			    ".debug_str\0.debug_str_offsets\0.debug_addr\0.debug_ranges\0"
			    ".debug_rnglists\0.shstrtab";

struct packed_section {
	const Elf64_Shdr *section; /* NULL: the file has none */
	enum packing packing;
	uint64_t header; /* bytes before the compressed data */
	uint64_t size;   /* unpacked */
};

static bool read_header(const struct elf_file *e, struct packed_section *s)
{
	union {
		Elf32_Chdr narrow;
		Elf64_Chdr wide;
	} h;
	size_t size = e->is_32_bit ? sizeof(h.narrow) : sizeof(h.wide);

	if (s->section->sh_size < size || elf_file_read(e, &h, size, s->section->sh_offset) < 0)
		return false;
	uint32_t type = e->is_32_bit ? h.narrow.ch_type : h.wide.ch_type;
	if (type != ELFCOMPRESS_ZLIB && type != 2 /* zstd, since glibc 2.36 */)
		return false;
	s->packing = type == ELFCOMPRESS_ZLIB ? ZLIB : ZSTD;
	s->header = size;
	s->size = e->is_32_bit ? h.narrow.ch_size : h.wide.ch_size;
	return true;
}

static bool read_old_header(const struct elf_file *e, struct packed_section *s)
{
	uint8_t h[OLD_HEADER];
	uint64_t size;

	if (s->section->sh_size < sizeof(h) ||
	    elf_file_read(e, h, sizeof(h), s->section->sh_offset) < 0 || memcmp(h, "ZLIB", 4) != 0)
		return false;
	memcpy(&size, h + 4, sizeof(size));
	s->packing = ZLIB;
	s->header = sizeof(h);
	s->size = be64toh(size);
	return true;
}

static struct packed_section find(const struct elf_file *e, const char *which)
{
	char name[32];
	struct packed_section s = {};

	snprintf(name, sizeof(name), ".debug_%s", which);
	s.section = elf_file_section(e, name);
	bool good = s.section && s.section->sh_type != SHT_NOBITS;
	if (good && s.section->sh_flags & SHF_COMPRESSED) {
		good = read_header(e, &s);
	} else if (good) {
		s.size = s.section->sh_size;
	} else {
		snprintf(name, sizeof(name), ".zdebug_%s", which);
		s.section = elf_file_section(e, name);
		good = s.section && read_old_header(e, &s);
	}
	return good && s.size ? s : (struct packed_section){};
}

/* The size of the copy: 0 when there is nothing to copy, UINT64_MAX when it is absurdly large. */
static uint64_t measure(const struct elf_file *e, struct packed_section ret[static SECTIONS])
{
	uint64_t size = sizeof(Elf64_Ehdr) + sizeof(names) + (SECTIONS + 2) * sizeof(Elf64_Shdr);

	for (int i = 0; i < SECTIONS; i++) {
		ret[i] = find(e, wanted[i]);
		if (ret[i].size > UINT32_MAX)
			return UINT64_MAX;
		size += ret[i].size + 2 * ZEROS;
	}
	return ret[INFO].section ? size : 0;
}

uint64_t debug_sections_size(const struct elf_file *e)
{
	struct packed_section sources[SECTIONS];

	return measure(e, sources);
}

static int copy(const struct elf_file *e, const struct packed_section *s, uint8_t *to)
{
	uint64_t offset = s->section->sh_offset + s->header;
	size_t packed_len = s->section->sh_size - s->header;
	if (s->packing == PLAIN)
		return elf_file_read(e, to, s->size, offset);

	/* The section fits into the file, but a sparse file may be huge. */
	if (packed_len > s->size + (1u << 20))
		return -EBADMSG;
	CLEANUP(freep) uint8_t *packed = mem_resize_array(NULL, packed_len + 1, 1);
	if (elf_file_read(e, packed, packed_len, offset) < 0)
		return -EIO;
	uLongf len = s->size;
	bool good = s->packing == ZSTD
			    ? ZSTD_decompress(to, s->size, packed, packed_len) == s->size
			    : uncompress(to, &len, packed, packed_len) == Z_OK && len == s->size;
	return good ? 0 : -EBADMSG;
}

/* The offset of the name of the i-th section in `names`. */
static uint32_t name_at(int i)
{
	uint32_t at = 1;

	while (i--)
		at += (uint32_t)strlen(names + at) + 1;
	return at;
}

static void write_headers(struct debug_sections *d, const Elf64_Shdr *sections, size_t at)
{
	Elf64_Ehdr h = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = ARCH_ELF_MACHINE,
		.e_version = EV_CURRENT,
		.e_shoff = at,
		.e_ehsize = sizeof(h),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS + 2,
		.e_shstrndx = SECTIONS + 1,
	};

	memcpy(d->data, &h, sizeof(h));
	memcpy(d->data + at, sections, (SECTIONS + 2) * sizeof(*sections));
}

int debug_sections_init(struct debug_sections *d, const struct elf_file *e, size_t max)
{
	struct packed_section sources[SECTIONS];
	Elf64_Shdr sections[SECTIONS + 2] = {};
	uint64_t size = measure(e, sources);

	if (size == 0 || size > max)
		return size ? -EFBIG : -ENOENT;
	*d = (struct debug_sections){.data = mem_alloc(size), .size = size};
	size_t at = sizeof(Elf64_Ehdr);
	for (int i = 0; i < SECTIONS; i++) {
		Elf64_Shdr *h = &sections[i + 1];
		*h = (Elf64_Shdr){.sh_name = name_at(i), .sh_type = SHT_NULL, .sh_addralign = 1};
		if (!sources[i].section)
			continue;
		int r = copy(e, &sources[i], d->data + at);
		if (r < 0) {
			debug_sections_done(d);
			return r;
		}
		h->sh_type = SHT_PROGBITS;
		h->sh_offset = at;
		h->sh_size = sources[i].size;
		at += (sources[i].size + 2 * ZEROS - 1) / ZEROS * ZEROS;
	}
	memcpy(d->data + at, names, sizeof(names));
	sections[SECTIONS + 1] = (Elf64_Shdr){.sh_name = name_at(SECTIONS),
					      .sh_type = SHT_STRTAB,
					      .sh_offset = at,
					      .sh_size = sizeof(names),
					      .sh_addralign = 1};
	at += (sizeof(names) + 7) / 8 * 8;
	write_headers(d, sections, at);
	d->line = sections[LINE + 1].sh_offset;
	d->line_size = sections[LINE + 1].sh_size;
	return 0;
}

void debug_sections_done(struct debug_sections *d)
{
	free(d->data);
	*d = (struct debug_sections){};
}
