#include "cli/spool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/store_dir.h"

char *spool_dir_default(const char *to)
{
	CLEANUP(freep) char *home = geteuid() == 0 ? NULL : store_dir_default();

	if (geteuid() != 0 && !home)
		return NULL;
	char *path =
		mem_printf("%s%s/%s", home ? home : SPOOL_DIR_SYSTEM, home ? "-spool" : "", to);
	for (char *c = path + strlen(path) - strlen(to); *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-",
			    *c))
			*c = '_';
	return path;
}

/* It and those above it. */
static int make(const char *path)
{
	CLEANUP(freep) char *part = mem_strdup(path);

	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) != 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) != 0 && errno != EEXIST ? -errno : 0;
}

static bool is_ours(const char *name)
{
	size_t len = strlen(name);

	return strcmp(name, "ledger") == 0 || strncmp(name, "agent.prom", 10) == 0 ||
	       strncmp(name, "new.", 4) == 0 || (len > 7 && strcmp(name + len - 7, ".window") == 0);
}

/* Each file in it: to the user if it is to be given, else whether it is a spool's. 0 or -errno. */
static int each_file(int fd, DIR *d, const struct privilege_user *u, bool give)
{
	rewinddir(d);
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!is_ours(e->d_name) || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode) || st.st_nlink != 1)
			return -ENOTEMPTY;
		if (give && fchownat(fd, e->d_name, u->uid, u->gid, AT_SYMLINK_NOFOLLOW) != 0)
			return -errno;
	}
	return 0;
}

/* To the user, with its files; -ENOTEMPTY: there are others in it. */
static int hand_over(int fd, const struct privilege_user *u)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (!d) {
		int err = -errno;
		fd_closep(&again);
		return err;
	}
	int err = each_file(fd, d, u, false);
	err = err ? err : each_file(fd, d, u, true);
	if (!err && fchown(fd, u->uid, u->gid) != 0)
		err = -errno;
	closedir(d);
	return err;
}

int spool_dir_open(const char *path, const struct privilege_user *u, int *ret_fd,
		   struct spool_dir_error *ret_err)
{
	CLEANUP(fd_closep) int fd = -1;
	struct stat st = {};

	int err = make(path);
	if (!err)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!err && (fd < 0 || fstat(fd, &st) != 0))
		err = -errno;
	if (!err && geteuid() == 0 && st.st_uid != u->uid)
		err = hand_over(fd, u);
	else if (!err && geteuid() != 0 && faccessat(fd, ".", W_OK | X_OK, 0) != 0)
		err = -errno;
	if (err) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s",
			 err == -ENOTEMPTY
				 ? "it has files that are not a spool's; name a directory that "
				   "is for this alone"
				 : strerror(-err));
		return err;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}
