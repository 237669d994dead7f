/*
 * What names cost: build/bench/symbols FILE...
 *
 * For each file: loading its table (CPU time, bytes, symbols), then lookups per CPU second of
 * random addresses of its code, each asked for once ("first": no name was known before; "random":
 * as it goes on), and of ten thousand addresses asked for again and again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "process/elf_file.h"
#include "symbol/kallsyms.h"
#include "symbol/symbols.h"

enum { FIRST = 20000, RANDOM = 1000000, AGAIN = 10000, REPEATED = 5000000 };

static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A random offset of the code: of .text where there is one, else of the executable segment. */
static uint64_t offset(uint64_t from, uint64_t len, uint64_t *state)
{
	return from + next(state) % len;
}

static double per_second(struct symbols *s, uint32_t file, uint64_t from, uint64_t len, int count,
			 int distinct, uint64_t *ret_named)
{
	struct symbol sym;
	uint64_t state = 88172645463325252ull + (uint64_t)count;
	CLEANUP(freep) uint64_t *at = mem_alloc_array((size_t)distinct, sizeof(*at));

	*ret_named = 0;
	for (int i = 0; i < distinct; i++)
		at[i] = offset(from, len, &state);
	double began = cpu();
	for (int i = 0; i < count; i++)
		*ret_named += symbols_find(s, file, at[i % distinct], &sym) == 0;
	return count / (cpu() - began);
}

static int measure(const char *path)
{
	struct symbols *s = symbols_new(20 << 20);
	struct symbols_stats st;
	struct symbol sym;
	struct elf_file e;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || elf_file_init(&e, fd) < 0) {
		fprintf(stderr, "symbols: %s: cannot be read as a program\n", path);
		symbols_free(s);
		return 1;
	}
	const Elf64_Shdr *text = elf_file_section(&e, ".text");
	const Elf64_Phdr *segment = elf_file_text(&e);
	uint64_t from = text ? text->sh_offset : segment->p_offset;
	uint64_t len = text ? text->sh_size : segment->p_filesz;
	uint32_t file = symbols_add_file(s, &(struct symbols_file){.path = path, .fd = fd});

	double began = cpu();
	symbols_find(s, file, from, &sym);
	double load = cpu() - began;
	symbols_stats(s, &st);
	printf("%s\n  load       %8.2f ms CPU  %9lu symbols  %10lu bytes\n", path, load * 1e3,
	       st.symbols, st.bytes);

	uint64_t named;
	double rate = per_second(s, file, from, len, FIRST, FIRST, &named);
	printf("  first      %8.2f M/s      %8.1f %% named\n", rate / 1e6,
	       100.0 * (double)named / FIRST);
	rate = per_second(s, file, from, len, RANDOM, RANDOM, &named);
	printf("  random     %8.2f M/s      %8.1f %% named\n", rate / 1e6,
	       100.0 * (double)named / RANDOM);
	rate = per_second(s, file, from, len, REPEATED, AGAIN, &named);
	symbols_stats(s, &st);
	printf("  repeated   %8.2f M/s      %10lu bytes in all\n", rate / 1e6, st.bytes);
	elf_file_done(&e);
	symbols_free(s);
	return 0;
}

static void measure_kernel(void)
{
	struct kallsyms *k;
	double began = cpu();
	int r = kallsyms_load(NULL, &k);
	if (r < 0) {
		printf("kernel: %s\n", strerror(-r));
		return;
	}
	printf("kernel\n  load       %8.2f ms CPU  %10zu bytes\n", (cpu() - began) * 1e3,
	       kallsyms_bytes(k));
	kallsyms_free(k);
}

int main(int argc, char **argv)
{
	struct rusage use;
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= measure(argv[i]);
	measure_kernel();
	getrusage(RUSAGE_SELF, &use);
	printf("peak memory %ld KB\n", use.ru_maxrss);
	return failed;
}
