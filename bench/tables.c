/*
 * What unwind tables cost: build/bench/tables [-s] FILE...
 *
 * For each file: functions, rows, distinct rules (of it and of all so far), pages and bytes of its
 * table, share of rows that cannot be followed, CPU time to build it and to load it from the cache.
 * With -s, one line: files that have a table, rows, pages and rules of all of them together.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "process/elf_file.h"
#include "unwind/unwind_table_cache.h"

enum { ROUNDS = 5, LOOKUPS = 5000000 };

static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Nanoseconds to find the rule of a random address. */
static double lookup(const struct unwind_table *table)
{
	uint64_t state = 88172645463325252ull, sum = 0;
	uint64_t from = table->base_page << UNWIND_PAGE_BITS;
	uint64_t len = (uint64_t)table->page_count << UNWIND_PAGE_BITS;
	double began = cpu();

	for (int i = 0; i < LOOKUPS; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		sum += unwind_table_find(table, from + state % len);
	}
	double each = (cpu() - began) * 1e9 / LOOKUPS;
	return sum ? each : 0;
}

/* Milliseconds to load a table that is in the cache; < 0: it is not kept. */
static double load(struct unwind_table_cache *cache, const struct elf_file *e)
{
	double best = -1;

	for (int i = 0; i <= ROUNDS; i++) {
		struct rules rules;
		struct unwind_table *table;
		uint64_t loaded = cache->stats.loaded;
		rules_init(&rules);
		double began = cpu();
		if (unwind_table_cache_get(cache, e, &rules, &table, NULL) == 0)
			unwind_table_free(table);
		double took = (cpu() - began) * 1e3;
		if (cache->stats.loaded > loaded)
			best = best < 0 ? took : MIN(best, took);
		rules_done(&rules);
	}
	return best;
}

static int measure(const char *path, struct rules *all, struct unwind_table_cache *cache)
{
	struct rules own;
	struct elf_file e;
	struct cfi_stats stats;
	struct unwind_table *table = NULL, *shared = NULL;
	double best = 1e9;
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : elf_file_init(&e, fd);
	if (r < 0) {
		fprintf(stderr, "tables: %s: %s\n", path, strerror(-r));
		return 1;
	}
	for (int i = 0; i < ROUNDS && r == 0; i++) {
		unwind_table_free(TAKE_PTR(table));
		rules_init(&own);
		double began = cpu();
		r = unwind_table_build(&e, &own, &table, &stats);
		best = MIN(best, cpu() - began);
		if (i < ROUNDS - 1)
			rules_done(&own);
	}
	if (r < 0) {
		fprintf(stderr, "tables: %s: %s%s%s\n", path, strerror(-r), stats.why ? ": " : "",
			stats.why ? stats.why : "");
	} else {
		unwind_table_build(&e, all, &shared, NULL);
		printf("%-40s %7u %8u %5u %5u %5u %9zu %8.3f %9.2f %8.2f %7.1f\n", path,
		       stats.functions, table->row_count, own.count, all->count, table->page_count,
		       unwind_table_bytes(table), 100.0 * stats.other / stats.rows, best * 1e3,
		       load(cache, &e), lookup(table));
		rules_done(&own);
	}
	unwind_table_free(table);
	unwind_table_free(shared);
	elf_file_done(&e);
	return r < 0;
}

/* Files without a table (no rows, not for this machine) are left out, as they are when sampled. */
static int sum(char **paths)
{
	struct rules all;
	uint64_t rows = 0, pages = 0;
	unsigned files = 0, failed = 0;

	rules_init(&all);
	for (; *paths; paths++) {
		struct elf_file e;
		struct unwind_table *table;
		CLEANUP(fd_closep) int fd = open(*paths, O_RDONLY | O_CLOEXEC);
		int r = fd < 0 ? -errno : elf_file_init(&e, fd);
		if (r == 0) {
			r = unwind_table_build(&e, &all, &table, NULL);
			elf_file_done(&e);
		}
		if (r < 0) {
			fprintf(stderr, "tables: %s: %s\n", *paths, strerror(-r));
			failed++;
			continue;
		}
		files++;
		rows += table->row_count;
		pages += table->page_count;
		unwind_table_free(table);
	}
	printf("files %u rows %llu pages %llu rules %u failed %u\n", files,
	       (unsigned long long)rows, (unsigned long long)pages, all.count, failed);
	rules_done(&all);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "-s") == 0)
		return sum(argv + 2);

	struct rusage use;
	struct rules all;
	struct unwind_table_cache cache;
	char dir[] = "/tmp/smolder-bench-XXXXXX";
	int failed = 0;

	if (!mkdtemp(dir) || unwind_table_cache_init(&cache, dir, 256 << 20) < 0)
		return 1;
	rules_init(&all);
	printf("%-40s %7s %8s %5s %5s %5s %9s %8s %9s %8s %7s\n", "file", "fdes", "rows", "rules",
	       "all", "pages", "bytes", "other %", "parse ms", "load ms", "find ns");
	for (int i = 1; i < argc; i++)
		failed |= measure(argv[i], &all, &cache);
	rules_done(&all);
	unwind_table_cache_done(&cache);
	unwind_table_cache_init(&cache, dir, 0); /* removes what is there */
	unwind_table_cache_done(&cache);
	rmdir(dir);
	getrusage(RUSAGE_SELF, &use);
	printf("peak memory %ld KB\n", use.ru_maxrss);
	return failed;
}
