/* Which mappings a process has, where the BPF walk looks for it. */
#include "unit/unit.h"

#include <errno.h>
#include <sys/mman.h>

#include "collect/sampler.h"
#include "unwind/bpf_tables.h"

struct fixture {
	struct sampler *sampler;
	struct bpf_tables *tables;
	const struct unwind_bucket *buckets; /* the map's own memory */
};

static struct fixture begin(void)
{
	struct sampler_options o = {.sources = {{.frequency = 99}},
				    .source_count = 1,
				    .cpu = -1,
				    .filter.cgroup_subsys = -1};
	struct sampler_error why;
	struct sampler_maps maps;
	struct fixture f = {};

	o.sources[0].kind = source_find("cpu-clock");
	int r = sampler_new(&o, &f.sampler, &why);
	if (r == -EPERM || r == -EACCES)
		skip();
	assert_int_equal(r, 0);
	sampler_maps(f.sampler, &maps);
	assert_int_equal(bpf_tables_new(&maps, 0, &f.tables), 0);
	f.buckets = mmap(NULL, UNWIND_BUCKETS * sizeof(*f.buckets), PROT_READ, MAP_SHARED,
			 maps.processes, 0);
	assert_ptr_not_equal(f.buckets, MAP_FAILED);
	return f;
}

static void end(struct fixture *f)
{
	munmap((void *)f->buckets, UNWIND_BUCKETS * sizeof(*f->buckets));
	bpf_tables_free(f->tables);
	sampler_free(f->sampler);
}

static int name(struct fixture *f, uint32_t pid, uint32_t version)
{
	return bpf_tables_set_process(f->tables, &(struct unwind_process){.pid = pid,
									  .version = version,
									  .start = pid * 10ull,
									  .first = pid * 2,
									  .count = 7});
}

/* The version of a process, looked for as the walk does; 0: not there. */
static uint32_t find(const struct fixture *f, uint32_t pid)
{
	const struct unwind_bucket *b = &f->buckets[unwind_bucket(pid)];

	for (size_t i = 0; i < UNWIND_BUCKET_SLOTS && b->at[i].pid; i++) {
		if (b->at[i].pid != pid)
			continue;
		assert_int_equal(b->at[i].start, pid * 10ull);
		assert_int_equal(b->at[i].first, pid * 2);
		return b->at[i].version;
	}
	return 0;
}

static void processes_come_and_go(void **state)
{
	(void)state;
	enum { PIDS = 2000 };
	struct fixture f = begin();

	for (uint32_t pid = 1; pid <= PIDS; pid++)
		assert_int_equal(name(&f, pid, pid), 0);
	for (uint32_t pid = 1; pid <= PIDS; pid += 2)
		assert_int_equal(name(&f, pid, PIDS + pid), 0); /* in the same place */
	for (uint32_t pid = 1; pid <= PIDS; pid += 3)
		bpf_tables_remove_process(f.tables, pid);
	bpf_tables_remove_process(f.tables, PIDS + 1); /* was never there */
	for (uint32_t pid = 1; pid <= PIDS; pid++)
		assert_int_equal(find(&f, pid), pid % 3 == 1 ? 0 : pid % 2 == 1 ? PIDS + pid : pid);
	end(&f);
}

static void a_full_bucket_says_so(void **state)
{
	(void)state;
	struct fixture f = begin();
	uint32_t pids[UNWIND_BUCKET_SLOTS + 1], count = 0;

	for (uint32_t pid = 1; count <= UNWIND_BUCKET_SLOTS; pid++)
		if (unwind_bucket(pid) == unwind_bucket(1))
			pids[count++] = pid;
	for (uint32_t i = 0; i < UNWIND_BUCKET_SLOTS; i++)
		assert_int_equal(name(&f, pids[i], 1), 0);
	assert_int_equal(name(&f, pids[UNWIND_BUCKET_SLOTS], 1), -ENOSPC);
	assert_int_equal(name(&f, pids[0], 2), 0); /* one that is there has its place */
	bpf_tables_remove_process(f.tables, pids[3]);
	assert_int_equal(name(&f, pids[UNWIND_BUCKET_SLOTS], 1), 0);
	for (uint32_t i = 0; i <= UNWIND_BUCKET_SLOTS; i++)
		assert_int_equal(find(&f, pids[i]), i == 3 ? 0 : i == 0 ? 2 : 1);
	end(&f);
}

/* A table of `pages` pages with so many rows each; caller frees rows and pages. */
static struct unwind_table image_of(uint64_t base_page, uint32_t pages, uint32_t rows)
{
	struct unwind_table table = {
		.base_page = base_page, .page_count = pages, .row_count = pages * rows};

	table.pages = calloc(pages, sizeof(*table.pages));
	table.rows = calloc((size_t)pages * rows, sizeof(*table.rows));
	assert_non_null(table.pages);
	assert_non_null(table.rows);
	for (uint32_t i = 0; i < pages; i++)
		table.pages[i] = (struct unwind_table_page){i * rows, rows};
	for (uint32_t i = 0; i < table.row_count; i++)
		table.rows[i].low = (uint16_t)(i % rows);
	return table;
}

/* "No space" makes others go: it must not be the answer to what will never fit. */
static void what_never_fits_is_not_want_of_room(void **state)
{
	(void)state;
	static const struct {
		uint64_t base_page;
		uint32_t pages, rows;
		int r;
	} t[] = {
		{1, 2, 10, 0},
		{UINT32_MAX, 2, 10, 0},
		{1ull + UINT32_MAX, 2, 10, -EFBIG}, /* an address that no process has */
		{UINT64_MAX >> UNWIND_PAGE_BITS, 1, 10, -EFBIG},
		{1, 4, 40000, -EFBIG}, /* one shard has room for three such pages */
	};
	struct fixture f = begin(); /* of one shard */
	uint32_t slot;

	assert_int_equal(bpf_tables_rows_max(f.tables), UNWIND_SHARD_ROWS);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct unwind_table table = image_of(t[i].base_page, t[i].pages, t[i].rows);
		assert_int_equal(bpf_tables_put(f.tables, &table, &slot), t[i].r);
		free(table.pages);
		free(table.rows);
	}
	struct unwind_table none = {.base_page = 1};
	assert_int_equal(bpf_tables_put(f.tables, &none, &slot), -EFBIG);
	struct unwind_table large = image_of(1, 3, 43690); /* fits, were there nothing else */
	assert_int_equal(bpf_tables_put(f.tables, &large, &slot), -ENOSPC);
	free(large.pages);
	free(large.rows);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_come_and_go),
		cmocka_unit_test(a_full_bucket_says_so),
		cmocka_unit_test(what_never_fits_is_not_want_of_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
