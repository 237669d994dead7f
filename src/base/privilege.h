/*
 * privilege: giving up what is not needed, for good.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct privilege_user {
	uid_t uid;
	gid_t gid;
	char name[64];
};

/*
 * Whom an unprivileged half runs as: `name`; if that is NULL, the user smolder if there is one,
 * else who called sudo, else nobody. -ENOENT: there is no such user.
 */
int privilege_find_user(const char *name, struct privilege_user *ret);

/* The user of that number; without a name in the list of users, it is called "uid N". */
void privilege_user_of(uid_t uid, gid_t gid, struct privilege_user *ret);

/* Becomes that user, without any capability. Does nothing when not root. 0 or -errno. */
int privilege_become(const struct privilege_user *u);

/*
 * Keeps what the collector needs: BPF (programs and maps), PERFMON (perf events), SYS_PTRACE
 * (/proc/PID of others), DAC_READ_SEARCH (their files), SYSLOG (kernel addresses),
 * CHECKPOINT_RESTORE (/proc/PID/map_files). `admin`: SYS_ADMIN as well, where the kernel leaves no
 * choice. Those it does not have it does without, and lists them: "CAP_SYSLOG, CAP_BPF". 0 or
 * -errno.
 */
int privilege_keep_collector(bool admin, char *ret_missing, size_t size, unsigned *ret_count);

/*
 * From here on only the system calls that a collector makes; others fail with EPERM, new ones
 * (which libraries know to do without) with ENOSYS, and are counted. It can start no program, and
 * no socket but, with `network`, to connect one. 0 or -errno.
 *
 * Refusals are signals (SIGSYS): a thread that blocks that one dies of them, so start threads with
 * loop_thread(). Once a process: the filter refuses another one.
 */
int privilege_filter_collector(bool network);

#define PRIVILEGE_REFUSED_MAX 16

/* What the filter has refused so far. Always nothing, or the list of calls lacks one. */
struct privilege_refused {
	int call; /* its number */
	uint64_t count;
};

/* In order of the first time; how many there are. `ret` has room for PRIVILEGE_REFUSED_MAX. */
size_t privilege_refused(struct privilege_refused *ret);

char *privilege_call_name(int call); /* "openat2"; caller frees */
