/*
 * updates: writes a large element of a BPF map again and again. While the kernel does that, it runs
 * no other BPF program on that CPU: the tick of a sampler that comes then is skipped.
 */
#include <linux/bpf.h>

#include "workload.h"

#define ELEMENT (4u << 20)

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

int main(void)
{
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY,
			      .key_size = 4,
			      .value_size = ELEMENT / 2,
			      .max_entries = 1};
	long fd = bpf(BPF_MAP_CREATE, &map);
	void *value = calloc(1, ELEMENT);
	uint32_t key = 0;

	if (fd < 0 || !value)
		return 1;
	workload_ready();
	while (!workload_stop) {
		union bpf_attr update = {
			.map_fd = (uint32_t)fd, .key = (uintptr_t)&key, .value = (uintptr_t)value};
		bpf(BPF_MAP_UPDATE_ELEM, &update);
	}
	return 0;
}
