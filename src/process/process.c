#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/string_pool.h"

#define BUCKETS           4096
#define PROCESSES_MAX     65536
#define MAPS_TEXT_MAX     (32 << 20) /* of /proc/PID/maps */
#define READ_PAUSE_NS     1000000000ull
#define READ_PAUSE_MAX_NS (64 * READ_PAUSE_NS)
#define SWEEPS_KEPT       2 /* when its first thread ends, others may still run */

struct processes {
	struct process *table[BUCKETS];
	struct mapped_files *files;
	struct string_pool paths;
	uint32_t *ended; /* pids of processes that have exited, for the next sweeps */
	uint32_t ended_count, ended_cap;
	struct processes_stats stats;
};

struct processes *processes_new(void)
{
	struct processes *ps = mem_alloc(sizeof(*ps));

	ps->files = mapped_files_new();
	return ps;
}

static void free_hooks(struct process *p)
{
	for (size_t i = 0; i < PROCESS_HOOKS; i++)
		if (p->hooks[i].data)
			p->hooks[i].free(p->hooks[i].data);
	memset(p->hooks, 0, sizeof(p->hooks));
}

static void process_free(struct process *p)
{
	free_hooks(p);
	p->dropped = true;
	if (p->holds)
		return;
	maps_unref(p->maps);
	maps_unref(p->early);
	free(p);
}

struct process *process_hold(struct process *p)
{
	p->holds++;
	return p;
}

void process_release(struct process *p)
{
	if (--p->holds == 0 && p->dropped)
		process_free(p);
}

void processes_free(struct processes *ps)
{
	if (!ps)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct process *p = ps->table[i], *next; p; p = next) {
			next = p->next;
			process_free(p);
		}
	}
	mapped_files_free(ps->files);
	string_pool_done(&ps->paths);
	free(ps->ended);
	free(ps);
}

static struct process *lookup(const struct processes *ps, uint32_t pid)
{
	struct process *p = ps->table[pid % BUCKETS];

	while (p && p->pid != pid)
		p = p->next;
	return p;
}

static void drop(struct processes *ps, struct process *p)
{
	struct process **at = &ps->table[p->pid % BUCKETS];

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	ps->stats.known--;
	process_free(p);
}

static void set_ended(struct processes *ps, struct process *p)
{
	if (p->exited)
		return;
	p->exited = true;
	MEM_GROW(ps->ended, ps->ended_count, ps->ended_cap);
	ps->ended[ps->ended_count++] = p->pid;
}

/* Adds a new process and drops the one that had the pid before. */
static struct process *add(struct processes *ps, uint32_t pid)
{
	struct process *old = lookup(ps, pid);
	if (old)
		drop(ps, old);
	if (ps->stats.known >= PROCESSES_MAX) {
		/* pid_max is lower on most machines, so any victim will do. */
		for (size_t i = 0; i < BUCKETS; i++) {
			if (ps->table[(pid + i) % BUCKETS]) {
				drop(ps, ps->table[(pid + i) % BUCKETS]);
				ps->stats.capped++;
				break;
			}
		}
	}

	struct process *p = mem_alloc(sizeof(*p));
	p->pid = pid;
	p->read_pause_ns = READ_PAUSE_NS;
	p->next = ps->table[pid % BUCKETS];
	ps->table[pid % BUCKETS] = p;
	ps->stats.known++;
	return p;
}

static uint32_t put_path(struct processes *ps, const char *path, size_t len)
{
	static const char deleted[] = " (deleted)";
	size_t cut = sizeof(deleted) - 1;

	if (len > cut && memcmp(path + len - cut, deleted, cut) == 0)
		len -= cut;
	return string_pool_put(&ps->paths, path, len);
}

/* What an event changes before the reading was not mapped before the event. */
static void forget_early(struct process *p, uint64_t time, uint64_t start, uint64_t end)
{
	if (p && p->early && time <= p->read_ns)
		maps_remove(p->early, start, end);
}

