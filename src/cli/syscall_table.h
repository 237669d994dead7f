/*
 * syscall_table: how `syscalls` shows what was counted: a table for people, or a line of JSON.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "collect/cgroup.h"
#include "syscall/calls.h"
#include "syscall/totals.h"

struct syscall_view {
	const struct syscall_calls *calls;
	struct cgroups *cgroups; /* where owners are control groups */
	enum syscall_by by;
	bool by_call;
	bool timed;
	bool errors;    /* a table of errors instead */
	bool histogram; /* of latency, under the table */
	enum syscall_order order;
	uint64_t top;     /* rows; 0: all */
	unsigned columns; /* of the terminal; 0: any number */
};

void syscall_table_text(const struct syscall_view *v, struct syscall_totals *t, FILE *out);

/* One line: {"time": …, "seconds": 1.0, "rows": [ … ]}. */
void syscall_table_json(const struct syscall_view *v, struct syscall_totals *t, double seconds,
			FILE *out);
