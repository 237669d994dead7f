#include "symbol/debug_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/text.h"

#define PART        ".part"
#define PART_AGE_S  86400 /* one that is older was left behind */
#define MISSING_S   86400 /* for so long nobody is asked again */
#define TOUCH_S     3600  /* how exactly it is known when a file was last used */
#define LOOK_NS     1000000000ull
#define READ_NS     3600000000000ull /* so often it is read even if nothing was changed */
#define SETTLED_S   2                /* a change so long ago was the last of its moment */
#define SPARE_BYTES (256u << 20)     /* of the disk, that downloads leave free */
#define ID_DIGITS   8                /* the shortest build id: four bytes */

static const char *const suffixes[] = {
	[DEBUG_CACHE_MISSING] = ".missing",
	[DEBUG_CACHE_DOWNLOADED] = ".debug",
	[DEBUG_CACHE_ADDED] = ".added",
};

struct debug_cache {
	pthread_mutex_t lock;
	char *store;
	uint64_t max_bytes;
	int dir; /* -1: it is not there yet */
	bool tidies;
	uint64_t looked_ns, read_ns;
	struct timespec changed; /* the directory, when it was read; 0: it is to be read again */
	struct debug_cache_file *files;
	uint32_t count, cap;
	struct index by_id;
	uint32_t parts; /* so many were begun */
	struct debug_cache_stats stats;
};

bool debug_cache_is_id(const char *id)
{
	size_t len = strspn(id, "0123456789abcdef");

	return !id[len] && len % 2 == 0 && len >= ID_DIGITS && len < DEBUG_CACHE_ID;
}

struct debug_cache *debug_cache_new(const char *store, uint64_t max_bytes, bool tidies)
{
	struct debug_cache *c = mem_alloc(sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	c->store = mem_strdup(store);
	c->max_bytes = max_bytes ? max_bytes : (uint64_t)DEBUG_CACHE_GIB << 30;
	c->tidies = tidies;
	c->dir = -1;
	return c;
}

static void forget(struct debug_cache *c)
{
	index_clear(&c->by_id);
	c->count = 0;
	c->stats.files = c->stats.bytes = c->stats.missing = c->stats.unlisted = 0;
}

void debug_cache_free(struct debug_cache *c)
{
	if (!c)
		return;
	fd_closep(&c->dir);
	pthread_mutex_destroy(&c->lock);
	index_done(&c->by_id);
	free(c->files);
	free(c->store);
	free(c);
}

/* ---- what is there --------------------------------------------------------------------------- */

static struct debug_cache_file *find(struct debug_cache *c, const char *id)
{
	uint32_t at;

	INDEX_EACH(&c->by_id, index_hash_bytes(id, strlen(id)), at)
		if (strcmp(c->files[at - 1].id, id) == 0)
			return &c->files[at - 1];
	return NULL;
}

/* Adds it to the sums (by = 1), or takes it out of them (-1). */
static void count(struct debug_cache *c, const struct debug_cache_file *f, int by)
{
	if (f->state == DEBUG_CACHE_MISSING) {
		c->stats.missing += (uint64_t)by;
	} else if (f->state != DEBUG_CACHE_UNKNOWN) {
		c->stats.files += (uint64_t)by;
		c->stats.bytes += by > 0 ? f->bytes : -f->bytes;
	}
}

/* Of two files with one id, that of the better kind counts. */
static void note(struct debug_cache *c, const char *id, enum debug_cache_state state,
		 const struct stat *st)
{
	struct debug_cache_file *f = find(c, id);

	if (!f && c->count == DEBUG_CACHE_ENTRIES) {
		c->stats.unlisted++;
		return;
	}
	if (!f) {
		MEM_GROW(c->files, c->count, c->cap);
		f = &c->files[c->count++];
		*f = (struct debug_cache_file){};
		snprintf(f->id, sizeof(f->id), "%s", id);
		index_put(&c->by_id, index_hash_bytes(id, strlen(id)), c->count);
	}
	if (state < f->state)
		return;
	count(c, f, -1);
	f->state = state;
	f->bytes = (uint64_t)st->st_size;
	f->used_s = st->st_mtim.tv_sec;
	count(c, f, 1);
}

/* A mark that no longer holds, or a part ("PID-N.part") whose process has died. */
static bool is_left_over(const char *name, const char *suffix, const struct stat *st)
{
	if (strcmp(suffix, suffixes[DEBUG_CACHE_MISSING]) == 0)
		return st->st_mtim.tv_sec + MISSING_S < time(NULL);
	if (strcmp(suffix, PART) != 0)
		return false;
	int pid = atoi(name);
	return pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH) ||
	       st->st_mtim.tv_sec + PART_AGE_S < time(NULL);
}

static void note_file(struct debug_cache *c, const char *name)
{
	size_t len = strcspn(name, ".");
	char id[DEBUG_CACHE_ID];
	struct stat st;

	if (len >= sizeof(id) || fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(st.st_mode))
		return;
	if (c->tidies && is_left_over(name, name + len, &st)) {
		unlinkat(c->dir, name, 0);
		return;
	}
	snprintf(id, sizeof(id), "%.*s", (int)len, name);
	for (int i = DEBUG_CACHE_MISSING; debug_cache_is_id(id) && i <= DEBUG_CACHE_ADDED; i++)
		if (strcmp(name + len, suffixes[i]) == 0)
			note(c, id, (enum debug_cache_state)i, &st);
}

