#include "cli/target.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "collect/cgroup.h"

#define THREADS_MS 200 /* between two looks whether threads still run */

bool target_ids(const char *option, const char *arg, uint32_t *list, unsigned *count)
{
	CLEANUP(freep) char *copy = mem_strdup(arg);
	char *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		uint64_t id;
		if (!cli_number(option, one, 1, INT32_MAX, &id))
			return false;
		if (*count == TARGET_IDS_MAX) {
			log_error("%s takes at most %d ids", option, TARGET_IDS_MAX);
			return false;
		}
		list[(*count)++] = (uint32_t)id;
	}
	if (*count == 0)
		log_error("%s needs at least one id", option);
	return *count > 0;
}

bool target_takes(int c)
{
	return c == 'p' || c == 'L' || c == 'a' || c == TARGET_CGROUP || c == TARGET_COMM;
}

bool target_set(struct target_options *o, int c)
{
	switch (c) {
	case 'p':
		if (optarg[0] && (optarg[0] < '0' || optarg[0] > '9') && optarg[0] != '-') {
			log_error(
				"-p takes a process id, not '%s'; to select by name, use --comm %s",
				optarg, optarg);
			return false;
		}
		return target_ids("-p", optarg, o->pids, &o->pid_count);
	case 'L':
		return target_ids("-L", optarg, o->tids, &o->tid_count);
	case 'a':
		o->machine = true;
		return true;
	case TARGET_CGROUP:
		o->cgroup = optarg;
		return true;
	default:
		o->comm = optarg;
		return true;
	}
}

int target_words(int argc, char **argv, struct target_options *o)
{
	int words = 1;

	while (words < argc && strcmp(argv[words], "--") != 0)
		words++;
	if (words == argc - 1) {
		log_error("no program is given after --");
		return -1;
	}
	if (words < argc)
		o->program = argv + words + 1;
	return words;
}

bool target_is_machine(const struct target_options *o)
{
	return o->machine ? !o->cgroup && !o->comm
			  : !o->pid_count && !o->tid_count && !o->cgroup && !o->comm && !o->program;
}

const char *target_conflict(const struct target_options *o)
{
	if (o->pid_count && o->tid_count)
		return "-p and -L exclude each other";
	if (o->program && (o->pid_count || o->tid_count))
		return "a program to start and -p or -L exclude each other";
	if (o->machine && (o->pid_count || o->tid_count))
		return "-a and -p or -L exclude each other";
	return NULL;
}

/* Opens a pidfd for each target, so that its end is seen; a target that is not there is an error.
 */
static int find_ids(struct target *t)
{
	const struct target_options *o = t->options;

	for (unsigned i = 0; i < o->pid_count; i++) {
		int fd = (int)syscall(SYS_pidfd_open, o->pids[i], 0);
		if (fd < 0 && errno == EINVAL) {
			log_error("%u is a thread, not a process; use -L %u", o->pids[i],
				  o->pids[i]);
			return 1;
		}
		if (fd < 0) {
			log_error("there is no process %u", o->pids[i]);
			return 1;
		}
		t->pidfds[t->pidfd_count++] = fd;
	}
	t->alive = t->pidfd_count;
	for (unsigned i = 0; i < o->tid_count; i++) {
		if (kill((pid_t)o->tids[i], 0) != 0 && errno == ESRCH) {
			log_error("there is no thread %u", o->tids[i]);
			return 1;
		}
	}
	return 0;
}

static int set_filter(const struct target_options *o, struct wire_filter *f)
{
	f->cgroup_subsys = -1;
	f->by_pid = o->pid_count != 0;
	f->by_tid = o->tid_count != 0;
	if (o->program && !o->machine)
		f->by_pid = f->follow = true;
	if (o->comm) {
		f->by_comm = true;
		memcpy(f->comm, o->comm, strnlen(o->comm, sizeof(f->comm) - 1));
	}
	if (o->cgroup) {
		uint64_t id = 0;
		int err = cgroup_resolve(o->cgroup, &id, &f->cgroup_subsys);
		if (err) {
			log_error("cannot filter by the control group %s: %s", o->cgroup,
				  err == -ENOENT    ? "there is no such group"
				  : err == -ENOTSUP ? "its hierarchy has no controller; name the "
						      "group under another one"
						    : strerror(-err));
			return 1;
		}
		f->by_cgroup = true;
		f->cgroup = id;
	}
	return 0;
}

