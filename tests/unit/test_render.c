#include "unit/unit.h"

#include "render/render.h"
#include "unit/sample.h"

static char *render(const struct profile *p, const char *format, const struct render_options *o)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_int_equal(render_by_name(format)->render(p, o, f), 0);
	fclose(f);
	return text;
}

#define assert_render(p, format, want, ...)                                                        \
	do {                                                                                       \
		CLEANUP(freep)                                                                     \
		char *got_ = render((p), (format), &(struct render_options){__VA_ARGS__});         \
		assert_string_equal(got_, (want));                                                 \
	} while (0)

static void finds_formats(void **state)
{
	(void)state;
	assert_string_equal(render_by_name("folded")->name, "folded");
	assert_null(render_by_name("nonsense"));
	assert_string_equal(render_by_path("x/y.FOLDED")->name, "folded");
	assert_string_equal(render_by_path("a.txt")->name, "text");
	assert_null(render_by_path("folded"));
	assert_null(render_by_path("x.docx"));
}

static void folded(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=sh,pid=1|main;read;[k]vfs 3", "comm=sh,pid=2|main 2",
				   "comm=awk,pid=3|[j]js;[i]in 1", "[m][truncated];x 7");

	assert_render(p, "folded",
		      "[truncated];x 7\n"
		      "js;in 1\n"
		      "main 2\n"
		      "main;read;vfs 3\n");
	struct render_options all = {.annotations = true};
	all.tree.by_comm = all.tree.delimited = true;
	char *text = render(p, "folded", &all);
	assert_string_equal(text, "[truncated];x 7\n"
				  "awk;js_[j];in_[i] 1\n"
				  "sh;main 2\n"
				  "sh;main;read;-;vfs_[k] 3\n");
	free(text);
	profile_free(p);
}

static void programs_of_bpf_are_code_of_the_kernel(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main;[k]entry;[b]bpf_prog_1_x;[k]bpf_get_stack 3");
	struct render_options all = {.annotations = true};

	all.tree.delimited = true;
	char *text = render(p, "folded", &all);
	assert_string_equal(text, "main;-;entry_[k];bpf_prog_1_x_[k];bpf_get_stack_[k] 3\n");
	free(text);
	profile_free(p);
}

static void folded_splits_where_frames_end(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct frame f = {.name = sample_string(p, "a;b\nc 5")};

	profile_add(p, 0, profile_stack(p, 0, profile_frame(p, &f)), 2, 2);
	profile_add(p, 0, 0, 3, 3);
	assert_render(p, "folded",
		      "[no stack] 3\na:b\xef\xbf\xbd"
		      "c 5 2\n");
	profile_free(p);
}

static void text_in_the_shape_of_bcc(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=sh,pid=1,tid=1|main;read;[k]entry;[k]vfs 3",
				   "comm=sh,pid=1,tid=2|main;read;[k]entry;[k]vfs 3",
				   "comm=sh,pid=2|main 2", "main 1");
	struct render_options o = {.annotations = true};

	o.tree.delimited = true;
	char *text = render(p, "text", &o);
	assert_string_equal(text, "    main\n"
				  "        1\n"
				  "\n"
				  "    main\n"
				  "    -                sh (2)\n"
				  "        2\n"
				  "\n"
				  "    vfs_[k]\n"
				  "    entry_[k]\n"
				  "    --\n"
				  "    read\n"
				  "    main\n"
				  "    -                sh (1)\n"
				  "        6\n"
				  "\n");
	free(text);
	profile_free(p);
}

static void top_counts_a_recursive_function_once(void **state)
{
	(void)state;
	struct profile *p =
		SAMPLE("comm=x|main@app;fib@app;fib@app;fib@app 60",
		       "comm=x|main@app;fib@app;[k]page_fault@[kernel] 30", "comm=x|main@app 1110");
	p->info.type = "cpu";
	p->info.unit = "nanoseconds";
	p->info.period = 10101010;
	p->info.duration_ns = 12500000000;
	p->info.truncated = 3;
	struct render_options o = {};

	o.tree.by_comm = true;
	char *text = render(p, "top", &o);
	assert_string_equal(
		text,
		"cpu: 1,200 samples in 12.5 s at 99 Hz, 0 lost, 3 truncated\n\n"
		"       SELF       %      TOTAL       %  FUNCTION                                  "
		"          MODULE\n"
		"      1,110  92.50%      1,200 100.00%  main                                      "
		"          app\n"
		"         60   5.00%         90   7.50%  fib                                       "
		"          app\n"
		"         30   2.50%         30   2.50%  page_fault                                "
		"          [kernel]\n");
	free(text);
	profile_free(p);
}

static void inlined_frames_are_marked(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main@app;[i]tiny@app 60", "main@app;tiny@app;[j]js 40");
	struct render_options o = {.annotations = true};

	char *text = render(p, "text", &o);
	assert_non_null(strstr(text, "    tiny_[i]\n    main\n"));
	assert_non_null(strstr(text, "    js_[j]\n    tiny\n    main\n"));
	free(text);
	text = render(p, "top", &o);
	assert_non_null(strstr(text, "  tiny (inlined)  "));
	assert_non_null(strstr(text, "  tiny  "));
	free(text);
	text = render(p, "json", &o);
	assert_non_null(
		strstr(text, "{\"name\":\"tiny\",\"module\":\"app\",\"kind\":\"inlined\"}"));
	free(text);
	text = render(p, "speedscope", &o);
	assert_non_null(strstr(text, "{\"name\":\"tiny (inlined)\",\"file\":\"app\"}"));
	free(text);
	text = render(p, "svg", &o);
	assert_non_null(strstr(text, ">inlined</text>"));
	free(text);
	profile_free(p);
}

