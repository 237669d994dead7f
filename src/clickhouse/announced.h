/*
 * announced: which entries of dictionaries this process has written for which day. It has a cap:
 * when it is full it forgets all of them, and they are written again, which does no harm.
 */
#pragma once

#include "clickhouse/content.h"

#define ANNOUNCED_MAX (1u << 20) /* entries: 24 MB */

struct announced { /* embedded; zero-initialised is empty */
	struct index index;
	struct content_hash *all;
	uint32_t count, cap;
};

/* Whether it is new; then it is remembered. */
bool announced_add(struct announced *a, uint64_t day, struct content_hash hash);
void announced_forget(struct announced *a); /* all: what was added may not have been written */
void announced_done(struct announced *a);
