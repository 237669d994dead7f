/*
 * bpf_detail: `smolder bpf PROGRAM`: what one BPF program costs, and where its time goes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bpf_detail_options {
	const char *program; /* its id, name or tag */
	uint64_t duration_ms;
	uint64_t frequency; /* of samples, a second and CPU */
	bool each;          /* also time each run, by attaching to the program */
	bool json;
};

/* 0, or an exit code after reporting why. */
int bpf_detail_run(const struct bpf_detail_options *o);

/* Why programs cannot be listed, and what to do about it. */
void bpf_detail_cannot(int err);
