/*
 * wait_options: which functions decide whether a thread that waits is idle, as options of a command
 * (--idle-in, --blocked-in) and as the configuration of the machine has them.
 */
#pragma once

#include <stdbool.h>

#include "cli/settings.h"
#include "pipeline/waiting.h"

/* SET_IDLE_IN or SET_BLOCKED_IN; false after reporting what is wrong. */
bool wait_options_set(struct settings *s, enum setting which, const char *function);

/* What was set, and, of what was not, what is configured. The lists are borrowed from *s. */
void wait_options_read(struct settings *s, struct waiting_options *ret);
