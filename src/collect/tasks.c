#include "collect/tasks.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/bpf_object.h"
#include "collect/pidns.h"
#include "task_iter.skel.h"

#define AT_A_TIME 256 /* accounts that are read with one call: the kernel has room for so many */

struct tasks {
	struct task_iter *bpf;
	struct bpf_link *link;
	struct task_account room[AT_A_TIME];
};

static int start(struct tasks *t, const struct tasks_options *o, struct sampler_error *e)
{
	uint8_t one = 1;

	bpf_object_listen();
	t->bpf = task_iter__open();
	if (!t->bpf)
		return sampler_failed(e, "open the BPF program", -errno);
	struct wire_filter *filter = &t->bpf->rodata->filter;
	*filter = o->filter;
	int r = pidns_find(&filter->pid_namespace);
	if (r)
		return sampler_failed(e, SAMPLER_TELLING_PROCESSES, r);
	bpf_program__set_autoload(t->bpf->progs.follow_fork, false);
	bpf_program__set_autoload(t->bpf->progs.follow_exit, false);
	r = task_iter__load(t->bpf);
	if (r)
		return sampler_failed(e, "load the BPF program", r);
	for (size_t i = 0; i < o->target_count && !r; i++)
		r = bpf_map_update_elem(bpf_map__fd(t->bpf->maps.targets), &o->targets[i], &one, 0);
	if (r)
		return sampler_failed(e, "set the targets", r);
	t->link = bpf_program__attach_iter(t->bpf->progs.tasks_each, NULL);
	return t->link ? 0 : sampler_failed(e, "attach the iterator of threads", -errno);
}

int tasks_new(const struct tasks_options *o, struct tasks **ret, struct sampler_error *ret_err)
{
	struct tasks *t = mem_alloc(sizeof(*t));

	*ret_err = (struct sampler_error){};
	int r = start(t, o, ret_err);
	if (r)
		tasks_free(t);
	else
		*ret = t;
	return r;
}

void tasks_free(struct tasks *t)
{
	if (!t)
		return;
	bpf_link__destroy(t->link);
	task_iter__destroy(t->bpf);
	free(t);
}

int tasks_read(struct tasks *t, task_fn *fn, void *ctx)
{
	CLEANUP(fd_closep) int fd = bpf_iter_create(bpf_link__fd(t->link));
	size_t have = 0; /* bytes: a call may end in the middle of an account */

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, (uint8_t *)t->room + have, sizeof(t->room) - have);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have += (size_t)n;
		size_t whole = have / sizeof(t->room[0]);
		for (size_t i = 0; i < whole; i++)
			fn(ctx, &t->room[i]);
		have %= sizeof(t->room[0]);
		memmove(t->room, &t->room[whole], have);
	}
}
