#include "unwind/cfi_sections.h"

#include <errno.h>
#include <zlib.h>

#include "base/mem.h"
#include "unwind/byte_reader.h"

static int read_plain(const struct elf_file *e, uint64_t size, uint64_t max, struct cfi_section *s)
{
	if (size > max)
		return -EFBIG;
	s->data = mem_resize_array(NULL, size ? size : 1, 1);
	s->size = size;
	return elf_file_read(e, s->data, size, s->offset);
}

/* Go compresses its debug sections, and so do distributions. */
static int read_compressed(const struct elf_file *e, uint64_t size, uint64_t max,
			   struct cfi_section *s)
{
	struct cfi_section packed = {.offset = s->offset};
	Elf64_Chdr h;

	int r = read_plain(e, size, max, &packed);
	CLEANUP(freep) uint8_t *data = packed.data;
	if (r < 0)
		return r;
	if (size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (h.ch_type != ELFCOMPRESS_ZLIB)
		return -ENOTSUP;
	if (h.ch_size > max)
		return -EFBIG;
	s->data = mem_resize_array(NULL, h.ch_size ? h.ch_size : 1, 1);
	s->size = h.ch_size;
	uLongf len = (uLongf)h.ch_size;
	if (uncompress(s->data, &len, data + sizeof(h), (uLong)(size - sizeof(h))) != Z_OK ||
	    len != h.ch_size)
		return -EBADMSG;
	return 0;
}

/* Without section headers: .eh_frame_hdr, which has its own segment, points to .eh_frame. */
static int read_by_segment(const struct elf_file *e, uint64_t max, struct cfi_section *s)
{
	const Elf64_Phdr *hdr = NULL, *load = NULL;
	uint8_t head[16];

	for (uint32_t i = 0; i < e->segment_count; i++)
		if (e->segments[i].p_type == PT_GNU_EH_FRAME)
			hdr = &e->segments[i];
	if (!hdr || hdr->p_filesz < sizeof(head) ||
	    elf_file_read(e, head, sizeof(head), hdr->p_offset) < 0 || head[0] != 1)
		return -ENOENT;
	struct byte_reader b = {.at = head + 4, .end = head + sizeof(head)};
	s->vaddr = byte_reader_pointer(&b, head[1], hdr->p_vaddr + 4, hdr->p_vaddr);
	for (uint32_t i = 0; i < e->segment_count; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type == PT_LOAD && s->vaddr - p->p_vaddr < p->p_filesz)
			load = p;
	}
	if (b.bad || !load)
		return -ENOENT;
	uint64_t at = s->vaddr - load->p_vaddr;
	s->offset = load->p_offset + at;
	s->to_terminator = true;
	return read_plain(e, MIN(load->p_filesz - at, max), max, s);
}

static int read_section(const struct elf_file *e, const char *name, uint64_t max,
			struct cfi_section *s)
{
	const Elf64_Shdr *h = elf_file_section(e, name);
	if (!h)
		return -ENOENT;
	s->vaddr = h->sh_addr;
	s->offset = h->sh_offset;
	return h->sh_flags & SHF_COMPRESSED ? read_compressed(e, h->sh_size, max, s)
					    : read_plain(e, h->sh_size, max, s);
}

/* Frees a section that could not be read, and says why unless it is just missing. Returns r. */
static int keep(struct cfi_section *s, int r, const char **ret_why)
{
	if (r == 0)
		return 0;
	free(s->data);
	*s = (struct cfi_section){.debug = s->debug};
	if (r != -ENOENT)
		*ret_why = r == -EFBIG ? "its CFI section is too large"
				       : "its CFI section cannot be read";
	return r;
}

int cfi_sections_read(const struct elf_file *e, uint64_t max, struct cfi_section ret[static 2],
		      const char **ret_why)
{
	ret[0] = (struct cfi_section){};
	ret[1] = (struct cfi_section){.debug = true};
	int eh = read_section(e, ".eh_frame", max, &ret[0]);
	if (eh == -ENOENT && e->section_count == 0)
		eh = read_by_segment(e, max, &ret[0]);
	int debug = read_section(e, ".debug_frame", max, &ret[1]);

	eh = keep(&ret[0], eh, ret_why);
	debug = keep(&ret[1], debug, ret_why);
	if (eh == 0 || debug == 0)
		return 0;
	return eh == -ENOENT ? debug : eh;
}

void cfi_sections_done(struct cfi_section s[static 2])
{
	free(s[0].data);
	free(s[1].data);
	s[0] = s[1] = (struct cfi_section){};
}
