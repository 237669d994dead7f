#include "collect/orc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "ksym_addr.skel.h"

#define TEXT_MAX  (1ull << 30) /* kernels are some tens of MB */
#define COUNT_MAX (1u << 23)   /* entries; the BPF side's search ends at twice as many */

/* Where a symbol is; 0 if there is none, or it is hidden. */
static uint64_t ask(struct ksym_addr *k, const char *name)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	snprintf(k->bss->name, sizeof(k->bss->name), "%s", name);
	if (bpf_prog_test_run_opts(bpf_program__fd(k->progs.find), &opts) != 0 || opts.retval)
		return 0;
	return k->bss->addr;
}

static int find(struct ksym_addr *k, struct wire_orc *ret)
{
	static const char *const trampolines[WIRE_ORC_TRAMPOLINES] = {
		"return_to_handler", "arch_rethook_trampoline", "__kretprobe_trampoline"};
	uint64_t text = ask(k, "_stext"), end = ask(k, "_etext");
	uint64_t ips = ask(k, "__start_orc_unwind_ip"), ips_end = ask(k, "__stop_orc_unwind_ip");
	uint64_t entries = ask(k, "__start_orc_unwind"), entries_end = ask(k, "__stop_orc_unwind");

	if (!text || !ips || !entries)
		return -ENOENT;
	uint64_t count = (ips_end - ips) / sizeof(int32_t);
	if (end <= text || end - text > TEXT_MAX || ips_end <= ips || count > COUNT_MAX ||
	    entries_end - entries != count * WIRE_ORC_ENTRY)
		return -EINVAL;
	*ret = (struct wire_orc){
		.text = text,
		.text_bytes = end - text,
		.ips = ips,
		.entries = entries,
		.count = (uint32_t)count,
	};
	for (size_t i = 0; i < WIRE_ORC_TRAMPOLINES; i++)
		ret->trampolines[i] = ask(k, trampolines[i]);
	return 0;
}

/*
 * Whether the tables can be of the form that the BPF side knows. It asks BTF and does not go by
 * this; but before 6.2 the kernel takes ten milliseconds and more to find a name.
 */
static bool is_recent(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 4));
}

int orc_locate(struct wire_orc *ret)
{
	if (!is_recent())
		return -ENOTSUP;

	/* Old kernels refuse the program, which is no news to anybody. */
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	struct ksym_addr *k = ksym_addr__open_and_load();
	int r = k ? find(k, ret) : -errno;

	libbpf_set_print(print);
	ksym_addr__destroy(k);
	return r;
}
