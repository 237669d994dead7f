#include "unwind/table_builder.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "unwind/unwind_table_cache.h"

#define NICE_MORE   5 /* above that of the draining thread: in `run` this is the default, 0 */
#define CACHE_BYTES (128u << 20)
#define SMALL_BYTES (8u << 20) /* of a file: its table is made in some milliseconds */

#define V8_BYTES_MIN (8u << 20)
#define NAMES_MAX    (32u << 20)

struct request {
	uint32_t file;
	int fd;
	uint64_t size;
};

enum { ANY, SMALL, WORKERS }; /* what each of them makes */

struct worker {
	struct table_builder *builder;
	pthread_t thread;
	bool runs;
	id_t tid; /* 0: it has not started */
	uint64_t size_max;
	struct unwind_table_cache cache;
};

struct table_builder {
	struct worker workers[WORKERS];
	int nice; /* of the thread that drains */
	int cache_error;
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t wake, done;
	bool stop;
	unsigned active; /* workers that make one */
	struct rules rules;
	uint32_t rules_told; /* are in results already */
	struct request *wanted;
	size_t wanted_count, wanted_cap;
	struct table_builder_result *made;
	size_t made_count, made_cap;
};

static int open_elf(struct elf_file *e, int fd)
{
	if (fd >= 0)
		return elf_file_init(e, fd);
	size_t size;
	const void *vdso = elf_file_vdso(&size);
	return vdso ? elf_file_init_mem(e, vdso, size) : -ENOENT;
}

static void find_segments(const struct elf_file *e, struct table_builder_result *r)
{
	for (uint32_t i = 0; i < e->segment_count && r->segment_count < TABLE_BUILDER_SEGMENTS_MAX;
	     i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			r->segments[r->segment_count++] = (struct table_builder_segment){
				p->p_offset, p->p_filesz, p->p_vaddr};
	}
}

/* Whether it contains V8, as node does, which exports V8's functions for its native modules. */
static bool has_v8(const struct elf_file *e)
{
	static const char name[] = "_ZN2v87Isolate10GetCurrentEv";
	const Elf64_Shdr *h = elf_file_section(e, ".dynstr");

	char part[16384];

	if (!h || e->size < V8_BYTES_MIN || h->sh_size > NAMES_MAX)
		return false;
	for (uint64_t at = 0; at < h->sh_size; at += sizeof(part) - sizeof(name)) {
		size_t len = MIN(sizeof(part), h->sh_size - at);
		if (elf_file_read(e, part, len, h->sh_offset + at) != 0)
			return false;
		if (memmem(part, len, name, sizeof(name)))
			return true;
	}
	return false;
}

/* From the numbers that rules have in one table to those that they have in all of them. */
static void renumber(struct table_builder *b, const struct rules *own, struct unwind_table *table)
{
	CLEANUP(freep) uint16_t *id = mem_alloc_array(own->count, sizeof(*id));

	pthread_mutex_lock(&b->lock);
	rules_begin_file(&b->rules);
	for (uint32_t i = 0; i < own->count; i++)
		id[i] = rules_put(&b->rules, own->all[i]);
	pthread_mutex_unlock(&b->lock);
	for (uint32_t i = 0; i < table->row_count; i++)
		table->rows[i].rule = id[table->rows[i].rule];
}

static void build(struct worker *w, int fd, struct table_builder_result *r)
{
	struct elf_file e;
	struct rules own;

	r->error = open_elf(&e, fd);
	if (r->error)
		return;
	rules_init(&own);
	r->error = unwind_table_cache_get(&w->cache, &e, &own, &r->table, NULL);
	if (r->error == 0) {
		renumber(w->builder, &own, r->table);
		find_segments(&e, r);
		r->is_v8 = has_v8(&e);
	}
	rules_done(&own);
	elf_file_done(&e);
}

void table_builder_result_done(struct table_builder_result *r)
{
	unwind_table_free(r->table);
	free(r->rules);
}

/*
 * The smallest file first: libc is in every stack, and should not wait for a large library. False
 * if there is none for this worker.
 */
static bool take_smallest(struct table_builder *b, uint64_t size_max, struct request *ret)
{
	size_t at = 0;

	for (size_t i = 1; i < b->wanted_count; i++)
		if (b->wanted[i].size < b->wanted[at].size)
			at = i;
	if (b->wanted_count == 0 || b->wanted[at].size > size_max)
		return false;
	*ret = b->wanted[at];
	b->wanted[at] = b->wanted[--b->wanted_count];
	return true;
}

