#include "collect/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/btf.h>

#include "base/index.h"
#include "base/mem.h"

/* The index of a v1 controller in this kernel, from its own enum cgroup_subsys_id: or -errno. */
static int subsys_index(const char *controller)
{
	struct btf *btf = btf__load_vmlinux_btf();
	if (!btf)
		return -errno;

	CLEANUP(freep) char *wanted = mem_printf("%s_cgrp_id", controller);
	int found = -ENOTSUP;
	int id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
	if (id > 0) {
		const struct btf_type *t = btf__type_by_id(btf, (uint32_t)id);
		for (int i = 0; i < btf_vlen(t); i++) {
			const struct btf_enum *e = &btf_enum(t)[i];
			if (strcmp(btf__name_by_offset(btf, e->name_off), wanted) == 0)
				found = e->val;
		}
	}
	btf__free(btf);
	return found;
}

/* Which controller a v1 directory belongs to: one that its mount's options name. */
static int v1_subsys(dev_t device)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	if (!mounts)
		return -errno;

	int found = -ENOTSUP;
	struct mntent *m;
	while (found < 0 && (m = getmntent(mounts))) {
		struct stat st;
		if (strcmp(m->mnt_type, "cgroup") != 0 || stat(m->mnt_dir, &st) != 0 ||
		    st.st_dev != device)
			continue;
		char *save = NULL;
		for (char *o = strtok_r(m->mnt_opts, ",", &save); o && found < 0;
		     o = strtok_r(NULL, ",", &save))
			found = subsys_index(o);
	}
	endmntent(mounts);
	return found;
}

static int resolve(const char *path, uint64_t *ret_id, int32_t *ret_subsys)
{
	struct statfs fs;
	struct stat st;

	if (stat(path, &st) != 0 || statfs(path, &fs) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;

	int subsys = -1;
	if (fs.f_type == CGROUP_SUPER_MAGIC) {
		subsys = v1_subsys(st.st_dev);
		if (subsys < 0)
			return subsys;
	} else if (fs.f_type != CGROUP2_SUPER_MAGIC) {
		return -ENOENT;
	}
	*ret_id = st.st_ino; /* on 64-bit machines the inode is the kernfs id */
	*ret_subsys = subsys;
	return 0;
}

int cgroup_resolve(const char *path, uint64_t *ret_id, int32_t *ret_subsys)
{
	int r = resolve(path, ret_id, ret_subsys);
	if (r != -ENOENT)
		return r;

	FILE *mounts = setmntent("/proc/self/mounts", "re");
	if (!mounts)
		return -errno;
	struct mntent *m;
	while (r == -ENOENT && (m = getmntent(mounts))) {
		if (strncmp(m->mnt_type, "cgroup", 6) != 0)
			continue;
		CLEANUP(freep) char *full = mem_printf("%s/%s", m->mnt_dir, path);
		r = resolve(full, ret_id, ret_subsys);
		if (r == -ENOTSUP)
			r = -ENOENT; /* another hierarchy may have the group as well */
	}
	endmntent(mounts);
	return r;
}

/* Where the hierarchy that counts events is mounted; caller frees. NULL: nowhere. */
static char *counting_mount(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	char *v1 = NULL, *v2 = NULL;
	struct mntent *m;

	while (mounts && !v1 && (m = getmntent(mounts))) {
		if (strcmp(m->mnt_type, "cgroup") == 0 && hasmntopt(m, "perf_event"))
			v1 = mem_strdup(m->mnt_dir);
		else if (strcmp(m->mnt_type, "cgroup2") == 0 && !v2)
			v2 = mem_strdup(m->mnt_dir);
	}
	if (mounts)
		endmntent(mounts);
	if (!v1)
		return v2;
	free(v2);
	return v1;
}

int cgroup_open(const char *path, int *ret_fd)
{
	CLEANUP(freep) char *mount = counting_mount();
	struct stat root, st;
	uint64_t id;
	int32_t subsys;

	if (!mount || stat(mount, &root) != 0)
		return -ENOTSUP;
	CLEANUP(freep) char *full = mem_printf("%s/%s", mount, path);
	const char *dir = stat(path, &st) == 0 && st.st_dev == root.st_dev ? path : full;
	CLEANUP(fd_closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && cgroup_resolve(path, &id, &subsys) == 0 ? -ENOTSUP
										  : -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

#define PATHS_MAX     4096 /* then all are forgotten and asked again */
#define HANDLE_KERNFS 0xfe /* FILEID_KERNFS */

struct known_path {
	uint64_t id;
	char *path;
};

struct cgroups {
	int mount_fd;
	int32_t subsys;
	char *mount;
	struct known_path *paths; /* [0] is not used: index ids start at 1 */
	uint32_t count, cap;
	struct index by_id;
};

static bool try_mount(const char *dir, int32_t subsys, struct cgroups *c)
{
	c->mount_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->mount_fd < 0)
		return false;
	c->mount = mem_strdup(dir);
	c->subsys = subsys;
	return true;
}

/* v2 where all controllers are there; else a v1 controller that container runtimes use. */
static bool find_hierarchy(struct cgroups *c)
{
	static const char *const controllers[] = {"memory", "pids", "cpu", "devices"};
	struct statfs fs;

	if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		return try_mount("/sys/fs/cgroup", -1, c);
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		CLEANUP(freep) char *dir = mem_printf("/sys/fs/cgroup/%s", controllers[i]);
		if (statfs(dir, &fs) != 0 || fs.f_type != CGROUP_SUPER_MAGIC)
			continue;
		int subsys = subsys_index(controllers[i]);
		if (subsys >= 0 && try_mount(dir, subsys, c))
			return true;
	}
	return false;
}

struct cgroups *cgroups_new(void)
{
	struct cgroups *c = mem_alloc(sizeof(*c));

	if (!find_hierarchy(c)) {
		free(c);
		return NULL;
	}
	c->count = 1;
	return c;
}

static void forget_paths(struct cgroups *c)
{
	for (uint32_t i = 1; i < c->count; i++)
		free(c->paths[i].path);
	c->count = 1;
	index_clear(&c->by_id);
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	forget_paths(c);
	index_done(&c->by_id);
	free(c->paths);
	free(c->mount);
	close(c->mount_fd);
	free(c);
}

int32_t cgroups_subsys(const struct cgroups *c)
{
	return c->subsys;
}

static char *ask_path(const struct cgroups *c, uint64_t id)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} h = {.handle = {.handle_bytes = sizeof(id), .handle_type = HANDLE_KERNFS}};
	char link[64], path[PATH_MAX];

	memcpy(h.handle.f_handle, &id, sizeof(id));
	CLEANUP(fd_closep) int fd = open_by_handle_at(c->mount_fd, &h.handle, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return mem_strdup("");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	size_t mount = strlen(c->mount);
	if (len < 0 || (size_t)len < mount || memcmp(path, c->mount, mount) != 0)
		return mem_strdup("");
	return mem_strndup(path + mount, (size_t)len - mount);
}

const char *cgroups_path(struct cgroups *c, uint64_t id)
{
	uint32_t hash = index_hash2(id, 0), at;

	INDEX_EACH(&c->by_id, hash, at)
		if (c->paths[at].id == id)
			return c->paths[at].path;
	if (c->count > PATHS_MAX)
		forget_paths(c);
	MEM_GROW(c->paths, c->count, c->cap);
	at = c->count++;
	c->paths[at] = (struct known_path){id, ask_path(c, id)};
	index_put(&c->by_id, hash, at);
	return c->paths[at].path;
}
