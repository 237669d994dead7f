#include "symbol/perfmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/root.h"
#include "base/sort.h"
#include "base/text.h"

#define FILE_MAX    (64u << 20)
#define ENTRIES_MAX (1u << 20) /* 16 MB */
#define CHUNK       (64u << 10)
#define LINE_CAP    4096 /* bytes of a line that are used; longer names are cut */
#define LOOK_BACK   32 /* entries before the nearest one that are checked for covering an address */
#define SECOND      1000000000ull
/* New code runs at once, so after a miss the file is read again soon, but reading may take no more
 * than a fiftieth of the time. */
#define PAUSE_MIN   (SECOND / 50)
#define PAUSE_TIMES 50
#define ABSENT_MAX  (32 * SECOND)

struct entry {
	uint64_t start;
	uint32_t size;
	uint32_t line; /* its offset in the file; a greater one is newer */
};

struct perfmap {
	int pid;
	int fd;
	uint64_t read_to;      /* what the file has up to here is in `entries` */
	uint64_t refreshed_ns; /* when the file was last checked */
	uint64_t absent_ns;    /* between checks while there is no file */
	uint64_t pause_ns;     /* between checks for an address without a name */
	uint64_t past;         /* bytes of the file past FILE_MAX */
	uint32_t version;
	bool skipping;         /* read_to is in the middle of a line that is too long */
	struct entry *entries; /* sorted by start */
	size_t count, cap;
	struct perfmap_stats stats, *all; /* of this map; of all maps */
	char name[LINE_CAP];
};

struct perfmap *perfmap_new(int pid, struct perfmap_stats *all)
{
	struct perfmap *m = mem_alloc(sizeof(*m));

	m->all = all ? all : &m->stats;
	m->pid = pid;
	m->fd = -1;
	return m;
}

struct perfmap *perfmap_new_fd(int fd)
{
	struct perfmap *m = perfmap_new(0, NULL);

	m->fd = fd;
	return m;
}

static void forget(struct perfmap *m)
{
	free(m->entries);
	m->entries = NULL;
	m->count = m->cap = 0;
	m->read_to = 0;
	m->skipping = false;
	m->version++;
}

void perfmap_free(struct perfmap *m)
{
	if (!m)
		return;
	if (m->fd >= 0)
		close(m->fd);
	forget(m);
	free(m);
}

void perfmap_stats(const struct perfmap *m, struct perfmap_stats *ret)
{
	*ret = m->stats;
	ret->entries = m->count;
}

static void count(struct perfmap *m, size_t member, uint64_t more)
{
	*(uint64_t *)((char *)&m->stats + member) += more;
	if (m->all != &m->stats)
		*(uint64_t *)((char *)m->all + member) += more;
}

#define COUNT(m, member, more) count(m, offsetof(struct perfmap_stats, member), more)

/* ---- opening -------------------------------------------------------------------------------- */

/* The pid of the process in its innermost pid namespace, and its effective user. */
static int identify(int pid, long *ret_pid, uid_t *ret_uid)
{
	CLEANUP(freep) char *path = mem_printf("/proc/%d/status", pid);
	CLEANUP(freep) char *text = NULL;
	int r = file_read(path, 64 << 10, &text, NULL);
	if (r < 0)
		return r;

	unsigned uid;
	const char *line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %*u %u", &uid) != 1) /* the second is the effective one */
		return -EINVAL;
	*ret_uid = uid;
	*ret_pid = pid;
	line = strstr(text, "\nNSpid:"); /* outermost first */
	for (char *at = line ? (char *)line + strlen("\nNSpid:") : NULL, *end; at; at = end) {
		long v = strtol(at, &end, 10);
		if (end == at || memchr(at, '\n', (size_t)(end - at)))
			break;
		*ret_pid = v;
	}
	return 0;
}

static int refuse(struct perfmap *m, int error)
{
	COUNT(m, refused, 1);
	if (!m->all->refused_pid)
		m->all->refused_pid = (uint64_t)m->pid;
	return error;
}

