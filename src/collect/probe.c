#include "collect/probe.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <linux/version.h>
#include <stdarg.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "arch/arch.h"
#include "base/file.h"
#include "base/mem.h"
#include "collect/pidns.h"
#include "collect/probe_try.h"

struct probe {
	struct probe_facts facts;
	struct btf *btf; /* NULL when the kernel has none */
};

static __attribute__((format(printf, 3, 4))) void say(struct probe_item *it, enum probe_state state,
						      const char *fmt, ...)
{
	va_list ap;

	it->state = state;
	va_start(ap, fmt);
	vsnprintf(it->text, sizeof(it->text), fmt, ap);
	va_end(ap);
}

static __attribute__((format(printf, 2, 3))) void fix(struct probe_item *it, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(it->fix, sizeof(it->fix), fmt, ap);
	va_end(ap);
}

/*
 * The end of a check that tried something: `granted` when it worked, else why not. A refusal for
 * want of a capability points at that; the line "capabilities" says how to get it.
 */
static void judge(const struct probe *p, struct probe_item *it, int err, enum probe_state if_not,
		  const char *granted, const char *caps)
{
	bool lacks = strstr(caps, "BPF") && !probe_has_cap(&p->facts, CAP_BPF);
	lacks |= strstr(caps, "PERFMON") && !probe_has_cap(&p->facts, CAP_PERFMON);

	if (err == 0)
		say(it, PROBE_OK, "%s", granted);
	else if (lacks && (err == -EPERM || err == -EACCES))
		say(it, if_not, "refused: needs %s", caps);
	else if (if_not == PROBE_INFO)
		say(it, if_not, "not in this kernel (%s); nothing here needs it", strerror(-err));
	else
		say(it, if_not, "not possible here (%s)", strerror(-err));
}

static void check_kernel(const struct probe *p, struct probe_item *it)
{
	if (p->facts.kernel >= KERNEL_VERSION(5, ARCH_MIN_KERNEL_MINOR, 0)) {
		say(it, PROBE_OK, "Linux %s", p->facts.release);
		return;
	}
	say(it, PROBE_FAIL, "Linux %s; 5.%d or later is needed on %s", p->facts.release,
	    ARCH_MIN_KERNEL_MINOR, ARCH_NAME);
	fix(it, "boot a later kernel");
}

static void check_btf(const struct probe *p, struct probe_item *it)
{
	if (p->facts.btf) {
		say(it, PROBE_OK, "/sys/kernel/btf/vmlinux describes the kernel's types");
		return;
	}
	say(it, PROBE_FAIL,
	    "no /sys/kernel/btf/vmlinux: the sampler cannot be fitted to this kernel");
	fix(it, "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are");
}

static void check_lockdown(const struct probe *p, struct probe_item *it)
{
	if (!p->facts.locked) {
		say(it, PROBE_OK, "the kernel is not locked down against reading");
		return;
	}
	say(it, PROBE_FAIL, "at confidentiality: BPF and perf are refused to everyone");
	fix(it, "boot with lockdown=integrity, or without");
}

static void check_seccomp(const struct probe *p, struct probe_item *it)
{
	if (p->facts.seccomp <= 0) {
		say(it, PROBE_OK, "no filter on system calls");
		return;
	}
	say(it, PROBE_INFO, "a filter is in force; the lines below tell what it lets through");
}

static void check_capabilities(const struct probe *p, struct probe_item *it)
{
	const struct probe_facts *f = &p->facts;
	enum probe_state state = f->initial_users ? PROBE_OK : PROBE_FAIL;
	char missing[sizeof(it->text)] = "";

	for (const struct probe_cap *c = probe_caps; c->name; c++) {
		size_t n = strlen(missing);
		if (probe_has_cap(f, c->bit))
			continue;
		snprintf(missing + n, sizeof(missing) - n, "%s %s (%s)", n ? "," : "missing",
			 c->name, c->what);
		state = MAX(state, c->needed ? PROBE_FAIL : PROBE_WARN);
	}

	if (!f->initial_users)
		say(it, state, "of a user namespace, which the kernel does not honour here");
	else
		say(it, state, "%s", *missing ? missing : "all that are of use");
	if (state != PROBE_OK)
		probe_remedy(f, it->fix, sizeof(it->fix));
}

static void check_perf_events(const struct probe *p, struct probe_item *it)
{
	const struct probe_facts *f = &p->facts;
	int r = probe_try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);

	judge(p, it, r, PROBE_FAIL, "cpu-clock opens on every process", "CAP_PERFMON");
	size_t n = strlen(it->text);
	if (f->paranoid != PROBE_UNKNOWN)
		snprintf(it->text + n, sizeof(it->text) - n, "; perf_event_paranoid is %d",
			 f->paranoid);
	if ((r == -EACCES || r == -EPERM) && f->paranoid >= 3)
		fix(it, "sudo sysctl kernel.perf_event_paranoid=2");
}

