/*
 * usage: what this process uses of the machine.
 */
#pragma once

#include <stdint.h>

double usage_cpu_seconds(void);      /* of all its threads, in user mode and in the kernel */
uint64_t usage_resident_bytes(void); /* memory; 0 if it is unknown */
