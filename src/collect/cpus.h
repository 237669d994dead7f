/*
 * cpus: which CPUs are online, and word of those that come and go.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef void cpus_fn(void *ctx, unsigned cpu, bool online);

/* How many CPUs there can be without adding hardware: the highest number of one that is present,
 * plus 1. Firmware may say that many more are possible. Or -errno. */
int cpus_present(void);

/* Calls fn for each CPU that is online: 0 or -errno. */
int cpus_each_online(cpus_fn *fn, void *ctx);

/* For how long each of `count` CPUs has idled since boot, to some ms; 0 of those not known. */
void cpus_idle(uint64_t *ret_ns, unsigned count);

/* A fd that is readable when a CPU went on- or offline (the kernel's uevents); -errno if not. */
int cpus_watch(void);

/* Calls fn for each change. */
void cpus_changes(int fd, cpus_fn *fn, void *ctx);

/* One uevent: as above. */
void cpus_event(const char *text, cpus_fn *fn, void *ctx);

/* Reads a list as sysfs writes it, "0-3,8,10-11": 0 or -EINVAL. */
int cpus_parse(const char *text, cpus_fn *fn, void *ctx);
