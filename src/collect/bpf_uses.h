/*
 * bpf_uses: who has which BPF program open, and where it is attached.
 *
 * Owners are the processes with a descriptor of the program, of a link of it, or of a perf event
 * that runs it; and files in /sys/fs/bpf that keep it. Where it is attached is told by links, by
 * perf events, and by network interfaces (XDP); written as bpftrace writes it:
 * "raw_tp:sched_switch", "kprobe:do_unlinkat", "perf:cpu-clock", "xdp:eth0". Not found: programs
 * attached in older ways to control groups, sockets and queues of packets (tc), which no one but
 * their owner can list at little cost.
 *
 * Reading it looks at each descriptor of each process, so it is done when the list of programs has
 * changed, and else seldom. Needs CAP_SYS_ADMIN and CAP_SYS_PTRACE.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BPF_USES_MAX  65536 /* of owners and of places; more are left out */
#define BPF_USES_TEXT 160

struct bpf_owner {
	uint32_t program, pid;    /* pid 0: a file */
	char name[BPF_USES_TEXT]; /* of the process; or the path of the file */
};

struct bpf_place {
	uint32_t program;
	uint32_t count; /* of alike: a perf event on each CPU, say */
	char text[BPF_USES_TEXT];
};

struct bpf_uses { /* zero-initialised is empty; both are sorted by program */
	struct bpf_owner *owners;
	struct bpf_place *places;
	size_t owner_count, owner_cap, place_count, place_cap;
	size_t linked; /* while reading: so many places are those of links */
};

void bpf_uses_read(struct bpf_uses *u); /* what cannot be read is not there */
/* Of owners, only processes; needs CAP_SYS_PTRACE alone. */
void bpf_uses_read_owners(struct bpf_uses *u);
void bpf_uses_done(struct bpf_uses *u);

/* Those of one program: the first, and how many. */
const struct bpf_owner *bpf_uses_owners(const struct bpf_uses *u, uint32_t program,
					size_t *ret_count);
const struct bpf_place *bpf_uses_places(const struct bpf_uses *u, uint32_t program,
					size_t *ret_count);

/* For those who find them. */
void bpf_uses_add_owner(struct bpf_uses *u, uint32_t program, uint32_t pid, const char *name);
__attribute__((format(printf, 3, 4))) void bpf_uses_add_place(struct bpf_uses *u, uint32_t program,
							      const char *fmt, ...);
