/*
 * bpf_programs: the BPF programs in the kernel, what they cost, and the memory of their maps.
 *
 * The kernel counts and times runs only while someone asks for it (BPF_ENABLE_STATS), at a cost of
 * some tens of nanoseconds a run of any program: here from bpf_programs_new() to _free(), but for
 * rests. Programs are not held: one whose owner ends goes away as if nobody had looked. Needs
 * CAP_SYS_ADMIN. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BPF_PROGRAMS_MAX 8192 /* of programs and of maps that are looked at; more are counted */
#define BPF_PROGRAM_NAME 128
#define BPF_PROGRAM_MAPS 64 /* as many as the kernel lets one use */
#define BPF_PROGRAM_PAST 60 /* intervals */

struct bpf_runs { /* sums since the program was loaded, while statistics were on */
	uint64_t count, time_ns, misses;
	uint64_t at_ns; /* when they were read, CLOCK_MONOTONIC */
};

struct loaded_program {
	uint32_t id, type, uid;
	uint32_t code_bytes; /* compiled; 0: it is interpreted */
	char tag[17];        /* of its instructions, in hex */
	char name[BPF_PROGRAM_NAME];
	uint64_t loaded_ns;               /* CLOCK_BOOTTIME */
	struct bpf_runs first, last, now; /* at the first reading, the one before, and this one */
	float past[BPF_PROGRAM_PAST]; /* shares of a CPU, a ring: the newest at past_count - 1 */
	unsigned past_count;          /* of all that were ever put there */
	float most;                   /* the highest of all of them */
	uint32_t maps[BPF_PROGRAM_MAPS], map_count;
	uint64_t map_bytes; /* of all its maps, those shared with others as well */
	unsigned turn;      /* of the reading that it was last seen in */
};

struct loaded_map {
	uint32_t id, type;
	char name[BPF_PROGRAM_NAME];
	uint64_t bytes;
};

struct bpf_programs;

int bpf_programs_new(struct bpf_programs **ret); /* 0, or -errno: -EPERM without the capability */
void bpf_programs_free(struct bpf_programs *p);  /* the kernel stops counting */

/* The kernel stops counting, until it counts again: 0 or -errno. */
void bpf_programs_rest(struct bpf_programs *p);
int bpf_programs_count(struct bpf_programs *p);

/* Reads them all: 0 or -errno. Since the one before, an interval has passed. */
int bpf_programs_read(struct bpf_programs *p);
int bpf_programs_read_runs(struct bpf_programs *p); /* the same without maps */

/* Reads what one has cost, only that: 0; -ENOENT: it is gone; or -errno. */
int bpf_programs_runs(uint32_t id, struct bpf_runs *ret);

/* As of the last reading, in the order of their ids. Borrowed until the next. */
struct loaded_program *bpf_programs_list(const struct bpf_programs *p, size_t *ret_count);
const struct loaded_map *bpf_programs_map(const struct bpf_programs *p, uint32_t id); /* or NULL */
uint64_t bpf_programs_left_out(const struct bpf_programs *p); /* beyond the maximum */

/* Whether other programs than at the reading before are there. */
bool bpf_programs_changed(const struct bpf_programs *p);

/* Share of one CPU from one reading to another: 0.01 is a percent. */
double bpf_runs_share(const struct bpf_runs *from, const struct bpf_runs *to);

/* "raw_tracepoint"; "type 99" of one that is newer than this program. */
const char *bpf_program_type(uint32_t type, char ret[static 16]);

/* The name of its main function: 0; -ENODATA: it came without types; or -errno. */
int bpf_program_function(int fd, char ret[static BPF_PROGRAM_NAME]);
