#include "unwind/unwind_table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/sort.h"
#include "unwind/unwind_table_file.h"

#define SUFFIX    ".rows"
#define FILES_MAX 65536
#define CHUNK     (64u << 10)

/* ---- what a table is made from ------------------------------------------------------------- */

static int hash_section(const struct elf_file *e, const char *name, uint8_t *chunk,
			XXH3_state_t *hash)
{
	const Elf64_Shdr *s = elf_file_section(e, name);
	static const Elf64_Shdr none;

	XXH3_128bits_update(hash, s ? s : &none, sizeof(none));
	if (s && s->sh_size > CFI_TABLE_MAX)
		return -EFBIG;
	for (uint64_t at = 0; s && at < s->sh_size; at += CHUNK) {
		size_t len = (size_t)MIN(s->sh_size - at, (uint64_t)CHUNK);
		int r = elf_file_read(e, chunk, len, s->sh_offset + at);
		if (r < 0)
			return r;
		XXH3_128bits_update(hash, chunk, len);
	}
	return 0;
}

/* Identifies the file by what only the kernel sets: any change to the file changes its ctime. */
static void identify(const struct elf_file *e, struct unwind_table_file_origin *o)
{
	struct stat st;

	if (e->fd < 0 || fstat(e->fd, &st) != 0)
		return;
	o->device = st.st_dev;
	o->inode = st.st_ino;
	o->size = (uint64_t)st.st_size;
	o->changed_ns = clock_timespec_ns(st.st_ctim);
}

static bool is_same_file(const struct elf_file *e, const struct unwind_table_file_origin *o)
{
	struct unwind_table_file_origin now = {};

	identify(e, &now);
	return now.inode && now.inode == o->inode && now.device == o->device &&
	       now.size == o->size && now.changed_ns == o->changed_ns;
}

/* All that cfi_each() reads of a file that has sections and is not a Go program. */
static int hash_tables(const struct elf_file *e, struct unwind_table_file_origin *o)
{
	CLEANUP(freep) uint8_t *chunk = mem_resize_array(NULL, CHUNK, 1);
	XXH3_state_t *hash = XXH3_createState();

	XXH3_128bits_reset_withSeed(hash, o->seed);
	XXH3_128bits_update(hash, &e->machine, sizeof(e->machine));
	XXH3_128bits_update(hash, e->segments, e->segment_count * sizeof(*e->segments));
	int r = e->section_count ? 0 : -ENOENT;
	if (r == 0)
		r = hash_section(e, ".eh_frame", chunk, hash);
	if (r == 0)
		r = hash_section(e, ".debug_frame", chunk, hash);
	XXH128_hash_t h = XXH3_128bits_digest(hash);
	o->hash[0] = h.low64;
	o->hash[1] = h.high64;
	XXH3_freeState(hash);
	return r;
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *path_of(const struct unwind_table_cache *c, const struct elf_file *e)
{
	uint8_t id[ELF_BUILD_ID_MAX];
	char hex[2 * ELF_BUILD_ID_MAX + 1];
	/* Go's own table is not part of the hash, and is quick to read. */
	size_t len = c->dir && !elf_file_is_go(e) ? elf_file_build_id(e, id) : 0;

	if (!len)
		return NULL;
	/* Each version of smolder on a machine has files of its own. */
	return mem_printf("%s/%s-%d" SUFFIX, c->dir, text_hex_bytes(id, len, hex),
			  UNWIND_TABLE_FILE_VERSION);
}

static int load(const char *path, const struct elf_file *e, struct rules *rules,
		struct unwind_table **ret)
{
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	struct unwind_table_file_head h;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(h) ||
	    st.st_size > (off_t)UNWIND_TABLE_FILE_MAX)
		return -EBADMSG;
	size_t len = (size_t)st.st_size;
	CLEANUP(freep) char *data = mem_resize_array(NULL, len, 1);
	int r = file_pread(fd, data, len, 0);
	if (r < 0)
		return r;
	memcpy(&h, data, sizeof(h));
	if (!is_same_file(e, &h.origin)) {
		struct unwind_table_file_origin origin = {.seed = h.origin.seed};
		r = hash_tables(e, &origin);
		if (r < 0)
			return r;
		if (memcmp(origin.hash, h.origin.hash, sizeof(origin.hash)) != 0)
			return -EBADMSG;
	}
	r = unwind_table_file_decode(data, len, rules, ret);
	if (r == 0)
		futimens(fd, NULL); /* so that the oldest mtime is the least recently used */
	return r;
}

