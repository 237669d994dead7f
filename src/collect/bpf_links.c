#include "collect/bpf_links.h"

#include <linux/perf_event.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/cgroup.h"

#define LINKS_MAX 65536
#define NAME_ROOM 512

/* Kinds of links, and what the kernel tells of them, that are newer than its header here. */
enum { LINK_NETFILTER = 10, LINK_TCX, LINK_UPROBE_MULTI, LINK_NETKIT, LINK_SOCKMAP };
enum { EVENT_UPROBE = 1, EVENT_URETPROBE, EVENT_KPROBE, EVENT_KRETPROBE, EVENT_TRACEPOINT, EVENT };

struct perf_event_info { /* Linux 6.6 */
	uint32_t type, zero;
	union {
		struct {
			uint64_t name;
			uint32_t name_len, offset;
		};
		struct {
			uint64_t config;
			uint32_t event_type;
		};
	};
};

struct multi_info { /* kprobe_multi: Linux 6.6; uprobe_multi: 6.8 */
	union {
		struct {
			uint64_t addrs;
			uint32_t count;
		} kprobe;
		struct {
			uint64_t path, offsets, ref_ctr_offsets, cookies;
			uint32_t path_size, count;
		} uprobe;
	};
};

struct device_info { /* tcx, netkit: Linux 6.6 */
	uint32_t ifindex, attach_type;
};

struct link_info {
	struct {
		uint32_t type, id, prog_id, zero;
	} head;
	union {
		struct perf_event_info event;
		struct multi_info multi;
		uint64_t room[16];
	};
};

/* What it shares with the header's begins at the same places. */
_Static_assert(offsetof(struct bpf_link_info, prog_id) == 8, "the head");
_Static_assert(offsetof(struct bpf_link_info, raw_tracepoint) == 16, "what stands behind it");
_Static_assert(sizeof(struct link_info) >= sizeof(struct bpf_link_info), "all of it");

struct reading {
	struct bpf_uses *uses;
	struct btf *kernel; /* NULL: not asked for yet */
	struct cgroups *cgroups;
};

static const char *interface_name(uint32_t index, char ret[static IF_NAMESIZE])
{
	if (!if_indextoname(index, ret))
		snprintf(ret, IF_NAMESIZE, "%u", index);
	return ret;
}

static const char *attach_name(uint32_t type)
{
	const char *name = libbpf_bpf_attach_type_str((enum bpf_attach_type)type);

	return name ? name : "?";
}

/* ---- perf events ---------------------------------------------------------------------------- */

static void add_event(struct bpf_uses *u, uint32_t program, uint32_t type, uint64_t config)
{
	static const char *const hardware[] = {"cycles",
					       "instructions",
					       "cache-references",
					       "cache-misses",
					       "branches",
					       "branch-misses",
					       "bus-cycles",
					       "stalled-cycles-frontend",
					       "stalled-cycles-backend",
					       "ref-cycles"};
	static const char *const software[] = {
		"cpu-clock",        "task-clock",   "page-faults",  "context-switches",
		"migrations",       "minor-faults", "major-faults", "alignment-faults",
		"emulation-faults", "dummy",        "bpf-output",   "cgroup-switches"};

	/* The kernel has made kinds of their own, without names, of its two clocks (Linux 6.4). */
	if ((type == PERF_TYPE_MAX || type == PERF_TYPE_MAX + 1) &&
	    config <= PERF_COUNT_SW_TASK_CLOCK)
		type = PERF_TYPE_SOFTWARE;
	if (type == PERF_TYPE_HARDWARE && config < ARRAY_SIZE(hardware))
		bpf_uses_add_place(u, program, "perf:%s", hardware[config]);
	else if (type == PERF_TYPE_SOFTWARE && config < ARRAY_SIZE(software))
		bpf_uses_add_place(u, program, "perf:%s", software[config]);
	else
		bpf_uses_add_place(u, program, "perf:type %u config %#llx", type,
				   (unsigned long long)config);
}

