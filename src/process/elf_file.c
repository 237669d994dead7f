#include "process/elf_file.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

#define SEGMENTS_MAX 1024
/* 4 MB of headers; object files built with -ffunction-sections have thousands. */
#define SECTIONS_MAX 65536
#define NAMES_MAX    (1 << 20)
#define NOTES_MAX    (64 << 10)
#define DYNAMIC_MAX  (64 << 10)
#define PAGE         4096u
#define VDSO_MAX     (1u << 20)

static bool is_in_file(const struct elf_file *e, uint64_t offset, uint64_t len)
{
	return offset <= e->size && len <= e->size - offset;
}

int elf_file_read(const struct elf_file *e, void *buf, size_t len, uint64_t offset)
{
	if (!is_in_file(e, offset, len))
		return -EIO;
	if (!e->mem)
		return file_pread(e->fd, buf, len, offset);
	if (len)
		memcpy(buf, e->mem + offset, len);
	return 0;
}

static void *read_new(const struct elf_file *e, uint64_t len, uint64_t offset)
{
	if (!is_in_file(e, offset, len))
		return NULL;
	CLEANUP(freep) char *p = mem_resize_array(NULL, len + 1, 1);
	if (elf_file_read(e, p, len, offset) < 0)
		return NULL;
	p[len] = '\0';
	return TAKE_PTR(p);
}

/* ---- headers -------------------------------------------------------------------------------- */

/* Conversions from 32-bit to 64-bit structures. */
static void widen_head(const Elf32_Ehdr *n, Elf64_Ehdr *ret)
{
	*ret = (Elf64_Ehdr){
		.e_type = n->e_type,
		.e_machine = n->e_machine,
		.e_entry = n->e_entry,
		.e_phoff = n->e_phoff,
		.e_shoff = n->e_shoff,
		.e_phentsize = n->e_phentsize == sizeof(Elf32_Phdr) ? sizeof(Elf64_Phdr) : 0,
		.e_phnum = n->e_phnum,
		.e_shentsize = n->e_shentsize == sizeof(Elf32_Shdr) ? sizeof(Elf64_Shdr) : 0,
		.e_shnum = n->e_shnum,
		.e_shstrndx = n->e_shstrndx,
	};
	memcpy(ret->e_ident, n->e_ident, sizeof(ret->e_ident));
}

static void widen_segment(const Elf32_Phdr *n, Elf64_Phdr *ret)
{
	*ret = (Elf64_Phdr){
		.p_type = n->p_type,
		.p_flags = n->p_flags,
		.p_offset = n->p_offset,
		.p_vaddr = n->p_vaddr,
		.p_paddr = n->p_paddr,
		.p_filesz = n->p_filesz,
		.p_memsz = n->p_memsz,
		.p_align = n->p_align,
	};
}

static void widen_section(const Elf32_Shdr *n, Elf64_Shdr *ret)
{
	*ret = (Elf64_Shdr){
		.sh_name = n->sh_name,
		.sh_type = n->sh_type,
		.sh_flags = n->sh_flags,
		.sh_addr = n->sh_addr,
		.sh_offset = n->sh_offset,
		.sh_size = n->sh_size,
		.sh_link = n->sh_link,
		.sh_info = n->sh_info,
		.sh_addralign = n->sh_addralign,
		.sh_entsize = n->sh_entsize,
	};
}

static int read_head(const struct elf_file *e, Elf64_Ehdr *ret)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} h;
	bool narrow = e->size >= EI_NIDENT && elf_file_read(e, &h, EI_NIDENT, 0) == 0 &&
		      h.ident[EI_CLASS] == ELFCLASS32;
	size_t size = narrow ? sizeof(h.narrow) : sizeof(h.wide);
	int r = elf_file_read(e, &h, size, 0);
	if (r < 0)
		return e->size < size ? -EINVAL : r;
	if (narrow)
		widen_head(&h.narrow, ret);
	else
		*ret = h.wide;
	return 0;
}

/* `count` program headers; caller frees. NULL if the file is too short. */
static Elf64_Phdr *read_segments(const struct elf_file *e, uint64_t count, uint64_t offset)
{
	if (!e->is_32_bit)
		return read_new(e, count * sizeof(Elf64_Phdr), offset);
	CLEANUP(freep) Elf32_Phdr *from = read_new(e, count * sizeof(*from), offset);
	if (!from)
		return NULL;
	Elf64_Phdr *to = mem_alloc_array(count, sizeof(*to));
	for (uint64_t i = 0; i < count; i++)
		widen_segment(&from[i], &to[i]);
	return to;
}

