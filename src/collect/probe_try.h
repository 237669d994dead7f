/*
 * probe_try: asks the kernel for one thing and gives it back at once.
 *
 * Each returns 0 when it was granted, else the negative errno of the refusal. Used by probe only.
 */
#pragma once

#include <stdint.h>

struct btf;

int probe_try_event(uint32_t type, uint64_t config); /* system-wide, on the CPU we run on */
int probe_try_kprobe(void);

int probe_try_map(void);
int probe_try_sampler(void); /* a perf_event program, on a cpu-clock event if that opens */

int probe_try_raw_tp(void); /* a program for plain tracepoints */

/* Programs of tp_btf, iterators and fentry; -ENOENT when the kernel has no such thing. */
int probe_try_tp_btf(const struct btf *btf);
int probe_try_iterator(const struct btf *btf);
int probe_try_fentry(const struct btf *btf);

int probe_try_procmap_query(void); /* the ioctl of /proc/PID/maps; -ENOTTY before 6.11 */
int probe_try_map_files(void);     /* opening /proc/PID/map_files/… */