static void check_counters(const struct probe *p, struct probe_item *it)
{
	int r = probe_try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);

	if (r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV)
		say(it, PROBE_INFO,
		    "none on this machine: -e cycles and the like are refused, "
		    "cpu-clock (the default) is not");
	else
		judge(p, it, r, PROBE_WARN, "cycles can be sampled (-e cycles)", "CAP_PERFMON");
}

static void check_maps(const struct probe *p, struct probe_item *it)
{
	judge(p, it, probe_try_map(), PROBE_FAIL, "can be created and mapped", "CAP_BPF");
	size_t n = strlen(it->text);
	if (p->facts.bpf_disabled != PROBE_UNKNOWN)
		snprintf(it->text + n, sizeof(it->text) - n, "; unprivileged_bpf_disabled is %d",
			 p->facts.bpf_disabled);
}

static void check_sampler(const struct probe *p, struct probe_item *it)
{
	judge(p, it, probe_try_sampler(), PROBE_FAIL, "a perf_event program loads and attaches",
	      "CAP_BPF and CAP_PERFMON");
}

static void check_tracepoints(const struct probe *p, struct probe_item *it)
{
	int r = probe_try_raw_tp();

	judge(p, it, r, PROBE_WARN, "raw_tp and tp_btf programs load", "CAP_BPF and CAP_PERFMON");
	if (r == 0 && probe_try_tp_btf(p->btf) != 0)
		say(it, PROBE_WARN,
		    "raw_tp programs load, tp_btf ones do not: what threads wait for is not seen");
}

static void check_iterators(const struct probe *p, struct probe_item *it)
{
	judge(p, it, probe_try_iterator(p->btf), PROBE_WARN, "iter/task programs load",
	      "CAP_BPF and CAP_PERFMON");
}

static void check_fentry(const struct probe *p, struct probe_item *it)
{
	judge(p, it, probe_try_fentry(p->btf), PROBE_INFO, "programs load and attach",
	      "CAP_BPF and CAP_PERFMON");
}

static void check_kprobes(const struct probe *p, struct probe_item *it)
{
	judge(p, it, probe_try_kprobe(), PROBE_INFO, "can be set", "CAP_PERFMON");
}

static void check_tracefs(const struct probe *p, struct probe_item *it)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	(void)p;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct statfs st;
		if (statfs(places[i], &st) == 0 && st.f_type == TRACEFS_MAGIC) {
			say(it, PROBE_OK, "mounted at %s", places[i]);
			return;
		}
	}
	say(it, PROBE_INFO,
	    "not mounted; only stat needs it, for tracepoints, and has it for a moment then");
}

static void check_memlock(const struct probe *p, struct probe_item *it)
{
	struct rlimit limit = {};
	bool counted = p->facts.kernel < KERNEL_VERSION(5, 11, 0);
	char size[32] = "unlimited";

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(size, sizeof(size), "%llu kB", (unsigned long long)limit.rlim_cur / 1024);

	if (!counted || limit.rlim_cur == RLIM_INFINITY ||
	    p->facts.caps & 1ull << CAP_SYS_RESOURCE) {
		say(it, PROBE_OK, "%s%s", size,
		    counted ? "" : "; BPF maps are not counted against it");
		return;
	}
	say(it, PROBE_WARN, "%s, and BPF maps are counted against it before 5.11", size);
	fix(it, "ulimit -l unlimited (as root)");
}

/* Whether kallsyms tells addresses: a hidden one is 0, but so is one per-CPU offset at its top. */
static bool shows_addresses(FILE *kallsyms)
{
	unsigned long long addr = 0;

	for (int line = 0; line < 64 && !addr; line++)
		if (fscanf(kallsyms, "%llx%*[^\n]", &addr) != 1)
			break;
	return addr;
}

static void check_kernel_symbols(const struct probe *p, struct probe_item *it)
{
	CLEANUP(file_closep) FILE *f = fopen("/proc/kallsyms", "re");
	int restricted = p->facts.kptr_restrict;

	if (!f) {
		say(it, PROBE_WARN, "no /proc/kallsyms: kernel frames have no names");
		fix(it, "boot a kernel built with CONFIG_KALLSYMS=y");
	} else if (shows_addresses(f)) {
		say(it, PROBE_OK, "/proc/kallsyms shows addresses; kptr_restrict is %d",
		    restricted);
	} else {
		say(it, PROBE_WARN, "hidden, so kernel frames have no names: needs CAP_SYSLOG%s",
		    restricted > 1 ? " and a lower kptr_restrict" : "");
		if (restricted > 1)
			fix(it, "sudo sysctl kernel.kptr_restrict=1");
	}
}

