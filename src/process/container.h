/*
 * container: what a control group's path tells: container, pod, systemd unit, slice and user.
 *
 * Docker, Podman, containerd and CRI-O put the container's id, 64 hex digits, into the group's
 * name, each in its own way; LXC puts the container's name there. The kubelet puts the pod's uid
 * into the name of a parent, as systemd's names are written or not ("kubepods-pod0a_1b.slice",
 * "kubepods/pod0a-1b"). systemd names groups after units and slices. The paths are the same in the
 * hierarchies of v1 and in that of v2. docs/labels.md has the labels that follow.
 */
#pragma once

#define CONTAINER_NAME 96
#define CONTAINER_ID   65

struct container {                      /* each "" if the path does not have it */
	char container[CONTAINER_NAME]; /* the first 12 digits, as `docker ps` prints them, or
					   LXC's name */
	char id[CONTAINER_ID];          /* all digits */
	char pod[CONTAINER_NAME];       /* the pod's uid */
	char unit[CONTAINER_NAME];      /* "ssh.service"; also of a systemd inside a container */
	char slice[CONTAINER_NAME];     /* "system.slice": the innermost outside the container */
	char uid[12];                   /* of the user whose session or service it is */
	/* "docker", "containerd", "cri-o", "podman", "lxc"; "" where the path does not tell. */
	const char *runtime;
	const char *qos; /* of a pod: "guaranteed", "burstable", "besteffort" */
};

void container_of_cgroup(const char *path, struct container *ret);