int target_find(struct target *t, const struct target_options *o, struct wire_filter *filter)
{
	*t = (struct target){
		.options = o,
		.program = {.pid = -1, .go_fd = -1, .status_fd = -1},
	};
	int code = find_ids(t);
	return code ? code : set_filter(o, filter);
}

int target_start(struct target *t)
{
	char **argv = t->options->program;

	if (!argv)
		return 0;
	int err = program_start(&t->program, argv);
	if (err) {
		log_error("cannot start %s: %s", argv[0], strerror(-err));
		return 1;
	}
	t->has_program = true;
	t->program_id = (uint32_t)t->program.pid;
	return 0;
}

const uint32_t *target_list(const struct target *t, size_t *ret_count)
{
	const struct target_options *o = t->options;

	*ret_count = t->has_program ? 1 : o->tid_count ? o->tid_count : o->pid_count;
	return t->has_program ? &t->program_id : o->tid_count ? o->tids : o->pids;
}

static void on_child(void *ctx, int signo)
{
	struct target *t = ctx;

	(void)signo;
	if (waitpid(t->program.pid, &t->program_status, WNOHANG) == t->program.pid) {
		t->program.pid = -1;
		loop_stop(t->loop);
	}
}

static void on_end(void *ctx, int fd)
{
	struct target *t = ctx;

	loop_remove_fd(t->loop, fd);
	if (--t->alive == 0)
		loop_stop(t->loop);
}

/* The first thread of a process stays there, dead, until the others have ended. */
static bool thread_runs(uint32_t tid)
{
	CLEANUP(freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	int err = file_read(path, 4096, &text, NULL);
	if (err)
		return err != -ENOENT && err != -ESRCH;
	const char *name_end = strrchr(text, ')');
	return !name_end || (strncmp(name_end, ") Z", 3) != 0 && strncmp(name_end, ") X", 3) != 0);
}

/* Kernels before 6.9 have no descriptor that tells of the end of a thread. */
static void on_threads(void *ctx, int what)
{
	struct target *t = ctx;

	(void)what;
	for (unsigned i = 0; i < t->options->tid_count; i++)
		if (thread_runs(t->options->tids[i]))
			return;
	loop_stop(t->loop);
}

int target_watch(struct target *t, struct loop *l)
{
	int err = t->has_program ? loop_signal(l, SIGCHLD, on_child, t) : 0;

	t->loop = l;
	if (t->options->tid_count)
		err = err ? err : loop_timer(l, THREADS_MS, on_threads, t);
	for (unsigned i = 0; i < t->pidfd_count; i++)
		err = err ? err : loop_fd(l, t->pidfds[i], on_end, t);
	return err;
}

int target_go(struct target *t)
{
	int err = t->has_program ? program_go(&t->program) : 0;

	if (err)
		log_error("cannot start %s: %s", t->options->program[0], strerror(-err));
	return !err ? 0 : err == -ENOENT ? 127 : 126;
}

void target_wait(struct target *t)
{
	if (t->has_program && t->program.pid > 0 &&
	    waitpid(t->program.pid, &t->program_status, 0) > 0)
		t->program.pid = -1;
}

int target_exit_code(const struct target *t)
{
	return t->has_program ? program_exit_code(t->program_status) : 0;
}

void target_name(const struct target_options *o, char *ret, size_t size)
{
	char comm[64] = "machine", path[64];

	if (o->program) {
		const char *slash = strrchr(o->program[0], '/');
		snprintf(comm, sizeof(comm), "%s", slash ? slash + 1 : o->program[0]);
	} else if (o->comm) {
		snprintf(comm, sizeof(comm), "%s", o->comm);
	} else if (o->pid_count || o->tid_count) {
		snprintf(path, sizeof(path), "/proc/%u/comm",
			 o->pid_count ? o->pids[0] : o->tids[0]);
		CLEANUP(freep) char *text = NULL;
		if (file_read(path, 4096, &text, NULL) == 0)
			snprintf(comm, sizeof(comm), "%.*s", (int)strcspn(text, "\n"), text);
	}
	snprintf(ret, size, "%s", comm);
	for (char *c = ret; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
			    *c))
			*c = '_';
}

void target_done(struct target *t)
{
	if (t->has_program)
		program_done(&t->program);
	for (unsigned i = 0; i < t->pidfd_count; i++)
		close(t->pidfds[i]);
	t->pidfd_count = 0;
}
