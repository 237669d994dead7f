/*
 * top_live: intervals from this machine's kernel: its own accounts of each thread
 * (collect/tasks.h), samples of what runs, as `record` takes them, and, for all time of threads,
 * what they wait for, as `run --offcpu yes` takes it; and what looks wrong, as `run` notices it
 * (pipeline/findings.h).
 */
#pragma once

#include "cli/target.h"
#include "cli/top_source.h"

struct top_live_options {
	struct target_options target; /* no program */
	uint64_t frequency;           /* samples per second per CPU */
	bool findings;                /* looks for what is wrong */
};

/* The options are borrowed and outlive it. */
void top_live_new(const struct top_live_options *o, struct top_source *ret);
