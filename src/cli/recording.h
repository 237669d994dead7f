/*
 * recording: what `record`, `profile`, `offcpu` and `offcputime` share. Samples from now on until
 * the time is up, the target ends or the user presses Ctrl-C, and returns the profile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/target.h"
#include "collect/sampler.h"
#include "pipeline/latency.h"
#include "pipeline/offcpu.h"
#include "profile/profile.h"

struct recording_options {
	struct sampler_options sampler; /* targets and filter are set from the fields below */
	struct target_options target;
	uint64_t duration_ms; /* 0: until Ctrl-C, or the target ends */
	size_t table_bytes;   /* cap of the unwind tables; 0: 24 MB */
	bool inlines, lines;  /* from debug info: inlined calls as frames, source lines */
	/* NULL, or the last source is offcpu_source, and its periods are the samples … */
	const struct offcpu_options *offcpu;
	bool wall; /* … or it is offcpu_roster_source, after a clock: all the time of threads … */
	bool latency;               /* … weighed by how few threads run … */
	enum latency_of latency_of; /* … of the process, or of all that there are */
};

struct recording_result {
	struct profile *profile; /* the caller frees it */
	char name[64];           /* of the target, for a file name: "nginx", "machine" */
	int exit_code;           /* of the program that was started, else 0 */
	double seconds;
	uint64_t lost;
	double missed; /* the share of timer ticks that were missed */
	bool is_offcpu, is_wall;
	uint64_t lost_ns; /* off the CPU, that those would have been */
	struct offcpu_stats offcpu;
	uint64_t sampled; /* with is_wall: samples of what ran */
};

/* 0, or an exit code after reporting why. */
int recording_run(struct recording_options *o, struct recording_result *ret);

/* Prints "1980 samples in 10.0 s, 0 lost" and warnings on stderr. */
void recording_report(const struct recording_result *r, const char *path);
