#include "unit/unit.h"

#include "collect/cpus.h"
#include "collect/ticks.h"
#include "process/maps.h"
#include "process/process.h"

static struct mapping map(uint64_t start, uint64_t end, uint32_t path)
{
	return (struct mapping){.start = start, .end = end, .offset = start, .path = path};
}

static void put(struct maps *m, uint64_t start, uint64_t end, uint32_t path)
{
	struct mapping new = map(start, end, path);

	maps_insert(m, &new);
}

static void a_mapping_replaces_what_it_covers(void **state)
{
	(void)state;
	struct maps *m = maps_new();

	put(m, 100, 200, 1);
	put(m, 300, 400, 2);
	put(m, 120, 150, 3); /* inside: both ends of 1 stay */
	assert_int_equal(m->count, 4);
	assert_int_equal(maps_find(m, 119)->path, 1);
	assert_int_equal(maps_find(m, 120)->path, 3);
	assert_int_equal(maps_find(m, 150)->path, 1);
	assert_int_equal(maps_find(m, 150)->offset, 150); /* the right end knows its offset */
	assert_null(maps_find(m, 200));
	put(m, 140, 350, 4); /* over the rest of 3 and 1, and the beginning of 2 */
	assert_int_equal(maps_find(m, 139)->path, 3);
	assert_int_equal(maps_find(m, 140)->path, 4);
	assert_int_equal(maps_find(m, 350)->path, 2);
	assert_int_equal(maps_find(m, 350)->offset, 350);
	put(m, 0, 1000, 5);
	assert_int_equal(m->count, 1);
	maps_unref(m);
}

/* V8 makes its code writable and back: the kernel tells of it as of a new mapping. */
static void memory_that_is_mapped_again_replaces_nothing(void **state)
{
	(void)state;
	struct maps *m = maps_new();
	struct mapping memory = {.start = 120, .end = 150, .path = 7}; /* as of /proc: no offset */
	struct mapping file = {.start = 120, .end = 150, .path = 8, .inode = 9};

	put(m, 100, 200, 0);
	put(m, 200, 300, 0);
	assert_false(maps_replaces(m, &memory));
	assert_true(maps_replaces(m, &file));
	assert_true(maps_is_anonymous(m, 120, 200));
	assert_false(maps_is_anonymous(m, 120, 201)); /* two mappings */
	maps_insert(m, &file);
	assert_true(maps_replaces(m, &memory));
	assert_false(maps_is_anonymous(m, 120, 150));
	assert_false(maps_is_anonymous(m, 300, 301));
	maps_unref(m);
}

/* Against a plain array of bytes that does the same. */
static void random_mappings_are_what_was_mapped_last(void **state)
{
	(void)state;
	enum { SPACE = 512 };
	uint32_t truth[SPACE] = {};
	struct maps *m = maps_new();
	unsigned seed = 1;

	for (uint32_t i = 1; i < 5000; i++) {
		uint64_t start = (uint64_t)rand_r(&seed) % SPACE;
		uint64_t end = start + 1 + (uint64_t)rand_r(&seed) % (SPACE - start);
		if (rand_r(&seed) % 8)
			end = start + 1 + (end - start) % 20;
		put(m, start, end, i);
		for (uint64_t at = start; at < end && at < SPACE; at++)
			truth[at] = i;
		for (uint64_t at = 0; at < SPACE; at++) {
			const struct mapping *found = maps_find(m, at);
			assert_int_equal(found ? found->path : 0, truth[at]);
			if (found) /* whatever was cut off, offsets still follow addresses */
				assert_int_equal(found->offset, found->start);
		}
	}
	maps_unref(m);
}

static void a_child_shares_until_it_maps(void **state)
{
	(void)state;
	struct maps *parent = maps_new();
	put(parent, 100, 200, 1);
	struct maps *child = maps_own(maps_ref(parent));

	assert_ptr_not_equal(parent, child);
	uint64_t before[] = {parent->version, child->version};
	assert_int_not_equal(before[0], before[1]);
	put(child, 300, 400, 2);
	assert_int_equal(parent->version, before[0]);
	assert_int_not_equal(child->version, before[0]);
	assert_int_not_equal(child->version, before[1]);
	assert_null(maps_find(parent, 300));
	assert_non_null(maps_find(child, 100));
	maps_unref(parent);
	maps_unref(child);
}

