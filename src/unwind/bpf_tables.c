#include "unwind/bpf_tables.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "unwind/extents.h"

#define SHARD_BYTES (UNWIND_SHARD_ROWS * sizeof(struct unwind_row))
/* The arrays of fixed size, which exist from the start. */
#define ARRAY_BYTES                                                                                \
	(UNWIND_BUCKETS * sizeof(struct unwind_bucket) +                                           \
	 UNWIND_MAPPINGS_MAX * sizeof(struct unwind_mapping) +                                     \
	 UNWIND_PAGES_MAX * sizeof(struct unwind_page) +                                           \
	 UNWIND_FILES_MAX * sizeof(struct unwind_file) +                                           \
	 UNWIND_RULES_MAX * sizeof(struct unwind_rule) +                                           \
	 UNWIND_CONTEXTS_MAX * sizeof(struct unwind_context))

struct slot {
	uint32_t first_page, page_count; /* in `pages`; count 0: not in use */
};

/* Space that is freed after the next grace period: a walk may still read it. */
struct deferred_free {
	struct extents *from;
	uint32_t start, count;
	uint32_t slot; /* to be freed with it; 0: none */
};

struct bpf_tables {
	struct sampler_maps maps;
	struct unwind_bucket *processes; /* these are the mapped BPF arrays */
	struct unwind_mapping *mappings;
	struct unwind_file *files;
	struct unwind_page *pages;
	struct unwind_rule *rules;
	struct unwind_context *contexts;
	struct unwind_row *shards[UNWIND_SHARDS_MAX]; /* NULL: not allocated yet */
	uint32_t shard_max, shard_count;
	struct extents free_rows, free_pages, free_mappings, free_contexts;
	struct slot slots[UNWIND_FILES_MAX];
	uint32_t slot_count;
	struct deferred_free *deferred;
	size_t deferred_count, deferred_cap;
	int grace_fd; /* of shard 0; -1 until there is one */
	uint64_t graces;
};

