/* Names of kernel code: a made-up /proc/kallsyms, and the kernel's own answers. */
#include "unit/unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "collect/sideband.h"
#include "pipeline/resolve.h"
#include "symbol/kallsyms.h"
#include "symbol/ksym.h"

/* A file of that text; its path in ret, its fd. */
static int make_file(const char *text, char ret[static 64])
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);

	snprintf(ret, 64, "/proc/self/fd/%d", fd);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static int load(const char *text, struct kallsyms **ret)
{
	char path[64];
	int fd = make_file(text, path);
	int r = kallsyms_load(path, ret);

	close(fd);
	return r;
}

static void finds_functions_modules_and_programs(void **state)
{
	(void)state;
	static const char text[] = "0000000000000000 A fixed_percpu_data\n"
				   "ffffffff81000000 T _stext\n"
				   "ffffffff81000000 T _text\n"
				   "ffffffff810000f0 t __pfx_do_it\n"
				   "ffffffff81000100 t do_it\n"
				   "ffffffff81000200 D some_data\n"
				   "nonsense\n"
				   "ffffffff81000300 \n"
				   "ffffffff81000400 W weak\n"
				   "ffffffffc0500000 t late\t[ext4]\n"
				   "ffffffffc0400000 t early\t[ext4]\n"
				   "ffffffffc0600000 t bpf_prog_0123456789abcdef_p\t[bpf]";
	static const struct {
		uint64_t ip, start;
		const char *name, *module;
		enum frame_kind kind;
	} t[] = {
		{0xffffffff81000000, 0xffffffff81000000, "_stext", "[kernel]", FRAME_KERNEL},
		{0xffffffff810000ef, 0xffffffff81000000, "_stext", "[kernel]", FRAME_KERNEL},
		{0xffffffff810000ff, 0xffffffff810000f0, "do_it", "[kernel]", FRAME_KERNEL},
		{0xffffffff81000100, 0xffffffff81000100, "do_it", "[kernel]", FRAME_KERNEL},
		{0xffffffff810003ff, 0xffffffff81000100, "do_it", "[kernel]", FRAME_KERNEL},
		{0xffffffff81000401, 0xffffffff81000400, "weak", "[kernel]", FRAME_KERNEL},
		{0xffffffffc0400001, 0xffffffffc0400000, "early", "[ext4]", FRAME_KERNEL},
		{0xffffffffc0500001, 0xffffffffc0500000, "late", "[ext4]", FRAME_KERNEL},
		{0xffffffffc0600001, 0xffffffffc0600000, "bpf_prog_0123456789abcdef_p", "[bpf]",
		 FRAME_BPF},
		{0xffffffffa0000000, 0, "[kernel+0xffffffffa0000000]", "[kernel]", FRAME_KERNEL},
		{0xffffffff80000000, 0, "[kernel+0xffffffff80000000]", "[kernel]", FRAME_KERNEL},
		{0, 0, "[kernel+0x0]", "[kernel]", FRAME_KERNEL},
	};
	struct kallsyms *k;
	struct symbol sym;
	const char *module;

	assert_int_equal(load(text, &k), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(kallsyms_find(k, t[i].ip, &sym, &module),
				 t[i].start ? 0 : -ENOENT);
		assert_string_equal(sym.name, t[i].name);
		assert_string_equal(module, t[i].module);
		assert_int_equal(sym.kind, t[i].kind);
		assert_int_equal(sym.start, t[i].start);
		assert_int_equal(sym.addr, t[i].ip);
	}
	kallsyms_free(k);
}

static const char *find(struct kallsyms *k, uint64_t ip)
{
	struct symbol sym;
	const char *module;

	return kallsyms_find(k, ip, &sym, &module) == 0 ? sym.name : "";
}

