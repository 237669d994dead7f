/*
 * recording: what `record` and `profile` share. Samples from now until the time is up, the target
 * has ended or the user has had enough, and returns the profile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/sampler.h"
#include "profile/profile.h"

#define RECORDING_TARGETS_MAX 1024

struct recording_options {
	struct sampler_options sampler; /* its targets and filter are filled in from what follows */
	uint32_t pids[RECORDING_TARGETS_MAX], tids[RECORDING_TARGETS_MAX];
	unsigned pid_count, tid_count;
	const char *cgroup;   /* path, NULL: any */
	const char *comm;     /* NULL: any */
	uint64_t duration_ms; /* 0: until Ctrl-C, or the target ends */
	char **program;       /* NULL, or what to start, as the invoking user */
	bool machine;         /* with a program: sample everything while it runs */
	size_t table_bytes;   /* cap of the unwind tables; 0: 24 MB */
	bool inlines, lines;  /* from debug info: inlined calls as frames, source lines */
};

struct recording_result {
	struct profile *profile; /* the caller frees it */
	char name[64];           /* of the target, for a file name: "nginx", "machine" */
	int exit_code;           /* of the program that was started, else 0 */
	double seconds;
	uint64_t lost;
	double missed; /* the share of the clock's ticks that did not come */
};

/* Reads "1,2,3" of an option into a list; says what is wrong and returns false. */
bool recording_ids(const char *option, const char *arg, uint32_t *list, unsigned *count);

/* 0, or an exit code after saying why. */
int recording_run(struct recording_options *o, struct recording_result *ret);

/* "1980 samples in 10.0 s, 0 lost" and what else the user must know, on stderr. */
void recording_report(const struct recording_result *r, const char *path);
