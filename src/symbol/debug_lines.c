#include "symbol/debug_lines.h"

#include <errno.h>
#include <fcntl.h>

#include "base/mem.h"
#include "symbol/debugfile.h"
#include "symbol/debuginfo.h"
#include "symbol/demangle.h"

#define FILES_MAX  256 /* open files; further ones count as refused */
#define SOURCE_MAX 1024
#define OPENS_MAX  4 /* of one file, when several that do not fit together take turns */

struct debug_file {
	int fd, alt_fd;         /* -1: given up; none */
	struct debuginfo *info; /* NULL: closed */
	unsigned opens;
	uint64_t used;
};

struct debug_lines {
	struct debug_file *files; /* by id - 1 */
	uint32_t count, cap;
	size_t max_bytes;
	uint64_t clock;
	struct debug_lines_stats stats;
	char names[DEBUG_LINES_DEPTH][DEMANGLE_MAX];
	char sources[DEBUG_LINES_DEPTH][SOURCE_MAX];
};

_Static_assert(DEBUG_LINES_DEPTH == DEBUGINFO_DEPTH, "frames are copied one by one");

struct debug_lines *debug_lines_new(size_t max_bytes)
{
	struct debug_lines *l = mem_alloc(sizeof(*l));

	l->max_bytes = max_bytes;
	return l;
}

static void close_info(struct debug_lines *l, struct debug_file *f)
{
	if (f->info)
		l->stats.bytes -= debuginfo_bytes(f->info);
	debuginfo_free(f->info);
	f->info = NULL;
}

static void give_up(struct debug_lines *l, struct debug_file *f)
{
	close_info(l, f);
	fd_closep(&f->fd);
	fd_closep(&f->alt_fd);
	f->fd = f->alt_fd = -1;
}

void debug_lines_free(struct debug_lines *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->count; i++)
		give_up(l, &l->files[i]);
	free(l->files);
	free(l);
}

/*
 * Descriptors, or -1: of the file that has the debug info of `spec` (which may be that file
 * itself), and of the one that this shares debug info with (dwz).
 */
static int find_info(const struct debug_lines_file *spec, uint64_t *ret_size, int *ret_alt)
{
	struct elf_file e;
	CLEANUP(fd_closep) int fd = fcntl(spec->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || elf_file_init(&e, fd) < 0)
		return -1;

	*ret_size = debug_sections_size(&e);
	if (*ret_size == 0) {
		int other = debugfile_open(&e, spec->root, spec->path);
		close(fd);
		fd = other;
		elf_file_done(&e);
		if (fd < 0 || elf_file_init(&e, fd) < 0)
			return -1;
		*ret_size = debug_sections_size(&e);
	}
	*ret_alt = *ret_size ? debugfile_open_alt(&e, spec->root) : -1;
	elf_file_done(&e);
	return *ret_size ? TAKE_FD(fd) : -1;
}

uint32_t debug_lines_add_file(struct debug_lines *l, const struct debug_lines_file *spec)
{
	uint64_t size;
	CLEANUP(fd_closep) int alt = -1;
	CLEANUP(fd_closep) int fd = spec->fd >= 0 ? find_info(spec, &size, &alt) : -1;
	if (fd < 0)
		return 0;

	l->stats.files++;
	if (size > l->max_bytes || l->count == FILES_MAX) {
		l->stats.too_large += size > l->max_bytes;
		l->stats.refused += size <= l->max_bytes;
		return 0;
	}
	MEM_GROW(l->files, l->count, l->cap);
	l->files[l->count++] = (struct debug_file){.fd = TAKE_FD(fd), .alt_fd = TAKE_FD(alt)};
	return l->count;
}

/* Closes the least recently used files (but not `keep`) until `need` bytes are free. */
static void make_room(struct debug_lines *l, const struct debug_file *keep, size_t need)
{
	while (l->stats.bytes + need > l->max_bytes) {
		struct debug_file *oldest = NULL;
		for (struct debug_file *f = l->files; f < l->files + l->count; f++)
			if (f != keep && f->info && (!oldest || f->used < oldest->used))
				oldest = f;
		if (!oldest)
			return;
		close_info(l, oldest);
	}
}

static int read_sections(struct debug_lines *l, const struct debug_file *f, int fd, size_t max,
			 struct debug_sections *ret)
{
	struct elf_file e;

	int r = elf_file_init_debug(&e, fd);
	if (r < 0)
		return r;
	make_room(l, f, MIN(debug_sections_size(&e) + l->max_bytes - max, l->max_bytes));
	r = debug_sections_init(ret, &e, max);
	elf_file_done(&e);
	return r;
}

static int open_info(struct debug_lines *l, struct debug_file *f)
{
	struct debug_sections main = {}, alt = {};
	if (f->opens++ == OPENS_MAX)
		return -EAGAIN;

	int r = read_sections(l, f, f->fd, l->max_bytes, &main);
	if (r < 0)
		return r;
	/* If the shared part cannot be read, some names are missing; the rest is still useful. */
	if (f->alt_fd >= 0)
		read_sections(l, f, f->alt_fd, l->max_bytes - main.size, &alt);
	r = debuginfo_open(&main, &alt, &f->info);
	if (r == 0) {
		l->stats.opens++;
		l->stats.bytes += debuginfo_bytes(f->info);
	}
	return r;
}

/* Demangled: "a::b(int)". */
static void put_name(const struct debuginfo_frame *f, char ret[static DEMANGLE_MAX])
{
	const char *name = f->linkage_name ? f->linkage_name : f->name;

	ret[0] = '\0';
	if (name)
		demangle(name, ret);
}

static void put_source(const struct debuginfo_frame *f, char ret[static SOURCE_MAX])
{
	snprintf(ret, SOURCE_MAX, "%s%s%s", f->directory ? f->directory : "",
		 f->directory ? "/" : "", f->source ? f->source : "");
}

size_t debug_lines_find(struct debug_lines *l, uint32_t file, uint64_t vaddr,
			struct debug_lines_frame ret[static DEBUG_LINES_DEPTH])
{
	struct debuginfo_frame frames[DEBUGINFO_DEPTH];
	struct debug_file *f = file && file <= l->count ? &l->files[file - 1] : NULL;
	if (!f || f->fd < 0)
		return 0;

	l->stats.lookups++;
	f->used = ++l->clock;
	if (!f->info && open_info(l, f) < 0) {
		l->stats.refused++;
		give_up(l, f);
		return 0;
	}
	size_t before = debuginfo_bytes(f->info);
	size_t count = debuginfo_find(f->info, vaddr, frames);
	l->stats.bytes += debuginfo_bytes(f->info) - before;
	for (size_t i = 0; i < count; i++) {
		put_name(&frames[i], l->names[i]);
		put_source(&frames[i], l->sources[i]);
		ret[i] = (struct debug_lines_frame){
			.name = l->names[i],
			.source = l->sources[i],
			.line = frames[i].line,
			.start = frames[i].start,
		};
	}
	l->stats.found += count > 0;
	l->stats.cut += count == DEBUG_LINES_DEPTH;
	if (debuginfo_exhausted(f->info) || debuginfo_bytes(f->info) > 2 * l->max_bytes) {
		l->stats.refused++;
		give_up(l, f);
		return 0;
	}
	make_room(l, f, 0);
	return count;
}

void debug_lines_stats(const struct debug_lines *l, struct debug_lines_stats *ret)
{
	*ret = l->stats;
}