static void forgets_what_came_or_went(void **state)
{
	(void)state;
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffffc0400000 t one\t[ext4]\n"
				   "ffffffffc0400100 t two\t[ext4]\n"
				   "ffffffffc0500000 t three\t[nfs]\n"
				   "ffffffffc0500100 t four\t[nfs]\n";
	struct kallsyms *k;
	struct symbol sym;
	const char *module;

	assert_int_equal(load(text, &k), 0);
	assert_int_equal(kallsyms_find_fixed(k, 0xffffffff81000001, &sym, &module), 0);
	assert_int_equal(kallsyms_find_fixed(k, 0xffffffffc0400001, &sym, &module), -ENOENT);
	assert_string_equal(sym.name, "[kernel+0xffffffffc0400001]");
	assert_string_equal(module, "[kernel]");

	/* Where nothing was: it is no part of what stands before it. */
	kallsyms_forget(k, 0xffffffffc0401000, 0xffffffffc0401100);
	assert_string_equal(find(k, 0xffffffffc0400fff), "two");
	assert_string_equal(find(k, 0xffffffffc0401000), "");
	assert_string_equal(find(k, 0xffffffffc04fffff), "");
	assert_string_equal(find(k, 0xffffffffc0500000), "three");
	kallsyms_forget(k, 0xffffffffc0402000, 0xffffffffc0402100); /* nor is the next one */
	assert_string_equal(find(k, 0xffffffffc0402000), "");

	kallsyms_forget(k, 0xffffffffc0500000, 0xffffffffc0500100);
	assert_string_equal(find(k, 0xffffffffc0500000), "");
	assert_string_equal(find(k, 0xffffffffc0500100), "four");
	kallsyms_forget(k, 0, UINT64_MAX);
	assert_string_equal(find(k, 0xffffffffc0500100), "");
	assert_string_equal(find(k, 0xffffffffc0400000), "");
	assert_string_equal(find(k, 0xffffffff81000001), "_text");
	kallsyms_forget(k, 0x1000, 0x2000);
	assert_string_equal(find(k, 0xffffffff81000001), "_text");
	kallsyms_free(k);
}

static void says_why_there_are_none(void **state)
{
	(void)state;
	struct kallsyms *k;

	assert_int_equal(load("0000000000000000 T _text\n0000000000000000 t f\n", &k), -EPERM);
	assert_int_equal(load("", &k), -EINVAL);
	assert_int_equal(load("\n\n\xff\xfe", &k), -EINVAL);
	assert_int_equal(kallsyms_load("/does/not/exist", &k), -ENOENT);
}

static void takes_the_kernels_answer_apart(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name, *module;
		uint64_t offset, size;
	} t[] = {
		{"do_it+0x1f/0x2a0", "do_it", "[kernel]", 0x1f, 0x2a0},
		{"ext4_get+0x0/0x10 [ext4]", "ext4_get", "[ext4]", 0, 0x10},
		{"a+b [x]+0x1/0x2 [m]", "a+b [x]", "[m]", 1, 2},
		{"bpf_prog_0123456789abcdef_p+0x1/0x2", "bpf_prog_0123456789abcdef_p", "[bpf]", 1,
		 2},
		{"bpf_prog_0123456789abcdef+0x1/0x2", "bpf_prog_0123456789abcdef", "[bpf]", 1, 2},
		{"bpf_prog_alloc_no_stats+0x1/0x2", "bpf_prog_alloc_no_stats", "[kernel]", 1, 2},
		{"bpf_prog_+0x1/0x2", "bpf_prog_", "[kernel]", 1, 2},
		{"bpf_trampoline_6442+0x1/0x2", "bpf_trampoline_6442", "[bpf]", 1, 2},
		{"bpf_trampoline_enter+0x1/0x2", "bpf_trampoline_enter", "[kernel]", 1, 2},
		{"bpf_dispatcher_xdp+0x1/0x2", "bpf_dispatcher_xdp", "[bpf]", 1, 2},
		{"bpf_dispatcher_prepare+0x1/0x2", "bpf_dispatcher_prepare", "[kernel]", 1, 2},
		{"bpf__tcp_ops_init+0x1/0x2", "bpf__tcp_ops_init", "[bpf]", 1, 2},
		{"0xffffffff81000000", NULL, NULL, 0, 0},
		{"+0x1/0x2", NULL, NULL, 0, 0},
		{"f+0x3/0x2", NULL, NULL, 0, 0},
		{"f+0x/0x2", NULL, NULL, 0, 0},
		{"f+0x1/0x2z", NULL, NULL, 0, 0},
		{"f+0x1/0x22222222222222222", NULL, NULL, 0, 0},
		{"[m]", NULL, NULL, 0, 0},
		{"", NULL, NULL, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		char text[64], *name;
		const char *module;
		uint64_t offset, size;
		strcpy(text, t[i].text);
		int r = ksym_parse(text, &name, &offset, &size, &module);
		assert_int_equal(r, t[i].name ? 0 : -EINVAL);
		if (r == 0) {
			assert_string_equal(name, t[i].name);
			assert_string_equal(module, t[i].module);
			assert_int_equal(offset, t[i].offset);
			assert_int_equal(size, t[i].size);
		}
	}
}

