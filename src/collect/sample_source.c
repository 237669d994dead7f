/* Sources of bpf/sample.bpf.c: clocks, and counters of the CPU and of the scheduler. */
#include "collect/source.h"

#include <linux/perf_event.h>

#include "sample.skel.h"

#define CLOCK(name, which)                                                                         \
	{                                                                                          \
		name, "cpu", "nanoseconds", sample__elf_bytes, "sample", &perf_source,             \
			PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##which, true, 0, NULL                   \
	}
#define COUNTER(name, type, from, which)                                                           \
	{                                                                                          \
		name, type, "events", sample__elf_bytes, "sample", &perf_source,                   \
			PERF_TYPE_##from##WARE, which, false, 0, NULL                              \
	}

extern const struct source_kind sample_sources[];
const struct source_kind sample_sources[] = {
	CLOCK("cpu-clock", CPU_CLOCK),
	CLOCK("task-clock", TASK_CLOCK),
	COUNTER("context-switches", "context_switches", SOFT, PERF_COUNT_SW_CONTEXT_SWITCHES),
	COUNTER("cpu-migrations", "cpu_migrations", SOFT, PERF_COUNT_SW_CPU_MIGRATIONS),
	COUNTER("cycles", "cycles", HARD, PERF_COUNT_HW_CPU_CYCLES),
	COUNTER("instructions", "instructions", HARD, PERF_COUNT_HW_INSTRUCTIONS),
	COUNTER("cache-references", "cache_references", HARD, PERF_COUNT_HW_CACHE_REFERENCES),
	COUNTER("cache-misses", "cache_misses", HARD, PERF_COUNT_HW_CACHE_MISSES),
	COUNTER("branches", "branches", HARD, PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
	COUNTER("branch-misses", "branch_misses", HARD, PERF_COUNT_HW_BRANCH_MISSES),
	{},
};
