/*
 * cfa: runs the programs of call frame information and translates what they come to.
 *
 * A program is that of a function (FDE), after that of its CIE, which many functions share and
 * which is run once. Only what a rule of bpf/unwind.h can hold is followed: where the CFA is,
 * and what becomes of fp, kept, sp and the return address. Where a program says something else,
 * the rule is UNWIND_OTHER, never a guess:
 *
 *	fp anywhere but at a fixed distance from the CFA or from fp: UNWIND_FP_LOST
 *	kept anywhere but at a fixed distance from the CFA: UNWIND_KEPT_LOST
 *	sp not the CFA, return address not at CFA + ARCH_RETURN_AT: UNWIND_OTHER
 *	expressions: those of gcc, clang, binutils' PLT, glibc's signal return and OpenSSL
 *
 * No state of its own; thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "unwind/byte_reader.h"

#define CFA_KEPT_MAX 16 /* states remembered at a time; compilers need two */

/* Where a value of the caller is, or what it is. */
struct cfa_place {
	uint32_t how; /* enum place of cfa.c; 0: as it was */
	uint32_t len; /* of the expression */
	union {
		int64_t offset;
		const uint8_t *expr;
	};
};

struct cfa_state {
	struct cfa_place cfa; /* register + offset, or an expression */
	uint64_t cfa_register;
	struct cfa_place regs[5]; /* fp, sp, return address, kept, and all others in one */
};

struct cfa_cie {
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;      /* column of the return address */
	uint8_t pointers; /* encoding of addresses */
	bool sized;       /* FDEs have augmentation data */
	struct byte_reader code;
	struct cfa_state initial; /* after cfa_run_cie() */
};

struct cfa_fde {
	const struct cfa_cie *cie;
	struct byte_reader code;
	uint64_t code_vaddr; /* of code.at */
	uint64_t start, end; /* the addresses it is about; not empty */
};

/* From `start` on this rule holds; starts grow. Not 0: stop, and return that. */
typedef int cfa_row_fn(void *arg, uint64_t start, struct unwind_rule rule);

/*
 * Runs cie->code into cie->initial. `budget` is how many instructions may still be run, here and
 * below. 0, -EBADMSG when it makes no sense, -E2BIG when the budget is used up.
 */
int cfa_run_cie(struct cfa_cie *cie, uint64_t *budget);

/*
 * Gives the rows of f, the first at f->start. The same rule may come twice in a row. 0; -EBADMSG
 * when the program makes no sense: what it said before stands, then a row of UNWIND_OTHER.
 */
int cfa_run(const struct cfa_fde *f, uint64_t *budget, cfa_row_fn *row, void *arg);
