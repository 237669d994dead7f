/*
 * container: which container, pod and systemd unit a cgroup belongs to, by its path.
 *
 * Docker, Podman, containerd and CRI-O put the container's id, 64 hex digits, into the cgroup's
 * name, each in its own way; Kubernetes puts the pod's uid into the name of a parent cgroup;
 * systemd names cgroups after units.
 */
#pragma once

#define CONTAINER_NAME 96

struct container {                 /* each "" if the path does not have it */
	char container[13];        /* the first 12 digits, as `docker ps` prints them */
	char pod[CONTAINER_NAME];  /* the pod's uid */
	char unit[CONTAINER_NAME]; /* "ssh.service" */
};

void container_of_cgroup(const char *path, struct container *ret);
