/*
 * source: where events come from.
 *
 * A kind of source is a BPF object that takes its events (bpf/event.bpf.h), how it is attached, and
 * what the profile is called that they make. Each file that has some lists them in an array, and
 * source.c lists the arrays. A source that runs has rings, counters and losses of its own, so that
 * sources may interrupt each other where the kernel lets them (bpf/event.bpf.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/rings.h"

struct bpf_object;
struct bpf_program;
struct source;

/* How a kind's program is attached, once it is loaded. */
struct source_driver {
	/* Events flow from here on. 0, or -errno with what was being done in *ret_doing. */
	int (*start)(struct source *s, const char **ret_doing);
	void (*stop)(struct source *s); /* no more events; again is harmless */
	/* A CPU came online or went; NULL: it makes no difference. */
	void (*cpu)(struct source *s, unsigned cpu, bool online);
	/* See sampler_ticks(); NULL: there is no clock that ticks. */
	void (*ticks)(struct source *s, uint64_t *ret_due, uint64_t *ret_missed);
	void (*free)(struct source *s);
};

struct source_kind {
	const char *name; /* as -e takes it: "cpu-clock", "page-faults" */
	const char *type; /* of the profile: "cpu"; letters, digits, _ and : */
	const char *unit; /* of an event's value: "nanoseconds" */
	const void *(*object)(size_t *ret_bytes); /* the BPF object, as compiled */
	const char *program;                      /* of the object, that is attached */
	const struct source_driver *driver;
	uint32_t perf_type; /* perf_event_attr.type and .config, for perf_source.c */
	uint64_t perf_config;
	bool is_clock;           /* a period is nanoseconds */
	uint64_t period;         /* one event in so many, unless told otherwise; 0: by frequency */
	const char *const *also; /* other programs of the object to load; ends with NULL */
};

#define SOURCES_MAX 8 /* at a time */

#define SOURCE_ALWAYS "cpu-clock" /* what `run` and `agent` sample whatever else they do */

/* NULL: there is none by that name. */
const struct source_kind *source_find(const char *name);

/* All names, comma-separated. */
const char *source_names(void);

/* One that runs. */
struct source {
	const struct source_kind *kind;
	uint64_t frequency; /* events per second per CPU; 0: use period */
	uint64_t period;    /* one event in so many: ns for a clock */
	struct bpf_object *object;
	struct bpf_program *program;
	int counters_fd; /* of the object's map */
	struct rings rings;
	unsigned cpu_count; /* possible CPUs; of them rings.count have a ring */
	int only_cpu;       /* -1: all */
	unsigned cpus;      /* with events now */
	uint64_t failed_cpus;
	uint64_t beyond_cpus; /* of them, those that were not there at the start */
	void *driver_data;    /* the driver's own */
};

/* One value of a source's counters, of a CPU. */
uint64_t source_counter(const struct source *s, uint32_t cpu, enum wire_counter which);

/* The drivers there are. */
extern const struct source_driver perf_source; /* a perf event on each CPU: perf_source.c */
