#include "unit/unit.h"

#include <errno.h>

#include "ingest/ingest.h"
#include "ingest/module.h"
#include "ingest/perfline.h"
#include "render/render.h"

struct read {
	struct profile *p;
	struct ingest_report report;
	int err;
};

static struct read read_bytes(const char *bytes, size_t len, const struct ingest_options *o)
{
	struct read r = {.p = profile_new()};
	FILE *f = fmemopen((void *)bytes, len, "r");

	r.err = ingest_read(f, o, r.p, &r.report);
	fclose(f);
	return r;
}

static struct read read_text(const char *text)
{
	return read_bytes(text, strlen(text), &(struct ingest_options){});
}

/* "a;b" of a stack, with kinds other than user behind a colon: "a;b:1". */
static const char *path(const struct profile *p, uint32_t stack, char *buf, size_t size)
{
	size_t used = 0;

	if (p->stacks[stack].parent) {
		path(p, p->stacks[stack].parent, buf, size);
		used = strlen(buf);
		buf[used++] = ';';
	}
	const struct frame *f = &p->frames[p->stacks[stack].frame];
	int n = snprintf(buf + used, size - used, "%s", profile_str(p, f->name));
	if (f->kind != FRAME_USER)
		snprintf(buf + used + n, size - used - (size_t)n, ":%d", f->kind);
	return buf;
}

static uint64_t value_of(const struct profile *p, const char *stack)
{
	char buf[4096];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		if (strcmp(path(p, p->samples[i].stack, buf, sizeof(buf)), stack) == 0)
			sum += p->samples[i].value;
	return sum;
}

static void folded_lines_add_up(void **state)
{
	(void)state;
	struct read r = read_text("# a comment\n"
				  "main;foo;bar 3\n"
				  "main;foo;bar 4\r\n"
				  "\n"
				  "main;foo;barn 1\n"
				  "main;foo 2\n"
				  "main;operator new(unsigned long, int) 5  \n"
				  "main;;foo; 10\n"
				  "main;zero 0\n"
				  "main;entry_[k];tail_[i];jit_[j];w_[w]\t6");

	assert_int_equal(r.err, 0);
	assert_int_equal(r.report.format, INGEST_FOLDED);
	assert_int_equal(value_of(r.p, "main;foo;bar"), 7);
	assert_int_equal(value_of(r.p, "main;foo;barn"), 1);
	assert_int_equal(value_of(r.p, "main;foo"), 12);
	assert_int_equal(value_of(r.p, "main;operator new(unsigned long, int)"), 5);
	assert_int_equal(value_of(r.p, "main;entry:1;tail:2;jit:4;w_[w]"), 6);
	assert_int_equal(r.p->sample_count, 5);
	assert_string_equal(r.p->info.unit, "samples");
	profile_free(r.p);
}

static void fractions_keep_their_sum(void **state)
{
	(void)state;
	struct read r = read_text("a 0.25\na 0.25\nb 1.5\nc 2.0\n");

	assert_int_equal(r.err, 0);
	assert_int_equal(value_of(r.p, "a") + value_of(r.p, "b") + value_of(r.p, "c"), 4);
	profile_free(r.p);
}

static void deep_stacks_are_cut_and_counted(void **state)
{
	(void)state;
	size_t depth = INGEST_DEPTH_MAX + 10;
	char *line = malloc(depth * 4 + 16);
	char *at = line;

	for (int twice = 0; twice < 2; twice++) {
		for (size_t i = 0; i < depth; i++)
			at += sprintf(at, "f;");
		at += sprintf(at, " 7\n");
		if (twice == 0)
			line = realloc(line, depth * 8), at = line + strlen(line);
	}
	struct read r = read_text(line);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.p->info.truncated, 14);
	assert_int_equal(r.p->sample_count, 1);
	assert_int_equal(r.p->samples[0].value, 14);
	assert_int_equal(r.p->stack_count, INGEST_DEPTH_MAX + 2);
	profile_free(r.p);
	free(line);
}

