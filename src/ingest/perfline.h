/*
 * perfline: parses one line of the output of `perf script`.
 *
 *	header   "  comm  pid/tid [cpu]  time:  period event:  addr sym+off (dso)"
 *	frame    "\t  addr sym+off (dso)", or "addr sym (inlined)"
 *	source   "  file.c:12", after its frame
 *
 * Which fields there are depends on perf's -F; a comm may contain spaces and digits.
 * All text is borrowed from the line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_text {
	const char *s;
	size_t len;
};

struct perf_frame {
	uint64_t addr;
	struct perf_text symbol; /* empty if perf knew none */
	struct perf_text module; /* the dso, empty if it is not printed */
	bool inlined;
};

struct perf_header {
	struct perf_text comm;
	struct perf_text pid; /* only where perf prints "pid/tid" */
	struct perf_text tid;
	struct perf_text event;
	uint64_t time_ns;
	bool has_time, has_cpu, has_frame;
	bool sure;               /* it has a time, a CPU or an event, so it cannot be other text */
	struct perf_frame frame; /* of a recording without call chains */
};

bool perfline_header(const char *s, size_t len, struct perf_header *ret);
bool perfline_frame(const char *s, size_t len, struct perf_frame *ret);
bool perfline_source(const char *s, size_t len, struct perf_text *ret_file, uint32_t *ret_line);
