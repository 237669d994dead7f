/*
 * container: what a control group's path tells: container, pod, systemd unit.
 *
 * Docker, Podman, containerd and CRI-O name a container's group after its 64 hex digits, in one of
 * a few ways; Kubernetes puts the pod's uid into a group above it; systemd names groups after
 * units.
 */
#pragma once

#define CONTAINER_NAME 96

struct container {                 /* each "" where the path does not tell */
	char container[13];        /* the first 12 digits, as `docker ps` prints them */
	char pod[CONTAINER_NAME];  /* the pod's uid */
	char unit[CONTAINER_NAME]; /* "ssh.service" */
};

void container_of_cgroup(const char *path, struct container *ret);
