/*
 * spool_probe: what agents of this machine say of themselves, for `doctor`.
 */
#pragma once

#include "collect/probe.h"

#define SPOOL_PROBE_MAX 4

/* One item for each spool in its default place that can be read. How many, at most SPOOL_PROBE_MAX.
 */
size_t spool_probe(struct probe_item *items);
