#include "symbol/debugfile.h"

#include <errno.h>

#include <lzma.h>
#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/root.h"

#define DEBUG_DIR   "/usr/lib/debug"
#define CRC_MAX     (512ull << 20) /* bytes of a debug file without a build id: 0.3 s at most */
#define PACKED_MAX  (16u << 20)
#define UNPACK_MAX  (32u << 20)
#define ALTLINK_MAX 4096
#define UNPACK_MEM  (64u << 20) /* memory for the decoder: xz -9 needs that much */

struct wanted {
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t id_len;
	struct stat self;
	bool shared;  /* dwz's shared file, which has no symbols */
	bool by_link; /* found by .gnu_debuglink: without build ids the CRC decides */
	uint32_t crc;
};

static bool crc_matches(int fd, uint64_t size, uint32_t want)
{
	enum { CHUNK = 256 << 10 };
	CLEANUP(freep) uint8_t *buf = mem_resize_array(NULL, CHUNK, 1);
	uLong crc = crc32(0, NULL, 0);

	if (size > CRC_MAX)
		return false;
	for (uint64_t at = 0; at < size; at += CHUNK) {
		size_t n = (size_t)MIN(size - at, (uint64_t)CHUNK);
		if (file_pread(fd, buf, n, at) < 0)
			return false;
		crc = crc32(crc, buf, (uInt)n);
	}
	return crc == want;
}

static bool belongs(const struct wanted *w, int fd)
{
	struct elf_file d;
	uint8_t id[ELF_BUILD_ID_MAX];
	if ((w->shared ? elf_file_init_debug(&d, fd) : elf_file_init(&d, fd)) < 0)
		return false;

	size_t len = elf_file_build_id(&d, id);
	bool yes = w->shared || elf_file_section_of_type(&d, SHT_SYMTAB);
	if (yes && len && w->id_len)
		yes = len == w->id_len && memcmp(id, w->id, len) == 0;
	else if (yes)
		yes = w->by_link && crc_matches(fd, d.size, w->crc);
	elf_file_done(&d);
	return yes;
}

static int try_open(const struct wanted *w, const char *root, const char *path)
{
	struct stat st;
	CLEANUP(fd_closep) int fd = root_open(root, path, false, &st);
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (st.st_dev == w->self.st_dev && st.st_ino == w->self.st_ino)
		return -ENOENT;
	return belongs(w, fd) ? TAKE_FD(fd) : -ESTALE;
}

/* The descriptor, or the first error that says more than "no such file". */
static int or_why(int fd, int before)
{
	return fd >= 0 || before == -ENOENT ? fd : before;
}

static int open_by_id(const struct wanted *w, const char *root)
{
	char hex[2 * ELF_BUILD_ID_MAX + 1];
	char path[sizeof(DEBUG_DIR "/.build-id//.debug") + sizeof(hex)];

	if (w->id_len < 2)
		return -ENOENT;
	text_hex_bytes(w->id, w->id_len, hex);
	snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2);
	return try_open(w, root, path);
}

static int open_by_link(const struct wanted *w, const char *root, const char *path,
			const char *link)
{
	const char *slash = strrchr(path, '/');
	int dir = (int)(slash - path);
	CLEANUP(freep) char *beside = mem_printf("%.*s/%s", dir, path, link);
	CLEANUP(freep) char *below = mem_printf("%.*s/.debug/%s", dir, path, link);
	CLEANUP(freep) char *global = mem_printf(DEBUG_DIR "%.*s/%s", dir, path, link);
	const char *const tries[] = {beside, below, global};
	int fd = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(tries) && fd < 0; i++)
		fd = or_why(try_open(w, root, tries[i]), fd);
	return fd;
}

int debugfile_open(const struct elf_file *e, const char *root, const char *path)
{
	struct wanted w = {};
	CLEANUP(freep) char *link = NULL;
	if (e->fd < 0 || fstat(e->fd, &w.self) < 0)
		return -ENOENT;

	w.id_len = elf_file_build_id(e, w.id);
	bool linked = path && path[0] == '/' && elf_file_debuglink(e, &link, &w.crc) == 0;
	int fd = -ENOENT;
	for (int ours = root ? 0 : 1; ours < 2 && fd < 0; ours++) {
		const char *in = ours ? NULL : root;
		w.by_link = false;
		fd = or_why(open_by_id(&w, in), fd);
		w.by_link = true;
		if (fd < 0 && linked)
			fd = or_why(open_by_link(&w, in, path, link), fd);
	}
	return fd;
}

/* The section is a path, NUL, and the build id. */
int debugfile_open_alt(const struct elf_file *e, const char *root)
{
	const Elf64_Shdr *s = elf_file_section(e, ".gnu_debugaltlink");
	struct wanted w = {.shared = true};
	char link[ALTLINK_MAX];
	if (!s || s->sh_size > sizeof(link) || e->fd < 0 || fstat(e->fd, &w.self) < 0 ||
	    elf_file_read(e, link, s->sh_size, s->sh_offset) < 0)
		return -ENOENT;

	size_t len = strnlen(link, s->sh_size), at = MIN(len + 1, s->sh_size);
	w.id_len = MIN(s->sh_size - at, sizeof(w.id));
	memcpy(w.id, link + at, w.id_len);
	if (w.id_len == 0)
		return -ENOENT;
	for (int ours = root ? 0 : 1; ours < 2; ours++) {
		const char *in = ours ? NULL : root;
		int fd = link[0] == '/' ? try_open(&w, in, link) : -ENOENT;
		if (fd < 0)
			fd = open_by_id(&w, in);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}

/* ---- .gnu_debugdata ------------------------------------------------------------------------- */

/* The buffer doubles as needed, so that small data uses little memory. */
static int unxz(const uint8_t *in, size_t in_len, uint8_t **ret, size_t *ret_len)
{
	CLEANUP(freep) uint8_t *out = NULL;
	size_t cap = MIN(MAX(in_len * 4, (size_t)4096), (size_t)UNPACK_MAX);
	lzma_stream z = LZMA_STREAM_INIT;
	if (lzma_stream_decoder(&z, UNPACK_MEM, 0) != LZMA_OK)
		return -EINVAL;

	lzma_ret r = LZMA_OK;
	z.next_in = in;
	z.avail_in = in_len;
	while (r == LZMA_OK) {
		out = mem_resize_array(out, cap, 1);
		z.next_out = out + z.total_out;
		z.avail_out = cap - z.total_out;
		r = lzma_code(&z, LZMA_FINISH);
		if (r == LZMA_OK && cap == UNPACK_MAX)
			break;
		cap = MIN(cap * 2, (size_t)UNPACK_MAX);
	}
	*ret_len = z.total_out;
	lzma_end(&z);
	if (r != LZMA_STREAM_END)
		return r == LZMA_OK ? -EFBIG : -EINVAL;
	*ret = TAKE_PTR(out);
	return 0;
}

int debugfile_unpack(const struct elf_file *e, uint8_t **ret, size_t *ret_len)
{
	const Elf64_Shdr *s = elf_file_section(e, ".gnu_debugdata");
	if (!s || s->sh_size == 0)
		return -ENOENT;
	if (s->sh_size > PACKED_MAX)
		return -EFBIG;
	CLEANUP(freep) uint8_t *in = mem_resize_array(NULL, s->sh_size, 1);
	if (elf_file_read(e, in, s->sh_size, s->sh_offset) < 0)
		return -EINVAL;
	return unxz(in, s->sh_size, ret, ret_len);
}