static void on_map(struct processes *ps, const struct sideband_record *e)
{
	struct process *p = lookup(ps, e->pid);
	if (!p || !p->maps)
		return; /* its mappings are read when it is first sampled */

	struct mapping m = {
		.start = e->start,
		.end = e->end,
		.offset = e->offset,
		.device = e->device,
		.inode = e->inode,
		.generation = e->generation,
		.path = put_path(ps, e->name, strlen(e->name)),
	};
	forget_early(p, e->time, e->start, e->end);
	if (e->time < p->events_from_ns)
		return; /* /proc was read after it */
	/* JITs that switch code between writable and executable give an event each time. */
	if (!e->inode && maps_is_anonymous(p->maps, e->start, e->end))
		return;
	p->maps = maps_own(p->maps);
	p->changed_ns = MAX(p->changed_ns, e->time);
	if (maps_replaces(p->maps, &m))
		p->replaced_ns = e->time;
	ps->stats.mappings_dropped += !maps_insert(p->maps, &m);
}

void processes_record(struct processes *ps, const struct sideband_record *e)
{
	struct process *p;

	switch (e->type) {
	case SIDEBAND_FORK: {
		struct process *parent = lookup(ps, e->parent);
		struct maps *maps = parent && parent->maps ? maps_ref(parent->maps) : NULL;
		struct process from = parent ? *parent : (struct process){};
		forget_early(lookup(ps, e->pid), e->time, 0, UINT64_MAX);
		p = add(ps, e->pid);
		p->parent = e->parent;
		p->maps = maps;
		p->stale = from.stale;
		p->distrusted = from.distrusted;
		p->events_from_ns = from.events_from_ns;
		/* A copy, since what each of the two changes before the reading concerns only
		 * itself. A child forked after the reading does not need it. */
		p->early = from.early && e->time <= from.read_ns ? maps_copy(from.early) : NULL;
		p->read_ns = from.read_ns;
		break;
	}
	case SIDEBAND_EXEC:
		p = lookup(ps, e->pid);
		if (!p)
			p = add(ps, e->pid);
		forget_early(p, e->time, 0, UINT64_MAX);
		free_hooks(p);
		p->context_due_ns = p->context_pause_ns = p->context_maps = 0;
		if (e->time < p->events_from_ns)
			break;
		maps_unref(p->maps);
		p->maps = maps_new();
		p->changed_ns = MAX(p->changed_ns, e->time);
		p->stale = p->distrusted;
		p->read_pause_ns = READ_PAUSE_NS;
		/* From here on events tell everything: an unknown address is most likely bogus. */
		p->next_read_ns = p->stale ? 0 : e->time + READ_PAUSE_NS;
		maps_unref(p->early);
		p->early = NULL;
		break;
	case SIDEBAND_EXIT:
		p = lookup(ps, e->pid);
		if (p)
			set_ended(ps, p);
		break;
	case SIDEBAND_MAP:
		on_map(ps, e);
		break;
	case SIDEBAND_CODE: /* the kernel's */
		break;
	}
}

void processes_distrust(struct processes *ps)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct process *p = ps->table[i]; p; p = p->next) {
			p->stale = p->distrusted = true;
			p->next_read_ns = 0;
			if (kill((pid_t)p->pid, 0) != 0 && errno == ESRCH)
				set_ended(ps, p);
		}
	}
}

/* One line of maps: "start-end perms offset major:minor inode    path". */
static bool parse_line(struct processes *ps, const char *line, size_t len, struct mapping *ret)
{
	unsigned long start, end, offset, inode;
	unsigned major, minor;
	char perms[5];
	int at = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perms, &offset, &major,
		   &minor, &inode, &at) < 7 ||
	    perms[2] != 'x')
		return false;
	if ((size_t)at > len)
		at = (int)len;
	*ret = (struct mapping){
		.start = start,
		.end = end,
		.offset = offset,
		.device = makedev(major, minor),
		.inode = inode,
		.path = put_path(ps, line + at, len - (size_t)at),
	};
	return true;
}

/* 0; -ENOENT when the process is gone or a kernel thread. */
static int read_maps(struct processes *ps, uint32_t pid, struct maps **ret)
{
	CLEANUP(freep) char *path = mem_printf("/proc/%u/maps", pid);
	CLEANUP(freep) char *text = NULL;
	size_t len;
	int r = file_read(path, MAPS_TEXT_MAX, &text, &len);
	if (r)
		return r;
	ps->stats.maps_read++;
	if (len == 0)
		return -ENOENT;

	struct maps *maps = maps_new();
	for (char *line = text, *end; *line; line = end + 1) {
		end = strchrnul(line, '\n');
		bool last = !*end;
		*end = '\0';
		/* Most mappings are not executable: check that before parsing the line. */
		const char *perms = strchr(line, ' ');
		struct mapping m;
		if (perms && end - perms > 4 && perms[3] == 'x' &&
		    parse_line(ps, line, (size_t)(end - line), &m))
			ps->stats.mappings_dropped += !maps_insert(maps, &m);
		if (last)
			break;
	}
	*ret = maps;
	return 0;
}