/* With the rules that are new since the last one, whichever table brought them. */
static void put_result(struct table_builder *b, struct table_builder_result *r)
{
	r->first_rule = b->rules_told;
	r->rule_count = b->rules.count - r->first_rule;
	r->rules = mem_dup(b->rules.all + r->first_rule, r->rule_count * sizeof(*r->rules));
	b->rules_told = b->rules.count;
	MEM_GROW(b->made, b->made_count, b->made_cap);
	b->made[b->made_count++] = *r;
}

static bool is_busy(const struct table_builder *b)
{
	return b->active || b->wanted_count;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct table_builder *b = w->builder;
	struct request next;

	/* Only somewhat lower, since samples wait for tables. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), b->nice + NICE_MORE);
	pthread_setname_np(pthread_self(), "smolder-tables");
	pthread_mutex_lock(&b->lock);
	w->tid = (id_t)gettid();
	while (!b->stop) {
		if (!take_smallest(b, w->size_max, &next)) {
			pthread_cond_wait(&b->wake, &b->lock);
			continue;
		}
		b->active++;
		pthread_mutex_unlock(&b->lock);

		struct table_builder_result result = {.file = next.file};
		build(w, next.fd, &result);
		fd_closep(&next.fd);

		pthread_mutex_lock(&b->lock);
		put_result(b, &result);
		b->active--;
		if (!is_busy(b))
			pthread_cond_broadcast(&b->done);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

static void start(struct table_builder *b, int which, const char *cache_dir)
{
	struct worker *w = &b->workers[which];

	w->builder = b;
	w->size_max = which == SMALL ? SMALL_BYTES : UINT64_MAX;
	int kept = unwind_table_cache_init(&w->cache, cache_dir,
					   CACHE_BYTES); /* after an error it keeps nothing */
	b->cache_error = cache_dir ? kept : 0;
	w->runs = loop_thread(&w->thread, work, w) == 0;
}

struct table_builder *table_builder_new(const char *cache_dir)
{
	struct table_builder *b = mem_alloc(sizeof(*b));

	b->nice = getpriority(PRIO_PROCESS, 0);
	rules_init(&b->rules);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->wake, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->done, &attr);
	pthread_condattr_destroy(&attr);
	/* Where a thread cannot start, its tables are not made: those walks go by frame pointers.
	 */
	for (int i = 0; i < WORKERS; i++)
		start(b, i, cache_dir);
	return b;
}

int table_builder_cache_error(const struct table_builder *b)
{
	return b->cache_error;
}

void table_builder_free(struct table_builder *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_broadcast(&b->wake);
	pthread_mutex_unlock(&b->lock);
	for (int i = 0; i < WORKERS; i++) {
		if (b->workers[i].runs)
			pthread_join(b->workers[i].thread, NULL);
		unwind_table_cache_done(&b->workers[i].cache);
	}

	for (size_t i = 0; i < b->wanted_count; i++)
		fd_closep(&b->wanted[i].fd);
	for (size_t i = 0; i < b->made_count; i++)
		table_builder_result_done(&b->made[i]);
	rules_done(&b->rules);
	free(b->wanted);
	free(b->made);
	pthread_mutex_destroy(&b->lock);
	pthread_cond_destroy(&b->wake);
	pthread_cond_destroy(&b->done);
	free(b);
}

void table_builder_want(struct table_builder *b, uint32_t file, int fd)
{
	struct stat st = {};

	if (fd >= 0)
		fstat(fd, &st);
	pthread_mutex_lock(&b->lock);
	MEM_GROW(b->wanted, b->wanted_count, b->wanted_cap);
	b->wanted[b->wanted_count++] = (struct request){file, fd, (uint64_t)st.st_size};
	pthread_cond_broadcast(&b->wake);
	pthread_mutex_unlock(&b->lock);
}

bool table_builder_next(struct table_builder *b, struct table_builder_result *ret)
{
	pthread_mutex_lock(&b->lock);
	bool any = b->made_count > 0;
	if (any) {
		*ret = b->made[0];
		memmove(b->made, b->made + 1, --b->made_count * sizeof(*b->made));
	}
	pthread_mutex_unlock(&b->lock);
	return any;
}

void table_builder_wait(struct table_builder *b, unsigned ms)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull;
	struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
				 .tv_nsec = (long)(end % 1000000000)};

	pthread_mutex_lock(&b->lock);
	for (int i = 0; i < WORKERS; i++)
		if (b->workers[i].tid && is_busy(b)) /* the caller waits for it */
			setpriority(PRIO_PROCESS, b->workers[i].tid, b->nice);
	while (is_busy(b) && b->workers[ANY].runs &&
	       pthread_cond_timedwait(&b->done, &b->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&b->lock);
}
