/*
 * syscall_session: what `syscalls` and `syscount` share. Counts system calls from now on until the
 * time is up, the target ends or the user presses Ctrl-C, and reports at each interval and at the
 * end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/target.h"
#include "collect/syscall_counter.h"
#include "syscall/calls.h"
#include "syscall/totals.h"

struct syscall_session_options {
	struct target_options target;
	struct syscall_counter_options counter; /* targets and filter are set from `target` */
	bool by_call;                           /* and by owner if counter.choice.by says so */
	uint64_t duration_ms;                   /* 0: until Ctrl-C, or the target ends */
	uint64_t interval_ms;                   /* 0: report once, at the end */
	/* Reports what was counted in so many seconds; false: nobody reads it any more. */
	bool (*report)(void *ctx, struct syscall_totals *t, double seconds, bool is_last);
	void *ctx;
};

struct syscall_session_result {
	double seconds;
	uint64_t untimed; /* for want of room for threads */
	int exit_code;    /* of the program that was started, else 0 */
};

/*
 * Marks what a list of names and classes says ("openat,%file"; "!futex" for all but it) as wanted;
 * NULL: everything. false after reporting which of them is no system call.
 */
bool syscall_session_choose(const struct syscall_calls *calls, const char *list,
			    struct syscall_session_options *o);

/* "ENOENT" or its number, given to an option; false after reporting that there is none such. */
bool syscall_session_error(const char *option, const char *word, uint32_t *ret);

/* That calls were not timed, if any. */
void syscall_session_say_untimed(const struct syscall_session_result *r);

/* 0, or an exit code after reporting why. */
int syscall_session_run(struct syscall_session_options *o, struct syscall_session_result *ret);
