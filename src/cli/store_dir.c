#include "cli/store_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "symbol/debug_cache.h"

#define DEPTH_MAX 2 /* of a store: DIR/raw/2026-11-15.db */

/* ---- where it is ---------------------------------------------------------------------------- */

/* Of this user; NULL: without a home. */
static char *home_store(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (state && *state == '/')
		return mem_printf("%s/smolder", state);
	if (!home || !*home) {
		const struct passwd *me = getpwuid(geteuid());
		home = me ? me->pw_dir : "";
	}
	return *home == '/' ? mem_printf("%s/.local/state/smolder", home) : NULL;
}

/* Of the user who called sudo; NULL: nobody did. */
static char *callers_store(void)
{
	const char *uid = getenv("SUDO_UID");
	const struct passwd *caller = uid ? getpwuid((uid_t)strtoul(uid, NULL, 10)) : NULL;

	return caller ? mem_printf("%s/.local/state/smolder", caller->pw_dir) : NULL;
}

char *store_dir_default(void)
{
	return geteuid() == 0 ? mem_strdup(STORE_DIR_SYSTEM) : home_store();
}

char *store_dir_readable(void)
{
	CLEANUP(freep) char *theirs = geteuid() == 0 ? callers_store() : NULL;

	if (theirs && access(STORE_DIR_SYSTEM, F_OK) != 0 && access(theirs, F_OK) == 0)
		return TAKE_PTR(theirs);
	char *dir = store_dir_default();
	return dir ? dir : mem_strdup(STORE_DIR_SYSTEM);
}

/* ---- whose it is ---------------------------------------------------------------------------- */

int store_dir_user(const char *dir, const char *name, struct privilege_user *ret)
{
	struct stat st;

	if (!name && geteuid() == 0 && dir && stat(dir, &st) == 0 && st.st_uid != 0) {
		privilege_user_of(st.st_uid, st.st_gid, ret);
		return 0;
	}
	if (privilege_find_user(name, ret) == 0)
		return 0;
	log_error("there is no user '%s' to run the server as; name another with --user NAME",
		  name ? name : "nobody");
	return 1;
}

/* ---- can the user get there? --------------------------------------------------------------- */

/* What the user could not do: with the first `len` characters of the path. */
struct obstacle {
	size_t len;
	int error; /* 0: there is none */
	bool at_store;
};

/* Goes down the path as far as it exists. */
static struct obstacle find_obstacle(const char *dir)
{
	CLEANUP(freep) char *path = mem_strdup(dir);
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	for (size_t i = 1; i < len; i++) {
		if (path[i] != '/')
			continue;
		path[i] = '\0';
		int r = faccessat(AT_FDCWD, path, X_OK, AT_EACCESS);
		if (r != 0 && errno == ENOENT)
			return (struct obstacle){};
		if (r != 0)
			return (struct obstacle){.len = i, .error = errno};
		path[i] = '/';
	}
	struct stat st;
	if (stat(path, &st) == 0 && st.st_uid == geteuid() &&
	    faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) != 0)
		return (struct obstacle){.len = len, .error = errno, .at_store = true};
	return (struct obstacle){};
}

/* Only as that user can it be known (groups, access lists, file systems that do not trust root). */
static struct obstacle find_obstacle_as(const char *dir, const struct privilege_user *u)
{
	struct obstacle found = {.error = EIO};
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return (struct obstacle){.error = errno};
	pid_t pid = fork();
	if (pid == 0) {
		int r = privilege_become(u);
		if (r)
			found.error = -r;
		else
			found = find_obstacle(dir);
		_exit(write(fds[1], &found, sizeof(found)) == sizeof(found) ? 0 : 1);
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], &found, sizeof(found)) != sizeof(found))
		found = (struct obstacle){.error = errno ? errno : EIO};
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return found;
}

