#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/mem.h"

int file_read(const char *path, size_t max, char **ret, size_t *ret_len)
{
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	CLEANUP(freep) char *data = NULL;
	size_t len = 0, cap = 0;
	for (;;) {
		if (cap - len < 4096) {
			cap = cap ? cap * 2 : 16384;
			data = mem_resize_array(data, cap, 1);
		}
		ssize_t n = read(fd, data + len, cap - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
	}

	data[len] = '\0';
	*ret = TAKE_PTR(data);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int file_pread(int fd, void *buf, size_t len, uint64_t offset)
{
	for (char *at = buf; len;) {
		if (offset > INT64_MAX)
			return -EIO;
		ssize_t n = pread(fd, at, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		at += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* A file in the directory of o->path, without a name if possible, else with a temporary one. */
static int open_temp(struct file_out *o)
{
	CLEANUP(freep) char *dir = mem_strdup(o->path);
	char *slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';

	int fd = open(slash ? dir : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd >= 0 ? fd : -errno;
	o->temp = mem_printf("%s.XXXXXX", o->path);
	fd = mkostemp(o->temp, O_CLOEXEC);
	if (fd >= 0)
		return fd;
	int r = -errno;
	free(TAKE_PTR(o->temp));
	return r;
}

int file_out_open(struct file_out *o, const char *path)
{
	struct stat st;
	bool there = stat(path, &st) == 0;

	*o = (struct file_out){};
	if (strcmp(path, "-") == 0) {
		o->f = stdout;
		return 0;
	}
	if (there && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (there && !S_ISREG(st.st_mode)) {
		o->f = fopen(path, "we");
		return o->f ? 0 : -errno;
	}
	if (there && access(path, W_OK) != 0)
		return -errno;

	/* Follow a symbolic link, so that the file it names is replaced and not the link. */
	char *real = there ? realpath(path, NULL) : NULL;
	o->path = real ? real : mem_strdup(path);
	int fd = open_temp(o);
	if (fd < 0) {
		file_out_abort(o);
		return fd;
	}
	if (there) {
		/* The new file keeps mode and owner; without the right to set the owner it is ours.
		 */
		fchmod(fd, st.st_mode & 07777);
		if (fchown(fd, st.st_uid, st.st_gid) < 0)
			errno = 0;
	} else {
		mode_t mask = umask(0);
		umask(mask);
		fchmod(fd, 0666 & ~mask);
	}
	o->f = fdopen(fd, "w");
	return 0;
}

/* Gives a file without a name a temporary one, so that it can be renamed. */
static int name_temp(struct file_out *o)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fileno(o->f));
	for (unsigned i = 0; i < 100; i++) {
		o->temp = mem_printf("%s.%d.%u", o->path, (int)getpid(), i);
		if (linkat(AT_FDCWD, self, AT_FDCWD, o->temp, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		int r = -errno;
		free(TAKE_PTR(o->temp));
		if (r != -EEXIST)
			return r;
	}
	return -EEXIST;
}

/* stdio does not keep why a write failed, but a closed pipe can still be detected. */
static int why_failed(FILE *f)
{
	struct pollfd fd = {.fd = fileno(f), .events = POLLOUT};

	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLERR) ? -EPIPE : -EIO;
}

int file_out_commit(struct file_out *o)
{
	int r = ferror(o->f) ? why_failed(o->f) : 0;

	errno = 0;
	if (fflush(o->f) != 0)
		r = errno ? -errno : -EIO;
	if (r == 0 && o->path && !o->temp)
		r = name_temp(o);
	if (o->f != stdout && fclose(TAKE_PTR(o->f)) != 0 && r == 0)
		r = errno ? -errno : -EIO;
	if (r == 0 && o->temp && rename(o->temp, o->path) != 0)
		r = -errno;
	if (r == 0)
		free(TAKE_PTR(o->temp));
	file_out_abort(o);
	return r;
}

void file_out_abort(struct file_out *o)
{
	if (o->f && o->f != stdout)
		fclose(o->f);
	if (o->temp)
		unlink(o->temp);
	free(o->temp);
	free(o->path);
	*o = (struct file_out){};
}
