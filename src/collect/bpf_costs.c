#include "collect/bpf_costs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/privilege.h"

struct bpf_costs {
	int fd;
};

struct answer {
	int32_t err;
	uint32_t count;
	struct bpf_cost costs[BPF_COSTS_MAX];
};

/* ---- the process that may -------------------------------------------------------------------- */

static void put(struct answer *a, const struct loaded_program *l)
{
	double seconds = (double)(l->now.at_ns - l->last.at_ns) / 1e9;
	struct bpf_cost cost = {.id = l->id, .share = bpf_runs_share(&l->last, &l->now)};
	uint32_t at = a->count;

	if (cost.share <= 0 || l->now.count <= l->last.count)
		return;
	cost.rate = (double)(l->now.count - l->last.count) / seconds;
	cost.run_ns = 1e9 * cost.share / cost.rate;
	memcpy(cost.tag, l->tag, sizeof(cost.tag));
	memcpy(cost.name, l->name, sizeof(cost.name));
	while (at && a->costs[at - 1].share < cost.share)
		at--;
	if (at == BPF_COSTS_MAX)
		return;
	a->count = MIN(a->count + 1, (uint32_t)BPF_COSTS_MAX);
	memmove(&a->costs[at + 1], &a->costs[at], (a->count - at - 1) * sizeof(cost));
	a->costs[at] = cost;
}

static int look(struct bpf_programs *p, struct answer *a)
{
	struct timespec t = {.tv_sec = BPF_COSTS_MS / 1000};
	size_t count;

	int err = bpf_programs_count(p);
	err = err ? err : bpf_programs_read_runs(p);
	if (!err) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		err = bpf_programs_read_runs(p);
	}
	bpf_programs_rest(p);
	const struct loaded_program *l = bpf_programs_list(p, &count);
	for (size_t i = 0; !err && i < count; i++)
		put(a, &l[i]);
	return err;
}

static void serve(int fd, struct bpf_programs *p)
{
	uint64_t looked_ns = 0;
	char byte;

	while (read(fd, &byte, 1) == 1) {
		struct answer a = {.err = -EBUSY};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (!looked_ns || now >= looked_ns + BPF_COSTS_REST_MS * 1000000ull) {
			looked_ns = now;
			a.err = look(p, &a);
		}
		if (write(fd, &a, sizeof(a)) != (ssize_t)sizeof(a))
			break;
	}
}

static void be_process(int fd, struct bpf_programs *p, pid_t parent)
{
	enum { OWN = STDERR_FILENO + 1 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "smolder-bpf");
	prctl(PR_SET_DUMPABLE, 0);
	/* Only its collector's end ends it. */
	for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, SIGUSR1, 0}; *s; s++)
		signal(*s, SIG_IGN);
	bool is_ready = getppid() == parent && dup2(fd, OWN) == OWN &&
			close_range(OWN + 1, ~0u, 0) == 0 && privilege_only_bpf_costs() == 0;
	if (is_ready)
		serve(OWN, p);
	_exit(!is_ready);
}

/* ---- its collector --------------------------------------------------------------------------- */

int bpf_costs_new(struct bpf_costs **ret)
{
	struct bpf_programs *p;
	int fds[2];

	int err = bpf_programs_new(&p);
	if (err)
		return err;
	bpf_programs_rest(p);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
		err = -errno;
		bpf_programs_free(p);
		return err;
	}
	pid_t parent = getpid(), pid = fork();
	err = pid < 0 ? -errno : 0;
	if (pid == 0)
		be_process(fds[1], p, parent);
	bpf_programs_free(p);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	*ret = mem_alloc(sizeof(**ret));
	(*ret)->fd = fds[0];
	return 0;
}

void bpf_costs_free(struct bpf_costs *c)
{
	if (!c)
		return;
	close(c->fd);
	free(c);
}

int bpf_costs_ask(struct bpf_costs *c)
{
	struct answer old;

	/* To whoever asked before us and did not wait. */
	while (recv(c->fd, &old, sizeof(old), MSG_DONTWAIT) > 0)
		;
	return send(c->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

int bpf_costs_answer(struct bpf_costs *c, struct bpf_cost ret[static BPF_COSTS_MAX],
		     unsigned *ret_count)
{
	struct answer a;
	ssize_t n = recv(c->fd, &a, sizeof(a), MSG_DONTWAIT);

	if (n <= 0)
		return n == 0 ? -ECONNRESET : -errno;
	if (n != (ssize_t)sizeof(a) || a.count > BPF_COSTS_MAX)
		return -EBADMSG;
	if (a.err)
		return a.err;
	memcpy(ret, a.costs, a.count * sizeof(*ret));
	*ret_count = a.count;
	return 0;
}
