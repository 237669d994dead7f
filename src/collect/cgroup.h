/*
 * cgroup: control groups: from a path to what the kernel-side filter compares, and from the id that
 * samples carry to a path.
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

/*
 * Opens the directory of a group whose events are to be counted: of the v2 hierarchy, or of v1's
 * perf_event where that is mounted. `path` as above. 0; -ENOENT: no such group; -ENOTSUP: it is one
 * of another hierarchy, which counts no events; else -errno. The caller closes it.
 */
int cgroup_open(const char *path, int *ret_fd);

/*
 * From id to path, each id looked up once, by its file handle: no directory is ever walked. Ids are
 * of one hierarchy: v2's, or on hosts that still put their containers into v1, that of a v1
 * controller.
 */
struct cgroups;

struct cgroups *cgroups_new(void); /* NULL where there is no hierarchy to ask */
void cgroups_free(struct cgroups *c);
int32_t cgroups_subsys(const struct cgroups *c); /* for wire_filter.cgroup_subsys */

/* "/system.slice/ssh.service"; "" when it is gone or cannot be asked. Borrowed until the next call.
 */
const char *cgroups_path(struct cgroups *c, uint64_t id);
