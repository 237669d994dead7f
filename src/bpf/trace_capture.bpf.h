/*
 * trace_capture: copies what the arguments of a system call point to into a record.
 *
 * All of it is written to the CPU's draft, chunk after chunk. The functions that do so are global
 * ones, which verifiers check once each and not once for each way to reach them, so they take
 * numbers and find the draft themselves.
 */
#pragma once

#include "bpf/filter.bpf.h"
#include "bpf/trace_wire.h"

struct draft {
	__u64 busy;  /* not 0: a record is being written */
	__u64 sp;    /* the user's stack pointer, at entry */
	__u32 used;  /* bytes of data */
	__u32 limit; /* of them */
	/* A path on its way to the root. */
	__u32 names;
	struct dentry *dentry, *root;
	struct mount *mount, *root_mount;
	struct trace_plan plan;
	struct trace_record head;
	__u8 data[TRACE_DATA_MAX +
		  2 * TRACE_READ_MAX]; /* what is written after a check of `used` */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct draft);
} drafts SEC(".maps");

struct user_iovec {
	__u64 base, bytes;
};

struct user_msghdr {
	__u64 name;
	__u32 name_bytes, pad;
	__u64 vector, vectors;
	__u64 control, control_bytes;
	__u32 flags, pad2;
};

static __always_inline struct draft *get_draft(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&drafts, &zero);
}

#define NO_ROOM 0xffffffffu

/*
 * Where the next chunk, of up to so many bytes, begins; to be masked by who uses it: verifiers
 * forget less then.
 */
static __always_inline __u32 chunk_place(struct draft *d, __u32 bytes)
{
	if (d->used + sizeof(struct trace_chunk) + ((bytes + 7) & ~7u) <= d->limit)
		return d->used;
	d->head.short_of++;
	return NO_ROOM;
}

/* A chunk whose bytes are in place. */
static __always_inline void add_chunk(struct draft *d, __u32 at, __u32 bytes, __u32 label)
{
	*(struct trace_chunk *)&d->data[at] = (struct trace_chunk){
		.bytes = bytes,
		.arg = label & 0xff,
		.part = label >> 8 & 0xff,
		.at_entry = label >> 16 & 1,
	};
	d->used = at + sizeof(struct trace_chunk) + ((bytes + 7) & ~7u);
}

/*
 * Reads `bytes` of the process into a new chunk. Returns how many; 0: none, as they are not there,
 * or for want of room.
 */
__noinline int capture_bytes(__u64 from, __u32 bytes, __u32 label)
{
	struct draft *d = get_draft();
	__u32 at = d && from ? chunk_place(d, bytes) : NO_ROOM;

	if (!d || at == NO_ROOM)
		return 0;
	at &= TRACE_DATA_MAX - 1;
	if (bytes > TRACE_READ_MAX - 1)
		bytes = TRACE_READ_MAX - 1;
	if (bpf_probe_read_user(&d->data[at + sizeof(struct trace_chunk)], bytes, (void *)from))
		return 0;
	add_chunk(d, at, bytes, label);
	return (int)bytes;
}

/* The same of text, up to its NUL, which is kept: how long with that. */
__noinline int capture_text(__u64 from, __u32 max, __u32 label)
{
	struct draft *d = get_draft();
	__u32 at = d && from ? chunk_place(d, max) : NO_ROOM;

	if (!d || at == NO_ROOM)
		return 0;
	at &= TRACE_DATA_MAX - 1;
	if (max > TRACE_READ_MAX - 1)
		max = TRACE_READ_MAX - 1;
	long n = bpf_probe_read_user_str(&d->data[at + sizeof(struct trace_chunk)], max,
					 (void *)from);
	if (n <= 0)
		return 0;
	__u32 bytes = (__u32)n & (TRACE_READ_MAX - 1);
	add_chunk(d, at, bytes, label);
	return (int)bytes;
}

/* A vector of buffers, and the beginning of each: of those that `filled` bytes were read into. */
__noinline int capture_vector(__u64 from, __u64 count, __u64 filled, __u32 max_label)
{
	__u32 max = max_label >> 16, arg = max_label & 0xff, part = max_label >> 8 & 0xff;
	struct user_iovec v;

	if (count > TRACE_VECTORS)
		count = TRACE_VECTORS;
	if (!capture_bytes(from, count * sizeof(v), arg | part << 8))
		return 0;
	for (__u32 i = 0; i < TRACE_VECTORS && i < count && filled; i++) {
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(from + i * sizeof(v))))
			break;
		__u64 bytes = v.bytes < filled ? v.bytes : filled;
		filled -= bytes;
		capture_bytes(v.base, bytes < max ? bytes : max, arg | (TRACE_ITEMS + i) << 8);
	}
	return 0;
}

