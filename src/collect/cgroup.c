#include "collect/cgroup.h"

#include <errno.h>
#include <linux/magic.h>
#include <mntent.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/btf.h>

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
