#include "process/files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/index.h"
#include "base/mem.h"

#define NOTES_MAX (64 * 1024) /* of a PT_NOTE segment that is searched for the build id */
#define PHDRS_MAX 256

struct files {
	struct strs strings;
	struct file *list; /* by id, entry 0 unused */
	uint32_t count, cap;
	struct index by_build_id, by_inode, by_path;
};

struct files *files_new(void)
{
	struct files *f = mem_alloc(sizeof(*f));

	f->list = mem_alloc_array(f->cap = 64, sizeof(*f->list));
	return f;
}

void files_free(struct files *f)
{
	if (!f)
		return;
	for (uint32_t i = 1; i <= f->count; i++)
		if (f->list[i].fd >= 0)
			close(f->list[i].fd);
	free(f->list);
	strs_done(&f->strings);
	index_done(&f->by_build_id);
	index_done(&f->by_inode);
	index_done(&f->by_path);
	free(f);
}

const struct file *files_get(const struct files *f, uint32_t id)
{
	return &f->list[id];
}

uint32_t files_count(const struct files *f)
{
	return f->count;
}

/* The GNU build id among the notes of an ELF file: its length, 0 if there is none. */
static uint8_t find_build_id(const char *notes, size_t len, uint8_t ret[static 20])
{
	for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= len;) {
		Elf64_Nhdr n;
		memcpy(&n, notes + at, sizeof(n));
		size_t name = at + sizeof(n);
		if (n.n_namesz > len || n.n_descsz > len)
			return 0;
		size_t desc = name + ((n.n_namesz + 3) & ~3u);
		size_t next = desc + ((n.n_descsz + 3) & ~3u);
		if (desc > len || n.n_descsz > len - desc)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    memcmp(notes + name, "GNU", 4) == 0 && n.n_descsz >= 4) {
			uint8_t size = (uint8_t)MIN(n.n_descsz, 20);
			memcpy(ret, notes + desc, size);
			return size;
		}
		at = next;
	}
	return 0;
}

