/*
 * bpf_code: the machine code of one BPF program: which addresses are its own, which source line
 * each belongs to, and with which map a helper is called.
 *
 * Lines are there if the program came with types and line information (BTF; clang -g), as most do.
 * A copy: the program is not held. Addresses need CAP_SYSLOG, or kernel.kptr_restrict at 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bpf_code;

struct bpf_code_line {      /* borrowed from the code */
	char file[256];     /* as the compiler was given it */
	char text[256];     /* of the source */
	char function[128]; /* of the program that it is in */
	uint32_t line;
};

/*
 * 0; -ENOENT: there is no such program; -EOPNOTSUPP: it is interpreted, there is no machine code;
 * -EACCES: its addresses are hidden from us; or -errno.
 */
int bpf_code_new(uint32_t id, struct bpf_code **ret);
void bpf_code_free(struct bpf_code *c);

bool bpf_code_has(const struct bpf_code *c, uint64_t ip);
bool bpf_code_has_lines(const struct bpf_code *c);

/* Which of its line entries an address belongs to, from 0 on; -1: none. Several may be the same
 * line. */
int bpf_code_place(const struct bpf_code *c, uint64_t ip);
const struct bpf_code_line *bpf_code_line(const struct bpf_code *c, int place);

/*
 * The function of the kernel that is called at that place, and the id of the map that it is given
 * (0: none, or not known), told by the program's instructions. `running` is the start of the one
 * that was seen to run there, which may have been jumped to by the one that was called; it decides
 * between several calls at one place. 0, or -ENOENT: not known.
 */
struct bpf_code_call {
	uint64_t function;
	uint32_t map;
};
int bpf_code_call(struct bpf_code *c, int place, uint64_t running, struct bpf_code_call *ret);