static void text_without_all_labels(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=sh|main 1", "[m][truncated];main 2");

	assert_render(p, "text",
		      "    main\n"
		      "    -                sh\n"
		      "        1\n"
		      "\n"
		      "    main\n"
		      "    [truncated]\n"
		      "        2\n"
		      "\n");
	profile_free(p);
}

static void speedscope_has_a_profile_for_each_process(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=sh,pid=1,thread=a,tid=1|main@app;work@app 3",
				   "comm=sh,pid=1,thread=b,tid=2|main@app 2",
				   "comm=awk,pid=2,thread=awk,tid=2|[k]idle@[kernel] 4");
	struct render_options o = {.title = "\"t\""};

	o.tree.column = TREE_VALUE;
	p->info.unit = "nanoseconds";
	char *text = render(p, "speedscope", &o);
	assert_non_null(strstr(text, "\"name\":\"\\\"t\\\"\",\"activeProfileIndex\":0"));
	assert_non_null(strstr(text, "{\"name\":\"idle\",\"file\":\"[kernel]\"}"));
	/* Frames: 0 awk (2), 1 idle, 2 main, 3 sh (1), 4 work. */
	assert_non_null(strstr(text, "\"endValue\":90,\"samples\":[\n[0,1],\n[3,2],\n[3,2,4]],\n"
				     "\"weights\":[40,20,30]"));
	assert_non_null(strstr(text, "{\"type\":\"sampled\",\"name\":\"sh (1)\",\"unit\":"
				     "\"nanoseconds\",\"startValue\":0,\"endValue\":50,"
				     "\"samples\":[\n[2],\n[2,4]],\n\"weights\":[20,30]}"));
	free(text);

	o.tree.by_thread = true;
	text = render(p, "speedscope", &o);
	assert_non_null(strstr(text, "\"name\":\"b (2)\",\"unit\""));
	assert_null(strstr(text, "sh (1)"));
	free(text);
	profile_free(p);
}

/* Of what varies from sample to sample, time says nothing of their number. */
static void svg_has_the_period_of_a_clock(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main;work 3", "main 2");
	struct render_options o = {};

	o.tree.column = TREE_VALUE;
	p->info.unit = "nanoseconds";
	static const uint64_t periods[] = {0, 7, 10}; /* the last is that of its samples */
	for (size_t i = 0; i < ARRAY_SIZE(periods); i++) {
		p->info.period = periods[i];
		CLEANUP(freep) char *text = render(p, "svg", &o);
		bool has = strstr(text, "\"unit\":\"nanoseconds\",\"period\":10,");
		assert_int_equal(has, periods[i] == 10);
	}
	profile_free(p);
}

static void svg_colours_kinds(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main@app;read@libc.so.6;[k]vfs@[kernel] 1", "[g]main.run@go 1",
				   "[j]js@node 1", "[b]probe@bpf 1", "main@app;[i]in@app 1",
				   "[m][truncated];x@libfoo-2.so 1");
	char *text = render(p, "svg", &(struct render_options){});
	char *data = strstr(text, "\"classes\":\"");

	/* In order of names: all, [truncated], in, js, main, main.run, probe, read, vfs, x. */
	assert_non_null(data);
	data += strlen("\"classes\":\"");
	static const char want[] = "mmijugblkl";
	for (size_t i = 0; want[i]; i++)
		assert_int_equal(data[2 * i], want[i]);
	assert_non_null(strstr(text, ">kernel</text>"));
	assert_null(strstr(text, ">interpreted</text>"));
	free(text);
	profile_free(p);
}

static void every_format_takes_an_empty_profile(void **state)
{
	(void)state;
	struct profile *p = profile_new();

	for (const struct renderer *r = renderers; r->name; r++) {
		char *text = NULL;
		size_t len;
		FILE *f = open_memstream(&text, &len);
		assert_int_equal(r->render(p, &(struct render_options){}, f), 0);
		fclose(f);
		free(text);
	}
	profile_free(p);
}

static size_t columns(const char *line)
{
	size_t n = 0;

	for (; *line; line++)
		n += ((unsigned char)*line & 0xc0) != 0x80;
	return n;
}

static void top_fits_100_columns(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	char name[400], *save;

	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%s%0*d\xc3\xbc\xc3\xbc\xc3\xbc@%0*d 1000000000000000",
			 i % 2 ? "[i]" : "", i * 4, i, i * 2, i);
		sample_add(p, name);
	}
	struct render_options o = {.top = 40};
	char *text = render(p, "top", &o);
	int lines = 0;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save), lines++)
		assert_true(columns(l) <= 100);
	assert_int_equal(lines, 43); /* a sentence, the head, 40 rows, what is missing */
	free(text);

	o.tree.column = TREE_VALUE;
	p->info.unit = "nanoseconds";
	text = render(p, "top", &o);
	assert_non_null(strstr(text, "2.00%"));
	free(text);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_formats),
		cmocka_unit_test(folded),
		cmocka_unit_test(programs_of_bpf_are_code_of_the_kernel),
		cmocka_unit_test(folded_splits_where_frames_end),
		cmocka_unit_test(text_in_the_shape_of_bcc),
		cmocka_unit_test(text_without_all_labels),
		cmocka_unit_test(speedscope_has_a_profile_for_each_process),
		cmocka_unit_test(svg_has_the_period_of_a_clock),
		cmocka_unit_test(svg_colours_kinds),
		cmocka_unit_test(every_format_takes_an_empty_profile),
		cmocka_unit_test(top_counts_a_recursive_function_once),
		cmocka_unit_test(inlined_frames_are_marked),
		cmocka_unit_test(top_fits_100_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
