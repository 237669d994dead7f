#include "collect/bpf_code.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "base/mem.h"
#include "base/text.h"

#define FUNCS_MAX 1024        /* of a program, as in the kernel's */
#define LINES_MAX 65536       /* line entries */
#define INSNS_MAX (16u << 20) /* bytes of instructions: a million, twice as wide */
#define LOOK_BACK 4096        /* instructions before a call */

/* Names that are newer than the header, or are the kernel's own. */
#define PSEUDO_MAP_FD 1

struct place {
	uint64_t ip;
	uint32_t insn; /* in the instructions as the kernel has them */
	struct bpf_code_line line;
};

struct bpf_code {
	uint64_t starts[FUNCS_MAX];
	uint32_t lens[FUNCS_MAX];
	unsigned funcs;
	struct place *places; /* in order of ip within a function */
	uint32_t place_count;
	struct bpf_insn *insns;
	uint32_t insn_count;
	uint64_t call_base; /* calls are relative to it; 0: not known */
	bool call_base_asked;
};

/* What the kernel tells in arrays of its own size, with room for them. */
struct arrays {
	struct bpf_line_info *lines;
	uint64_t *line_ips;
	struct bpf_func_info *funcs;
	uint32_t line_count, func_count, btf_id;
};

static void arrays_done(struct arrays *a)
{
	free(a->lines);
	free(a->line_ips);
	free(a->funcs);
}

static int ask(int fd, struct bpf_prog_info *info)
{
	uint32_t len = sizeof(*info);

	return bpf_obj_get_info_by_fd(fd, info, &len) == 0 ? 0 : -errno;
}

static int read_arrays(int fd, struct bpf_code *c, struct arrays *a)
{
	struct bpf_prog_info size = {}, info = {};
	int err = ask(fd, &size);

	if (err)
		return err;
	if (!size.jited_prog_len || size.nr_jited_ksyms > FUNCS_MAX)
		return -EOPNOTSUPP;
	a->line_count = MIN(MIN(size.nr_line_info, size.nr_jited_line_info), LINES_MAX);
	a->func_count = MIN(size.nr_func_info, (uint32_t)FUNCS_MAX);
	a->btf_id = size.btf_id;
	a->lines = mem_alloc_array(a->line_count + 1, sizeof(*a->lines));
	a->line_ips = mem_alloc_array(a->line_count + 1, sizeof(*a->line_ips));
	a->funcs = mem_alloc_array(a->func_count + 1, sizeof(*a->funcs));
	c->insns = mem_alloc(MIN(size.xlated_prog_len, INSNS_MAX) + sizeof(*c->insns));
	info = (struct bpf_prog_info){
		.jited_ksyms = (uintptr_t)c->starts,
		.nr_jited_ksyms = size.nr_jited_ksyms,
		.jited_func_lens = (uintptr_t)c->lens,
		.nr_jited_func_lens = MIN(size.nr_jited_func_lens, (uint32_t)FUNCS_MAX),
		.line_info = (uintptr_t)a->lines,
		.nr_line_info = a->line_count,
		.line_info_rec_size = sizeof(*a->lines),
		.jited_line_info = (uintptr_t)a->line_ips,
		.nr_jited_line_info = a->line_count,
		.jited_line_info_rec_size = sizeof(*a->line_ips),
		.func_info = (uintptr_t)a->funcs,
		.nr_func_info = a->func_count,
		.func_info_rec_size = sizeof(*a->funcs),
		.xlated_prog_insns = (uintptr_t)c->insns,
		.xlated_prog_len = MIN(size.xlated_prog_len, INSNS_MAX),
	};
	err = ask(fd, &info);
	if (err)
		return err;
	c->funcs = MIN(info.nr_jited_ksyms, (uint32_t)FUNCS_MAX);
	c->insn_count =
		info.xlated_prog_insns
			? (uint32_t)(MIN(info.xlated_prog_len, INSNS_MAX) / sizeof(*c->insns))
			: 0;
	return !info.jited_ksyms || !c->funcs || !c->starts[0] ? -EACCES : 0;
}

/* The function of the program that an instruction is in. */
static const char *function_at(const struct btf *btf, const struct arrays *a, uint32_t insn)
{
	const struct btf_type *t = NULL;

	for (uint32_t i = 0; i < a->func_count && a->funcs[i].insn_off <= insn; i++)
		t = btf__type_by_id(btf, a->funcs[i].type_id);
	const char *name = t ? btf__name_by_offset(btf, t->name_off) : NULL;
	return name ? name : "";
}

static void read_lines(struct bpf_code *c, const struct arrays *a)
{
	struct btf *btf = a->btf_id ? btf__load_from_kernel_by_id(a->btf_id) : NULL;

	if (!btf)
		return;
	c->places = mem_alloc_array(a->line_count + 1, sizeof(*c->places));
	for (uint32_t i = 0; i < a->line_count; i++) {
		const struct bpf_line_info *l = &a->lines[i];
		struct place *p = &c->places[c->place_count++];
		const char *file = btf__name_by_offset(btf, l->file_name_off);
		const char *text = btf__name_by_offset(btf, l->line_off);
		const char *function = function_at(btf, a, l->insn_off);
		*p = (struct place){.ip = a->line_ips[i], .insn = l->insn_off};
		p->line.line = BPF_LINE_INFO_LINE_NUM(l->line_col);
		file = file ? file : "";
		text = text ? text + strspn(text, " \t") : "";
		text_clean_to(file, strlen(file), p->line.file, sizeof(p->line.file));
		text_clean_to(text, strlen(text), p->line.text, sizeof(p->line.text));
		text_clean_to(function, strlen(function), p->line.function,
			      sizeof(p->line.function));
	}
	btf__free(btf);
}