static int check_way(const char *dir, const struct privilege_user *u)
{
	struct obstacle o = find_obstacle_as(dir, u);
	struct stat st;

	if (!o.error)
		return 0;
	CLEANUP(freep) char *where = mem_printf("%.*s", (int)o.len, dir);
	if (!o.len)
		log_error("cannot check access to the store %s as user %s: %s", dir, u->name,
			  strerror(o.error));
	else if (stat(where, &st) == 0)
		log_error("the server runs as %s, who may not %s %s (mode %04o, owner uid %u): put "
			  "the store elsewhere with --store DIR, or run the server as a user who "
			  "may with --user NAME",
			  u->name, o.at_store ? "write to" : "enter", where, st.st_mode & 07777,
			  st.st_uid);
	else
		log_error("the server runs as %s, who cannot reach %s: %s", u->name, where,
			  strerror(o.error));
	return 1;
}

/* ---- a store that is root's ----------------------------------------------------------------- */

/* Names in the directory of a store, as in docs/store.md. */
static bool is_ours(const char *name, unsigned depth)
{
	static const char *const top[] = {"raw", "roll",         "times", DEBUG_CACHE_DIR,
					  "pid", "accounts.db*", NULL};
	static const char *const below[] = {"*.db*",     "*.debug", "*.added",
					    "*.missing", "*.part",  NULL};

	for (const char *const *at = depth > 0 ? below : top; *at; at++)
		if (fnmatch(*at, name, 0) == 0)
			return true;
	return false;
}

struct handover {
	uid_t uid;
	gid_t gid;
	struct given {
		int fd;
		gid_t group; /* that it had */
	} * given;           /* to take back if not all can be given */
	size_t count, cap;
	char *why; /* caller frees; NULL: all is well */
};

static void give(struct handover *h, int fd, gid_t group, const char *path)
{
	if (fchown(fd, h->uid, h->gid) != 0) {
		h->why = mem_printf("%s: %s", path, strerror(errno));
		close(fd);
		return;
	}
	MEM_GROW(h->given, h->count, h->cap);
	h->given[h->count++] = (struct given){fd, group};
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as a store is, DEPTH_MAX. */
static void give_all(struct handover *h, int dir_fd, const char *path, unsigned depth)
{
	int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (!d) {
		h->why = mem_printf("%s: %s", path, strerror(errno));
		fd_closep(&again);
		return;
	}
	for (const struct dirent *e; !h->why && (e = readdir(d));) {
		struct stat st;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		CLEANUP(freep) char *full = mem_printf("%s/%s", path, e->d_name);
		if (!is_ours(e->d_name, depth)) {
			h->why = mem_printf("%s is not part of a store", full);
			break;
		}
		int fd = openat(dir_fd, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) != 0) {
			h->why = mem_printf("%s: %s", full, strerror(errno));
			fd_closep(&fd);
			break;
		}
		bool folder = S_ISDIR(st.st_mode), file = S_ISREG(st.st_mode) && st.st_nlink == 1;
		if (st.st_uid != 0 && st.st_uid != h->uid)
			h->why = mem_printf("%s belongs to uid %u", full, st.st_uid);
		else if (!folder && !file)
			h->why = mem_printf("%s is not part of a store", full);
		if (!h->why && folder && depth + 1 < DEPTH_MAX)
			give_all(h, fd, full, depth + 1);
		if (h->why || st.st_uid == h->uid)
			close(fd);
		else
			give(h, fd, st.st_gid, full);
	}
	closedir(d);
}

/* Files that are given are open until all are: as many as there may be. */
static struct rlimit raise_files(void)
{
	struct rlimit before = {}, all;

	if (getrlimit(RLIMIT_NOFILE, &before) == 0) {
		all = (struct rlimit){before.rlim_max, before.rlim_max};
		setrlimit(RLIMIT_NOFILE, &all);
	}
	return before;
}

