/*
 * container_names: what container runtimes call a container, from the files in which they keep
 * their state: Docker's config.v2.json, the OCI bundles of containerd and CRI-O, Podman's
 * containers.json. No daemon is asked.
 *
 * These files are written by others, and hold what users say: each is read only up to a size, and
 * what is not as expected is left out. Names are cut to CONTAINER_NAMED bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CONTAINER_NAMED     254        /* bytes of a name; Kubernetes allows 253 */
#define CONTAINER_STATE_MAX (1u << 20) /* bytes of a file; a larger one is not read */

struct container_names { /* each "" if it is not told */
	char container[CONTAINER_NAMED + 1];
	char pod[CONTAINER_NAMED + 1];
	char namespace[CONTAINER_NAMED + 1];
	char image[CONTAINER_NAMED + 1]; /* as it was asked for: "nginx:1.25" */
	const char *runtime;             /* whose file it was; "" if there was none */
};

/*
 * Finds the container with that id (64 digits) below `root` (NULL: our own). `runtime` as in
 * container.h: only its files are tried, or all if it is "". 0; -ENOENT: nobody knows it; else
 * -errno of a file that is there and cannot be read (-EBADMSG: it is not what it should be).
 */
int container_names_read(const char *root, const char *id, const char *runtime,
			 struct container_names *ret);

/* One file's content; which of them by its number, from 0 on. False: there is no such kind. */
bool container_names_parse(unsigned kind, const char *bytes, size_t len, const char *id,
			   struct container_names *ret);