static struct sideband_record event(enum sideband_type type, uint32_t pid)
{
	return (struct sideband_record){.type = type, .pid = pid, .name = "x"};
}

/* Pids far above any real one, so that /proc has nothing to say about them. */
enum { A = 0x7ffffff0, B = 0x7ffffff1 };

static void mappings_are_capped(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	struct sideband_record e = event(SIDEBAND_EXEC, A);

	processes_record(ps, &e);
	e = event(SIDEBAND_MAP, A);
	for (uint64_t i = 0; i < MAPS_MAX + 10; i++) {
		e.start = 0x1000 + 2 * i, e.end = e.start + 1;
		processes_record(ps, &e);
	}
	assert_int_equal(processes_get(ps, A, 77, 1)->maps->count, MAPS_MAX);
	struct processes_stats stats;
	processes_stats(ps, &stats);
	assert_int_equal(stats.mappings_dropped, 10);
	processes_free(ps);
}

static void events_keep_mappings_without_proc(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	struct sideband_record e = event(SIDEBAND_EXEC, A);
	processes_record(ps, &e);
	e = event(SIDEBAND_MAP, A);
	e.start = 0x1000, e.end = 0x2000, e.name = "/bin/a (deleted)";
	processes_record(ps, &e);

	struct process *p = processes_get(ps, A, 77, 1);
	struct mapping *m = process_find(ps, p, 0x1800, 1);
	assert_non_null(m);
	assert_string_equal(process_path(ps, m), "/bin/a");

	e = event(SIDEBAND_FORK, B);
	e.parent = A;
	processes_record(ps, &e);
	assert_non_null(process_find(ps, processes_get(ps, B, 78, 2), 0x1800, 2));
	e = event(SIDEBAND_EXEC, B); /* the child runs something else: the parent stays */
	processes_record(ps, &e);
	assert_null(process_find(ps, processes_get(ps, B, 78, 3), 0x1800, 3));
	assert_non_null(process_find(ps, processes_get(ps, A, 77, 3), 0x1800, 3));

	struct processes_stats stats;
	processes_stats(ps, &stats);
	assert_int_equal(stats.maps_read, 0);
	processes_free(ps);
}

/* What a parent had before its mappings were read, and what its child had, are two things. */
static void a_fork_has_early_mappings_of_its_own(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	uint32_t self = (uint32_t)getpid();
	struct process *parent = processes_get(ps, self, 1, 1); /* read later than the sample */
	uint64_t here = (uint64_t)(uintptr_t)a_fork_has_early_mappings_of_its_own;

	assert_non_null(parent->early);
	assert_non_null(maps_find(parent->early, here));
	struct sideband_record e = event(SIDEBAND_FORK, B);
	e.parent = self, e.time = 2;
	processes_record(ps, &e);
	struct process *child = processes_get(ps, B, 5, 3);
	e = event(SIDEBAND_EXEC, B); /* another program */
	e.time = 4;
	processes_record(ps, &e);
	assert_null(child->early); /* events tell all of it */
	assert_null(maps_find(child->maps, here));
	assert_non_null(maps_find(parent->early, here));

	e = event(SIDEBAND_FORK, A); /* after the reading, all is known */
	e.parent = self, e.time = parent->read_ns + 1;
	processes_record(ps, &e);
	child = processes_get(ps, A, 6, parent->read_ns + 2);
	assert_null(child->early);
	assert_non_null(maps_find(child->maps, here));
	processes_free(ps);
}

static void a_reused_pid_is_another_process(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	struct sideband_record e = event(SIDEBAND_EXEC, A);
	processes_record(ps, &e);
	e = event(SIDEBAND_MAP, A);
	e.start = 0x1000, e.end = 0x2000;
	processes_record(ps, &e);
	assert_non_null(process_find(ps, processes_get(ps, A, 77, 1), 0x1800, 1));
	/* The same pid with another start time, and no word of how it came to be. */
	assert_null(process_find(ps, processes_get(ps, A, 99, 2), 0x1800, 2));
	processes_free(ps);
}

