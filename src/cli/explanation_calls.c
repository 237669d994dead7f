#include "cli/explanation_calls.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "collect/syscall_counter.h"
#include "syscall/calls.h"
#include "syscall/errors.h"
#include "syscall/totals.h"

#define TRY_MS    100
#define COUNT_MS  1000
#define CALLS     10
#define TIMING_NS 200  /* that timing a call takes */
#define BUDGET    0.01 /* of a CPU */

DEFINE_CLEANUP(struct syscall_calls *, syscall_calls_free)
DEFINE_CLEANUP(struct syscall_totals *, syscall_totals_free)

/* ---- whose ----------------------------------------------------------------------------------- */

/* Numbers of processes are given anew: its name must be the same. */
static bool still_runs(uint32_t pid, const char *comm)
{
	char path[32], clean[TEXT_MAX + 1];
	CLEANUP(freep) char *name = NULL;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", pid);
	if (file_read(path, 64, &name, NULL) != 0)
		return false;
	text_clean(name, strcspn(name, "\n"), clean);
	return strcmp(clean, comm) == 0;
}

static bool has(const uint32_t *pids, size_t count, uint32_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* How many of them there are that can be looked at. */
static size_t list_processes(const struct profile *p, uint32_t ret[static EXPLAINED_PROCESSES])
{
	char own[65] = "";
	size_t count = 0;

	gethostname(own, sizeof(own) - 1);
	for (uint32_t i = 0; i < p->series_count && count < EXPLAINED_PROCESSES; i++) {
		const char *pid = profile_label(p, i, "pid"), *comm = profile_label(p, i, "comm");
		const char *host = profile_label(p, i, "host");
		uint32_t n = pid ? (uint32_t)strtoul(pid, NULL, 10) : 0;
		if (n && comm && !has(ret, count, n) &&
		    (!host || !*host || strcmp(host, own) == 0) && still_runs(n, comm))
			ret[count++] = n;
	}
	return count;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* 0 or -errno. */
static int count_calls(const struct syscall_calls *calls, const uint32_t *pids, size_t pid_count,
		       bool timed, uint64_t ms, struct syscall_totals *to, double *ret_seconds)
{
	CLEANUP(freep) struct syscall_counter_options *o = mem_alloc(sizeof(*o));
	const struct syscall_sink sink = {to, syscall_totals_slot, syscall_totals_error};
	const struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	struct syscall_counter *c;
	struct sampler_error why;

	o->filter = (struct wire_filter){.by_pid = true, .cgroup_subsys = -1};
	o->targets = pids;
	o->target_count = pid_count;
	syscall_calls_kinds(calls, o->kinds, &o->choice);
	syscall_calls_want(calls, NULL, o->kinds);
	o->choice.timed = timed;
	int err = syscall_counter_new(o, &c, &why);
	if (err)
		return err;
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	nanosleep(&pause, NULL);
	syscall_counter_stop(c);
	*ret_seconds = (double)(clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
	err = syscall_counter_take(c, &sink);
	syscall_counter_free(c);
	return err;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *make_call(const struct syscall_calls *calls, const struct syscall_row *r,
			 double seconds, bool timed)
{
	bool compat;
	const char *name = syscall_calls_name(calls, r->call, &compat);
	const char *error = r->error_count ? syscall_error_name(r->by_error[0].error) : NULL;
	json_t *one = json_object();

	json_object_set_new(one, "call", json_sprintf("%s%s", name, compat ? " (32-bit)" : ""));
	json_object_set_new(one, "per_second", json_real((double)r->calls / seconds));
	if (timed && r->timed)
		json_object_set_new(one, "mean_us",
				    json_real((double)r->total_ns / (double)r->timed / 1e3));
	if (r->errors)
		json_object_set_new(one, "failed_share",
				    json_real((double)r->errors / (double)r->calls));
	if (r->errors && error)
		json_object_set_new(one, "error", json_string(error));
	return one;
}

static json_t *make(const struct syscall_calls *calls, struct syscall_totals *t, double seconds,
		    bool timed)
{
	json_t *o = json_object(), *list = json_array();
	const struct syscall_row *sum = syscall_totals_sum(t);
	uint64_t all = sum->calls, failed = sum->errors;
	size_t count;
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);

	for (size_t i = 0; i < MIN(count, (size_t)CALLS); i++)
		if (rows[i].calls)
			json_array_append_new(list, make_call(calls, &rows[i], seconds, timed));
	json_object_set_new(o, "seconds", json_real(seconds));
	json_object_set_new(o, "per_second", json_real((double)all / seconds));
	json_object_set_new(o, "failed_share", json_real(all ? (double)failed / (double)all : 0));
	json_object_set_new(o, "timed", json_boolean(timed));
	json_object_set_new(o, "calls", list);
	return o;
}

static void say_refused(int err, char ret_why[static 256])
{
	if (err == -EPERM || err == -EACCES)
		snprintf(ret_why, 256,
			 "counting them for a second needs root, which 'sudo smolder "
			 "explain' has");
	else
		snprintf(ret_why, 256, "the kernel does not let them be counted: %s",
			 strerror(-err));
}

json_t *explanation_calls(const struct profile *p, char ret_why[static 256])
{
	CLEANUP(syscall_calls_freep) struct syscall_calls *calls = syscall_calls_new();
	CLEANUP(syscall_totals_freep)
	struct syscall_totals *first = syscall_totals_new(false, true);
	CLEANUP(syscall_totals_freep) struct syscall_totals *t = syscall_totals_new(false, true);
	uint32_t pids[EXPLAINED_PROCESSES];
	size_t count = list_processes(p, pids);
	double seconds = 0;

	if (!count) {
		snprintf(ret_why, 256, "none of its processes runs on this machine now");
		return NULL;
	}
	int err = count_calls(calls, pids, count, false, TRY_MS, first, &seconds);
	double rate = seconds > 0 ? (double)syscall_totals_sum(first)->calls / seconds : 0;
	bool timed = rate * TIMING_NS / 1e9 < BUDGET;
	err = err ? err : count_calls(calls, pids, count, timed, COUNT_MS, t, &seconds);
	if (err) {
		say_refused(err, ret_why);
		return NULL;
	}
	json_t *o = make(calls, t, seconds, timed);
	json_object_set_new(o, "processes", json_integer((json_int_t)count));
	return o;
}