static int open_map(struct perfmap *m)
{
	long inner;
	uid_t uid;
	struct stat st;
	int r = identify(m->pid, &inner, &uid);
	if (r < 0)
		return r;

	CLEANUP(freep) char *root = mem_printf("/proc/%d/root", m->pid);
	CLEANUP(freep) char *path = mem_printf("/tmp/perf-%ld.map", inner);
	CLEANUP(fd_closep) int fd = root_open(root, path, true, &st);
	if (fd < 0)
		return fd == -ENOENT ? fd : refuse(m, fd);
	if (st.st_uid != uid && st.st_uid != 0)
		return refuse(m, -EPERM);
	m->fd = TAKE_FD(fd);
	return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A number in hex and the space after it; NULL if there is none. */
static const char *parse_number(const char *p, const char *end, uint64_t *ret)
{
	if (end - p > 2 && p[0] == '0' && (p[1] | 32) == 'x')
		p += 2;
	const char *after = text_parse_hex(p, end, ret);
	return after && after > p && after < end && *after == ' ' ? after + 1 : NULL;
}

/* Where the name begins; NULL when the line is malformed. */
static const char *parse_line(const char *line, const char *end, uint64_t *ret_start,
			      uint64_t *ret_size)
{
	const char *p = parse_number(line, end, ret_start);

	p = p ? parse_number(p, end, ret_size) : NULL;
	return p && p < end && *p && *ret_size && *ret_start <= UINT64_MAX - *ret_size ? p : NULL;
}

static void add_line(struct perfmap *m, const char *line, const char *end, uint64_t offset)
{
	uint64_t start, size;

	if (!parse_line(line, end, &start, &size)) {
		COUNT(m, malformed, 1);
		return;
	}
	if (m->count == ENTRIES_MAX) {
		COUNT(m, capped, (uint64_t)(end - line));
		return;
	}
	MEM_GROW(m->entries, m->count, m->cap);
	m->entries[m->count++] =
		(struct entry){start, (uint32_t)MIN(size, UINT32_MAX), (uint32_t)offset};
}

/* Sorts by address. The sort is stable, so of equal starts the last is the newest: it is kept. */
static void put_in_order(struct perfmap *m)
{
	size_t out = 0;

	sort_by_u64(m->entries, m->count, sizeof(*m->entries));
	for (size_t i = 0; i < m->count; i++) {
		if (out && m->entries[out - 1].start == m->entries[i].start)
			out--;
		m->entries[out++] = m->entries[i];
	}
	m->count = out;
}

/* Reads lines from read_to up to `end`; an incomplete last line is left for the next time. */
static void read_tail(struct perfmap *m, uint64_t end)
{
	CLEANUP(freep) char *buf = mem_resize_array(NULL, CHUNK, 1);

	while (m->read_to < end) {
		size_t want = (size_t)MIN(end - m->read_to, (uint64_t)CHUNK);
		ssize_t n = pread(m->fd, buf, want, (off_t)m->read_to);
		if (n <= 0)
			break;
		const char *line = buf, *stop = buf + n, *nl;
		while ((nl = memchr(line, '\n', (size_t)(stop - line)))) {
			if (!m->skipping)
				add_line(m, line, nl, m->read_to + (uint64_t)(line - buf));
			m->skipping = false;
			line = nl + 1;
		}
		if (line == buf) {
			if ((size_t)n < CHUNK)
				break;
			COUNT(m, malformed, !m->skipping);
			m->skipping = true;
			line = stop;
		}
		m->read_to += (uint64_t)(line - buf);
	}
	put_in_order(m);
	m->version++;
}

static void refresh(struct perfmap *m)
{
	struct stat st;

	/* A runtime may replace the file by a new one. */
	if (m->fd >= 0 && m->pid && fstat(m->fd, &st) == 0 && st.st_nlink == 0) {
		int old = m->fd;
		m->fd = -1;
		if (open_map(m) == 0) {
			close(old);
			forget(m);
		} else {
			m->fd = old;
		}
	}
	if ((m->fd < 0 && open_map(m) < 0) || fstat(m->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if ((uint64_t)st.st_size < m->read_to)
		forget(m);
	uint64_t past = st.st_size > FILE_MAX ? (uint64_t)st.st_size - FILE_MAX : 0;
	COUNT(m, capped, past - MIN(past, m->past));
	m->past = past;
	if ((uint64_t)st.st_size > m->read_to)
		read_tail(m, MIN((uint64_t)st.st_size, (uint64_t)FILE_MAX));
}

/* Checks the file unless that was done less than `pause` ago; then false. */
static bool refresh_after(struct perfmap *m, uint64_t pause)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (m->refreshed_ns && now - m->refreshed_ns < (m->fd < 0 ? m->absent_ns : pause))
		return false;
	refresh(m);
	m->refreshed_ns = clock_ns(CLOCK_MONOTONIC);
	/* Most programs never write such a file: check less and less often. */
	m->absent_ns = MIN(MAX(SECOND, 2 * m->absent_ns), ABSENT_MAX);
	m->pause_ns = MIN(MAX(PAUSE_MIN, (m->refreshed_ns - now) * PAUSE_TIMES), SECOND);
	return true;
}

uint32_t perfmap_version(struct perfmap *m)
{
	refresh_after(m, SECOND);
	return m->version;
}

bool perfmap_is_there(const struct perfmap *m)
{
	return m->fd >= 0;
}

/* ---- lookups -------------------------------------------------------------------------------- */

/* The newest entry that covers the address. */
static const struct entry *find(const struct perfmap *m, uint64_t addr)
{
	const struct entry *found = NULL;
	size_t low = 0, high = m->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (m->entries[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--) {
		const struct entry *e = &m->entries[i - 1];
		if (addr - e->start < e->size && (!found || e->line > found->line))
			found = e;
	}
	return found;
}

int perfmap_find(struct perfmap *m, uint64_t addr, struct symbol *ret)
{
	uint64_t start, size;

	refresh_after(m, SECOND);
	const struct entry *e = find(m, addr);
	if (!e && refresh_after(m, m->pause_ns))
		e = find(m, addr);
	if (!e)
		return -ENOENT;

	ssize_t n = pread(m->fd, m->name, sizeof(m->name) - 1, e->line);
	if (n <= 0)
		return -ENOENT;
	char *end = memchr(m->name, '\n', (size_t)n);
	end = end ? end : m->name + n;
	*end = '\0';
	/* The file may have been overwritten since: check that this is the line that was read. */
	const char *name = parse_line(m->name, end, &start, &size);
	if (!name || start != e->start) {
		forget(m);
		return -ENOENT;
	}
	*ret = (struct symbol){.name = name, .kind = FRAME_JIT, .addr = addr, .start = e->start};
	return 0;
}
