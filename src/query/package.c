#include "query/package.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "process/elf_file.h"
#include "query/package_cache.h"

#define INFO      "/var/lib/dpkg/info"
#define LIST_MAX  (8u << 20) /* of one package; the largest have 2 MB */
#define LISTS_MAX (256u << 20)

struct answer {
	char *path, *build_id;
	char *package; /* NULL: none is known */
};

struct packages {
	char *cache_dir;      /* NULL: nothing is kept */
	pthread_mutex_t lock; /* also held while it looks: one look at a time is enough */
	struct answer answers[PACKAGES_MAX];
	size_t count;
};

static void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static bool has_build_id(const char *path, const char *build_id)
{
	struct stat st;
	/* The path may come from another machine: a device must not even be opened. */
	CLEANUP(fd_closep)
	int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode)
			 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
			 : -1;
	uint8_t id[ELF_BUILD_ID_MAX];
	char hex[2 * sizeof(id) + 1];
	struct elf_file e;

	if (fd < 0 || elf_file_init(&e, fd) < 0)
		return false;
	size_t len = elf_file_build_id(&e, id);
	elf_file_done(&e);
	return len && strcmp(text_hex_bytes(id, len, hex), build_id) == 0;
}

/* Whether a list of files, a line each, has one of two. */
static bool lists(const char *text, const char *path, const char *other)
{
	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		size_t len = (size_t)(end - line);
		if ((strlen(path) == len && memcmp(line, path, len) == 0) ||
		    (strlen(other) == len && memcmp(line, other, len) == 0))
			return true;
	}
	return false;
}

/* A file, as packages list it: /usr/lib and /lib are one place, and they say either. */
struct sought {
	const char *path;
	char *other;
	const char *common; /* the end of both */
	const char *stem;   /* what its name begins with: "nginx", "libssl" … */
	size_t stem_len;
};

/* How soon a package is looked through: all of them are some 10 MB in a thousand files. */
enum turn { CALLED_ALIKE, KNOWN, OTHER, TURNS };

static enum turn turn_of(const struct sought *f, const char *package)
{
	/* Of much that runs, and not called like it. */
	static const char *const known[] = {"coreutils",   "dash",    "util-linux", "procps",
					    "cpp-",        "gcc-",    "binutils",   "systemd",
					    "postgresql-", "openjdk", "nodejs",     "libc-bin"};

	if (f->stem_len > 1 && strncmp(package, f->stem, f->stem_len) == 0)
		return CALLED_ALIKE;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strncmp(package, known[i], strlen(known[i])) == 0)
			return KNOWN;
	return OTHER;
}

/* Looks through the packages whose turn it is. */
static char *find_package(const struct sought *f, enum turn turn)
{
	CLEANUP(close_dir) DIR *dir = opendir(INFO);
	const struct dirent *d;
	size_t read = 0;

	while (dir && read < LISTS_MAX && (d = readdir(dir))) {
		const char *end = strrchr(d->d_name, '.'), *arch = strchr(d->d_name, ':');
		if (!end || strcmp(end, ".list") != 0 || turn_of(f, d->d_name) != turn)
			continue;
		CLEANUP(freep) char *at = mem_printf(INFO "/%s", d->d_name);
		CLEANUP(freep) char *text = NULL;
		size_t len;
		if (file_read(at, LIST_MAX, &text, &len) < 0)
			continue;
		read += len;
		if (memmem(text, len, f->common, strlen(f->common)) &&
		    lists(text, f->path, f->other))
			return mem_strndup(d->d_name, (size_t)((arch ? arch : end) - d->d_name));
	}
	return NULL;
}

static char *look_through(const char *path)
{
	bool in_usr = strncmp(path, "/usr/", 5) == 0;
	CLEANUP(freep)
	char *other = mem_printf("%s%s", in_usr ? "" : "/usr", path + (in_usr ? 4 : 0));
	const char *stem = strrchr(path, '/') + 1;
	struct sought f = {path, other, in_usr ? other : path, stem,
			   strcspn(stem, ".-_0123456789")};

	char *found = NULL;
	for (enum turn turn = 0; turn < TURNS && !found; turn++)
		found = find_package(&f, turn);
	return found;
}

static char *package_of(const char *path, const char *cache_dir)
{
	struct stat st;
	char *found;

	if (!cache_dir || stat(INFO, &st) != 0)
		return look_through(path);
	/* Whatever is installed or removed changes the directory. */
	uint64_t stamp = clock_timespec_ns(st.st_mtim);
	if (package_cache_find(cache_dir, stamp, path, &found))
		return found;
	found = look_through(path);
	package_cache_add(cache_dir, stamp, path, found); /* else it is looked for again */
	return found;
}

/* Elsewhere is what people build or unpack themselves. */
static bool is_where_packages_are(const char *path)
{
	static const char *const places[] = {"/usr/", "/lib", "/bin/", "/sbin/", "/opt/"};

	if (strncmp(path, "/usr/local/", strlen("/usr/local/")) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (strncmp(path, places[i], strlen(places[i])) == 0)
			return true;
	return false;
}

static char *look_up(const struct packages *p, const char *path, const char *build_id)
{
	if (!is_where_packages_are(path) || !has_build_id(path, build_id))
		return NULL;
	CLEANUP(freep) char *name = package_of(path, p->cache_dir);
	if (!name)
		return NULL;
	/* The C library's are older than the custom. */
	return mem_printf("%s%s", name, strcmp(name, "libc6") == 0 ? "-dbg" : "-dbgsym");
}

/* ---- what was asked before ------------------------------------------------------------------ */

struct packages *packages_new(const char *cache_dir)
{
	struct packages *p = mem_alloc(sizeof(*p));

	p->cache_dir = cache_dir ? mem_strdup(cache_dir) : NULL;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void forget(struct packages *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->answers[i].path);
		free(p->answers[i].build_id);
		free(p->answers[i].package);
	}
	p->count = 0;
}

void packages_free(struct packages *p)
{
	if (!p)
		return;
	forget(p);
	pthread_mutex_destroy(&p->lock);
	free(p->cache_dir);
	free(p);
}

static const struct answer *find_answer(const struct packages *p, const char *path,
					const char *build_id)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->answers[i].path, path) == 0 &&
		    strcmp(p->answers[i].build_id, build_id) == 0)
			return &p->answers[i];
	return NULL;
}

char *packages_find(struct packages *p, const char *path, const char *build_id)
{
	pthread_mutex_lock(&p->lock);
	const struct answer *a = find_answer(p, path, build_id);
	if (!a) {
		if (p->count == PACKAGES_MAX)
			forget(p);
		p->answers[p->count] = (struct answer){mem_strdup(path), mem_strdup(build_id),
						       look_up(p, path, build_id)};
		a = &p->answers[p->count++];
	}
	char *package = a->package ? mem_strdup(a->package) : NULL;
	pthread_mutex_unlock(&p->lock);
	return package;
}
