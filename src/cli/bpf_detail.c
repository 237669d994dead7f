#include "cli/bpf_detail.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/bpf_table.h"
#include "cli/bpf_times.h"
#include "cli/bpf_where.h"
#include "cli/cli.h"
#include "collect/bpf_run_times.h"
#include "collect/kernel_samples.h"
#include "collect/probe.h"
#include "render/describe.h"

#define POLL_MS         1
#define DRAIN_MS        50
#define DUE_LEAST       20   /* samples: with fewer nothing can be said */
#define SEEN_WELL       0.25 /* of those due: of short runs, much is reading the clock */
#define NAMES_MAX       8    /* in a message */
#define KERNEL_ENOTSUPP 524  /* which user space has no name for */

struct detail {
	const struct bpf_detail_options *options;
	struct loop *loop;
	struct bpf_programs *programs;
	struct bpf_uses uses;
	struct loaded_program program; /* as of the last reading */
	struct kernel_samples *samples;
	struct bpf_where *where; /* NULL: see where_error */
	int where_error, samples_error;
	struct bpf_times *times;
	uint64_t until_ns;
	const char
		*no_each; /* why runs were not timed one by one; NULL: they were, or need not be */
	bool is_gone, is_ended;
	uint64_t lost; /* samples */
};

void bpf_detail_cannot(int err)
{
	struct probe_facts f;

	probe_facts_read(&f);
	if (err != -EPERM && err != -EACCES)
		log_error("cannot read the kernel's BPF programs: %s", strerror(-err));
	else if (!f.initial_users)
		log_error("cannot read the kernel's BPF programs: the capabilities of a user "
			  "namespace "
			  "do not reach the kernel; run it outside of it, as root on the host");
	else if (!(f.caps & 1ull << CAP_SYS_ADMIN))
		log_error(
			"cannot read the kernel's BPF programs: listing those of others and timing "
			"their runs needs CAP_SYS_ADMIN, which this process does not have; run "
			"'sudo %s'",
			f.command);
	else
		log_error("cannot read the kernel's BPF programs: the kernel refuses it (%s), by "
			  "lockdown or a seccomp filter",
			  strerror(-err));
}

/* ---- which ---------------------------------------------------------------------------------- */

static bool is_meant(const struct loaded_program *l, const char *word)
{
	char *end;
	unsigned long id = strtoul(word, &end, 10);

	if (*word && !*end && strlen(word) < sizeof(l->tag) - 1)
		return l->id == id;
	return strcmp(l->name, word) == 0 || strcmp(l->tag, word) == 0;
}

/* Whether someone has it open, or it is attached. The kernel takes its time to unload others. */
static bool is_used(const struct detail *d, uint32_t id)
{
	size_t owners, places;

	bpf_uses_owners(&d->uses, id, &owners);
	bpf_uses_places(&d->uses, id, &places);
	return owners || places;
}

/* How many are meant, and their ids; the last one is taken. */
static size_t choose(struct detail *d, bool used, char *ret_ids, size_t size)
{
	size_t count, found = 0;
	const struct loaded_program *list = bpf_programs_list(d->programs, &count);

	ret_ids[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		if (!is_meant(&list[i], d->options->program) || is_used(d, list[i].id) != used)
			continue;
		size_t n = strlen(ret_ids);
		if (found++ < NAMES_MAX)
			snprintf(ret_ids + n, size - n, "%s%u", n ? ", " : "", list[i].id);
		d->program = list[i];
	}
	return found;
}

/* 0, or 1 after reporting that there is none, or several. */
static int find_program(struct detail *d)
{
	const char *word = d->options->program;
	char ids[128];
	size_t found = choose(d, true, ids, sizeof(ids));

	if (!found)
		found = choose(d, false, ids, sizeof(ids));
	if (!found)
		log_error("there is no BPF program with the id, name or tag '%s'; 'smolder bpf -b "
			  "-n 1' lists those that are there",
			  word);
	else if (found > 1)
		log_error("%zu BPF programs are called '%s': give the id of one of them (%s%s)",
			  found, word, ids, found > NAMES_MAX ? ", …" : "");
	return found == 1 ? 0 : 1;
}

/* ---- looking at it -------------------------------------------------------------------------- */

static void on_poll(void *ctx, int what)
{
	struct detail *d = ctx;
	struct bpf_runs runs;
	int err = bpf_programs_runs(d->program.id, &runs);

	(void)what;
	if (err == 0)
		bpf_times_add(d->times, &runs);
	d->is_gone = err == -ENOENT;
	if (err)
		loop_stop(d->loop);
}

static void on_drain(void *ctx, int what)
{
	struct detail *d = ctx;

	(void)what;
	kernel_samples_drain(d->samples, bpf_where_sample, d->where);
}

static void on_end(void *ctx, int what)
{
	struct detail *d = ctx;

	d->is_ended = what != 0; /* by a signal, and not by the time */
	loop_stop(d->loop);
}

static void on_progress(void *ctx, int what)
{
	const struct detail *d = ctx;
	char doing[64];

	(void)what;
	snprintf(doing, sizeof(doing), "looking at BPF program %u", d->program.id);
	cli_progress(doing, 0, d->until_ns);
}