static void *map_memory(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int bpf_tables_new(const struct sampler_maps *maps, size_t max_bytes, struct bpf_tables **ret)
{
	struct bpf_tables *t = mem_alloc(sizeof(*t));

	t->maps = *maps;
	t->grace_fd = -1;
	t->processes = map_memory(maps->processes, UNWIND_BUCKETS * sizeof(*t->processes));
	t->mappings = map_memory(maps->mappings, UNWIND_MAPPINGS_MAX * sizeof(*t->mappings));
	t->files = map_memory(maps->files, UNWIND_FILES_MAX * sizeof(*t->files));
	t->pages = map_memory(maps->pages, UNWIND_PAGES_MAX * sizeof(*t->pages));
	t->rules = map_memory(maps->rules, UNWIND_RULES_MAX * sizeof(*t->rules));
	t->contexts = map_memory(maps->contexts, UNWIND_CONTEXTS_MAX * sizeof(*t->contexts));
	size_t for_rows = max_bytes > ARRAY_BYTES ? max_bytes - ARRAY_BYTES : 0;
	t->shard_max = (uint32_t)MAX(1u, MIN(for_rows / SHARD_BYTES, UNWIND_SHARDS_MAX));
	extents_init(&t->free_rows, 0, t->shard_max * UNWIND_SHARD_ROWS);
	extents_init(&t->free_pages, 0, UNWIND_PAGES_MAX);
	extents_init(&t->free_mappings, 0, UNWIND_MAPPINGS_MAX);
	extents_init(&t->free_contexts, 1, UNWIND_CONTEXTS_MAX - 1); /* 0 is none */
	if (!t->processes || !t->mappings || !t->files || !t->pages || !t->rules || !t->contexts) {
		bpf_tables_free(t);
		return -ENOMEM;
	}
	t->rules[RULES_UNSUPPORTED].cfa =
		UNWIND_UNSUPPORTED; /* rule 0, all zeroes, is UNWIND_UNKNOWN */
	*ret = t;
	return 0;
}

static void unmap_memory(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

void bpf_tables_free(struct bpf_tables *t)
{
	if (!t)
		return;
	unmap_memory(t->processes, UNWIND_BUCKETS * sizeof(*t->processes));
	unmap_memory(t->mappings, UNWIND_MAPPINGS_MAX * sizeof(*t->mappings));
	unmap_memory(t->files, UNWIND_FILES_MAX * sizeof(*t->files));
	unmap_memory(t->pages, UNWIND_PAGES_MAX * sizeof(*t->pages));
	unmap_memory(t->rules, UNWIND_RULES_MAX * sizeof(*t->rules));
	unmap_memory(t->contexts, UNWIND_CONTEXTS_MAX * sizeof(*t->contexts));
	for (size_t i = 0; i < ARRAY_SIZE(t->shards); i++)
		unmap_memory(t->shards[i], SHARD_BYTES);
	fd_closep(&t->grace_fd);
	extents_done(&t->free_rows);
	extents_done(&t->free_pages);
	extents_done(&t->free_mappings);
	extents_done(&t->free_contexts);
	free(t->deferred);
	free(t);
}

/* Allocates a shard before rows are written to it. */
static int want_shard(struct bpf_tables *t, uint32_t index)
{
	if (t->shards[index])
		return 0;

	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	CLEANUP(fd_closep)
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "shard", sizeof(uint32_t), SHARD_BYTES, 1,
				&opts);
	if (fd < 0)
		return -errno;
	struct unwind_row *rows = map_memory(fd, SHARD_BYTES);
	if (!rows)
		return -errno;
	int r = bpf_map_update_elem(t->maps.shards, &index, &fd, 0);
	if (r) {
		munmap(rows, SHARD_BYTES);
		return r;
	}
	t->shards[index] = rows;
	t->shard_count++;
	if (index == 0)
		t->grace_fd = TAKE_FD(fd);
	return 0;
}

static struct unwind_row *row_at(const struct bpf_tables *t, uint32_t at)
{
	return &t->shards[at / UNWIND_SHARD_ROWS][at % UNWIND_SHARD_ROWS];
}

static int put_page(struct bpf_tables *t, const struct unwind_table *table, uint32_t page,
		    struct unwind_page *ret)
{
	const struct unwind_table_page *from = &table->pages[page];

	*ret = (struct unwind_page){};
	if (from->count == 0)
		return 0;
	uint32_t at;
	int r = extents_take(&t->free_rows, from->count, UNWIND_SHARD_ROWS, &at);
	if (r)
		return r;
	r = want_shard(t, at / UNWIND_SHARD_ROWS);
	if (r) {
		extents_give(&t->free_rows, at, from->count);
		return r;
	}
	memcpy(row_at(t, at), table->rows + from->first, from->count * sizeof(struct unwind_row));
	*ret = (struct unwind_page){at, from->count};
	return 0;
}

static uint32_t free_slot(const struct bpf_tables *t)
{
	for (uint32_t i = 1; i < UNWIND_FILES_MAX; i++)
		if (t->slots[i].page_count == 0)
			return i;
	return 0;
}

void bpf_tables_put_rules(struct bpf_tables *t, uint32_t first, const struct unwind_rule *rules,
			  uint32_t count)
{
	if (first < UNWIND_RULES_MAX)
		memcpy(t->rules + first, rules,
		       MIN(count, UNWIND_RULES_MAX - first) * sizeof(*rules));
}

/*
 * Whether the table fits at all, if there is nothing else. One that never fits must not be reported
 * as "no room now": all others would be evicted for it, in vain.
 */
static bool can_fit(const struct bpf_tables *t, const struct unwind_table *table)
{
	uint32_t shards = 1, used = 0;

	if (table->page_count == 0 || table->page_count > UNWIND_PAGES_MAX ||
	    table->base_page > UINT32_MAX)
		return false;
	for (uint32_t i = 0; i < table->page_count;
	     i++) { /* a page is never split between shards */
		uint32_t rows = table->pages[i].count;
		if (rows > UNWIND_SHARD_ROWS - used) {
			shards++;
			used = 0;
		}
		if (rows > UNWIND_SHARD_ROWS)
			return false;
		used += rows;
	}
	return shards <= t->shard_max;
}

int bpf_tables_put(struct bpf_tables *t, const struct unwind_table *table, uint32_t *ret_slot)
{
	uint32_t slot = free_slot(t), first;

	if (!can_fit(t, table))
		return -EFBIG;
	if (!slot || extents_take(&t->free_pages, table->page_count, 0, &first) != 0)
		return -ENOSPC;

	int r = 0;
	uint32_t done = 0;
	for (; done < table->page_count && r == 0; done++)
		r = put_page(t, table, done, &t->pages[first + done]);
	if (r) { /* no walk has seen any of it */
		for (uint32_t i = 0; i + 1 < done; i++)
			extents_give(&t->free_rows, t->pages[first + i].first,
				     t->pages[first + i].count);
		extents_give(&t->free_pages, first, table->page_count);
		return r;
	}
	t->slots[slot] = (struct slot){first, table->page_count};
	t->slot_count++;
	t->files[slot] = (struct unwind_file){
		.first = first,
		.base_page = (uint32_t)table->base_page,
		.page_count = table->page_count,
	};
	*ret_slot = slot;
	return 0;
}

uint32_t bpf_tables_rows_max(const struct bpf_tables *t)
{
	return t->shard_max * UNWIND_SHARD_ROWS;
}

uint32_t bpf_tables_rows_free(const struct bpf_tables *t)
{
	return bpf_tables_rows_max(t) - t->free_rows.taken;
}

static void defer_free(struct bpf_tables *t, struct extents *from, uint32_t start, uint32_t count,
		       uint32_t slot)
{
	MEM_GROW(t->deferred, t->deferred_count, t->deferred_cap);
	t->deferred[t->deferred_count++] = (struct deferred_free){from, start, count, slot};
}

void bpf_tables_drop(struct bpf_tables *t, uint32_t slot)
{
	const struct slot *s = &t->slots[slot];

	for (uint32_t i = 0; i < s->page_count; i++) {
		const struct unwind_page *p = &t->pages[s->first_page + i];
		if (p->count)
			defer_free(t, &t->free_rows, p->first, p->count, 0);
	}
	defer_free(t, &t->free_pages, s->first_page, s->page_count, slot);
}

void bpf_tables_grace(struct bpf_tables *t)
{
	if (t->deferred_count == 0)
		return;

	/*
	 * When user space sets an element of an array of maps, the kernel waits for running BPF
	 * programs to end: so setting shard 0 to its present value is a grace period.
	 */
	uint32_t index = 0;
	if (want_shard(t, 0) != 0 ||
	    bpf_map_update_elem(t->maps.shards, &index, &t->grace_fd, 0) != 0)
		return; /* nothing can be freed now */
	t->graces++;
	for (size_t i = 0; i < t->deferred_count; i++) {
		const struct deferred_free *g = &t->deferred[i];
		extents_give(g->from, g->start, g->count);
		if (g->slot) {
			t->slots[g->slot] = (struct slot){};
			t->slot_count--;
		}
	}
	t->deferred_count = 0;
}

const struct unwind_rule *bpf_tables_find(const struct bpf_tables *t, uint32_t slot, uint64_t vaddr)
{
	const struct unwind_file *f = &t->files[slot];
	uint64_t page = (vaddr >> UNWIND_PAGE_BITS) - f->base_page;
	if (page >= f->page_count)
		return &t->rules[0];
	const struct unwind_page *p = &t->pages[f->first + page];
	if (p->count == 0)
		return &t->rules[0];

	const struct unwind_row *rows = row_at(t, p->first);
	uint32_t at = 0, n = p->count;
	while (n > 1) {
		uint32_t half = n / 2;
		if (rows[at + half].low <= (uint16_t)vaddr) {
			at += half;
			n -= half;
		} else {
			n = half;
		}
	}
	return &t->rules[rows[at].rule];
}

int bpf_tables_take_mappings(struct bpf_tables *t, uint32_t count, uint32_t *ret_first,
			     struct unwind_mapping **ret_run)
{
	int r = extents_take(&t->free_mappings, count, 0, ret_first);

	if (r == 0)
		*ret_run = &t->mappings[*ret_first];
	return r;
}

void bpf_tables_drop_mappings(struct bpf_tables *t, uint32_t first, uint32_t count)
{
	defer_free(t, &t->free_mappings, first, count, 0);
}

int bpf_tables_take_context(struct bpf_tables *t, const struct unwind_context *c,
			    uint32_t *ret_index)
{
	int r = extents_take(&t->free_contexts, 1, 0, ret_index);

	if (r == 0)
		t->contexts[*ret_index] = *c;
	return r;
}

void bpf_tables_drop_context(struct bpf_tables *t, uint32_t index)
{
	defer_free(t, &t->free_contexts, index, 1, 0);
}

/* The entry of a pid, or else a free one; NULL if its bucket is full. */
static struct unwind_process *find_process(struct bpf_tables *t, uint32_t pid)
{
	struct unwind_bucket *b = &t->processes[unwind_bucket(pid)];

	for (size_t i = 0; i < UNWIND_BUCKET_SLOTS; i++)
		if (b->at[i].pid == pid || b->at[i].pid == 0)
			return &b->at[i];
	return NULL;
}

/*
 * Walks may read the entry meanwhile, and ignore it while the version is 0. The fence makes the 0
 * visible before the other fields: a store with release orders only what comes before it.
 */
static void write_process(struct unwind_process *to, const struct unwind_process *from)
{
	__atomic_store_n(&to->version, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&to->pid, from->pid, __ATOMIC_RELAXED);
	__atomic_store_n(&to->start, from->start, __ATOMIC_RELAXED);
	__atomic_store_n(&to->exec_id, from->exec_id, __ATOMIC_RELAXED);
	__atomic_store_n(&to->first, from->first, __ATOMIC_RELAXED);
	__atomic_store_n(&to->count, from->count, __ATOMIC_RELAXED);
	__atomic_store_n(&to->context, from->context, __ATOMIC_RELAXED);
	__atomic_store_n(&to->version, from->version, __ATOMIC_RELEASE);
}

int bpf_tables_set_process(struct bpf_tables *t, const struct unwind_process *p)
{
	struct unwind_process *to = find_process(t, p->pid);

	if (!to)
		return -ENOSPC;
	write_process(to, p);
	return 0;
}

/* The last entry of the bucket moves here; meanwhile a walk may not find it. */
void bpf_tables_remove_process(struct bpf_tables *t, uint32_t pid)
{
	struct unwind_bucket *b = &t->processes[unwind_bucket(pid)];
	struct unwind_process *gone = find_process(t, pid), *last = gone;

	if (!gone || gone->pid == 0)
		return;
	while (last + 1 < b->at + UNWIND_BUCKET_SLOTS && last[1].pid)
		last++;
	if (last != gone)
		write_process(gone, last);
	write_process(last, &(struct unwind_process){});
}

void bpf_tables_stats(const struct bpf_tables *t, struct bpf_tables_stats *ret)
{
	*ret = (struct bpf_tables_stats){
		.bytes = t->shard_count * SHARD_BYTES + ARRAY_BYTES,
		.rows = t->free_rows.taken,
		.slots = t->slot_count,
		.mappings = t->free_mappings.taken,
		.graces = t->graces,
	};
}
