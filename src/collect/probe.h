/*
 * probe: what this kernel and these permissions allow, with reasons.
 *
 * probe_all() tries things rather than guess from versions: it opens events, creates maps and loads
 * two-instruction programs, and closes each at once, so that nothing stays. It takes some tens of
 * milliseconds and no privilege: what is refused is an answer too.
 *
 * probe_explain() turns the error of a recording that could not start into a sentence that names
 * what is missing and the command that would work.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/sampler.h"

enum probe_state {
	PROBE_OK,
	PROBE_INFO, /* a fact that nothing here depends on */
	PROBE_WARN, /* recording works, with something missing from it */
	PROBE_FAIL, /* recording cannot work */
};

#define PROBE_UNKNOWN INT_MIN
enum { PROBE_MAX = 32 }; /* more items than there are */

struct probe_item {
	const char *name; /* static */
	enum probe_state state;
	char text[512]; /* what was found */
	char fix[1024]; /* what to do about it; empty when there is nothing to do */
};

/* Fills in at most `max` items, in an order to read them in; returns how many. */
size_t probe_all(struct probe_item *items, size_t max);

/*
 * What the answers are made of. A number whose file is not there is PROBE_UNKNOWN.
 */
struct probe_facts {
	unsigned kernel;    /* KERNEL_VERSION(a, b, 0) */
	char release[65];   /* of uname */
	uint64_t caps;      /* effective, bit by CAP_… */
	uint64_t bounding;  /* those that this process could ever get */
	bool root;          /* effective user id 0 */
	bool no_new_privs;  /* sudo and file capabilities have no effect */
	bool initial_users; /* in the initial user namespace: capabilities count */
	bool btf;           /* the kernel describes its types */
	bool locked;        /* lockdown is at "confidentiality" */
	int paranoid;       /* kernel.perf_event_paranoid */
	int kptr_restrict;  /* kernel.kptr_restrict */
	int bpf_disabled;   /* kernel.unprivileged_bpf_disabled */
	int seccomp;        /* mode: 0 none, 2 filter */
	char command[256];  /* this process's command line, quoted for a shell */
	char exe[256];      /* its file; "smolder" when that is not known */
};

void probe_facts_read(struct probe_facts *f);

/*
 * Why a recording that failed with `err` (negative errno) failed: one sentence without a full stop,
 * cut to `size`. 0; -ENOENT when nothing is known but the error's own text, which is then in buf.
 */
int probe_explain(int err, char *buf, size_t size);
int probe_explain_facts(const struct probe_facts *f, int err, char *buf, size_t size);

/* Says why sampling could not begin, and what would help. */
void probe_cannot_sample(int err, const struct sampler_error *why);

/* How this process, or one in its place, would get the capabilities: commands to run. */
void probe_remedy(const struct probe_facts *f, char *buf, size_t size);

/* The capabilities that smolder uses. */
struct probe_cap {
	int bit; /* CAP_… */
	const char *name;
	const char *what; /* what goes missing without it */
	bool needed;      /* nothing is recorded without it */
};

extern const struct probe_cap probe_caps[]; /* ends with a NULL name */

/* CAP_SYS_ADMIN stands in for the capabilities that were once part of it. */
bool probe_has_cap(const struct probe_facts *f, int bit);