__noinline int capture_message(__u64 from, __u64 filled, __u32 max, __u32 arg, __u32 output)
{
	struct user_msghdr m;

	if (!capture_bytes(from, sizeof(m), arg) ||
	    bpf_probe_read_user(&m, sizeof(m), (void *)from))
		return 0;
	if (m.name && m.name_bytes)
		capture_bytes(m.name, m.name_bytes < 128 ? m.name_bytes : 128,
			      arg | TRACE_NAME << 8);
	capture_vector(m.vector, m.vectors, filled, max << 16 | TRACE_VECTOR << 8 | arg);
	if (m.control && m.control_bytes)
		capture_bytes(m.control, m.control_bytes < 512 ? m.control_bytes : 512,
			      arg | TRACE_CONTROL << 8);
	return output;
}

/* Strings, each a chunk; behind the last one a chunk of 8 bytes: its NULL. */
__noinline int capture_strings(__u64 from, __u32 max, __u32 label)
{
	__u64 word;

	for (__u32 i = 0; i < TRACE_STRINGS; i++) {
		__u64 at = from + i * sizeof(word);
		if (bpf_probe_read_user(&word, sizeof(word), (void *)at))
			break;
		if (!word) {
			capture_bytes(at, sizeof(word), label | (TRACE_ITEMS + i) << 8);
			break;
		}
		capture_text(word, max, label | (TRACE_ITEMS + i) << 8);
	}
	return 0;
}

static __always_inline void add_count(struct draft *d, __u32 count, __u32 label)
{
	__u32 at = chunk_place(d, sizeof(__u64));

	if (at == NO_ROOM)
		return;
	at &= TRACE_DATA_MAX - 1;
	*(__u64 *)&d->data[at + sizeof(struct trace_chunk)] = count;
	add_chunk(d, at, sizeof(count), label);
}

__noinline int capture_count(__u64 from, __u32 label)
{
	struct draft *d = get_draft();
	__u32 count = 0;
	__u64 word;

	if (!d || !from)
		return 0;
	for (; count < TRACE_ENV_MAX; count++) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)(from + count * sizeof(word))))
			return 0;
		if (!word)
			break;
	}
	add_count(d, count, label);
	return 0;
}

/* How many struct linux_dirent64 there are in so many bytes. */
__noinline int capture_dirents(__u64 from, __u32 bytes, __u32 label)
{
	struct draft *d = get_draft();
	__u32 count = 0, at = 0;
	__u16 length;

	if (!d)
		return 0;
	for (; count < TRACE_DIRENTS_MAX && at < bytes; count++) {
		if (bpf_probe_read_user(&length, sizeof(length), (void *)(from + at + 16)) ||
		    !length)
			return 0;
		at += length;
	}
	add_count(d, count, label);
	return 0;
}

/* ---- descriptors ---- */

#define CURRENT_DIRECTORY (-100) /* AT_FDCWD */

/* One name of a path, from the kernel's memory. */
__noinline int capture_name(__u64 from, __u32 label)
{
	enum { NAME = 256 };
	struct draft *d = get_draft();
	__u32 at = d ? chunk_place(d, NAME) : NO_ROOM;

	if (!d || at == NO_ROOM)
		return 0;
	at &= TRACE_DATA_MAX - 1;
	long n = bpf_probe_read_kernel_str(&d->data[at + sizeof(struct trace_chunk)], NAME,
					   (void *)from);
	if (n > 0)
		add_chunk(d, at, (__u32)n & (TRACE_READ_MAX - 1), label);
	return 0;
}

/* One step of a path towards the root: a name, or out of a mount. 0: that was the last. */
__noinline int capture_step(__u32 label)
{
	struct draft *d = get_draft();

	if (!d)
		return 0;
	struct dentry *dentry = d->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *m = d->mount;
	if (dentry == d->root && m == d->root_mount)
		return 0;
	if (dentry == BPF_CORE_READ(m, mnt.mnt_root)) {
		struct mount *up = BPF_CORE_READ(m, mnt_parent);
		d->dentry = BPF_CORE_READ(m, mnt_mountpoint);
		d->mount = up;
		return up != m;
	}
	capture_name((__u64)BPF_CORE_READ(dentry, d_name.name), label | (TRACE_ITEMS + d->names)
										<< 8);
	d->names++;
	d->dentry = parent;
	return parent != dentry && d->names < TRACE_NAMES;
}

static __always_inline struct mount *mount_of(struct vfsmount *at)
{
	return (void *)at - bpf_core_field_offset(struct mount, mnt);
}

/* The names of a path, leaf first, across mount points up to what the process has as its root. */
static __always_inline void capture_path(struct draft *d, struct dentry *dentry,
					 struct vfsmount *at, __u32 label)
{
	enum { MOUNTS = 8 }; /* in one another */

