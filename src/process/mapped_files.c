#include "process/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "process/elf_file.h"

/* How a mapping named a file, and which file that was. */
struct seen_mapping {
	uint64_t device, inode, generation, mtime_ns;
	uint32_t file;
};

struct mapped_files {
	struct string_pool strings;
	struct mapped_file *list; /* by id, entry 0 unused */
	uint32_t count, cap;
	struct seen_mapping *seen;
	uint32_t seen_count, seen_cap;
	struct index by_build_id, by_inode, by_path, by_mapping;
};

struct mapped_files *mapped_files_new(void)
{
	struct mapped_files *f = mem_alloc(sizeof(*f));

	f->list = mem_alloc_array(f->cap = 64, sizeof(*f->list));
	return f;
}

void mapped_files_free(struct mapped_files *f)
{
	if (!f)
		return;
	for (uint32_t i = 1; i <= f->count; i++)
		if (f->list[i].fd >= 0)
			close(f->list[i].fd);
	free(f->list);
	string_pool_done(&f->strings);
	index_done(&f->by_build_id);
	index_done(&f->by_inode);
	index_done(&f->by_path);
	index_done(&f->by_mapping);
	free(f->seen);
	free(f);
}

const struct mapped_file *mapped_files_get(const struct mapped_files *f, uint32_t id)
{
	return &f->list[id];
}

uint32_t mapped_files_count(const struct mapped_files *f)
{
	return f->count;
}

static void read_head(int fd, struct mapped_file *ret)
{
	struct elf_file e;

	if (elf_file_init(&e, fd) != 0)
		return;
	ret->is_elf = true;
	ret->build_id_len = (uint8_t)elf_file_build_id(&e, ret->build_id);
	elf_file_done(&e);
}

/*
 * Opens a regular file and nothing else: the path may by now name a FIFO or a device, which must
 * not be opened, so its type is checked first (O_PATH).
 */
static int open_regular(const char *path, struct stat *ret_stat)
{
	CLEANUP(fd_closep) int path_fd = open(path, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	if (fstat(path_fd, ret_stat) != 0)
		return -errno;
	if (!S_ISREG(ret_stat->st_mode))
		return -EINVAL;

	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	int fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd >= 0 ? fd : -errno;
}

/*
 * On overlayfs, which containers use, a mapping may have another inode than stat() shows. Then the
 * file is the mapped one if its path is the one that was mapped.
 */
static bool is_called(int fd, const char *path)
{
	static const char deleted[] = " (deleted)";
	char link[64], name[PATH_MAX];
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, name, sizeof(name) - 1);
	if (len <= 0)
		return false;
	name[len] = '\0';
	size_t cut = strlen(path);
	return strncmp(name, path, cut) == 0 && (!name[cut] || strcmp(name + cut, deleted) == 0);
}