/* What root has in there becomes the user's, all of it or nothing. */
static int hand_over(const char *dir, const struct privilege_user *u)
{
	struct handover h = {.uid = u->uid, .gid = u->gid};
	struct rlimit files = raise_files();
	struct stat st = {};
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		h.why = mem_printf("%s: %s", dir, strerror(errno));
	else if (st.st_uid != 0 && st.st_uid != u->uid)
		h.why = mem_printf("%s belongs to uid %u", dir, st.st_uid);
	else if (st.st_uid == 0 && st.st_mode & (S_IWGRP | S_IWOTH))
		h.why = mem_printf("%s belongs to root, but others may write to it", dir);
	else
		give_all(&h, fd, dir, 0);
	if (!h.why && st.st_uid == 0)
		give(&h, TAKE_FD(fd), st.st_gid, dir);
	fd_closep(&fd);
	for (size_t i = 0; i < h.count; i++) {
		if (h.why && fchown(h.given[i].fd, 0, h.given[i].group) != 0)
			log_error("cannot undo a change of owner to %s: %s", u->name,
				  strerror(errno));
		close(h.given[i].fd);
	}
	free(h.given);
	setrlimit(RLIMIT_NOFILE, &files);
	if (!h.why)
		return 0;
	log_error("cannot make %2$s, as whom the server runs, the owner of the store %1$s: %3$s; "
		  "use another directory with --store DIR, or run the server as the store's owner "
		  "with --user NAME",
		  dir, u->name, h.why);
	free(h.why);
	return 1;
}

/* ---- a new one ------------------------------------------------------------------------------ */

struct made {
	int parent;
	const char *name;
};

/*
 * One part of the path below `at`, made if it is not there; the fd of it. What is made is looked at
 * by its fd alone: the directory around it may be somebody's who puts another thing in its place.
 */
static int make_part(int at, const char *name, bool last, const struct privilege_user *u,
		     bool *ret_made)
{
	bool root = geteuid() == 0, made = mkdirat(at, name, 0700) == 0;
	struct stat st;

	*ret_made = made;
	if (!made && errno != EEXIST)
		return -errno;
	CLEANUP(fd_closep)
	int fd =
		openat(at, name, O_DIRECTORY | O_CLOEXEC | (made ? O_RDONLY | O_NOFOLLOW : O_PATH));
	if (fd < 0 || fstat(fd, &st) != 0)
		return -errno;
	if (made && st.st_uid != geteuid())
		return -EPERM;
	/* Whatever the umask: those on the way are for all to enter, the store is its user's. */
	if (made && root &&
	    (fchmod(fd, last ? 0750 : 0755) != 0 || (last && fchown(fd, u->uid, u->gid) != 0)))
		return -errno;
	return TAKE_FD(fd);
}

static int make(const char *dir, const struct privilege_user *u)
{
	CLEANUP(freep) char *path = mem_strdup(dir);
	CLEANUP(freep) struct made *made = NULL; /* to be removed if not all can be made */
	size_t count = 0, cap = 0;
	char *save = NULL, *name = strtok_r(path, "/", &save);
	int at = open(dir[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int error = at < 0 ? errno : 0;

	while (name && !error) {
		char *rest = strtok_r(NULL, "/", &save);
		bool is_new;
		int fd = make_part(at, name, !rest, u, &is_new);
		if (is_new) {
			MEM_GROW(made, count, cap);
			made[count++] = (struct made){at, name};
		} else {
			close(at);
		}
		at = fd;
		error = fd < 0 ? -fd : 0;
		name = rest;
	}
	fd_closep(&at);
	if (error)
		log_error("cannot create the store %s: %s", dir, strerror(error));
	for (; count-- > 0; close(made[count].parent))
		if (error)
			unlinkat(made[count].parent, made[count].name, AT_REMOVEDIR);
	return error ? 1 : 0;
}

int store_dir_prepare(const char *dir, const struct privilege_user *u)
{
	bool other = geteuid() == 0 && u->uid != 0;
	struct stat st;

	if (other && check_way(dir, u))
		return 1;
	if (stat(dir, &st) != 0 && errno == ENOENT)
		return make(dir, u);
	return other ? hand_over(dir, u) : 0;
}

int store_dir_become_owner(const char *dir)
{
	struct privilege_user u;
	struct stat st;

	if (geteuid() != 0 || stat(dir, &st) != 0 || st.st_uid == 0)
		return 0;
	privilege_user_of(st.st_uid, st.st_gid, &u);
	if (store_dir_prepare(dir, &u))
		return 1;
	int err = privilege_become(&u);
	if (err) {
		log_error("cannot become user %s, who owns the store %s: %s", u.name, dir,
			  strerror(-err));
		return 1;
	}
	log_info("running as %s, who owns the store %s", u.name, dir);
	return 0;
}