static uint8_t read_build_id(int fd, uint8_t ret[static 20])
{
	Elf64_Ehdr e;

	if (file_pread(fd, &e, sizeof(e), 0) != 0 || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (unsigned i = 0; i < MIN(e.e_phnum, PHDRS_MAX); i++) {
		Elf64_Phdr p;
		if (file_pread(fd, &p, sizeof(p), e.e_phoff + i * sizeof(p)) != 0)
			return 0;
		if (p.p_type != PT_NOTE || p.p_filesz > NOTES_MAX)
			continue;
		CLEANUP(freep) char *notes = mem_alloc(p.p_filesz + 1);
		if (file_pread(fd, notes, p.p_filesz, p.p_offset) != 0)
			continue;
		uint8_t len = find_build_id(notes, p.p_filesz, ret);
		if (len)
			return len;
	}
	return 0;
}

/*
 * Opens a regular file and nothing else: a path of another process may by now name a FIFO or a
 * device, so it is looked at (O_PATH) before it is opened.
 */
static int open_regular(const char *path, struct stat *ret_stat)
{
	CLEANUP(fd_closep) int look = open(path, O_PATH | O_CLOEXEC);
	if (look < 0)
		return -errno;
	if (fstat(look, ret_stat) != 0)
		return -errno;
	if (!S_ISREG(ret_stat->st_mode))
		return -EINVAL;

	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", look);
	int fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd >= 0 ? fd : -errno;
}

/* Whether an opened file is the mapped one, as far as the kernel told which that is. */
static bool is_mapped_file(int fd, const struct stat *st, const struct mapping *m)
{
	uint8_t id[20];

	if (m->build_id_len)
		return read_build_id(fd, id) == m->build_id_len &&
		       memcmp(id, m->build_id, m->build_id_len) == 0;
	return m->inode && st->st_ino == m->inode;
}

static int open_mapped(uint32_t pid, const struct mapping *m, const char *path, struct stat *ret)
{
	CLEANUP(freep)
	char *direct = mem_printf("/proc/%u/map_files/%lx-%lx", pid, (unsigned long)m->start,
				  (unsigned long)m->end);
	int fd = open_regular(direct, ret);
	if (fd >= 0 && (!m->build_id_len || is_mapped_file(fd, ret, m)))
		return fd;
	if (fd >= 0)
		close(fd);

	CLEANUP(freep) char *rooted = mem_printf("/proc/%u/root%s", pid, path);
	const char *tries[] = {rooted, path};
	for (size_t i = 0; i < ARRAY_SIZE(tries) && path[0] == '/'; i++) {
		fd = open_regular(tries[i], ret);
		if (fd >= 0 && is_mapped_file(fd, ret, m))
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

static uint32_t find_build_id_file(const struct files *f, const uint8_t *build_id, uint8_t len)
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
	return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

static uint32_t inode_hash(const struct stat *st)
{
	return index_hash2(st->st_dev ^ (uint64_t)st->st_ino << 20, mtime_ns(st));
}

static uint32_t find_inode_file(const struct files *f, const struct stat *st)
{
	uint32_t id;

	INDEX_EACH(&f->by_inode, inode_hash(st), id) {
		const struct file *x = &f->list[id];
		if (x->device == st->st_dev && x->inode == st->st_ino &&
		    x->mtime_ns == mtime_ns(st) && x->size == (uint64_t)st->st_size)
			return id;
	}
	return 0;
}

static uint32_t add(struct files *f, const char *path, struct file *new)
{
	new->path = strs_get(&f->strings, strs_put(&f->strings, path, strlen(path)));
	const char *slash = strrchr(new->path, '/');
	new->name = slash &&slash[1] ? slash + 1 : new->path;

	f->count++;
	MEM_GROW(f->list, f->count, f->cap);
	f->list[f->count] = *new;
	return f->count;
}

/* A file that nobody could open: known by the name it was mapped by. */
static uint32_t add_unreachable(struct files *f, const struct mapping *m, const char *path)
{
	uint32_t hash = index_hash2(m->path, m->inode);
	uint32_t id;

	INDEX_EACH(&f->by_path, hash, id)
		if (strcmp(f->list[id].path, path) == 0 && f->list[id].inode == m->inode)
			return id;
	struct file new = {.fd = -1, .inode = m->inode, .build_id_len = m->build_id_len};
	memcpy(new.build_id, m->build_id, sizeof(new.build_id));
	id = add(f, path, &new);
	index_put(&f->by_path, hash, id);
	if (new.build_id_len)
		index_put(&f->by_build_id, hash_bytes(new.build_id, new.build_id_len), id);
	return id;
}

uint32_t files_of_mapping(struct files *f, uint32_t pid, const struct mapping *m, const char *path)
{
	uint32_t id;

	if (m->build_id_len) {
		id = find_build_id_file(f, m->build_id, m->build_id_len);
		if (id)
			return id;
	}

	struct stat st = {};
	CLEANUP(fd_closep) int fd = open_mapped(pid, m, path, &st);
	if (fd < 0)
		return add_unreachable(f, m, path);
	id = find_inode_file(f, &st);
	if (id)
		return id;

	struct file new = {.device = st.st_dev,
			   .inode = st.st_ino,
			   .mtime_ns = mtime_ns(&st),
			   .size = (uint64_t)st.st_size,
			   .fd = -1};
	new.build_id_len = read_build_id(fd, new.build_id);
	if (new.build_id_len)
		id = find_build_id_file(f, new.build_id, new.build_id_len);
	if (!id) {
		new.fd = TAKE_FD(fd); /* files are read with pread: sharing a position is fine */
		id = add(f, path, &new);
		if (id > FILES_OPEN_MAX && f->list[id - FILES_OPEN_MAX].fd >= 0)
			close(TAKE_FD(f->list[id - FILES_OPEN_MAX].fd));
		if (new.build_id_len)
			index_put(&f->by_build_id, hash_bytes(new.build_id, new.build_id_len), id);
		index_put(&f->by_inode, inode_hash(&st), id);
	}
	return id;
}

int files_open(struct files *f, uint32_t id)
{
	const struct file *x = &f->list[id];

	if (x->fd >= 0) {
		int fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
		return fd >= 0 ? fd : -errno;
	}
	struct stat st;
	int fd = open_regular(x->path, &st);
	if (fd < 0)
		return fd;
	if (st.st_ino == x->inode && mtime_ns(&st) == x->mtime_ns)
		return fd;
	close(fd);
	return -ESTALE;
}