	struct task_struct *task = (void *)bpf_get_current_task();

	d->dentry = dentry;
	d->mount = mount_of(at);
	d->root = BPF_CORE_READ(task, fs, root.dentry);
	d->root_mount = mount_of(BPF_CORE_READ(task, fs, root.mnt));
	d->names = 0;
	for (int i = 0; i < TRACE_NAMES + MOUNTS; i++)
		if (!capture_step(label))
			break;
}

__noinline int capture_file(__s32 fd, __u32 label)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct draft *d = get_draft();
	struct vfsmount *mount;
	struct dentry *dentry;
	struct trace_file head;

	if (!d)
		return 0;
	if (fd == CURRENT_DIRECTORY) {
		dentry = BPF_CORE_READ(task, fs, pwd.dentry);
		mount = BPF_CORE_READ(task, fs, pwd.mnt);
	} else {
		struct fdtable *table = BPF_CORE_READ(task, files, fdt);
		struct file **files = BPF_CORE_READ(table, fd), *file = NULL;
		if (fd < 0 || (__u32)fd >= BPF_CORE_READ(table, max_fds))
			return 0;
		bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
		if (!file)
			return 0;
		dentry = BPF_CORE_READ(file, f_path.dentry);
		mount = BPF_CORE_READ(file, f_path.mnt);
	}
	head.inode = BPF_CORE_READ(dentry, d_inode, i_ino);
	head.magic = BPF_CORE_READ(dentry, d_inode, i_sb, s_magic);

	__u32 at = chunk_place(d, sizeof(head));
	if (at == NO_ROOM)
		return 0;
	at &= TRACE_DATA_MAX - 1;
	*(struct trace_file *)&d->data[at + sizeof(struct trace_chunk)] = head;
	add_chunk(d, at, sizeof(head), label | TRACE_FILE_HEAD << 8);
	if (head.magic == TRACE_ANONYMOUS)
		capture_name((__u64)BPF_CORE_READ(dentry, d_name.name), label | TRACE_ITEMS << 8);
	else if (head.magic != TRACE_PIPES && head.magic != TRACE_SOCKETS)
		capture_path(d, dentry, mount, label);
	return 0;
}

/* One of the captures of the draft's plan, of a call that is entered or left. */
__noinline int capture_one(__u32 i, __u32 at_entry)
{
	struct draft *d = get_draft();

	if (!d)
		return 0;
	struct trace_capture c = d->plan.captures[i % TRACE_CAPTURES];
	if (!(c.when & (at_entry ? TRACE_AT_ENTRY : TRACE_AT_EXIT)))
		return 0;
	__s64 result = at_entry ? 0 : d->head.result;
	if ((c.when & TRACE_OUTPUT) && result < 0)
		return 0;

	__u64 from = d->head.args[c.arg % 8 < TRACE_ARGS ? c.arg % 8 : 0];
	__u64 count = d->head.args[c.count_arg % 8 < TRACE_ARGS ? c.count_arg % 8 : 0];
	__u64 filled = c.when & TRACE_FILLED ? (__u64)result : ~0ull;
	__u32 label = c.arg | (at_entry ? 1 << 16 : 0);
	__u64 bytes = c.size;

	switch (c.kind) {
	case TRACE_TEXT:
		return capture_text(from, c.max, label);
	case TRACE_IOVEC:
		return capture_vector(from, c.size ? c.size : count, filled,
				      (__u32)c.max << 16 | c.arg);
	case TRACE_MSGHDR:
		return capture_message(from, filled, c.max, c.arg, 0);
	case TRACE_ARGV:
		return capture_strings(from, c.max, label);
	case TRACE_ENVP:
		return capture_count(from, label);
	case TRACE_FILE:
		return capture_file(c.arg == TRACE_RESULT_FD ? (__s32)result : (__s32)from, label);
	case TRACE_DIRENTS:
		return capture_dirents(from, (__u32)result, label);
	case TRACE_FRAME:
		return capture_bytes(d->sp + c.max, bytes, label);
	case TRACE_ARRAY:
		bytes *= count & 0xffffffff;
		break;
	case TRACE_RESULT:
		bytes *= (__u64)result & 0xffffffff;
		break;
	case TRACE_SOCKADDR: {
		__u32 length = 0;
		bpf_probe_read_user(&length, sizeof(length), (void *)count);
		bytes = length;
		break;
	}
	default:
		break;
	}
	if (c.max && bytes > c.max)
		bytes = c.max;
	return bytes ? capture_bytes(from, (__u32)bytes, label) : 0;
}

static __always_inline void capture_all(const struct trace_plan *plan, bool at_entry)
{
	for (__u32 i = 0; i < TRACE_CAPTURES && i < plan->count; i++)
		capture_one(i, at_entry);
}
