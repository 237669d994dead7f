/*
 * closeup_plans: what a closeup (collect/closeup.h) looks at in which system call: a table of
 * names.
 */
#pragma once

#include "bpf/closeup_wire.h"
#include "bpf/syscall_wire.h"
#include "syscall/calls.h"

/* By number of the machine's own calls. */
void closeup_plans(const struct syscall_calls *c, struct closeup_plan ret[static SYSCALL_COMPAT]);