static void errors_name_the_place(void **state)
{
	(void)state;
	struct {
		const char *in, *where, *why;
	} t[] = {
		{"a;b 1\na;b\n", "line 2", "no count"},
		{"a;b 1\na;b -1\n", "line 2", "no count"},
		{"a;b 1\n\n#\n 5\n", "line 4", "no stack"},
		{"a 18446744073709551615\nb 1\n", "line 1", "63 bits"},
		{"a 9223372036854775807\nb 1\n", "line 2", "63 bits"},
		{"a 99999999999999999999999\n", "line 1", "63 bits"},
		{"a;b 1 2\na;c 3 4\n", "line 1", "two counts"},
		{"hello\n", "", "neither"},
		{"PERFILE2xxxxxxxxxx", "", "perf script"},
		{"{\"a\": 1}\n", "", "neither"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct read r = read_text(t[i].in);
		assert_true(r.err < 0);
		assert_string_equal(r.report.where, t[i].where);
		assert_non_null(strstr(r.report.why, t[i].why));
		profile_free(r.p);
	}
}

static void a_name_that_ends_in_a_number_is_no_difference(void **state)
{
	(void)state;
	struct read r = read_text("main;worker 1 5\nmain;idle 2\n");

	assert_int_equal(r.err, 0);
	assert_int_equal(value_of(r.p, "main;worker 1"), 5);
	profile_free(r.p);
}

static void perf_headers(void **state)
{
	(void)state;
	struct {
		const char *line, *comm, *pid, *tid, *event;
	} t[] = {
		{"busy 15814  1899.678725:    2004008 cpu-clock: ", "busy", "", "15814",
		 "cpu-clock"},
		{"swapper     0 [003] 12.000001: cycles:ppp: ", "swapper", "", "0", "cycles:ppp"},
		{"Web Content 3 15814/15816 [001] 5.5: 1 cycles:u:", "Web Content 3", "15814",
		 "15816", "cycles:u"},
		{"   a [1] b: c    12  5.123456789: 7 sched:sched_switch: prev_comm=x 9 [1] 2.0: ",
		 "a [1] b: c", "", "12", "sched:sched_switch"},
		{"kworker/0:1-ev    99 cpu-clock:  ffffffff81 f+0x1 ([kernel.kallsyms])",
		 "kworker/0:1-ev", "", "99", "cpu-clock"},
		{"Web Content 3    16 ", "Web Content 3", "", "16", ""},
	};
	struct perf_header h;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_true(perfline_header(t[i].line, strlen(t[i].line), &h));
		const struct {
			struct perf_text got;
			const char *want;
		} same[] = {{h.comm, t[i].comm},
			    {h.pid, t[i].pid},
			    {h.tid, t[i].tid},
			    {h.event, t[i].event}};
		for (size_t k = 0; k < 4; k++) {
			assert_int_equal(same[k].got.len, strlen(same[k].want));
			assert_memory_equal(same[k].got.s ? same[k].got.s : "", same[k].want,
					    same[k].got.len);
		}
	}
	const char * not [] = {"Web Content 3", "swapper 0 0.000000: PERF_RECORD_MMAP -1/0: [0x0]",
			       "", "   ", "main;foo;bar"};
	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
		assert_false(perfline_header(not [i], strlen(not [i]), &h));
}

static void perf_frames(void **state)
{
	(void)state;
	struct {
		const char *line, *symbol, *module;
		int inlined;
	} t[] = {
		{"\t 11a5 spin+0x1c (/tmp/busy)", "spin", "/tmp/busy", 0},
		{"\tffffffff81 [unknown] ([kernel.kallsyms])", "", "[kernel.kallsyms]", 0},
		{"\t12 foo(int, char const*)+0x12 (/tmp/a (b)/c (deleted))",
		 "foo(int, char const*)", "/tmp/a (b)/c (deleted)", 0},
		{"\t12 operator()(int) const", "operator()(int) const", "", 0},
		{"\t12 foo(int)", "foo(int)", "", 0},
		{"\t401136 leaf (inlined)", "leaf", "", 1},
		{"\t0 [unknown] ([unknown])", "", "", 0},
		{"\tdeadbeef", "", "", 0},
	};
	struct perf_frame f;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_true(perfline_frame(t[i].line, strlen(t[i].line), &f));
		assert_int_equal(f.symbol.len, strlen(t[i].symbol));
		assert_memory_equal(f.symbol.s, t[i].symbol, f.symbol.len);
		assert_int_equal(f.module.len, strlen(t[i].module));
		assert_memory_equal(f.module.s ? f.module.s : "", t[i].module, f.module.len);
		assert_int_equal(f.inlined, t[i].inlined);
	}
	assert_false(perfline_frame("\tnot hex", 8, &f));
	assert_false(perfline_frame("\t11112222333344445 f", 20, &f));
}