/* The file and the kernel's answers name the same functions, but for the marks of sections. */
static void both_ways_agree(void **state)
{
	(void)state;
	struct kallsyms *file, *ask;
	struct ksym *k;
	char line[1024];
	int same = 0, all = 0;

	if (ksym_open(&k) < 0 || kallsyms_load("/proc/kallsyms", &file) < 0)
		skip(); /* needs root, and a kernel of this decade */
	ksym_close(k);
	assert_int_equal(kallsyms_load(NULL, &ask), 0);
	FILE *f = fopen("/proc/kallsyms", "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && all < 5000) {
		struct symbol a, b;
		const char *ma, *mb;
		uint64_t ip;
		char type;
		if (sscanf(line, "%lx %c", &ip, &type) != 2 || type != 't' ||
		    strstr(line, "__pfx_"))
			continue;
		kallsyms_find(file, ip + 1, &a, &ma);
		kallsyms_find(ask, ip + 1, &b, &mb);
		same += strcmp(a.name, b.name) == 0 && strcmp(ma, mb) == 0 && a.start == b.start;
		if (strcmp(mb, "[kernel]") == 0)
			assert_true(b.before == ip + 1 - b.start && b.after > 0);
		else
			assert_int_equal(b.after, 0);
		for (int i = 0; i < 2 && b.after; i++) { /* its first byte, its last */
			struct symbol c;
			kallsyms_find(ask, i ? ip + b.after : b.start, &c, &mb);
			assert_int_equal(c.start, b.start);
		}
		all++;
	}
	fclose(f);
	assert_true(all > 100);
	assert_true(same > all - all / 100);
	assert_true(kallsyms_bytes(ask) > 0);
	kallsyms_free(file);
	kallsyms_free(ask);
}

/* A BPF program of that name; false if its address is not told. Caller closes *ret_fd. */
static bool load_program(const char *name, int *ret_fd, uint64_t *ret_addr)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns, ARRAY_SIZE(insns),
			       NULL);
	struct bpf_prog_info info = {.nr_jited_ksyms = 1, .jited_ksyms = (uintptr_t)ret_addr};
	uint32_t len = sizeof(info);

	*ret_addr = 0;
	*ret_fd = fd;
	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && *ret_addr;
}

static void on_event(void *ctx, const struct sideband_record *e)
{
	if (e->type == SIDEBAND_CODE)
		resolver_kernel_changed(ctx, e->start, e->end);
}

static const char *name_at(struct resolver *r, struct profile *p, uint64_t addr, uint64_t time,
			   bool *ret_lasting)
{
	struct frame_location at = {.file = LOCATION_KERNEL, .offset = addr};
	uint32_t frames[RESOLVE_MAX];

	*ret_lasting = true;
	assert_int_equal(resolve_frames(r, NULL, &at, time, false, ret_lasting, frames), 1);
	return profile_str(p, p->frames[frames[0]].name);
}

static const char *name_of(struct resolver *r, struct profile *p, uint64_t addr)
{
	bool lasting;
	const char *name = name_at(r, p, addr, 1, &lasting);

	assert_true(lasting);
	return name;
}

static uint64_t changed_ns;

static uint64_t get_changed_ns(const struct module_watch *none)
{
	(void)none;
	return changed_ns;
}

