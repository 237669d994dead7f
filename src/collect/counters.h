/*
 * counters: counts events (counter_event.h) of threads, of a control group, or of all CPUs.
 *
 *	counters_new()     opens them all; nothing is counted yet
 *	counters_start()   now (or by themselves when the thread calls exec, see from_exec)
 *	counters_read()    what was counted since, as often as you like
 *	counters_stop()
 *
 * Threads and processes that a counted thread starts are counted with it, also after they ended.
 * If there are fewer counters in the processor than events, the kernel takes turns: `running` is
 * less than `enabled` then, and counter_value_scaled() says what it would have been.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/counter_event.h"

enum counters_by { COUNTERS_TOGETHER, COUNTERS_BY_CPU, COUNTERS_BY_CORE };

struct counters_options {              /* borrowed, and what it points to, until counters_free() */
	struct counter_events *events; /* see counter_event_only_user() */
	const uint32_t *threads;       /* none: all CPUs */
	size_t thread_count;
	int cgroup_fd;       /* only this control group, on all CPUs; -1: any */
	bool from_exec;      /* counts from the next exec of the threads on */
	enum counters_by by; /* of CPUs; threads are counted together */
};

struct counters_error { /* what could not be opened */
	const struct counter_event *event;
	uint32_t thread; /* 0: it was a CPU */
	unsigned cpu;
};

struct counter_value {
	uint64_t value, enabled, running; /* the latter two in nanoseconds */
	bool is_supported;                /* false: there is no such counter here */
	bool is_elsewhere; /* its unit is counted by another CPU, for several of them */
};

struct counters_place {        /* what is added up: all, a CPU, or a core */
	unsigned cpu;          /* the first CPU of it */
	unsigned cpus;         /* how many */
	int socket, die, core; /* of it: 0 where the kernel does not say */
};

struct counters;

/*
 * 0; or -errno with what it was in *ret_why: -ESRCH: none of the threads is there any more. An
 * event that this machine has no counter for is no error: its values are not supported. Where
 * permission to count in the kernel is missing, an event that does not ask for it is counted in
 * user space only, and renamed so.
 */
int counters_new(const struct counters_options *o, struct counters **ret,
		 struct counters_error *ret_why);
void counters_free(struct counters *c);

void counters_start(struct counters *c);
void counters_stop(struct counters *c);

size_t counters_places(const struct counters *c, const struct counters_place **ret);

/* One value for each event and place: ret[event * places + place]. 0 or -errno. */
int counters_read(const struct counters *c, struct counter_value *ret);

/* As if there had been a counter all the time; 0 if there never was. */
double counter_value_scaled(const struct counter_value *v);

/* The threads of a process, added to the list. 0, or -errno: -ESRCH if it is not there. */
int counters_threads(uint32_t pid, uint32_t **list, size_t *count, size_t *cap);