static void perf_samples(void **state)
{
	(void)state;
	static const char text[] = "# header\n"
				   "my app  100/101 [000] 1.000000: 1 cycles:u: \n"
				   "\t    10 leaf (inlined)\n"
				   "\t    10 outer+0x4 (/bin/app)\n"
				   "\t    20 main+0x9 (/bin/app)\n"
				   "\n"
				   "my app  100/101 [000] 1.500000: 1 cycles:u: \n"
				   "\tffffffff81000000 do_idle+0x1 ([kernel.kallsyms])\n"
				   "\t    20 main+0x9 (/bin/app)\n"
				   "\tnonsense\n"
				   "\n"
				   "my app  100/101 [000] 1.600000: 1 instructions:u: \n"
				   "\t    20 main+0x9 (/bin/app)\n"
				   "\n"
				   "my app  100/102 [000] 2.000000: 1 cycles:u: \n"
				   "\t    30 [unknown] (/usr/lib/libx.so)\n";
	struct read r = read_text(text);

	assert_int_equal(r.err, 0);
	assert_int_equal(r.report.format, INGEST_PERF);
	assert_int_equal(r.report.skipped, 1);
	assert_int_equal(r.report.skipped_first, 10);
	assert_int_equal(r.report.other_samples, 1);
	assert_int_equal(value_of(r.p, "main;outer;leaf:2"), 1);
	assert_int_equal(value_of(r.p, "main;do_idle:1"), 1);
	assert_int_equal(value_of(r.p, "[libx.so+0x30]"), 1);
	assert_int_equal(r.p->info.duration_ns, 1000000000);
	assert_string_equal(profile_label(r.p, r.p->samples[2].series, "tid"), "102");
	assert_string_equal(profile_label(r.p, r.p->samples[2].series, "pid"), "100");
	assert_string_equal(profile_label(r.p, r.p->samples[2].series, "comm"), "my app");
	profile_free(r.p);

	r = read_bytes(text, strlen(text), &(struct ingest_options){.sample_type = "instructions"});
	assert_int_equal(r.err, 0);
	assert_int_equal(r.p->sample_count, 1);
	assert_int_equal(r.report.other_samples, 3);
	profile_free(r.p);

	r = read_bytes(text, strlen(text), &(struct ingest_options){.sample_type = "nothing"});
	assert_int_equal(r.err, -EINVAL);
	assert_non_null(strstr(r.report.why, "no sample of event 'nothing'"));
	profile_free(r.p);
}

static uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