/* Until the time is up: 0, or 1 after reporting why not. */
static int wait(struct detail *d, bool first)
{
	d->until_ns = clock_ns(CLOCK_MONOTONIC) + d->options->duration_ms * 1000000;
	d->loop = loop_new();
	int err = loop_end_signals(d->loop, 0, on_end, d);
	if (first)
		err = err ? err : loop_timer(d->loop, POLL_MS, on_poll, d);
	if (first && d->samples)
		err = err ? err : loop_timer(d->loop, DRAIN_MS, on_drain, d);
	err = err ? err : loop_timer(d->loop, 500, on_progress, d);
	err = err ? err : loop_after(d->loop, d->options->duration_ms, on_end, d);
	err = err ? err : loop_run(d->loop);
	loop_free(TAKE_PTR(d->loop));
	log_progress_done();
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

static int look(struct detail *d)
{
	struct bpf_runs runs;

	d->where_error = bpf_where_new(d->program.id, &d->where);
	if (!d->where_error)
		d->samples_error = kernel_samples_new(d->options->frequency, &d->samples);
	if (bpf_programs_runs(d->program.id, &runs) == 0)
		bpf_times_add(d->times, &runs);
	int code = wait(d, true);
	if (d->samples) {
		on_drain(d, 0);
		d->lost = kernel_samples_lost(d->samples);
		kernel_samples_free(
			TAKE_PTR(d->samples)); /* they would be in the way of a second look */
	}
	return code;
}

/* Why each run cannot be timed. */
static const char *say_no_each(int err)
{
	switch (err) {
	case -ENODATA:
		return "the program came without types (clang -g)";
	case -EPERM:
	case -EACCES:
		return "this kernel lets nobody, not even root, attach to where "
		       "functions begin and end (fentry)";
	case -ENOTSUP:
	case -KERNEL_ENOTSUPP:
		return "this kernel was built without what attaches to where functions begin and "
		       "end (fentry)";
	case -EINVAL:
		return "the kernel attaches to no program of this type";
	case -EBUSY:
		return "someone else is attached to it";
	default:
		return strerror(-err);
	}
}

/* Another look, after the first, whose figures are not to be changed by it. 0, or 1. */
static int look_at_each(struct detail *d)
{
	struct bpf_run_times *each;
	int err = bpf_run_times_new(d->program.id, &each);

	if (err) {
		d->no_each = say_no_each(err);
		log_warn("--each: runs cannot be timed one by one, so means are shown: %s",
			 d->no_each);
		log_debug("attaching to program %u: %s", d->program.id, strerror(-err));
		return 0;
	}
	int code = wait(d, false);
	err = bpf_run_times_read(each, &d->times->each);
	d->times->has_each = !err;
	bpf_run_times_free(each);
	if (err)
		log_error("cannot read the times of runs: %s", strerror(-err));
	return code || err ? 1 : 0;
}

/* ---- what was seen -------------------------------------------------------------------------- */

static uint64_t samples_due(const struct detail *d)
{
	uint64_t ns = d->times->last.time_ns - d->times->first.time_ns;

	return ns * d->options->frequency / 1000000000;
}

/* Why samples say nothing, or not everything; NULL if they do. */
static const char *say_unseen(const struct detail *d, char *ret, size_t size)
{
	uint64_t due = samples_due(d), seen = d->where ? bpf_where_seen(d->where) : 0;

	if (d->where_error == -EOPNOTSUPP)
		return "The program is interpreted, not compiled: samples cannot tell it from "
		       "others.";
	if (d->where_error == -EACCES)
		return "The kernel hides the addresses of its code: set kernel.kptr_restrict to 0, "
		       "or "
		       "run it with CAP_SYSLOG.";
	if (d->where_error || d->samples_error) {
		snprintf(ret, size, "Samples could not be taken: %s.",
			 strerror(d->where_error ? -d->where_error : -d->samples_error));
		return ret;
	}
	if (due < DUE_LEAST && seen < DUE_LEAST)
		return "It ran too little for samples to tell where: look longer (-d), or take "
		       "more "
		       "of them (-F).";
	if ((double)seen >= SEEN_WELL * (double)due)
		return NULL;
	snprintf(ret, size,
		 "Samples do not see %s of it: where it is attached, it runs with interrupts off, "
		 "and "
		 "the clock that takes samples is an interrupt. What it costs is told above by the "
		 "kernel's own clock, and is right; where in the program is not known%s.",
		 seen ? "most" : "any", seen ? " but for the rest that was seen" : "");
	return ret;
}

static void print_facts(const struct detail *d)
{
	const struct loaded_program *l = &d->program;
	char text[BPF_TABLE_TEXT], amount[DESCRIBE_MAX];
	uint64_t age_ns = clock_ns(CLOCK_BOOTTIME) - l->loaded_ns;

	printf("BPF program %u: %s\n", l->id, l->name[0] ? l->name : "(without a name)");
	printf("  type         %s, tag %s\n", bpf_program_type(l->type, text), l->tag);
	printf("  attached to  %s\n", bpf_table_places(&d->uses, l->id, text));
	printf("  owner        %s\n", bpf_table_owners(&d->uses, l->id, text));
	printf("  loaded       %.0f s ago by user %u, ", (double)age_ns / 1e9, l->uid);
	if (l->code_bytes)
		printf("%u bytes of machine code\n", l->code_bytes);
	else
		puts("interpreted");
	for (uint32_t i = 0; i < l->map_count; i++) {
		const struct loaded_map *m = bpf_programs_map(d->programs, l->maps[i]);
		if (m)
			printf("  %-12s %s, %s (id %u)\n", i ? "" : "maps",
			       m->name[0] ? m->name : "(without a name)",
			       describe_amount(m->bytes, "bytes", amount), m->id);
	}
}

static void print_cost(const struct detail *d)
{
	const struct bpf_runs *from = &d->times->first, *to = &d->times->last;
	double seconds = (double)(to->at_ns - from->at_ns) / 1e9;
	uint64_t runs = to->count - from->count, misses = to->misses - from->misses;
	char amount[DESCRIBE_MAX];

	printf("\nIn %.1f s: %s", seconds, describe_quantity(runs, "runs", amount));
	if (runs)
		printf(", %s a second, %.0f ns each: %.3f %% of a CPU",
		       describe_amount((uint64_t)((double)runs / seconds), "", amount),
		       (double)(to->time_ns - from->time_ns) / (double)runs,
		       100 * bpf_runs_share(from, to));
	if (misses)
		printf("; %s did not happen, as it was already running there",
		       describe_quantity(misses, "runs", amount));
	putchar('\n');
}

static void print_text(const struct detail *d)
{
	char room[512];
	const char *unseen = say_unseen(d, room, sizeof(room));

	print_facts(d);
	print_cost(d);
	bpf_times_text(d->times, stdout);
	if (d->where) {
		printf("\nWhere the time goes: %llu samples of it, %llu due at %llu Hz",
		       (unsigned long long)bpf_where_seen(d->where),
		       (unsigned long long)samples_due(d),
		       (unsigned long long)d->options->frequency);
		if (d->lost)
			printf(", %llu lost", (unsigned long long)d->lost);
		putchar('\n');
	}
	if (unseen)
		printf("%s%s\n", d->where ? "" : "\n", unseen);
	if (d->where)
		bpf_where_text(d->where, d->programs, cli_terminal_columns(), stdout);
}

static void print_json(const struct detail *d)
{
	char room[512];
	const char *unseen = say_unseen(d, room, sizeof(room));
	json_t *o = bpf_table_row(&d->program, d->programs, &d->uses);
	json_t *samples = json_pack(
		"{s:I,s:I,s:I,s:I}", "frequency", (json_int_t)d->options->frequency, "due",
		(json_int_t)samples_due(d), "seen",
		(json_int_t)(d->where ? bpf_where_seen(d->where) : 0), "lost", (json_int_t)d->lost);

	json_object_set_new(
		o, "seconds",
		json_real((double)(d->times->last.at_ns - d->times->first.at_ns) / 1e9));
	json_object_set_new(o, "times", bpf_times_json(d->times));
	if (d->no_each)
		json_object_set_new(o, "not_each", json_string(d->no_each));
	if (unseen)
		json_object_set_new(samples, "unseen", json_string(unseen));
	json_object_set_new(o, "samples", samples);
	if (d->where)
		bpf_where_json(d->where, d->programs, o);
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
	putchar('\n');
	json_decref(o);
}

static int run(struct detail *d)
{
	int err = bpf_programs_new(&d->programs);

	err = err ? err : bpf_programs_read(d->programs);
	if (err) {
		bpf_detail_cannot(err);
		return 1;
	}
	bpf_uses_read(&d->uses);
	if (find_program(d) != 0 || look(d) != 0)
		return 1;
	if (d->options->each && !d->is_ended && !d->is_gone && look_at_each(d) != 0)
		return 1;
	if (d->is_gone)
		log_warn("the program was unloaded after %.1f s",
			 (double)(d->times->last.at_ns - d->times->first.at_ns) / 1e9);
	/* The row is about all of the time, the maps are as they are now. */
	d->program.first = d->program.last = d->times->first;
	d->program.now = d->times->last;
	d->program.most = (float)bpf_runs_share(&d->program.last, &d->program.now);
	for (unsigned i = 0; i < d->times->second_count; i++)
		d->program.most = MAX(d->program.most, d->times->seconds[i]);
	if (d->options->json)
		print_json(d);
	else
		print_text(d);
	return cli_printed();
}

int bpf_detail_run(const struct bpf_detail_options *o)
{
	struct detail d = {.options = o, .times = mem_alloc(sizeof(struct bpf_times))};
	int code = run(&d);

	loop_free(d.loop);
	kernel_samples_free(d.samples);
	bpf_where_free(d.where);
	bpf_uses_done(&d.uses);
	bpf_programs_free(d.programs);
	free(d.times);
	return code;
}
