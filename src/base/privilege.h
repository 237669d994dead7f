/*
 * privilege: permanently drops the privileges that are not needed.
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
 * The user that an unprivileged process runs as: `name` or, if that is NULL, the user smolder if it
 * exists, else the caller of sudo, else nobody. 0, or -ENOENT: there is no such user.
 */
int privilege_find_user(const char *name, struct privilege_user *ret);

/* The user with that uid; one without a name is called "uid N". */
void privilege_user_of(uid_t uid, gid_t gid, struct privilege_user *ret);

/* Whether root has what privilege_become() takes to become another user; in a container it may not.
 */
bool privilege_may_become(void);

/* Becomes that user (if we are root) and drops all capabilities. 0 or -errno. */
int privilege_become(const struct privilege_user *u);

/*
 * Drops all capabilities except those that a collector needs: BPF (programs and maps), PERFMON
 * (perf events), SYS_PTRACE (/proc/PID of others), DAC_READ_SEARCH (their files), SYSLOG (kernel
 * addresses), CHECKPOINT_RESTORE (/proc/PID/map_files); with `admin` also SYS_ADMIN, which some
 * kernels require. Missing ones are no error; they are listed: "CAP_SYSLOG, CAP_BPF". 0 or -errno.
 */
int privilege_keep_collector(bool admin, char *ret_missing, size_t size, unsigned *ret_count);

/*
 * Restricts this process to the system calls that a collector makes. Others fail with EPERM (recent
 * ones, which libraries can do without, with ENOSYS) and are counted. It cannot start programs, nor
 * open sockets. 0 or -errno.
 *
 * A refused call raises SIGSYS, and a thread that blocks SIGSYS is killed by it, so start threads
 * with loop_thread(). Can be called only once: the filter refuses a second one.
 */
int privilege_filter_collector(void);

/*
 * For a process that does nothing but read what BPF programs cost: drops all capabilities except
 * SYS_ADMIN, and restricts it to the system calls that this takes; of bpf(), to the commands that
 * read programs and have the kernel time their runs. Any other call ends it. 0 or -errno.
 */
int privilege_only_bpf_costs(void);

#define PRIVILEGE_REFUSED_MAX 16

/* System calls that the filter has refused so far. Any is a bug: the list of calls lacks it. */
struct privilege_refused {
	int call; /* its number; see privilege_call_name() */
	uint64_t count;
};

/* In order of the first refusal; returns how many. `ret` has room for PRIVILEGE_REFUSED_MAX. */
size_t privilege_refused(struct privilege_refused *ret);

char *privilege_call_name(int call); /* "openat2"; caller frees */