static void check_map_files(const struct probe *p, struct probe_item *it)
{
	int r = probe_try_map_files();

	if (r == 0)
		say(it, PROBE_OK, "mapped files open even when deleted or in a container");
	else if (probe_has_cap(&p->facts, CAP_CHECKPOINT_RESTORE))
		say(it, PROBE_WARN, "cannot be opened (%s): deleted files have no names",
		    strerror(-r));
	else
		say(it, PROBE_WARN,
		    "refused, so deleted files have no names: needs "
		    "CAP_CHECKPOINT_RESTORE");
}

static void check_procmap_query(const struct probe *p, struct probe_item *it)
{
	int r = probe_try_procmap_query();

	(void)p;
	if (r == 0)
		say(it, PROBE_OK, "mappings can be asked for one by one");
	else
		say(it, PROBE_INFO,
		    "not in this kernel (6.11 has it): /proc/PID/maps is read whole");
}

static void check_pid_namespace(const struct probe *p, struct probe_item *it)
{
	uint32_t namespace;
	int r = pidns_find(&namespace);

	(void)p;
	if (r == -EXDEV) {
		say(it, PROBE_FAIL,
		    "/proc is that of another one, where a number is another process");
		fix(it, "mount -t proc proc /proc, or unshare with --mount-proc");
	} else if (r) {
		say(it, PROBE_FAIL, "/proc is not mounted");
		fix(it, "mount -t proc proc /proc");
	} else if (!namespace) {
		say(it, PROBE_OK, "the initial one: every process can be seen");
	} else {
		say(it, PROBE_WARN,
		    "not the initial one: processes beyond it are sampled without user stacks, and "
		    "without a pid");
		fix(it, "run it on the host, or start the container with --pid=host");
	}
}

static void check_user_stacks(const struct probe *p, struct probe_item *it)
{
	(void)p;
	if (ARCH_HAS_WALK)
		say(it, PROBE_OK, "by unwind tables: whole without frame pointers");
	else
		say(it, PROBE_WARN,
		    "on " ARCH_NAME
		    " unwind tables are not read yet, so the kernel's walk by frame "
		    "pointers is taken: code without them loses callers, and no stack counts as "
		    "complete");
}

static void check_cgroups(const struct probe *p, struct probe_item *it)
{
	struct statfs st = {}, unified = {};

	(void)p;
	if (statfs("/sys/fs/cgroup", &st) < 0)
		say(it, PROBE_INFO, "not mounted: --cgroup cannot find a path");
	else if (st.f_type == CGROUP2_SUPER_MAGIC)
		say(it, PROBE_OK, "version 2");
	else if (statfs("/sys/fs/cgroup/unified", &unified) == 0 &&
		 unified.f_type == CGROUP2_SUPER_MAGIC)
		say(it, PROBE_OK, "hybrid: version 1, with 2 at /sys/fs/cgroup/unified");
	else
		say(it, PROBE_OK, "version 1");
}

static const struct {
	const char *name;
	void (*check)(const struct probe *p, struct probe_item *it);
} checks[] = {
	{"kernel", check_kernel},
	{"kernel types (BTF)", check_btf},
	{"lockdown", check_lockdown},
	{"seccomp", check_seccomp},
	{"capabilities", check_capabilities},
	{"perf events", check_perf_events},
	{"hardware counters", check_counters},
	{"BPF maps", check_maps},
	{"BPF sampler", check_sampler},
	{"BPF tracepoints", check_tracepoints},
	{"BPF iterators", check_iterators},
	{"fentry", check_fentry},
	{"kprobes", check_kprobes},
	{"tracefs", check_tracefs},
	{"locked memory", check_memlock},
	{"user stacks", check_user_stacks},
	{"kernel symbols", check_kernel_symbols},
	{"map_files", check_map_files},
	{"PROCMAP_QUERY", check_procmap_query},
	{"pid namespace", check_pid_namespace},
	{"cgroups", check_cgroups},
};
_Static_assert(ARRAY_SIZE(checks) <= PROBE_MAX, "PROBE_MAX promises room for all");

size_t probe_all(struct probe_item *items, size_t max)
{
	size_t count = MIN(max, ARRAY_SIZE(checks));
	libbpf_print_fn_t print =
		libbpf_set_print(NULL); /* a refusal is an answer, not a warning */
	struct probe p = {};

	probe_facts_read(&p.facts);
	snprintf(p.facts.command, sizeof(p.facts.command), "%.240s record", p.facts.exe);
	p.btf = p.facts.btf ? btf__load_vmlinux_btf() : NULL;
	for (size_t i = 0; i < count; i++) {
		items[i] = (struct probe_item){.name = checks[i].name};
		checks[i].check(&p, &items[i]);
	}
	btf__free(p.btf);
	libbpf_set_print(print);
	return count;
}