static void add_perf_event(struct bpf_uses *u, const struct link_info *i, const char *name)
{
	static const char *const kinds[] = {[EVENT_UPROBE] = "uprobe",
					    [EVENT_URETPROBE] = "uretprobe",
					    [EVENT_KPROBE] = "kprobe",
					    [EVENT_KRETPROBE] = "kretprobe",
					    [EVENT_TRACEPOINT] = "tracepoint"};
	const struct perf_event_info *e = &i->event;

	if (e->type == EVENT)
		add_event(u, i->head.prog_id, e->event_type, e->config);
	else if (e->type == EVENT_TRACEPOINT)
		bpf_uses_add_place(u, i->head.prog_id, "tracepoint:%s", name);
	else if (e->type && e->type < ARRAY_SIZE(kinds))
		bpf_uses_add_place(u, i->head.prog_id, e->offset ? "%s:%s+%#x" : "%s:%s",
				   kinds[e->type], name, e->offset);
}

/* ---- the kernel's functions ----------------------------------------------------------------- */

static const struct btf_type *find_type(struct reading *r, uint32_t object, uint32_t type,
					struct btf **ret_own, const char **ret_name)
{
	if (!r->kernel)
		r->kernel = btf__load_vmlinux_btf();
	/* The kernel's own types are one object, which has the lowest id; modules have others. */
	*ret_own = object > 1 && r->kernel ? btf__load_from_kernel_by_id_split(object, r->kernel)
					   : NULL;
	const struct btf *btf = *ret_own ? *ret_own : r->kernel;
	const struct btf_type *t = btf ? btf__type_by_id(btf, type) : NULL;
	*ret_name = t ? btf__name_by_offset(btf, t->name_off) : NULL;
	return t;
}