static void the_ended_are_forgotten(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	struct processes_stats stats;

	for (uint32_t i = 0; i < 1000; i++) {
		struct sideband_record e = event(SIDEBAND_FORK, 0x70000000 + i);
		processes_record(ps, &e);
		e.type = SIDEBAND_EXIT;
		processes_record(ps, &e);
	}
	for (int i = 0; i < 4; i++)
		processes_sweep(ps);
	processes_stats(ps, &stats);
	assert_int_equal(stats.known, 0);
	processes_free(ps);
}

static void own_mappings_are_read(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	struct process *p = processes_get(ps, (uint32_t)getpid(), 1, 1);
	struct mapping *m = process_find(ps, p, (uint64_t)(uintptr_t)own_mappings_are_read, 1);

	assert_non_null(m);
	uint32_t file = process_file(ps, p, m);
	assert_true(file > 0);
	const struct mapped_file *f = mapped_files_get(processes_mapped_files(ps), file);
	assert_string_equal(f->name, "test_process");
	assert_true(f->build_id_len > 0 && f->fd >= 0);
	/* The same file from another mapping is the same file. */
	struct mapping again = *m;
	again.file = 0;
	assert_int_equal(process_file(ps, p, &again), file);
	processes_free(ps);
}

static void tell(struct processes *ps, struct sideband_record e)
{
	processes_record(ps, &e);
}

/* A program is known from its exec on, whatever address a sample has, and whatever was read before.
 */
static void a_program_is_what_events_say_since_its_exec(void **state)
{
	(void)state;
	struct processes *ps = processes_new();
	uint32_t me = (uint32_t)getpid();
	uint64_t somewhere = (uint64_t)(uintptr_t)processes_new;
	struct process *p = processes_get(ps, me, 1, 10); /* which reads what we have mapped */
	struct processes_stats stats;

	assert_non_null(p->early);
	struct maps *before = maps_ref(p->early); /* as a sample that waits has it */
	tell(ps,
	     (struct sideband_record){.type = SIDEBAND_EXEC, .pid = me, .time = 20, .name = "x"});
	tell(ps, (struct sideband_record){.type = SIDEBAND_MAP,
					  .pid = me,
					  .time = 30,
					  .start = 0x1000,
					  .end = 0x2000,
					  .name = "/bin/x"});
	assert_null(maps_find(before, somewhere)); /* may have been of the new program */
	maps_unref(before);
	p = processes_get(ps, me, 1, 40);
	assert_null(p->early);
	assert_non_null(process_find(ps, p, 0x1000, 40));
	assert_null(process_find(ps, p, 0x5000, 40));
	assert_non_null(process_find(ps, p, 0x1000, 50));
	processes_stats(ps, &stats);
	assert_int_equal(stats.maps_read, 1);
	processes_free(ps);
}

static void collect_cpu(void *ctx, unsigned cpu, bool online)
{
	(void)online;
	*(uint64_t *)ctx |= 1ull << cpu;
}

static void cpu_lists_are_read(void **state)
{
	(void)state;
	struct {
		const char *text;
		int r;
		uint64_t cpus;
	} t[] = {
		{"0-3,8,10-11\n", 0, 0xd0f},
		{"0\n", 0, 1},
		{"", 0, 0},
		{"x\n", -EINVAL, 0},
		{"3-1\n", -EINVAL, 0},
		{"0-\n", -EINVAL, 0},
		{"0-4000000000\n", -EINVAL, 0},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t cpus = 0;
		assert_int_equal(cpus_parse(t[i].text, collect_cpu, &cpus), t[i].r);
		if (t[i].r == 0)
			assert_int_equal(cpus, t[i].cpus);
	}
}

static void word_of_cpus_is_told_apart(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t cpus;
	} t[] = {
		{"online@/devices/system/cpu/cpu3", 8},     {"offline@/devices/system/cpu/cpu2", 4},
		{"online@/devices/system/cpu/cpu99999", 0}, {"add@/module/ext4", 0},
		{"change@/devices/virtual/block/loop0", 0}, {"", 0},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t cpus = 0;
		cpus_event(t[i].text, collect_cpu, &cpus);
		assert_int_equal(cpus, t[i].cpus);
	}
}

