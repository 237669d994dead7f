#include "collect/bpf_programs.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "collect/bpf_object.h"

#define INFO_MAX 16384 /* bytes of /proc/self/fdinfo/N */

struct bpf_programs {
	int statistics;                  /* while it is open, the kernel counts; -1: it does not */
	struct loaded_program *programs; /* by id */
	size_t count, cap;
	struct loaded_map *maps; /* by id */
	size_t map_count, map_cap;
	unsigned turn;
	bool changed;
	uint64_t left_out, read_ns;
};

int bpf_programs_new(struct bpf_programs **ret)
{
	struct bpf_programs *p = mem_alloc(sizeof(*p));

	bpf_object_listen(); /* what libbpf says of programs that go meanwhile is not for the user
			      */
	p->statistics = -1;
	p->read_ns = clock_ns(CLOCK_MONOTONIC);
	int err = bpf_programs_count(p);
	if (err)
		bpf_programs_free(p);
	else
		*ret = p;
	return err;
}

int bpf_programs_count(struct bpf_programs *p)
{
	if (p->statistics < 0)
		p->statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return p->statistics < 0 ? -errno : 0;
}

void bpf_programs_rest(struct bpf_programs *p)
{
	fd_closep(&p->statistics);
	p->statistics = -1;
}

void bpf_programs_free(struct bpf_programs *p)
{
	if (!p)
		return;
	bpf_programs_rest(p);
	free(p->programs);
	free(p->maps);
	free(p);
}

int bpf_program_function(int fd, char ret[static BPF_PROGRAM_NAME])
{
	struct bpf_func_info func = {};
	struct bpf_prog_info info = {.func_info = (uintptr_t)&func,
				     .nr_func_info = 1,
				     .func_info_rec_size = sizeof(func)};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) != 0)
		return -errno;
	struct btf *btf = info.btf_id ? btf__load_from_kernel_by_id(info.btf_id) : NULL;
	const struct btf_type *t = btf ? btf__type_by_id(btf, func.type_id) : NULL;
	const char *name = t ? btf__name_by_offset(btf, t->name_off) : NULL;
	int err = name && name[0] ? 0 : -ENODATA;
	if (!err)
		text_clean_to(name, strlen(name), ret, BPF_PROGRAM_NAME);
	btf__free(btf);
	return err;
}

/* The kernel cuts a name to 15 bytes; that of the function, if types came with it, is whole. */
static void set_whole_name(int fd, struct loaded_program *l)
{
	char name[BPF_PROGRAM_NAME];

	if (bpf_program_function(fd, name) == 0 && strncmp(name, l->name, strlen(l->name)) == 0)
		memcpy(l->name, name, sizeof(name));
}

static void describe(int fd, const struct bpf_prog_info *info, struct loaded_program *l)
{
	l->type = info->type;
	l->uid = info->created_by_uid;
	l->code_bytes = info->jited_prog_len;
	l->loaded_ns = info->load_time;
	text_hex_bytes(info->tag, sizeof(info->tag), l->tag);
	text_clean_to(info->name, strnlen(info->name, sizeof(info->name)), l->name,
		      sizeof(l->name));
	if (strlen(l->name) == BPF_OBJ_NAME_LEN - 1)
		set_whole_name(fd, l);
}

static struct bpf_runs runs_of(const struct bpf_prog_info *info)
{
	return (struct bpf_runs){info->run_cnt, info->run_time_ns, info->recursion_misses,
				 clock_ns(CLOCK_MONOTONIC)};
}

double bpf_runs_share(const struct bpf_runs *from, const struct bpf_runs *to)
{
	if (to->at_ns <= from->at_ns || to->time_ns < from->time_ns)
		return 0;
	return (double)(to->time_ns - from->time_ns) / (double)(to->at_ns - from->at_ns);
}

/* The program with that id, which is new or was the one behind *at in the list. */
static struct loaded_program *place(struct bpf_programs *p, uint32_t id, size_t at, bool *ret_new)
{
	*ret_new = at == p->count || p->programs[at].id != id;
	if (!*ret_new)
		return &p->programs[at];
	p->changed = true;
	MEM_GROW(p->programs, p->count, p->cap);
	memmove(&p->programs[at + 1], &p->programs[at], (p->count - at) * sizeof(*p->programs));
	p->programs[at] = (struct loaded_program){.id = id};
	p->count++;
	return &p->programs[at];
}

static void read_runs(struct bpf_programs *p, struct loaded_program *l,
		      const struct bpf_prog_info *info, bool is_new)
{
	struct bpf_runs runs = runs_of(info), none = {.at_ns = p->read_ns};

	/* What came after the first reading has run only since. */
	if (is_new)
		l->first = l->now = p->turn > 1 ? none : runs;
	l->last = l->now;
	l->now = runs;
	if (p->turn == 1)
		return;
	float share = (float)bpf_runs_share(&l->last, &l->now);
	l->past[l->past_count++ % BPF_PROGRAM_PAST] = share;
	l->most = MAX(l->most, share);
}

