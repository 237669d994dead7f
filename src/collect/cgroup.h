/*
 * cgroup: from the path of a control group to what the kernel-side filter compares.
 */
#pragma once

#include <stdint.h>

/*
 * `path` is a directory of a cgroup file system, or what stands behind its mount point
 * ("/system.slice/ssh.service", as systemctl and /proc/PID/cgroup print it). Sets the kernfs id and
 * the index of the v1 controller in task->cgroups->subsys[], -1 for the v2 hierarchy.
 * 0; -ENOENT: no such group; -ENOTSUP: a v1 hierarchy without a controller; else -errno.
 */
int cgroup_resolve(const char *path, uint64_t *ret_id, int32_t *ret_subsys);