static int open_mapped(uint32_t pid, const struct mapping *m, const char *path, struct stat *ret)
{
	CLEANUP(freep)
	char *direct = mem_printf("/proc/%u/map_files/%lx-%lx", pid, (unsigned long)m->start,
				  (unsigned long)m->end);
	CLEANUP(freep) char *rooted = mem_printf("/proc/%u/root%s", pid, path);
	const char *tries[] = {direct, rooted, path};

	for (size_t i = 0; i < ARRAY_SIZE(tries) && (i == 0 || path[0] == '/'); i++) {
		int fd = open_regular(tries[i], ret);
		/* Another file may be at that path, or even mapped there, by now. */
		if (fd >= 0 &&
		    ((m->inode && ret->st_ino == m->inode) || (i == 0 && is_called(fd, path))))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

static uint32_t hash_bytes(const uint8_t *bytes, size_t len)
{
	uint64_t words[3] = {};

	memcpy(words, bytes, MIN(len, sizeof(words)));
	return index_hash2(words[0] ^ words[2], words[1]);
}

static uint32_t find_build_id_file(const struct mapped_files *f, const uint8_t *build_id,
				   uint8_t len)
{
	uint32_t id;

	INDEX_EACH(&f->by_build_id, hash_bytes(build_id, len), id)
		if (f->list[id].build_id_len == len &&
		    memcmp(f->list[id].build_id, build_id, len) == 0)
			return id;
	return 0;
}

static uint64_t mtime_ns(const struct stat *st)
{
	return clock_timespec_ns(st->st_mtim);
}

static uint32_t inode_hash(const struct stat *st)
{
	return index_hash2(st->st_dev ^ (uint64_t)st->st_ino << 20, mtime_ns(st));
}

static uint32_t find_inode_file(const struct mapped_files *f, const struct stat *st)
{
	uint32_t id;

	INDEX_EACH(&f->by_inode, inode_hash(st), id) {
		const struct mapped_file *x = &f->list[id];
		if (x->device == st->st_dev && x->inode == st->st_ino &&
		    x->mtime_ns == mtime_ns(st) && x->size == (uint64_t)st->st_size)
			return id;
	}
	return 0;
}

static uint32_t add(struct mapped_files *f, const char *path, struct mapped_file *new)
{
	new->path = string_pool_get(&f->strings, string_pool_put(&f->strings, path, strlen(path)));
	const char *slash = strrchr(new->path, '/');
	new->name = slash &&slash[1] ? slash + 1 : new->path;

	f->count++;
	MEM_GROW(f->list, f->count, f->cap);
	f->list[f->count] = *new;
	return f->count;
}

static uint32_t mapping_hash(const struct mapping *m)
{
	return index_hash2(m->device ^ m->inode << 20, m->generation);
}

/* Whether an inode is still the same file; for file systems without generations. */
static bool is_unchanged(const char *path, const struct seen_mapping *k)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ino == k->inode && mtime_ns(&st) == k->mtime_ns;
}

static uint32_t find_mapped(const struct mapped_files *f, const struct mapping *m, const char *path)
{
	uint32_t at;

	INDEX_EACH(&f->by_mapping, mapping_hash(m), at) {
		const struct seen_mapping *k = &f->seen[at];
		if (k->device == m->device && k->inode == m->inode &&
		    k->generation == m->generation && (m->generation || is_unchanged(path, k)))
			return k->file;
	}
	return 0;
}

static void remember(struct mapped_files *f, const struct mapping *m, const struct stat *st,
		     uint32_t file)
{
	if (f->seen_count == 0)
		f->seen_count = 1; /* index ids start at 1 */
	MEM_GROW(f->seen, f->seen_count, f->seen_cap);
	f->seen[f->seen_count] =
		(struct seen_mapping){m->device, m->inode, m->generation, mtime_ns(st), file};
	index_put(&f->by_mapping, mapping_hash(m), f->seen_count++);
}

/* A file that could not be opened: identified by path and inode. */
static uint32_t add_unreachable(struct mapped_files *f, const struct mapping *m, const char *path)
{
	uint32_t hash = index_hash2(m->path, m->inode);
	uint32_t id;

	INDEX_EACH(&f->by_path, hash, id)
		if (strcmp(f->list[id].path, path) == 0 && f->list[id].inode == m->inode)
			return id;
	struct mapped_file new = {.fd = -1, .inode = m->inode};
	id = add(f, path, &new);
	index_put(&f->by_path, hash, id);
	return id;
}

/* Adds a file, unless one with the same build id is there. */
static uint32_t add_opened(struct mapped_files *f, const char *path, int fd, const struct stat *st)
{
	struct mapped_file new = {
		.device = st->st_dev,
		.inode = st->st_ino,
		.mtime_ns = mtime_ns(st),
		.size = (uint64_t)st->st_size,
		.fd = -1,
	};
	read_head(fd, &new);
	if (new.build_id_len) {
		uint32_t copy = find_build_id_file(f, new.build_id, new.build_id_len);
		if (copy)
			return copy;
	}

	new.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	uint32_t id = add(f, path, &new);
	if (id > MAPPED_FILES_OPEN_MAX && f->list[id - MAPPED_FILES_OPEN_MAX].fd >= 0)
		close(TAKE_FD(f->list[id - MAPPED_FILES_OPEN_MAX].fd));
	if (new.build_id_len)
		index_put(&f->by_build_id, hash_bytes(new.build_id, new.build_id_len), id);
	index_put(&f->by_inode, inode_hash(st), id);
	return id;
}

uint32_t mapped_files_of_mapping(struct mapped_files *f, uint32_t pid, const struct mapping *m,
				 const char *path)
{
	uint32_t id = find_mapped(f, m, path);
	if (id)
		return id;

	struct stat st = {};
	CLEANUP(fd_closep) int fd = open_mapped(pid, m, path, &st);
	if (fd < 0)
		return add_unreachable(f, m, path);
	id = find_inode_file(f, &st);
	if (!id)
		id = add_opened(f, path, fd, &st);
	remember(f, m, &st, id);
	return id;
}

/* Files are read with pread, so it does not matter that duplicates share a position. */
int mapped_files_open(struct mapped_files *f, uint32_t id)
{
	const struct mapped_file *x = &f->list[id];

	if (x->fd >= 0) {
		int fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
		return fd >= 0 ? fd : -errno;
	}
	struct stat st = {};
	int fd = open_regular(x->path, &st);
	if (fd < 0)
		return fd;
	if (st.st_ino == x->inode && mtime_ns(&st) == x->mtime_ns)
		return fd;
	close(fd);
	return -ESTALE;
}