static Elf64_Shdr *read_section_heads(const struct elf_file *e, uint64_t count, uint64_t offset)
{
	if (!e->is_32_bit)
		return read_new(e, count * sizeof(Elf64_Shdr), offset);
	CLEANUP(freep) Elf32_Shdr *from = read_new(e, count * sizeof(*from), offset);
	if (!from)
		return NULL;
	Elf64_Shdr *to = mem_alloc_array(count, sizeof(*to));
	for (uint64_t i = 0; i < count; i++)
		widen_section(&from[i], &to[i]);
	return to;
}

static void read_sections(struct elf_file *e, const Elf64_Ehdr *h, const Elf64_Shdr *first)
{
	/* Counts that do not fit into the header's 16 bits are in the first section header. */
	uint64_t count = h->e_shnum ? h->e_shnum : first->sh_size;
	uint32_t names = h->e_shstrndx == SHN_XINDEX ? first->sh_link : h->e_shstrndx;
	if (count == 0 || count > SECTIONS_MAX || names >= count)
		return;
	e->sections = read_section_heads(e, count, h->e_shoff);
	if (!e->sections)
		return;
	e->section_count = (uint32_t)count;
	const Elf64_Shdr *s = &e->sections[names];
	if (s->sh_type != SHT_STRTAB || s->sh_size > NAMES_MAX)
		return;
	e->names = read_new(e, s->sh_size, s->sh_offset);
	e->names_len = e->names ? (uint32_t)s->sh_size : 0;
}

static int read_headers(struct elf_file *e, bool relocatable)
{
	Elf64_Ehdr h;
	int r = read_head(e, &h);
	if (r < 0)
		return r;
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return -EINVAL;
	e->is_32_bit = h.e_ident[EI_CLASS] == ELFCLASS32;
	if ((!e->is_32_bit && h.e_ident[EI_CLASS] != ELFCLASS64) ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOTSUP;
	if (h.e_type != ET_EXEC && h.e_type != ET_DYN && (h.e_type != ET_REL || !relocatable))
		return -EINVAL;
	e->machine = h.e_machine;
	e->entry = h.e_entry;

	CLEANUP(freep)
	Elf64_Shdr *first = h.e_shoff && h.e_shentsize == sizeof(Elf64_Shdr)
				    ? read_section_heads(e, 1, h.e_shoff)
				    : NULL;
	uint64_t count = h.e_phnum == PN_XNUM && first ? first->sh_info : h.e_phnum;
	if (count && h.e_phentsize == sizeof(Elf64_Phdr) && count <= SEGMENTS_MAX) {
		e->segments = read_segments(e, count, h.e_phoff);
		e->segment_count = e->segments ? (uint32_t)count : 0;
	}
	if (first)
		read_sections(e, &h, first);
	return e->segments || e->sections ? 0 : -EINVAL;
}

static int init(struct elf_file *e, int fd, bool relocatable)
{
	struct stat st;

	*e = (struct elf_file){.fd = fd};
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	e->size = (uint64_t)st.st_size;
	int r = read_headers(e, relocatable);
	if (r < 0)
		elf_file_done(e);
	return r;
}

int elf_file_init(struct elf_file *e, int fd)
{
	return init(e, fd, false);
}

int elf_file_init_debug(struct elf_file *e, int fd)
{
	return init(e, fd, true);
}

int elf_file_init_mem(struct elf_file *e, const void *mem, size_t size)
{
	*e = (struct elf_file){.fd = -1, .mem = mem, .size = size};
	int r = read_headers(e, false);
	if (r < 0)
		elf_file_done(e);
	return r;
}

/* Nothing tells the size of the vdso in memory, but its section headers come last. */
const void *elf_file_vdso(size_t *ret_size)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: an address */
	Elf64_Ehdr h;

	if (!vdso)
		return NULL;
	memcpy(&h, vdso, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_shentsize != sizeof(Elf64_Shdr) ||
	    h.e_shoff > VDSO_MAX)
		return NULL;
	*ret_size = h.e_shoff + (size_t)h.e_shnum * sizeof(Elf64_Shdr);
	return vdso;
}

void elf_file_done(struct elf_file *e)
{
	free(e->segments);
	free(e->sections);
	free(e->names);
	*e = (struct elf_file){.fd = -1};
}

