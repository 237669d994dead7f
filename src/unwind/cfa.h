/*
 * cfa: runs the programs of call frame information (CFI) and turns their results into unwind rules.
 *
 * A function's program (FDE) runs after that of its CIE, which many functions share and which is
 * run only once. Only what a rule of bpf/unwind.h can express is tracked: where the CFA is, and
 * what happens to fp, kept, sp and the return address. What a rule cannot express is marked, never
 * guessed:
 *
 *	fp not at a fixed distance from the CFA or from fp: UNWIND_FP_LOST
 *	kept not at a fixed distance from the CFA: UNWIND_KEPT_LOST
 *	sp not the CFA, or return address not at CFA + ARCH_RETURN_AT: UNWIND_UNSUPPORTED
 *	expressions other than those of gcc, clang, binutils' PLT, glibc's signal return and
 *	OpenSSL: UNWIND_UNSUPPORTED
 *
 * Has no state; thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "unwind/byte_reader.h"

#define CFA_REMEMBERED_MAX 16 /* nested DW_CFA_remember_state; compilers need two */

/* How to recover a value of the caller. */
struct cfa_place {
	uint32_t how; /* enum cfa_place_kind in cfa.c; 0: unchanged */
	uint32_t len; /* of the expression */
	union {
		int64_t offset;
		const uint8_t *expr;
	};
};

struct cfa_state {
	struct cfa_place cfa; /* register + offset, or an expression */
	uint64_t cfa_register;
	struct cfa_place regs[5]; /* fp, sp, return address, kept; the last is for all others */
};

struct cfa_cie {
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;      /* column of the return address */
	uint8_t pointers; /* encoding of addresses */
	bool sized;       /* its FDEs have augmentation data */
	struct byte_reader code;
	struct cfa_state initial; /* after cfa_run_cie() */
};

struct cfa_fde {
	const struct cfa_cie *cie;
	struct byte_reader code;
	uint64_t code_vaddr; /* of code.at */
	uint64_t start, end; /* the addresses it covers; not empty */
};

/* `rule` applies from `start` on; starts ascend. A return value other than 0 ends the run. */
typedef int cfa_row_fn(void *arg, uint64_t start, struct unwind_rule rule);

/*
 * Runs cie->code and sets cie->initial. `budget` is how many instructions may still be run, here
 * and below. 0; -EBADMSG malformed; -E2BIG the budget is used up.
 */
int cfa_run_cie(struct cfa_cie *cie, uint64_t *budget);

/*
 * Calls `row` for the rows of f, the first at f->start. Consecutive rows may have the same rule. 0;
 * what `row` returned; -E2BIG; or -EBADMSG for a malformed program: the rows before the error are
 * valid and are followed by one of UNWIND_UNSUPPORTED.
 */
int cfa_run(const struct cfa_fde *f, uint64_t *budget, cfa_row_fn *row, void *arg);
