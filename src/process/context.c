#include "process/context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#define SECOND       1000000000ull
#define YOUNG_NS     SECOND /* most processes never get as old */
#define AGAIN_NS     SECOND
#define PAUSE_MAX_NS (300 * SECOND)
#define BURST_NS     5000000ull /* of searching at once, such as at the beginning */
#define TRIES        3          /* to read what is being changed */
#define MAPS_TEXT    (32u << 20)
#define VERSION      2
#define HEAD_MAX     128 /* of a line of maps: what is before the path, and its beginning */

static const char name[] = "OTEL_CTX";

struct header {
	char signature[8];
	uint32_t version, payload_size;
	uint64_t published, payload;
};

_Static_assert(sizeof(struct header) == 32, "as it is published");

struct found {                          /* hook data */
	struct process_context context; /* first: context_of() */
	uint64_t at, published;         /* published 0: not read yet */
};

struct contexts {
	uint64_t began_ns, spent_ns;
	uint64_t revision;
	unsigned cpus;
	struct contexts_stats stats;
};

struct contexts *contexts_new(void)
{
	struct contexts *c = mem_alloc(sizeof(*c));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	c->began_ns = clock_ns(CLOCK_MONOTONIC);
	c->cpus = cpus > 0 ? (unsigned)cpus : 1;
	return c;
}

void contexts_free(struct contexts *c)
{
	free(c);
}

void contexts_stats(const struct contexts *c, struct contexts_stats *ret)
{
	*ret = c->stats;
}

/* ---- where it is ----------------------------------------------------------------------------- */

static bool is_name(const char *path, const char *end)
{
	static const char *const known[] = {"/memfd:OTEL_CTX", "[anon:OTEL_CTX]",
					    "[anon_shmem:OTEL_CTX]"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t len = strlen(known[i]);
		if ((size_t)(end - path) >= len && memcmp(path, known[i], len) == 0)
			return true;
	}
	return false;
}

size_t context_find(const char *maps, size_t len, uint64_t ret[static CONTEXT_FOUND_MAX])
{
	const char *end = maps + len, *at = maps;
	size_t count = 0;

	while (count < CONTEXT_FOUND_MAX &&
	       (at = memmem(at, (size_t)(end - at), name, strlen(name)))) {
		const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
		char head[HEAD_MAX];
		unsigned long start;
		char read;
		int path = 0;
		stop = stop ? stop : end;
		while (line > maps && line[-1] != '\n')
			line--;
		/* "start-end perms offset major:minor inode    path"; a copy, since sscanf() would
		 * measure all that follows. */
		snprintf(head, sizeof(head), "%.*s", (int)MIN(stop - line, HEAD_MAX - 1), line);
		if (sscanf(head, "%lx-%*x %c%*3s %*x %*x:%*x %*u %n", &start, &read, &path) == 2 &&
		    path && read == 'r' && is_name(line + path, stop))
			ret[count++] = start;
		at = stop;
	}
	return count;
}

/* ---- what it says ---------------------------------------------------------------------------- */

int context_read_memory(uint32_t pid, uint64_t at, void *ret, size_t len)
{
	struct iovec to = {ret, len},
		     from = {(void *)at, len}; /* NOLINT(performance-no-int-to-ptr) */
	ssize_t n = process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0);

	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EFAULT;
}

/* 0; -EBADMSG: it is none; -EAGAIN: it is being changed; or -errno. */
static int read_header(uint32_t pid, uint64_t at, struct header *ret)
{
	int r = context_read_memory(pid, at, ret, sizeof(*ret));

	if (r)
		return r;
	if (memcmp(ret->signature, name, sizeof(ret->signature)) != 0 || ret->version != VERSION)
		return -EBADMSG;
	return ret->published ? 0 : -EAGAIN;
}

/* What it says by a header that was just read; -EAGAIN: that is not true any more. */
static int read_payload(uint32_t pid, const struct found *f, const struct header *h,
			struct context_payload *ret)
{
	struct header after;

