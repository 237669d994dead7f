#include "collect/probe_try.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/mem.h"

/*
 * A kernel function that exists to be probed: net/bpf/test_run.c has it for the kernel's own tests
 * of fentry, and nothing else calls it.
 */
#define PROBED_FUNCTION "bpf_fentry_test1"

/* struct procmap_query of linux/fs.h, which Debian 12's headers do not have yet. */
struct procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
_Static_assert(sizeof(struct procmap_query) == 104, "the kernel's layout");
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

static int open_event(struct perf_event_attr *attr, int pid, int cpu)
{
	attr->size = sizeof(*attr);
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* Closes what was opened; passes a refusal on. */
static int give_back(int fd)
{
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int open_sampling_event(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = type,
		.config = config,
		.freq = 1,
		.sample_freq = 99,
		.disabled = 1,
	};

	return open_event(&attr, -1, sched_getcpu());
}

int probe_try_event(uint32_t type, uint64_t config)
{
	return give_back(open_sampling_event(type, config));
}

int probe_try_kprobe(void)
{
	CLEANUP(freep) char *type = NULL;
	int r = file_read("/sys/bus/event_source/devices/kprobe/type", 64, &type, NULL);
	if (r < 0)
		return r;

	struct perf_event_attr attr = {
		.type = (uint32_t)strtoul(type, NULL, 10),
		.kprobe_func = (uintptr_t)PROBED_FUNCTION,
		.disabled = 1,
	};
	return give_back(open_event(&attr, -1, sched_getcpu()));
}

int probe_try_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	CLEANUP(fd_closep)
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "smolder_probe", 4, (uint32_t)bytes, 1, &opts);
	if (fd < 0)
		return -errno;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	munmap(p, bytes);
	return 0;
}

static int load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts)
{
	const struct bpf_insn return_0[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return bpf_prog_load(type, "smolder_probe", "GPL", return_0, ARRAY_SIZE(return_0), opts);
}

int probe_try_sampler(void)
{
	CLEANUP(fd_closep) int prog = load(BPF_PROG_TYPE_PERF_EVENT, NULL);
	if (prog < 0)
		return prog;

	CLEANUP(fd_closep)
	int event = open_sampling_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	if (event >= 0 && ioctl(event, PERF_EVENT_IOC_SET_BPF, prog) < 0)
		return -errno;
	return 0;
}

int probe_try_raw_tp(void)
{
	return give_back(load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL));
}

static int load_tracing(const struct btf *btf, const char *name, uint32_t kind,
			enum bpf_attach_type attach)
{
	int id = btf ? btf__find_by_name_kind(btf, name, kind) : -ENOENT;
	if (id < 0)
		return -ENOENT;

	struct bpf_prog_load_opts opts = {
		.sz = sizeof(opts),
		.expected_attach_type = attach,
		.attach_btf_id = (uint32_t)id,
	};
	return load(BPF_PROG_TYPE_TRACING, &opts);
}

int probe_try_tp_btf(const struct btf *btf)
{
	return give_back(load_tracing(btf, "btf_trace_sched_process_exec", BTF_KIND_TYPEDEF,
				      BPF_TRACE_RAW_TP));
}

int probe_try_iterator(const struct btf *btf)
{
	return give_back(load_tracing(btf, "bpf_iter_task", BTF_KIND_FUNC, BPF_TRACE_ITER));
}

int probe_try_fentry(const struct btf *btf)
{
	CLEANUP(fd_closep)
	int prog = load_tracing(btf, PROBED_FUNCTION, BTF_KIND_FUNC, BPF_TRACE_FENTRY);
	if (prog < 0)
		return prog;
	return give_back(bpf_raw_tracepoint_open(NULL, prog)); /* attaches, despite its name */
}

int probe_try_procmap_query(void)
{
	CLEANUP(fd_closep) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	struct procmap_query q = {.size = sizeof(q), .query_addr = (uintptr_t)load};
	return ioctl(fd, PROCMAP_QUERY, &q) < 0 ? -errno : 0;
}

int probe_try_map_files(void)
{
	DIR *dir = opendir("/proc/self/map_files");
	int r = -ENOENT;

	if (!dir)
		return -errno;
	for (const struct dirent *e; (e = readdir(dir)) && r == -ENOENT;) {
		if (e->d_name[0] == '.')
			continue;
		int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : give_back(fd);
	}
	closedir(dir);
	return r;
}