/* `before` identifies the CFI as it was before the table was built. */
static int store(struct unwind_table_cache *c, const char *path, const struct elf_file *e,
		 const struct unwind_table *table, const struct rules *rules,
		 const struct unwind_table_file_origin *before)
{
	struct unwind_table_file_origin now = {.seed = before->seed};
	int r = hash_tables(e, &now);
	if (r < 0)
		return r;
	identify(e, &now);
	if (memcmp(&now, before, sizeof(now)) != 0)
		return -EAGAIN;
	size_t len;
	CLEANUP(freep) void *data = unwind_table_file_encode(table, rules, before, &len);
	if (len > c->max)
		return -EFBIG;
	struct file_out out;
	r = file_out_open(&out, path);
	if (r < 0)
		return r;
	fwrite(data, 1, len, out.f);
	r = file_out_commit(&out);
	if (r == 0)
		c->bytes += len;
	return r;
}

/* ---- the folder ----------------------------------------------------------------------------- */

struct entry {
	uint64_t used; /* ns; first, to sort by */
	uint64_t bytes;
	char *name;
};

static size_t list(const struct unwind_table_cache *c, struct entry **ret)
{
	struct entry *all = NULL;
	size_t count = 0, cap = 0;
	DIR *d = opendir(c->dir);

	for (struct dirent *de; d && count < FILES_MAX && (de = readdir(d));) {
		struct stat st;
		size_t len = strlen(de->d_name);
		if (len < strlen(SUFFIX) ||
		    strcmp(de->d_name + len - strlen(SUFFIX), SUFFIX) != 0 ||
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		MEM_GROW(all, count, cap);
		all[count++] = (struct entry){
			.used = clock_timespec_ns(st.st_mtim),
			.bytes = (uint64_t)st.st_size,
			.name = mem_strdup(de->d_name),
		};
	}
	if (d)
		closedir(d);
	*ret = all;
	return count;
}

/* Adds up the sizes; if over the limit, removes the oldest down to three quarters of it. */
static void tidy(struct unwind_table_cache *c)
{
	struct entry *all;
	size_t count = list(c, &all);

	c->bytes = 0;
	for (size_t i = 0; i < count; i++)
		c->bytes += all[i].bytes;
	bool too_much = c->bytes > c->max;
	if (too_much)
		sort_by_u64(all, count, sizeof(*all));
	for (size_t i = 0; i < count; i++) {
		CLEANUP(freep) char *path = mem_printf("%s/%s", c->dir, all[i].name);
		if (too_much && c->bytes > c->max / 4 * 3 && unlink(path) == 0) {
			c->bytes -= all[i].bytes;
			c->stats.removed++;
		}
		free(all[i].name);
	}
	free(all);
}

int unwind_table_cache_init(struct unwind_table_cache *c, const char *dir, uint64_t max_bytes)
{
	struct stat st;

	*c = (struct unwind_table_cache){.max = max_bytes};
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	c->dir = mem_strdup(dir);
	tidy(c);
	return 0;
}

void unwind_table_cache_done(struct unwind_table_cache *c)
{
	free(c->dir);
	*c = (struct unwind_table_cache){};
}

int unwind_table_cache_get(struct unwind_table_cache *c, const struct elf_file *e,
			   struct rules *rules, struct unwind_table **ret, struct cfi_stats *stats)
{
	CLEANUP(freep) char *path = path_of(c, e);
	int r = path ? load(path, e, rules, ret) : -ENOENT;
	if (r == 0) {
		c->stats.loaded++;
		if (stats)
			*stats = (*ret)->stats;
		return 0;
	}
	c->stats.refused += r != -ENOENT;

	struct unwind_table_file_origin origin = {};
	identify(e, &origin);
	uint64_t refused = rules->refused;
	bool keep = path && getrandom(&origin.seed, sizeof(origin.seed), 0) > 0 &&
		    hash_tables(e, &origin) == 0;
	r = unwind_table_build(e, rules, ret, stats);
	if (r < 0)
		return r;
	c->stats.built++;
	/* A table that lacks a rule for want of room must not be loaded when there is room again.
	 */
	if (!keep || rules->refused != refused)
		return 0;
	if (store(c, path, e, *ret, rules, &origin) == 0)
		c->stats.stored++;
	else
		c->stats.failed++;
	if (c->bytes > c->max)
		tidy(c);
	return 0;
}