	if (h->payload_size > CONTEXT_PAYLOAD_MAX)
		return -EBADMSG;
	CLEANUP(freep) uint8_t *bytes = mem_resize_array(NULL, h->payload_size + 1, 1);
	int r = h->payload_size ? context_read_memory(pid, h->payload, bytes, h->payload_size) : 0;
	int again = read_header(pid, f->at, &after);
	if (again)
		return again;
	if (memcmp(h, &after, sizeof(after)) != 0)
		return -EAGAIN;
	if (r)
		return -EBADMSG; /* published, and not there */
	return context_payload_read(bytes, h->payload_size, ret);
}

/* 0; -EAGAIN: it is being changed; or -errno: there is none. */
static int take(struct contexts *c, uint32_t pid, struct found *f)
{
	struct context_payload says = {};
	struct header h;
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < TRIES; i++) {
		r = read_header(pid, f->at, &h);
		if (r && r != -EAGAIN)
			return r;
		if (!r && h.published == f->published)
			return 0;
		r = r ? r : read_payload(pid, f, &h, &says);
		c->stats.torn += r == -EAGAIN;
	}
	if (r && r != -EBADMSG)
		return r;
	f->published = h.published;
	c->stats.read += !r;
	c->stats.refused += r != 0;
	if (!f->context.revision || memcmp(&says, &f->context.says, sizeof(says)) != 0) {
		f->context.says = says;
		f->context.revision = ++c->revision;
	}
	return 0;
}

/* ---- when ------------------------------------------------------------------------------------ */

static uint64_t age_of(const struct process *p, uint64_t now)
{
	uint64_t slept = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);

	return now + slept - MIN(now + slept, p->start);
}

static bool has_budget(const struct contexts *c, uint64_t now)
{
	uint64_t elapsed = now - MIN(now, c->began_ns);

	return c->spent_ns < BURST_NS + elapsed / CONTEXT_SEARCH_SHARE * c->cpus;
}

static void search(struct contexts *c, struct process *p)
{
	CLEANUP(freep) char *path = mem_printf("/proc/%u/maps", p->pid);
	CLEANUP(freep) char *text = NULL;
	uint64_t at[CONTEXT_FOUND_MAX];
	size_t len, count;
	struct header h;

	c->stats.searches++;
	if (file_read(path, MAPS_TEXT, &text, &len) != 0)
		return;
	count = context_find(text, len, at);
	for (size_t i = 0; i < count; i++) {
		int r = read_header(p->pid, at[i], &h);
		c->stats.refused += r == -EBADMSG;
		if (r && r != -EAGAIN)
			continue;
		struct found *f = mem_alloc(sizeof(*f));
		f->at = at[i];
		p->hooks[PROCESS_CONTEXT] = (struct process_hook){f, free};
		take(c, p->pid, f);
		return;
	}
}

void contexts_look(struct contexts *c, struct process *p, uint64_t now)
{
	struct found *f = p->hooks[PROCESS_CONTEXT].data;

	if (f) {
		int r = take(c, p->pid, f);
		p->context_due_ns = now + AGAIN_NS;
		if (!r || r == -EAGAIN || r == -ESRCH) /* what one that has ended said stays true */
			return;
		p->hooks[PROCESS_CONTEXT] = (struct process_hook){};
		free(f);
		p->context_pause_ns = AGAIN_NS;
		return;
	}
	uint64_t age = p->context_due_ns ? YOUNG_NS : age_of(p, now);
	if (age < YOUNG_NS) {
		p->context_due_ns = now + YOUNG_NS - age;
		return;
	}
	if (!has_budget(c, now)) {
		c->stats.put_off++;
		p->context_due_ns = now + AGAIN_NS;
		return;
	}
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	search(c, p);
	c->spent_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	p->context_pause_ns = MIN(MAX(2 * p->context_pause_ns, AGAIN_NS), PAUSE_MAX_NS);
	p->context_due_ns = now + (p->hooks[PROCESS_CONTEXT].data ? AGAIN_NS : p->context_pause_ns);
}
