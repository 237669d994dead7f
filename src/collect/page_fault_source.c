/* Sources of bpf/page_fault.bpf.c: what programs touch for the first time, or again from disk. */
#include "collect/source.h"

#include <linux/perf_event.h>

#include "page_fault.skel.h"

#define ONE_IN 100 /* a program that starts has some hundreds; the kernel does 100,000 a second */

#define FAULTS(name, type, which, period)                                                          \
	{                                                                                          \
		name, type, "events", page_fault__elf_bytes, "page_fault", &perf_source,           \
			PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS##which, false, period, NULL  \
	}

extern const struct source_kind page_fault_sources[];
const struct source_kind page_fault_sources[] = {
	FAULTS("page-faults", "page_faults", , ONE_IN),
	FAULTS("minor-faults", "minor_faults", _MIN, ONE_IN),
	FAULTS("major-faults", "major_faults", _MAJ, 1),
	{},
};
