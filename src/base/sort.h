/*
 * sort: puts records in order by the integer that each begins with. Stable, and linear in their
 * number; records that are in order already (most tables are, nearly) cost one look, and few runs
 * of such records little more.
 */
#pragma once

#include <stddef.h>

void sort_by_u32(void *records, size_t count, size_t record_size);
void sort_by_u64(void *records, size_t count, size_t record_size);