size_t elf_file_bytes(const struct elf_file *e)
{
	return e->segment_count * sizeof(*e->segments) + e->section_count * sizeof(*e->sections) +
	       e->names_len;
}

/* ---- sections ------------------------------------------------------------------------------- */

const Elf64_Shdr *elf_file_section_at(const struct elf_file *e, uint32_t index)
{
	if (index == 0 || index >= e->section_count)
		return NULL;
	const Elf64_Shdr *s = &e->sections[index];
	return s->sh_type != SHT_NOBITS && is_in_file(e, s->sh_offset, s->sh_size) ? s : NULL;
}

const Elf64_Shdr *elf_file_section(const struct elf_file *e, const char *name)
{
	for (uint32_t i = 1; i < e->section_count; i++)
		if (e->sections[i].sh_name < e->names_len &&
		    strcmp(e->names + e->sections[i].sh_name, name) == 0)
			return elf_file_section_at(e, i);
	return NULL;
}

const Elf64_Shdr *elf_file_section_of_type(const struct elf_file *e, uint32_t type)
{
	for (uint32_t i = 1; i < e->section_count; i++)
		if (e->sections[i].sh_type == type)
			return elf_file_section_at(e, i);
	return NULL;
}

const Elf64_Shdr *elf_file_section_covering(const struct elf_file *e, uint64_t vaddr)
{
	for (uint32_t i = 1; i < e->section_count; i++) {
		const Elf64_Shdr *s = &e->sections[i];
		if ((s->sh_flags & SHF_ALLOC) && !(s->sh_flags & SHF_TLS) && vaddr >= s->sh_addr &&
		    vaddr - s->sh_addr < s->sh_size)
			return s;
	}
	return NULL;
}

int elf_file_debuglink(const struct elf_file *e, char **ret_name, uint32_t *ret_crc)
{
	const Elf64_Shdr *s = elf_file_section(e, ".gnu_debuglink");
	if (!s || s->sh_size < 8 || s->sh_size > PAGE)
		return -ENOENT;
	CLEANUP(freep) char *data = read_new(e, s->sh_size, s->sh_offset);
	if (!data)
		return -ENOENT;

	size_t len = strnlen(data, s->sh_size);
	size_t crc = (len + 4) & ~(size_t)3; /* after the NUL, aligned */
	if (len == 0 || crc + 4 > s->sh_size || memchr(data, '/', len) || strcmp(data, "..") == 0)
		return -ENOENT;
	memcpy(ret_crc, data + crc, sizeof(*ret_crc));
	*ret_name = TAKE_PTR(data);
	return 0;
}

