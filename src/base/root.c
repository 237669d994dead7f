#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/mem.h"

int root_open(const char *root, const char *path, int nofollow, struct stat *ret_st)
{
	/* O_NONBLOCK: opening a FIFO would wait for its writer. */
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	if (nofollow)
		how.flags |= O_NOFOLLOW;

	CLEANUP(fd_closep) int dir = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	CLEANUP(fd_closep) int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOSYS &&
	    !root) /* a sandbox without openat2; our own root is trusted */
		fd = open(path, (int)how.flags);
	if (fd < 0)
		return -errno;

	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (ret_st)
		*ret_st = st;
	return TAKE_FD(fd);
}