/* fentry and its like, and tp_btf, whose function is "btf_trace_NAME" among the types. */
static void add_tracing(struct reading *r, const struct bpf_link_info *i)
{
	static const char mark[] = "btf_trace_";
	uint32_t attach = i->tracing.attach_type;
	const char *kind = attach == BPF_TRACE_RAW_TP    ? "tp_btf"
			   : attach == BPF_TRACE_FENTRY  ? "fentry"
			   : attach == BPF_TRACE_FEXIT   ? "fexit"
			   : attach == BPF_MODIFY_RETURN ? "fmod_ret"
			   : attach == BPF_LSM_MAC       ? "lsm"
							 : attach_name(attach);
	struct btf *own;
	const char *name;

	find_type(r, i->tracing.target_obj_id, i->tracing.target_btf_id, &own, &name);
	if (name && strncmp(name, mark, strlen(mark)) == 0)
		name += strlen(mark);
	if (name)
		bpf_uses_add_place(r->uses, i->prog_id, "%s:%s", kind, name);
	else
		bpf_uses_add_place(r->uses, i->prog_id, "%s:type %u of %u", kind,
				   i->tracing.target_btf_id, i->tracing.target_obj_id);
	btf__free(own);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void add_cgroup(struct reading *r, const struct bpf_link_info *i)
{
	if (!r->cgroups)
		r->cgroups = cgroups_new();
	bool can_ask = r->cgroups && cgroups_subsys(r->cgroups) < 0;
	const char *path = can_ask ? cgroups_path(r->cgroups, i->cgroup.cgroup_id) : "";
	const char *what = attach_name(i->cgroup.attach_type);

	if (path[0])
		bpf_uses_add_place(r->uses, i->prog_id, "cgroup:%s %s", path, what);
	else
		bpf_uses_add_place(r->uses, i->prog_id, "cgroup:%llu %s",
				   (unsigned long long)i->cgroup.cgroup_id, what);
}

static void add_link(struct reading *r, const struct link_info *own, const char *name)
{
	const struct bpf_link_info *i = (const void *)own;
	const struct device_info *device = (const void *)own->room;
	char interface[IF_NAMESIZE];
	struct bpf_uses *u = r->uses;

	switch (i->type) {
	case BPF_LINK_TYPE_RAW_TRACEPOINT:
		bpf_uses_add_place(u, i->prog_id, "raw_tp:%s", name);
		break;
	case BPF_LINK_TYPE_TRACING:
		add_tracing(r, i);
		break;
	case BPF_LINK_TYPE_CGROUP:
		add_cgroup(r, i);
		break;
	case BPF_LINK_TYPE_ITER:
		bpf_uses_add_place(u, i->prog_id, "iter:%s", name);
		break;
	case BPF_LINK_TYPE_NETNS:
		bpf_uses_add_place(u, i->prog_id, "netns:%u %s", i->netns.netns_ino,
				   attach_name(i->netns.attach_type));
		break;
	case BPF_LINK_TYPE_XDP:
		bpf_uses_add_place(u, i->prog_id, "xdp:%s",
				   interface_name(i->xdp.ifindex, interface));
		break;
	case BPF_LINK_TYPE_PERF_EVENT:
		add_perf_event(u, own, name);
		break;
	case BPF_LINK_TYPE_KPROBE_MULTI:
		bpf_uses_add_place(u, i->prog_id, "kprobe_multi:%u functions",
				   own->multi.kprobe.count);
		break;
	case BPF_LINK_TYPE_STRUCT_OPS:
		bpf_uses_add_place(u, i->prog_id, "struct_ops");
		break;
	case LINK_UPROBE_MULTI:
		bpf_uses_add_place(u, i->prog_id, "uprobe_multi:%s, %u places", name,
				   own->multi.uprobe.count);
		break;
	case LINK_TCX:
	case LINK_NETKIT:
		bpf_uses_add_place(u, i->prog_id, "%s:%s", i->type == LINK_TCX ? "tcx" : "netkit",
				   interface_name(device->ifindex, interface));
		break;
	case LINK_NETFILTER:
		bpf_uses_add_place(u, i->prog_id, "netfilter");
		break;
	case LINK_SOCKMAP:
		bpf_uses_add_place(u, i->prog_id, "sockmap");
		break;
	default:
		bpf_uses_add_place(u, i->prog_id, "link type %u", i->type);
	}
}

/* Where the kernel writes a name depends on the kind, which it has told. */
static void give_room(const struct link_info *told, struct link_info *i, uint64_t name,
		      uint32_t size)
{
	struct bpf_link_info *known = (void *)i;
	uint32_t type = told->head.type;

	if (type == BPF_LINK_TYPE_RAW_TRACEPOINT) {
		known->raw_tracepoint.tp_name = name;
		known->raw_tracepoint.tp_name_len = size;
	} else if (type == BPF_LINK_TYPE_ITER) {
		known->iter.target_name = name;
		known->iter.target_name_len = size;
	} else if (type == BPF_LINK_TYPE_PERF_EVENT && told->event.type != EVENT) {
		i->event.name = name;
		i->event.name_len = size;
	} else if (type == LINK_UPROBE_MULTI) {
		i->multi.uprobe.path = name;
		i->multi.uprobe.path_size = size;
	}
}

static void read_link(struct reading *r, uint32_t id)
{
	CLEANUP(fd_closep) int fd = bpf_link_get_fd_by_id(id);
	struct link_info told = {}, info = {};
	uint32_t len = sizeof(told);
	char name[NAME_ROOM] = "";

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &told, &len) != 0)
		return;
	give_room(&told, &info, (uintptr_t)name, sizeof(name) - 1);
	len = sizeof(info);
	if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0)
		add_link(r, &info, name);
	else
		add_link(r, &told, "?");
}

/* Those that were attached without a link. */
static void read_interfaces(struct bpf_uses *u)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		uint32_t id = 0;
		size_t known = 0;
		if (bpf_xdp_query_id((int)i->if_index, 0, &id) != 0 || !id)
			continue;
		while (known < u->place_count && u->places[known].program != id)
			known++;
		if (known == u->place_count)
			bpf_uses_add_place(u, id, "xdp:%s", i->if_name);
	}
	if (all) /* where there may be no netlink socket there are none; freeing that would crash */
		if_freenameindex(all);
}

void bpf_links_read(struct bpf_uses *u)
{
	struct reading r = {.uses = u};
	uint32_t id = 0;

	for (unsigned i = 0; i < LINKS_MAX && bpf_link_get_next_id(id, &id) == 0; i++)
		read_link(&r, id);
	btf__free(r.kernel);
	cgroups_free(r.cgroups);
	read_interfaces(u);
}