static int open_dir(const char *store)
{
	CLEANUP(fd_closep) int at = open(store, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return at < 0 ? -1
		      : openat(at, DEBUG_CACHE_DIR,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Reads the directory again if others have changed it. */
static void look(struct debug_cache *c)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct stat st;

	if (c->looked_ns && now < c->looked_ns + LOOK_NS)
		return;
	c->looked_ns = now;
	if (c->dir < 0)
		c->dir = open_dir(c->store);
	if (c->dir < 0 || fstat(c->dir, &st) != 0 ||
	    (memcmp(&st.st_mtim, &c->changed, sizeof(c->changed)) == 0 &&
	     now < c->read_ns + READ_NS))
		return;
	int again = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	if (!d) {
		fd_closep(&again);
		return;
	}
	c->read_ns = now;
	c->changed = st.st_mtim.tv_sec + SETTLED_S < time(NULL) ? st.st_mtim : (struct timespec){};
	forget(c);
	for (const struct dirent *e; (e = readdir(d));)
		note_file(c, e->d_name);
	closedir(d);
}

static enum debug_cache_state state_of(struct debug_cache *c, const char *id)
{
	look(c);
	const struct debug_cache_file *f = find(c, id);
	if (!f && c->count == DEBUG_CACHE_ENTRIES)
		return DEBUG_CACHE_MISSING; /* what is found out of it could not be noted */
	if (!f || (f->state == DEBUG_CACHE_MISSING && f->used_s + MISSING_S < time(NULL)))
		return DEBUG_CACHE_UNKNOWN;
	return f->state;
}

enum debug_cache_state debug_cache_find(struct debug_cache *c, const char *id)
{
	pthread_mutex_lock(&c->lock);
	enum debug_cache_state state = state_of(c, id);
	pthread_mutex_unlock(&c->lock);
	return state;
}

static void name_of(const char *id, enum debug_cache_state state, char ret[static 64])
{
	snprintf(ret, 64, "%s%s", id, suffixes[state]);
}

int debug_cache_open(struct debug_cache *c, const char *id)
{
	char name[64];
	int fd = -ENOENT;

	pthread_mutex_lock(&c->lock);
	enum debug_cache_state state = state_of(c, id);
	if (state >= DEBUG_CACHE_DOWNLOADED) {
		struct debug_cache_file *f = find(c, id);
		name_of(id, state, name);
		fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
		if (fd >= 0 && f->used_s + TOUCH_S < time(NULL)) {
			f->used_s = time(NULL);
			futimens(fd, NULL); /* who only reads the store cannot */
		}
	}
	pthread_mutex_unlock(&c->lock);
	return fd;
}

uint64_t debug_cache_file_max(const struct debug_cache *c)
{
	return c->max_bytes / 4;
}

/* ---- putting in ------------------------------------------------------------------------------ */

/* What root makes is the store's owner's. */
static int give(struct debug_cache *c, int fd)
{
	struct stat st;

	if (geteuid() != 0)
		return 0;
	return stat(c->store, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) == 0 ? 0 : -errno;
}

static int make_dir(struct debug_cache *c)
{
	if (c->dir >= 0)
		return 0;
	CLEANUP(fd_closep) int at = open(c->store, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	bool made = mkdirat(at, DEBUG_CACHE_DIR, 0750) == 0;
	if (!made && errno != EEXIST)
		return -errno;
	c->dir = open_dir(c->store);
	if (c->dir < 0)
		return -errno;
	return made ? give(c, c->dir) : 0;
}

static int make_part(struct debug_cache *c, struct debug_cache_part *ret)
{
	struct statvfs disk;
	int r = make_dir(c);

	if (r)
		return r;
	if (fstatvfs(c->dir, &disk) != 0)
		return -errno;
	if ((uint64_t)disk.f_bavail * disk.f_frsize < debug_cache_file_max(c) + SPARE_BYTES)
		return -ENOSPC;
	snprintf(ret->name, sizeof(ret->name), "%d-%u" PART, getpid(), c->parts++);
	ret->fd =
		openat(c->dir, ret->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (ret->fd < 0)
		return -errno;
	return give(c, ret->fd);
}

int debug_cache_part(struct debug_cache *c, struct debug_cache_part *ret)
{
	ret->fd = -1;
	pthread_mutex_lock(&c->lock);
	int r = make_part(c, ret);
	pthread_mutex_unlock(&c->lock);
	if (r && ret->fd >= 0)
		debug_cache_drop(c, ret);
	return r;
}

void debug_cache_drop(struct debug_cache *c, struct debug_cache_part *part)
{
	unlinkat(c->dir, part->name, 0);
	close(TAKE_FD(part->fd));
}

int debug_cache_check(int fd, char ret_id[static DEBUG_CACHE_ID])
{
	uint8_t id[ELF_BUILD_ID_MAX];
	struct elf_file e;

	if (elf_file_init(&e, fd) < 0)
		return -EBADMSG;
	size_t len = elf_file_build_id(&e, id);
	bool has_symbols = elf_file_section_of_type(&e, SHT_SYMTAB);
	elf_file_done(&e);
	text_hex_bytes(id, len, ret_id);
	if (!has_symbols)
		return -EBADMSG;
	return debug_cache_is_id(ret_id) ? 0 : -ESTALE;
}

/* In the lock. The file itself, or its mark; 0 or -errno. */
static int take_out(struct debug_cache *c, struct debug_cache_file *f)
{
	char name[64];

	name_of(f->id, f->state, name);
	if (unlinkat(c->dir, name, 0) != 0 && errno != ENOENT)
		return -errno;
	count(c, f, -1);
	f->state = DEBUG_CACHE_UNKNOWN;
	return 0;
}

static void set_missing(struct debug_cache *c, const char *id)
{
	char name[64];
	struct stat st;

	name_of(id, DEBUG_CACHE_MISSING, name);
	if (make_dir(c) != 0 || (!find(c, id) && c->count == DEBUG_CACHE_ENTRIES))
		return;
	CLEANUP(fd_closep)
	int fd = openat(c->dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return;
	futimens(fd, NULL);
	give(c, fd);
	if (fstat(fd, &st) == 0)
		note(c, id, DEBUG_CACHE_MISSING, &st);
}

void debug_cache_set_missing(struct debug_cache *c, const char *id)
{
	pthread_mutex_lock(&c->lock);
	set_missing(c, id);
	pthread_mutex_unlock(&c->lock);
}

/* One that made room is not asked for again at once: all that is in use does not fit. */
static int make_room(struct debug_cache *c, uint64_t bytes)
{
	while (c->stats.bytes + bytes > c->max_bytes) {
		struct debug_cache_file *oldest = NULL;
		for (uint32_t i = 0; i < c->count; i++)
			if (c->files[i].state == DEBUG_CACHE_DOWNLOADED &&
			    (!oldest || c->files[i].used_s < oldest->used_s))
				oldest = &c->files[i];
		if (!oldest)
			return -ENOSPC;
		int r = take_out(c, oldest);
		if (r)
			return r;
		c->stats.made_room++;
		char id[DEBUG_CACHE_ID];
		memcpy(id, oldest->id, sizeof(id));
		set_missing(c, id);
	}
	return 0;
}

static int take_in(struct debug_cache *c, const struct debug_cache_part *part, const char *id,
		   enum debug_cache_state as)
{
	char name[64];
	struct stat st;

	look(c);
	struct debug_cache_file *f = find(c, id);
	if (fstat(part->fd, &st) != 0)
		return -errno;
	if ((uint64_t)st.st_size > debug_cache_file_max(c))
		return -EFBIG;
	if (f && f->state >= as)
		return 0; /* it is there */
	int r = make_room(c, (uint64_t)st.st_size);
	f = find(c, id);
	if (!r && f && f->state != DEBUG_CACHE_UNKNOWN)
		r = take_out(c, f);
	if (r)
		return r;
	name_of(id, as, name);
	if (renameat(c->dir, part->name, c->dir, name) != 0)
		return -errno;
	note(c, id, as, &st);
	return 0;
}

int debug_cache_take(struct debug_cache *c, struct debug_cache_part *part, const char *id,
		     enum debug_cache_state as, char ret_id[static DEBUG_CACHE_ID])
{
	int r = debug_cache_check(part->fd, ret_id);

	if (!r && id && strcmp(id, ret_id) != 0)
		r = -ESTALE;
	if (!r && fsync(part->fd) != 0) /* which takes long, so not in the lock */
		r = -errno;
	pthread_mutex_lock(&c->lock);
	r = r ? r : take_in(c, part, ret_id, as);
	pthread_mutex_unlock(&c->lock);
	debug_cache_drop(c, part); /* once it has another name, only the descriptor */
	return r;
}

int debug_cache_remove(struct debug_cache *c, const char *id)
{
	pthread_mutex_lock(&c->lock);
	look(c);
	struct debug_cache_file *f = find(c, id);
	int r = f && f->state != DEBUG_CACHE_UNKNOWN ? take_out(c, f) : -ENOENT;
	pthread_mutex_unlock(&c->lock);
	return r;
}

struct debug_cache_file *debug_cache_list(struct debug_cache *c, size_t *ret_count)
{
	pthread_mutex_lock(&c->lock);
	look(c);
	struct debug_cache_file *list = mem_alloc_array(c->count + 1, sizeof(*list));
	*ret_count = 0;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->files[i].state != DEBUG_CACHE_UNKNOWN)
			list[(*ret_count)++] = c->files[i];
	pthread_mutex_unlock(&c->lock);
	return list;
}

void debug_cache_stats(struct debug_cache *c, struct debug_cache_stats *ret)
{
	pthread_mutex_lock(&c->lock);
	look(c);
	*ret = c->stats;
	pthread_mutex_unlock(&c->lock);
}