int bpf_code_new(uint32_t id, struct bpf_code **ret)
{
	CLEANUP(fd_closep) int fd = bpf_prog_get_fd_by_id(id);
	CLEANUP(arrays_done) struct arrays a = {};

	if (fd < 0)
		return -errno;
	struct bpf_code *c = mem_alloc(sizeof(*c));
	int err = read_arrays(fd, c, &a);
	if (err) {
		bpf_code_free(c);
		return err;
	}
	read_lines(c, &a);
	*ret = c;
	return 0;
}

void bpf_code_free(struct bpf_code *c)
{
	if (!c)
		return;
	free(c->places);
	free(c->insns);
	free(c);
}

static int function_of(const struct bpf_code *c, uint64_t ip)
{
	for (unsigned i = 0; i < c->funcs; i++)
		if (ip >= c->starts[i] && ip - c->starts[i] < c->lens[i])
			return (int)i;
	return -1;
}

bool bpf_code_has(const struct bpf_code *c, uint64_t ip)
{
	return function_of(c, ip) >= 0;
}

bool bpf_code_has_lines(const struct bpf_code *c)
{
	return c->place_count != 0;
}

int bpf_code_place(const struct bpf_code *c, uint64_t ip)
{
	int func = function_of(c, ip), best = -1;

	if (func < 0)
		return -1;
	for (uint32_t i = 0; i < c->place_count; i++) {
		uint64_t at = c->places[i].ip;
		/* Before its first line a function has only what the compiler puts there. */
		if (at >= c->starts[func] && at - c->starts[func] < c->lens[func] &&
		    (at <= ip || best < 0) && (best < 0 || at >= c->places[best].ip))
			best = (int)i;
	}
	return best;
}

const struct bpf_code_line *bpf_code_line(const struct bpf_code *c, int place)
{
	return &c->places[place].line;
}

/* ---- which map ------------------------------------------------------------------------------ */

static uint64_t find_call_base(void)
{
	CLEANUP(file_closep) FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[256];
	unsigned long long addr;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %*c %255s", &addr, name) == 2 &&
		    strcmp(name, "__bpf_call_base") == 0)
			return addr;
	return 0;
}

static bool is_call(const struct bpf_insn *i)
{
	return i->code == (BPF_JMP | BPF_CALL) && i->src_reg == 0;
}

static uint64_t target_of(const struct bpf_code *c, uint32_t at)
{
	return c->call_base + (uint64_t)(int64_t)c->insns[at].imm;
}

static bool writes(const struct bpf_insn *i, unsigned reg)
{
	unsigned class = BPF_CLASS(i->code);

	if (is_call(i))
		return reg <= BPF_REG_5;
	return (class == BPF_ALU || class == BPF_ALU64 || class == BPF_LD || class == BPF_LDX) &&
	       i->dst_reg == reg;
}

/* The map that a register points to before instruction `at`, by the last that wrote it; 0: none. */
static uint32_t map_in(const struct bpf_code *c, uint32_t at, unsigned reg)
{
	uint32_t least = at > LOOK_BACK ? at - LOOK_BACK : 0;

	while (at-- > least) {
		const struct bpf_insn *i = &c->insns[at];
		if (at && c->insns[at - 1].code == (BPF_LD | BPF_IMM | BPF_DW))
			continue; /* the second half of the one before */
		if (!writes(i, reg))
			continue;
		if (i->code == (BPF_LD | BPF_IMM | BPF_DW))
			return i->src_reg == PSEUDO_MAP_FD ? (uint32_t)i->imm : 0;
		if (i->code != (BPF_ALU64 | BPF_MOV | BPF_X))
			return 0;
		reg = i->src_reg;
	}
	return 0;
}

/* The instruction that calls: the one with that target, else the only one. Its index, or -1. */
static int find_call(const struct bpf_code *c, int place, uint64_t running)
{
	uint32_t end =
		(uint32_t)place + 1 < c->place_count ? c->places[place + 1].insn : c->insn_count;
	int only = -1;
	unsigned calls = 0;

	for (uint32_t i = c->places[place].insn; i < MIN(end, c->insn_count); i++) {
		if (!is_call(&c->insns[i]))
			continue;
		if (target_of(c, i) == running)
			return (int)i;
		only = (int)i;
		calls++;
	}
	return calls == 1 ? only : -1;
}

int bpf_code_call(struct bpf_code *c, int place, uint64_t running, struct bpf_code_call *ret)
{
	if (!c->call_base_asked)
		c->call_base = find_call_base();
	c->call_base_asked = true;
	if (place < 0 || (uint32_t)place >= c->place_count || !c->call_base)
		return -ENOENT;
	int at = find_call(c, place, running);
	if (at < 0)
		return -ENOENT;
	/* A helper takes a map first, or second after its context. */
	uint32_t map = map_in(c, (uint32_t)at, BPF_REG_1);
	*ret = (struct bpf_code_call){target_of(c, (uint32_t)at),
				      map ? map : map_in(c, (uint32_t)at, BPF_REG_2)};
	return 0;
}