/* Everything that pprof can hold comes back: inlined frames, addresses, modules, labels, sums. */
static void pprof_comes_back(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	p->info = (struct profile_info){.type = "cpu",
					.unit = "nanoseconds",
					.period = 10101010,
					.start_ns = 1700000000000000000,
					.duration_ns = 5000000000,
					.lost = 3};
	uint32_t m = profile_module(p, &(struct module){.name = str(p, "app"),
							.path = str(p, "/usr/bin/app"),
							.build_id = str(p, "abcdef"),
							.start = 0x1000,
							.end = 0x9000,
							.offset = 0x1000});
	struct frame frames[] = {
		{.name = str(p, "main"), .module = m, .addr = 0x1100},
		{.name = str(p, "outer"),
		 .module = m,
		 .addr = 0x1200,
		 .line = 7,
		 .source = str(p, "a.c")},
		{.name = str(p, "inner"), .module = m, .addr = 0x1200, .kind = FRAME_INLINED},
		{.name = str(p, "innermost"), .module = m, .addr = 0x1200, .kind = FRAME_INLINED},
		{.name = str(p, "do_syscall"), .kind = FRAME_KERNEL},
	};
	uint32_t stack = 0;
	struct label labels[] = {{str(p, "comm"), str(p, "x y")}, {str(p, "pid"), str(p, "42")}};
	uint32_t series = profile_series(p, labels, 2);
	for (size_t i = 0; i < 5; i++) {
		stack = profile_stack(p, stack, profile_frame(p, &frames[i]));
		profile_add(p, series, stack, i + 1, (i + 1) * 10101010);
	}

	char *bytes = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&bytes, &len);
	assert_int_equal(render_pprof(p, &(struct render_options){}, f), 0);
	fclose(f);
	struct read r = read_bytes(bytes, len, &(struct ingest_options){});
	assert_int_equal(r.err, 0);
	assert_int_equal(r.report.format, INGEST_PPROF);

	const struct profile *q = r.p;
	assert_string_equal(q->info.type, "cpu");
	assert_string_equal(q->info.unit, "nanoseconds");
	assert_int_equal(q->info.period, p->info.period);
	assert_int_equal(q->info.start_ns, p->info.start_ns);
	assert_int_equal(q->info.duration_ns, p->info.duration_ns);
	assert_int_equal(q->sample_count, p->sample_count);
	for (uint32_t i = 0; i < q->sample_count; i++) {
		char a[256], b[256];
		assert_string_equal(path(p, p->samples[i].stack, a, sizeof(a)),
				    path(q, q->samples[i].stack, b, sizeof(b)));
		assert_int_equal(p->samples[i].count, q->samples[i].count);
		assert_int_equal(p->samples[i].value, q->samples[i].value);
		assert_string_equal(profile_label(q, q->samples[i].series, "comm"), "x y");
		assert_string_equal(profile_label(q, q->samples[i].series, "pid"), "42");
	}
	const struct frame *outer = &q->frames[q->stacks[q->samples[1].stack].frame];
	assert_int_equal(outer->addr, 0x1200);
	assert_int_equal(outer->line, 7);
	assert_string_equal(profile_str(q, outer->source), "a.c");
	assert_string_equal(profile_str(q, q->modules[outer->module].build_id), "abcdef");
	assert_string_equal(profile_str(q, q->modules[outer->module].path), "/usr/bin/app");
	assert_int_equal(q->modules[outer->module].end, 0x9000);

	/* Cut anywhere, it is an error with a reason, and never a crash. */
	for (size_t n = 0; n < len; n++) {
		struct read cut = read_bytes(bytes, n ? n : 1, &(struct ingest_options){});
		assert_true(cut.err < 0);
		assert_true(cut.report.why[0] != '\0');
		profile_free(cut.p);
	}
	profile_free(r.p);
	profile_free(p);
	free(bytes);
}

static void kinds_of_modules(void **state)
{
	(void)state;
	struct {
		const char *name;
		enum frame_kind kind;
	} t[] = {
		{"[kernel.kallsyms]", FRAME_KERNEL},
		{"[ext4]", FRAME_KERNEL},
		{"/usr/lib/debug/boot/vmlinux-6.1", FRAME_KERNEL},
		{"/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz", FRAME_KERNEL},
		{"/tmp/perf-12.map", FRAME_JIT},
		{"[JIT] tid 12", FRAME_JIT},
		{"bpf_prog_6deef7357e7b4530", FRAME_BPF},
		{"[vdso]", FRAME_USER},
		{"/usr/bin/perf", FRAME_USER},
		{"", FRAME_USER},
		{"/", FRAME_USER},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(module_kind(t[i].name, strlen(t[i].name)), t[i].kind);
}

static void files_of_two_types_do_not_add_up(void **state)
{
	(void)state;
	struct read r = read_text("a;b 1\n");
	struct profile *cpu = profile_new();
	char *bytes = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&bytes, &len);

	cpu->info.type = "cpu";
	cpu->info.unit = "nanoseconds";
	profile_add(cpu, 0, 0, 1, 100);
	assert_int_equal(render_pprof(cpu, &(struct render_options){}, f), 0);
	fclose(f);
	f = fmemopen(bytes, len, "r");
	const struct ingest_options plain = {};
	assert_int_equal(ingest_read(f, &plain, r.p, &r.report), -EINVAL);
	assert_non_null(strstr(r.report.why, "cannot be added up"));
	fclose(f);
	profile_free(cpu);
	profile_free(r.p);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folded_lines_add_up),
		cmocka_unit_test(fractions_keep_their_sum),
		cmocka_unit_test(deep_stacks_are_cut_and_counted),
		cmocka_unit_test(errors_name_the_place),
		cmocka_unit_test(a_name_that_ends_in_a_number_is_no_difference),
		cmocka_unit_test(perf_headers),
		cmocka_unit_test(perf_frames),
		cmocka_unit_test(perf_samples),
		cmocka_unit_test(pprof_comes_back),
		cmocka_unit_test(kinds_of_modules),
		cmocka_unit_test(files_of_two_types_do_not_add_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