/* -ENOENT: it has gone meanwhile. */
static int read_one(struct bpf_programs *p, uint32_t id, size_t at)
{
	CLEANUP(fd_closep) int fd = bpf_prog_get_fd_by_id(id);
	uint32_t maps[BPF_PROGRAM_MAPS] = {};
	struct bpf_prog_info info = {.map_ids = (uintptr_t)maps, .nr_map_ids = BPF_PROGRAM_MAPS};
	uint32_t len = sizeof(info);
	bool is_new;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) != 0)
		return -errno;
	struct loaded_program *l = place(p, id, at, &is_new);
	if (is_new)
		describe(fd, &info, l);
	l->turn = p->turn;
	l->map_count = MIN(info.nr_map_ids, (uint32_t)BPF_PROGRAM_MAPS);
	memcpy(l->maps, maps, l->map_count * sizeof(*maps));
	read_runs(p, l, &info, is_new);
	return 0;
}

/* Those that were not seen in this turn are gone. */
static void drop_gone(struct bpf_programs *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->count; i++) {
		if (p->programs[i].turn != p->turn)
			p->changed = true;
		else if (kept++ != i)
			p->programs[kept - 1] = p->programs[i];
	}
	p->count = kept;
}

static int read_programs(struct bpf_programs *p)
{
	uint32_t id = 0;
	size_t at = 0, seen = 0;
	int err;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		if (++seen > BPF_PROGRAMS_MAX) {
			p->left_out++;
			continue;
		}
		while (at < p->count && p->programs[at].id < id)
			at++;
		err = read_one(p, id, at);
		if (err && err != -ENOENT)
			return err;
	}
	err = errno == ENOENT ? 0 : -errno;
	if (!err)
		drop_gone(p);
	return err;
}

/* The memory of a map, as its descriptor tells; 0 if it does not. */
static uint64_t memory_of(int fd)
{
	CLEANUP(freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (file_read(path, INFO_MAX, &text, NULL) < 0)
		return 0;
	const char *line = strstr(text, "memlock:");
	return line ? strtoull(line + strlen("memlock:"), NULL, 10) : 0;
}

static void read_map(struct bpf_programs *p, uint32_t id)
{
	CLEANUP(fd_closep) int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) != 0)
		return;
	MEM_GROW(p->maps, p->map_count, p->map_cap);
	struct loaded_map *m = &p->maps[p->map_count++];
	*m = (struct loaded_map){.id = id, .type = info.type, .bytes = memory_of(fd)};
	text_clean_to(info.name, strnlen(info.name, sizeof(info.name)), m->name, sizeof(m->name));
}

static void read_maps(struct bpf_programs *p)
{
	uint32_t id = 0;

	p->map_count = 0;
	while (bpf_map_get_next_id(id, &id) == 0) {
		if (p->map_count < BPF_PROGRAMS_MAX)
			read_map(p, id);
		else
			p->left_out++;
	}
	for (size_t i = 0; i < p->count; i++) {
		struct loaded_program *l = &p->programs[i];
		l->map_bytes = 0;
		for (uint32_t n = 0; n < l->map_count; n++) {
			const struct loaded_map *m = bpf_programs_map(p, l->maps[n]);
			l->map_bytes += m ? m->bytes : 0;
		}
	}
}

int bpf_programs_read_runs(struct bpf_programs *p)
{
	p->turn++;
	p->changed = false;
	p->left_out = 0;
	int err = read_programs(p);
	p->read_ns = clock_ns(CLOCK_MONOTONIC);
	return err;
}

int bpf_programs_read(struct bpf_programs *p)
{
	int err = bpf_programs_read_runs(p);

	if (!err)
		read_maps(p);
	return err;
}

int bpf_programs_runs(uint32_t id, struct bpf_runs *ret)
{
	CLEANUP(fd_closep) int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	uint32_t len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) != 0)
		return -errno;
	*ret = runs_of(&info);
	return 0;
}

struct loaded_program *bpf_programs_list(const struct bpf_programs *p, size_t *ret_count)
{
	*ret_count = p->count;
	return p->programs;
}

const struct loaded_map *bpf_programs_map(const struct bpf_programs *p, uint32_t id)
{
	size_t low = 0, high = p->map_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (p->maps[mid].id == id)
			return &p->maps[mid];
		if (p->maps[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

uint64_t bpf_programs_left_out(const struct bpf_programs *p)
{
	return p->left_out;
}

bool bpf_programs_changed(const struct bpf_programs *p)
{
	return p->changed;
}

const char *bpf_program_type(uint32_t type, char ret[static 16])
{
	enum { NETFILTER = 32 }; /* newer than the library */
	const char *known = libbpf_bpf_prog_type_str((enum bpf_prog_type)type);

	if (!known && type == NETFILTER)
		known = "netfilter";
	snprintf(ret, 16, "type %u", type);
	return known ? known : ret;
}
