#include "collect/bpf_uses.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdarg.h>

#include <bpf/bpf.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "collect/bpf_links.h"

#define INFO_MAX   16384 /* bytes of /proc/PID/fdinfo/FD */
#define PINS       "/sys/fs/bpf"
#define PIN_LEVELS 8 /* of folders */

/* One process has many descriptors of a program, one after the other. */
void bpf_uses_add_owner(struct bpf_uses *u, uint32_t program, uint32_t pid, const char *name)
{
	for (size_t i = u->owner_count; pid && i-- > 0 && u->owners[i].pid == pid;)
		if (u->owners[i].program == program)
			return;
	if (u->owner_count == BPF_USES_MAX)
		return;
	MEM_GROW(u->owners, u->owner_count, u->owner_cap);
	struct bpf_owner *o = &u->owners[u->owner_count++];
	*o = (struct bpf_owner){.program = program, .pid = pid};
	text_clean_to(name, strlen(name), o->name, sizeof(o->name));
}

void bpf_uses_add_place(struct bpf_uses *u, uint32_t program, const char *fmt, ...)
{
	struct bpf_place place = {.program = program, .count = 1};
	char text[PATH_MAX + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_clean_to(text, strlen(text), place.text, sizeof(place.text));
	if (u->place_count == BPF_USES_MAX)
		return;
	MEM_GROW(u->places, u->place_count, u->place_cap);
	u->places[u->place_count++] = place;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* A perf event that runs a program: of a tracepoint or a probe, the kernel says where. */
static void ask_perf_event(struct bpf_uses *u, uint32_t pid, int fd, const char *comm)
{
	char name[256] = "";
	uint32_t len = sizeof(name), program = 0, type;
	__u64 offset = 0, addr = 0;

	if (bpf_task_fd_query((int)pid, fd, 0, name, &len, &program, &type, &offset, &addr) != 0 ||
	    !program)
		return;
	bpf_uses_add_owner(u, program, pid, comm);

	/* A link says the same of itself from Linux 6.6 on. */
	for (size_t i = 0; i < u->linked; i++)
		if (u->places[i].program == program)
			return;
	if (type == BPF_FD_TYPE_TRACEPOINT)
		bpf_uses_add_place(u, program, "tracepoint:%s", name);
	else if (type == BPF_FD_TYPE_KPROBE || type == BPF_FD_TYPE_KRETPROBE)
		bpf_uses_add_place(u, program, "%s:%s+%#llx",
				   type == BPF_FD_TYPE_KPROBE ? "kprobe" : "kretprobe", name,
				   offset);
	else if (type == BPF_FD_TYPE_UPROBE || type == BPF_FD_TYPE_URETPROBE)
		bpf_uses_add_place(u, program, "%s:%s+%#llx",
				   type == BPF_FD_TYPE_UPROBE ? "uprobe" : "uretprobe", name,
				   offset);
}

/* Programs and links: the description of either has the program's id. */
static void ask_bpf(struct bpf_uses *u, uint32_t pid, const char *fd, const char *comm)
{
	CLEANUP(freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fdinfo/%.10s", pid, fd);
	if (file_read(path, INFO_MAX, &text, NULL) < 0)
		return;
	const char *line = strstr(text, "prog_id:");
	uint32_t program = line ? (uint32_t)strtoul(line + strlen("prog_id:"), NULL, 10) : 0;
	if (program)
		bpf_uses_add_owner(u, program, pid, comm);
}

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static void look_at_process(struct bpf_uses *u, uint32_t pid)
{
	char path[64], link[64];
	CLEANUP(freep) char *comm = NULL;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	if (file_read(path, 4096, &comm, NULL) < 0)
		return;
	comm[strcspn(comm, "\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return;
	for (struct dirent *e; (e = readdir(dir));) {
		ssize_t n = isdigit((unsigned char)e->d_name[0])
				    ? readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1)
				    : -1;
		if (n < 0)
			continue;
		link[n] = '\0';
		if (begins(link, "anon_inode:bpf-prog") || begins(link, "anon_inode:bpf_link"))
			ask_bpf(u, pid, e->d_name, comm);
		else if (begins(link, "anon_inode:[perf_event]"))
			ask_perf_event(u, pid, atoi(e->d_name), comm);
	}
	closedir(dir);
}

static void look_at_processes(struct bpf_uses *u)
{
	DIR *dir = opendir("/proc");

	if (!dir)
		return;
	for (struct dirent *e; (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			look_at_process(u, (uint32_t)strtoul(e->d_name, NULL, 10));
	closedir(dir);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void look_at_pin(struct bpf_uses *u, const char *path)
{
	CLEANUP(fd_closep) int fd = bpf_obj_get(path);
	char own[64];
	CLEANUP(freep) char *text = NULL;

	if (fd < 0)
		return;
	snprintf(own, sizeof(own), "/proc/self/fdinfo/%d", fd);
	if (file_read(own, INFO_MAX, &text, NULL) < 0)
		return;
	const char *line = strstr(text, "prog_id:");
	if (line)
		bpf_uses_add_owner(u, (uint32_t)strtoul(line + strlen("prog_id:"), NULL, 10), 0,
				   path);
}

static void look_at_pins(struct bpf_uses *u)
{
	char root[] = PINS;
	FTS *walk = fts_open((char *[]){root, NULL}, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);

	for (FTSENT *e; walk && (e = fts_read(walk));) {
		if (e->fts_level > PIN_LEVELS)
			fts_set(walk, e, FTS_SKIP);
		else if (e->fts_info == FTS_F)
			look_at_pin(u, e->fts_path);
	}
	if (walk)
		fts_close(walk);
}

/* ---- all ------------------------------------------------------------------------------------ */

static int compare_owners(const void *a, const void *b)
{
	const struct bpf_owner *x = a, *y = b;

	if (x->program != y->program)
		return x->program < y->program ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int compare_places(const void *a, const void *b)
{
	const struct bpf_place *x = a, *y = b;

	if (x->program != y->program)
		return x->program < y->program ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* Sorts places, and makes one of those that are alike. */
static void merge_places(struct bpf_uses *u)
{
	size_t kept = 0;

	if (u->place_count)
		qsort(u->places, u->place_count, sizeof(*u->places), compare_places);
	for (size_t i = 0; i < u->place_count; i++) {
		if (kept && compare_places(&u->places[kept - 1], &u->places[i]) == 0)
			u->places[kept - 1].count += u->places[i].count;
		else
			u->places[kept++] = u->places[i];
	}
	u->place_count = kept;
}

static void sort_owners(struct bpf_uses *u)
{
	if (u->owner_count)
		qsort(u->owners, u->owner_count, sizeof(*u->owners), compare_owners);
}

void bpf_uses_read_owners(struct bpf_uses *u)
{
	u->owner_count = u->place_count = u->linked = 0;
	look_at_processes(u);
	sort_owners(u);
}

void bpf_uses_read(struct bpf_uses *u)
{
	u->owner_count = u->place_count = 0;
	bpf_links_read(u);
	u->linked = u->place_count;
	look_at_processes(u);
	merge_places(u);
	look_at_pins(u);
	sort_owners(u);
}

void bpf_uses_done(struct bpf_uses *u)
{
	free(u->owners);
	free(u->places);
	*u = (struct bpf_uses){};
}

/* Where the entries of a program begin, each of which begins with its id, and how many they are. */
static size_t find(const void *list, size_t count, size_t size, uint32_t program, size_t *ret_count)
{
	const char *bytes = list;
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (*(const uint32_t *)(bytes + mid * size) < program)
			low = mid + 1;
		else
			high = mid;
	}
	for (high = low; high < count && *(const uint32_t *)(bytes + high * size) == program;)
		high++;
	*ret_count = high - low;
	return low;
}

const struct bpf_owner *bpf_uses_owners(const struct bpf_uses *u, uint32_t program,
					size_t *ret_count)
{
	return u->owners + find(u->owners, u->owner_count, sizeof(*u->owners), program, ret_count);
}

const struct bpf_place *bpf_uses_places(const struct bpf_uses *u, uint32_t program,
					size_t *ret_count)
{
	return u->places + find(u->places, u->place_count, sizeof(*u->places), program, ret_count);
}