static void refresh(struct processes *ps, struct process *p, uint64_t time)
{
	struct maps *maps;
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	int r = read_maps(ps, p->pid, &maps);

	/* A child that ended without an exec had its parent's mappings. */
	if (r && !p->maps && p->parent) {
		const struct process *parent = lookup(ps, p->parent);
		if (parent && parent->maps) {
			maps = maps_ref(parent->maps);
			r = 0;
		} else {
			r = read_maps(ps, p->parent, &maps);
		}
	}
	p->next_read_ns = time + p->read_pause_ns;
	p->read_pause_ns = MIN(p->read_pause_ns * 2, READ_PAUSE_MAX_NS);
	p->stale = false;
	if (r == 0) {
		maps_unref(p->maps);
		maps_unref(p->early);
		p->maps = maps;
		p->early = p->distrusted ? maps_new() : maps_copy(maps);
		p->read_ns = clock_ns(CLOCK_MONOTONIC);
		p->events_from_ns = p->distrusted ? began : p->events_from_ns;
		p->distrusted = false;
	} else if (p->distrusted && p->maps) { /* it has ended: its mappings will never be known */
		maps_unref(p->maps);
		p->maps = maps_new();
	} else if (!p->maps) {
		ps->stats.maps_failed++;
		p->maps = maps_new();
	}
}

struct process *processes_get(struct processes *ps, uint32_t pid, uint64_t start, uint64_t time)
{
	struct process *p = lookup(ps, pid);

	if (p && p->start == 0)
		p->start = start;
	if (!p || p->start != start) {
		p = add(ps, pid);
		p->start = start;
	}
	p->idle_sweeps = 0;
	if (p->early && time > p->read_ns) {
		maps_unref(p->early);
		p->early = NULL;
	}
	if (!p->maps || p->stale)
		refresh(ps, p, time);
	return p;
}

const struct process *processes_peek(const struct processes *ps, uint32_t pid, uint64_t start)
{
	const struct process *p = lookup(ps, pid);

	return p && p->start == start ? p : NULL;
}

bool processes_is_alive(const struct processes *ps, uint32_t pid, uint64_t start)
{
	const struct process *p = processes_peek(ps, pid, start);

	return p && !p->exited;
}

struct mapping *process_find(struct processes *ps, struct process *p, uint64_t addr, uint64_t time)
{
	struct mapping *m = maps_find(p->maps, addr);

	if (!m && time >= p->next_read_ns && !p->exited) {
		refresh(ps, p, time);
		m = maps_find(p->maps, addr);
		if (m)
			p->read_pause_ns = READ_PAUSE_NS;
	}
	return m;
}

const char *process_path(const struct processes *ps, const struct mapping *m)
{
	return string_pool_get(&ps->paths, m->path);
}

bool process_is_vdso(const struct processes *ps, const struct mapping *m)
{
	return m->start > UINT32_MAX && strcmp(process_path(ps, m), "[vdso]") == 0;
}

uint32_t process_file(struct processes *ps, const struct process *p, struct mapping *m)
{
	if (m->file || m->generated)
		return m->file;

	const char *path = process_path(ps, m);
	if (path[0] == '/' && strncmp(path, "//anon", 6) != 0)
		m->file = mapped_files_of_mapping(ps->files, p->pid, m, path);
	/* .NET and Erlang write code through one mapping of a memfd and run it through another. An
	   ELF program that was started from a memfd is not meant. */
	m->generated =
		strncmp(path, "/memfd:", 7) == 0 && !mapped_files_get(ps->files, m->file)->is_elf;
	if (m->generated)
		m->file = 0;
	return m->file;
}

struct mapped_files *processes_mapped_files(struct processes *ps)
{
	return ps->files;
}

void processes_sweep(struct processes *ps)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ps->ended_count; i++) {
		struct process *p = lookup(ps, ps->ended[i]);
		if (!p || !p->exited) /* the pid was reused */
			continue;
		if (p->idle_sweeps++ >= SWEEPS_KEPT)
			drop(ps, p);
		else
			ps->ended[kept++] = ps->ended[i];
	}
	ps->ended_count = kept;
}

void processes_stats(const struct processes *ps, struct processes_stats *ret)
{
	*ret = ps->stats;
}
