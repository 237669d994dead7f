#include "pipeline/closeup_plans.h"

#include <string.h>

#include "base/mem.h"

static const struct {
	const char *name;
	struct closeup_plan plan;
} table[] = {
	{"epoll_wait", {.form = CLOSEUP_MS, .arg = 3, .nothing = CLOSEUP_ZERO}},
	{"epoll_pwait", {.form = CLOSEUP_MS, .arg = 3, .nothing = CLOSEUP_ZERO}},
	{"epoll_pwait2", {.form = CLOSEUP_TIMESPEC, .arg = 3, .nothing = CLOSEUP_ZERO}},
	{"poll", {.form = CLOSEUP_MS, .arg = 2, .nothing = CLOSEUP_ZERO}},
	{"ppoll", {.form = CLOSEUP_TIMESPEC, .arg = 2, .nothing = CLOSEUP_ZERO}},
	{"select", {.form = CLOSEUP_TIMEVAL, .arg = 4, .nothing = CLOSEUP_ZERO}},
	{"pselect6", {.form = CLOSEUP_TIMESPEC, .arg = 4, .nothing = CLOSEUP_ZERO}},
	{"nanosleep", {.form = CLOSEUP_TIMESPEC, .arg = 0, .nothing = CLOSEUP_WAITS}},
	{"clock_nanosleep", {.form = CLOSEUP_TIMESPEC, .arg = 2, .nothing = CLOSEUP_WAITS}},
	{"sched_yield", {.nothing = CLOSEUP_WAITS}},
	{"futex", {.form = CLOSEUP_TIMESPEC, .arg = 3, .nothing = CLOSEUP_FUTEX}},
	{"read", {.nothing = CLOSEUP_AGAIN}},
	{"readv", {.nothing = CLOSEUP_AGAIN}},
	{"recvfrom", {.nothing = CLOSEUP_AGAIN}},
	{"recvmsg", {.nothing = CLOSEUP_AGAIN}},
	{"recvmmsg", {.nothing = CLOSEUP_AGAIN}},
	{"accept", {.nothing = CLOSEUP_AGAIN}},
	{"accept4", {.nothing = CLOSEUP_AGAIN}},
	{"getdents64", {.file = CLOSEUP_LISTS}},
	{"open", {.file = CLOSEUP_OPENS, .path = 1}},
	{"openat", {.file = CLOSEUP_OPENS, .path = 2}},
	{"openat2", {.file = CLOSEUP_OPENS, .path = 2}},
	{"stat", {.path = 1}},
	{"lstat", {.path = 1}},
	{"access", {.path = 1}},
	{"execve", {.path = 1}},
	{"readlink", {.path = 1}},
	{"unlink", {.path = 1}},
	{"mkdir", {.path = 1}},
	{"newfstatat", {.path = 2}},
	{"statx", {.path = 2}},
	{"faccessat", {.path = 2}},
	{"faccessat2", {.path = 2}},
	{"readlinkat", {.path = 2}},
	{"unlinkat", {.path = 2}},
};

void closeup_plans(const struct syscall_calls *c, struct closeup_plan ret[static SYSCALL_COMPAT])
{
	memset(ret, 0, SYSCALL_COMPAT * sizeof(*ret));
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int number = syscall_names_number(syscall_calls_own(c), table[i].name);
		if (number >= 0 && number < SYSCALL_COMPAT)
			ret[number] = table[i].plan;
	}
}
