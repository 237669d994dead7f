#include "collect/bpf_run_times.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/bpf_programs.h"
#include "program_times.skel.h"

struct bpf_run_times {
	struct program_times *bpf;
};

void bpf_run_times_free(struct bpf_run_times *t)
{
	if (!t)
		return;
	program_times__destroy(t->bpf);
	free(t);
}

static int load(struct program_times *bpf, int program, const char *function)
{
	int err = bpf_program__set_attach_target(bpf->progs.begins, program, function);

	err = err ? err : bpf_program__set_attach_target(bpf->progs.ends, program, function);
	err = err ? err : program_times__load(bpf);
	/* The end first: a run whose end alone is seen is none. */
	if (!err && !(bpf->links.ends = bpf_program__attach(bpf->progs.ends)))
		err = -errno;
	if (!err && !(bpf->links.begins = bpf_program__attach(bpf->progs.begins)))
		err = -errno;
	return err;
}

int bpf_run_times_new(uint32_t id, struct bpf_run_times **ret)
{
	CLEANUP(fd_closep) int fd = bpf_prog_get_fd_by_id(id);
	char function[BPF_PROGRAM_NAME];

	if (fd < 0)
		return -errno;
	int err = bpf_program_function(fd, function);
	if (err)
		return err;
	struct bpf_run_times *t = mem_alloc(sizeof(*t));
	t->bpf = program_times__open();
	err = t->bpf ? load(t->bpf, fd, function) : -errno;
	if (err) {
		bpf_run_times_free(t);
		return err;
	}
	*ret = t;
	return 0;
}

int bpf_run_times_read(const struct bpf_run_times *t, struct run_times *ret)
{
	int cpus = libbpf_num_possible_cpus();
	uint32_t zero = 0;

	if (cpus < 0)
		return cpus;
	CLEANUP(freep) struct run_times *each = mem_alloc_array((size_t)cpus, sizeof(*each));
	if (bpf_map_lookup_elem(bpf_map__fd(t->bpf->maps.times), &zero, each) != 0)
		return -errno;
	*ret = (struct run_times){};
	for (int cpu = 0; cpu < cpus; cpu++) {
		ret->lost += each[cpu].lost;
		ret->sum_ns += each[cpu].sum_ns;
		for (size_t i = 0; i < RUN_TIMES_BUCKETS; i++)
			ret->buckets[i] += each[cpu].buckets[i];
	}
	return 0;
}