size_t elf_file_symbol_size(const struct elf_file *e)
{
	return e->is_32_bit ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

int elf_file_symbols(const struct elf_file *e, const Elf64_Shdr *table, uint64_t first,
		     size_t count, Elf64_Sym *ret)
{
	size_t each = elf_file_symbol_size(e);
	int r = elf_file_read(e, ret, count * each, table->sh_offset + first * each);

	for (size_t i = count; r == 0 && e->is_32_bit && i-- > 0;) { /* in place, so backwards */
		Elf32_Sym n;
		memcpy(&n, (const char *)ret + i * each, sizeof(n));
		ret[i] = (Elf64_Sym){
			.st_name = n.st_name,
			.st_info = n.st_info,
			.st_other = n.st_other,
			.st_shndx = n.st_shndx,
			.st_value = n.st_value,
			.st_size = n.st_size,
		};
	}
	return r;
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* The contents of the note (owner, type) in the `len` bytes at p, or NULL. */
static const uint8_t *find_note(const uint8_t *p, size_t len, const char *owner, uint32_t type,
				size_t *ret_len)
{
	for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr n;
		memcpy(&n, p + at, sizeof(n));
		at += sizeof(n);
		size_t name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
		size_t desc = ((size_t)n.n_descsz + 3) & ~(size_t)3;
		if (name > len - at || n.n_descsz > len - at - name)
			return NULL;
		if (n.n_type == type && n.n_namesz == 4 && memcmp(p + at, owner, 4) == 0) {
			*ret_len = n.n_descsz;
			return p + at + name;
		}
		at += name + MIN(desc, len - at - name);
	}
	return NULL;
}

/* Looks in each note segment, or each note section of a file without segments. */
static uint8_t *read_note(const struct elf_file *e, const char *owner, uint32_t type,
			  size_t *ret_len)
{
	uint32_t count = e->segment_count ? e->segment_count : e->section_count;

	for (uint32_t i = 0; i < count; i++) {
		bool note = e->segment_count ? e->segments[i].p_type == PT_NOTE
					     : e->sections[i].sh_type == SHT_NOTE;
		uint64_t off =
			e->segment_count ? e->segments[i].p_offset : e->sections[i].sh_offset;
		uint64_t len = e->segment_count ? e->segments[i].p_filesz : e->sections[i].sh_size;
		if (!note || len > NOTES_MAX)
			continue;
		CLEANUP(freep) uint8_t *data = read_new(e, len, off);
		const uint8_t *at = data ? find_note(data, len, owner, type, ret_len) : NULL;
		if (at)
			return mem_dup(at, *ret_len);
	}
	return NULL;
}

size_t elf_file_build_id(const struct elf_file *e, uint8_t ret[static ELF_BUILD_ID_MAX])
{
	size_t len = 0;
	CLEANUP(freep) uint8_t *id = read_note(e, "GNU", NT_GNU_BUILD_ID, &len);

	len = MIN(len, (size_t)ELF_BUILD_ID_MAX);
	if (id)
		memcpy(ret, id, len);
	return len;
}

bool elf_file_is_go(const struct elf_file *e)
{
	size_t len;
	CLEANUP(freep) uint8_t *id = read_note(e, "Go\0", 4, &len);

	return id || elf_file_section(e, ".gopclntab") ||
	       elf_file_section(e, ".data.rel.ro.gopclntab");
}

bool elf_file_is_program(const struct elf_file *e)
{
	const Elf64_Phdr *dynamic = NULL;

	for (uint32_t i = 0; i < e->segment_count; i++)
		if (e->segments[i].p_type == PT_DYNAMIC)
			dynamic = &e->segments[i];
	if (!dynamic || dynamic->p_filesz > DYNAMIC_MAX)
		return !dynamic;
	CLEANUP(freep) char *data = read_new(e, dynamic->p_filesz, dynamic->p_offset);
	size_t each = e->is_32_bit ? sizeof(Elf32_Dyn) : sizeof(Elf64_Dyn);
	for (size_t at = 0; data && at + each <= dynamic->p_filesz; at += each) {
		int64_t tag = 0;
		memcpy(&tag, data + at, each / 2);
		if (tag == DT_NULL)
			return true;
		if (tag == DT_SONAME)
			return false;
	}
	return false;
}

/* ---- addresses ------------------------------------------------------------------------------ */

bool elf_file_vaddr(const struct elf_file *e, uint64_t offset, uint64_t *ret_vaddr)
{
	/*
	 * A page that two segments share is mapped twice, so executable segments are tried first:
	 * first their exact range, then with the rest of their last page, which is mapped, too.
	 */
	for (int pass = 0; pass < 3; pass++)
		for (uint32_t i = 0; i < e->segment_count; i++) {
			const Elf64_Phdr *p = &e->segments[i];
			if (p->p_type != PT_LOAD || (pass < 2 && !(p->p_flags & PF_X)))
				continue;
			uint64_t len = p->p_filesz;
			if (pass > 0 && len <= UINT64_MAX - PAGE)
				len += PAGE - 1 - (p->p_offset + len - 1) % PAGE;
			if (offset < p->p_offset || offset - p->p_offset >= len)
				continue;
			*ret_vaddr = p->p_vaddr + (offset - p->p_offset);
			return true;
		}
	return false;
}

bool elf_file_offset(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_offset)
{
	for (uint32_t i = 0; i < e->segment_count; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr &&
		    vaddr - p->p_vaddr < p->p_filesz) {
			*ret_offset = p->p_offset + (vaddr - p->p_vaddr);
			return true;
		}
	}
	return false;
}

const Elf64_Phdr *elf_file_text(const struct elf_file *e)
{
	for (uint32_t i = 0; i < e->segment_count; i++)
		if (e->segments[i].p_type == PT_LOAD && (e->segments[i].p_flags & PF_X))
			return &e->segments[i];
	return NULL;
}

bool elf_file_is_text(const struct elf_file *e, uint64_t vaddr)
{
	for (uint32_t i = 0; i < e->segment_count; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && vaddr >= p->p_vaddr &&
		    vaddr - p->p_vaddr < p->p_memsz)
			return true;
	}
	return false;
}