/* Steps of a second of a CPU, at 100 Hz: what came and how long it idled, and what is missed by
 * then. */
static void ticks_that_an_idle_cpu_skips_are_not_missed(void **state)
{
	(void)state;
	enum { PERIOD = 10000000, STEPS = 4 };
	static const struct {
		const char *what;
		uint64_t came[STEPS], idle_ms[STEPS], missed[STEPS];
	} t[] = {
		{"busy", {100, 100, 100, 100}, {}, {}},
		{"busy, others ran for half of the second",
		 {100, 50, 100, 100},
		 {},
		 {0, 50, 50, 50}},
		{"idle throughout, most ticks skipped", {100, 3, 0, 1}, {0, 1000, 1000, 1000}, {}},
		{"half idle, those ticks skipped", {100, 50, 50, 50}, {0, 500, 500, 500}, {}},
		{"half idle, and 30 of the others did not come",
		 {100, 20, 20, 20},
		 {0, 500, 500, 500},
		 {0, 28, 56, 84}},
		{"idle, but no tick skipped", {100, 100, 100, 100}, {1000, 1000, 0, 0}, {}},
		{"one is on its way, and counts next time", {100, 101, 99, 100}, {}, {}},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		/* Others were sampled there before, and it had idled for long. */
		struct ticks_now now = {.came = 7777, .idle_ns = 123456789012};
		struct ticks ticks = {.idle_ns = now.idle_ns};
		uint64_t due = 0, missed = 0;
		ticks_begin(&ticks, now.came);
		now.came--; /* the one that is granted */
		for (int step = 0; step < STEPS; step++) {
			now.clock_ns += 1000000000;
			now.came += t[i].came[step];
			now.idle_ns += t[i].idle_ms[step] * 1000000;
			ticks_add(&ticks, PERIOD, &now, &due, &missed);
			if (missed != t[i].missed[step])
				fail_msg("%s, step %d: %llu missed", t[i].what, step,
					 (unsigned long long)missed);
		}
		assert_int_equal(due, 400);
	}
}

/* At 1,000 Hz: /proc/stat says how long a CPU idled in steps of ten of them. */
static void fast_ticks_of_an_idle_cpu_are_not_missed(void **state)
{
	(void)state;
	struct ticks ticks = {.idle_ns = 5000000000};
	uint64_t due = 0, missed = 0;

	ticks_begin(&ticks, 0);
	/* It idled for 119 ms of 200, of which 110 are told, and skipped as many ticks. */
	struct ticks_now now = {.clock_ns = 200000000, .came = 80, .idle_ns = 5110000000};
	ticks_add(&ticks, 1000000, &now, &due, &missed);
	assert_int_equal(due, 200);
	assert_int_equal(missed, 0);
	/* And here it ran, but for 10. */
	now = (struct ticks_now){.clock_ns = 400000000, .came = 80, .idle_ns = 5120000000};
	ticks_add(&ticks, 1000000, &now, &due, &missed);
	assert_int_equal(missed, 200 - 10 - 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_replaces_what_it_covers),
		cmocka_unit_test(memory_that_is_mapped_again_replaces_nothing),
		cmocka_unit_test(random_mappings_are_what_was_mapped_last),
		cmocka_unit_test(a_child_shares_until_it_maps),
		cmocka_unit_test(mappings_are_capped),
		cmocka_unit_test(events_keep_mappings_without_proc),
		cmocka_unit_test(a_fork_has_early_mappings_of_its_own),
		cmocka_unit_test(a_reused_pid_is_another_process),
		cmocka_unit_test(the_ended_are_forgotten),
		cmocka_unit_test(own_mappings_are_read),
		cmocka_unit_test(a_program_is_what_events_say_since_its_exec),
		cmocka_unit_test(cpu_lists_are_read),
		cmocka_unit_test(word_of_cpus_is_told_apart),
		cmocka_unit_test(ticks_that_an_idle_cpu_skips_are_not_missed),
		cmocka_unit_test(fast_ticks_of_an_idle_cpu_are_not_missed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