/* The address of a BPF program that went is soon another's. */
static void names_of_programs_go_with_them(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct processes *ps = processes_new();
	struct resolver_options o = {.functions = true, .modules_changed_ns = get_changed_ns};
	struct resolver *r = resolver_new(p, ps, &o);
	struct sideband *b;
	uint64_t addr, other;
	int fd, fd_other;

	changed_ns = 0;
	if (sideband_new(&b) < 0 || !load_program("first", &fd, &addr))
		skip(); /* needs root, and a kernel that compiles BPF */
	sideband_drain(b, on_event, r);
	assert_non_null(strstr(name_of(r, p, addr), "first"));
	uint32_t version = resolver_kernel_version(r, 1);
	assert_true(load_program("elsewhere", &fd_other, &other));
	sideband_drain(b, on_event, r); /* what nobody asked for changes nothing */
	assert_int_equal(resolver_kernel_version(r, 1), version);
	assert_non_null(strstr(name_of(r, p, addr), "first"));

	close(fd);
	for (int i = 0; i < 30000 && resolver_kernel_version(r, 1) == version; i++) {
		usleep(1000); /* it goes some time later */
		sideband_drain(b, on_event, r);
	}
	assert_int_not_equal(resolver_kernel_version(r, 1), version);
	assert_null(strstr(name_of(r, p, addr), "first"));

	close(fd_other);
	sideband_free(b);
	resolver_free(r);
	processes_free(ps);
	profile_free(p);
}

/*
 * Where the kernel's names come from a file, which is read only once in a while: a module has no
 * name meanwhile, and never that of one that was there before.
 */
static void a_module_never_has_the_name_of_another(void **state)
{
	(void)state;
	enum { SECOND = 1000000000 };
	static const uint64_t fixed = 0xffffffff81000010, moving = 0xffffffffc0400010,
			      unknown = 0xffffffffc0400110;
	static const char before[] = "ffffffff81000000 T _text\nffffffff82000000 T late\n"
				     "ffffffffc0400000 t one\t[ext4]\n";
	static const char after[] = "ffffffff81000000 T _text\nffffffff82000000 T late\n"
				    "ffffffffc0400000 t two\t[nfs]\n"
				    "ffffffffc0400100 t three\t[nfs]\n";
	char path[64];
	int fd = make_file(before, path);
	bool lasting;
	struct profile *p = profile_new();
	struct processes *ps = processes_new();
	struct resolver_options o = {
		.functions = true, .modules_changed_ns = get_changed_ns, .kallsyms = path};
	struct resolver *r = resolver_new(p, ps, &o);

	changed_ns = 0;
	assert_string_equal(name_at(r, p, moving, SECOND, &lasting), "one");
	assert_true(lasting);
	uint32_t version = resolver_kernel_version(r, SECOND);

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, after, strlen(after), 0), strlen(after));
	changed_ns = 3ull * SECOND;
	assert_string_equal(name_at(r, p, moving, 4ull * SECOND, &lasting),
			    "[kernel+0xffffffffc0400010]");
	assert_false(lasting);
	assert_string_equal(name_at(r, p, unknown, 4ull * SECOND, &lasting),
			    "[kernel+0xffffffffc0400110]");
	assert_false(lasting);
	assert_string_equal(name_at(r, p, fixed, 4ull * SECOND, &lasting), "_text");
	assert_true(lasting);
	assert_int_not_equal(resolver_kernel_version(r, 4ull * SECOND), version);

	assert_string_equal(name_at(r, p, moving, 12ull * SECOND, &lasting), "two");
	assert_true(lasting);
	assert_string_equal(name_at(r, p, unknown, 12ull * SECOND, &lasting), "three");
	/* A sample of before that comes late may have met the one that has gone. */
	assert_int_equal(resolver_kernel_version(r, 2ull * SECOND), 0);
	assert_string_equal(name_at(r, p, moving, 2ull * SECOND, &lasting),
			    "[kernel+0xffffffffc0400010]");
	assert_false(lasting);
	assert_string_equal(name_at(r, p, 0xffffffff82000001, 2ull * SECOND, &lasting), "late");
	assert_string_equal(name_at(r, p, moving, 13ull * SECOND, &lasting), "two");

	/* What was read before stays true when the file cannot be read again. */
	close(fd);
	changed_ns = 30ull * SECOND;
	assert_string_equal(name_at(r, p, moving, 31ull * SECOND, &lasting),
			    "[kernel+0xffffffffc0400010]");
	assert_string_equal(name_at(r, p, fixed, 31ull * SECOND, &lasting), "_text");

	resolver_free(r);
	processes_free(ps);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_functions_modules_and_programs),
		cmocka_unit_test(forgets_what_came_or_went),
		cmocka_unit_test(says_why_there_are_none),
		cmocka_unit_test(takes_the_kernels_answer_apart),
		cmocka_unit_test(both_ways_agree),
		cmocka_unit_test(names_of_programs_go_with_them),
		cmocka_unit_test(a_module_never_has_the_name_of_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
