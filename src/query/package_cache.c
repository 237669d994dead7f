#include "query/package_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

#define HEAD        "smolder packages 1 "
#define PATH_LENGTH 1024
#define NAME_LENGTH 100
#define FILE_MAX    (PACKAGE_CACHE_MAX * (PATH_LENGTH + NAME_LENGTH + 2) + 64)

struct line { /* of the file; borrowed, not terminated */
	const char *path, *package;
	size_t path_len, package_len;
};

static bool is_path(const char *s, size_t len)
{
	if (len < 2 || len > PATH_LENGTH || s[0] != '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	return true;
}

/* As Debian's policy has them: they are shown, and people install them. */
static bool is_package(const char *s, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	if (len > NAME_LENGTH)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!s[i] || (!strchr(letters, s[i]) && (!i || !strchr("+-.", s[i]))))
			return false;
	return true;
}

static bool is_ours(const char *dir)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* The whole file, terminated; NULL if there is none that can be read. Caller frees. */
static char *read_file(const char *dir)
{
	CLEANUP(freep) char *path = mem_printf("%s/" PACKAGE_CACHE_FILE, dir);
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return NULL;
	size_t len = (size_t)st.st_size;
	CLEANUP(freep) char *text = mem_alloc(len + 1);
	if (file_pread(fd, text, len, 0) != 0)
		return NULL;
	return TAKE_PTR(text);
}

/* The lines that are as they should be, of a file with this stamp. */
static size_t parse(const char *text, uint64_t stamp, struct line ret[static PACKAGE_CACHE_MAX])
{
	char head[64];
	size_t count = 0;
	int len = snprintf(head, sizeof(head), HEAD "%" PRIu64 "\n", stamp);

	if (!text || strncmp(text, head, (size_t)len) != 0)
		return 0;
	for (const char *at = text + len, *end; count < PACKAGE_CACHE_MAX && *at; at = end + 1) {
		end = strchr(at, '\n');
		if (!end) /* was cut */
			break;
		const char *tab = memchr(at, '\t', (size_t)(end - at));
		struct line l = {.path = at, .package = tab ? tab + 1 : NULL};
		if (!tab)
			continue;
		l.path_len = (size_t)(tab - at);
		l.package_len = (size_t)(end - l.package);
		if (is_path(l.path, l.path_len) && is_package(l.package, l.package_len))
			ret[count++] = l;
	}
	return count;
}

static bool is_of(const struct line *l, const char *path)
{
	return strlen(path) == l->path_len && memcmp(path, l->path, l->path_len) == 0;
}

bool package_cache_find(const char *dir, uint64_t stamp, const char *path, char **ret)
{
	struct line lines[PACKAGE_CACHE_MAX];
	CLEANUP(freep) char *text = is_ours(dir) ? read_file(dir) : NULL;
	size_t count = parse(text, stamp, lines);

	for (size_t i = 0; i < count; i++) {
		if (!is_of(&lines[i], path))
			continue;
		*ret = lines[i].package_len ? mem_strndup(lines[i].package, lines[i].package_len)
					    : NULL;
		return true;
	}
	return false;
}

int package_cache_add(const char *dir, uint64_t stamp, const char *path, const char *package)
{
	struct line lines[PACKAGE_CACHE_MAX];
	const char *name = package ? package : "";
	struct file_out out;

	if (!is_path(path, strlen(path)) || !is_package(name, strlen(name)))
		return -EINVAL;
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (!is_ours(dir))
		return -EPERM;
	CLEANUP(freep) char *text = read_file(dir);
	CLEANUP(freep) char *file = mem_printf("%s/" PACKAGE_CACHE_FILE, dir);
	size_t count = parse(text, stamp, lines);
	int r = file_out_open(&out, file);
	if (r)
		return r;
	fprintf(out.f, HEAD "%" PRIu64 "\n", stamp);
	for (size_t i = count == PACKAGE_CACHE_MAX; i < count; i++)
		if (!is_of(&lines[i], path))
			fprintf(out.f, "%.*s\t%.*s\n", (int)lines[i].path_len, lines[i].path,
				(int)lines[i].package_len, lines[i].package);
	fprintf(out.f, "%s\t%s\n", path, name);
	return file_out_commit(&out);
}
