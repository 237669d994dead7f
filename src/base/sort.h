/*
 * sort: sorts records by the integer that each begins with. Stable, in linear time; records that
 * are already in order (most tables nearly are) take one pass, and a few sorted runs little more.
 */
#pragma once

#include <stddef.h>

void sort_by_u32(void *records, size_t count, size_t record_size);
void sort_by_u64(void *records, size_t count, size_t record_size);
