/*
 * spans [anon|quiet|garbage]: spins in two functions under two spans of one trace, and in a third
 * without one, and says which (OTEP 4947, by its text): trace 0102…10, span a1…a8 in `checkout`
 * (half of the time), b1…b8 in `payment` (a quarter), none in `idle_work` (a quarter).
 *
 * The thread-local variable is in the program, or, built with -DLIBRARY, in that library, which the
 * program is linked with (-DLINKED) or opens (-DOPENED). Two threads run, each with records of its
 * own; one of them swaps the pointer, the other changes its record in place.
 *
 *	anon      the process' context is named anonymous memory, if the kernel has names for that
 *	quiet     it does all that, and does not say so: for measurements
 *	garbage   the variable leads nowhere, to an invalid record and to one of zeroes
 */
#include <stdint.h>

struct otel_record {
	uint8_t trace[16], span[8];
	uint8_t valid, flags;
	uint16_t attrs_size;
	uint8_t attrs[64];
} __attribute__((packed, aligned(2)));

#ifdef LIBRARY
__attribute__((visibility("default"))) __thread volatile void *otel_thread_ctx_v1;

void spans_set(volatile void *record);
void spans_set(volatile void *record)
{
	otel_thread_ctx_v1 = record;
}
#else
#include <dlfcn.h>
#include <pthread.h>

#include "otel.h"
#include "workload.h"

#if defined(LINKED)
void spans_set(volatile void *record);
#elif defined(OPENED)
static void (*spans_set)(volatile void *record);
#else
__attribute__((visibility("default"), used)) __thread volatile void *otel_thread_ctx_v1;

static void spans_set(volatile void *record)
{
	otel_thread_ctx_v1 = record;
}
#endif

static struct otel_bytes context;
static int garbage;

NOINLINE uint64_t checkout(uint64_t until);
uint64_t checkout(uint64_t until)
{
	return workload_spin(until);
}

NOINLINE uint64_t payment(uint64_t until);
uint64_t payment(uint64_t until)
{
	return workload_spin(until);
}

NOINLINE uint64_t idle_work(uint64_t until);
uint64_t idle_work(uint64_t until)
{
	return workload_spin(until);
}

static void fill(struct otel_record *r, uint8_t span)
{
	for (int i = 0; i < 16; i++)
		r->trace[i] = (uint8_t)(i + 1);
	for (int i = 0; i < 8; i++)
		r->span[i] = (uint8_t)(span + i + 1);
}

#define FENCE() atomic_signal_fence(memory_order_seq_cst)

static void *swap_pointers(void *arg)
{
	static struct otel_record first, second;

	(void)arg;
	fill(&first, 0xa0);
	fill(&second, 0xb0);
	first.valid = second.valid = 1;
	while (!workload_stop) {
		spans_set(&first);
		FENCE();
		checkout(workload_cpu_ns() + 20000000);
		spans_set(&second);
		FENCE();
		payment(workload_cpu_ns() + 10000000);
		spans_set(NULL);
		FENCE();
		idle_work(workload_cpu_ns() + 10000000);
	}
	return NULL;
}

static void *change_in_place(void *arg)
{
	static struct otel_record r;
	volatile uint8_t *valid = &r.valid;

	(void)arg;
	spans_set(&r);
	while (!workload_stop) {
		fill(&r, 0xa0);
		FENCE();
		*valid = 1;
		checkout(workload_cpu_ns() + 20000000);
		*valid = 0;
		FENCE();
		fill(&r, 0xb0);
		FENCE();
		*valid = 1;
		payment(workload_cpu_ns() + 10000000);
		*valid = 0;
		idle_work(workload_cpu_ns() + 10000000);
	}
	return NULL;
}

static void *lie(void *arg)
{
	static struct otel_record zero = {.valid = 1}, invalid;

	(void)arg;
	fill(&invalid, 0xc0);
	invalid.valid = 7;
	while (!workload_stop) {
		spans_set((void *)0xdead0000beef0000);
		checkout(workload_cpu_ns() + 10000000);
		spans_set((void *)8);
		checkout(workload_cpu_ns() + 10000000);
		spans_set(&zero);
		payment(workload_cpu_ns() + 10000000);
		spans_set(&invalid);
		idle_work(workload_cpu_ns() + 10000000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	garbage = argc > 1 && strcmp(argv[1], "garbage") == 0;
#ifdef OPENED
	void *library = dlopen(argv[argc - 1], RTLD_NOW);
	*(void **)&spans_set = library ? dlsym(library, "spans_set") : NULL;
	if (!spans_set)
		return 1;
#endif
	otel_context(&context, garbage ? "liar" : "shop", "1", "test");
	int memfd = argc < 2 || strcmp(argv[1], "anon") != 0;
	if (otel_map(memfd) != 0)
		return 1;
	if (argc < 2 || strcmp(argv[1], "quiet") != 0)
		otel_publish(context.at, context.len);
	if (!memfd && !otel_is_named()) {
		if (otel_map(1) != 0)
			return 1;
		otel_publish(context.at, context.len);
		memfd = 1;
	}
	workload_ready();
	puts(memfd ? "memfd" : "named");
	fflush(stdout);
	pthread_create(&other, NULL, garbage ? lie : change_in_place, NULL);
	(garbage ? lie : swap_pointers)(NULL);
	pthread_join(other, NULL);
}
#endif
